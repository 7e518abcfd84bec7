//! docs/probe-results.md: a table row for each check that a peer's server does not pass.

use std::collections::{BTreeMap, BTreeSet};

use super::PEERS;
use super::notes::{Group, Notes};
use super::results::{CheckResult, Verdict};

pub(super) const FILE: &str = "docs/probe-results.md";

/// The parts of the document, which are also the columns of failures in the summary.
pub(super) const LAYERS: [&str; 3] = ["QUIC", "HTTP/3", "QPACK"];

const INTRODUCTION: &str = "\
# Conformance of other servers

Every check of `clearway probe conformance` ([probe.md](probe.md)) that fails, does not apply, or varies for the server of at
least one of the peers in `interop/peers`. `cargo xtask conformance` runs all checks against these servers and compares the
results with this page, also in continuous integration. `cargo xtask conformance --write` runs them three times and writes this
page; the explanations are in `interop/tests/conformance/notes.toml`.

";

const LEGEND: &str = "
The tables say what the server did after the probe had sent what the third column describes:

- **passed**: what the RFC allows.
- **no error**: it neither closed the connection nor reset the stream within two seconds.
- **no answer**: it sent no response, frame, or packet where one is required.
- **answered**: it sent a packet where it must not.
- **closed with** a code: it closed the connection with another code than those that the RFC allows, or where it must not.
- **reset** and **stopped**: it sent RESET_STREAM or STOP_SENDING with this code, and left the connection open.
- **n/a**: the check needs what the server does not support.
- **varies**: the result differs from run to run, as explained in the [last section](#results-that-vary).
";

/// What a server did in a check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Cell {
    Passed,
    Failed(String),
    NotApplicable,
    Varies,
}

impl Cell {
    /// Combines the results of several runs of one check.
    fn new(results: &[&CheckResult], is_noted: bool) -> Self {
        let verdict = results[0].verdict;
        if is_noted || results.iter().any(|it| it.verdict != verdict) {
            return Self::Varies;
        }
        match verdict {
            Verdict::Passed => Self::Passed,
            Verdict::NotApplicable => Self::NotApplicable,
            Verdict::Failed => {
                let all: BTreeSet<_> = results.iter().map(|it| it.what.as_str()).collect();
                Self::Failed(all.into_iter().collect::<Vec<_>>().join(" or "))
            }
        }
    }

    fn text(&self) -> &str {
        match self {
            Self::Passed => "passed",
            Self::Failed(what) => what,
            Self::NotApplicable => "n/a",
            Self::Varies => "varies",
        }
    }
}

/// A check and what each peer's server did.
pub(super) struct Row {
    check: String,
    reference: String,
    sends: String,
    /// In the order of `PEERS`.
    pub(super) cells: Vec<Cell>,
}

impl Row {
    pub(super) fn layer(&self) -> &'static str {
        let rfc = self.reference.split(' ').nth(1).unwrap_or_default();
        match rfc {
            "9114" | "9218" | "9220" | "9297" => "HTTP/3",
            "9204" => "QPACK",
            _ => "QUIC",
        }
    }

    fn line(&self) -> String {
        let Self { check, reference, sends, cells } = self;
        let cells: Vec<_> = cells.iter().map(Cell::text).collect();
        format!("| `{check}` | {reference} | {sends} | {} |\n", cells.join(" | "))
    }
}

/// The results of all peers.
pub(super) struct Tables {
    /// The number of checks.
    pub(super) checks: usize,
    /// The checks that a server does not pass in every run.
    pub(super) rows: Vec<Row>,
}

impl Tables {
    /// Combines the results of all runs of each peer.
    pub(super) fn new(runs: &BTreeMap<&str, Vec<Vec<CheckResult>>>, notes: &Notes) -> Self {
        let checks = &runs[PEERS[0]][0];
        let row = |(index, check): (usize, &CheckResult)| {
            let cell = |server: &str| {
                let results: Vec<_> = runs[server].iter().map(|run| &run[index]).collect();
                Cell::new(&results, notes.varies(server, &check.name))
            };
            let CheckResult { name, reference, sends, .. } = check.clone();
            Row { check: name, reference, sends, cells: PEERS.into_iter().map(cell).collect() }
        };
        let rows = checks.iter().enumerate().map(row);
        let is_listed = |row: &Row| row.cells.iter().any(|cell| *cell != Cell::Passed);
        Self { checks: checks.len(), rows: rows.filter(is_listed).collect() }
    }
}

