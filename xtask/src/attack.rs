//! `cargo xtask attack`: runs attacks against real programs over loopback, each alongside a
//! well-behaved client, and measures the attacks' cost.

mod client;
mod encoding;
mod endpoint;
mod http3;
mod incoming;
mod protection;
mod rows;
mod scene;
mod speed;
pub(crate) mod storms;
mod table;
mod watch;

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use self::client::Client;
use self::endpoint::Sent;
use self::rows::{Row, Target};
use self::scene::{Scene, Site, start};
use self::table::{Line, outcome};
use self::watch::Watch;
use crate::bounded::Server;
use crate::command::{self, cargo, target};
use crate::waiting::{check_interrupt, pause, watch_signals};

/// Duration for which the well-behaved client sends requests before the attack, so that the server
/// has made its one-time allocations.
const BEFORE: Duration = Duration::from_millis(400);
/// Duration for which the well-behaved client continues after the attack.
const AFTER: Duration = Duration::from_millis(500);

#[derive(clap::Args)]
pub(crate) struct AttackOptions {
    /// Run only attacks whose name contains NAME; can be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Run only the small set for CI, against the program that the tests build
    ///
    /// Takes less than a minute.
    #[arg(long)]
    quick: bool,
    /// Only print the names
    #[arg(long)]
    list: bool,
    /// Attack this program instead of building it
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Use this program as the library's example `peer` instead of building it
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
}

/// Runs the selected attacks, and prints the table of results.
///
/// # Errors
/// Returns an error if a bound is exceeded.
pub(crate) fn run(options: &AttackOptions) -> Result<(), String> {
    let chosen = chosen(options)?;
    if options.list {
        chosen.iter().for_each(|row| println!("{}", row.name));
        return Ok(());
    }
    watch_signals()?;
    let site = prepare(options, &chosen)?;
    println!("{}", table::HEAD);
    let mut failed = Vec::new();
    for row in &chosen {
        check_interrupt()?;
        let line = attack(&site, row)?;
        println!("{}", line.text());
        if !line.faults.is_empty() {
            failed.push(row.name);
        }
    }
    let _ = std::fs::remove_dir_all(&site.folder);
    match failed.as_slice() {
        [] => Ok(()),
        _ => Err(format!(
            "{} of {} attacks exceed their bounds: {}",
            failed.len(),
            chosen.len(),
            failed.join(", ")
        )),
    }
}

fn chosen(options: &AttackOptions) -> Result<Vec<Row>, String> {
    let all = rows::all();
    // A complete name selects that attack only, even if it is part of other names.
    let is_whole = |name: &String| all.iter().any(|row| row.name == *name);
    let whole: Vec<bool> = options.only.iter().map(is_whole).collect();
    let is_wanted = |row: &Row| match options.only.as_slice() {
        [] => row.is_quick || !options.quick,
        names => names.iter().zip(&whole).any(|(name, is_whole)| match is_whole {
            true => row.name == *name,
            false => row.name.contains(name.as_str()),
        }),
    };
    let chosen: Vec<Row> = all.into_iter().filter(is_wanted).collect();
    match chosen.is_empty() {
        true => Err("unknown attack name; --list prints all".to_owned()),
        false => Ok(chosen),
    }
}

fn prepare(options: &AttackOptions, chosen: &[Row]) -> Result<Site, String> {
    let program = match &options.program {
        Some(program) => program.clone(),
        // CI has already built this program for the tests.
        None if options.quick => command::tested("clearway")?,
        None => command::program()?,
    };
    let needs_library = chosen.iter().any(|row| matches!(row.target, Target::Library));
    let built = || target().join("release/examples/peer");
    let library = options.library.clone().unwrap_or_else(built);
    if needs_library && options.library.is_none() {
        let words = ["build", "--release", "-p", "clearway", "--example", "peer"];
        command::run("building the example peer", &mut cargo(&words))?;
    }
    // The path is unique, so that two concurrent runs do not share files.
    let folder = target().join("attack").join(std::process::id().to_string());
    Site::new(&folder, program, library)
}

/// The running programs that an attack targets.
struct Running {
    /// The measured program, and the address that clients send to.
    target: Option<(Server, SocketAddr)>,
    metrics: Option<SocketAddr>,
    /// Running servers behind a balancer.
    _behind: Option<Server>,
}

