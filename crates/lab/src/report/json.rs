//! Writes a row as JSON.

use core::time::Duration;

use serde::Serialize;

use super::statistics::{Share, Violated};
use super::{Row, Verdict};

/// The JSON object of a row. Times are in seconds, `null` for never; shares are from 0 to 1, each
/// the flow's share of all content.
#[derive(Serialize)]
struct Object<'a> {
    scenario: &'a str,
    controller: &'a str,
    variant: &'a str,
    seeds: usize,
    finished: usize,
    violations: usize,
    floor_reached: f64,
    p50_s: Option<f64>,
    p99_s: Option<f64>,
    max_s: Option<f64>,
    wall_s: f64,
    complete: bool,
    expectations_met: bool,
    unmet: Vec<String>,
    unchecked: Vec<&'a str>,
    unfinished_seeds: &'a [u64],
    late_seeds: Vec<u64>,
    violating_seeds: &'a [u64],
    violated: Vec<&'a Violated>,
    references: &'a [String],
    shares: &'a [Share],
}

/// Returns `row` as one line of JSON.
///
/// # Errors
/// Returns an error if serialization fails, which it does not for any row.
pub fn json(row: &Row) -> Result<String, serde_json::Error> {
    let statistics = &row.statistics;
    let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
    serde_json::to_string(&Object {
        scenario: &row.scenario,
        controller: &row.controller,
        variant: &row.variant,
        seeds: statistics.runs,
        finished: statistics.finished,
        violations: statistics.violations,
        floor_reached: statistics.floor_reached,
        p50_s: seconds(statistics.median),
        p99_s: seconds(statistics.p99),
        max_s: seconds(statistics.longest),
        wall_s: row.wall_seconds,
        complete: row.is_complete,
        expectations_met: row.is_met(),
        unmet: row.verdicts.iter().filter_map(Verdict::unmet).collect(),
        unchecked: row.verdicts.iter().filter_map(unchecked).collect(),
        unfinished_seeds: &statistics.unfinished_seeds,
        late_seeds: row.late_seeds(),
        violating_seeds: &statistics.violating_seeds,
        violated: row.verdicts.iter().flat_map(|verdict| &verdict.violated).collect(),
        references: &row.references,
        shares: &statistics.shares,
    })
}

/// Returns an expectation that was not checked.
pub(super) fn unchecked(verdict: &Verdict) -> Option<&str> {
    (!verdict.is_checked).then_some(&verdict.expected)
}
