//! The outcomes of the requests.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use peer_common::Tally;

/// Latency above which a response is counted as late.
const LATE: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct Record {
    /// Number of requests made in the counted interval.
    pub(crate) asked: AtomicU64,
    outcomes: Mutex<Outcomes>,
}

#[derive(Default)]
struct Outcomes {
    answered: Tally,
    late: u64,
    failed: u64,
    /// Number of requests that failed before all connections were open.
    failed_early: u64,
}

impl Record {
    /// Records a request that was answered after this time, or that failed. Only the first errors
    /// are printed.
    pub(crate) fn add(&self, is_counted: bool, outcome: Result<Duration, String>) {
        let outcomes = &mut *self.lock();
        match outcome {
            Ok(took) if is_counted => {
                outcomes.answered.add_finished(took, 0);
                outcomes.late += u64::from(took > LATE);
            }
            Ok(_) => {}
            Err(error) => {
                if outcomes.failed + outcomes.failed_early < 10 {
                    eprintln!("clearway-bench: a request failed: {error}");
                }
                match is_counted {
                    true => outcomes.failed += 1,
                    false => outcomes.failed_early += 1,
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Outcomes> {
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of counted requests that have neither been answered nor failed yet.
    pub(crate) fn unanswered(&self) -> u64 {
        let outcomes = self.lock();
        let ended = outcomes.answered.count() as u64 + outcomes.failed;
        self.asked.load(Ordering::Relaxed).saturating_sub(ended)
    }

    /// Returns a progress message.
    pub(crate) fn progress(&self) -> String {
        let unanswered = self.unanswered();
        let outcomes = self.lock();
        format!(
            "{} requests answered, {} failed, {unanswered} in flight",
            outcomes.answered.count(),
            outcomes.failed + outcomes.failed_early,
        )
    }

    /// Returns the results as members of a JSON object. Unanswered requests count as failed.
    pub(crate) fn summary(&self) -> String {
        let unanswered = self.unanswered();
        let outcomes = &mut *self.lock();
        let [p50, p99, most] = outcomes.answered.quantiles([0.5, 0.99, 1.0]);
        format!(
            r#""requests":{},"answered":{},"failed":{},"failed_early":{},"late":{},"p50_us":{p50},"p99_us":{p99},"max_us":{most}"#,
            self.asked.load(Ordering::Relaxed),
            outcomes.answered.count(),
            outcomes.failed + unanswered,
            outcomes.failed_early,
            outcomes.late,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_answered_has_failed() {
        let record = Record::default();
        record.asked.store(4, Ordering::Relaxed);
        record.add(true, Ok(Duration::from_micros(5)));
        record.add(true, Ok(Duration::from_secs(2)));
        record.add(true, Err("reset".to_owned()));
        record.add(false, Ok(Duration::from_micros(7)));
        record.add(false, Err("reset".to_owned()));
        assert_eq!(record.unanswered(), 1);
        assert_eq!(
            record.summary(),
            r#""requests":4,"answered":2,"failed":2,"failed_early":1,"late":1,"p50_us":2000000,"p99_us":2000000,"max_us":2000000"#
        );
    }
}
