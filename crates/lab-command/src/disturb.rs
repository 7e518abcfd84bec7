//! `clearway lab disturb`.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::Args;
use clearway_lab::disturb::{
    At, Baseline, Bounds, Choice, Event, Fault, Kind, Tally, judge, left_out, pairs, standard,
    trials,
};
use clearway_lab::log::main_end;
use clearway_lab::report::seconds_text;
use clearway_lab::run::{Extras, Outcome};
use clearway_lab::scenario::Variant;
use clearway_lab::setup::Setup;
use clearway_lab::sweep::{Event as Swept, Job, sweep};
use serde_json::json;

use super::interruptible::{Words, interruptible};
use super::invocation::invocation;
use super::library::Library;
use super::matrix::{Matrix, View};
use super::progress::Progress;
use super::selection::Selection;
use super::violation::{record, text};
use clearway_terminal::failure::Failure;
use clearway_terminal::output;

/// Inject one fault at every point of a connection.
///
/// A scenario is run once undisturbed. Then it is run repeatedly with the same seed, each time with
/// one disturbance: at each datagram in either direction, and at each millisecond of the first ten
/// round trips. A run must finish within a bound that is derived from the disturbance and its time
/// (the undisturbed run's time, the cost of a silence of this length with RFC 9002's backoff, and
/// the time to send the rest from the minimum window), and must not violate a property (`lab
/// properties`). Any other outcome is a finding, and is printed with the command that reproduces
/// it. The table, or --json, has a line for each disturbance, controller and variant. The exit
/// status is 0 only if nothing was found.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct DisturbCommand {
    /// A scenario: its name, as listed by lab list, or a file [default: small transfers].
    ///
    /// The small transfers are downloads, uploads and requests, with and without keep-alive, over
    /// round trips of 10 and 200 ms.
    #[arg(value_name = "SCENARIO")]
    scenario: Option<String>,
    /// Run the small transfers, the default if no scenario is given.
    #[arg(long, conflicts_with = "scenario")]
    standard: bool,
    /// Apply only these disturbances, separated by commas (see below).
    #[arg(long = "disturbance", value_name = "NAMES", value_delimiter = ',')]
    kinds: Vec<Kind>,
    /// Test only this point, such as datagram:3:client or time:37ms. May be repeated.
    ///
    /// datagram:N:client is the N-th datagram that the client sends, and datagram:N:server the N-th
    /// that the server sends; times are relative to the first datagram. If there are several points
    /// and equally many disturbances, all are applied in a single run, each disturbance at its own
    /// point.
    #[arg(long = "at", value_name = "POINT", requires = "kinds")]
    moments: Vec<At>,
    /// Test this many random pairs of disturbances instead of single ones.
    ///
    /// The number is for each controller and variant; the seed determines the pairs.
    #[arg(long, value_name = "COUNT", conflicts_with = "moments")]
    pairs: Option<u32>,
    /// Test only every COUNT-th injection point, for a quick check.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    every: u32,
    /// Test at most this many datagrams in each direction.
    ///
    /// Half of them are the first datagrams; the others are evenly spaced.
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(2..))]
    datagrams: u64,
    /// Seed of all runs.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,
    /// Maximum number of findings to print per kind; all findings are counted.
    ///
    /// The limit applies to each disturbance, controller and variant.
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    show: usize,
    /// Write the qlog of the sending end of the first flow to this file.
    ///
    /// This requires a single run, selected with --at.
    #[arg(long, value_name = "FILE", requires = "moments")]
    qlog: Option<PathBuf>,
    /// Number of runs in parallel [default: the number of cores].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Print one JSON object per row, a line each, instead of the table.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    library: Library,
}

