//! `cargo xtask bench overload`: a server with 100 connections that make requests, during a flood
//! of Initial packets from many addresses whose clients never respond.
//!
//! The server has one core. The flood, the load and a client that connects during the flood share
//! the other one. The flood and the client have the scheduling policy SCHED_IDLE, so that they get
//! only the CPU time that the load leaves. Server and load have priority over all other programs of
//! the machine, if the user may set it: 10 ms per second determine the 99th percentile, and a
//! kernel that compacts memory takes 1.7 ms twice a second.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::kernel::socket_drops;
use super::place::{CLIENT_CORE, Place, SERVER_CORE};
use super::stacks::build;
use super::{counted, latency, median, round, sorted, text};
use crate::measure::Process;
use crate::options::positive;

/// Duration of the phases before and after the flood in which requests are counted.
const PHASE: Duration = Duration::from_secs(5);
/// Number of half-open connections above which clients must validate their addresses: the library's
/// default.
const RETRY_ABOVE: u64 = 1000;
/// Maximum growth of the server's memory in bytes: 64 KiB for each half-open connection, and 2 MiB
/// for waiting clients, as documented at `ServerConfig::retry_above`.
const MEMORY_BOUND: u64 = (RETRY_ABOVE * 64 + 2048) * 1024;
/// Maximum factor by which the flood may increase the 99th percentile of the latency; the median of
/// the rounds counts.
const MAX_RATIO: f64 = 2.0;
/// Time limit for the server's recovery; a half-open connection lasts for 20 seconds.
const MAX_RECOVERY: Duration = Duration::from_secs(60);
const POLLING: Duration = Duration::from_millis(100);

#[derive(clap::Args)]
pub(super) struct OverloadOptions {
    /// Number of repetitions, each with a new server
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = positive::<u64>())]
    rounds: u64,
    /// Number of packets, all different and prepared in advance, 1.2 kB each
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000, value_parser = positive::<u64>())]
    initials: u64,
    /// Packets per second [default: as many as the load's core can send]
    #[arg(long, value_parser = positive::<u64>())]
    rate: Option<u64>,
}

/// The measured values.
struct Measured {
    /// The load generator's output before, during and after the flood.
    phases: [Value; 3],
    /// The flood generator's output.
    flood: Value,
    /// The server's counters at the end of the flood.
    counts: Value,
    /// The connect time, in seconds, of a client that connected during the flood.
    client: Result<f64, String>,
    /// Maximum growth of the server's memory in bytes since before the flood.
    growth: u64,
    /// Datagrams dropped because the server's socket buffer was full.
    socket_drops: u64,
    /// Time from the end of the flood until clients no longer had to validate their addresses.
    recovery: Option<Duration>,
    /// CPU seconds used by the server during the flood.
    server_cpu: f64,
}

pub(super) fn run(options: &OverloadOptions, json: bool) -> Result<(), String> {
    let ours = build()?;
    let place = Place::new(&ours)?;
    let mut ratios = Vec::new();
    for _ in 0..options.rounds {
        let measured = measure(options, &ours, &place)?;
        report(json, &measured);
        ratios.push(check(&measured)?);
    }
    verdict(&sorted(ratios))
}

fn measure(options: &OverloadOptions, program: &Path, place: &Place) -> Result<Measured, String> {
    let (certificate, retry_above) = (text(&place.certificate), RETRY_ABOVE.to_string());
    let arguments = ["overload", "server", "--listen", "127.0.0.1:0", "--cert", certificate];
    let arguments =
        [&arguments[..], &["--key", text(&place.key), "--retry-above", &retry_above]].concat();
    let mut server = preferred(program, &arguments, SERVER_CORE, "listening")?;
    let address = server.said().to_owned();
    let arguments = ["overload", "load", "--ca", text(&place.authority), "--connect", &address];
    let mut load = preferred(program, &arguments, CLIENT_CORE, "open")?;
    let arguments = ["client", "--ca", text(&place.authority), "--connect", &address];
    let client = idle(program, &arguments)?;
    let mut flood = flood(options, program, &address)?;
    step(&mut load)?;
    std::thread::sleep(PHASE);
    let before = load.ask()?;
    let (resident, cpu, drops) =
        (server.resident_bytes()?, server.cpu_seconds()?, socket_drops(server.id())?);
    let client = connect(client);
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
        client: client.join().unwrap_or_else(|_| Err("its thread exited".to_owned())),
        growth: greatest_resident_bytes(&server)?.saturating_sub(resident),
        socket_drops: socket_drops(server.id())? - drops,
        recovery,
        server_cpu,
    })
}

