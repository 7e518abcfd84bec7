//! `cargo xtask bench overload`: a server with 100 connections that make requests, while first Initial packets of clients
//! that never answer arrive from many addresses.
//!
//! The server has one core. The flood and the load share the other one; the flood has the policy SCHED_IDLE, so that it
//! takes what the load leaves.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::kernel::socket_drops;
use super::place::{CLIENT_CORE, Place, SERVER_CORE};
use super::stacks::build;
use super::{number, round, text};
use crate::measure::{self, Process};

/// How long requests are counted before and after the flood.
const PHASE: Duration = Duration::from_secs(5);
/// With so many half-open connections, clients must validate their address: the library's default.
const RETRY_ABOVE: u64 = 1000;
/// What the server may grow by, in bytes: 64 KiB for each half-open connection, and 2 MiB for clients that wait, as
/// `ServerConfig::retry_above` states.
const MEMORY_BOUND: u64 = (RETRY_ABOVE * 64 + 2048) * 1024;
/// By how much the flood may lengthen what 99 of 100 requests take.
const MAX_RATIO: f64 = 2.0;
/// A half-open connection lasts for 20 seconds.
const MAX_RECOVERY: Duration = Duration::from_secs(60);
const POLLING: Duration = Duration::from_millis(100);

struct Options {
    initials: u64,
    rate: Option<u64>,
    json: bool,
}

/// The measured values.
struct Measured {
    /// What the load printed before, during and after the flood.
    phases: [Value; 3],
    /// What the flood printed.
    flood: Value,
    /// What the server has counted when the flood ended.
    counts: Value,
    /// What a client needed that connected during the flood, in seconds.
    client: Result<f64, String>,
    /// Bytes by which the server has grown at most, since before the flood.
    growth: u64,
    /// Datagrams that the server's socket had no room for.
    socket_drops: u64,
    /// How long after the flood clients needed not validate their address any more.
    recovery: Option<Duration>,
    /// The server's processor seconds during the flood.
    server_cpu: f64,
}

pub(super) fn run(arguments: &[&str]) -> Result<(), String> {
    let options = parse(arguments)?;
    let ours = build()?;
    let place = Place::new(&ours)?;
    let measured = measure(&options, &ours, &place)?;
    report(&options, &measured);
    verdict(&measured)
}

fn measure(options: &Options, program: &Path, place: &Place) -> Result<Measured, String> {
    let (certificate, retry_above) = (text(&place.certificate), RETRY_ABOVE.to_string());
    let arguments = ["overload", "server", "--listen", "127.0.0.1:0", "--cert", certificate];
    let arguments =
        [&arguments[..], &["--key", text(&place.key), "--retry-above", &retry_above]].concat();
    let mut server = Process::start(program, &arguments, SERVER_CORE, "listening")?;
    let address = server.said().to_owned();
    let arguments = ["overload", "load", "--ca", text(&place.authority), "--connect", &address];
    let mut load = Process::start(program, &arguments, CLIENT_CORE, "open")?;
    let mut flood = flood(options, program, &address)?;
    step(&mut load)?;
    std::thread::sleep(PHASE);
    let before = load.ask()?;
    let (resident, cpu, drops) =
        (server.resident_bytes()?, server.cpu_seconds()?, socket_drops(server.id())?);
    let client = connect(program, place, &address);
    let flooded = flood.ask()?;
    let ended = Instant::now();
    let server_cpu = server.cpu_seconds()? - cpu;
    let counts = server.ask()?;
    let during = load.ask()?;
    std::thread::sleep(PHASE);
    let after = load.ask()?;
    let recovery = recovery(&mut server, ended)?;
    Ok(Measured {
        phases: [before, during, after],
        flood: flooded,
        counts,
        client: client.join().unwrap_or_else(|_| Err("its thread has ended".to_owned())),
        growth: greatest_resident_bytes(&server)?.saturating_sub(resident),
        socket_drops: socket_drops(server.id())? - drops,
        recovery,
        server_cpu,
    })
}

/// Starts the flood, which waits.
fn flood(options: &Options, program: &Path, address: &str) -> Result<Process, String> {
    let initials = options.initials.to_string();
    let arguments = ["--idle", "0", text(program), "overload", "flood", "--connect", address];
    let mut arguments = [&arguments[..], &["--initials", &initials]].concat();
    let rate = options.rate.map(|rate| rate.to_string());
    if let Some(rate) = &rate {
        arguments.extend(["--rate", rate]);
    }
    eprintln!("xtask: {initials} Initial packets are being encrypted");
    Ok(Process::start(Path::new("chrt"), &arguments, CLIENT_CORE, "ready")?)
}

/// Has one client connect a moment from now: how long that takes.
fn connect(
    program: &Path,
    place: &Place,
    address: &str,
) -> std::thread::JoinHandle<Result<f64, String>> {
    let (program, address) = (program.to_owned(), address.to_owned());
    let authority = text(&place.authority).to_owned();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(500));
        let arguments = ["handshakes", "--ca", &authority, "--connect", &address];
        let arguments = [&arguments[..], &["--count", "1", "--key-exchange", "x25519"]].concat();
        let (result, _) = measure::client(&program, &arguments, CLIENT_CORE)?;
        let seconds = result["seconds"][0].as_f64();
        seconds.ok_or_else(|| format!("the handshake failed: {result}"))
    })
}

