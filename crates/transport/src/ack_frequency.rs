//! Requests for the peer's acknowledgment frequency (draft-ietf-quic-ack-frequency).

use core::time::Duration;

use clearway_wire::{EncodeError, Frame, TransportParameters, VarInt, frame};

use crate::contents::PacketContents;
use crate::token::Token;

/// The numbers of packets per ACK frame that can be requested, ascending.
const LEVELS: [u8; 4] = [EACH, USUAL, 5, 10];

/// An ACK frame for each packet. It is requested with an IMMEDIATE_ACK frame in each packet: an
/// Ack-Eliciting Threshold of 0 has the same meaning (draft-ietf-quic-ack-frequency §4), but it was
/// invalid in the first versions of the draft, and some stacks still close the connection because
/// of it.
const EACH: u8 = 1;

/// The number of packets per ACK frame in RFC 9000 §13.2.2, which needs no request.
const USUAL: u8 = 2;

/// A higher threshold is requested only if a congestion window then still contains at least this
/// many ACK frames. HyStart++ needs eight RTT samples per round (RFC 9406 §4.3), and half a window
/// may be in flight just after a reduction.
const ACKS_IN_A_WINDOW: u64 = 16;

/// The number of ACK frames per window below which a lower threshold is requested. Less than
/// [`ACKS_IN_A_WINDOW`], since congestion windows fluctuate.
const LEAST_ACKS_IN_A_WINDOW: u64 = 12;

/// Minimum number of ACK frames requested per round trip.
const ACKS_IN_A_ROUND_TRIP: u32 = 4;

/// A new delay is requested only if it differs from the current one by at least this factor.
const RELEVANT_FACTOR: u32 = 2;

/// A delay in microseconds, as encoded in the frames. It takes a quarter of the memory of a
/// `Duration`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Micros(u32);

impl Micros {
    /// Rounds `delay` down to microseconds, saturating at the maximum (over an hour).
    fn new(delay: Duration) -> Self {
        Self(u32::try_from(delay.as_micros()).unwrap_or(u32::MAX))
    }

    fn get(self) -> Duration {
        Duration::from_micros(self.0.into())
    }

    fn is_much_longer(self, than: Self) -> bool {
        self.0 >= than.0.saturating_mul(RELEVANT_FACTOR)
    }
}

/// The default `max_ack_delay` (RFC 9000 §18.2). A delay up to this is not worth a separate frame.
const USUAL_DELAY: Duration = Duration::from_millis(25);

/// The path state that the policy depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PathFacts {
    /// The congestion window, in datagrams.
    pub(crate) window: u64,
    /// Whether slow start has ended and there is more data than the window allows, in which case
    /// most packets are sent on receipt of an ACK frame.
    pub(crate) is_ack_clocked: bool,
    /// The smoothed round-trip time.
    pub(crate) smoothed_rtt: Duration,
    /// The packet threshold for loss detection (RFC 9002 §6.1.1).
    pub(crate) packet_threshold: u64,
}

/// The contents of an ACK_FREQUENCY frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Request {
    /// The number of ack-eliciting packets that triggers an immediate ACK frame, at least
    /// [`USUAL`].
    packets: u8,
    max_ack_delay: Micros,
    reordering_threshold: u64,
}

impl Request {
    /// Returns whether `other` differs enough to be worth requesting instead.
    fn differs(&self, other: &Self) -> bool {
        self.packets != other.packets
            || self.reordering_threshold != other.reordering_threshold
            || self.max_ack_delay.is_much_longer(other.max_ack_delay)
            || other.max_ack_delay.is_much_longer(self.max_ack_delay)
    }

    fn frame(&self, sequence: u64) -> frame::AckFrequency {
        frame::AckFrequency {
            sequence: VarInt::saturating(sequence),
            ack_eliciting_threshold: VarInt::saturating(self.packets.saturating_sub(1).into()),
            max_ack_delay: VarInt::saturating(self.max_ack_delay.0.into()),
            reordering_threshold: VarInt::saturating(self.reordering_threshold),
        }
    }
}

