use core::ops::RangeInclusive;
use core::time::Duration;
use std::collections::VecDeque;

use crate::read::{Lost, Packet, PacketSpace};

/// The maximum number of packets that are remembered. If there are more, the bytes in flight are
/// unknown.
const MAX_PACKETS: usize = 1 << 17;
/// The maximum number of lost packets that are remembered, to detect spurious losses.
const MAX_LOST: usize = 1 << 12;
/// The recommended packet threshold (RFC 9002 §6.1.1).
const REORDERING_THRESHOLD: u64 = 3;
/// Time after a loss within which a logged event may still be the cause of the loss: ngtcp2 logs
/// losses before the packet with the ACK frame that revealed them, and logs the round-trip time
/// after both.
const MOMENT: Duration = Duration::from_millis(1);

/// A packet that was sent in the application data packet number space.
#[derive(Clone, Copy, Debug)]
struct Sent {
    number: u64,
    at: Duration,
    length: u64,
    is_mtu_probe: bool,
    fate: Fate,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Outstanding,
    Acknowledged,
    Lost,
}

/// A packet that was declared lost.
#[derive(Clone, Copy, Debug)]
struct Declared {
    sent: Sent,
    at: Duration,
    /// Whether the packet was declared lost before either threshold of RFC 9002 §6.1 was reached.
    is_early: bool,
}

/// A packet that was acknowledged for the first time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Acknowledged {
    pub(super) number: u64,
    pub(super) sent: Duration,
    pub(super) length: u64,
    /// The time at which the packet was declared lost, if it was, and whether that was too early
    /// (RFC 9002 §6.1).
    pub(super) lost: Option<(Duration, bool)>,
    /// Whether the packet has the largest acknowledged packet number.
    pub(super) is_newest: bool,
}

/// A packet that was declared lost, or that RFC 9002 would have declared lost if the trace lacks losses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LostPacket {
    pub(super) sent: Duration,
    pub(super) length: u64,
    pub(super) is_mtu_probe: bool,
}

/// The packets of the application data packet number space that were sent and, according to the
/// trace, not yet acknowledged.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    packets: VecDeque<Sent>,
    lost: VecDeque<Declared>,
    largest_acknowledged: Option<u64>,
    /// The total size in bytes of outstanding ack-eliciting packets, and their number.
    bytes: u64,
    count: u64,
    /// The total number of packets that were sent.
    pub(super) sent_in_all: u64,
    rtt: Option<Duration>,
    has_loss_events: bool,
    /// Whether the bytes in flight are unknown, because a packet was logged without a length or
    /// there were too many packets.
    has_unknown_bytes: bool,
    /// The packets that were declared lost with the last event.
    pub(super) newly_lost: Vec<LostPacket>,
}

impl Ledger {
    pub(super) fn on_sent(&mut self, now: Duration, packet: &Packet) {
        let (Some(number), Some(PacketSpace::Application)) =
            (packet.number, packet.packet_type.space())
        else {
            return;
        };
        let is_eliciting = packet.is_ack_eliciting();
        self.sent_in_all = self.sent_in_all.saturating_add(1);
        if !is_eliciting {
            return;
        }
        self.has_unknown_bytes |= packet.length.is_none();
        let length = packet.length.unwrap_or_default();
        // Packet numbers only increase (RFC 9000 §12.3). If they do not increase in a trace, the
        // bytes in flight are unknown.
        if self.packets.back().is_some_and(|last| last.number >= number) {
            self.has_unknown_bytes = true;
            return;
        }
        if self.packets.len() >= MAX_PACKETS {
            self.has_unknown_bytes = true;
            self.drop_oldest();
        }
        self.bytes = self.bytes.saturating_add(length);
        self.count = self.count.saturating_add(1);
        self.packets.push_back(Sent {
            number,
            at: now,
            length,
            is_mtu_probe: packet.is_mtu_probe,
            fate: Fate::Outstanding,
        });
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.packets.pop_front()
            && oldest.fate == Fate::Outstanding
        {
            self.leave(oldest.length);
        }
    }

    fn leave(&mut self, length: u64) {
        self.bytes = self.bytes.saturating_sub(length);
        self.count = self.count.saturating_sub(1);
    }

    pub(super) fn on_ack(
        &mut self,
        now: Duration,
        space: PacketSpace,
        ranges: &[RangeInclusive<u64>],
        acknowledged: &mut Vec<Acknowledged>,
    ) {
        if space != PacketSpace::Application {
            return;
        }
        let before = self.largest_acknowledged;
        for range in ranges {
            self.acknowledge(range, before, acknowledged);
            self.acknowledge_lost(range, acknowledged);
            let largest = *range.end();
            self.largest_acknowledged =
                Some(self.largest_acknowledged.map_or(largest, |known| known.max(largest)));
        }
        self.reconsider(now);
        self.presume_losses(now);
        self.forget();
    }

    fn acknowledge(
        &mut self,
        range: &RangeInclusive<u64>,
        before: Option<u64>,
        acknowledged: &mut Vec<Acknowledged>,
    ) {
        let first = self.packets.partition_point(|sent| sent.number < *range.start());
        let (mut bytes, mut count): (u64, u64) = (0, 0);
        for sent in self.packets.range_mut(first..) {
            if sent.number > *range.end() {
                break;
            }
            if sent.fate == Fate::Outstanding {
                sent.fate = Fate::Acknowledged;
                bytes = bytes.saturating_add(sent.length);
                count = count.saturating_add(1);
                acknowledged.push(Acknowledged {
                    number: sent.number,
                    sent: sent.at,
                    length: sent.length,
                    lost: None,
                    is_newest: before.is_none_or(|before| sent.number > before),
                });
            }
        }
        self.bytes = self.bytes.saturating_sub(bytes);
        self.count = self.count.saturating_sub(count);
    }

