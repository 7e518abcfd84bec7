//! The Date field of responses.

use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use http::header::{DATE, HeaderMap, HeaderValue};

/// The field value for a second, in Unix time, so that it is formatted once per second.
static CURRENT: Mutex<Option<(u64, HeaderValue)>> = Mutex::new(None);

/// Adds a Date field if there is none (RFC 9110 §6.6.1), as hyper does in other HTTP versions.
pub(crate) fn add_to(headers: &mut HeaderMap) {
    if !headers.contains_key(DATE)
        && let Some(date) = at(SystemTime::now())
    {
        headers.insert(DATE, date);
    }
}

/// Returns the field value for a time; `None` if the clock is not set.
fn at(now: SystemTime) -> Option<HeaderValue> {
    // Later times cannot be formatted: the year 9999 ends.
    const END: u64 = 253_402_300_800;
    let second = now.duration_since(UNIX_EPOCH).ok()?.as_secs();
    let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
    match &*current {
        Some((known, date)) if *known == second => Some(date.clone()),
        _ if second >= END => None,
        _ => {
            let date = HeaderValue::try_from(httpdate::fmt_http_date(now)).ok()?;
            *current = Some((second, date.clone()));
            Some(date)
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    #[test]
    fn dates_follow_the_clock() {
        let start = UNIX_EPOCH + Duration::from_millis(784_111_777_000);
        for (millis, expected) in [
            (0, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (999, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (1000, "Sun, 06 Nov 1994 08:49:38 GMT"),
            (0, "Sun, 06 Nov 1994 08:49:37 GMT"),
        ] {
            assert_eq!(at(start + Duration::from_millis(millis)).unwrap(), expected);
        }
        assert_eq!(at(UNIX_EPOCH - Duration::from_secs(1)), None);
        let end = UNIX_EPOCH + Duration::from_secs(253_402_300_800);
        assert_eq!(at(end), None);
        assert!(at(end - Duration::from_secs(1)).is_some());
    }
}