const AFTER_HELP: &str = "\
Disturbances:
  rebind-port, rebind-address   the NAT in front of the client changes its port, or its IP address too
  silence-200ms-client, -server, -both, silence-2s-client, -server, -both
                                for this time, no datagram arrives from the client, the server, or either
  lose, double, corrupt, corrupt-header, delay
                                the datagram is lost, duplicated, or has a byte changed (or one of its first
                                20), or arrives 100 ms late; tested only at datagrams
                                (--at time:TIME selects the server's next datagram)
  key-update-client, key-update-server
                                an endpoint initiates a key update (no effect before the handshake is confirmed)
  reorder                       from then on, a tenth of all datagrams is delayed by a quarter of a round trip
  path-dies                     from then on, the client's path drops everything: an error must report it
  address-gone                  the client's address is removed: an error must report it
  address-replaced, address-replaced-200ms
                                the client's address is replaced by another immediately, or after 200 ms
  path-mtu, interface-mtu       datagrams above 1220 bytes are lost, or rejected by the client's kernel
  path-dies-migrate, address-gone-migrate, address-replaced-migrate, path-mtu-migrate, rebind-address-migrate
                                the same, and 300 ms later the client migrates to another address

With --json each line has: scenario, controller, disturbance (pair, for pairs), variant, runs, finished, violations, \
found (number of runs with a finding, by property, \"unfinished\", or \"late\"), p50_s and max_s (virtual seconds; \
null for never), bound_s (the largest bound of any of its runs), worst (the injection point of the run that came closest to its \
bound or exceeded it most, as options of this command), left_out (number of datagrams that were not tested because there \
are too many). Findings are printed to standard error.

Examples:
  Test everything, which takes a few minutes:
    clearway lab disturb
  Test a tenth of it, for a quick check:
    clearway lab disturb --every 10
  Test only NAT rebinding, in one scenario with CUBIC:
    clearway lab disturb upload --controller cubic --disturbance rebind-port,rebind-address
  Repeat one run, and write its qlog file:
    clearway lab disturb --variant \"download, 10 ms\" --controller reno --disturbance lose \\
        --at datagram:7:server --qlog run.sqlog";

/// Time that an unfinished run may continue after its bound before it is stopped.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Runs the command.
pub(super) async fn run(command: DisturbCommand) -> Result<(), Failure> {
    let words = Words {
        on_interrupt: "interrupted: printing the results so far; interrupt again to stop \
            immediately",
        undone: "some injection points were not tested",
    };
    interruptible(move |is_ended| disturb(&command, is_ended), words).await
}

fn disturb(command: &DisturbCommand, is_ended: &AtomicBool) -> Result<(), Failure> {
    let scenario = match &command.scenario {
        Some(name) => command.library.find(name)?,
        None => standard().map_err(|error| Failure::new(error.to_string()))?,
    };
    let matrix = Matrix::new(vec![scenario], &command.selection, command.seed, Some(1))?;
    let cells: Vec<Cell<'_>> =
        matrix.views().map(|view| Cell::new(command, view)).collect::<Result<_, _>>()?;
    if let Some(path) = &command.qlog {
        return command.record(&cells, path);
    }
    let runs = cells.iter().map(|cell| cell.trials.len() as u64).sum();
    let mut reporter =
        Reporter { command, progress: Progress::start(runs, runs), rows: Vec::new(), found: 0 };
    for cell in &cells {
        if !is_ended.load(Ordering::Relaxed) {
            reporter.perform(cell, is_ended)?;
        }
    }
    reporter.conclude()
}

/// A variant with a controller, and the trials to run with them.
struct Cell<'a> {
    view: View<'a>,
    baseline: Baseline,
    trials: Vec<Vec<Event>>,
    left_out: u64,
}

impl<'a> Cell<'a> {
    fn new(command: &DisturbCommand, view: View<'a>) -> Result<Self, Failure> {
        let setup = &view.variant.setup;
        let baseline = Baseline::measure(setup, view.candidate, command.seed)
            .map_err(|error| Failure::new(error.to_string()))?;
        if let Some(fault) = judge(&baseline.outcome, setup.limit) {
            return Err(Failure::new(format!(
                "{}, {:?}, {}, seed {} fails without a disturbance: the run {fault}",
                view.scenario.name, view.variant.name, view.candidate.name, command.seed
            )));
        }
        let (trials, left_out) = command.trials(setup, &baseline);
        Ok(Self { view, baseline, trials, left_out })
    }

    fn bounds(&self) -> Bounds<'_> {
        let Variant { setup, .. } = self.view.variant;
        let controller = &self.view.candidate.name;
        let expected = self.view.variant.expect(controller).within;
        Bounds::new(setup, controller, &self.baseline, expected)
    }

    /// Returns the setup of a trial, which must finish by `bound`.
    fn setup(&self, events: &[Event], bound: Duration) -> Setup {
        let setup = Event::put_all(events, &self.view.variant.setup);
        Setup { limit: bound.saturating_add(TIMEOUT), ..setup }
    }
}

