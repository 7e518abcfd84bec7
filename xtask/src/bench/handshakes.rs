//! `cargo xtask bench handshakes`: full and resumed handshakes with X25519, 32 at a time.

use serde_json::Value;

use super::measured::{Run, Unit};
use super::pairs::{Case, Plan};
use super::place::{ADDRESS, Job, Place, Problem, SERVE_HTTP3, SERVE_RAW};
use super::report::Results;
use super::sorted;
use super::stacks::{PairOptions, Stack, Stacks, build, build_peers};
use crate::options::positive;

const PARALLEL: &str = "32";
/// The peer whose handshakes are measured with raw streams, and which supports tickets only in this
/// command.
const WITH_RAW_STREAMS: &str = "s2n-quic";
const UNIT: Unit =
    Unit { rate: "handshakes/s", digits: 0, cpu: "us of CPU time", cpu_key: "us", cpu_scale: 1e6 };

#[derive(clap::Args)]
pub(super) struct HandshakesBenchOptions {
    #[command(flatten)]
    pub(super) pairs: PairOptions,
    /// Handshakes per run
    #[arg(long, default_value_t = 2000, value_parser = positive::<u64>())]
    pub(super) count: u64,
    /// Also measure the latency at half the measured rate, from when a handshake is due
    #[arg(long)]
    pub(super) latency: bool,
}

pub(super) fn results(options: &HandshakesBenchOptions) -> Result<Results, String> {
    let ours = build()?;
    let place = Place::new(&ours)?;
    let stacks = Stacks::with_one_client(&ours, &build_peers(&options.pairs.peers)?);
    let case = |name: &str| Case { name: name.to_owned(), stacks: &stacks };
    let cases = ["full handshakes", "resumed handshakes"].map(case).into();
    let plan = Plan { cases, rounds: options.pairs.rounds, unit: UNIT };
    Ok(plan.run(|case, server, client| measure(case == 1, [server, client], options, &place)))
}

fn measure(
    resumes: bool,
    pair: [&Stack; 2],
    options: &HandshakesBenchOptions,
    place: &Place,
) -> Result<Run, Problem> {
    let count = options.count.to_string();
    let mut ask = vec!["handshakes", "--connect", ADDRESS, "--count", &count];
    ask.extend(["--parallel", PARALLEL, "--key-exchange", "x25519"]);
    ask.extend(resumes.then_some("--resume"));
    let job = Job { serve: serve(pair), ask: &ask };
    let times = |result: &Value| {
        let times: Option<Vec<f64>> =
            result["seconds"].as_array()?.iter().map(Value::as_f64).collect();
        // Handshakes that began before the first ticket arrived were full handshakes.
        let enough = !resumes || result["resumed"].as_u64()? * 2 >= options.count;
        times.filter(|times| enough && times.len() as u64 == options.count).map(sorted)
    };
    let mut run = place.run(pair, &job, &UNIT, |result| {
        Some((times(result)?.len() as f64, result["elapsed"].as_f64()?))
    })?;
    if options.latency {
        let latency = place.latency(&run, pair, &job, |result| {
            let times = times(result)?;
            Some([0.5, 0.99].map(|part| times[(times.len() as f64 * part) as usize] * 1e6))
        })?;
        run.latency = Some(latency);
    }
    Ok(run)
}

/// Returns the server's command. The server's ALPN protocol must match the client's.
fn serve([server, client]: [&Stack; 2]) -> &'static [&'static str] {
    match (server.name, client.name) {
        (WITH_RAW_STREAMS, _) => &["handshakes-server"],
        (_, WITH_RAW_STREAMS) => &SERVE_RAW,
        _ => &SERVE_HTTP3,
    }
}
