//! `cargo xtask bench moving`: clients that migrate to another local address every second while
//! they make requests.

use std::path::Path;
use std::time::Duration;

use clap::value_parser;
use serde_json::{Value, json};

use super::bounded::{ALL_CORES, Bounded};
use super::place::{CLIENT_CORE, Place, SERVE_HTTP3, SERVER_CORE};
use super::stacks::build;
use super::steered::Steered;
use super::{counted, latency, merged, text};
use crate::measure::Process;

/// The program's maximum number of connections: every hundred connections need a thread.
const MAX_CONNECTIONS: u64 = 2000;
const MAX_SECONDS: u64 = 24 * 60 * 60;
const MAX_SHARDS: u64 = 256;
/// Time limit for everything except the migrations.
const MARGIN: Duration = Duration::from_secs(120);

#[derive(clap::Args)]
pub(super) struct MovingOptions {
    /// Number of clients
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = value_parser!(u64).range(1..=MAX_CONNECTIONS))]
    connections: u64,
    /// Duration of the measurement
    #[arg(long, default_value_t = 60, value_parser = value_parser!(u64).range(1..=MAX_SECONDS))]
    seconds: u64,
    /// Number of the server's shards
    #[arg(long, value_name = "COUNT", default_value_t = 2, value_parser = value_parser!(u64).range(1..=MAX_SHARDS))]
    shards: u64,
}

struct Measured {
    /// The clients' output.
    load: Value,
    steered: Steered,
    /// CPU seconds used by the server.
    server_cpu: f64,
}

pub(super) fn run(options: &MovingOptions, json: bool) -> Result<(), String> {
    let ours = build()?;
    let place = Place::new(&ours)?;
    let _bounded = Bounded::new("moving", Duration::from_secs(options.seconds) + MARGIN);
    let measured = measure(options, &ours, &place)?;
    report(options, json, &measured);
    verdict(&measured)
}

fn measure(options: &MovingOptions, program: &Path, place: &Place) -> Result<Measured, String> {
    let MovingOptions { connections, seconds, shards } = *options;
    let [connections, seconds, shards] = [connections, seconds, shards].map(|it| it.to_string());
    let mut server = serve(program, place, &shards)?;
    let address = server.said().to_owned();
    let arguments = ["moving", "--ca", text(&place.authority), "--connect", &address];
    let more = ["--connections", &connections, "--seconds", &seconds];
    let arguments = [&arguments[..], &more].concat();
    let mut load = Process::start(program, &arguments, CLIENT_CORE, "open")?;
    eprintln!("xtask: {connections} connections migrate repeatedly for {seconds} s");
    let before = server.cpu_seconds()?;
    load.go_on()?;
    let line = load.next_line().ok_or("the clients exited; the reason is above")?;
    let server_cpu = server.cpu_seconds()? - before;
    let load = serde_json::from_str(&line).map_err(|error| format!("{line:?}: {error}"))?;
    Ok(Measured { load, steered: Steered::ask(&mut server)?, server_cpu })
}

/// Starts a server with this many shards on all cores, which exits when its standard input closes.
pub(super) fn serve(program: &Path, place: &Place, shards: &str) -> Result<Process, String> {
    let around = ["--cpu-list", ALL_CORES, text(program)];
    let identity = ["--cert", text(&place.certificate), "--key", text(&place.key)];
    let more = ["--face", "shard", "--attached", "--shards", shards, "--listen", "127.0.0.1:0"];
    let arguments = [&around[..], &SERVE_HTTP3, &identity, &more].concat();
    Ok(Process::start(Path::new("taskset"), &arguments, SERVER_CORE, "listening")?)
}

fn report(options: &MovingOptions, json: bool, measured: &Measured) {
    let Measured { load, steered, server_cpu } = measured;
    if json {
        let object = json!({
            "case": "moving",
            "connections": options.connections,
            "seconds": options.seconds,
            "shards": options.shards,
            "steering": steered.method,
            "datagrams_steered_right": steered.right,
            "datagrams_handed_over": steered.handed_over,
            "datagrams_dropped": steered.dropped,
            "server_cpu_s": super::round(*server_cpu),
        });
        println!("{}", merged(object, load));
        return;
    }
    let value = |name| counted(load, name);
    println!(
        "connections  {} for {} s, {} lost; {} migrations completed, after {:.2} ms on average; \
         {} not completed",
        options.connections,
        options.seconds,
        value("lost"),
        value("moved"),
        value("mean_move_us") / 1000.0,
        value("not_moved")
    );
    println!(
        "requests     {}: {} answered, {} failed; {}",
        value("requests"),
        value("answered"),
        value("failed"),
        latency(load)
    );
    println!("datagrams    {}", steered.text());
    println!("CPU          {server_cpu:.2} s of the server, which has {} shards", options.shards);
}

/// Checks that none of the forbidden events occurred. A connection that could not migrate stays on
/// its path and is not lost. If none has migrated, nothing was measured.
fn verdict(measured: &Measured) -> Result<(), String> {
    let load = &measured.load;
    let faults = [("lost", "connections lost"), ("failed", "requests failed")];
    let stood = load["moved"] == json!(0);
    super::verdict("moving", load, &faults, stood.then(|| "no connection migrated".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_connection_and_standing_still_fail() {
        let judge = |lost: u64, failed: u64, moved: u64| {
            let load = json!({"lost": lost, "failed": failed, "moved": moved, "not_moved": 3});
            let steered = Steered::default();
            verdict(&Measured { load, steered, server_cpu: 1.0 })
        };
        assert_eq!(judge(0, 0, 5), Ok(()));
        assert!(judge(1, 0, 5).is_err_and(|error| error == "bench moving: 1 connections lost"));
        assert!(judge(0, 1, 5).is_err() && judge(0, 0, 0).is_err());
    }
}
