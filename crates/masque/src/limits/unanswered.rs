use core::time::Duration;

use clearway_units::Timestamp;

/// Number of datagrams that may be sent to a target that has never answered.
///
/// A UDP target cannot refuse traffic, so a client could use a proxy to flood it, or a host that
/// does not exist (RFC 9298 §7). The limit leaves room for the whole attempt of a QUIC client: a
/// ClientHello in two datagrams, an initial window of ten with 0-RTT data, and two probes for each
/// of the ten timeouts of a minute or two: 32; and twice that for a client that tries two versions
/// or two addresses through one socket. It does not protect targets that answer anything.
pub const UNANSWERED_DATAGRAMS: u32 = 64;

/// Number of bytes in UDP payloads that may be sent to a target that has never answered:
/// [`UNANSWERED_DATAGRAMS`] of 1,280 bytes, rounded up to 80 KiB. Without this limit, the same
/// number of datagrams could carry 4 MB.
pub const UNANSWERED_BYTES: u64 = 81_920;

/// Interval at which one more datagram is permitted once either limit is reached, so that protocols
/// without responses, and targets that respond late, do not fail completely. This rate is
/// negligible compared with the traffic that any host receives anyway.
pub const UNANSWERED_INTERVAL: Duration = Duration::from_secs(1);

/// Limits what is sent to a target before its first answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnansweredGuard {
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Unanswered { datagrams: u32, bytes: u64, last: Timestamp },
    Answered,
}

impl UnansweredGuard {
    /// Creates the guard of a new socket.
    pub const fn new(now: Timestamp) -> Self {
        Self {
            state: State::Unanswered {
                datagrams: UNANSWERED_DATAGRAMS,
                bytes: UNANSWERED_BYTES,
                last: now,
            },
        }
    }

    /// Returns whether a UDP payload of `bytes` may be sent now, and counts it if so. Otherwise, it
    /// must be dropped.
    #[must_use]
    pub fn permits(&mut self, bytes: u64, now: Timestamp) -> bool {
        let State::Unanswered { datagrams, bytes: left, last } = &mut self.state else {
            return true;
        };
        if let (Some(fewer), Some(less)) = (datagrams.checked_sub(1), left.checked_sub(bytes)) {
            (*datagrams, *left, *last) = (fewer, less, now);
            return true;
        }
        let is_due = now.saturating_since(*last) >= UNANSWERED_INTERVAL;
        if is_due {
            *last = now;
        }
        is_due
    }

    /// Records that a datagram has arrived from the target. There is no limit from now on.
    pub fn on_answer(&mut self) {
        self.state = State::Answered;
    }

    /// Returns whether the target has answered.
    pub const fn is_answered(&self) -> bool {
        matches!(self.state, State::Answered)
    }
}