/// The requests sent to the peer, and how long it may delay acknowledgments in the meantime.
#[derive(Debug)]
pub(crate) struct AckFrequency {
    is_enabled: bool,
    /// The number of packets per ACK frame that is requested.
    level: u8,
    /// The peer's `min_ack_delay`; `None` until the peer is known to support the frames.
    least_delay: Option<Micros>,
    /// The peer's `max_ack_delay` transport parameter.
    usual_delay: Micros,
    /// The requests so far. Boxed because few connections send enough to request anything.
    requests: Option<Box<Requests>>,
}

/// The delivery state of the newest request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Delivery {
    /// The frame has to be sent, for the first time or again.
    Pending,
    /// The frame is in flight.
    InFlight,
    /// The frame was acknowledged.
    Acknowledged,
}

/// The requests sent to the peer so far.
#[derive(Debug)]
struct Requests {
    /// The newest request.
    request: Request,
    delivery: Delivery,
    /// The sequence number of the next frame, which is also the number of frames sent.
    next_sequence: u64,
    /// The delay that the peer has certainly adopted: that of the newest acknowledged frame.
    adopted_delay: Micros,
    /// The longest delay requested in newer frames.
    unsettled_delay: Micros,
}

impl Requests {
    fn new(request: Request, adopted_delay: Micros) -> Self {
        Self {
            request,
            delivery: Delivery::Pending,
            next_sequence: 0,
            adopted_delay,
            unsettled_delay: Micros(0),
        }
    }

    /// Returns whether the newest frame has this sequence number.
    fn is_newest(&self, sequence: u64) -> bool {
        sequence.checked_add(1) == Some(self.next_sequence)
    }
}

impl AckFrequency {
    /// Creates the state before the peer's parameters are known. If `is_enabled` is false, nothing
    /// is ever requested.
    pub(crate) fn new(is_enabled: bool) -> Self {
        let usual_delay = Duration::from_millis(TransportParameters::default().max_ack_delay.get());
        let usual_delay = Micros::new(usual_delay);
        Self { is_enabled, level: USUAL, least_delay: None, usual_delay, requests: None }
    }

    /// Sets the peer's parameters. They must come from this handshake, never from an earlier one
    /// (§3).
    pub(crate) fn set_peer_parameters(&mut self, parameters: &TransportParameters) {
        self.usual_delay = Micros::new(Duration::from_millis(parameters.max_ack_delay.get()));
        let least = parameters.min_ack_delay.map(|delay| Duration::from_micros(delay.get()));
        self.least_delay = least.map(Micros::new);
    }

    /// Returns whether ACK_FREQUENCY and IMMEDIATE_ACK frames are sent.
    pub(crate) fn is_used(&self) -> bool {
        self.is_enabled && self.least_delay.is_some()
    }

    /// Returns whether each packet with data should contain an IMMEDIATE_ACK frame.
    pub(crate) fn wants_each_acknowledged(&self) -> bool {
        self.is_used() && self.level == EACH
    }

    /// Returns how long the peer may delay an acknowledgment: the longest of the adopted delay and
    /// the delays requested in frames that are in flight or may have arrived (§7).
    pub(crate) fn max_ack_delay(&self) -> Duration {
        let requests = self.requests.as_ref();
        requests.map_or(self.usual_delay, |it| it.adopted_delay.max(it.unsettled_delay)).get()
    }