/// Starts the flood generator, which waits for a command.
fn flood(options: &OverloadOptions, program: &Path, address: &str) -> Result<Process, String> {
    let initials = options.initials.to_string();
    let mut arguments = vec!["flood", "--connect", address, "--initials", &initials];
    let rate = options.rate.map(|rate| rate.to_string());
    if let Some(rate) = &rate {
        arguments.extend(["--rate", rate]);
    }
    eprintln!("xtask: {initials} Initial packets are being encrypted");
    idle(program, &arguments)
}

/// Starts a program with priority over other programs, if allowed. Otherwise nice(1) reports that
/// and starts the program anyway.
fn preferred(
    program: &Path,
    arguments: &[&str],
    core: usize,
    ready: &str,
) -> Result<Process, String> {
    let arguments = [&["-n", "-20", text(program)], arguments].concat();
    Ok(Process::start(Path::new("nice"), &arguments, core, ready)?)
}

/// Starts a program with the scheduling policy SCHED_IDLE. The program waits for a command.
fn idle(program: &Path, arguments: &[&str]) -> Result<Process, String> {
    let arguments = [&["--idle", "0", text(program), "overload"], arguments].concat();
    Ok(Process::start(Path::new("chrt"), &arguments, CLIENT_CORE, "ready")?)
}

/// Makes the client connect a moment from now, and returns the connect time in seconds.
fn connect(mut client: Process) -> std::thread::JoinHandle<Result<f64, String>> {
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(500));
        let result = client.ask()?;
        result["seconds"].as_f64().ok_or_else(|| format!("the client printed {result}"))
    })
}

/// Returns the time from `ended` until the number of half-open connections was low again.
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

/// Lets a process continue, and returns the next line of its output.
fn step(process: &mut Process) -> Result<String, String> {
    process.go_on()?;
    process.next_line().ok_or_else(|| "a program exited; the reason is above".to_owned())
}

/// Returns the peak resident memory of a process in bytes (proc(5): VmHWM).
fn greatest_resident_bytes(process: &Process) -> Result<u64, String> {
    let path = format!("/proc/{}/status", process.id());
    let status = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    Ok(kibibytes.ok_or_else(|| format!("{path} does not contain VmHWM as described in proc(5)"))?
        * 1024)
}

fn report(json: bool, measured: &Measured) {
    let Measured { phases, flood, counts, client, growth, socket_drops, recovery, server_cpu } =
        measured;
    let recovery = recovery.map(|time| time.as_secs_f64());
    if json {
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
        println!(
            "{name:12} {} requests, {} failed; {}",
            counted(phase, "requests"),
            counted(phase, "failed"),
            latency(phase)
        );
    }
    println!(
        "flood        {} Initial packets in {} s, {} per second, sent from the load's core; \
         {server_cpu:.2} s of the server's CPU time",
        flood["initials"], flood["seconds"], flood["per_second"]
    );
    println!(
        "server       {} half-open, {} accepted, {} Retry packets, {} dropped; {socket_drops} \
         more dropped by the socket",
        counts["half_open"], counts["accepted"], counts["retries"], counts["dropped"]
    );
    println!(
        "memory       grew by at most {:.1} MB; the limit is {:.1} MB",
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

/// Returns the ratio of the 99th percentile during the flood to the one before the flood.
fn check(measured: &Measured) -> Result<f64, String> {
    let value = |phase: usize, name: &str| measured.phases[phase][name].as_f64();
    let failed: f64 = (0..3).filter_map(|phase| value(phase, "failed")).sum();
    if failed > 0.0 {
        return Err(format!("{failed} requests failed"));
    }
    if measured.growth > MEMORY_BOUND {
        return Err(format!(
            "the server's memory grew by {} bytes; at most {MEMORY_BOUND} are allowed",
            measured.growth
        ));
    }
    if measured.recovery.is_none() {
        return Err("the server did not stop sending Retry packets".to_owned());
    }
    let before = value(0, "p99_us").ok_or("no request was answered before the flood")?;
    let during = value(1, "p99_us").ok_or("no request was answered during the flood")?;
    Ok(during / before)
}

fn verdict(ratios: &[f64]) -> Result<(), String> {
    let median = median(ratios);
    let all: Vec<_> = ratios.iter().map(|ratio| format!("{ratio:.1}")).collect();
    let said = format!(
        "p99 was {} times as long during the flood as before, {median:.1} in the median; at most \
         {MAX_RATIO} times is allowed",
        all.join(", ")
    );
    if median > MAX_RATIO {
        return Err(said);
    }
    eprintln!("xtask: {said}");
    Ok(())
}
