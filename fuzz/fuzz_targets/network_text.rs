//! Fuzzes text formats that people write: recorded traces, durations, rates, probabilities and
//! sizes.
#![no_main]

use clearway_network::{Trace, parse_duration, parse_probability, parse_rate, parse_size};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(trace) = Trace::parse(text) {
        assert!(!trace.length().is_zero());
        let _ = trace.mean_rate();
        assert_eq!(Trace::parse(&trace.to_string()), Ok(trace));
    }
    for word in text.split_whitespace().take(64) {
        if let Ok(duration) = parse_duration(word) {
            assert_eq!(parse_duration(&format!("{}ns", duration.as_nanos())), Ok(duration));
        }
        if let Ok(size) = parse_size(word) {
            assert_eq!(parse_size(&size.to_string()), Ok(size));
        }
        let _ = (parse_rate(word), parse_probability(word));
    }
});
