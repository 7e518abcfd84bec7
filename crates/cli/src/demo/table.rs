//! Human-readable table of outcomes.

use clearway::congestion::Algorithm;

use super::outcome::Outcome;
use crate::units::{bytes_text, rate_text};

const HEAD: [&str; 9] = [
    "controller",
    "finished",
    "seconds",
    "goodput",
    "smallest window",
    "at the floor",
    "congestion events",
    "lost",
    "spuriously",
];

/// If a controller has more runs than this, only the slowest is shown, with a summary.
const MAX_ROWS: usize = 10;

/// The runs of one controller, at least one.
struct Group<'a> {
    controller: Algorithm,
    runs: Vec<&'a Outcome>,
    slowest: &'a Outcome,
}

/// Formats a table of all runs, and a summary of each controller with several runs. If its lines do
/// not fit into `width` columns, only the slowest runs are shown, one per column.
pub(super) fn table(outcomes: &[Outcome], width: Option<usize>) -> String {
    let groups: Vec<_> = Algorithm::ALL.into_iter().filter_map(|it| group(it, outcomes)).collect();
    let head = HEAD.map(str::to_owned).to_vec();
    let shown = |group: &Group<'_>| match group.runs.len() > MAX_ROWS {
        true => vec![row(group.slowest)],
        false => group.runs.iter().copied().map(row).collect(),
    };
    let rows: Vec<_> = std::iter::once(head.clone()).chain(groups.iter().flat_map(shown)).collect();
    let mut text = align(&rows);
    if width.is_some_and(|width| text.lines().any(|line| line.chars().count() > width)) {
        let slowest = groups.iter().map(|group| row(group.slowest));
        text = align(&transposed(&std::iter::once(head).chain(slowest).collect::<Vec<_>>()));
    }
    for group in groups.iter().filter(|group| group.runs.len() > 1) {
        text.push('\n');
        text.push_str(&summary(group));
    }
    text
}

fn group(controller: Algorithm, outcomes: &[Outcome]) -> Option<Group<'_>> {
    let runs: Vec<_> = outcomes.iter().filter(|outcome| outcome.controller == controller).collect();
    let slowest = runs.iter().max_by_key(|run| (!run.is_finished, run.time)).copied()?;
    Some(Group { controller, runs, slowest })
}

/// Transposes the table: its columns become rows.
fn transposed(rows: &[Vec<String>]) -> Vec<Vec<String>> {
    let column = |index| rows.iter().filter_map(|row| row.get(index).cloned()).collect();
    (0..HEAD.len()).map(column).collect()
}

fn row(outcome: &Outcome) -> Vec<String> {
    let server = &outcome.server;
    let floor = if server.floor_reached() { " (floor)" } else { "" };
    vec![
        outcome.name.clone(),
        if outcome.is_finished { "yes" } else { "NO" }.to_owned(),
        format!("{:.2}", outcome.time.as_secs_f64()),
        rate_text(outcome.goodput()),
        format!("{}{floor}", bytes_text(server.smallest_window)),
        format!("{:.2} s", server.at_floor.as_secs_f64()),
        server.congestion_events.to_string(),
        server.lost.to_string(),
        server.spurious.to_string(),
    ]
}

fn summary(Group { controller, runs, slowest }: &Group<'_>) -> String {
    let finished = runs.iter().filter(|run| run.is_finished).count();
    let at_floor = runs.iter().filter(|run| run.server.floor_reached()).count();
    let mut times: Vec<_> = runs.iter().map(|run| run.time).collect();
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    format!(
        "{controller}: {finished} of {} finished, {at_floor} reached the floor; \
         median {:.2} s, slowest {:.2} s ({})",
        runs.len(),
        median.as_secs_f64(),
        slowest.time.as_secs_f64(),
        slowest.name,
    )
}

/// Pads every column to its widest cell: the first column is left-aligned, the others are right-aligned.
fn align(rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows {
        widths.resize(row.len().max(widths.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let lines = rows.iter().map(|row| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            if column == 0 { format!("{cell:width$}") } else { format!("{cell:>width$}") }
        });
        cells.collect::<Vec<_>>().join("  ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
