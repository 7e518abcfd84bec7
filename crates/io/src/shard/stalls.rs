//! Detection of periods in which a shard did not run although it had work to do.

use core::time::Duration;

use crate::statistics::ShardStatistics;

/// Shortest delay that is counted and logged. Delays on a host that is merely busy are shorter.
const SHORTEST: Duration = Duration::from_secs(1);

/// Counts and logs that the shard ran late, if the delay `late` was long.
pub(super) fn note(late: Duration, statistics: &mut ShardStatistics) {
    if late < SHORTEST {
        return;
    }
    statistics.stalls += 1;
    tracing::warn!(
        late_ms = u64::try_from(late.as_millis()).unwrap_or(u64::MAX),
        "the shard ran late: the process was stopped, the host had no CPU time for it, or a callback blocked \
         its thread"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_delays_count() {
        let mut statistics = ShardStatistics::default();
        note(SHORTEST - Duration::from_nanos(1), &mut statistics);
        assert_eq!(statistics.stalls, 0);
        note(SHORTEST, &mut statistics);
        note(Duration::MAX, &mut statistics);
        assert_eq!(statistics.stalls, 2);
    }
}
