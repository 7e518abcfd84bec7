//! `clearway lab fleet`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use clap::Args;
use clearway_lab::fleet::{Circumstance, FleetRule, Form, Reason, Report, Settings, Size, sweep};
use serde_json::{Value, json};

use super::interruptible::{Words, interruptible};
use super::invocation::invocation;
use super::progress::Progress;
use clearway_terminal::failure::Failure;
use clearway_terminal::output;

/// Test the load balancer: fleets of servers that change, with clients that migrate.
///
/// Each seed is a fleet of servers with two load balancers and many connections. Servers are added,
/// drained, killed and revived, their weights change, and their connection IDs move to a new
/// configuration with a new key; each of the balancers applies each change at a different time.
/// Clients change their addresses and connection IDs, and their datagrams arrive at the other
/// balancer; responses get lost. Every datagram must go to the server that has its connection,
/// except for the reasons that docs/fleet.md describes; connections lost for these reasons are
/// counted by reason. Any other lost connection is a violation, and is printed with the command
/// that repeats it. The exit status is 0 only if there was no violation, and all seeds were run.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct FleetCommand {
    /// Number of seeds.
    ///
    /// Every fifteen consecutive seeds cover all combinations of connection IDs and circumstances.
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// The first seed.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    first_seed: u64,
    /// Run only this seed.
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["seeds", "first_seed"])]
    seed: Option<u64>,
    /// Initial number of servers.
    #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = clap::value_parser!(u16).range(4..=2000))]
    servers: u16,
    /// Number of concurrent connections.
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    connections: u32,
    /// Number of fleets in parallel [default: the number of cores].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Print one JSON object per row, a line each, instead of the table.
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Connection IDs: encrypted, clear and aws are QUIC-LB IDs with a key, without one, and as AWS's load balancer requires;
opaque IDs are random, and balancers learn them; mixed uses all of these.

Circumstances: in order: changes are made as docs/fleet.md recommends; attacked: an attacker also sends forged Initial
packets and connection IDs; in any order: servers get clients before all balancers know them, and old configurations are
removed immediately.

Rules that must hold:
  R1  each datagram goes to the server that has its connection, except for documented reasons
  R2  a new client goes to a server that accepts new clients
  R3  balancers with the same servers send a new client to the same server
  R4  a change moves at most 2 % of new clients between the servers that it does not affect
  R5  a balancer's tables stay within their limits

