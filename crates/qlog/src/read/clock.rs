//! Converts the times of a trace to one form.

use core::time::Duration;

use super::number::Decimal;

/// Converts the times of a trace to the time since its first event.
///
/// It does not matter whether times are `absolute`, `relative` or `relative_to_epoch`: all of them
/// are relative to a fixed point.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// Whether each time is relative to the previous one (`delta`, `relative_to_previous_event`).
    pub(super) is_incremental: bool,
    /// The reference time of relative times, in milliseconds since the Unix epoch.
    pub(super) reference: Option<f64>,
    /// The time of the first event in milliseconds.
    first: Option<f64>,
    previous: f64,
}

/// Times from this number of milliseconds on are relative to the Unix epoch (this one is in 1973),
/// since no connection lasts that long.
const SINCE_EPOCH: f64 = 1e11;

impl Clock {
    /// Returns the time of an event since the first one. An event's own format takes precedence
    /// over the trace's. Time never runs backwards: events that several threads wrote out of order
    /// are treated as simultaneous.
    pub(super) fn read(&mut self, time: Decimal, format: Option<&str>) -> Duration {
        let is_incremental = format.map_or(self.is_incremental, is_incremental);
        let absolute = if is_incremental { self.previous + time.0 } else { time.0 };
        let first = *self.first.get_or_insert(absolute);
        self.previous = absolute.max(self.previous).max(first);
        Decimal(self.previous - first).duration()
    }

    /// Returns the time of the first event since the Unix epoch, if it is known.
    pub(super) fn began(&self) -> Option<Duration> {
        let first = self.first?;
        let began = match self.reference {
            _ if first >= SINCE_EPOCH => first,
            Some(reference) => reference + first,
            None => return None,
        };
        // Floating-point numbers of this size are not more precise.
        Some(Duration::from_micros((began * 1e3).round().max(0.0) as u64))
    }
}

/// Returns whether times in this format are relative to the previous event.
pub(super) fn is_incremental(format: &str) -> bool {
    matches!(format, "delta" | "relative_to_previous_event")
}

/// Converts a reference time to milliseconds since the Unix epoch. Writers use seconds,
/// milliseconds, microseconds or nanoseconds, distinguished by magnitude. Returns `None` if the
/// time is not relative to the epoch.
pub(super) fn reference(value: f64) -> Option<f64> {
    match value {
        value if value < 1e8 => None,
        value if value < SINCE_EPOCH => Some(value * 1e3),
        value if value < 1e14 => Some(value),
        value if value < 1e17 => Some(value / 1e3),
        value => Some(value / 1e6),
    }
}

/// Parses a point in time in RFC 3339 format, and returns it in milliseconds since the Unix epoch.
pub(super) fn rfc_3339(text: &str) -> Option<f64> {
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let mut date = date.splitn(3, '-').map(str::parse::<i64>);
    let (year, month, day) = (date.next()?.ok()?, date.next()?.ok()?, date.next()?.ok()?);
    let (time, offset) = match time.find(['Z', 'z', '+', '-']) {
        Some(place) => time.split_at_checked(place)?,
        None => (time, "Z"),
    };
    let mut time = time.splitn(3, ':').map(str::parse::<f64>);
    let (hour, minute, second) = (time.next()?.ok()?, time.next()?.ok()?, time.next()?.ok()?);
    let is_date =
        (0..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    let is_time = (0.0..24.0).contains(&hour) && (0.0..60.0).contains(&minute);
    if !is_date || !is_time || !(0.0..61.0).contains(&second) {
        return None;
    }
    let days = days_since_epoch(year as f64, month as f64, day as f64);
    let seconds = ((days * 24.0 + hour) * 60.0 + minute) * 60.0 + second;
    Some((seconds - offset_in_seconds(offset)?) * 1e3)
}

/// Returns the number of days from 1970-01-01 to a date of the Gregorian calendar.
fn days_since_epoch(year: f64, month: f64, day: f64) -> f64 {
    // In this computation, years begin in March, so that the leap day is the last one.
    let (year, month) = if month > 2.0 { (year, month - 3.0) } else { (year - 1.0, month + 9.0) };
    let leap_days = (year / 4.0).floor() - (year / 100.0).floor() + (year / 400.0).floor();
    let days_before_month = ((153.0 * month + 2.0) / 5.0).floor();
    year * 365.0 + leap_days + days_before_month + day - 1.0 - 719_468.0
}

/// Parses the offset from UTC: `Z`, or hours and minutes with a sign.
fn offset_in_seconds(offset: &str) -> Option<f64> {
    let sign = match offset.chars().next()? {
        '+' => 1.0,
        '-' => -1.0,
        _ => return Some(0.0),
    };
    let (hours, minutes) = offset.get(1..)?.split_once(':')?;
    Some(sign * (hours.parse::<f64>().ok()? * 60.0 + minutes.parse::<f64>().ok()?) * 60.0)
}

#[cfg(test)]
mod tests {
    use super::{Clock, reference, rfc_3339};
    use crate::read::number::Decimal;
    use core::time::Duration;

    #[test]
    fn a_point_in_time_is_read_with_its_offset() {
        assert_eq!(rfc_3339("1970-01-01T00:00:00.000Z"), Some(0.0));
        assert_eq!(rfc_3339("2026-11-28T22:50:00.5Z"), Some(1_795_906_200_500.0));
        assert_eq!(rfc_3339("2026-11-29T00:50:00.5+02:00"), Some(1_795_906_200_500.0));
        assert_eq!(rfc_3339("2000-02-29T00:00:00Z"), Some(951_782_400_000.0));
        for wrong in ["", "unknown", "2026-11-28", "2026-13-28T00:00:00Z", "2026-11-28T00:00:00+é"]
        {
            assert_eq!(rfc_3339(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_unit_of_a_reference_time_follows_from_its_size() {
        for value in [1_565_009_792.5, 1_565_009_792_500.0, 1_565_009_792_500_000.0] {
            assert_eq!(reference(value), Some(1_565_009_792_500.0));
        }
        // The smallest value in each unit is the same point in time.
        for least in [1e8, 1e11, 1e14, 1e17] {
            assert_eq!(reference(least), Some(1e11));
        }
        assert_eq!([0.0, 99_999_999.0].map(reference), [None, None]);
    }

    #[test]
    fn the_beginning_of_a_trace_is_known_if_its_times_or_its_reference_are_since_the_epoch() {
        let began = |reference, first| {
            let mut clock = Clock { reference, ..Clock::default() };
            clock.read(Decimal(first), None);
            clock.began()
        };
        let known = Some(Duration::from_millis(1_565_009_792_510));
        assert_eq!(began(Some(1_565_009_792_500.0), 10.0), known);
        assert_eq!(began(None, 1_565_009_792_510.0), known);
        assert_eq!(began(None, 10.0), None);
    }
}
