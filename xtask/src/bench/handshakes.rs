//! `cargo xtask bench handshakes`: full and resumed handshakes with X25519, 32 at a time.

use super::pairs::{Plan, Run};
use super::{PEERS, Place, Stack, Stacks, build, certificate, number, peer_named, stacks};

const PARALLEL: &str = "32";
/// tokio-quiche's client does not resume sessions.
const WITHOUT_CLIENT: [&str; 1] = ["tokio-quiche"];

struct Options {
    peers: Vec<&'static str>,
    rounds: usize,
    count: u64,
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
    place.run(server, client, "handshakes", &arguments, |result| {
        let made = result["seconds"].as_array()?.len();
        // Those that began before the first ticket had arrived were full ones.
        let enough = !resumes || result["resumed"].as_u64()? * 2 >= options.count;
        (enough && made as u64 == options.count).then_some(())?;
        Some((made as f64, result["elapsed"].as_f64()?))
    })
}

fn parse(arguments: &[&str]) -> Result<Options, String> {
    let mut options = Options { peers: Vec::new(), rounds: 5, count: 2000, json: false };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().copied().ok_or(format!("{argument} needs a value"));
        match *argument {
            "--json" => options.json = true,
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
