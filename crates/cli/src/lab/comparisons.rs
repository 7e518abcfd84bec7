//! The comparisons that are to be made: properties across runs.

use std::cmp::Reverse;

use clearway_lab::across::{Comparison, standard};
use clearway_lab::checker::Property;
use clearway_lab::report::AcrossRow;
use clearway_lab::sweep::{Job, Swept};

use super::selection::Controllers;

/// Comparisons, the most work first, so that at the end no core waits for another.
#[derive(Default)]
pub(super) struct Comparisons {
    /// Each with its place in the order in which people read them.
    list: Vec<(usize, Comparison)>,
}

impl Comparisons {
    /// Those on one of `properties`, or on any if there is none, that one of the selected controllers takes
    /// part in, with so many seeds, or as many as they need.
    pub(super) fn new(
        properties: &[Property],
        controllers: &Controllers,
        seeds: Option<u64>,
    ) -> Self {
        let is_meant = |it: &Comparison| {
            let is_asked = properties.is_empty() || properties.contains(&it.property);
            is_asked && it.controllers.iter().any(|name| controllers.has(name))
        };
        let numbered = standard(seeds).into_iter().enumerate();
        let mut list: Vec<_> = numbered.filter(|(_, it)| is_meant(it)).collect();
        list.sort_by_key(|(_, comparison)| Reverse(comparison.cost()));
        Self { list }
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// What is to be done for all of them.
    pub(super) fn jobs(&self) -> impl Iterator<Item = Job<'_>> {
        self.list.iter().flat_map(|(_, comparison)| comparison.jobs())
    }

    /// Nothing has come of them yet.
    pub(super) fn pending(&self) -> Pending<'_> {
        let list = self.list.iter().map(|(place, comparison)| One {
            place: *place,
            comparison,
            expected: comparison.jobs().map(|job| job.count()).collect(),
            swept: Vec::new(),
        });
        Pending { list: list.collect() }
    }
}

/// Comparisons some of whose runs are there.
pub(super) struct Pending<'a> {
    list: Vec<One<'a>>,
}

struct One<'a> {
    place: usize,
    comparison: &'a Comparison,
    /// How many runs each of its jobs has.
    expected: Vec<usize>,
    /// Its jobs that are there, in their order.
    swept: Vec<Swept>,
}

impl Pending<'_> {
    /// The job `number` of all is complete, or as complete as it gets. Gives the row of its comparison, with
    /// its place, if that was all that it takes.
    pub(super) fn add(&mut self, number: usize, swept: Swept) -> Option<(usize, AcrossRow)> {
        let mut number = number;
        let one = self.list.iter_mut().find(|one| {
            let is_its = number < one.expected.len();
            number -= if is_its { 0 } else { one.expected.len() };
            is_its
        })?;
        // Without all seeds it would be another comparison.
        if one.expected.get(number) == Some(&swept.runs.len()) {
            one.swept.push(swept);
        }
        (one.swept.len() == one.expected.len()).then(|| (one.place, one.row()))
    }
}

impl One<'_> {
    fn row(&mut self) -> AcrossRow {
        let swept = std::mem::take(&mut self.swept);
        let wall = swept.iter().map(|swept| swept.wall.as_secs_f64()).sum();
        let runs: Vec<_> = swept.into_iter().map(|swept| swept.runs).collect();
        let verdict = self.comparison.judge(&runs);
        AcrossRow::new(self.comparison, runs.iter().map(Vec::len).sum(), verdict, wall)
    }
}
