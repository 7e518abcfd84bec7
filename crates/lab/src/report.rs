//! Reports the results of runs: as statistics, in words, and as a table.
//!
//! A [`Row`] is the result of one variant of a scenario with one controller: its [`Statistics`], and
//! a [`Verdict`] for each expectation. An [`AcrossRow`] is the result of a comparison of
//! runs or flows.

mod across;
mod capacity;
mod json;
mod measure;
mod statistics;
mod table;
mod text;
mod verdict;

pub use across::{AcrossRow, across_json, across_table};
pub use json::json;
pub use statistics::{Share, Statistics, Violated};
pub use table::table;
pub use text::seconds_text;
pub use verdict::{Verdict, judge, judge_run};

use std::collections::BTreeSet;

use crate::checker::Property;
use crate::sweep::Swept;
use statistics::NAMED;

/// The result of one variant of a scenario with one controller.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// The scenario's name.
    pub scenario: String,
    /// The variant's name.
    pub variant: String,
    /// The controller's name.
    pub controller: String,
    /// Whether every seed was run.
    pub is_complete: bool,
    /// The statistics of the runs.
    pub statistics: Statistics,
    /// The expectations, and whether they were met.
    pub verdicts: Vec<Verdict>,
    /// Published results for comparison, one line each.
    pub references: Vec<String>,
    /// Real time from the beginning of the first run to the end of the last, in seconds.
    pub wall_seconds: f64,
}

impl Row {
    /// Creates the row of the runs in `swept`, without names, verdicts or references. A complete
    /// sweep has `expected` runs.
    pub fn new(swept: &Swept, expected: usize) -> Self {
        Self {
            scenario: String::new(),
            variant: String::new(),
            controller: String::new(),
            is_complete: swept.runs.len() == expected,
            statistics: Statistics::new(&swept.runs),
            verdicts: Vec::new(),
            references: Vec::new(),
            wall_seconds: swept.wall.as_secs_f64(),
        }
    }

    /// Returns the seeds of the first few runs that violated L9: later than a bound that was
    /// missed, or not finished.
    pub fn late_seeds(&self) -> Vec<u64> {
        let is_late = |verdict: &&Verdict| {
            let mut ids = verdict.violated.iter().map(|violated| violated.property);
            !verdict.violated.is_empty() && ids.all(|id| id == Property::L9.id())
        };
        let late = self.verdicts.iter().filter(is_late);
        let seeds: BTreeSet<u64> = late.flat_map(|it| it.seeds.iter().copied()).collect();
        seeds.into_iter().take(NAMED).collect()
    }

    /// Returns whether all expectations were met.
    pub fn is_met(&self) -> bool {
        self.verdicts.iter().all(Verdict::is_met)
    }
}

#[cfg(test)]
mod testing;
