//! The overall result of all rows.

use clearway_lab::report::{AcrossRow, Row};

use clearway_terminal::failure::Failure;

/// Checks that all results are as expected.
///
/// # Errors
///
/// Returns an error if any result is not as expected.
pub(super) fn conclude(rows: &[Row], across: &[AcrossRow]) -> Result<(), Failure> {
    let rows_unmet = rows.iter().filter(|row| !row.is_met());
    let rows_unmet =
        rows_unmet.map(|row| format!("{}, {:?}, {}", row.scenario, row.variant, row.controller));
    let across_unmet = across.iter().filter(|row| !row.is_met());
    let across_unmet = across_unmet
        .map(|row| format!("{}, {}, {}", row.verdict.property, row.controller(), row.compared));
    let unmet: Vec<_> = rows_unmet.chain(across_unmet).collect();
    let Some(first) = unmet.first() else { return Ok(()) };
    Err(Failure::new(format!(
        "{} of {} results were not as expected; the first: {first}",
        unmet.len(),
        rows.len() + across.len(),
    )))
}
