//! Writes the results to gallery/README.md, as a table.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::rows::{self, Row};
use super::{Trial, folder};

const BEGIN: &str = "<!-- gallery: written by cargo xtask gallery --write -->";
const END: &str = "<!-- gallery: end -->";

/// Writes the outcomes of `trials` between the markers in the gallery's README.md.
pub(super) fn write(trials: &[Trial<'_>]) -> Result<(), String> {
    let missing = rows::read(&folder())?;
    let text = format!("{}\n{}\n{}", score(trials), table(trials), reasons(&missing));
    replace(&folder().join("README.md"), &text)
}

/// Returns the table with a line for each patch.
fn table(trials: &[Trial<'_>]) -> String {
    let mut text = String::from(
        "| row | bug | found in | property | detected by | after (s) |\n|---|---|---|---|---|---|\n",
    );
    for trial in trials {
        let Trial { patch, seen, .. } = trial;
        let mark = if patch.is_marked { " [S]" } else { "" };
        let at = seen.at.map_or_else(|| "–".to_owned(), |at| format!("{at:.2}"));
        let (row, name, bug, whose) = (patch.row, &patch.name, &patch.bug, &patch.whose);
        let (property, by) = (property(trial), patch.describe_judges());
        text.push_str(&format!(
            "| [{row}{mark}]({name}.patch) | {bug} | {whose} | {property} | {by} | {at} |\n"
        ));
    }
    text
}

/// Returns those of the expected properties that were violated.
fn property(trial: &Trial<'_>) -> String {
    match (trial.is_caught, trial.patch.properties.as_slice()) {
        (false, _) => "**open**".to_owned(),
        (true, []) => "a test".to_owned(),
        (true, properties) => {
            let is_seen = |property: &&String| trial.seen.violated.contains(property);
            properties.iter().filter(is_seen).cloned().collect::<Vec<_>>().join(", ")
        }
    }
}

fn score(trials: &[Trial<'_>]) -> String {
    let caught = trials.iter().filter(|trial| trial.is_caught);
    let rows: BTreeSet<u32> = trials.iter().map(|trial| trial.patch.row).collect();
    let open = trials.iter().filter(|trial| !trial.is_caught);
    let open: Vec<&str> = open.map(|trial| trial.patch.name.as_str()).collect();
    let named = match open.as_slice() {
        [] => String::new(),
        open => format!(" Open: {}.", open.join(", ")),
    };
    format!(
        "\n{} of {} patches, which cover {} rows, are caught.{named}\n",
        caught.count(),
        trials.len(),
        rows.len()
    )
}

/// Returns the table of rows without a patch, with the reason for each.
fn reasons(missing: &[Row]) -> String {
    let mut text = format!(
        "## Bugs that cannot be expressed in this design\n\n{} rows have no patch:\n\n| row | bug | reason |\n|---|---|---|\n",
        missing.len()
    );
    for Row { row, marked, bug, why } in missing {
        let mark = if *marked { " [S]" } else { "" };
        text.push_str(&format!("| {row}{mark} | {bug} | {why} |\n"));
    }
    text
}

fn replace(file: &Path, table: &str) -> Result<(), String> {
    let named = |error: &str| format!("{}: {error}", file.display());
    let text = fs::read_to_string(file).map_err(|error| named(&error.to_string()))?;
    let parts = text.split_once(BEGIN).and_then(|(before, rest)| {
        rest.split_once(END).map(|(_, after)| format!("{before}{BEGIN}\n{table}\n{END}{after}"))
    });
    let text =
        parts.ok_or_else(|| named("the comments that mark the table's location are missing"))?;
    fs::write(file, text).map_err(|error| named(&error.to_string()))
}
