//! The comparisons to run, for properties across runs.

use std::cmp::Reverse;

use clearway_lab::across::{Comparison, standard};
use clearway_lab::checker::Property;
use clearway_lab::report::AcrossRow;
use clearway_lab::sweep::{Job, Swept};

use super::selection::Controllers;

/// Comparisons in descending order of cost, so that all cores are busy until the end.
#[derive(Default)]
pub(super) struct Comparisons {
    /// The comparisons, each with its index in the table.
    list: Vec<(usize, Comparison)>,
}

impl Comparisons {
    /// Selects the comparisons for `properties`, or for all properties if the list is empty, that
    /// involve a selected controller. Each uses `seeds` seeds, or as many as it needs by default.
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

    /// Returns whether there are no comparisons.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the jobs of all comparisons, one comparison after another.
    pub(super) fn jobs(&self) -> impl Iterator<Item = Job<'_>> {
        self.list.iter().flat_map(|(_, comparison)| comparison.jobs())
    }

    /// Returns the state of all comparisons before any job is done.
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

/// Comparisons whose runs are partly done.
pub(super) struct Pending<'a> {
    list: Vec<One<'a>>,
}

struct One<'a> {
    place: usize,
    comparison: &'a Comparison,
    /// Number of runs in each of the comparison's jobs.
    expected: Vec<usize>,
    /// Results of the completed jobs, in order.
    swept: Vec<Swept>,
}

impl Pending<'_> {
    /// Adds the runs of job `number`, counted across all comparisons; the job may have been
    /// interrupted. Returns the row of its comparison and the row's index, if all jobs of the
    /// comparison are now complete.
    pub(super) fn add(&mut self, number: usize, swept: Swept) -> Option<(usize, AcrossRow)> {
        let mut number = number;
        let one = self.list.iter_mut().find(|one| {
            let is_its = number < one.expected.len();
            number -= if is_its { 0 } else { one.expected.len() };
            is_its
        })?;
        // With only some of the seeds, the result would belong to a different comparison.
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
