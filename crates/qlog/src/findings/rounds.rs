use core::time::Duration;

use super::ledger::Acknowledged;
use crate::read::{Packet, PacketSpace};

/// A packet-timed round: it lasts until the first packet that is sent after its beginning is
/// acknowledged. If the trace has no acknowledgments, it lasts one smoothed round-trip time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Round {
    pub(super) began: Duration,
    pub(super) ended: Duration,
    /// Whether a packet was declared lost in the round, or the peer reported new ECN-CE marks.
    pub(super) had_congestion: bool,
    /// Whether the window or the pacer limited sending at some point in the round, and there was
    /// data to send throughout.
    pub(super) is_held: bool,
    /// The congestion window at the beginning and at the end of the round.
    pub(super) window_before: Option<u64>,
    pub(super) window_after: Option<u64>,
}

impl Round {
    /// Returns whether nothing was lost or marked and data was waiting, in which case the window
    /// must grow (L1).
    pub(super) const fn is_clean_and_held(&self) -> bool {
        !self.had_congestion && self.is_held
    }

    pub(super) const fn length(&self) -> Duration {
        self.ended.saturating_sub(self.began)
    }
}

/// The current state of the connection that rounds depend on.
pub(super) struct Present {
    pub(super) now: Duration,
    pub(super) is_held: bool,
    pub(super) is_waiting_for_data: bool,
    pub(super) has_congestion: bool,
    pub(super) window: Option<u64>,
    pub(super) rtt: Option<Duration>,
    pub(super) knows_acks: bool,
}

/// Counts rounds.
#[derive(Clone, Debug, Default)]
pub(super) struct Rounds {
    pub(super) count: u64,
    next_number: u64,
    /// The smallest packet number whose acknowledgment ends the round.
    end_number: u64,
    began: Duration,
    had_congestion: bool,
    was_held: bool,
    waited_for_data: bool,
    window_before: Option<u64>,
}

impl Rounds {
    pub(super) fn on_sent(&mut self, packet: &Packet) {
        if packet.packet_type.space() == Some(PacketSpace::Application)
            && let Some(number) = packet.number
        {
            self.next_number = self.next_number.max(number.saturating_add(1));
        }
    }

    pub(super) fn update(
        &mut self,
        present: &Present,
        acknowledged: &[Acknowledged],
    ) -> Option<Round> {
        self.had_congestion |= present.has_congestion;
        self.was_held |= present.is_held;
        self.waited_for_data |= present.is_waiting_for_data;
        let has_ended = if present.knows_acks {
            acknowledged.iter().any(|packet| packet.number >= self.end_number)
        } else {
            present.rtt.is_some_and(|rtt| present.now.saturating_sub(self.began) >= rtt)
        };
        if !has_ended {
            return None;
        }
        let round = Round {
            began: self.began,
            ended: present.now,
            had_congestion: self.had_congestion,
            is_held: self.was_held && !self.waited_for_data,
            window_before: self.window_before,
            window_after: present.window,
        };
        self.count = self.count.saturating_add(1);
        self.end_number = self.next_number;
        self.began = present.now;
        self.had_congestion = false;
        self.was_held = present.is_held;
        self.waited_for_data = present.is_waiting_for_data;
        self.window_before = present.window;
        Some(round)
    }
}
