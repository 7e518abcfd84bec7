//! The outcomes as a table for people.

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

/// Above this many runs of a controller only the slowest is shown, and a summary.
const MAX_ROWS: usize = 10;

/// A table of all runs, and a summary of each controller that had several.
pub(super) fn table(outcomes: &[Outcome]) -> String {
    let mut rows = vec![HEAD.map(str::to_owned)];
    let mut summaries = Vec::new();
    for controller in Algorithm::ALL {
        let mut runs: Vec<_> =
            outcomes.iter().filter(|outcome| outcome.controller == controller).collect();
        let Some(slowest) = runs.iter().max_by_key(|run| (!run.is_finished, run.time)).copied()
        else {
            continue;
        };
        if runs.len() > 1 {
            summaries.push(summary(controller, &runs, slowest));
        }
        if runs.len() > MAX_ROWS {
            runs = vec![slowest];
        }
        rows.extend(runs.into_iter().map(row));
    }
    let mut text = align(&rows);
    for summary in summaries {
        text.push('\n');
        text.push_str(&summary);
    }
    text
}

fn row(outcome: &Outcome) -> [String; 9] {
    let server = &outcome.server;
    let floor = if server.floor_reached() { " (floor)" } else { "" };
    [
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

fn summary(controller: Algorithm, runs: &[&Outcome], slowest: &Outcome) -> String {
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

/// Columns as wide as their widest cell: the first to the left, the others to the right.
fn align(rows: &[[String; 9]]) -> String {
    let mut widths = [0; 9];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let lines = rows.iter().map(|row| {
        let cells = row.iter().zip(widths).enumerate().map(|(column, (cell, width))| {
            if column == 0 { format!("{cell:width$}") } else { format!("{cell:>width$}") }
        });
        cells.collect::<Vec<_>>().join("  ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
