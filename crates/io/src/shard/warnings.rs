//! Rate limiting of warnings about batches that the kernel does not accept.

use core::time::Duration;

use clearway_units::Timestamp;

/// Minimum interval between two warnings of a shard.
const PAUSE: Duration = Duration::from_secs(10);

/// Rate limit on warnings about batches that the kernel does not accept: a peer can choose a
/// destination without a route, and a firewall rule can affect all batches.
#[derive(Default)]
pub(super) struct Warnings {
    not_before: Option<Timestamp>,
    failures: u64,
}

impl Warnings {
    /// Counts a failed batch. If a warning is due, returns the number of failures since the last
    /// one.
    pub(super) fn on_failure(&mut self, now: Timestamp) -> Option<u64> {
        self.failures = self.failures.saturating_add(1);
        if self.not_before.is_some_and(|time| now < time) {
            return None;
        }
        self.not_before = Some(now + PAUSE);
        Some(std::mem::take(&mut self.failures))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_have_a_pause_between_them_and_count_what_they_leave_out() {
        let mut warnings = Warnings::default();
        let at = |seconds| Timestamp::from_origin(Duration::from_secs(seconds));
        assert_eq!(warnings.on_failure(at(1)), Some(1));
        assert_eq!(warnings.on_failure(at(1)), None);
        assert_eq!(warnings.on_failure(at(10)), None);
        assert_eq!(warnings.on_failure(at(11)), Some(3));
        assert_eq!(warnings.on_failure(at(12)), None);
    }
}
