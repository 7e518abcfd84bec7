//! Formats rows as a table, for people.

use super::json::unchecked;
use super::text::wrapped;
use super::{Row, Share, Statistics, Verdict};

/// The maximum width of a line, unless a single word is longer.
const WIDTH: usize = 100;
/// The maximum width of a variant's name; longer names are shortened.
const NAME_WIDTH: usize = 30;
/// The number of flows above which only the smallest and the largest share are shown.
const NAMED_FLOWS: usize = 8;
const HEAD: [&str; 9] =
    ["variant", "controller", "seeds", "finished", "floor", "p50 s", "p99 s", "max s", "expected"];

/// Formats `rows` as a table, with a part for each scenario; rows of a scenario must be adjacent. A
/// row is followed by the unmet expectations, the flows' shares, and the published results that no
/// earlier row of its scenario has. Times are in seconds.
pub fn table(rows: &[Row]) -> String {
    let cells: Vec<_> = rows.iter().map(cells).collect();
    let mut widths = HEAD.map(str::len);
    for row in &cells {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut lines: Vec<String> = Vec::new();
    for (index, (row, cells)) in rows.iter().zip(&cells).enumerate() {
        let before = index.checked_sub(1).and_then(|before| rows.get(before));
        if before.is_none_or(|before| before.scenario != row.scenario) {
            if !lines.is_empty() {
                lines.push(String::new());
            }
            lines.push(row.scenario.clone());
            lines.push(line(&HEAD.map(str::to_owned), &widths));
        }
        lines.push(line(cells, &widths));
        let earlier = rows[..index].iter().filter(|it| it.scenario == row.scenario);
        let printed: Vec<_> = earlier.flat_map(|row| &row.references).collect();
        lines.extend(notes(row, &printed));
    }
    lines.join("\n")
}

fn cells(row: &Row) -> [String; 9] {
    let statistics = &row.statistics;
    let time = |time: Option<core::time::Duration>| match time {
        Some(time) => format!("{:.2}", time.as_secs_f64()),
        None if statistics.ended_early > 0 => "-".to_owned(),
        None => "never".to_owned(),
    };
    let expected = match (row.is_met(), row.is_complete) {
        (false, _) => "NO",
        (true, true) => "yes",
        (true, false) => "so far",
    };
    [
        shortened(&row.variant),
        row.controller.clone(),
        statistics.runs.to_string(),
        statistics.finished.to_string(),
        format!("{:.0} %", statistics.floor_reached * 100.0),
        time(statistics.median),
        time(statistics.p99),
        time(statistics.longest),
        expected.to_owned(),
    ]
}

fn shortened(name: &str) -> String {
    match name.chars().count() > NAME_WIDTH {
        true => name.chars().take(NAME_WIDTH - 1).chain(['…']).collect(),
        false => name.to_owned(),
    }
}

/// Aligns names to the left, numbers to the right.
fn line(cells: &[String; 9], widths: &[usize; 9]) -> String {
    let cells = cells.iter().zip(widths).enumerate().map(|(column, (cell, width))| match column {
        0 | 1 => format!("{cell:width$}"),
        _ => format!("{cell:>width$}"),
    });
    cells.collect::<Vec<_>>().join("  ")
}

/// Formats the share of the content that each flow received: the mean, the smallest and the largest
/// share. If there are many flows, only the flows with the smallest and the largest mean are
/// included.
fn shares(row: &Row) -> Option<String> {
    let shares = &row.statistics.shares;
    let percent = |share: f64| format!("{:.1}", share * 100.0);
    let one = |share: &Share| {
        let Share { flow, least, mean, most } = share;
        format!("{flow} {} % ({} to {})", percent(*mean), percent(*least), percent(*most))
    };
    let by_mean = |a: &&Share, b: &&Share| a.mean.total_cmp(&b.mean);
    match (shares.iter().min_by(by_mean), shares.iter().max_by(by_mean)) {
        (Some(smallest), Some(largest)) if shares.len() > NAMED_FLOWS => {
            let (count, smallest, largest) = (shares.len(), one(smallest), one(largest));
            Some(format!("shares of {count} flows: from {smallest} to {largest}"))
        }
        (Some(_), Some(_)) => {
            Some(format!("shares: {}", shares.iter().map(one).collect::<Vec<_>>().join(", ")))
        }
        _ => None,
    }
}

/// Returns the notes below a row, without references that are `printed` above it.
fn notes(row: &Row, printed: &[&String]) -> Vec<String> {
    let unmet = row.verdicts.iter().filter_map(Verdict::unmet);
    let unmet = unmet.map(|text| format!("not as expected: {text}"));
    let published = row.references.iter().filter(|text| !printed.contains(text));
    let published = published.map(|text| format!("published: {text}"));
    unmet
        .chain(not_checked(row))
        .chain(shares(row))
        .chain(published)
        .flat_map(|text| wrapped(&text, "    ", WIDTH))
        .collect()
}

/// Lists the expectations that were not checked.
fn not_checked(row: &Row) -> Option<String> {
    let open: Vec<_> = row.verdicts.iter().filter_map(unchecked).collect();
    let Statistics { runs, ended_early, .. } = row.statistics;
    (!open.is_empty()).then(|| {
        let list = open.join("; ");
        format!("not checked, because {ended_early} of {runs} runs ended early: {list}")
    })
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