With --json each line has: connection_ids, circumstance, fleets, connections (opened), established (with QUIC-LB servers),
established_opaque, datagrams, hostile, changes, moves (of clients), forwarded (by method), evicted (flows), lost
(by reason), moved_by_changes (R4's share, 0 to 1), violated (a list of property, count, seed, explanation).

Examples:
  A thousand fleets of 200 servers and 10,000 connections:
    clearway lab fleet
  A quick check:
    clearway lab fleet --seeds 150 --servers 20 --connections 500
  Repeat one fleet:
    clearway lab fleet --seed 4711";

/// Runs the command.
pub(super) async fn run(command: FleetCommand) -> Result<(), Failure> {
    let words = Words {
        on_interrupt: "interrupted: printing the results so far; interrupt again to stop \
            immediately",
        undone: "some seeds were not run",
    };
    interruptible(move |is_ended| command.perform(is_ended), words).await
}

/// The combined reports of fleets of one kind.
type Rows = BTreeMap<(Form, Circumstance), Report>;

impl FleetCommand {
    fn seeds(&self) -> Range<u64> {
        match self.seed {
            Some(seed) => seed..seed.saturating_add(1),
            None => self.first_seed..self.first_seed.saturating_add(self.seeds),
        }
    }

    fn size(&self) -> Size {
        let connections = usize::try_from(self.connections).unwrap_or(usize::MAX);
        Size { servers: self.servers.into(), connections }
    }

    fn perform(&self, is_ended: &AtomicBool) -> Result<(), Failure> {
        let (seeds, size) = (self.seeds(), self.size());
        let count = seeds.end - seeds.start;
        let cores = || thread::available_parallelism().map_or(1, usize::from);
        let threads = self.threads.map_or_else(cores, usize::from);
        let mut progress = Progress::start(count, count);
        let mut rows = Rows::new();
        sweep(seeds, size, threads, is_ended, &mut |settings, report| {
            progress.add(1);
            for violation in &report.violations {
                let line = format!(
                    "{}: {}\n  {}",
                    violation.rule.id(),
                    violation.explanation,
                    self.repeat_command(violation.seed)
                );
                progress.around(|| output::status_lines(&line));
            }
            let Settings { form, circumstance, .. } = settings;
            rows.entry((form, circumstance)).or_default().add(report);
        });
        drop(progress);
        self.conclude(&rows)?;
        let run: u64 = rows.values().map(|report| report.fleets).sum();
        match run == count || is_ended.load(Ordering::Relaxed) {
            true => Ok(()),
            false => Err(Failure::new(format!("only {run} of {count} seeds were run"))),
        }
    }

    /// Returns the command that repeats a seed.
    fn repeat_command(&self, seed: u64) -> String {
        let mut line = format!("{} fleet --seed {seed}", invocation());
        let default = Size::default();
        let Size { servers, connections } = self.size();
        if servers != default.servers {
            line.push_str(&format!(" --servers {servers}"));
        }
        if connections != default.connections {
            line.push_str(&format!(" --connections {connections}"));
        }
        line
    }

    fn conclude(&self, rows: &Rows) -> Result<(), Failure> {
        match self.json {
            true => {
                rows.iter().try_for_each(|(kind, report)| output::result(&object(*kind, report)))?
            }
            false => output::result(&table(rows))?,
        }
        match rows.values().flat_map(|report| report.violated.values()).sum::<u64>() {
            0 => Ok(()),
            1 => Err(Failure::new("one rule was violated once")),
            count => Err(Failure::new(format!("rules were violated {count} times"))),
        }
    }
}

fn object((form, circumstance): (Form, Circumstance), report: &Report) -> String {
    let violated = |rule: &FleetRule| {
        let count = report.violated.get(rule)?;
        let first = report.violations.iter().find(|violation| violation.rule == *rule)?;
        Some(json!({
            "property": rule.id(), "count": count, "seed": first.seed,
            "explanation": first.explanation,
        }))
    };
    let lost: BTreeMap<_, _> =
        report.misrouted.iter().map(|(reason, count)| (reason.name(), count)).collect();
    let forwarded: BTreeMap<_, _> =
        report.forwarded.iter().map(|(means, count)| (format!("{means:?}"), count)).collect();
    json!({
        "connection_ids": form.name(), "circumstance": circumstance.name(),
        "fleets": report.fleets, "connections": report.opened,
        "established": report.established, "established_opaque": report.established_opaque,
        "datagrams": report.datagrams, "hostile": report.hostile, "changes": report.changes,
        "moves": report.moves, "returns": report.returns, "forwarded": forwarded,
        "evicted": report.evicted, "lost": lost,
        "moved_by_changes": report.moved_by_changes(),
        "violated": FleetRule::ALL.iter().filter_map(violated).collect::<Vec<Value>>(),
    })
    .to_string()
}

/// Formats a line for each kind of fleet, and one for all.
fn table(rows: &Rows) -> String {
    let head = ["connection IDs", "circumstances", "fleets", "connections", "datagrams", "changes"];
    let reasons = Reason::ALL.map(|reason| format!("lost: {}", reason.name()));
    let head = head.map(str::to_owned).into_iter().chain(reasons);
    let mut lines = vec![head.chain(["violations".to_owned()]).collect()];
    let mut all = Report::default();
    for ((form, circumstance), report) in rows {
        lines.push(cells(form.name(), circumstance.name(), report));
        all.add(report.clone());
    }
    lines.push(cells("all", "", &all));
    aligned(&lines)
}

fn cells(form: &str, circumstance: &str, report: &Report) -> Vec<String> {
    let numbers = [report.fleets, report.opened, report.datagrams, report.changes];
    let lost = Reason::ALL.map(|reason| report.misrouted.get(&reason).copied().unwrap_or(0));
    let violations = report.violated.values().sum();
    let numbers = numbers.into_iter().chain(lost).chain([violations]);
    let names = [form.to_owned(), circumstance.to_owned()];
    names.into_iter().chain(numbers.map(|number| number.to_string())).collect()
}

/// Formats lines of cells of equal widths; the first two columns are left-aligned, numbers
/// right-aligned.
fn aligned(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |cells: &Vec<String>| {
        let cells =
            cells.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
                0 | 1 => format!("{cell:width$}"),
                _ => format!("{cell:>width$}"),
            });
        cells.collect::<Vec<_>>().join("  ")
    };
    lines.iter().map(line).collect::<Vec<_>>().join("\n")
}
