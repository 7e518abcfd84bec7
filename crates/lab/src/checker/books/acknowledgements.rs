//! What the ends ask of each other's acknowledgements (draft-ietf-quic-ack-frequency), as seen on the wire.

use core::time::Duration;

use clearway_wire::TransportParameters;
use clearway_wire::frame::AckFrequency;

/// What the peer has asked of this end's ACK frames.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::checker) struct AckTerms {
    sequence: Option<u64>,
    /// How long they may be delayed, if the peer has asked for that.
    pub(in crate::checker) max_delay: Option<Duration>,
    /// How many packets may wait for one, if the peer has asked for that.
    pub(in crate::checker) threshold: Option<u64>,
}

impl AckTerms {
    /// An ACK_FREQUENCY frame came. Returns whether it is the newest so far: others are ignored (§4).
    pub(in crate::checker) fn on_frequency(&mut self, frame: &AckFrequency) -> bool {
        let sequence = frame.sequence.get();
        if self.sequence.is_some_and(|newest| sequence <= newest) {
            return false;
        }
        self.sequence = Some(sequence);
        self.max_delay = Some(Duration::from_micros(frame.max_ack_delay.get()));
        self.threshold = Some(frame.ack_eliciting_threshold.get());
        true
    }
}

/// A request of this end, in a packet that was not acknowledged yet.
#[derive(Clone, Copy, Debug)]
struct Request {
    packet: u64,
    sequence: u64,
    max_delay: Duration,
}

/// How the peer acknowledges: as its transport parameters say, or as this end has asked.
#[derive(Clone, Debug)]
pub(in crate::checker) struct PeerAcks {
    max_delay: Duration,
    delay_exponent: u32,
    requests: Vec<Request>,
}

impl Default for PeerAcks {
    /// Until the parameters are known (RFC 9000 §18.2).
    fn default() -> Self {
        Self { max_delay: Duration::from_millis(25), delay_exponent: 3, requests: Vec::new() }
    }
}

impl PeerAcks {
    /// As in `parameters`.
    pub(in crate::checker) fn of(parameters: &TransportParameters) -> Self {
        Self {
            max_delay: Duration::from_millis(parameters.max_ack_delay.get()),
            delay_exponent: parameters.ack_delay_exponent.get().min(20) as u32,
            requests: Vec::new(),
        }
    }

    /// How long the peer may delay an ACK frame: as long as it certainly does, or as it may because of a request that is
    /// not acknowledged yet (draft-ietf-quic-ack-frequency §7).
    pub(in crate::checker) fn max_delay(&self) -> Duration {
        self.requests.iter().map(|request| request.max_delay).fold(self.max_delay, Duration::max)
    }

    /// An ACK_FREQUENCY frame is in packet `packet`, which is being sent.
    pub(in crate::checker) fn on_requested(&mut self, packet: u64, frame: &AckFrequency) {
        let max_delay = Duration::from_micros(frame.max_ack_delay.get());
        self.requests.push(Request { packet, sequence: frame.sequence.get(), max_delay });
    }

    /// Packet `packet` of the Application space was acknowledged.
    pub(in crate::checker) fn on_acknowledged(&mut self, packet: u64) {
        let adopted = self.requests.iter().find(|request| request.packet == packet).copied();
        if let Some(adopted) = adopted {
            self.max_delay = adopted.max_delay;
            self.requests.retain(|request| request.sequence > adopted.sequence);
        }
    }

    /// The time in the ACK Delay field of a 1-RTT packet, as far as it counts (RFC 9002 §5.3).
    pub(in crate::checker) fn delay(&self, field: u64, is_confirmed: bool) -> Duration {
        let microseconds = field.checked_shl(self.delay_exponent).unwrap_or(u64::MAX);
        let delay = Duration::from_micros(microseconds);
        if is_confirmed { delay.min(self.max_delay()) } else { delay }
    }
}
