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
    // Eleven in the first 1.023 s, then one each second.
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
}
