//! Formats numbers with their units.

use core::time::Duration;

/// Formats a point in time or a duration, with three or four significant digits.
pub(super) fn time(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds >= 100.0 {
        format!("{seconds:.0} s")
    } else if seconds >= 1.0 {
        format!("{seconds:.1} s")
    } else if seconds >= 0.1 {
        format!("{:.0} ms", seconds * 1e3)
    } else if seconds >= 1e-4 {
        format!("{:.1} ms", seconds * 1e3)
    } else {
        format!("{:.0} µs", seconds * 1e6)
    }
}

/// Formats a number with one decimal place, which is omitted if it is zero.
pub(super) fn number(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

/// Formats a number of bytes, with commas between groups of three digits.
pub(super) fn bytes(count: u64) -> String {
    format!("{} bytes", self::count(count))
}

/// Formats a count, with commas between groups of three digits.
pub(super) fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && digits.len().saturating_sub(place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a part of a whole as a percentage.
pub(super) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "0 %".to_owned();
    }
    format!("{:.1} %", part as f64 * 100.0 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::{bytes, number, percent, time};
    use core::time::Duration;

    #[test]
    fn metrics_have_only_significant_digits() {
        let text = |nanoseconds| time(Duration::from_nanos(nanoseconds));
        assert_eq!(text(7_695_000_000), "7.7 s");
        assert_eq!(text(123_400_000_000), "123 s");
        assert_eq!(text(312_000_000), "312 ms");
        assert_eq!(text(15_940_000), "15.9 ms");
        assert_eq!(text(31_000), "31 µs");
        assert_eq!(bytes(0), "0 bytes");
        assert_eq!(bytes(2700), "2,700 bytes");
        assert_eq!(bytes(1_234_567), "1,234,567 bytes");
        assert_eq!(percent(1, 8), "12.5 %");
        assert_eq!((number(2.04), number(2.07)), ("2".to_owned(), "2.1".to_owned()));
    }
}
