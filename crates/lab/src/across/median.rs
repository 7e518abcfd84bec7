use core::time::Duration;

/// Returns the median duration of runs; for an even number of runs, the longer of the middle two. A
/// run that never finished counts as infinitely long. `None` if the median run did not finish, or
/// if there are no runs.
pub(super) fn median(times: &[Option<Duration>]) -> Option<Duration> {
    let mut times: Vec<_> = times.iter().map(|time| time.unwrap_or(Duration::MAX)).collect();
    times.sort();
    times.get(times.len() / 2).copied().filter(|time| *time < Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_never_finished_is_the_longest() {
        let [one, two] = [1, 2].map(|seconds| Some(Duration::from_secs(seconds)));
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[two, None, one]), two);
        assert_eq!(median(&[None, one]), None);
    }
}