    /// Handles an acknowledgment of packets that were declared lost.
    fn acknowledge_lost(
        &mut self,
        range: &RangeInclusive<u64>,
        acknowledged: &mut Vec<Acknowledged>,
    ) {
        let oldest = self.lost.front().map(|lost| lost.sent.number);
        if oldest.is_none_or(|oldest| oldest > *range.end()) {
            return;
        }
        self.lost.retain(|lost| {
            let is_acknowledged = range.contains(&lost.sent.number);
            if is_acknowledged {
                acknowledged.push(Acknowledged {
                    number: lost.sent.number,
                    sent: lost.sent.at,
                    length: lost.sent.length,
                    lost: Some((lost.at, lost.is_early)),
                    is_newest: false,
                });
            }
            !is_acknowledged
        });
    }

    /// Presumes losses if the stack does not log them: a stack that follows RFC 9002 §6.1 would
    /// have declared these packets lost by now.
    fn presume_losses(&mut self, now: Duration) {
        if self.has_loss_events {
            return;
        }
        let Some(largest) = self.largest_acknowledged else { return };
        let (mut bytes, mut count): (u64, u64) = (0, 0);
        let patience = self.rtt.map(|rtt| rtt.saturating_mul(2));
        for sent in &mut self.packets {
            if sent.number >= largest {
                break;
            }
            let is_overtaken = largest.saturating_sub(sent.number) >= REORDERING_THRESHOLD
                && patience.is_some_and(|patience| now.saturating_sub(sent.at) > patience);
            if sent.fate == Fate::Outstanding && is_overtaken {
                sent.fate = Fate::Lost;
                self.newly_lost.push(LostPacket {
                    sent: sent.at,
                    length: sent.length,
                    is_mtu_probe: sent.is_mtu_probe,
                });
                bytes = bytes.saturating_add(sent.length);
                count = count.saturating_add(1);
            }
        }
        self.bytes = self.bytes.saturating_sub(bytes);
        self.count = self.count.saturating_sub(count);
    }

    pub(super) fn on_lost(&mut self, now: Duration, lost: &Lost) {
        self.has_loss_events = true;
        let (Some(number), Some(PacketSpace::Application)) =
            (lost.number, lost.packet_type.space())
        else {
            return;
        };
        let place = self.packets.partition_point(|sent| sent.number < number);
        let Some(sent) = self.packets.get_mut(place).filter(|sent| sent.number == number) else {
            return;
        };
        if sent.fate == Fate::Acknowledged {
            return;
        }
        let was_outstanding = sent.fate == Fate::Outstanding;
        sent.fate = Fate::Lost;
        let sent = *sent;
        if was_outstanding {
            self.leave(sent.length);
        }
        let (length, is_mtu_probe) = (sent.length, sent.is_mtu_probe);
        self.newly_lost.push(LostPacket { sent: sent.at, length, is_mtu_probe });
        if self.lost.len() >= MAX_LOST {
            self.lost.pop_front();
        }
        if !sent.is_mtu_probe {
            let is_early = self.is_early(&sent, now);
            self.lost.push_back(Declared { sent, at: now, is_early });
        }
        self.forget();
    }

    /// Returns whether a packet that is declared lost at `at` is declared lost before either
    /// threshold of RFC 9002 §6.1 is reached, with a tolerance of 10 %.
    fn is_early(&self, sent: &Sent, at: Duration) -> bool {
        let (Some(largest), Some(rtt)) = (self.largest_acknowledged, self.rtt) else {
            return false;
        };
        let is_overtaken = largest.saturating_sub(sent.number) >= REORDERING_THRESHOLD;
        !is_overtaken && at.saturating_sub(sent.at) < rtt
    }

    /// Checks again whether recent losses were declared too early, after more events were logged
    /// with the same time.
    fn reconsider(&mut self, now: Duration) {
        for index in (0..self.lost.len()).rev() {
            let Some(lost) = self.lost.get(index).copied() else { return };
            if lost.at.saturating_add(MOMENT) < now {
                return;
            }
            let is_early = lost.is_early && self.is_early(&lost.sent, lost.at);
            if let Some(lost) = self.lost.get_mut(index) {
                lost.is_early = is_early;
            }
        }
    }

    /// Removes the oldest packets, up to the first outstanding one.
    fn forget(&mut self) {
        while self.packets.front().is_some_and(|sent| sent.fate != Fate::Outstanding) {
            self.packets.pop_front();
        }
    }

    pub(super) fn set_rtt(&mut self, now: Duration, rtt: Duration) {
        self.rtt = Some(rtt);
        self.reconsider(now);
    }

    /// Returns whether the trace contains the peer's acknowledgments.
    pub(super) const fn knows_acks(&self) -> bool {
        self.largest_acknowledged.is_some()
    }

    pub(super) const fn has_loss_events(&self) -> bool {
        self.has_loss_events
    }

    /// Returns the total size in bytes of the outstanding ack-eliciting packets. `None` if the
    /// trace lacks this information.
    pub(super) const fn bytes(&self) -> Option<u64> {
        if self.has_unknown_bytes || !self.knows_acks() { None } else { Some(self.bytes) }
    }

    /// Returns the number of outstanding ack-eliciting packets.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }
}
