//! The endpoints' requests that affect each other's acknowledgments
//! (draft-ietf-quic-ack-frequency), as seen on the wire.

use core::time::Duration;

use clearway_wire::TransportParameters;
use clearway_wire::frame::AckFrequency;

/// The peer's requests that affect this endpoint's ACK frames.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::checker) struct AckRequests {
    sequence: Option<u64>,
    /// The maximum ACK delay, if the peer has requested one.
    pub(in crate::checker) max_delay: Option<Duration>,
    /// The ack-eliciting threshold, if the peer has requested one.
    pub(in crate::checker) threshold: Option<u64>,
}

impl AckRequests {
    /// Processes a received ACK_FREQUENCY frame. Returns whether it is the newest so far; older
    /// frames are ignored (§4).
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

/// A request from this endpoint, in a packet that has not been acknowledged yet.
#[derive(Clone, Copy, Debug)]
struct Request {
    packet: u64,
    sequence: u64,
    max_delay: Duration,
}

/// The peer's ACK settings: the values in its transport parameters, or those that this endpoint has
/// requested.
#[derive(Clone, Debug)]
pub(in crate::checker) struct PeerAcks {
    max_delay: Duration,
    delay_exponent: u32,
    requests: Vec<Request>,
}

impl Default for PeerAcks {
    /// Returns the default settings, which apply until the parameters are known (RFC 9000 §18.2).
    fn default() -> Self {
        Self { max_delay: Duration::from_millis(25), delay_exponent: 3, requests: Vec::new() }
    }
}

impl PeerAcks {
    /// Returns the settings in `parameters`.
    pub(in crate::checker) fn of(parameters: &TransportParameters) -> Self {
        Self {
            max_delay: Duration::from_millis(parameters.max_ack_delay.get()),
            delay_exponent: parameters.ack_delay_exponent.get().min(20) as u32,
            requests: Vec::new(),
        }
    }

    /// Returns how long the peer may delay an ACK frame: the maximum of the delay in effect and the
    /// delays in unacknowledged requests (draft-ietf-quic-ack-frequency §7).
    pub(in crate::checker) fn max_delay(&self) -> Duration {
        self.requests.iter().map(|request| request.max_delay).fold(self.max_delay, Duration::max)
    }

    /// Records an ACK_FREQUENCY frame that is being sent in packet `packet`.
    pub(in crate::checker) fn on_requested(&mut self, packet: u64, frame: &AckFrequency) {
        let max_delay = Duration::from_micros(frame.max_ack_delay.get());
        self.requests.push(Request { packet, sequence: frame.sequence.get(), max_delay });
    }

    /// Processes the acknowledgment of packet `packet` in the application data space.
    pub(in crate::checker) fn on_acknowledged(&mut self, packet: u64) {
        let adopted = self.requests.iter().find(|request| request.packet == packet).copied();
        if let Some(adopted) = adopted {
            self.max_delay = adopted.max_delay;
            self.requests.retain(|request| request.sequence > adopted.sequence);
        }
    }

    /// Returns the effective ACK delay from a 1-RTT packet's ACK Delay field (RFC 9002 §5.3).
    pub(in crate::checker) fn delay(&self, field: u64, is_confirmed: bool) -> Duration {
        let microseconds = field.checked_shl(self.delay_exponent).unwrap_or(u64::MAX);
        let delay = Duration::from_micros(microseconds);
        if is_confirmed { delay.min(self.max_delay()) } else { delay }
    }
}
