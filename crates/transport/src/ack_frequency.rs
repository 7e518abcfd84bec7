//! What this endpoint asks of the peer's acknowledgements (draft-ietf-quic-ack-frequency).

use core::time::Duration;

use clearway_wire::{EncodeError, Frame, TransportParameters, VarInt, frame};

use crate::contents::PacketContents;
use crate::token::Token;

/// The numbers of packets for which one ACK frame is requested, ascending.
const LEVELS: [u64; 4] = [EACH, USUAL, 5, 10];

/// An ACK frame for each packet. It is requested with an IMMEDIATE_ACK frame in each packet: an Ack-Eliciting Threshold of 0
/// has the same meaning (draft-ietf-quic-ack-frequency §4), but in its first versions it was invalid, and stacks still
/// close the connection because of it.
const EACH: u64 = 1;

/// The number of RFC 9000 §13.2.2, which needs no request.
const USUAL: u64 = 2;

/// A level is for windows that hold so many times its packets. HyStart++ needs eight round-trip times in a round (RFC 9406
/// §4.3), and half of a window may be in flight when it has just been reduced.
const ACKS_IN_A_WINDOW: u64 = 16;

/// A level is left when the window holds only so many times its packets: the windows of controllers go up and down.
const LEAST_ACKS_IN_A_WINDOW: u64 = 12;

/// An ACK frame is asked for at least so many times in a round trip.
const ACKS_IN_A_ROUND_TRIP: u32 = 4;

/// The delay is asked for anew when it is longer or shorter by this factor.
const RELEVANT_FACTOR: u32 = 2;

/// A delay up to the default of RFC 9000 §18.2 is not worth a frame of its own.
const USUAL_DELAY: Duration = Duration::from_millis(25);

/// What the policy depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PathFacts {
    /// The congestion window, in datagrams.
    pub(crate) window: u64,
    /// Slow start has ended and there is more data than the window permits: most packets are sent when an ACK frame permits
    /// it.
    pub(crate) is_ack_clocked: bool,
    /// The smoothed round-trip time.
    pub(crate) smoothed_rtt: Duration,
    /// The reordering, in packets, from which on a packet is lost (RFC 9002 §6.1.1).
    pub(crate) packet_threshold: u64,
}

/// The contents of an ACK_FREQUENCY frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Request {
    /// The number of ack-eliciting packets with which an ACK frame is sent at once, at least [`USUAL`].
    packets: u64,
    max_ack_delay: Duration,
    reordering_threshold: u64,
}

impl Request {
    /// Whether `other` is different enough to ask for it instead.
    fn differs(&self, other: &Self) -> bool {
        self.packets != other.packets
            || self.reordering_threshold != other.reordering_threshold
            || self.max_ack_delay >= other.max_ack_delay.saturating_mul(RELEVANT_FACTOR)
            || other.max_ack_delay >= self.max_ack_delay.saturating_mul(RELEVANT_FACTOR)
    }

    fn frame(&self, sequence: u64) -> frame::AckFrequency {
        let microseconds = u64::try_from(self.max_ack_delay.as_micros()).unwrap_or(u64::MAX);
        frame::AckFrequency {
            sequence: VarInt::saturating(sequence),
            ack_eliciting_threshold: VarInt::saturating(self.packets.saturating_sub(1)),
            max_ack_delay: VarInt::saturating(microseconds),
            reordering_threshold: VarInt::saturating(self.reordering_threshold),
        }
    }
}

/// The requests to the peer, and how long it may delay its acknowledgements meanwhile.
#[derive(Debug)]
pub(crate) struct AckFrequency {
    is_enabled: bool,
    /// The peer's `min_ack_delay`; `None` while it is not known to support the frames.
    least_delay: Option<Duration>,
    /// The peer's `max_ack_delay` transport parameter.
    usual_delay: Duration,
    /// The number of packets for which one ACK frame is requested.
    level: u64,
    /// The newest request, and whether it is to be sent.
    request: Option<Request>,
    is_pending: bool,
    /// The sequence number of the newest frame, while it is in flight.
    in_flight: Option<u64>,
    next_sequence: u64,
    /// The delay that the peer has certainly adopted: that of the newest frame that was acknowledged.
    adopted_delay: Duration,
    /// The longest delay in frames that are newer than that one.
    unsettled_delay: Duration,
    sent: u64,
}

impl AckFrequency {
    /// Nothing is known of the peer. Nothing is ever asked unless `is_enabled`.
    pub(crate) fn new(is_enabled: bool) -> Self {
        let usual_delay = Duration::from_millis(TransportParameters::default().max_ack_delay.get());
        Self {
            is_enabled,
            least_delay: None,
            usual_delay,
            level: USUAL,
            request: None,
            is_pending: false,
            in_flight: None,
            next_sequence: 0,
            adopted_delay: usual_delay,
            unsettled_delay: Duration::ZERO,
            sent: 0,
        }
    }

