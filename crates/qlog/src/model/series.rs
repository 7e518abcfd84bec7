//! A series of a number over time, in bounded memory.

use core::time::Duration;

use super::columns::Columns;
use super::header::{ColumnPlace, milliseconds};

/// Thinning reduces this many neighboring points to the smallest and the largest of them.
const NEIGHBOURS: usize = 4;

/// A sequence of points in chronological order.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Series {
    /// Milliseconds since the beginning of the trace, and the value. NaN means that there is no value from here on.
    points: Vec<(f64, f64)>,
    maximum: usize,
    is_thinned: bool,
}

impl Series {
    /// Creates an empty series that keeps at most `maximum` points.
    pub(super) const fn new(maximum: usize) -> Self {
        Self { points: Vec::new(), maximum, is_thinned: false }
    }

    pub(super) fn push(&mut self, at: Duration, value: f64) {
        if self.points.len() >= self.maximum {
            self.thin();
        }
        self.points.push((milliseconds(at), value));
    }

    fn thin(&mut self) {
        self.is_thinned = true;
        self.points = self.points.chunks(NEIGHBOURS).flat_map(extremes).collect();
    }

    /// Returns the points after the first `count`.
    pub(super) fn since(&self, count: usize) -> &[(f64, f64)] {
        self.points.get(count..).unwrap_or_default()
    }

    pub(super) const fn len(&self) -> usize {
        self.points.len()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    pub(super) const fn is_thinned(&self) -> bool {
        self.is_thinned
    }

    /// Returns the median of the values.
    pub(super) fn median(&self) -> Option<f64> {
        let mut values: Vec<f64> = self.points.iter().map(|(_, value)| *value).collect();
        values.sort_unstable_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    }

    /// Writes the times and the values, and returns their locations.
    pub(super) fn write(&self, columns: &mut Columns) -> (ColumnPlace, ColumnPlace) {
        let times = columns.f64(self.points.iter().map(|(time, _)| *time));
        (times, columns.f64(self.points.iter().map(|(_, value)| *value)))
    }

    /// Writes the times, and the values as rows of the table, and returns their locations.
    pub(super) fn write_marks(&self, columns: &mut Columns) -> (ColumnPlace, ColumnPlace) {
        let times = columns.f64(self.points.iter().map(|(time, _)| *time));
        (times, columns.u32(self.points.iter().map(|(_, row)| *row as u32)))
    }
}

/// Returns the smallest and the largest of `points`, in chronological order, and a last point
/// without a value if there is one.
fn extremes(points: &[(f64, f64)]) -> impl Iterator<Item = (f64, f64)> + use<> {
    let numbered = || points.iter().enumerate().filter(|(_, (_, value))| !value.is_nan());
    let smallest = numbered().min_by(|(_, one), (_, other)| one.1.total_cmp(&other.1));
    let largest = numbered().max_by(|(_, one), (_, other)| one.1.total_cmp(&other.1));
    let end = points.iter().enumerate().next_back().filter(|(_, (_, value))| value.is_nan());
    let kept = smallest.into_iter().chain(largest).chain(end);
    let mut both: Vec<(usize, (f64, f64))> = kept.map(|(index, point)| (index, *point)).collect();
    both.sort_unstable_by_key(|(index, _)| *index);
    both.dedup_by_key(|(index, _)| *index);
    both.into_iter().map(|(_, point)| point)
}
