//! `cargo xtask storms`: causes a fault on a server's host while a thousand connections make
//! requests. Checks what is lost, and whether a log line and a metric report the cause.

mod events;
mod faults;
mod load;
mod metrics;
mod place;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use self::load::{Load, Record};
use self::metrics::Metrics;
use self::place::Place;
use super::endpoint::Sent;
use super::scene::{SMALL, Site, announced, start};
use super::{free_address, free_tcp_address};
use crate::bounded::Server;
use crate::command;
use crate::waiting::{check_interrupt, pause, watch_signals};

/// Number of client connections.
const CONNECTIONS: u16 = 1_000;
/// Duration of the load before a storm begins.
const BEFORE: Duration = Duration::from_secs(3);
/// Default duration of the load after a storm begins.
const AFTER: Duration = Duration::from_secs(6);

/// A storm: a fault on the server's host, and the expected observations.
struct Storm {
    name: &'static str,
    /// Where the server runs.
    place: Place,
    /// An external program that the storm needs and that may not be installed.
    tool: Option<&'static str>,
    /// Server options, in which `{folder}` is replaced with the storm's folder.
    options: &'static [&'static str],
    /// Causes the fault, and later removes it.
    event: fn(&mut Stage<'_>) -> Result<(), String>,
    /// Maximum number of failed requests.
    failures: usize,
    /// Maximum latency of a response.
    longest: Duration,
    /// Texts that the server's log must contain.
    lines: &'static [&'static str],
    /// Names of the metrics that must increase.
    metrics: &'static [&'static str],
}

/// A storm that is in progress.
struct Stage<'a> {
    site: &'a Site,
    folder: PathBuf,
    load: &'a Load,
    server: Server,
    /// The command that started the server.
    command: Vec<String>,
    /// The process that replaces the server.
    next: Option<Server>,
    log: PathBuf,
    address: SocketAddr,
    notes: Vec<String>,
    place: &'a place::Prepared,
}

struct Outcome {
    record: Record,
    /// Expected log lines that are missing.
    missing_lines: Vec<&'static str>,
    /// Names of the metrics that have increased.
    grown: Vec<String>,
    notes: Vec<String>,
    faults: Vec<String>,
}

