//! The load balancer between clients and server.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::super::bounded::{ALL_CORES, ending_with_this};
use super::super::place::SERVER_CORE;
use super::super::stacks::clearway;
use super::super::text;
use crate::command::target;
use crate::measure::Process;

/// The server's options for the balancer and for its connection IDs: server ID, nonce length and
/// key. A single AES pass encrypts server ID and nonce.
pub(super) const OPTIONS_OF_SERVER: [&str; 4] =
    ["--balancer", "127.0.0.1", "--quic-lb", "5d1c09e2:12:8f95f09245765f80256934e50c66207f"];
/// The matching configuration for the balancer, without the server's address.
const CONFIGURATION: &str = r#"seed = 1
[[config]]
id = 0
server-id-length = 4
nonce-length = 12
key = "8f95f09245765f80256934e50c66207f"
[[server]]
name = "server"
server-id = "5d1c09e2"
"#;
/// The balancer's metrics to report at the end.
const METRICS: [&str; 3] = ["routed_total", "table_entries", "datagrams_dropped_total"];

/// A `clearway balance` process with one thread, on any core.
pub(super) struct Balancer {
    process: Process,
    /// The address that clients send to.
    pub(super) address: String,
    /// The address of the balancer's metrics endpoint.
    metrics: String,
}

impl Balancer {
    /// Starts a balancer in front of the server at this address.
    pub(super) fn start(server: &str) -> Result<Self, String> {
        let folder = target().join("bench");
        let (program, file) = (clearway(), folder.join("connections.toml"));
        fs::write(&file, format!("{CONFIGURATION}address = \"{server}\"\n"))
            .map_err(|error| format!("{}: {error}", file.display()))?;
        let around = ending_with_this(text(&folder), ALL_CORES);
        let balance = [text(&program), "balance", "--listen", "127.0.0.1:0", "--shards", "1"];
        let metrics = free_address()?;
        let more = ["--quiet", "--backends", text(&file), "--metrics", &metrics];
        let arguments = [&around[..], &balance[..], &more].concat();
        let process = Process::start(Path::new("env"), &arguments, SERVER_CORE, "listening")?;
        Ok(Self { address: address_in(process.said())?, process, metrics })
    }

    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(super) fn resident_bytes(&self) -> Result<u64, String> {
        self.process.resident_bytes()
    }

    pub(super) fn cpu_seconds(&self) -> Result<f64, String> {
        self.process.cpu_seconds()
    }

    /// Returns the nonzero metrics among [`METRICS`].
    pub(super) fn counted(&self) -> Result<Value, String> {
        let answer = self.ask().map_err(|error| format!("the balancer's metrics: {error}"))?;
        Ok(Value::Object(interesting(&answer)))
    }

    fn ask(&self) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(&self.metrics)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let host = &self.metrics;
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

/// Returns a free address for the balancer's metrics.
fn free_address() -> Result<String, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let address = listener.and_then(|it| it.local_addr());
    address.map(|it| it.to_string()).map_err(|error| format!("cannot find a free port: {error}"))
}

/// Returns the first address in the balancer's output.
fn address_in(said: &str) -> Result<String, String> {
    let mut words = said.split(' ');
    let address = words.find(|word| word.parse::<SocketAddr>().is_ok());
    let address = address.map(ToOwned::to_owned);
    address.ok_or_else(|| format!("cannot find the address in the balancer's output: {said}"))
}

/// Returns the [`METRICS`] in a Prometheus response.
fn interesting(answer: &str) -> Map<String, Value> {
    let lines = answer.lines().filter_map(|line| {
        let (name, value) = line.strip_prefix("clearway_balance_")?.rsplit_once(' ')?;
        let value: f64 = value.parse().ok()?;
        let is_wanted = METRICS.iter().any(|wanted| name.starts_with(wanted)) && value > 0.0;
        is_wanted.then(|| (name.replace('"', ""), json!(value)))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_read() {
        let answer = "HTTP/1.1 200 OK\r\n\r\n# TYPE clearway_balance_routed counter\n\
                      clearway_balance_routed_total{shard=\"0\",means=\"server_id\"} 17\n\
                      clearway_balance_routed_total{shard=\"0\",means=\"flow\"} 0\n\
                      clearway_balance_wakeups_total{shard=\"0\"} 3\n";
        let expected = json!({ "routed_total{shard=0,means=server_id}": 17.0 });
        assert_eq!(Value::Object(interesting(answer)), expected);
    }

    #[test]
    fn addresses_are_found() {
        let said = "on 127.0.0.1:4433 for 1 server";
        assert_eq!(address_in(said), Ok("127.0.0.1:4433".to_owned()));
        assert!(address_in("for 1 server").is_err());
    }
}
