//! `cargo xtask bench requests`: small requests over HTTP/3.

use super::measured::{Run, Unit};
use super::pairs::{Case, Plan};
use super::place::{ADDRESS, Job, Place, Problem, SERVE_HTTP3};
use super::positive;
use super::report::Results;
use super::stacks::{PEERS, Stack, Stacks, build, build_peers, peer_named};

const UNIT: Unit = Unit {
    rate: "requests/s",
    digits: 0,
    cpu: "us of processor time",
    cpu_key: "us",
    cpu_scale: 1e6,
};

/// How many connections there are, and how many requests are in flight on each.
const CASES: [(usize, usize); 4] = [(1, 1), (1, 100), (64, 1), (64, 100)];

#[derive(PartialEq, Debug)]
pub(super) struct Options {
    pub(super) peers: Vec<&'static str>,
    pub(super) rounds: usize,
    pub(super) seconds: u64,
    pub(super) size: u64,
    pub(super) latency: bool,
    /// Whether our ends look for datagrams before they sleep.
    pub(super) busy_poll: bool,
    pub(super) json: bool,
}

impl Default for Options {
    fn default() -> Self {
        let peers = PEERS.to_vec();
        Self {
            peers,
            rounds: 5,
            seconds: 2,
            size: 1024,
            latency: false,
            busy_poll: true,
            json: false,
        }
    }
}

pub(super) fn run(arguments: &[&str]) -> Result<(), String> {
    let options = parse(arguments)?;
    results(&options)?.print(options.json)
}

pub(super) fn results(options: &Options) -> Result<Results, String> {
    let ours = build()?;
    let place = Place::new(&ours)?;
    let peers = build_peers(&options.peers)?;
    let stacks = match options.busy_poll {
        true => Stacks::with_busy_poll(&ours, &peers),
        false => Stacks::with_one_client(&ours, &peers),
    };
    let case = |(connections, streams)| Case {
        name: format!("requests, {connections} x {streams} streams"),
        stacks: &stacks,
    };
    let cases = CASES.into_iter().map(case).collect();
    let plan = Plan { cases, rounds: options.rounds, unit: UNIT };
    Ok(plan.run(|case, server, client| measure(CASES[case], [server, client], options, &place)))
}

fn measure(
    (connections, streams): (usize, usize),
    pair: [&Stack; 2],
    options: &Options,
    place: &Place,
) -> Result<Run, Problem> {
    let (connections, streams) = (connections.to_string(), streams.to_string());
    let (seconds, size) = (options.seconds.to_string(), options.size.to_string());
    let mut ask = vec!["load", "--connect", ADDRESS];
    ask.extend(["--connections", &connections, "--streams", &streams]);
    ask.extend(["--seconds", &seconds, "--size", &size]);
    let job = Job { serve: &SERVE_HTTP3, ask: &ask };
    let mut run = place.run(pair, &job, &UNIT, |result| {
        Some((result["requests"].as_f64()?, result["seconds"].as_f64()?))
    })?;
    if options.latency {
        let latency = place.latency(&run, pair, &job, |result| {
            Some([result["p50_us"].as_f64()?, result["p99_us"].as_f64()?])
        })?;
        run.latency = Some(latency);
    }
    Ok(run)
}

fn parse(arguments: &[&str]) -> Result<Options, String> {
    let (mut options, mut peers) = (Options::default(), Vec::new());
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().copied().ok_or(format!("{argument} needs a value"));
        match *argument {
            "--json" => options.json = true,
            "--no-busy-poll" => options.busy_poll = false,
            "--latency" => options.latency = true,
            "--rounds" => options.rounds = positive(value()?)? as usize,
            "--seconds" => options.seconds = positive(value()?)?,
            "--size" => options.size = positive(value()?)?,
            "--peer" => peers.push(peer_named(value()?)?),
            other => return Err(format!("bench requests has no option {other}")),
        }
    }
    if !peers.is_empty() {
        options.peers = peers;
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        assert!(!parse(&["--no-busy-poll"]).unwrap().busy_poll);
        assert_eq!(parse(&[]), Ok(Options::default()));
        let arguments = ["--latency", "--peer", "quinn", "--seconds", "1", "--size", "7"];
        let peers = vec!["quinn"];
        let expected = Options { peers, seconds: 1, size: 7, latency: true, ..Options::default() };
        assert_eq!(parse(&arguments), Ok(expected));
        assert!(parse(&["--seconds", "0"]).is_err());
        assert!(parse(&["--count", "1"]).is_err());
    }
}
