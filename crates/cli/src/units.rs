//! Formatting of rates and sizes.

use std::time::Duration;

use clearway_network::parse_size;

/// Parses a limit on memory or a file size: the minimum is 1 MiB, since otherwise not even one
/// piece would fit in most cases.
pub(crate) fn size_of_at_least_1_mib(input: &str) -> Result<u64, String> {
    match parse_size(input).map_err(|error| error.to_string())? {
        size if size < 1 << 20 => Err("must be at least 1MiB".to_owned()),
        size => Ok(size),
    }
}

/// Returns the goodput of `bytes` in `time`, in bits per second.
pub(crate) fn goodput(bytes: u64, time: Duration) -> f64 {
    match time.is_zero() {
        true => 0.0,
        false => bytes as f64 * 8.0 / time.as_secs_f64(),
    }
}

/// Formats a rate in bits per second with a unit, such as `38.1 Mbit/s`.
pub(crate) fn rate_text(bits_per_second: f64) -> String {
    let (value, unit) = scaled(bits_per_second);
    format!("{value:.1} {unit}bit/s")
}

/// Formats a number of bytes with a unit, such as `2.4 kB`.
pub(crate) fn bytes_text(bytes: u64) -> String {
    match bytes {
        0..1000 => format!("{bytes} B"),
        _ => {
            let (value, unit) = scaled(bytes as f64);
            format!("{value:.1} {unit}B")
        }
    }
}

fn scaled(value: f64) -> (f64, &'static str) {
    match value {
        value if value >= 1e9 => (value / 1e9, "G"),
        value if value >= 1e6 => (value / 1e6, "M"),
        value if value >= 1e3 => (value / 1e3, "k"),
        value => (value, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_sizes_have_units() {
        assert_eq!(goodput(1_000_000, Duration::from_secs(2)), 4e6);
        assert_eq!(goodput(1, Duration::ZERO), 0.0);
        assert_eq!(rate_text(4e6), "4.0 Mbit/s");
        assert_eq!(rate_text(12.0), "12.0 bit/s");
        assert_eq!(bytes_text(999), "999 B");
        assert_eq!(bytes_text(2400), "2.4 kB");
        assert_eq!(bytes_text(10_000_000), "10.0 MB");
    }
}
