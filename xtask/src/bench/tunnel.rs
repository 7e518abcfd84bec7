//! `cargo xtask bench tunnel`: what a UDP tunnel through a proxy costs.

mod ip;
mod site;
mod traffic;

use std::path::Path;

use serde_json::{Value, json};

use super::place::{CLIENT_CORE, Place, SERVE_HTTP3, SERVER_CORE};
use super::stacks::build;
use super::{median, round, sorted, text};
use crate::measure::{self, Process, Server};
use crate::options::positive;

const GIBIBYTE: f64 = (1_u64 << 30) as f64;
/// Number of tunnels after which the proxy has made its one-time allocations.
const FIRST: usize = 200;

#[derive(clap::Args)]
pub(super) struct TunnelOptions {
    /// Number of bytes per download
    #[arg(long, default_value_t = 1 << 30, value_parser = positive::<u64>())]
    size: u64,
    /// Number of rounds; each has one download of each kind
    #[arg(long, default_value_t = 5, value_parser = positive::<usize>())]
    rounds: usize,
    /// Number of idle tunnels
    #[arg(long, default_value_t = 10_000, value_parser = positive::<usize>())]
    idle: usize,
    /// Number of idle tunnels per connection
    #[arg(long, default_value_t = 100, value_parser = positive::<usize>())]
    per_connection: usize,
    /// Compare an IP tunnel with WireGuard in userspace (root, Go)
    ///
    /// Both run in the same network namespaces, over the same paths: without impairment, and with a
    /// round-trip time of 10 ms, without loss, with 1 % loss, and with reordering.
    #[arg(long, conflicts_with_all = ["size", "idle", "per_connection"])]
    ip: bool,
    /// Duration of each TCP download in an IP tunnel
    #[arg(long, default_value_t = 5, value_parser = positive::<u64>(), requires = "ip")]
    seconds: u64,
}

/// The downloads of one round, in bytes per second, and the proxy's CPU seconds per GiB.
struct Round {
    direct: f64,
    tunneled: f64,
    cpu: f64,
}

pub(super) fn run(options: &TunnelOptions, json: bool) -> Result<(), String> {
    if options.ip {
        return ip::run(options, json);
    }
    let ours = build()?;
    let place = Place::new(&ours)?;
    let mut rounds = Vec::new();
    for index in 0..options.rounds {
        let round = measure_round(&ours, &place, options.size)?;
        eprintln!(
            "xtask: round {} of {}: {:.1} MB/s directly, {:.1} MB/s through the proxy, \
             {:.2} s of CPU time per GiB at the proxy",
            index + 1,
            options.rounds,
            round.direct / 1e6,
            round.tunneled / 1e6,
            round.cpu
        );
        rounds.push(round);
    }
    let idle = idle_bytes(&ours, &place, options)?;
    report(options, json, &rounds, idle);
    Ok(())
}

fn measure_round(ours: &Path, place: &Place, size: u64) -> Result<Round, String> {
    let (direct, _) = download(ours, place, size, false)?;
    let (tunneled, cpu) = download(ours, place, size, true)?;
    Ok(Round { direct, tunneled, cpu })
}

/// Returns the rate in bytes per second, and the proxy's CPU seconds per GiB.
fn download(ours: &Path, place: &Place, size: u64, proxied: bool) -> Result<(f64, f64), String> {
    // The server discovers the MTU inside of the tunnel.
    let mtu = if proxied { "discover" } else { "1452" };
    let server = serve(ours, place, &SERVE_HTTP3, mtu)?;
    let proxy = match proxied {
        true => Some(serve(ours, place, &["tunnel", "proxy"], "1452")?),
        false => None,
    };
    let size_text = size.to_string();
    let mut arguments = vec!["tunnel", "download", "--ca", text(&place.authority)];
    arguments.extend(["--connect", &server.address, "--size", &size_text]);
    if let Some(proxy) = &proxy {
        arguments.extend(["--proxy", &proxy.address]);
    }
    let before = proxy.as_ref().map(Server::cpu_seconds).transpose()?;
    let (result, _) = measure::client(ours, &arguments, CLIENT_CORE)?;
    let after = proxy.as_ref().map(Server::cpu_seconds).transpose()?;
    let cpu = after.unwrap_or_default() - before.unwrap_or_default();
    let seconds = result["seconds"].as_f64().filter(|seconds| *seconds > 0.0);
    let seconds = seconds.ok_or_else(|| format!("the client printed {result}"))?;
    Ok((size as f64 / seconds, cpu * GIBIBYTE / size as f64))
}

fn serve(ours: &Path, place: &Place, command: &[&str], mtu: &str) -> Result<Server, String> {
    let mut arguments = vec!["--mtu", mtu];
    arguments.extend(command);
    arguments.extend(["--listen", "127.0.0.1:0"]);
    arguments.extend(["--cert", text(&place.certificate), "--key", text(&place.key)]);
    Ok(Server::start(ours, &arguments, SERVER_CORE)?)
}

/// Returns the proxy's memory in bytes per idle tunnel, including its share of the connection.
fn idle_bytes(ours: &Path, place: &Place, options: &TunnelOptions) -> Result<f64, String> {
    let target = serve(ours, place, &SERVE_HTTP3, "1452")?;
    let proxy = serve(ours, place, &["tunnel", "proxy"], "1452")?;
    let per_connection = options.per_connection.to_string();
    let open = |tunnels: usize| {
        let connections = tunnels.div_ceil(options.per_connection).to_string();
        let mut arguments = vec!["tunnel", "idle", "--ca", text(&place.authority)];
        arguments.extend(["--connect", &proxy.address, "--target", &target.address]);
        arguments.extend(["--connections", &connections, "--tunnels", &per_connection]);
        Process::start(ours, &arguments, CLIENT_CORE, "open")
    };
    let _first = open(FIRST)?;
    let before = proxy.settled_bytes()?;
    let others = open(options.idle)?;
    let opened: f64 =
        others.said().parse().map_err(|error| format!("{}: {error}", others.said()))?;
    let after = proxy.settled_bytes()?;
    Ok((after as f64 - before as f64) / opened)
}

fn report(options: &TunnelOptions, json: bool, rounds: &[Round], idle: f64) {
    let of = |value: fn(&Round) -> f64| median(&sorted(rounds.iter().map(value).collect()));
    let (direct, tunneled) = (of(|round| round.direct), of(|round| round.tunneled));
    let ratio = of(|round| round.tunneled / round.direct);
    let cpu = of(|round| round.cpu);
    if json {
        let line: Value = json!({
            "direct": round(direct), "tunneled": round(tunneled), "ratio": ratio,
            "cpu_seconds_per_gib": cpu, "idle_bytes": round(idle),
        });
        println!("{line}");
        return;
    }
    println!("| UDP tunnel, medians of {} rounds | |", rounds.len());
    println!("|---|--:|");
    println!("| download directly | {:.1} MB/s |", direct / 1e6);
    println!("| download through the proxy | {:.1} MB/s |", tunneled / 1e6);
    println!("| ratio | {ratio:.2} |");
    println!("| CPU time of the proxy per GiB | {cpu:.2} s |");
    let (count, per) = (options.idle, options.per_connection);
    println!(
        "| memory of the proxy per idle tunnel, {count} with {per} per connection | {:.1} KiB |",
        idle / 1024.0
    );
}
