use std::time::{Duration, SystemTime};

use clearway_units::Timestamp;

use super::json::Object;

/// The reference point of the times in a log, which are in milliseconds (main schema §7.1): the
/// origin of the connection's [`Timestamp`]s.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ReferenceTime {
    /// A monotonic clock, whose origin is meaningless outside this process.
    Monotonic {
        /// The approximate calendar time at the origin. `None` in virtual time.
        wall_clock_at_origin: Option<SystemTime>,
    },
    /// The system clock: the origin is this calendar time.
    System {
        /// The calendar time at the origin.
        origin: SystemTime,
    },
}

impl ReferenceTime {
    /// Writes the `reference_time` of a log that begins at `now`.
    pub(super) fn write(&self, now: Timestamp, json: &mut Object<'_>) {
        json.object("reference_time", |json| match self {
            Self::Monotonic { wall_clock_at_origin } => {
                json.text("clock_type", "monotonic");
                json.text("epoch", "unknown");
                let begin = wall_clock_at_origin
                    .and_then(|origin| origin.checked_add(now.since_origin()))
                    .and_then(date_time);
                if let Some(begin) = begin {
                    json.text("wall_clock_time", &begin);
                }
            }
            Self::System { origin } => {
                json.text("clock_type", "system");
                json.text("epoch", date_time(*origin).as_deref().unwrap_or("unknown"));
            }
        });
    }
}

/// Formats a time as in RFC 3339, in UTC, to the millisecond. `None` before 1970.
fn date_time(time: SystemTime) -> Option<String> {
    const SECONDS_PER_DAY: u64 = 86_400;
    let since_epoch: Duration = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let seconds = since_epoch.as_secs();
    let (year, month, day) = civil_date(seconds / SECONDS_PER_DAY)?;
    let second_of_day = seconds % SECONDS_PER_DAY;
    let (hour, minute, second) =
        (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
    let millisecond = since_epoch.subsec_millis();
    Some(format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}Z"
    ))
}

/// Returns the year, month and day of the `days`-th day after 1970-01-01 in the Gregorian calendar.
/// `None` from the year 10000 on, which RFC 3339 cannot represent.
fn civil_date(days: u64) -> Option<(u64, u64, u64)> {
    let mut rest = days;
    let mut year: u64 = 1970;
    loop {
        let length = if is_leap(year) { 366 } else { 365 };
        let Some(after) = rest.checked_sub(length) else { break };
        rest = after;
        year = year.saturating_add(1);
        if year > 9999 {
            return None;
        }
    }
    let february = if is_leap(year) { 29 } else { 28 };
    for (month, length) in (1..).zip([31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]) {
        let Some(after) = rest.checked_sub(length) else {
            return Some((year, month, rest.saturating_add(1)));
        };
        rest = after;
    }
    None
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

#[cfg(test)]
#[path = "reference_time_tests.rs"]
mod tests;