#[derive(clap::Args)]
pub(crate) struct StormsOptions {
    /// Run only this storm; can be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Only print the names
    #[arg(long)]
    list: bool,
    /// Use this program instead of building it
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// Runs the selected storms and prints the table.
///
/// Returns an error if requests fail more often than they should, or the cause is not reported.
/// Returns an error if requests fail more often than they should, or the cause is not named.
pub(crate) fn run(options: &StormsOptions) -> Result<(), String> {
    let StormsOptions { only, list, program } = options;
    let is_wanted = |storm: &Storm| only.is_empty() || only.iter().any(|name| name == storm.name);
    let chosen: Vec<Storm> = events::all().into_iter().filter(is_wanted).collect();
    if *list {
        chosen.iter().for_each(|storm| println!("{}", storm.name));
        return Ok(());
    }
    if chosen.is_empty() {
        return Err("unknown storm name; --list prints all".to_owned());
    }
    watch_signals()?;
    let program = program.clone().map_or_else(command::program, Ok)?;
    let folder = command::target().join("storms").join(std::process::id().to_string());
    let site = Site::new(&folder, program, PathBuf::new())?;
    println!("storm                 requests  failures  longest   log line  metric  verdict");
    let (mut failed, mut left_out) = (Vec::new(), 0);
    for storm in &chosen {
        check_interrupt()?;
        let is_held = match take_place(&site, storm) {
            Ok(outcome) => {
                println!("{}", outcome.text(storm));
                outcome.faults.is_empty()
            }
            Err(Failure::NotHere(why)) => {
                println!("{:<21} not run: {why}", storm.name);
                left_out += 1;
                true
            }
            Err(Failure::Failed(error)) => {
                check_interrupt()?;
                println!("{:<21} FAILED: {error}", storm.name);
                false
            }
        };
        if !is_held {
            failed.push(storm.name);
        }
    }
    let _ = std::fs::remove_dir_all(&site.folder);
    if left_out > 0 {
        println!("{left_out} of {} storms were not run: all of these need root", chosen.len());
    }
    match failed.as_slice() {
        [] => Ok(()),
        _ => Err(format!(
            "{} of {} storms lost requests or were not reported: {}",
            failed.len(),
            chosen.len(),
            failed.join(", ")
        )),
    }
}

/// Why a storm has no result.
enum Failure {
    /// The storm cannot run on this machine or as this user.
    NotHere(String),
    Failed(String),
}

impl From<String> for Failure {
    fn from(error: String) -> Self {
        Self::Failed(error)
    }
}

fn take_place(site: &Site, storm: &Storm) -> Result<Outcome, Failure> {
    if let Some(program) = storm.tool
        && Command::new(program).arg("--version").output().is_err()
    {
        return Err(Failure::NotHere(format!("the program {program} is missing")));
    }
    let folder = site.folder.join(storm.name);
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let place = storm.place.prepare(&folder, &site.program).map_err(Failure::NotHere)?;
    let log = site.folder.join(format!("{}.log", storm.name));
    let address = place.address(free_address()?);
    let metrics_address = place.address(free_tcp_address()?);
    let command = arguments(site, storm, &folder, address, metrics_address);
    let (server, address) = launch(&place, &command, &log)?;
    let settings = site.settings(&Arc::new(Sent::default()));
    let metrics = Metrics::start(metrics_address, &place);
    let settings = place.settings(settings);
    let open = || load::open(address, &settings, CONNECTIONS, SMALL);
    let load = Load::start(place.run(open)?);
    pause(BEFORE)?;
    let mut stage = Stage {
        site,
        folder,
        load: &load,
        server,
        command,
        next: None,
        log: log.clone(),
        address,
        notes: Vec::new(),
        place: &place,
    };
    metrics.mark();
    let event = (storm.event)(&mut stage);
    pause(AFTER)?;
    let record = load.record();
    let mut faults = Vec::new();
    faults.extend(event.err());
    let ended = [Some(&mut stage.server), stage.next.as_mut()];
    let is_running = ended.into_iter().flatten().any(Server::is_running);
    let text = std::fs::read_to_string(&log).unwrap_or_default();
    if !is_running && storm.name != "drain" {
        faults.push("the server exited".to_owned());
    }
    if text.contains("panicked") {
        faults.push("the server panicked".to_owned());
    }
    let notes = stage.notes;
    let changed = metrics.changed(storm.metrics);
    let _ = load.stop();
    let missing_lines: Vec<_> =
        storm.lines.iter().copied().filter(|line| !text.contains(line)).collect();
    if record.failures.len() > storm.failures {
        let first = record.failures.first().map_or("", String::as_str);
        faults.push(format!("{} failures: {first}", record.failures.len()));
    }
    if record.longest > storm.longest {
        faults.push(format!("a response took more than {} s", storm.longest.as_secs()));
    }
    if record.requests == 0 {
        faults.push("no request was answered".to_owned());
    }
    faults.extend(missing_lines.iter().map(|line| format!("no log line contains \"{line}\"")));
    for (name, changed) in storm.metrics.iter().zip(&changed) {
        if changed.is_none() {
            faults.push(format!("the metric {name} did not increase"));
        }
    }
    let grown = changed.into_iter().flatten().collect();
    Ok(Outcome { record, missing_lines, grown, notes, faults })
}

/// Returns the arguments of the server program.
fn arguments(
    site: &Site,
    storm: &Storm,
    folder: &Path,
    address: SocketAddr,
    metrics: SocketAddr,
) -> Vec<String> {
    let path = folder.display().to_string();
    let mut words = vec!["serve".to_owned(), site.path("www")];
    let options = [
        ("--cert", site.path("cert.pem")),
        ("--key", site.path("key.pem")),
        ("--listen", address.to_string()),
        ("--metrics", metrics.to_string()),
        ("--log", "warn,clearway_io=info".to_owned()),
    ];
    words.extend(options.into_iter().flat_map(|(name, value)| [name.to_owned(), value]));
    words.extend(storm.options.iter().map(|option| option.replace("{folder}", &path)));
    words
}

/// Starts the server in the storm's location.
fn launch(
    place: &place::Prepared,
    words: &[String],
    log: &Path,
) -> Result<(Server, SocketAddr), String> {
    let command = place.command(words);
    let Some(output) = place.output() else { return start(command, log) };
    let mut server = Server::start(command, log)?;
    let read = || std::fs::read_to_string(&output).unwrap_or_default();
    server.wait(|_| announced(&read()).is_some())?;
    let address = announced(&read()).ok_or("the server did not print its address")?;
    Ok((server, address))
}

impl Stage<'_> {
    /// Starts another server with the same command.
    fn start_next(&mut self) -> Result<(), String> {
        let log = self.log.with_extension("next.log");
        let (server, _) = launch(self.place, &self.command, &log)?;
        self.next = Some(server);
        Ok(())
    }

    fn signal(&self, signal: rustix::process::Signal) -> Result<(), String> {
        let pid = rustix::process::Pid::from_raw(self.server.id().cast_signed());
        rustix::process::kill_process(pid.ok_or("no process ID")?, signal)
            .map_err(|error| format!("the signal: {error}"))
    }
}

/// Runs a command that must succeed within a few seconds.
fn tool(program: &str, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(arguments);
    crate::bounded::finish(command, Duration::from_secs(10))?
        .success()
        .map_err(|error| format!("{program} {}: {error}", arguments.join(" ")))
}

impl Outcome {
    fn text(&self, storm: &Storm) -> String {
        let found = |expected: usize, found: usize| match expected {
            0 => "-",
            _ if found == expected => "yes",
            _ => "no",
        };
        let verdict = match self.faults.as_slice() {
            [] => "held".to_owned(),
            faults => format!("FAILED: {}", faults.join("; ")),
        };
        let notes: Vec<String> = self.grown.iter().chain(&self.notes).cloned().collect();
        let lines = storm.lines.len();
        format!(
            "{:<21} {:>8}  {:>8}  {:>6.2} s  {:>8}  {:>6}  {verdict} ({})",
            storm.name,
            self.record.requests,
            self.record.failures.len(),
            self.record.longest.as_secs_f64(),
            found(lines, lines - self.missing_lines.len()),
            found(storm.metrics.len(), self.grown.len()),
            notes.join("; "),
        )
    }
}
