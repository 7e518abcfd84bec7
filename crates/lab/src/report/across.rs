//! Reports comparisons, for people and for programs.

use serde::Serialize;

use super::text::wrapped;
use crate::across::{Comparison, Verdict};

/// The result of one comparison.
#[derive(Clone, PartialEq, Debug)]
pub struct AcrossRow {
    /// The controllers that were compared.
    pub controllers: Vec<String>,
    /// A short description of the runs that were compared.
    pub compared: String,
    /// The number of runs.
    pub runs: usize,
    /// The verdict.
    pub verdict: Verdict,
    /// Real time that the runs took, in seconds.
    pub wall_seconds: f64,
}

impl AcrossRow {
    /// Creates a row for `comparison`, which required `runs` runs.
    pub fn new(comparison: &Comparison, runs: usize, verdict: Verdict, wall_seconds: f64) -> Self {
        Self {
            controllers: comparison.controllers.clone(),
            compared: comparison.compared.clone(),
            runs,
            verdict,
            wall_seconds,
        }
    }

    /// Returns whether the property held.
    pub fn is_met(&self) -> bool {
        self.verdict.holds()
    }

    /// Returns the names of the row's controllers as one word, such as `bbr+cubic`.
    pub fn controller(&self) -> String {
        self.controllers.join("+")
    }
}

/// The maximum width of a line, unless a single word is longer.
const WIDTH: usize = 100;
const HEAD: [&str; 6] = ["ID", "controller", "compared", "figure", "bound", "expected"];

/// Formats `rows` as a table. A row that does not meet expectations is followed by its
/// measurements.
pub fn across_table(rows: &[AcrossRow]) -> String {
    let cells: Vec<_> = rows.iter().map(cells).collect();
    let mut widths = HEAD.map(str::len);
    for row in &cells {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut lines = vec!["across runs".to_owned(), line(&HEAD.map(str::to_owned), &widths)];
    for (row, cells) in rows.iter().zip(&cells) {
        lines.push(line(cells, &widths));
        if !row.is_met() {
            let text = format!("not as expected: {}", row.verdict.details);
            lines.extend(wrapped(&text, "    ", WIDTH));
        }
    }
    lines.join("\n")
}

fn cells(row: &AcrossRow) -> [String; 6] {
    let verdict = &row.verdict;
    let expected = if row.is_met() { "yes" } else { "NO" };
    [
        verdict.property.id().to_owned(),
        row.controller(),
        row.compared.clone(),
        verdict.figure_text(),
        verdict.bound.to_string(),
        expected.to_owned(),
    ]
}

/// Aligns names and bounds to the left, numbers to the right.
fn line(cells: &[String; 6], widths: &[usize; 6]) -> String {
    let cells = cells.iter().zip(widths).enumerate().map(|(column, (cell, width))| match column {
        3 | 5 => format!("{cell:>width$}"),
        _ => format!("{cell:width$}"),
    });
    cells.collect::<Vec<_>>().join("  ")
}

/// The JSON object of a row. Shares are from 0 to 1.
#[derive(Serialize)]
struct Object<'a> {
    property: &'static str,
    controllers: &'a [String],
    compared: &'a str,
    runs: usize,
    figure: Option<f64>,
    unit: &'static str,
    at_least: Option<f64>,
    at_most: Option<f64>,
    expectations_met: bool,
    details: &'a str,
    wall_s: f64,
}

/// Returns `row` as one line of JSON.
///
/// # Errors
/// Returns an error if serialization fails, which it does not for any row.
pub fn across_json(row: &AcrossRow) -> Result<String, serde_json::Error> {
    let verdict = &row.verdict;
    serde_json::to_string(&Object {
        property: verdict.property.id(),
        controllers: &row.controllers,
        compared: &row.compared,
        runs: row.runs,
        figure: verdict.figure,
        unit: verdict.bound.unit.name(),
        at_least: verdict.bound.at_least,
        at_most: verdict.bound.at_most,
        expectations_met: row.is_met(),
        details: &verdict.details,
        wall_s: row.wall_seconds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::across::{Bound, Unit};
    use crate::checker::Property;

    fn row(property: Property, figure: Option<f64>, bound: Bound) -> AcrossRow {
        AcrossRow {
            controllers: vec!["bbr".to_owned(), "cubic".to_owned()],
            compared: "two of them".to_owned(),
            runs: 4,
            verdict: Verdict { property, figure, bound, details: "seed 3: 5.0, 95.0 %".to_owned() },
            wall_seconds: 1.5,
        }
    }

    #[test]
    fn a_row_that_is_not_as_expected_is_explained() {
        let rows = [
            row(Property::M2, Some(0.0123), Bound::at_most(0.05, Unit::Share)),
            row(Property::M3, None, Bound::at_most(4.0, Unit::Datagrams)),
            row(Property::Fd, Some(0.05), Bound::at_least(0.1, Unit::Share)),
        ];
        let expected = "\
across runs
ID  controller  compared     figure  bound            expected
M2  bbr+cubic   two of them   1.2 %  at most 5.0 %         yes
M3  bbr+cubic   two of them    none  at most 4.0 dg         NO
    not as expected: seed 3: 5.0, 95.0 %
Fd  bbr+cubic   two of them   5.0 %  at least 10.0 %        NO
    not as expected: seed 3: 5.0, 95.0 %";
        assert_eq!(across_table(&rows), expected);
    }

    #[test]
    fn a_row_for_programs() {
        let row = row(Property::Fd, Some(0.05), Bound::at_least(0.1, Unit::Share));
        let expected = "{\"property\":\"Fd\",\"controllers\":[\"bbr\",\"cubic\"],\
            \"compared\":\"two of them\",\"runs\":4,\"figure\":0.05,\"unit\":\"share\",\
            \"at_least\":0.1,\"at_most\":null,\"expectations_met\":false,\
            \"details\":\"seed 3: 5.0, 95.0 %\",\"wall_s\":1.5}";
        assert_eq!(across_json(&row).unwrap(), expected);
    }
}
