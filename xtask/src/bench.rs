//! `cargo xtask bench`: compares Clearway's speed with other stacks and with the limits of the
//! machine.

mod balance;
mod bounded;
mod bulk;
mod connections;
mod dns;
mod handshakes;
mod kernel;
mod limits;
mod measured;
mod memory;
mod moving;
mod overload;
mod pairs;
mod place;
mod replacing;
mod report;
mod requests;
mod shards;
mod shares;
mod stacks;
mod steered;
mod threads;
mod tunnel;

use std::path::Path;
use std::process::Command;

use clap::Subcommand;
use serde_json::{Value, json};

use self::bulk::BulkOptions;
use self::handshakes::HandshakesBenchOptions;
use self::limits::LimitsOptions;
use self::memory::MemoryOptions;
use self::report::Results;
use self::requests::RequestsOptions;
use self::stacks::{PairOptions, build};
use crate::command::run as show;
use crate::options::{defaults, positive};

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct BenchOptions {
    #[command(subcommand)]
    benchmark: Option<Benchmark>,
    #[command(flatten)]
    all: PairOptions,
    /// Print one JSON object per case instead of tables
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Benchmark {
    /// Measure how much `clearway balance` forwards on one core
    ///
    /// Compares it with simple receive loops and with nginx (if installed); also measures the cost
    /// of routing and the gain of a second thread.
    Balance(balance::BalanceOptions),
    /// Download and upload 1 GiB over HTTP/3 and on raw streams
    ///
    /// Uses 1 and 100 connections, and alternates between Clearway (in the shard and async), each
    /// peer, and Clearway with each peer.
    Bulk(BulkOptions),
    /// Make small requests over HTTP/3, between the same pairs as bulk
    Requests(RequestsOptions),
    /// Make full and resumed handshakes, between the same pairs as bulk
    Handshakes(HandshakesBenchOptions),
    /// Measure the maximum speed of this machine
    ///
    /// Measures packet protection, copies, datagrams over loopback, and the fraction of it that
    /// Clearway's bulk transfers reach.
    Limits(LimitsOptions),
    /// Open connections to one server, and make a request of 1 KiB on each every 30 seconds
    ///
    /// Measures lost connections, latency, memory and CPU time.
    Connections(connections::ConnectionsOptions),
    /// Measure each server's memory per idle connection
    Memory(MemoryOptions),
    /// Flood a server with first Initial packets of handshakes that never continue
    ///
    /// Measures the latency of requests on 100 connections before, during and after the flood,
    /// memory, and Retry packets.
    Overload(overload::OverloadOptions),
    /// Measure how much a second shard gains, with a quarter of a core for each
    Shards(shards::ShardsOptions),
    /// Migrate clients to another local address every second while they make requests
    ///
    /// Measures losses, latency, and how many datagrams the kernel steered to the right shard.
    Moving(moving::MovingOptions),
    /// Replace `clearway serve --hot-restart` with a new process while clients make requests
    ///
    /// Measures failures, the time until each old process exits, and latency.
    Replacing(replacing::ReplacingOptions),
    /// Send queries to `clearway dns` at a fixed rate
    ///
    /// The forwarder runs on one core. Measures latency, and the forwarder's CPU time.
    Dns(dns::DnsOptions),
    /// Download directly and through a proxy for UDP, and hold idle tunnels
    ///
    /// Measures throughput, and the proxy's CPU time and memory. With --ip, compares an IP tunnel
    /// with WireGuard.
    Tunnel(tunnel::TunnelOptions),
    /// Measure header compression on a browser's requests: bytes per request, and exchanges per
    /// second
    Qpack {
        /// How long to repeat each case
        #[arg(long, default_value_t = 2, value_parser = positive::<u64>())]
        seconds: u64,
    },
}

/// Runs the named benchmark, or all comparisons.
pub(crate) fn run(options: &BenchOptions) -> Result<(), String> {
    let json = options.json;
    match &options.benchmark {
        None => all(&options.all, json),
        Some(Benchmark::Balance(options)) => balance::run(options, json),
        Some(Benchmark::Bulk(options)) => bulk::results(options)?.print(json),
        Some(Benchmark::Requests(options)) => requests::results(options)?.print(json),
        Some(Benchmark::Handshakes(options)) => handshakes::results(options)?.print(json),
        Some(Benchmark::Limits(options)) => limits::results(options)?.print(json),
        Some(Benchmark::Connections(options)) => connections::run(options, json),
        Some(Benchmark::Memory(options)) => memory::results(options)?.print(json),
        Some(Benchmark::Overload(options)) => overload::run(options, json),
        Some(Benchmark::Shards(options)) => shards::run(options, json),
        Some(Benchmark::Moving(options)) => moving::run(options, json),
        Some(Benchmark::Replacing(options)) => replacing::run(options, json),
        Some(Benchmark::Dns(options)) => dns::run(options, json),
        Some(Benchmark::Tunnel(options)) => tunnel::run(options, json),
        Some(Benchmark::Qpack { seconds }) => qpack(*seconds, json),
    }
}

type Comparison = fn(PairOptions) -> Result<Results, String>;

/// The comparisons, with the titles of their tables.
const ALL: [(&str, Comparison); 5] = [
    ("Bulk transfers", |pairs| bulk::results(&BulkOptions { pairs, ..defaults() })),
    ("Requests", |pairs| {
        requests::results(&RequestsOptions { pairs, latency: true, ..defaults() })
    }),
    ("Handshakes", |pairs| handshakes::results(&HandshakesBenchOptions { pairs, ..defaults() })),
    ("Memory", |PairOptions { peers, .. }| memory::results(&MemoryOptions { peers, ..defaults() })),
    ("Limits of the machine", |PairOptions { rounds, .. }| {
        limits::results(&LimitsOptions { rounds, ..defaults() })
    }),
];

/// Runs the benchmarks sequentially. Failures are reported at the end, after all other results.
fn all(pairs: &PairOptions, json: bool) -> Result<(), String> {
    let (mut text, mut failures) = (String::new(), Vec::new());
    for (index, (title, benchmark)) in ALL.into_iter().enumerate() {
        eprintln!("xtask: benchmark {} of {}: {title}", index + 1, ALL.len());
        let results = benchmark(pairs.clone()).unwrap_or_else(|error| Results {
            failures: vec![format!("{title}: {error}")],
            ..Results::default()
        });
        let outcome = match json {
            true => results.print(true),
            false => results.verdict(),
        };
        failures.extend(outcome.err());
        text += &format!("### {title}\n\n{}\n", results.markdown());
    }
    if !json {
        println!(
            "{text}Each cell: Clearway, the peer, and the ratio with its range over the rounds."
        );
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}

/// Measures header compression with a browser's requests.
fn qpack(seconds: u64, json: bool) -> Result<(), String> {
    let mut program = Command::new(build()?);
    program.args(["qpack", "--seconds", &seconds.to_string()]).args(json.then_some("--json"));
    show("measuring QPACK", &mut program)
}

/// Merges the fields of both JSON objects.
fn merged(mut object: Value, more: &Value) -> Value {
    if let (Some(object), Some(more)) = (object.as_object_mut(), more.as_object()) {
        object.extend(more.clone());
    }
    object
}

/// Returns a number from a load generator's output.
fn counted(load: &Value, name: &str) -> f64 {
    load[name].as_f64().unwrap_or(f64::NAN)
}

/// Formats the latencies of a load.
fn latency(load: &Value) -> String {
    let [p50, p99, max] = ["p50_us", "p99_us", "max_us"].map(|name| counted(load, name) / 1000.0);
    format!("p50 {p50:.2} ms, p99 {p99:.2} ms, longest {max:.2} ms")
}

/// Returns an error if a load has counted something that must not happen, described by its text, or
/// if `more` contains failures.
fn verdict(
    name: &str,
    load: &Value,
    faults: &[(&str, &str)],
    more: Option<String>,
) -> Result<(), String> {
    let found = faults.iter().filter(|(name, _)| load[*name] != json!(0));
    let found = found.map(|(name, words)| format!("{} {words}", load[name]));
    let said: Vec<String> = found.chain(more).collect();
    match said.is_empty() {
        true => Ok(()),
        false => Err(format!("bench {name}: {}", said.join(", "))),
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

fn median(values: &[f64]) -> f64 {
    values[values.len() / 2]
}

fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::parse;

    #[test]
    fn command_lines_are_accepted_or_rejected() {
        let is_read = |line: &&str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            parse::<BenchOptions>(&words).is_ok()
        };
        let good = [
            "",
            "--peer quinn --peer s2n-quic --rounds 3 --json",
            "balance --rounds 1 --seconds 2 --case scaling --json",
            "balance --picture a.svg",
            "bulk --case raw --size 1000 --rounds 3 --datagram-size discover --datagram-size 1300 --peer quic-go",
            "requests --latency --peer quinn --seconds 1 --size 7 --no-busy-poll --rounds 2",
            "handshakes --count 5 --rounds 1 --json --peer s2n-quic --latency",
            "limits --rounds 2 --size 1000 --json",
            "connections --count 300000 --minutes 1 --balancer --raw --json",
            "memory --count 5 --peer quinn --json",
            "overload --initials 1000 --rate 5 --rounds 1 --json",
            "shards --rounds 1 --seconds 2 --json",
            "moving --connections 7 --seconds 5 --shards 1 --json",
            "replacing --times 3 --rate 100 --json",
            "tunnel --size 1000 --rounds 1 --idle 10 --per-connection 5",
            "tunnel --ip --seconds 1 --rounds 1 --json",
            "qpack --seconds 1 --json",
        ];
        good.iter().for_each(|line| assert!(is_read(line), "{line}"));
        let wrong = [
            "speed",
            "--size 5",
            "--rounds 3 bulk",
            "balance --case loss",
            "balance --case routing --picture a.svg",
            "balance --rounds 0",
            "bulk --case h2",
            "bulk --size 99",
            "bulk --peer nobody",
            "bulk --datagram-size",
            "requests --seconds 0",
            "requests --count 1",
            "handshakes --seconds 1",
            "limits --peer quinn",
            "connections",
            "connections --count 0",
            "connections --count 300001",
            "connections --count 1 --minutes 1441",
            "memory --rounds 5",
            "memory --count 0",
            "shards --seconds 0",
            "moving --connections 2001",
            "moving --shards 0",
            "replacing --rate fast",
            "replacing --times 0",
            "tunnel --ip --idle 10",
            "tunnel --seconds 1",
        ];
        wrong.iter().for_each(|line| assert!(!is_read(line), "{line}"));
        let all: BenchOptions = parse(&["--peer", "quinn"]).unwrap();
        assert_eq!((all.all.peers.names, all.all.rounds, all.json), (vec!["quinn"], 5, false));
        assert!(parse::<BenchOptions>(&["bulk", "--json"]).unwrap().json);
    }
}
