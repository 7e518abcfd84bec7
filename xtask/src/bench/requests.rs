//! `cargo xtask bench requests`: small requests over HTTP/3.

use super::pairs::{Plan, Run};
use super::{PEERS, Place, Stack, build, certificate, number, peer_named, stacks};

/// How many connections there are, and how many requests are in flight on each.
const CASES: [(usize, usize); 4] = [(1, 1), (1, 100), (64, 1), (64, 100)];

struct Options {
    peers: Vec<&'static str>,
    rounds: usize,
    seconds: u64,
    size: u64,
    latency: bool,
    json: bool,
}

pub(super) fn run(arguments: &[&str]) -> Result<(), String> {
    let options = parse(arguments)?;
    let ours = build()?;
    let place = Place::new(certificate(&ours)?);
    let stacks = stacks(&ours, &options.peers)?;
    let name = |(connections, streams)| format!("requests, {connections} x {streams} streams");
    let plan = Plan {
        stacks: &stacks,
        cases: CASES.into_iter().map(name).collect(),
        peers: &options.peers,
        rounds: options.rounds,
        operations: "requests",
        json: options.json,
    };
    plan.run(|case, server, client| measure(CASES[case], server, client, &options, &place))
}

fn measure(
    (connections, streams): (usize, usize),
    server: &Stack,
    client: &Stack,
    options: &Options,
    place: &Place,
) -> Result<Run, String> {
    let (connections, streams) = (connections.to_string(), streams.to_string());
    let (seconds, size) = (options.seconds.to_string(), options.size.to_string());
    let mut arguments = vec!["--connections", &connections, "--streams", &streams];
    arguments.extend(["--seconds", &seconds, "--size", &size]);
    let mut run = place.run(server, client, "load", &arguments, |result| {
        Some((result["requests"].as_f64()?, result["seconds"].as_f64()?))
    })?;
    if options.latency {
        let latency = place.latency(&run, [server, client], "load", &arguments, |result| {
            Some([result["p50_us"].as_f64()?, result["p99_us"].as_f64()?])
        })?;
        run.latency = Some(latency);
    }
    Ok(run)
}

fn parse(arguments: &[&str]) -> Result<Options, String> {
    let mut options = Options {
        peers: Vec::new(),
        rounds: 5,
        seconds: 2,
        size: 1024,
        latency: false,
        json: false,
    };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().copied().ok_or(format!("{argument} needs a value"));
        match *argument {
            "--json" => options.json = true,
            "--latency" => options.latency = true,
            "--rounds" => options.rounds = number(value()?)?.max(1) as usize,
            "--seconds" => options.seconds = number(value()?)?.max(1),
            "--size" => options.size = number(value()?)?,
            "--peer" => options.peers.push(peer_named(value()?)?),
            other => return Err(format!("bench requests has no option {other}")),
        }
    }
    if options.peers.is_empty() {
        options.peers = PEERS.to_vec();
    }
    Ok(options)
}
