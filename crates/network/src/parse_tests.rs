use proptest::prelude::*;

use super::*;

#[test]
fn durations() {
    let cases = [
        ("0", 0),
        ("7ns", 7),
        ("250us", 250_000),
        ("250µs", 250_000),
        ("10ms", 10_000_000),
        ("1.5s", 1_500_000_000),
        (" 1.5 s ", 1_500_000_000),
        ("2min", 120_000_000_000),
        ("1h", 3_600_000_000_000),
        ("0.1ms", 100_000),
        ("1.9ns", 1),
    ];
    for (input, nanoseconds) in cases {
        assert_eq!(parse_duration(input), Ok(Duration::from_nanos(nanoseconds)), "{input}");
    }
    for input in ["", "10", "ms", "-1ms", "1e3ms", "1..2s", "1.s", ".5s", "10 parsecs", "1s2"] {
        let error = ParseError::Duration { input: input.to_owned() };
        assert_eq!(parse_duration(input), Err(error), "{input}");
    }
    assert!(parse_duration("5124095h").is_ok());
    assert!(parse_duration("5124096h").is_err(), "more than 584 years");
}

#[test]
fn rates() {
    let cases = [
        ("0", 0),
        ("10mbit", 1_250_000),
        ("10Mbit/s", 1_250_000),
        ("1.5 gbit", 187_500_000),
        ("100kbit", 12_500),
        ("800bit", 100),
        ("1tbit", 125_000_000_000),
        ("15bit", 1),
    ];
    for (input, bytes) in cases {
        assert_eq!(parse_rate(input), Ok(Rate::from_bytes_per_second(bytes)), "{input}");
    }
    for input in ["", "10", "mbit", "10mbps", "10MB/s", "10/s", "0/s", "-1mbit", "99999999tbit"] {
        let error = ParseError::Rate { input: input.to_owned() };
        assert_eq!(parse_rate(input), Err(error), "{input}");
    }
}

#[test]
fn probabilities() {
    let cases = [
        ("30%", 0.3),
        ("0.3", 0.3),
        ("2 %", 0.02),
        ("0.1%", 0.001),
        ("100%", 1.0),
        ("1", 1.0),
        ("0", 0.0),
    ];
    for (input, value) in cases {
        assert_eq!(parse_probability(input).map(Probability::get), Ok(value), "{input}");
    }
    for input in ["", "%", "30", "1.01", "101%", "-1%", "nan", "0.3x"] {
        let error = ParseError::Probability { input: input.to_owned() };
        assert_eq!(parse_probability(input), Err(error), "{input}");
    }
}

#[test]
fn sizes() {
    let cases = [
        ("37500", 37_500),
        ("37.5kB", 37_500),
        ("64KiB", 65_536),
        ("1mb", 1_000_000),
        ("1MiB", 1 << 20),
        ("2GB", 2_000_000_000),
        ("1GiB", 1 << 30),
        ("10B", 10),
        ("18446744073709551615", u64::MAX),
    ];
    for (input, bytes) in cases {
        assert_eq!(parse_size(input), Ok(bytes), "{input}");
    }
    for input in ["", "1.5", "kB", "10mbit", "18446744073709551616", "-1"] {
        let error = ParseError::Size { input: input.to_owned() };
        assert_eq!(parse_size(input), Err(error), "{input}");
    }
}

#[test]
fn errors_say_what_was_expected() {
    let error = parse_duration("10 parsecs").unwrap_err();
    assert_eq!(
        error.to_string(),
        "\"10 parsecs\" is not a duration: expected a number with a unit (ns, us, ms, s, min, h), such as \
         10ms or 1.5s"
    );
    assert!(parse_rate("10").unwrap_err().to_string().contains("10mbit"));
    assert!(parse_probability("30").unwrap_err().to_string().contains("30%"));
    assert!(parse_size("x").unwrap_err().to_string().contains("64KiB"));
}

proptest! {
    #[test]
    fn no_input_panics(input in "[0-9.]{0,30} ?\\PC{0,5}") {
        let _ = parse_duration(&input);
        let _ = parse_rate(&input);
        let _ = parse_probability(&input);
        let _ = parse_size(&input);
    }

    #[test]
    fn nanoseconds_are_exact(nanoseconds: u64) {
        let seconds = format!("{}.{:09}s", nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
        prop_assert_eq!(parse_duration(&seconds), Ok(Duration::from_nanos(nanoseconds)));
        prop_assert_eq!(
            parse_duration(&format!("{nanoseconds}ns")),
            Ok(Duration::from_nanos(nanoseconds))
        );
    }
}
