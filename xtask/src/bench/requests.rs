//! `cargo xtask bench requests`: small requests over HTTP/3. Every server is asked by every client, so that a slow one on one
//! side does not hide a fast one on the other.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;

use super::{
    CLIENT_CORE, PEERS, SERVER_CORE, Stack, Stacks, build, certificate, median, number, round,
    sorted, stacks, text,
};
use crate::measure::{self, Server};

/// How many connections there are, and how many requests are in flight on each.
const CASES: [(usize, usize); 4] = [(1, 1), (1, 100), (64, 1), (64, 100)];

struct Options {
    peers: Vec<&'static str>,
    rounds: usize,
    seconds: u64,
    size: u64,
    json: bool,
}

/// The result of one run.
#[derive(Clone, Copy)]
struct Run {
    per_second: f64,
    /// Microseconds of processor time for each request: of the server, and of the client.
    cpu: [f64; 2],
    /// The latencies in microseconds.
    p50: f64,
    p99: f64,
}

/// Which pair ran which case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    case: (usize, usize),
    server: &'static str,
    client: &'static str,
}

pub(super) fn run(arguments: &[&str]) -> Result<(), String> {
    let options = parse(arguments)?;
    let ours = build()?;
    let (certificate, key) = certificate(&ours)?;
    let Stacks { servers, clients } = stacks(&ours, &options.peers)?;
    let mut runs: BTreeMap<Key, Vec<Run>> = BTreeMap::new();
    for round in 0..options.rounds {
        for case in CASES {
            // The first run of a round has the cooler machine, so the servers take turns.
            for turn in 0..servers.len() {
                let server = &servers[(turn + round) % servers.len()];
                for client in &clients {
                    let result = measure(server, client, case, &options, &certificate, &key)?;
                    let pair = Key { case, server: server.name, client: client.name };
                    show(round, pair, result);
                    runs.entry(pair).or_default().push(result);
                }
            }
        }
    }
    report(&runs, &options);
    Ok(())
}

fn measure(
    server: &Stack,
    client: &Stack,
    (connections, streams): (usize, usize),
    options: &Options,
    certificate: &Path,
    key: &Path,
) -> Result<Run, String> {
    let mut arguments = vec!["server", "--listen", "127.0.0.1:0", "--root", "."];
    arguments.extend(["--cert", text(certificate), "--key", text(key)]);
    arguments.extend(server.arguments);
    let listening = Server::start(&server.program, &arguments, SERVER_CORE)?;
    let before = listening.cpu_seconds()?;
    let (connections, streams) = (connections.to_string(), streams.to_string());
    let (seconds, size) = (options.seconds.to_string(), options.size.to_string());
    let mut arguments = vec!["load", "--ca", text(certificate), "--connect", &listening.address];
    arguments.extend(["--connections", &connections, "--streams", &streams]);
    arguments.extend(["--seconds", &seconds, "--size", &size]);
    arguments.extend(client.arguments);
    let (result, client_cpu) = measure::client(&client.program, &arguments, CLIENT_CORE)?;
    let server_cpu = listening.cpu_seconds()? - before;
    let value = |name: &str| {
        let value = result[name].as_f64().filter(|value| *value > 0.0);
        value.ok_or_else(|| format!("the {} client printed no {name}: {result}", client.name))
    };
    let requests = value("requests")?;
    Ok(Run {
        per_second: requests / value("seconds")?,
        cpu: [server_cpu, client_cpu].map(|seconds| seconds * 1e6 / requests),
        p50: value("p50_us")?,
        p99: value("p99_us")?,
    })
}

fn show(round: usize, key: Key, run: Run) {
    let Key { case: (connections, streams), server, client } = key;
    eprintln!(
        "xtask: round {}: {connections} x {streams}, {client} asks {server}: {:.0} requests/s, {:.1} and {:.1} us of processor \
         time at server and client, p50 {:.0} us, p99 {:.0} us",
        round + 1,
        run.per_second,
        run.cpu[0],
        run.cpu[1],
        run.p50,
        run.p99,
    );
}

/// A line of the result: Clearway and a peer at the same place.
struct Row {
    case: (usize, usize),
    /// Which end is compared, and what the other end is.
    title: String,
    face: &'static str,
    /// The compared end in [`Run::cpu`].
    end: usize,
    peer: &'static str,
}

/// Prints Clearway beside each peer: as a server asked by the same client, and as a client of the same server.
fn report(runs: &BTreeMap<Key, Vec<Run>>, options: &Options) {
    for (key, ours) in runs {
        for peer in options.peers.iter().copied() {
            if let Some(face) = key.server.strip_prefix("clearway, ") {
                let title = format!("server, asked by {}", key.client);
                let row = Row { case: key.case, title, face, end: 0, peer };
                compare(&row, ours, &runs[&Key { server: peer, ..*key }], options.json);
            }
            if key.client == "clearway" {
                let title = format!("client of {}", key.server);
                let row = Row { case: key.case, title, face: "async", end: 1, peer };
                compare(&row, ours, &runs[&Key { client: peer, ..*key }], options.json);
            }
        }
    }
}

fn compare(row: &Row, ours: &[Run], theirs: &[Run], as_json: bool) {
    let ratio = |(ours, theirs): (&Run, &Run)| ours.per_second / theirs.per_second;
    let ratios = sorted(ours.iter().zip(theirs).map(ratio).collect());
    let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
    let rate = |runs: &[Run]| median(&sorted(runs.iter().map(|run| run.per_second).collect()));
    let cpu = |runs: &[Run]| median(&sorted(runs.iter().map(|run| run.cpu[row.end]).collect()));
    let Row { case: (connections, streams), title, face, peer, .. } = row;
    if as_json {
        let object = json!({
            "case": format!("requests, {connections} connections x {streams} streams, {title}"),
            "face": face,
            "clearway": round(rate(ours)),
            "peer": peer,
            "peer_value": round(rate(theirs)),
            "unit": "requests/s",
            "ratio": round(median(&ratios)),
            "ratio_min": round(least),
            "ratio_max": round(most),
            "clearway_cpu_us": round(cpu(ours)),
            "peer_cpu_us": round(cpu(theirs)),
        });
        println!("{object}");
    } else {
        println!(
            "{connections:3} x {streams:3}  {title}, {face}: clearway {:.0} requests/s ({:.1} us), {peer} {:.0} ({:.1} us), \
             ratio {:.2} ({least:.2} to {most:.2})",
            rate(ours),
            cpu(ours),
            rate(theirs),
            cpu(theirs),
            median(&ratios),
        );
    }
}

fn parse(arguments: &[&str]) -> Result<Options, String> {
    let mut options = Options { peers: Vec::new(), rounds: 5, seconds: 2, size: 1024, json: false };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().copied().ok_or(format!("{argument} needs a value"));
        match *argument {
            "--json" => options.json = true,
            "--rounds" => options.rounds = number(value()?)?.max(1) as usize,
            "--seconds" => options.seconds = number(value()?)?.max(1),
            "--size" => options.size = number(value()?)?,
            "--peer" => {
                let name = value()?;
                let peer = PEERS.into_iter().find(|peer| *peer == name);
                options
                    .peers
                    .push(peer.ok_or(format!("the peers are {}, not {name}", PEERS.join(", ")))?);
            }
            other => return Err(format!("bench requests has no option {other}")),
        }
    }
    if options.peers.is_empty() {
        options.peers = PEERS.to_vec();
    }
    Ok(options)
}
