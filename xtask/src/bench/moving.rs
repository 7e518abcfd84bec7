//! `cargo xtask bench moving`: clients that move to another local address every second while they make requests.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::bounded::{ALL_CORES, Bounded};
use super::place::{CLIENT_CORE, Place, SERVE_HTTP3, SERVER_CORE};
use super::stacks::build;
use super::steered::Steered;
use super::{positive, text};
use crate::measure::Process;

/// As many as the program takes: each hundred has a thread.
const MAX_CONNECTIONS: u64 = 2000;
const MAX_SECONDS: u64 = 24 * 60 * 60;
const MAX_SHARDS: u64 = 256;
/// How long everything but the moves may take.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(PartialEq, Debug)]
struct Options {
    connections: u64,
    seconds: u64,
    shards: u64,
    json: bool,
}

struct Measured {
    /// What the clients have printed.
    load: Value,
    steered: Steered,
    /// CPU seconds of the server.
    server_cpu: f64,
}

pub(super) fn run(arguments: &[&str]) -> Result<(), String> {
    let options = parse(arguments)?;
    let ours = build()?;
    let place = Place::new(&ours)?;
    let _bounded = Bounded::new("moving", Duration::from_secs(options.seconds) + PATIENCE);
    let measured = measure(&options, &ours, &place)?;
    report(&options, &measured);
    verdict(&measured)
}

fn measure(options: &Options, program: &Path, place: &Place) -> Result<Measured, String> {
    let Options { connections, seconds, shards, .. } = *options;
    let [connections, seconds, shards] = [connections, seconds, shards].map(|it| it.to_string());
    let mut server = serve(program, place, &shards)?;
    let address = server.said().to_owned();
    let arguments = ["moving", "--ca", text(&place.authority), "--connect", &address];
    let more = ["--connections", &connections, "--seconds", &seconds];
    let arguments = [&arguments[..], &more].concat();
    let mut load = Process::start(program, &arguments, CLIENT_CORE, "open")?;
    eprintln!("xtask: {connections} connections move for {seconds} s");
    let before = server.cpu_seconds()?;
    load.go_on()?;
    let line = load.next_line().ok_or("the clients have ended; the reason is said above")?;
    let server_cpu = server.cpu_seconds()? - before;
    let load = serde_json::from_str(&line).map_err(|error| format!("{line:?}: {error}"))?;
    Ok(Measured { load, steered: Steered::ask(&mut server)?, server_cpu })
}

/// Starts a server with so many shards on all cores, which ends with its standard input.
pub(super) fn serve(program: &Path, place: &Place, shards: &str) -> Result<Process, String> {
    let around = ["--cpu-list", ALL_CORES, text(program)];
    let identity = ["--cert", text(&place.certificate), "--key", text(&place.key)];
    let more = ["--face", "shard", "--attached", "--shards", shards, "--listen", "127.0.0.1:0"];
    let arguments = [&around[..], &SERVE_HTTP3, &identity, &more].concat();
    Ok(Process::start(Path::new("taskset"), &arguments, SERVER_CORE, "listening")?)
}

fn report(options: &Options, measured: &Measured) {
    let Measured { load, steered, server_cpu } = measured;
    if options.json {
        let mut object = json!({
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
        if let (Some(object), Some(load)) = (object.as_object_mut(), load.as_object()) {
            object.extend(load.clone());
        }
        println!("{object}");
        return;
    }
    let value = |name: &str| load[name].as_f64().unwrap_or(f64::NAN);
    let milliseconds = |name| value(name) / 1000.0;
    println!(
        "connections  {} for {} s, {} lost; {} migrations completed, after {:.2} ms on average, {} not",
        options.connections,
        options.seconds,
        value("lost"),
        value("moved"),
        milliseconds("mean_move_us"),
        value("not_moved")
    );
    println!(
        "requests     {}: {} answered, {} failed; p50 {:.2} ms, p99 {:.2} ms, longest {:.2} ms",
        value("requests"),
        value("answered"),
        value("failed"),
        milliseconds("p50_us"),
        milliseconds("p99_us"),
        milliseconds("max_us")
    );
    println!("datagrams    {}", steered.text());
    println!("processor    {server_cpu:.2} s of the server, which has {} shards", options.shards);
}

/// What must not happen. A connection that could not move has stayed where it was, and is not lost; if none has moved,
/// nothing was measured.
fn verdict(measured: &Measured) -> Result<(), String> {
    let load = &measured.load;
    let faults = [("lost", "connections lost"), ("failed", "requests failed")];
    let mut said: Vec<String> = faults
        .into_iter()
        .filter(|(name, _)| load[*name] != json!(0))
        .map(|(name, words)| format!("{} {words}", load[name]))
        .collect();
    if load["moved"] == json!(0) {
        said.push("no connection has moved".to_owned());
    }
    match said.is_empty() {
        true => Ok(()),
        false => Err(format!("bench moving: {}", said.join(", "))),
    }
}

fn parse(arguments: &[&str]) -> Result<Options, String> {
    let mut options = Options { connections: 100, seconds: 60, shards: 2, json: false };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut value = |most: u64| {
            let text = rest.next().ok_or(format!("{argument} needs a value"))?;
            let number = positive(text).map_err(|error| format!("{argument}: {error}"))?;
            let is_possible = number <= most;
            is_possible.then_some(number).ok_or(format!("{argument}: at most {most} are possible"))
        };
        match *argument {
            "--json" => options.json = true,
            "--connections" => options.connections = value(MAX_CONNECTIONS)?,
            "--seconds" => options.seconds = value(MAX_SECONDS)?,
            "--shards" => options.shards = value(MAX_SHARDS)?,
            other => return Err(format!("bench moving has no option {other}")),
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_arguments_are_named() {
        let error = |arguments: &[&str]| parse(arguments).unwrap_err();
        assert_eq!(error(&["--seconds"]), "--seconds needs a value");
        assert_eq!(error(&["--shards", "0"]), "--shards: expected a number above 0");
        assert_eq!(error(&["--connections", "2001"]), "--connections: at most 2000 are possible");
        assert_eq!(error(&["--rate", "5"]), "bench moving has no option --rate");
        let options = Options { connections: 100, seconds: 60, shards: 2, json: false };
        assert_eq!(parse(&[]), Ok(options));
        let options = Options { connections: 7, seconds: 5, shards: 1, json: true };
        let arguments = ["--connections", "7", "--seconds", "5", "--shards", "1", "--json"];
        assert_eq!(parse(&arguments), Ok(options));
    }

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
