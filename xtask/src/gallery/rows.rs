//! The rows of the field's list that no patch stands for.

use std::fs;
use std::path::Path;

use serde::Deserialize;

/// A bug that our design cannot express.
#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    /// Its number in the field's list.
    pub(super) row: u32,
    /// Whether its account was published in full.
    pub(super) marked: bool,
    pub(super) bug: String,
    /// Why there is nothing to change.
    pub(super) why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rows {
    row: Vec<Row>,
}

/// All of them, in the order of their numbers.
pub(super) fn read(folder: &Path) -> Result<Vec<Row>, String> {
    let file = folder.join("rows.toml");
    let named = |error: &dyn core::fmt::Display| format!("{}: {error}", file.display());
    let text = fs::read_to_string(&file).map_err(|error| named(&error))?;
    let rows: Rows = toml::from_str(&text).map_err(|error| named(&error))?;
    let mut rows = rows.row;
    rows.sort_by_key(|row| row.row);
    Ok(rows)
}
