//! What this endpoint asks of the peer's acknowledgements (draft-ietf-quic-ack-frequency).

use core::time::Duration;

use clearway_wire::{EncodeError, Frame, TransportParameters, VarInt, frame};

use crate::contents::PacketContents;
use crate::token::Token;

/// The numbers of packets for which one ACK frame is requested, ascending.
const LEVELS: [u8; 4] = [EACH, USUAL, 5, 10];

/// An ACK frame for each packet. It is requested with an IMMEDIATE_ACK frame in each packet: an Ack-Eliciting Threshold of 0
/// has the same meaning (draft-ietf-quic-ack-frequency §4), but in its first versions it was invalid, and stacks still
/// close the connection because of it.
const EACH: u8 = 1;

/// The number of RFC 9000 §13.2.2, which needs no request.
const USUAL: u8 = 2;

/// A level is for windows that hold so many times its packets. HyStart++ needs eight round-trip times in a round (RFC 9406
/// §4.3), and half of a window may be in flight when it has just been reduced.
const ACKS_IN_A_WINDOW: u64 = 16;

/// A level is left when the window holds only so many times its packets: the windows of controllers go up and down.
const LEAST_ACKS_IN_A_WINDOW: u64 = 12;

/// An ACK frame is asked for at least so many times in a round trip.
const ACKS_IN_A_ROUND_TRIP: u32 = 4;

/// The delay is asked for anew when it is longer or shorter by this factor.
const RELEVANT_FACTOR: u32 = 2;

/// A delay in microseconds, as it is in the frames. It takes a quarter of the memory of a `Duration`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Micros(u32);

impl Micros {
    /// `delay`, rounded down; the longest that there is if it is longer, which is above an hour.
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
    packets: u8,
    max_ack_delay: Micros,
    reordering_threshold: u64,
}

impl Request {
    /// Whether `other` is different enough to ask for it instead.
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

/// The requests to the peer, and how long it may delay its acknowledgements meanwhile.
#[derive(Debug)]
pub(crate) struct AckFrequency {
    is_enabled: bool,
    /// The number of packets for which one ACK frame is requested.
    level: u8,
    /// The peer's `min_ack_delay`; `None` while it is not known to support the frames.
    least_delay: Option<Micros>,
    /// The peer's `max_ack_delay` transport parameter.
    usual_delay: Micros,
    /// Few connections send enough to ask for anything.
    asked: Option<Box<Asked>>,
}

/// The delivery of the newest request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Delivery {
    /// Its frame is to be sent, for the first time or again.
    Pending,
    /// Its frame is in flight.
    InFlight,
    /// Its frame was acknowledged.
    Acknowledged,
}

/// The requests to the peer so far.
#[derive(Debug)]
struct Asked {
    /// The newest request.
    request: Request,
    delivery: Delivery,
    /// The sequence number of the next frame: how many were sent.
    next_sequence: u64,
    /// The delay that the peer has certainly adopted: that of the newest frame that was acknowledged.
    adopted_delay: Micros,
    /// The longest delay in frames that are newer than that one.
    unsettled_delay: Micros,
}

impl Asked {
    fn new(request: Request, adopted_delay: Micros) -> Self {
        Self {
            request,
            delivery: Delivery::Pending,
            next_sequence: 0,
            adopted_delay,
            unsettled_delay: Micros(0),
        }
    }

    /// Whether the newest frame has this number.
    fn is_newest(&self, sequence: u64) -> bool {
        sequence.checked_add(1) == Some(self.next_sequence)
    }
}

impl AckFrequency {
    /// Nothing is known of the peer. Nothing is ever asked unless `is_enabled`.
    pub(crate) fn new(is_enabled: bool) -> Self {
        let usual_delay = Duration::from_millis(TransportParameters::default().max_ack_delay.get());
        let usual_delay = Micros::new(usual_delay);
        Self { is_enabled, level: USUAL, least_delay: None, usual_delay, asked: None }
    }