    /// Takes what the peer supports. These are the parameters of this handshake, never of an earlier one (§3).
    pub(crate) fn set_peer_parameters(&mut self, parameters: &TransportParameters) {
        self.usual_delay = Duration::from_millis(parameters.max_ack_delay.get());
        self.adopted_delay = self.usual_delay;
        self.least_delay = parameters.min_ack_delay.map(|delay| Duration::from_micros(delay.get()));
    }

    /// Whether ACK_FREQUENCY and IMMEDIATE_ACK frames are sent.
    pub(crate) fn is_used(&self) -> bool {
        self.is_enabled && self.least_delay.is_some()
    }

    /// Whether each packet with data is to have an IMMEDIATE_ACK frame.
    pub(crate) fn wants_each_acknowledged(&self) -> bool {
        self.is_used() && self.level == EACH
    }

    /// How long the peer may delay an acknowledgement: the longest of the delay that it has adopted and those that are in
    /// flight or may have arrived (§7).
    pub(crate) fn max_ack_delay(&self) -> Duration {
        self.adopted_delay.max(self.unsettled_delay)
    }

    /// Decides what to ask for on a path that is as in `facts`. A new request waits until the one before it was settled, so
    /// there is no more than one in a round trip.
    pub(crate) fn consider(&mut self, facts: &PathFacts) {
        let Some(least) = self.least_delay.filter(|_| self.is_enabled) else { return };
        // Where the peer's clock is coarser than the round trip, only its packet count can be relied on: nothing is asked
        // that could leave a round trip without an ACK frame (§8.1).
        if self.in_flight.is_some() || least > facts.smoothed_rtt {
            return;
        }
        self.level = self.next_level(facts);
        let packets = self.level.max(USUAL);
        let is_usual = packets == USUAL && self.usual_delay <= facts.smoothed_rtt.max(USUAL_DELAY);
        if self.request.is_none() && is_usual {
            return;
        }
        let delay = facts.smoothed_rtt.checked_div(ACKS_IN_A_ROUND_TRIP).unwrap_or_default();
        let wanted = Request {
            packets,
            max_ack_delay: delay.min(self.usual_delay).max(least),
            reordering_threshold: facts.packet_threshold,
        };
        if self.request.is_none_or(|request| request.differs(&wanted)) {
            self.request = Some(wanted);
            self.is_pending = true;
        }
    }

    /// The number of packets for which one ACK frame is requested on such a path.
    fn next_level(&self, facts: &PathFacts) -> u64 {
        let permitted = |packets: u64| {
            let is_higher = packets > self.level;
            let acks = if is_higher { ACKS_IN_A_WINDOW } else { LEAST_ACKS_IN_A_WINDOW };
            packets.saturating_mul(acks) <= facts.window
        };
        let least = if facts.is_ack_clocked { EACH } else { USUAL };
        let highest = LEVELS.into_iter().rev().find(|packets| permitted(*packets));
        highest.unwrap_or(EACH).max(least)
    }

    /// Whether an ACK_FREQUENCY frame is to be sent.
    pub(crate) fn has_pending(&self) -> bool {
        self.is_pending
    }

    /// Writes the ACK_FREQUENCY frame, if one is to be sent.
    pub(crate) fn write_frame(
        &mut self,
        contents: &mut PacketContents<'_, '_>,
    ) -> Result<(), EncodeError> {
        let Some(request) = self.request.filter(|_| self.is_pending) else { return Ok(()) };
        let sequence = self.next_sequence;
        let frame = Frame::AckFrequency(request.frame(sequence));
        contents.push(&frame, Some(Token::AckFrequency { sequence }))?;
        self.next_sequence = sequence.saturating_add(1);
        self.is_pending = false;
        self.in_flight = Some(sequence);
        self.unsettled_delay = self.unsettled_delay.max(request.max_ack_delay);
        self.sent = self.sent.saturating_add(1);
        Ok(())
    }

    /// An ACK_FREQUENCY frame was acknowledged, perhaps after it had been declared lost.
    pub(crate) fn on_acked(&mut self, sequence: u64) {
        let is_newest = sequence.checked_add(1) == Some(self.next_sequence);
        if let Some(request) = self.request.filter(|_| is_newest && !self.is_pending) {
            self.in_flight = None;
            self.adopted_delay = request.max_ack_delay;
            self.unsettled_delay = Duration::ZERO;
        }
    }

    /// An ACK_FREQUENCY frame was lost. What is asked for by then is sent with a new number (§4).
    pub(crate) fn on_lost(&mut self, sequence: u64) {
        if self.in_flight == Some(sequence) {
            self.in_flight = None;
            self.is_pending = true;
        }
    }

    /// How many ACK_FREQUENCY frames were sent.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }
}

#[cfg(test)]
#[path = "ack_frequency_tests.rs"]
mod tests;
