//! How long a sender that flow control holds back waits before it says so again.
//!
//! All that it sent is acknowledged, and the limit that would let it go on may have been lost: then only
//! the receiver's probe timer, backed off by how long its packets have been lost, would tell of it.
//! RFC 9000 §4.1 asks a blocked sender that has nothing in flight to repeat STREAM_DATA_BLOCKED or
//! DATA_BLOCKED from time to time; the receiver answers with the limit.

use core::time::Duration;

use clearway_units::Timestamp;

use super::Connection;
use crate::space_id::SpaceId;

/// A receiver whose application does not read is told this often ...
const LONGEST_WAIT: Duration = Duration::from_secs(15);
/// ... or once in this part of the idle timeout, which it keeps from running out.
const PART_OF_IDLE_TIMEOUT: u32 = 3;

/// What decides how long the next wait is.
#[derive(Debug, Default)]
pub(super) struct BlockedTimer {
    /// How often it was said since a limit came last.
    repeated: u32,
}

impl BlockedTimer {
    /// A limit came.
    pub(super) fn on_limit(&mut self) {
        self.repeated = 0;
    }

    /// The wait, which begins with a probe timeout, longer than a limit takes that is under way.
    fn wait(&self, probe_timeout: Duration, idle_timeout: Option<Duration>) -> Duration {
        let part = idle_timeout.and_then(|timeout| timeout.checked_div(PART_OF_IDLE_TIMEOUT));
        let longest = part.map_or(LONGEST_WAIT, |part| part.min(LONGEST_WAIT));
        let doubled = 1_u32.checked_shl(self.repeated).unwrap_or(u32::MAX);
        probe_timeout.saturating_mul(doubled).min(longest.max(probe_timeout))
    }
}

impl Connection {
    /// When the peer is told again that its limits hold data back. What is outstanding, perhaps the very
    /// frame that says so, is the probe timer's matter.
    pub(super) fn blocked_deadline(&self) -> Option<Timestamp> {
        let is_quiet = self.lifecycle.is_confirmed()
            && self.recovery.is_nothing_outstanding(SpaceId::Application)
            && !self.streams.has_control_pending();
        (is_quiet && self.streams.blocked_by().is_some()).then(|| {
            let wait = self.blocked.wait(self.probe_timeout(), self.idle.timeout());
            self.idle.last_activity() + wait
        })
    }

    /// The wait is over: the frames that tell the peer are sent once more.
    pub(super) fn repeat_blocked(&mut self) {
        self.blocked.repeated = self.blocked.repeated.saturating_add(1);
        self.streams.repeat_blocked();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROBE_TIMEOUT: Duration = Duration::from_millis(100);

    #[test]
    fn a_peer_that_does_not_read_is_told_less_and_less_often() {
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
