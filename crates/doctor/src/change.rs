//! Differences between two readings of a counter, and the conclusions from a series of differences.

/// The change of a counter between two readings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// The counter rose by this much, or did not change.
    Rose(u64),
    /// The counter was reset: it now belongs to another device or namespace. Its rise is unknown.
    WentBack,
}

/// Returns the change of a counter from `earlier` to `later`.
///
/// A counter of 32 or 64 bits wraps to 0. A lower reading is interpreted as a wrap if the earlier
/// reading was in the upper half of the range, the later one is in the lower half, and they are
/// less than half of the range apart. Otherwise the counter was reset.
pub(crate) fn step(earlier: u64, later: u64) -> Step {
    const HALF_32: u64 = 1 << 31;
    const HALF_64: u64 = 1 << 63;
    if later >= earlier {
        return Step::Rose(later.saturating_sub(earlier));
    }
    let range_32 = u64::from(u32::MAX);
    if earlier <= range_32 {
        let rise = later.wrapping_sub(earlier) & range_32;
        return match earlier >= HALF_32 && later < HALF_32 && rise < HALF_32 {
            true => Step::Rose(rise),
            false => Step::WentBack,
        };
    }
    let rise = later.wrapping_sub(earlier);
    match earlier >= HALF_64 && later < HALF_64 && rise < HALF_64 {
        true => Step::Rose(rise),
        false => Step::WentBack,
    }
}

/// The rise of a counter over a sequence of readings.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Rise {
    /// The sum of the known steps.
    pub(crate) total: u64,
    /// Whether the counter was read at the beginning and at the end, and never decreased in
    /// between.
    pub(crate) is_complete: bool,
    /// Whether the counter decreased at any point.
    pub(crate) went_back: bool,
}

/// Returns the rise over `readings`; `None` if there are fewer than two.
pub(crate) fn rise(readings: &[Option<u64>]) -> Option<Rise> {
    let seen: Vec<u64> = readings.iter().flatten().copied().collect();
    let is_read_at = |reading: Option<&Option<u64>>| reading.is_some_and(Option::is_some);
    let mut rise = Rise {
        is_complete: is_read_at(readings.first()) && is_read_at(readings.last()),
        ..Rise::default()
    };
    if seen.len() < 2 {
        return None;
    }
    for (earlier, later) in seen.iter().zip(seen.iter().skip(1)) {
        match step(*earlier, *later) {
            Step::Rose(by) => rise.total = rise.total.saturating_add(by),
            Step::WentBack => {
                rise.went_back = true;
                rise.is_complete = false;
            }
        }
    }
    Some(rise)
}

/// Returns the counter's distance from the first reading, for each reading; `None` where it was not
/// read or after it decreased.
pub(crate) fn above_first(readings: &[Option<u64>]) -> Vec<Option<u64>> {
    let (mut before, mut sum, mut is_lost) = (None, 0_u64, false);
    let mut above = |reading: &Option<u64>| {
        let now = (*reading)?;
        match before.replace(now).map(|before| step(before, now)) {
            Some(Step::Rose(by)) => sum = sum.saturating_add(by),
            Some(Step::WentBack) => is_lost = true,
            None => {}
        }
        (!is_lost).then_some(sum)
    };
    readings.iter().map(&mut above).collect()
}

/// The conclusion from a difference between two counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Gap {
    /// No packets are missing.
    Closed,
    /// Definitely lost: this many packets.
    Lost(u64),
    /// Possibly lost: this many packets may have been in transit when the counters were read.
    Unclear(u64),
}

/// Minimum number of readings for distinguishing loss from packets in transit by a trend.
const TREND: usize = 6;

