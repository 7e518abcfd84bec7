//! `cargo xtask bench handshakes`: full and resumed handshakes with X25519, 32 at a time.

use serde_json::Value;

use super::measured::{Run, Unit};
use super::pairs::{Case, Plan};
use super::place::{ADDRESS, Job, Place, Problem, SERVE_HTTP3, SERVE_RAW};
use super::report::Results;
use super::stacks::{PEERS, Stack, Stacks, build, build_peers, peer_named};
use super::{positive, sorted};

const PARALLEL: &str = "32";
/// Its handshakes are those of raw streams, with tickets only in this command.
const WITH_RAW_STREAMS: &str = "s2n-quic";
const UNIT: Unit = Unit {
    rate: "handshakes/s",
    digits: 0,
    cpu: "us of processor time",
    cpu_key: "us",
    cpu_scale: 1e6,
};

#[derive(PartialEq, Debug)]
pub(super) struct Options {
    pub(super) peers: Vec<&'static str>,
    pub(super) rounds: usize,
    pub(super) count: u64,
    pub(super) latency: bool,
    pub(super) json: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { peers: PEERS.to_vec(), rounds: 5, count: 2000, latency: false, json: false }
    }
}

pub(super) fn run(arguments: &[&str]) -> Result<(), String> {
    let options = parse(arguments)?;
    results(&options)?.print(options.json)
}

pub(super) fn results(options: &Options) -> Result<Results, String> {
    let ours = build()?;
    let place = Place::new(&ours)?;
    let stacks = Stacks::with_one_client(&ours, &build_peers(&options.peers)?);
    let case = |name: &str| Case { name: name.to_owned(), stacks: &stacks };
    let cases = ["full handshakes", "resumed handshakes"].map(case).into();
    let plan = Plan { cases, rounds: options.rounds, unit: UNIT };
    Ok(plan.run(|case, server, client| measure(case == 1, [server, client], options, &place)))
}

fn measure(
    resumes: bool,
    pair: [&Stack; 2],
    options: &Options,
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
        // Those that began before the first ticket had arrived were full ones.
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

/// The command of the server, whose application protocol must be that of the client.
fn serve([server, client]: [&Stack; 2]) -> &'static [&'static str] {
    match (server.name, client.name) {
        (WITH_RAW_STREAMS, _) => &["handshakes-server"],
        (_, WITH_RAW_STREAMS) => &SERVE_RAW,
        _ => &SERVE_HTTP3,
    }
}

fn parse(arguments: &[&str]) -> Result<Options, String> {
    let (mut options, mut peers) = (Options::default(), Vec::new());
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().copied().ok_or(format!("{argument} needs a value"));
        match *argument {
            "--json" => options.json = true,
            "--latency" => options.latency = true,
            "--rounds" => options.rounds = positive(value()?)? as usize,
            "--count" => options.count = positive(value()?)?,
            "--peer" => peers.push(peer_named(value()?)?),
            other => return Err(format!("bench handshakes has no option {other}")),
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
        assert_eq!(parse(&[]), Ok(Options::default()));
        let arguments = ["--count", "5", "--rounds", "1", "--json", "--peer", "s2n-quic"];
        let peers = vec!["s2n-quic"];
        let expected = Options { peers, rounds: 1, count: 5, latency: false, json: true };
        assert_eq!(parse(&arguments), Ok(expected));
        assert!(parse(&["--seconds", "1"]).is_err());
    }
}
