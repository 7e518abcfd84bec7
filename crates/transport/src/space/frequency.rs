use core::time::Duration;

use clearway_wire::{TransportErrorCode, frame};

use crate::TransportError;

/// Values of `max_ack_delay` from this one on are invalid (RFC 9000 §18.2).
const INVALID_DELAY: Duration = Duration::from_millis(1 << 14);

/// The fraction of the maximum delay after which the ACK timer is set; the rest (5 of 25 ms) allows
/// for timers that fire late.
const IN_TIME: f64 = 0.8;

/// The policy for acknowledging received packets (RFC 9000 §13.2.1, draft-ietf-quic-ack-frequency
/// §6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AckPolicy {
    /// The number of ack-eliciting packets that triggers an immediate ACK frame.
    pub(crate) ack_eliciting_threshold: u32,
    /// The maximum delay of an ACK frame.
    pub(crate) max_ack_delay: Duration,
    /// The reordering, in packets, that triggers an immediate ACK frame; 0 disables it.
    pub(crate) reordering_threshold: u64,
    /// Whether each packet with an ECN-CE mark is acknowledged immediately, or only the first of
    /// several in a row.
    pub(crate) acknowledges_every_mark: bool,
}

impl AckPolicy {
    /// Creates the policy of RFC 9000, which applies until the peer requests another.
    pub(crate) const fn new(ack_eliciting_threshold: u32, max_ack_delay: Duration) -> Self {
        Self {
            ack_eliciting_threshold,
            max_ack_delay,
            reordering_threshold: 1,
            acknowledges_every_mark: true,
        }
    }

    /// Returns the delay of the ACK timer: shorter than the advertised max_ack_delay, since timers
    /// fire late on a busy host, and `max_ack_delay` should include that (RFC 9000 §18.2). The
    /// peer's probe timeout has no other allowance for it.
    pub(crate) fn alarm(&self) -> Duration {
        self.max_ack_delay.mul_f64(IN_TIME)
    }

    /// Returns the policy that an ACK_FREQUENCY frame requests. `min_ack_delay` is this endpoint's
    /// transport parameter.
    ///
    /// # Errors
    /// Returns PROTOCOL_VIOLATION if the delay is below `min_ack_delay`, or is not a valid value of
    /// `max_ack_delay` (draft-ietf-quic-ack-frequency §4).
    pub(crate) fn requested(
        frame: &frame::AckFrequency,
        min_ack_delay: Duration,
    ) -> Result<Self, TransportError> {
        let max_ack_delay = Duration::from_micros(frame.max_ack_delay.get());
        let invalid = |what| {
            let code = TransportErrorCode::PROTOCOL_VIOLATION;
            Err(TransportError::rule(code, what, "draft-ietf-quic-ack-frequency §4"))
        };
        if max_ack_delay < min_ack_delay {
            return invalid("the requested max_ack_delay is below min_ack_delay");
        }
        if max_ack_delay >= INVALID_DELAY {
            return invalid("the requested max_ack_delay is 2^14 ms or more");
        }
        // The frame contains the number of packets that do not trigger an ACK frame, excluding the
        // one that does.
        let threshold = frame.ack_eliciting_threshold.get();
        Ok(Self {
            ack_eliciting_threshold: u32::try_from(threshold.saturating_add(1)).unwrap_or(u32::MAX),
            max_ack_delay,
            reordering_threshold: frame.reordering_threshold.get(),
            acknowledges_every_mark: threshold <= 1,
        })
    }
}

#[cfg(test)]
#[path = "frequency_tests.rs"]
mod tests;
