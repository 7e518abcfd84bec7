use core::time::Duration;

use clearway_wire::{TransportErrorCode, frame};

use crate::TransportError;

/// Values of `max_ack_delay` from here on are invalid (RFC 9000 §18.2).
const INVALID_DELAY: Duration = Duration::from_millis(1 << 14);

/// What of the longest delay is not left to alarms that fire late: 20 of 25 ms.
const IN_TIME: f64 = 0.8;

/// When received packets have to be acknowledged (RFC 9000 §13.2.1, draft-ietf-quic-ack-frequency §6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AckPolicy {
    /// The number of ack-eliciting packets after which an ACK frame is sent at once.
    pub(crate) ack_eliciting_threshold: u32,
    /// How long an ACK frame may be delayed.
    pub(crate) max_ack_delay: Duration,
    /// The reordering, in packets, from which on an ACK frame is sent at once; 0 for never.
    pub(crate) reordering_threshold: u64,
    /// Whether each packet with an ECN-CE mark is acknowledged at once, or only the first of several in a row.
    pub(crate) acknowledges_every_mark: bool,
}

impl AckPolicy {
    /// That of RFC 9000, until the peer asks for another.
    pub(crate) const fn new(ack_eliciting_threshold: u32, max_ack_delay: Duration) -> Self {
        Self {
            ack_eliciting_threshold,
            max_ack_delay,
            reordering_threshold: 1,
            acknowledges_every_mark: true,
        }
    }

    /// After which time the alarm for an ACK frame is set: earlier than the peer has been told, since alarms fire late on a busy
    /// host, and `max_ack_delay` should include that (RFC 9000 §18.2). The peer's probe timeout has no other room for it.
    pub(crate) fn alarm(&self) -> Duration {
        self.max_ack_delay.mul_f64(IN_TIME)
    }

    /// What an ACK_FREQUENCY frame asks for. `min_ack_delay` is this endpoint's transport parameter.
    ///
    /// # Errors
    /// PROTOCOL_VIOLATION if the delay is below `min_ack_delay`, or is none that `max_ack_delay` may have
    /// (draft-ietf-quic-ack-frequency §4).
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
            return invalid("a requested max_ack_delay below min_ack_delay");
        }
        if max_ack_delay >= INVALID_DELAY {
            return invalid("a requested max_ack_delay of 2^14 ms or more");
        }
        // The frame counts the packets without which an ACK frame is not sent, not the one with which it is.
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