impl Running {
    fn start(site: &Site, target: Target, folder: &Path, log: &Path) -> Result<Self, String> {
        let path = folder.display().to_string();
        let serve = |options: &[&str]| {
            let options: Vec<String> =
                options.iter().map(|option| option.replace("{folder}", &path)).collect();
            let options: Vec<&str> = options.iter().map(String::as_str).collect();
            site.serve(&options)
        };
        let (mut metrics, mut behind) = (None, None);
        let target = match target {
            Target::Alone => None,
            Target::Serve(options) => Some(start(serve(&[&["--quiet"], options].concat()), log)?),
            Target::ServeLoud => Some(start(serve(&[]), log)?),
            Target::ServeWithMetrics => {
                let address = free_tcp_address()?;
                metrics = Some(address);
                let address = address.to_string();
                Some(start(serve(&["--quiet", "--metrics", &address]), log)?)
            }
            Target::Library => Some(start(site.library(free_address()?), log)?),
            Target::Balance { preface, serve: options } => {
                let log_behind = log.with_extension("behind.log");
                let options = [&["--quiet"], options].concat();
                let (server, address) = start(serve(&options), &log_behind)?;
                behind = Some(server);
                let backends = folder.join("backends.toml");
                let text = format!(
                    "[[server]]\nname = \"a\"\naddress = \"{address}\"\npreface = {preface}\n\
                     [health]\noff = true\n"
                );
                std::fs::write(&backends, text).map_err(|error| error.to_string())?;
                let mut command = Command::new(&site.program);
                command.args(["balance", "--listen", "127.0.0.1:0", "--backends"]).arg(backends);
                Some(start(command, log)?)
            }
        };
        Ok(Self { target, metrics, _behind: behind })
    }
}

/// Returns an address with a free UDP port.
fn free_address() -> Result<SocketAddr, String> {
    let socket = UdpSocket::bind("127.0.0.1:0");
    socket.and_then(|socket| socket.local_addr()).map_err(|error| {
        format!(
            "cannot find a free \
        port: {error}"
        )
    })
}

/// Returns an address with a free TCP port.
pub(crate) fn free_tcp_address() -> Result<SocketAddr, String> {
    let socket = TcpListener::bind("127.0.0.1:0");
    socket.and_then(|socket| socket.local_addr()).map_err(|error| {
        format!(
            "cannot find a free \
        port: {error}"
        )
    })
}

/// Runs one attack.
///
/// # Errors
/// Returns an error only if the user interrupts: any other problem is recorded in the line.
fn attack(site: &Site, row: &Row) -> Result<Line, String> {
    let folder = site.folder.join(row.name);
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", row.name))?;
    let log = site.folder.join(format!("{}.log", row.name));
    let counter = Arc::new(Sent::default());
    let mut line = Line::new(row.name);
    let slowness = speed::slowness()?;
    let mut running = match Running::start(site, row.target, &folder, &log) {
        Ok(running) => running,
        Err(error) => {
            check_interrupt()?;
            line.faults.push(format!("the target did not start: {error}"));
            return Ok(line);
        }
    };
    let unused = SocketAddr::from(([127, 0, 0, 1], 0));
    let address = running.target.as_ref().map_or(unused, |(_, address)| *address);
    let mut beside = None;
    if let Some((server, _)) = &running.target {
        let quiet = Arc::new(Sent::default());
        let is_old = matches!(row.target, Target::Serve(["--http09", ..]));
        let settings = match is_old {
            true => site.settings_for(&quiet, "hq-interop"),
            false => site.settings(&quiet),
        };
        let client = Client::start(address, settings, is_old);
        pause(BEFORE)?;
        beside = Some((client, Watch::start(server.id(), &folder)));
    }
    let mut scene = Scene {
        site,
        folder,
        address,
        metrics: running.metrics,
        log: log.clone(),
        measured: None,
        counter: counter.clone(),
        notes: Vec::new(),
        faults: Vec::new(),
    };
    let driven = (row.drive)(&mut scene);
    check_interrupt()?;
    // The machine's speed may have changed in the meantime.
    line.slowness = slowness.max(speed::slowness()?);
    let bound = if site.is_optimized { row.bound } else { row.bound.unoptimized() };
    let bound = bound.on_machine(line.slowness);
    line.faults = scene.faults;
    line.notes = scene.notes;
    line.cost = scene.measured.unwrap_or_default();
    if let Err(error) = driven {
        line.faults.push(format!("the attack could not be completed: {error}"));
    }
    if let Some((client, watch)) = beside {
        pause(AFTER)?;
        line.cost = watch.stop();
        line.seen = client.stop();
        line.faults.extend(outcome(&bound, &line.cost, &line.seen));
    } else {
        line.faults.extend(table::costs(&bound, &line.cost));
    }
    if running.target.as_mut().is_some_and(|(server, _)| !server.is_running()) {
        line.faults.push("the target exited".to_owned());
    }
    if std::fs::read_to_string(&log).is_ok_and(|log| log.contains("panicked")) {
        line.faults.push("the target panicked".to_owned());
    }
    line.sent = counter.bytes.load(Ordering::Relaxed);
    line.datagrams = counter.datagrams.load(Ordering::Relaxed);
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::{chosen, rows};
    use crate::options::parse;

    #[test]
    fn attacks_are_chosen_by_name_and_size() {
        let count = |words: &[&str]| {
            let options = chosen(&parse(words).unwrap());
            options.map_or(0, |chosen| chosen.len())
        };
        assert_eq!(count(&["--only", "ping-flood"]), 1);
        assert_eq!(count(&[]), rows::all().len());
        assert!((1..=count(&[])).contains(&count(&["--quick"])));
        assert_eq!(count(&["--only", "nobody"]), 0);
    }

    #[test]
    fn every_attack_has_a_name_of_its_own() {
        let mut names: Vec<&str> = rows::all().iter().map(|row| row.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
