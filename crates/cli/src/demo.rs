//! `clearway demo`: downloads through a congestion collapse, on one machine.

mod client;
mod display;
mod outcome;
mod place;
mod run;
mod server;
mod table;
mod watch;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use clearway::congestion::Algorithm;
use clearway_network::{Probability, parse_duration, parse_probability, parse_size};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::live::LiveOptions;
use crate::output;
use crate::qlog_files;
use crate::shell;
use display::Display;
use outcome::Outcome;
use place::Place;
use run::{Run, Writer};

/// Show that congestion control never stalls, with downloads through a collapse.
///
/// An HTTP/3 server, an impaired link and an HTTP/3 client communicate over real UDP sockets on
/// this machine. Each congestion controller downloads 10 MB while the link drops 30 % of all
/// datagrams in both directions for 2 seconds, starting with the first bytes of the response. The
/// congestion window falls to its minimum; the demo shows whether it grows again. The exit status
/// is 0 only if every run finished in time.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct DemoCommand {
    /// Run only this congestion controller: reno, cubic or bbr. May be repeated.
    #[arg(long, value_name = "NAME", value_parser = str::parse::<Algorithm>)]
    controller: Vec<Algorithm>,
    /// Size of each download.
    #[arg(long, value_name = "SIZE", default_value = "10MB", value_parser = parse_size)]
    size: u64,
    /// Round-trip time of the link.
    #[arg(long, value_name = "DURATION", default_value = "10ms", value_parser = parse_duration)]
    rtt: Duration,
    /// Interval at which the link delivers datagrams; off delivers them at any time.
    #[arg(long, value_name = "DURATION", default_value = "4ms", value_parser = parse_tick)]
    tick: Duration,
    /// Probability that a datagram is lost during the loss period.
    #[arg(long, value_name = "PROBABILITY", default_value = "30%", value_parser = parse_probability)]
    loss: Probability,
    /// Length of the loss period.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse_duration)]
    loss_for: Duration,
    /// Time limit of each run.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    limit: Duration,
    /// Number of runs per controller.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Seed of the random losses; each additional run of a controller adds 1.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Folder for the runs' qlog files [default: clearway/demo in the cache folder].
    ///
    /// The files have names such as cubic-1.sqlog and replace those of an earlier demo. While
    /// another demo writes to the same folder, the names are cubic-1_2.sqlog and so on. The cache
    /// folder is $XDG_CACHE_HOME or ~/.cache.
    #[arg(long, visible_alias = "out", value_name = "DIR")]
    qlog: Option<PathBuf>,
    /// Print one JSON object per run instead of the table.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    live: LiveOptions,
}

const AFTER_HELP: &str = "\
Why ticks: the collapse can persist only if a single acknowledgment covers everything in flight.
Links that deliver in slots, as many radio links do, cause exactly that; --tick off is a milder test.

Examples:
  Keep the qlog files in a folder of your choice, and look at two of them:
    clearway demo --qlog runs
    clearway view runs/cubic-1.sqlog runs/bbr-1.sqlog
  Run CUBIC a hundred times, and show the slowest run:
    clearway demo --controller cubic --runs 100
  Drop half of all datagrams for three seconds:
    clearway demo --loss 50% --loss-for 3s --limit 20s";

fn parse_tick(text: &str) -> Result<Duration, String> {
    match text {
        "off" => Ok(Duration::ZERO),
        time => parse_duration(time).map_err(|error| format!("{error}, or off")),
    }
}

impl DemoCommand {
    fn controllers(&self) -> Vec<Algorithm> {
        match self.controller.is_empty() {
            true => Algorithm::ALL.to_vec(),
            false => self.controller.clone(),
        }
    }
}

/// Runs the command.
pub(crate) async fn run(command: DemoCommand) -> Result<(), Failure> {
    let mut interrupt = Interrupt::listen()?;
    let mut outcomes = Vec::new();
    let folder = command.qlog.clone().unwrap_or_else(place::default_folder);
    let place = Place::take(&folder).map_err(|error| {
        let folder = folder.display();
        Failure::new(format!("cannot write qlog files to {folder}: {error}"))
            .advise("choose another folder with --qlog")
    })?;
    if let Some(ending) = place.ending() {
        let folder = folder.display();
        output::status(&format!(
            "another demo is writing its qlog files to {folder}: the names of this demo's files end in {ending}"
        ));
    }
    let end = tokio::select! {
        result = run_all(&command, &place, &mut outcomes) => result,
        signal = interrupt.received() => Err(Failure::interrupted(signal, "interrupted")),
    };
    // An interrupted demo shows the results so far.
    if !command.json && !outcomes.is_empty() {
        output::result(&table::table(&outcomes, output::width()))?;
        output::status(&traces(&folder, &place, &outcomes));
        output::status(&viewing(&outcomes));
    }
    end.and_then(|()| conclude(&outcomes))
}

async fn run_all(
    command: &DemoCommand,
    place: &Place,
    outcomes: &mut Vec<Outcome>,
) -> Result<(), Failure> {
    let writer = Writer { live: command.live.start().await?, thread: qlog_files::thread()? };
    let display = Display::new();
    for controller in command.controllers() {
        for number in 1..=command.runs {
            let run = Run::new(command, controller, number, place, writer.clone());
            let outcome = run.perform(&display).await?;
            if command.json {
                output::result(&outcome.json().to_string())?;
            }
            outcomes.push(outcome);
        }
    }
    Ok(())
}

/// Returns a message that states where the qlog files are, and which are incomplete and why.
fn traces(folder: &Path, place: &Place, outcomes: &[Outcome]) -> String {
    let folder = folder.display();
    let names = place.ending().map_or_else(String::new, |ending| format!(" (*{ending})"));
    let failure = |outcome: &Outcome| Some((outcome.name.clone(), outcome.qlog_error.clone()?));
    match outcomes.iter().find_map(failure) {
        None => format!("the qlog file of each run is in {folder}{names}"),
        Some((name, error)) => format!("qlog files in {folder} are incomplete; {name}: {error}"),
    }
}

/// Returns the `clearway view` command for the run that did not finish, or otherwise for the
/// slowest run.
fn viewing(outcomes: &[Outcome]) -> String {
    let slowest = outcomes.iter().max_by_key(|run| (!run.is_finished, run.time));
    let path = slowest.map(|run| shell::word(&run.qlog.to_string_lossy()));
    format!("to view the slowest run: clearway view {}", path.unwrap_or_default())
}

/// Fails unless every run finished.
fn conclude(outcomes: &[Outcome]) -> Result<(), Failure> {
    let failed: Vec<_> = outcomes.iter().filter(|outcome| !outcome.is_finished).collect();
    let Some(first) = failed.first() else { return Ok(()) };
    let (count, total) = (failed.len(), outcomes.len());
    let why = first.error.as_deref().unwrap_or("the reason is unknown");
    let what = format!("{count} of {total} runs did not finish; the first, {}: {why}", first.name);
    Err(Failure::new(what).advise("see its qlog file for what happened"))
}