impl Tables {
    /// Returns the checks without a group, and the results that vary without a reason.
    pub(super) fn unexplained(&self, notes: &Notes) -> Vec<String> {
        let has_group = |row: &&Row| notes.groups.iter().any(|group| group.has(&row.check));
        let without_group = self.rows.iter().filter(|row| !has_group(row));
        let mut all: Vec<_> = without_group.map(|row| format!("{}: no group", row.check)).collect();
        for row in &self.rows {
            let cells = PEERS.into_iter().zip(&row.cells);
            let varying = cells.filter(|(_, cell)| **cell == Cell::Varies);
            let without_reason = varying.filter(|(server, _)| !notes.varies(server, &row.check));
            all.extend(
                without_reason.map(|(server, _)| {
                    format!("{}: varies for {server} without a reason", row.check)
                }),
            );
        }
        all
    }
}

/// Returns the document.
pub(super) fn render(tables: &Tables, notes: &Notes, counts: &str) -> String {
    let grouped = group(tables, notes);
    let mut text = format!("{INTRODUCTION}{counts}{LEGEND}");
    for layer in LAYERS {
        text.push_str(&format!("\n## {layer}\n"));
        for (group, rows) in grouped.iter().filter(|(_, rows)| rows[0].layer() == layer) {
            text.push_str(&section(group, rows));
        }
    }
    text + &varying(notes)
}

/// Returns the rows of each group. Each row belongs to the first group that lists its check.
fn group<'a>(tables: &'a Tables, notes: &'a Notes) -> Vec<(&'a Group, Vec<&'a Row>)> {
    let mut groups: Vec<_> = notes.groups.iter().map(|group| (group, Vec::new())).collect();
    for row in &tables.rows {
        if let Some((_, rows)) = groups.iter_mut().find(|(group, _)| group.has(&row.check)) {
            rows.push(row);
        }
    }
    for (group, rows) in &groups {
        let layers: BTreeSet<_> = rows.iter().map(|row| row.layer()).collect();
        assert_eq!(layers.len(), 1, "the group {} has checks of {layers:?}", group.title);
    }
    groups
}

fn section(group: &Group, rows: &[&Row]) -> String {
    let lines: String = rows.iter().map(|row| row.line()).collect();
    format!(
        "\n### {}\n\n{}\n\n| check | RFC section | what the probe sends | {} |\n{}\n{lines}",
        group.title,
        group.text.trim(),
        PEERS.join(" | "),
        "|---".repeat(3 + PEERS.len()) + "|",
    )
}

fn varying(notes: &Notes) -> String {
    let lines = notes
        .varies
        .iter()
        .map(|it| format!("| `{}` | {} | {} |\n", it.check, it.server, it.reason));
    format!(
        "\n## Results that vary\n\nContinuous integration accepts any result of these checks.\n\n\
         | check | server | reason |\n|---|---|---|\n{}",
        lines.collect::<String>()
    )
}

/// The results of a server according to the document.
pub(super) struct Expected {
    /// The cells by check; all other checks pass.
    cells: BTreeMap<String, String>,
}

impl Expected {
    pub(super) fn all_passed() -> Self {
        Self { cells: BTreeMap::new() }
    }

    /// Reads a peer's column.
    pub(super) fn of_peer(document: &str, peer: &str) -> Self {
        let column = PEERS.into_iter().position(|it| it == peer).expect("a peer with a column");
        let lines = document.lines().filter(|line| line.starts_with("| `"));
        let rows = lines.map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
        // The rows of the last table have fewer cells.
        let rows = rows.filter(|cells| cells.len() == PEERS.len() + 5);
        let cells = rows.map(|it| (it[1].trim_matches('`').to_owned(), it[column + 4].to_owned()));
        Self { cells: cells.collect() }
    }

    /// Describes how a result differs from the document.
    pub(super) fn difference(&self, result: &CheckResult) -> Option<String> {
        let expected = self.cells.get(&result.name).map_or("passed", String::as_str);
        let is_same = match expected {
            "varies" => true,
            "passed" => result.verdict == Verdict::Passed,
            "n/a" => result.verdict == Verdict::NotApplicable,
            _ => result.verdict == Verdict::Failed,
        };
        let CheckResult { name, reference, sends, what, .. } = result;
        (!is_same)
            .then(|| format!("  {name} ({reference}; {sends}): {what}; the table says: {expected}"))
    }

    /// Describes the rows whose checks do not exist.
    pub(super) fn unknown(&self, results: &[CheckResult]) -> Vec<String> {
        let is_known = |check: &str| results.iter().any(|result| result.name == check);
        let unknown = self.cells.keys().filter(|check| !is_known(check));
        unknown.map(|check| format!("  {check}: there is no such check")).collect()
    }
}
