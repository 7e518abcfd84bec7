//! `cargo xtask bench replacing`: repeatedly replaces `clearway serve --hot-restart` with a new
//! process while clients make requests.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::bounded::{ALL_CORES, Bounded, ending_with_this};
use super::place::{CLIENT_CORE, Place, SERVER_CORE};
use super::stacks::{build, clearway};
use super::{counted, latency, median, merged, round, sorted, text};
use crate::command::target;
use crate::measure::Process;
use crate::options::positive;

const CONNECTIONS: u64 = 50;
const SHARDS: &str = "2";
/// The size of the requested file in bytes.
const SIZE: usize = 1024;
const FILE: &str = "small";
/// Duration for which only one server runs: between two replacements, before the first one, and
/// after the last one.
const PAUSE: Duration = Duration::from_secs(1);
/// Time limit for a server to answer its last requests. Clients react to GOAWAY within
/// milliseconds.
const MAX_DRAINING: Duration = Duration::from_secs(30);
const POLLING: Duration = Duration::from_millis(2);
/// Time limit of a replacement, from the start of the new process to the exit of the old one. A
/// replacement that takes longer would never finish.
const TIMEOUT: Duration = Duration::from_secs(45);

#[derive(clap::Args)]
pub(super) struct ReplacingOptions {
    /// Number of replacements
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = positive::<u64>())]
    times: u64,
    /// Requests per second over 50 connections
    #[arg(long, default_value_t = 500, value_parser = positive::<u64>())]
    rate: u64,
}

/// The durations of one replacement in seconds.
struct Replaced {
    /// Time from the start of the new process until it serves requests.
    started: f64,
    /// Time from when the new process serves requests until the old one has exited.
    drained: f64,
}

struct Measured {
    replaced: Vec<Replaced>,
    /// The load generator's output.
    load: Value,
    seconds: f64,
}

pub(super) fn run(options: &ReplacingOptions, json: bool) -> Result<(), String> {
    let ours = build()?;
    let server = clearway();
    let place = Place::new(&ours)?;
    let limit = TIMEOUT * (u32::try_from(options.times).unwrap_or(u32::MAX).saturating_add(2));
    let _bounded = Bounded::new("replacing", limit);
    let measured = measure(options, &ours, &Site::new(&server, &place)?)?;
    report(options, json, &measured);
    verdict(&measured)
}

/// The common parameters of the servers. Each server replaces the previous one.
struct Site<'a> {
    program: &'a Path,
    place: &'a Place,
    /// The folder in which servers are started. It is relative because the path of a Unix socket
    /// must be short.
    folder: PathBuf,
    socket: String,
}

impl<'a> Site<'a> {
    fn new(program: &'a Path, place: &'a Place) -> Result<Self, String> {
        let folder = target().join("bench/replacing");
        let root = folder.join("root");
        let file = root.join(FILE);
        fs::create_dir_all(&root)
            .and_then(|()| fs::write(&file, vec![b'a'; SIZE]))
            .map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(Self { program, place, folder, socket: format!("socket-{}", std::process::id()) })
    }

    /// Starts a server that replaces the running one, if any, and waits until it serves requests.
    fn serve(&self, listen: &str) -> Result<Process, String> {
        let Place { certificate, key, .. } = self.place;
        let around = ending_with_this(text(&self.folder), ALL_CORES);
        let serve = [text(self.program), "serve", "root", "--quiet", "--listen", listen];
        let same = ["--hot-restart", &self.socket, "--shards", SHARDS, "--shutdown-timeout", "2s"];
        let identity = ["--cert", text(certificate), "--key", text(key)];
        let arguments = [&around[..], &serve, &same, &identity].concat();
        Ok(Process::start(Path::new("env"), &arguments, SERVER_CORE, "listening")?)
    }
}

/// Returns the address that follows `listening` in a server's output.
fn address(said: &str) -> Result<&str, String> {
    let address = said.strip_prefix("on https://").and_then(|rest| rest.split(' ').next());
    address.ok_or_else(|| format!("cannot find the address in the server's output: {said}"))
}