/// How long after `ended` there were few half-open connections again.
fn recovery(server: &mut Process, ended: Instant) -> Result<Option<Duration>, String> {
    while ended.elapsed() < MAX_RECOVERY {
        let half_open = server.ask()?["half_open"].as_u64();
        if half_open.is_some_and(|half_open| half_open <= RETRY_ABOVE / 2) {
            return Ok(Some(ended.elapsed()));
        }
        std::thread::sleep(POLLING);
    }
    Ok(None)
}

/// Lets a process go on, and returns what it says next.
fn step(process: &mut Process) -> Result<String, String> {
    process.go_on()?;
    process.next_line().ok_or_else(|| "a program has ended; the reason is said above".to_owned())
}

/// The bytes of memory that a process has had at most (proc(5): VmHWM).
fn greatest_resident_bytes(process: &Process) -> Result<u64, String> {
    let path = format!("/proc/{}/status", process.id());
    let status = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    Ok(kibibytes.ok_or_else(|| format!("{path} does not have VmHWM as in proc(5)"))? * 1024)
}

fn report(options: &Options, measured: &Measured) {
    let Measured { phases, flood, counts, client, growth, socket_drops, recovery, server_cpu } =
        measured;
    let recovery = recovery.map(|time| time.as_secs_f64());
    if options.json {
        let [before, during, after] = phases;
        let object = json!({
            "case": "overload",
            "before": before,
            "during": during,
            "after": after,
            "flood": flood,
            "server": counts,
            "server_cpu_s": round(*server_cpu),
            "server_growth_bytes": growth,
            "server_growth_bound_bytes": MEMORY_BOUND,
            "socket_drops": socket_drops,
            "client_during_s": client.as_ref().ok(),
            "retry_off_after_s": recovery.map(round),
        });
        println!("{object}");
        return;
    }
    for (name, phase) in ["before", "during", "after"].into_iter().zip(phases) {
        let value = |name: &str| phase[name].as_f64().unwrap_or(f64::NAN);
        println!(
            "{name:12} {} requests, {} failed; p50 {:.2} ms, p99 {:.2} ms, longest {:.2} ms",
            value("requests"),
            value("failed"),
            value("p50_us") / 1000.0,
            value("p99_us") / 1000.0,
            value("max_us") / 1000.0,
        );
    }
    println!(
        "flood        {} Initial packets in {} s, {} per second, from the core of the load; \
         {server_cpu:.2} processor seconds of the server",
        flood["initials"], flood["seconds"], flood["per_second"]
    );
    println!(
        "server       {} half open, {} accepted, {} Retry packets, {} dropped; {socket_drops} more by the socket",
        counts["half_open"], counts["accepted"], counts["retries"], counts["dropped"]
    );
    println!(
        "memory       {:.1} MB more than before at most; the bound is {:.1} MB",
        *growth as f64 / 1e6,
        MEMORY_BOUND as f64 / 1e6
    );
    match client {
        Ok(seconds) => {
            println!("new client   connected in {:.1} ms during the flood", seconds * 1000.0);
        }
        Err(error) => println!("new client   {error}"),
    }
    match recovery {
        Some(seconds) => println!("Retry        off {seconds:.1} s after the flood"),
        None => println!("Retry        still on {} s after the flood", MAX_RECOVERY.as_secs()),
    }
}

fn verdict(measured: &Measured) -> Result<(), String> {
    let value = |phase: usize, name: &str| measured.phases[phase][name].as_f64();
    let before = value(0, "p99_us").unwrap_or(0.0);
    let during = value(1, "p99_us").unwrap_or(f64::INFINITY);
    let failed: f64 = (0..3).filter_map(|phase| value(phase, "failed")).sum();
    if failed > 0.0 {
        return Err(format!("{failed} requests failed"));
    }
    if during > before * MAX_RATIO {
        return Err(format!(
            "p99 was {:.1} times as long during the flood as before; {MAX_RATIO} times is permitted",
            during / before
        ));
    }
    if measured.growth > MEMORY_BOUND {
        return Err(format!(
            "the server has grown by {} bytes; {MEMORY_BOUND} are permitted",
            measured.growth
        ));
    }
    if measured.recovery.is_none() {
        return Err("Retry packets did not end".to_owned());
    }
    Ok(())
}

fn parse(arguments: &[&str]) -> Result<Options, String> {
    let mut options = Options { initials: 1_000_000, rate: None, json: false };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().copied().ok_or(format!("{argument} needs a value"));
        match *argument {
            "--json" => options.json = true,
            "--initials" => options.initials = number(value()?)?.max(1),
            "--rate" => options.rate = Some(number(value()?)?.max(1)),
            other => return Err(format!("bench overload has no option {other}")),
        }
    }
    Ok(options)
}