    /// Takes what the peer supports. These are the parameters of this handshake, never of an earlier one (§3).
    pub(crate) fn set_peer_parameters(&mut self, parameters: &TransportParameters) {
        self.usual_delay = Micros::new(Duration::from_millis(parameters.max_ack_delay.get()));
        let least = parameters.min_ack_delay.map(|delay| Duration::from_micros(delay.get()));
        self.least_delay = least.map(Micros::new);
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
        let asked = self.asked.as_ref();
        asked.map_or(self.usual_delay, |it| it.adopted_delay.max(it.unsettled_delay)).get()
    }

    /// Decides what to ask for on a path that is as in `facts`. A new request waits until the one before it was settled, so
    /// there is no more than one in a round trip.
    pub(crate) fn consider(&mut self, facts: &PathFacts) {
        let Some(least) = self.least_delay.filter(|_| self.is_enabled) else { return };
        // Where the peer's clock is coarser than the round trip, only its packet count can be relied on: nothing is asked
        // that could leave a round trip without an ACK frame (§8.1).
        let delivery = self.asked.as_ref().map(|asked| asked.delivery);
        if delivery == Some(Delivery::InFlight) || least.get() > facts.smoothed_rtt {
            return;
        }
        self.level = self.next_level(facts);
        let packets = self.level.max(USUAL);
        let is_usual =
            packets == USUAL && self.usual_delay.get() <= facts.smoothed_rtt.max(USUAL_DELAY);
        if self.asked.is_none() && is_usual {
            return;
        }
        let delay = facts.smoothed_rtt.checked_div(ACKS_IN_A_ROUND_TRIP).unwrap_or_default();
        let wanted = Request {
            packets,
            max_ack_delay: Micros::new(delay).min(self.usual_delay).max(least),
            reordering_threshold: facts.packet_threshold,
        };
        match &mut self.asked {
            Some(asked) if asked.request.differs(&wanted) => {
                asked.request = wanted;
                asked.delivery = Delivery::Pending;
            }
            Some(_) => {}
            None => self.asked = Some(Box::new(Asked::new(wanted, self.usual_delay))),
        }
    }

    /// The number of packets for which one ACK frame is requested on such a path.
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

    /// Whether an ACK_FREQUENCY frame is to be sent.
    pub(crate) fn has_pending(&self) -> bool {
        self.asked.as_ref().is_some_and(|asked| asked.delivery == Delivery::Pending)
    }

    /// Writes the ACK_FREQUENCY frame, if one is to be sent.
    pub(crate) fn write_frame(
        &mut self,
        contents: &mut PacketContents<'_, '_>,
    ) -> Result<(), EncodeError> {
        let Some(asked) = self.asked.as_mut().filter(|it| it.delivery == Delivery::Pending) else {
            return Ok(());
        };
        let sequence = asked.next_sequence;
        let frame = Frame::AckFrequency(asked.request.frame(sequence));
        contents.push(&frame, Some(Token::AckFrequency { sequence }))?;
        asked.next_sequence = sequence.saturating_add(1);
        asked.delivery = Delivery::InFlight;
        asked.unsettled_delay = asked.unsettled_delay.max(asked.request.max_ack_delay);
        Ok(())
    }

    /// An ACK_FREQUENCY frame was acknowledged, perhaps after it had been declared lost.
    pub(crate) fn on_acked(&mut self, sequence: u64) {
        let Some(asked) = &mut self.asked else { return };
        if asked.is_newest(sequence) && asked.delivery != Delivery::Pending {
            asked.delivery = Delivery::Acknowledged;
            asked.adopted_delay = asked.request.max_ack_delay;
            asked.unsettled_delay = Micros(0);
        }
    }

    /// An ACK_FREQUENCY frame was lost. What is asked for by then is sent with a new number (§4).
    pub(crate) fn on_lost(&mut self, sequence: u64) {
        if let Some(asked) = &mut self.asked
            && asked.delivery == Delivery::InFlight
            && asked.is_newest(sequence)
        {
            asked.delivery = Delivery::Pending;
        }
    }

    /// How many ACK_FREQUENCY frames were sent.
    pub(crate) fn sent(&self) -> u64 {
        self.asked.as_ref().map_or(0, |asked| asked.next_sequence)
    }
}

#[cfg(test)]
#[path = "ack_frequency_tests.rs"]
mod tests;
