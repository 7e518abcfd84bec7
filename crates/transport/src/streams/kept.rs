//! The amount of written data that is kept, by stream priority.

/// The number of priorities without data that are kept, to avoid an allocation each time one is
/// used again.
const SPARE_LEVELS: usize = 16;

/// Bytes that were written and not acknowledged.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    total: u64,
    /// Priorities and their bytes, in ascending order; the last one is sent first. Only a few
    /// priorities are in use at a time.
    levels: Vec<(i32, u64)>,
}

impl Kept {
    /// Returns the bytes of all streams.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Returns the bytes of the streams that are sent before or together with a stream of this
    /// priority. Less urgent data waits behind it in the send buffer and must not take up its
    /// space.
    pub(super) fn of_at_least(&self, priority: i32) -> u64 {
        let urgent = self.levels.iter().rev().take_while(|(level, _)| *level >= priority);
        urgent.fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    /// Removes priorities without data.
    pub(super) fn compact(&mut self) {
        self.levels.retain(|(_, bytes)| *bytes > 0);
        self.levels.shrink_to_fit();
    }

    pub(super) fn add(&mut self, priority: i32, bytes: u64) {
        let place = match self.place(priority) {
            Ok(place) => place,
            Err(mut place) => {
                if self.levels.len() >= SPARE_LEVELS {
                    self.levels.retain(|(_, bytes)| *bytes > 0);
                    place = self.place(priority).unwrap_or_else(|place| place);
                }
                self.levels.insert(place, (priority, 0));
                place
            }
        };
        if let Some((_, kept)) = self.levels.get_mut(place) {
            *kept = kept.saturating_add(bytes);
        }
        self.total = self.total.saturating_add(bytes);
    }

    pub(super) fn remove(&mut self, priority: i32, bytes: u64) {
        let place = self.place(priority).ok();
        let kept = place.and_then(|place| self.levels.get_mut(place));
        debug_assert!(
            bytes == 0 || kept.as_ref().is_some_and(|(_, kept)| *kept >= bytes),
            "bytes leave the send buffer only once"
        );
        if let Some((_, kept)) = kept {
            *kept = kept.saturating_sub(bytes);
        }
        self.total = self.total.saturating_sub(bytes);
    }

    /// Checks that the kept bytes of each priority are `bytes`.
    ///
    /// # Panics
    /// If a check fails, which is a bug in this crate.
    #[cfg(any(test, debug_assertions))]
    pub(super) fn check_caches(&self, bytes: &std::collections::BTreeMap<i32, u64>) {
        let levels = self.levels.iter().copied().filter(|(_, bytes)| *bytes > 0);
        let wanted = bytes.iter().map(|(level, bytes)| (*level, *bytes));
        assert!(
            levels.eq(wanted.filter(|(_, bytes)| *bytes > 0)),
            "{:?}, not {bytes:?}",
            self.levels
        );
        let total = bytes.values().fold(0_u64, |sum, bytes| sum.saturating_add(*bytes));
        assert_eq!(self.total, total, "the bytes of all streams");
    }

    /// Returns the index of a priority, or the index at which to insert it.
    fn place(&self, priority: i32) -> Result<usize, usize> {
        self.levels.binary_search_by_key(&priority, |(level, _)| *level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_less_urgent_takes_no_room() {
        let mut kept = Kept::default();
        kept.add(0, 100);
        assert_eq!([-1, 0, 1].map(|priority| kept.of_at_least(priority)), [100, 100, 0]);
        kept.add(3, 10);
        assert_eq!([-1, 0, 1, 3, 4].map(|it| kept.of_at_least(it)), [110, 110, 10, 10, 0]);
        kept.remove(0, 100);
        kept.remove(3, 4);
        assert_eq!((kept.total(), kept.of_at_least(0)), (6, 6));
    }

    #[test]
    fn priorities_without_data_are_forgotten() {
        let mut kept = Kept::default();
        for priority in 0..1000 {
            kept.add(priority, 1);
            kept.remove(priority, 1);
        }
        assert!(kept.levels.len() <= SPARE_LEVELS + 1, "{}", kept.levels.len());
    }
}
