//! Formats numbers for people.

/// Formats a number with thousands separators.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len().saturating_mul(2));
    for (place, digit) in digits.chars().enumerate() {
        let rest = digits.len().saturating_sub(place);
        if place > 0 && rest.is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a measured number, rounded to an integer.
pub(crate) fn whole(number: f64) -> String {
    count(number.max(0.0).round() as u64)
}

/// Formats a number of packets: "1 packet", "2,000 packets".
pub(crate) fn packets(number: u64) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} packet{plural}", count(number))
}

/// Formats a nonzero rate, which never reads as zero: "2,574/s", "1.2/s", "less than 0.1/s".
pub(crate) fn rate(per_second: f64) -> String {
    match per_second {
        it if it >= 9.95 => format!("{}/s", count(it.round() as u64)),
        it if it >= 0.05 => format!("{it:.1}/s"),
        _ => "less than 0.1/s".to_owned(),
    }
}

/// Formats a nonzero share, from 0 to 1, which never reads as zero: "43 %", "0.22 %".
pub(crate) fn percent(share: f64) -> String {
    match share * 100.0 {
        it if it >= 9.95 => format!("{it:.0} %"),
        it if it >= 0.995 => format!("{it:.1} %"),
        it if it >= 0.005 => format!("{it:.2} %"),
        _ => "less than 0.01 %".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_have_a_comma_and_one_packet_is_no_plural() {
        assert_eq!([0, 7, 999, 1_000, 12_870].map(count), ["0", "7", "999", "1,000", "12,870"]);
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!([1, 2, 1_000].map(packets), ["1 packet", "2 packets", "1,000 packets"]);
    }

    #[test]
    fn what_is_not_zero_never_reads_as_zero() {
        let rates = [2_574.3, 10.0, 9.94, 1.0, 0.06, 0.01].map(rate);
        let expected = ["2,574/s", "10/s", "9.9/s", "1.0/s", "0.1/s", "less than 0.1/s"];
        assert_eq!(rates, expected);
        let shares = [1.0, 0.43, 0.099, 0.002_2, 0.000_01].map(percent);
        assert_eq!(shares, ["100 %", "43 %", "9.9 %", "0.22 %", "less than 0.01 %"]);
    }
}
