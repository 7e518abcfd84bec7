//! The capacity of a bottleneck.

use core::time::Duration;

use clearway_network::Conditions;
use clearway_units::Rate;

/// Returns the number of bytes, including the overhead of lower layers, that the bottleneck of
/// `conditions` can forward in the first `time` after the link's first datagram; `None` if the rate
/// is unlimited at some time. For a recorded rate, the mean is used.
pub(super) fn capacity(conditions: &Conditions, time: Duration) -> Option<u64> {
    if let Some(trace) = &conditions.trace {
        return Some(trace.mean_rate().bytes_in(time));
    }
    let mut steps = conditions.rate_steps.clone();
    steps.sort_by_key(|step| step.after);
    let starts = core::iter::once((Duration::ZERO, conditions.rate));
    let pieces: Vec<(Duration, Option<Rate>)> =
        starts.chain(steps.iter().map(|step| (step.after, step.value))).collect();
    let ends = pieces.iter().skip(1).map(|(start, _)| *start).chain([Duration::MAX]);
    let mut total: u64 = 0;
    for ((start, rate), end) in pieces.iter().zip(ends) {
        let length = end.min(time).saturating_sub(*start);
        if !length.is_zero() {
            total = total.saturating_add((*rate)?.bytes_in(length));
        }
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use clearway_network::{Conditions, Step, Trace};
    use clearway_units::Rate;

    use super::capacity;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_rate_that_changes_is_added_up() {
        let step = |after, value| Step { after: seconds(after), value };
        let conditions = Conditions {
            rate: Some(Rate::from_bytes_per_second(1000)),
            rate_steps: vec![
                step(4, Some(Rate::from_bytes_per_second(2000))),
                step(2, Some(Rate::ZERO)),
            ],
            ..Conditions::default()
        };
        assert_eq!(capacity(&conditions, seconds(1)), Some(1000));
        assert_eq!(capacity(&conditions, seconds(3)), Some(2000));
        assert_eq!(capacity(&conditions, seconds(6)), Some(6000));
    }

    #[test]
    fn without_a_limit_there_is_no_capacity() {
        assert_eq!(capacity(&Conditions::default(), seconds(1)), None);
        let conditions = Conditions {
            rate: Some(Rate::from_bytes_per_second(1000)),
            rate_steps: vec![Step { after: seconds(2), value: None }],
            ..Conditions::default()
        };
        assert_eq!(capacity(&conditions, seconds(2)), Some(2000));
        assert_eq!(capacity(&conditions, seconds(3)), None);
    }

    #[test]
    fn a_recorded_rate_counts_with_its_mean() {
        let trace = Trace::parse("10\n20\n").unwrap();
        let conditions = Conditions { trace: Some(trace), ..Conditions::default() };
        assert_eq!(capacity(&conditions, seconds(1)), Some(150_000));
    }
}
