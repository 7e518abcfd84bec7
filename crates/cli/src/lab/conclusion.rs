//! What all rows come to.

use clearway_lab::report::Row;

use crate::failure::Failure;

/// Whether all was as expected.
///
/// # Errors
///
/// If it was not.
pub(super) fn conclude(rows: &[Row]) -> Result<(), Failure> {
    let unmet: Vec<_> = rows.iter().filter(|row| !row.is_met()).collect();
    let Some(first) = unmet.first() else { return Ok(()) };
    let what = format!(
        "{} of {} were not as expected; the first: {}, {:?}, {}",
        unmet.len(),
        rows.len(),
        first.scenario,
        first.variant,
        first.controller
    );
    Err(Failure::new(what))
}