    /// Decides what to request on a path with these `facts`. A new request waits until the previous
    /// one is acknowledged or lost, so there is at most one per round trip.
    pub(crate) fn consider(&mut self, facts: &PathFacts) {
        let Some(least) = self.least_delay.filter(|_| self.is_enabled) else { return };
        // If the peer's clock is coarser than the round trip, only its packet count can be relied
        // on. Nothing is requested then that could leave a round trip without an ACK frame (§8.1).
        let delivery = self.requests.as_ref().map(|requests| requests.delivery);
        if delivery == Some(Delivery::InFlight) || least.get() > facts.smoothed_rtt {
            return;
        }
        self.level = self.next_level(facts);
        let packets = self.level.max(USUAL);
        let is_usual =
            packets == USUAL && self.usual_delay.get() <= facts.smoothed_rtt.max(USUAL_DELAY);
        if self.requests.is_none() && is_usual {
            return;
        }
        let delay = facts.smoothed_rtt.checked_div(ACKS_IN_A_ROUND_TRIP).unwrap_or_default();
        let wanted = Request {
            packets,
            max_ack_delay: Micros::new(delay).min(self.usual_delay).max(least),
            reordering_threshold: facts.packet_threshold,
        };
        match &mut self.requests {
            Some(requests) if requests.request.differs(&wanted) => {
                requests.request = wanted;
                requests.delivery = Delivery::Pending;
            }
            Some(_) => {}
            None => self.requests = Some(Box::new(Requests::new(wanted, self.usual_delay))),
        }
    }

    /// Returns the number of packets per ACK frame to request on a path with these `facts`.
    fn next_level(&self, facts: &PathFacts) -> u8 {
        let permitted = |packets: u8| {
            let is_higher = packets > self.level;
            let acks = if is_higher { ACKS_IN_A_WINDOW } else { LEAST_ACKS_IN_A_WINDOW };
            u64::from(packets).saturating_mul(acks) <= facts.window
        };
        let least = if facts.is_ack_clocked { EACH } else { USUAL };
        let highest = LEVELS.into_iter().rev().find(|packets| permitted(*packets));
        highest.unwrap_or(EACH).max(least)
    }

    /// Returns whether an ACK_FREQUENCY frame has to be sent.
    pub(crate) fn has_pending(&self) -> bool {
        self.requests.as_ref().is_some_and(|requests| requests.delivery == Delivery::Pending)
    }

    /// Writes the ACK_FREQUENCY frame, if there is one to send.
    pub(crate) fn write_frame(
        &mut self,
        contents: &mut PacketContents<'_, '_>,
    ) -> Result<(), EncodeError> {
        let Some(requests) = self.requests.as_mut().filter(|it| it.delivery == Delivery::Pending)
        else {
            return Ok(());
        };
        let sequence = requests.next_sequence;
        let frame = Frame::AckFrequency(requests.request.frame(sequence));
        contents.push(&frame, Some(Token::AckFrequency { sequence }))?;
        requests.next_sequence = sequence.saturating_add(1);
        requests.delivery = Delivery::InFlight;
        requests.unsettled_delay = requests.unsettled_delay.max(requests.request.max_ack_delay);
        Ok(())
    }

    /// Handles the acknowledgment of an ACK_FREQUENCY frame, which may have been declared lost
    /// before.
    pub(crate) fn on_acked(&mut self, sequence: u64) {
        let Some(requests) = &mut self.requests else { return };
        if requests.is_newest(sequence) && requests.delivery != Delivery::Pending {
            requests.delivery = Delivery::Acknowledged;
            requests.adopted_delay = requests.request.max_ack_delay;
            requests.unsettled_delay = Micros(0);
        }
    }

    /// Handles the loss of an ACK_FREQUENCY frame. The current request is retransmitted with a new
    /// sequence number (§4).
    pub(crate) fn on_lost(&mut self, sequence: u64) {
        if let Some(requests) = &mut self.requests
            && requests.delivery == Delivery::InFlight
            && requests.is_newest(sequence)
        {
            requests.delivery = Delivery::Pending;
        }
    }

    /// Returns the number of ACK_FREQUENCY frames sent.
    pub(crate) fn sent(&self) -> u64 {
        self.requests.as_ref().map_or(0, |requests| requests.next_sequence)
    }
}

#[cfg(test)]
#[path = "ack_frequency_tests.rs"]
mod tests;