fn measure(
    options: &ReplacingOptions,
    program: &Path,
    site: &Site<'_>,
) -> Result<Measured, String> {
    let mut server = site.serve("127.0.0.1:0")?;
    let address = address(server.said())?.to_owned();
    let (rate, size) = (options.rate.to_string(), SIZE.to_string());
    let (connections, path) = (CONNECTIONS.to_string(), format!("/{FILE}"));
    let arguments = ["replacing", "--ca", text(&site.place.authority), "--connect", &address];
    let asked = ["--path", &path, "--size", &size, "--connections", &connections, "--rate", &rate];
    let arguments = [&arguments[..], &asked].concat();
    let mut load = Process::start(program, &arguments, CLIENT_CORE, "open")?;
    let began = Instant::now();
    let mut replaced = Vec::new();
    for time in 1..=options.times {
        std::thread::sleep(PAUSE);
        let starting = Instant::now();
        let next = site.serve(&address)?;
        let started = starting.elapsed().as_secs_f64();
        let old = std::mem::replace(&mut server, next);
        let drained = drain(old, starting + Duration::from_secs_f64(started))?;
        eprintln!(
            "xtask: replaced {time} of {} times: the new process served after {:.0} ms, the old \
             one exited {:.0} ms later",
            options.times,
            started * 1000.0,
            drained * 1000.0
        );
        replaced.push(Replaced { started, drained });
    }
    std::thread::sleep(PAUSE);
    let seconds = began.elapsed().as_secs_f64();
    load.go_on()?;
    let line = load.next_line().ok_or("the load generator exited; the reason is above")?;
    let load = serde_json::from_str(&line).map_err(|error| format!("{line:?}: {error}"))?;
    Ok(Measured { replaced, load, seconds })
}

/// Waits until a server that was replaced at `replaced` exits by itself, and returns how many
/// seconds that took.
fn drain(mut old: Process, replaced: Instant) -> Result<f64, String> {
    loop {
        match old.ended()? {
            Some(status) if status.success() => return Ok(replaced.elapsed().as_secs_f64()),
            Some(status) => return Err(format!("a replaced server failed: {status}")),
            None if replaced.elapsed() > MAX_DRAINING => {
                let seconds = MAX_DRAINING.as_secs();
                return Err(format!(
                    "a server was still running {seconds} s after it was replaced"
                ));
            }
            None => std::thread::sleep(POLLING),
        }
    }
}

fn report(options: &ReplacingOptions, json: bool, measured: &Measured) {
    let Measured { replaced, load, seconds } = measured;
    let drained = sorted(replaced.iter().map(|it| it.drained).collect());
    let started = sorted(replaced.iter().map(|it| it.started).collect());
    if json {
        let rounded = |all: &[f64]| all.iter().copied().map(round).collect::<Vec<_>>();
        let object = json!({
            "case": "replacing",
            "times": replaced.len(),
            "connections": CONNECTIONS,
            "rate": options.rate,
            "seconds": round(*seconds),
            "drained_s": rounded(&drained),
            "started_s": rounded(&started),
        });
        println!("{}", merged(object, load));
        return;
    }
    let value = |name| counted(load, name);
    let spread = |all: &[f64]| {
        let [middle, least, most] = [median(all), all[0], all[all.len() - 1]].map(|it| it * 1000.0);
        format!("{middle:.0} ms ({least:.0} to {most:.0})")
    };
    println!(
        "servers      replaced {} times in {seconds:.0} s; the new one served after {}, the old \
         one exited {} later",
        replaced.len(),
        spread(&started),
        spread(&drained)
    );
    println!(
        "connections  {CONNECTIONS} concurrent, {} opened; {} refused, {} lost",
        value("opened"),
        value("refused"),
        value("cut")
    );
    println!(
        "requests     {}: {} answered, {} failed; {} retried on another connection after GOAWAY; \
         {}",
        value("requests"),
        value("answered"),
        value("failed"),
        value("moved"),
        latency(load)
    );
}

/// Checks that none of the forbidden events occurred.
fn verdict(measured: &Measured) -> Result<(), String> {
    let faults = [
        ("cut", "connections lost"),
        ("refused", "clients refused"),
        ("failed", "requests failed"),
    ];
    super::verdict("replacing", &measured.load, &faults, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_found_in_what_the_server_prints() {
        assert_eq!(address("on https://127.0.0.1:4433 (h3)"), Ok("127.0.0.1:4433"));
        assert!(address("127.0.0.1:4433").is_err());
    }

    #[test]
    fn what_clients_notice_fails() {
        let measured = |cut: u64, failed: u64| Measured {
            replaced: Vec::new(),
            load: json!({"cut": cut, "refused": 0, "failed": failed, "moved": 7}),
            seconds: 1.0,
        };
        assert_eq!(verdict(&measured(0, 0)), Ok(()));
        let said = "bench replacing: 1 connections lost, 2 requests failed";
        assert_eq!(verdict(&measured(1, 2)), Err(said.to_owned()));
        let unknown = Measured { replaced: Vec::new(), load: json!({}), seconds: 1.0 };
        assert!(verdict(&unknown).is_err());
    }
}
