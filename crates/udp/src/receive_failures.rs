//! Handling of receive errors.

use core::time::Duration;
use std::io;

use clearway_units::Timestamp;
use rustix::io::Errno;

/// Pause after the first failure; the pause doubles with each consecutive failure.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Tracks consecutive receive failures, and how long to pause after them.
#[derive(Debug, Default)]
pub struct ReceiveFailures {
    pause: Option<Pause>,
}

#[derive(Clone, Copy, Debug)]
struct Pause {
    until: Timestamp,
    length: Duration,
}

/// The consequence of a receive failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// A possibly temporary failure: retry later.
    Later {
        /// Whether this is the first of consecutive failures.
        is_first: bool,
    },
    /// A permanent failure: the socket is no longer usable.
    Never,
}

impl ReceiveFailures {
    /// Records a failure to receive.
    pub fn on_failure(&mut self, now: Timestamp, error: &io::Error) -> Verdict {
        if is_final(error) {
            return Verdict::Never;
        }
        let is_first = self.pause.is_none();
        let length = self.pause.map_or(FIRST_PAUSE, |it| (it.length * 2).min(LONGEST_PAUSE));
        self.pause = Some(Pause { until: now + length, length });
        Verdict::Later { is_first }
    }

    /// Records a successful receive. Returns whether the previous one had failed.
    #[inline]
    pub fn on_success(&mut self) -> bool {
        self.pause.take().is_some()
    }

    /// Returns the time at which to retry, if not now.
    #[inline]
    pub fn paused_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.pause.map(|pause| pause.until).filter(|until| *until > now)
    }
}

/// Returns whether the descriptor or the call itself is invalid, in which case waiting does not
/// help. Errors that a forged ICMP message can cause are never among these. A socket that does not belong to the operating system has ended if it returns
/// `NotConnected`.
pub fn is_final(error: &io::Error) -> bool {
    let wrong = [Errno::BADF, Errno::NOTSOCK, Errno::INVAL, Errno::FAULT];
    match Errno::from_io_error(error) {
        Some(errno) => wrong.contains(&errno),
        None => error.kind() == io::ErrorKind::NotConnected,
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::io;

    use clearway_units::Timestamp;
    use rustix::io::Errno;

    use super::{ReceiveFailures, Verdict};

    fn error(errno: Errno) -> io::Error {
        errno.into()
    }

    #[test]
    fn a_receive_error_that_lasts_is_warned_of_once_and_tried_ever_less_often() {
        let mut failures = ReceiveFailures::default();
        let mut now = Timestamp::ORIGIN;
        let end = now + Duration::from_secs(60);
        let (mut attempts, mut warnings) = (0, 0);
        while now < end {
            match failures.paused_until(now) {
                Some(until) => now = until,
                None => {
                    attempts += 1;
                    let verdict = failures.on_failure(now, &error(Errno::NOMEM));
                    warnings += u32::from(verdict == Verdict::Later { is_first: true });
                }
            }
        }
        // There are eleven attempts in the first 1.023 s, and then one per second.
        assert_eq!((attempts, warnings), (69, 1));
        assert!(failures.on_success());
        assert!(!failures.on_success());
        assert_eq!(failures.paused_until(now), None);
        let again = failures.on_failure(now, &error(Errno::NOMEM));
        assert_eq!(again, Verdict::Later { is_first: true });
    }

    #[test]
    fn a_socket_that_is_none_any_more_is_not_tried_again() {
        for errno in [Errno::BADF, Errno::NOTSOCK, Errno::INVAL] {
            let verdict = ReceiveFailures::default().on_failure(Timestamp::ORIGIN, &error(errno));
            assert_eq!(verdict, Verdict::Never, "{errno:?}");
        }
        let ended = io::ErrorKind::NotConnected.into();
        let verdict = ReceiveFailures::default().on_failure(Timestamp::ORIGIN, &ended);
        assert_eq!(verdict, Verdict::Never);
    }
}