impl DisturbCommand {
    /// Returns the trials for `setup`, and the number of datagrams that are left out because there
    /// are too many.
    fn trials(&self, setup: &Setup, baseline: &Baseline) -> (Vec<Vec<Event>>, u64) {
        let kinds = if self.kinds.is_empty() { Kind::ALL.to_vec() } else { self.kinds.clone() };
        if !self.moments.is_empty() {
            let events =
                |at: &At| kinds.iter().map(|&kind| Event { kind, at: *at }).collect::<Vec<_>>();
            if self.is_one_run() {
                let zipped = kinds.iter().zip(&self.moments);
                return (vec![zipped.map(|(&kind, &at)| Event { kind, at }).collect()], 0);
            }
            let each = self.moments.iter().flat_map(events).map(|event| vec![event]);
            return (each.collect(), 0);
        }
        let every = usize::try_from(self.every).unwrap_or(usize::MAX);
        let choice = Choice { kinds, every, datagrams: self.datagrams };
        let single = trials(&choice, setup, baseline);
        let trials = match self.pairs {
            None => single.into_iter().map(|event| vec![event]).collect(),
            Some(count) => {
                let pairs = pairs(&single, count as usize, self.seed);
                pairs.into_iter().map(|pair| pair.to_vec()).collect()
            }
        };
        (trials, left_out(&choice, baseline))
    }

    /// Returns whether the options request a single run, with a given time for each disturbance.
    fn is_one_run(&self) -> bool {
        self.moments.len() > 1 && self.moments.len() == self.kinds.len()
    }

    /// Performs the only run that the options select, and writes its log to `path`.
    fn record(&self, cells: &[Cell<'_>], path: &std::path::Path) -> Result<(), Failure> {
        let runs = cells.iter().flat_map(|cell| cell.trials.iter().map(move |it| (cell, it)));
        let mut runs = runs.peekable();
        let (Some((cell, events)), None) = (runs.next(), runs.peek()) else {
            return Err(Failure::new("--qlog requires a single run, but several are selected")
                .advise("choose one controller, one variant, one disturbance and one point"));
        };
        let bound = cell.bounds().of(events);
        let variant = Variant { setup: cell.setup(events, bound), ..cell.view.variant.clone() };
        let View { scenario, candidate, ref seeds, .. } = cell.view;
        let view = View { scenario, variant: &variant, candidate, seeds: seeds.clone() };
        let extras = Extras { check: true, ..Extras::default() };
        let outcome = record(&view, self.seed, main_end(&view.variant.setup), path, extras)?;
        output::result(&format!("{} after {}", outcome.stop, seconds_text(outcome.at)))?;
        match cell.bounds().judge(events, &outcome) {
            None => Ok(()),
            Some(fault) => {
                if let Fault::Violated(violation) = &fault {
                    output::result(&text(violation))?;
                }
                Err(Failure::new(format!("the run {fault}")))
            }
        }
    }

    /// Returns the command that repeats a run.
    fn repeat_command(&self, view: &View<'_>, events: &[Event]) -> String {
        let scenario = match &self.scenario {
            Some(name) => format!("{name} "),
            None => String::new(),
        };
        let seed = if self.seed == 0 { String::new() } else { format!(" --seed {}", self.seed) };
        let mut line = format!(
            "{} disturb {scenario}--controller {} --variant {:?}{seed}",
            invocation(),
            view.candidate.name,
            view.variant.name
        );
        for event in events {
            // Writing to a string does not fail.
            let _ = write!(line, " {event}");
        }
        line
    }
}

/// Formats the number of findings by class, such as "33 (22 L4, 11 unfinished)".
fn found_text(tally: &Tally) -> String {
    let classes: Vec<_> =
        tally.found().iter().map(|(class, count)| format!("{count} {class}")).collect();
    match tally.found().values().sum::<usize>() {
        0 => "0".to_owned(),
        sum => format!("{sum} ({})", classes.join(", ")),
    }
}

/// Collects and prints the results of runs.
struct Reporter<'a> {
    command: &'a DisturbCommand,
    progress: Progress,
    rows: Vec<[String; 8]>,
    found: usize,
}

/// Returns the disturbance in a line of the table, or "pair".
fn subject(events: &[Event]) -> String {
    match events {
        [one] => one.kind.to_string(),
        _ => "pair".to_owned(),
    }
}

