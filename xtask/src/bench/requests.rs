//! `cargo xtask bench requests`: small HTTP/3 requests.

use super::measured::{Run, Unit};
use super::pairs::{Case, Plan};
use super::place::{ADDRESS, Job, Place, Problem, SERVE_HTTP3};
use super::report::Results;
use super::stacks::{PairOptions, Stack, Stacks, build, build_peers};
use crate::options::positive;

const UNIT: Unit =
    Unit { rate: "requests/s", digits: 0, cpu: "us of CPU time", cpu_key: "us", cpu_scale: 1e6 };

/// Number of connections, and number of requests in flight on each connection.
const CASES: [(usize, usize); 4] = [(1, 1), (1, 100), (64, 1), (64, 100)];

#[derive(clap::Args)]
pub(super) struct RequestsOptions {
    #[command(flatten)]
    pub(super) pairs: PairOptions,
    /// Duration of a run
    #[arg(long, default_value_t = 2, value_parser = positive::<u64>())]
    pub(super) seconds: u64,
    /// Size of each response
    #[arg(long, value_name = "BYTES", default_value_t = 1024, value_parser = positive::<u64>())]
    pub(super) size: u64,
    /// Also measure the latency at half the measured rate, from when a request is due
    #[arg(long)]
    pub(super) latency: bool,
    /// Disable Clearway's busy polling
    #[arg(long)]
    pub(super) no_busy_poll: bool,
}

pub(super) fn results(options: &RequestsOptions) -> Result<Results, String> {
    let ours = build()?;
    let place = Place::new(&ours)?;
    let peers = build_peers(&options.pairs.peers)?;
    let stacks = match options.no_busy_poll {
        false => Stacks::with_busy_poll(&ours, &peers),
        true => Stacks::with_one_client(&ours, &peers),
    };
    let case = |(connections, streams)| Case {
        name: format!("requests, {connections} x {streams} streams"),
        stacks: &stacks,
    };
    let cases = CASES.into_iter().map(case).collect();
    let plan = Plan { cases, rounds: options.pairs.rounds, unit: UNIT };
    Ok(plan.run(|case, server, client| measure(CASES[case], [server, client], options, &place)))
}

fn measure(
    (connections, streams): (usize, usize),
    pair: [&Stack; 2],
    options: &RequestsOptions,
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
