//! `cargo xtask bench handshakes`: full and resumed handshakes with X25519, 32 at a time.

use serde_json::Value;

use super::pairs::{Plan, Run};
use super::{PEERS, Place, Stack, Stacks, build, certificate, number, peer_named, sorted, stacks};

const PARALLEL: &str = "32";
/// tokio-quiche's client does not resume sessions.
const WITHOUT_CLIENT: [&str; 1] = ["tokio-quiche"];

struct Options {
    peers: Vec<&'static str>,
    rounds: usize,
    count: u64,
    latency: bool,
    json: bool,
}

pub(super) fn run(arguments: &[&str]) -> Result<(), String> {
    let options = parse(arguments)?;
    let ours = build()?;
    let place = Place::new(certificate(&ours)?);
    let Stacks { servers, mut clients } = stacks(&ours, &options.peers)?;
    clients.retain(|client| !WITHOUT_CLIENT.contains(&client.name));
    let plan = Plan {
        stacks: &Stacks { servers, clients },
        cases: ["full handshakes", "resumed handshakes"].map(str::to_owned).to_vec(),
        peers: &options.peers,
        rounds: options.rounds,
        operations: "handshakes",
        json: options.json,
    };
    plan.run(|case, server, client| measure(case == 1, server, client, &options, &place))
}

fn measure(
    resumes: bool,
    server: &Stack,
    client: &Stack,
    options: &Options,
    place: &Place,
) -> Result<Run, String> {
    let count = options.count.to_string();
    let mut arguments = vec!["--count", &count, "--parallel", PARALLEL, "--key-exchange", "x25519"];
    arguments.extend(resumes.then_some("--resume"));
    let times = |result: &Value| {
        let times: Option<Vec<f64>> =
            result["seconds"].as_array()?.iter().map(Value::as_f64).collect();
        // Those that began before the first ticket had arrived were full ones.
        let enough = !resumes || result["resumed"].as_u64()? * 2 >= options.count;
        times.filter(|times| enough && times.len() as u64 == options.count).map(sorted)
    };
    let mut run = place.run(server, client, "handshakes", &arguments, |result| {
        Some((times(result)?.len() as f64, result["elapsed"].as_f64()?))
    })?;
    if options.latency {
        let latency =
            place.latency(&run, [server, client], "handshakes", &arguments, |result| {
                let times = times(result)?;
                Some([0.5, 0.99].map(|part| times[(times.len() as f64 * part) as usize] * 1e6))
            })?;
        run.latency = Some(latency);
    }
    Ok(run)
}

fn parse(arguments: &[&str]) -> Result<Options, String> {
    let mut options =
        Options { peers: Vec::new(), rounds: 5, count: 2000, latency: false, json: false };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().copied().ok_or(format!("{argument} needs a value"));
        match *argument {
            "--json" => options.json = true,
            "--latency" => options.latency = true,
            "--rounds" => options.rounds = number(value()?)?.max(1) as usize,
            "--count" => options.count = number(value()?)?.max(1),
            "--peer" => options.peers.push(peer_named(value()?)?),
            other => return Err(format!("bench handshakes has no option {other}")),
        }
    }
    if options.peers.is_empty() {
        options.peers = PEERS.to_vec();
    }
    Ok(options)
}
