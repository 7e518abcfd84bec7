//! `cargo xtask bench dns`: queries over QUIC to `clearway dns`, which runs on one core.

use std::path::Path;

use serde_json::{Value, json};

use super::place::{CLIENT_CORE, Place, SERVER_CORE};
use super::stacks::{build, clearway};
use super::{round, text};
use crate::measure::{self, Process, Server};
use crate::options::positive;

#[derive(clap::Args)]
pub(super) struct DnsOptions {
    /// Queries per second
    #[arg(long, default_value_t = 10_000.0)]
    rate: f64,
    /// How long to send queries in each case, in seconds
    #[arg(long, default_value_t = 10, value_parser = positive::<u64>())]
    seconds: u64,
    /// Number of connections
    #[arg(long, default_value_t = 100, value_parser = positive::<usize>())]
    connections: usize,
}

/// A case: the number of names that are queried, or 0 for a new one each time, and its title.
const CASES: [(usize, &str); 2] = [(1000, "from the cache"), (0, "from the upstream server")];

pub(super) fn run(options: &DnsOptions, json: bool) -> Result<(), String> {
    let ours = build()?;
    let place = Place::new(&ours)?;
    if !json {
        println!("| DNS over QUIC | answered per second | p50 | p99 | CPU time of the forwarder |");
        println!("|---|--:|--:|--:|--:|");
    }
    for (index, (names, title)) in CASES.into_iter().enumerate() {
        let left = CASES.len() - index - 1;
        let (result, cpu) = measure(options, &ours, &place, names)?;
        eprintln!("xtask: {title}: {result}; {left} runs left");
        let number = |key: &str| {
            let value = result[key].as_f64();
            value.ok_or_else(|| format!("the load generator printed {result}"))
        };
        let (requests, seconds) = (number("requests")?, number("seconds")?);
        let (p50, p99) = (number("p50_us")? / 1000.0, number("p99_us")? / 1000.0);
        let (answered, share) = (requests / seconds, cpu / seconds * 100.0);
        match json {
            true => {
                let line: Value = json!({
                    "case": title, "rate": options.rate, "answered": round(answered),
                    "p50_ms": p50, "p99_ms": p99, "cpu_percent": round(share),
                });
                println!("{line}");
            }
            false => println!(
                "| {} queries/s, {title} | {answered:.0} | {p50:.2} ms | {p99:.2} ms | {share:.0} % |",
                options.rate
            ),
        }
    }
    Ok(())
}

/// Returns what the load generator printed, and the CPU seconds that the forwarder used.
fn measure(
    options: &DnsOptions,
    ours: &Path,
    place: &Place,
    names: usize,
) -> Result<(Value, f64), String> {
    let upstream = ["dns", "name-server", "--listen", "127.0.0.1:0"];
    let upstream = Server::start(ours, &upstream, CLIENT_CORE)?;
    let url = format!("udp://{}", upstream.address);
    let mut arguments = vec!["dns", "--listen", "127.0.0.1:0", "--upstream", &url];
    arguments.extend(["--cert", text(&place.certificate), "--key", text(&place.key)]);
    let forwarder = Process::start(&clearway(), &arguments, SERVER_CORE, "listening")?;
    let address = forwarder.said().rsplit_once("quic://").map(|(_, rest)| rest);
    let address = address.and_then(|rest| rest.split([' ', ',']).next());
    let address =
        address.ok_or_else(|| format!("the forwarder printed: {}", forwarder.said()))?.to_owned();
    let (names, rate) = (names.to_string(), options.rate.to_string());
    let (seconds, connections) = (options.seconds.to_string(), options.connections.to_string());
    let mut arguments = vec!["dns", "load", "--ca", text(&place.authority)];
    arguments.extend(["--connect", &address, "--connections", &connections, "--names", &names]);
    arguments.extend(["--rate", &rate, "--seconds", &seconds]);
    let before = forwarder.cpu_seconds()?;
    let (result, _) = measure::client(ours, &arguments, CLIENT_CORE)?;
    Ok((result, forwarder.cpu_seconds()? - before))
}
