//! The score, as a table in README.md and gallery/README.md.

use std::fs;
use std::path::Path;

use super::{Trial, folder};
use crate::command::root;

const BEGIN: &str = "<!-- gallery: written by cargo xtask gallery --write -->";
const END: &str = "<!-- gallery: end -->";

/// Writes what came of `trials` between the marks of both files.
pub(super) fn write(trials: &[Trial<'_>]) -> Result<(), String> {
    replace(&folder().join("README.md"), &details(trials))?;
    replace(&root().join("README.md"), &score(trials))
}

/// A line for each patch.
fn details(trials: &[Trial<'_>]) -> String {
    let mut text = score(trials);
    text.push_str("\n| row | bug | whose | property | seen by | seconds until seen |\n|---|---|---|---|---|---|\n");
    for Trial { patch, seen, is_caught } in trials {
        let row =
            if patch.is_marked { format!("{} [S]", patch.row) } else { patch.row.to_string() };
        let property = match (is_caught, patch.properties.as_slice()) {
            (false, _) => "open".to_owned(),
            (true, []) => "a test".to_owned(),
            (true, properties) => {
                let seen = properties.iter().filter(|property| seen.violated.contains(property));
                seen.cloned().collect::<Vec<_>>().join(", ")
            }
        };
        let at = seen.at.map_or_else(|| "–".to_owned(), |at| format!("{at:.2}"));
        let (name, bug, whose) = (&patch.name, &patch.bug, &patch.whose);
        let by = patch.judge.describe();
        text.push_str(&format!(
            "| [{row}]({name}.patch) | {bug} | {whose} | {property} | {by} | {at} |\n"
        ));
    }
    text
}

fn score(trials: &[Trial<'_>]) -> String {
    let caught = trials.iter().filter(|trial| trial.is_caught).count();
    let rows = |marked: bool| {
        let mut rows: Vec<u32> = trials
            .iter()
            .filter(|trial| trial.is_caught && (trial.patch.is_marked || !marked))
            .map(|trial| trial.patch.row)
            .collect();
        rows.sort_unstable();
        rows.dedup();
        rows.len()
    };
    format!(
        "\n{caught} of {} patches are caught, of {} rows; {} of them have their account published in full.\n",
        trials.len(),
        rows(false),
        rows(true)
    )
}

fn replace(file: &Path, table: &str) -> Result<(), String> {
    let named = |error: &str| format!("{}: {error}", file.display());
    let text = fs::read_to_string(file).map_err(|error| named(&error.to_string()))?;
    let parts = text.split_once(BEGIN).and_then(|(before, rest)| {
        rest.split_once(END).map(|(_, after)| format!("{before}{BEGIN}\n{table}\n{END}{after}"))
    });
    let text = parts.ok_or_else(|| named("there are no marks for the table"))?;
    fs::write(file, text).map_err(|error| named(&error.to_string()))
}
