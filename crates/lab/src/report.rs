//! What runs showed, in figures, in words, and as a table.
//!
//! A [`Row`] is what is known of one variant of a scenario with one controller: its [`Statistics`], and
//! for each thing that is expected of it a [`Verdict`]. An [`AcrossRow`] is what came of a comparison of
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
pub use verdict::{Verdict, judge};

use crate::sweep::Swept;

/// One variant of a scenario with one controller.
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
    /// The runs in figures.
    pub statistics: Statistics,
    /// What was expected, and whether it came.
    pub verdicts: Vec<Verdict>,
    /// Published figures that belong beside it, a line for each.
    pub references: Vec<String>,
    /// Real time from the beginning of the first run to the end of the last, in seconds.
    pub wall_seconds: f64,
}

impl Row {
    /// The row of the runs in `swept`, of which there should be `expected`, without names, verdicts or
    /// references.
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

    /// Whether all that was expected came.
    pub fn is_met(&self) -> bool {
        self.verdicts.iter().all(Verdict::is_met)
    }
}

#[cfg(test)]
mod testing;