impl Reporter<'_> {
    /// Performs all trials of a cell.
    fn perform(&mut self, cell: &Cell<'_>, is_ended: &AtomicBool) -> Result<(), Failure> {
        let bounds = cell.bounds();
        let bounds: Vec<Duration> = cell.trials.iter().map(|events| bounds.of(events)).collect();
        let setups: Vec<Setup> = cell
            .trials
            .iter()
            .zip(&bounds)
            .map(|(events, bound)| cell.setup(events, *bound))
            .collect();
        let job = |setup| Job {
            setup,
            candidate: cell.view.candidate,
            seeds: self.command.seed..self.command.seed.saturating_add(1),
            sample_every: None,
            check: true,
            goes_on: false,
        };
        let jobs: Vec<Job<'_>> = setups.iter().map(job).collect();
        let cores = || thread::available_parallelism().map_or(1, usize::from);
        let threads = self.command.threads.map_or_else(cores, usize::from);
        let mut tallies: Vec<(String, Tally)> = Vec::new();
        sweep(&jobs, threads, is_ended, &mut |event| match event {
            Swept::RunDone { .. } => self.progress.add(1),
            Swept::JobDone { job, swept } => {
                let parts = (swept.runs.first(), cell.trials.get(job), bounds.get(job));
                if let (Some(run), Some(events), Some(bound)) = parts {
                    self.on_run(cell, events, &run.outcome, *bound, &mut tallies);
                }
            }
        })
        .map_err(|error| Failure::new(error.to_string()))?;
        for (name, tally) in &tallies {
            self.row(cell, name, tally)?;
        }
        Ok(())
    }

    /// Counts the outcome of a run, and prints it if it is a finding.
    fn on_run(
        &mut self,
        cell: &Cell<'_>,
        events: &[Event],
        outcome: &Outcome,
        bound: Duration,
        tallies: &mut Vec<(String, Tally)>,
    ) {
        let name = subject(events);
        let place = tallies.iter().position(|(other, _)| *other == name).unwrap_or(tallies.len());
        if place == tallies.len() {
            tallies.push((name, Tally::default()));
        }
        let Some((_, tally)) = tallies.get_mut(place) else { return };
        let fault = cell.bounds().judge(events, outcome);
        tally.add(events, outcome, bound, fault.as_ref());
        let Some(fault) = fault else { return };
        self.found += 1;
        if tally.found().get(fault.class()).is_some_and(|count| *count <= self.command.show) {
            let line =
                format!("the run {fault}\n  {}", self.command.repeat_command(&cell.view, events));
            self.progress.around(|| output::status_lines(&line));
        }
    }

    /// Adds the row of a disturbance when all of its runs are done. After an interrupt, the row has
    /// the runs that were performed before.
    fn row(&mut self, cell: &Cell<'_>, name: &str, tally: &Tally) -> Result<(), Failure> {
        let View { scenario, variant, candidate, .. } = &cell.view;
        let (p50, max) = tally.p50_and_max();
        let worst: Vec<_> = tally.worst().iter().map(Event::to_string).collect();
        if self.command.json {
            let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
            let line = json!({
                "scenario": scenario.name, "controller": candidate.name, "disturbance": name,
                "variant": variant.name, "runs": tally.runs(), "finished": tally.finished(),
                "violations": tally.violations(), "found": tally.found(), "p50_s": seconds(p50),
                "max_s": seconds(max), "bound_s": tally.bound().as_secs_f64(),
                "worst": worst.join(" "), "left_out": cell.left_out,
            });
            return self.progress.around(|| output::result(&line.to_string()));
        }
        let time = |time: Option<Duration>| time.map_or_else(|| "never".to_owned(), seconds_text);
        let worst: Vec<_> = tally.worst().iter().map(|event| event.at.to_string()).collect();
        self.rows.push([
            format!("{}, {}", variant.name, candidate.name),
            name.to_owned(),
            tally.runs().to_string(),
            found_text(tally),
            time(p50),
            time(max),
            seconds_text(tally.bound()),
            worst.join(" "),
        ]);
        Ok(())
    }

    /// Prints the table.
    fn conclude(self) -> Result<(), Failure> {
        let Self { progress, rows, found, command } = self;
        drop(progress);
        if !command.json {
            output::result(&table(&rows))?;
        }
        match found {
            0 => Ok(()),
            1 => Err(Failure::new("one run violated a property or exceeded its bound")),
            _ => Err(Failure::new(format!(
                "{found} runs violated a property or exceeded their bounds"
            ))),
        }
    }
}

const HEAD: [&str; 8] = [
    "variant, controller",
    "disturbance",
    "runs",
    "found",
    "median",
    "longest",
    "bound",
    "worst at",
];

/// Formats `rows` as a table; names are left-aligned, numbers right-aligned.
fn table(rows: &[[String; 8]]) -> String {
    let head = HEAD.map(str::to_owned);
    let all = || core::iter::once(&head).chain(rows);
    let mut widths = [0; 8];
    for row in all() {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |row: &[String; 8]| {
        let cells =
            row.iter().zip(widths).enumerate().map(|(column, (cell, width))| match column {
                0 | 1 => format!("{cell:width$}"),
                _ => format!("{cell:>width$}"),
            });
        cells.collect::<Vec<_>>().join("  ")
    };
    all().map(line).collect::<Vec<_>>().join("\n")
}
