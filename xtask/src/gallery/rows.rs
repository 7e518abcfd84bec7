//! Rows in the list of published bugs that have no patch.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::patch::Patch;

/// A published bug that cannot be expressed as a change to Clearway's code.
#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    /// The bug's row number in the list of published bugs.
    pub(super) row: u32,
    /// Whether the bug was described in full.
    pub(super) marked: bool,
    pub(super) bug: String,
    /// Why no change to the code corresponds to the bug.
    pub(super) why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rows {
    row: Vec<Row>,
}

/// Reads all rows, sorted by number.
pub(super) fn read(folder: &Path) -> Result<Vec<Row>, String> {
    let file = folder.join("rows.toml");
    let named = |error: &dyn core::fmt::Display| format!("{}: {error}", file.display());
    let text = fs::read_to_string(&file).map_err(|error| named(&error))?;
    let rows: Rows = toml::from_str(&text).map_err(|error| named(&error))?;
    let mut rows = rows.row;
    rows.sort_by_key(|row| row.row);
    Ok(rows)
}

/// Checks that rows listed as having no patch really have none.
pub(super) fn check(rows: &[Row], patches: &[Patch]) -> Result<(), String> {
    for row in rows {
        if let Some(patch) = patches.iter().find(|patch| patch.row == row.row) {
            return Err(format!(
                "rows.toml lists row {}, but there is a patch for it: {}",
                row.row, patch.name
            ));
        }
    }
    Ok(())
}
