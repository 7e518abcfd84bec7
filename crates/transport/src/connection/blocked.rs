//! Repetition of DATA_BLOCKED and STREAM_DATA_BLOCKED by a sender that is blocked by flow control.
//!
//! Such a sender has no packet in flight, and the frame that raised its limit may have been lost.
//! The receiver repeats that frame only when its probe timer expires, which may have backed off for
//! as long as the path lost packets. RFC 9000 §4.1 recommends that a blocked sender without
//! ack-eliciting packets in flight send STREAM_DATA_BLOCKED or DATA_BLOCKED periodically; the
//! receiver answers with the limit.

use core::time::Duration;

use clearway_units::Timestamp;

use super::Connection;
use crate::space_id::SpaceId;

/// The longest interval between repetitions, for a receiver whose application does not read.
const LONGEST_WAIT: Duration = Duration::from_secs(15);
/// The fraction of the idle timeout that limits the interval, so that the connection does not time
/// out.
const PART_OF_IDLE_TIMEOUT: u32 = 3;

/// The state that determines the next interval.
#[derive(Debug, Default)]
pub(super) struct BlockedTimer {
    /// The number of times that the frame has been sent since a limit was last received.
    repeated: u32,
}

impl BlockedTimer {
    /// Handles a flow control limit received from the peer.
    pub(super) fn on_limit(&mut self) {
        self.repeated = 0;
    }

    /// Returns the interval until the next repetition. The first interval is a probe timeout, which
    /// is long enough for a limit in flight to arrive.
    fn wait(&self, probe_timeout: Duration, idle_timeout: Option<Duration>) -> Duration {
        let part = idle_timeout.and_then(|timeout| timeout.checked_div(PART_OF_IDLE_TIMEOUT));
        let longest = part.map_or(LONGEST_WAIT, |part| part.min(LONGEST_WAIT));
        let doubled = 1_u32.checked_shl(self.repeated).unwrap_or(u32::MAX);
        probe_timeout.saturating_mul(doubled).min(longest.max(probe_timeout))
    }
}

impl Connection {
    /// Returns when the frame is repeated. While packets are outstanding, perhaps including that
    /// frame, the probe timer retransmits them.
    pub(super) fn blocked_deadline(&self) -> Option<Timestamp> {
        let is_quiet = self.lifecycle.is_confirmed()
            && self.recovery.is_nothing_outstanding(SpaceId::Application)
            && !self.streams.has_control_pending();
        (is_quiet && self.streams.blocked_by().is_some()).then(|| {
            let wait = self.blocked.wait(self.probe_timeout(), self.idle.timeout());
            self.idle.last_activity() + wait
        })
    }

    /// Repeats the blocked frames when the interval has elapsed.
    pub(super) fn repeat_blocked(&mut self) {
        self.blocked.repeated = self.blocked.repeated.saturating_add(1);
        self.streams.get_mut().repeat_blocked();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROBE_TIMEOUT: Duration = Duration::from_millis(100);

    #[test]
    fn blocked_frames_to_a_peer_that_does_not_read_become_rarer() {
        let mut timer = BlockedTimer::default();
        let mut waits = Vec::new();
        for _ in 0..9 {
            waits.push(timer.wait(PROBE_TIMEOUT, None).as_millis());
            timer.repeated += 1;
        }
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 6400, 12_800, 15_000]);
        timer.repeated = u32::MAX;
        assert_eq!(timer.wait(PROBE_TIMEOUT, None), LONGEST_WAIT);
        timer.on_limit();
        assert_eq!(timer.wait(PROBE_TIMEOUT, None), PROBE_TIMEOUT);
    }

    #[test]
    fn no_wait_is_shorter_than_a_probe_timeout() {
        let probe_timeout = Duration::from_secs(20);
        for idle_timeout in [None, Some(Duration::from_secs(1))] {
            assert_eq!(BlockedTimer::default().wait(probe_timeout, idle_timeout), probe_timeout);
        }
    }

    #[test]
    fn the_idle_timeout_does_not_run_out() {
        let timer = BlockedTimer { repeated: 30 };
        let idle_timeout = Duration::from_secs(6);
        assert_eq!(timer.wait(PROBE_TIMEOUT, Some(idle_timeout)), Duration::from_secs(2));
    }
}