/// Interprets the difference between counters that are not read simultaneously: packets counted by
/// only one of them so far are in transit. `differences` holds the difference at each reading,
/// relative to the first one. `on_the_way` is the maximum number in transit at any one reading.
///
/// The number of packets in transit fluctuates, but losses remain. The difference is a loss if it
/// exceeds what two readings can have in transit, or if it is larger throughout the last third of
/// the readings than anywhere in the first third. If the difference never shrinks, nothing
/// fluctuates, and comparing the last three readings with the first three is sufficient. If the
/// last three exceed only the first reading, the difference is unclear.
pub(crate) fn gap(differences: &[i128], on_the_way: u64) -> Gap {
    let (Some(first), Some(last)) = (differences.first(), differences.last()) else {
        return Gap::Closed;
    };
    let missing = u64::try_from(last.saturating_sub(*first)).unwrap_or(0);
    if missing == 0 {
        return Gap::Closed;
    }
    if missing > on_the_way.saturating_mul(2) {
        return Gap::Lost(missing);
    }
    if differences.len() < TREND {
        return Gap::Unclear(missing);
    }
    let stays = |count: usize| {
        let early = differences.iter().take(count).max();
        let late = differences.iter().rev().take(count).min();
        late > early
    };
    let never_shrinks = differences.is_sorted();
    let is_seen_thrice = differences.iter().rev().take(3).all(|it| it > first);
    if stays(differences.len().div_euclid(3)) || (never_shrinks && stays(3)) {
        Gap::Lost(missing)
    } else if never_shrinks && is_seen_thrice {
        Gap::Unclear(missing)
    } else {
        Gap::Closed
    }
}

/// Returns whether two counts that were not read simultaneously may describe the same losses: they
/// differ by at most 10 %, and neither is 0.
pub(crate) fn agree(one: u64, other: u64) -> bool {
    let (less, more) = (one.min(other), one.max(other));
    less > 0 && more.saturating_sub(less) <= more.div_ceil(10)
}

/// Returns whether a count accounts for at least `lost` packets, as far as counts that were not
/// read simultaneously can tell.
pub(crate) fn covers(count: u64, lost: u64) -> bool {
    count >= lost || agree(count, lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_wrap_at_32_and_64_bits_and_are_reset() {
        assert_eq!(step(5, 9), Step::Rose(4));
        assert_eq!(step(u64::from(u32::MAX) - 1, 3), Step::Rose(5));
        assert_eq!(step(u64::MAX, 3), Step::Rose(4));
        assert_eq!(step(9, 5), Step::WentBack, "no wrap begins at 9");
        assert_eq!(step(u64::MAX, u64::MAX - 5), Step::WentBack);
        assert_eq!(step(1 << 40, 7), Step::WentBack, "a counter of 64 bits does not wrap there");
    }

    #[test]
    fn a_missing_reading_in_the_middle_is_bridged_and_one_at_the_end_is_not() {
        let bridged = rise(&[Some(1), None, Some(4)]);
        assert_eq!(bridged, Some(Rise { total: 3, is_complete: true, went_back: false }));
        let cut = rise(&[Some(1), Some(4), None]);
        assert_eq!(cut, Some(Rise { total: 3, is_complete: false, went_back: false }));
        assert_eq!(rise(&[Some(1), None]), None);
        let reset = rise(&[Some(10), Some(4), Some(6)]);
        assert_eq!(reset, Some(Rise { total: 2, is_complete: false, went_back: true }));
        assert_eq!(above_first(&[Some(10), None, Some(14)]), [Some(0), None, Some(4)]);
        assert_eq!(above_first(&[Some(10), Some(4), Some(6)]), [Some(0), None, None]);
    }

    #[test]
    fn counts_agree_within_a_tenth_and_none_agrees_with_nothing() {
        assert!(agree(1, 1) && agree(1, 2) && agree(90, 100) && covers(2, 1));
        assert!(!agree(89, 100) && !agree(1, 3));
        assert!(!agree(0, 1) && !agree(1, 0) && !agree(0, 0));
        assert!(!covers(0, 1) && covers(0, 0));
    }

    #[test]
    fn what_stays_is_lost_and_what_comes_and_goes_is_not() {
        assert_eq!(gap(&[0, 500], 128), Gap::Lost(500));
        assert_eq!(gap(&[0, 50], 128), Gap::Unclear(50));
        assert_eq!(gap(&[0, 10, 20, 30, 40, 50], 128), Gap::Lost(50));
        assert_eq!(gap(&[0, 0, 0, 0, 50, 50, 50], 128), Gap::Lost(50));
        assert_eq!(gap(&[0, 9, 0, 17, 3, 0, 8], 128), Gap::Closed);
        assert_eq!(gap(&[0, 0, 0, 0, 0, 0, 8], 128), Gap::Closed, "seen once, at the end");
        assert_eq!(
            gap(&[0, 1, 1, 1, 1, 1, 1], 128),
            Gap::Unclear(1),
            "always but at the beginning"
        );
        assert_eq!(gap(&[5, 0, 0, 0, 0, 0, 0], 128), Gap::Closed);
        assert_eq!(gap(&[0, 3, 12, 18, 31, 29, 47, 55, 61], 128), Gap::Lost(61));
    }
}
