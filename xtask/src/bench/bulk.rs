//! `cargo xtask bench bulk`: large downloads and uploads, over HTTP/3 and raw streams.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

use clap::value_parser;
use serde_json::Value;

use super::measured::{Run, Unit};
use super::pairs::{Case, Plan};
use super::place::{ADDRESS, End, Job, Place, Problem, SERVE_HTTP3, SERVE_RAW};
use super::report::Results;
use super::stacks::{PairOptions, Stack, Stacks, build, build_peers};

/// Number of connections among which the bytes are divided.
const CONNECTIONS: [u64; 2] = [1, 100];
const GIB: f64 = (1_u64 << 30) as f64;
const BYTES_PER_GIGABIT: f64 = 1e9 / 8.0;

/// Peers with a limited datagram size, in bytes.
const LARGEST_DATAGRAMS: [(&str, u16); 1] = [("quic-go", 1452)];

pub(super) const UNIT: Unit = Unit {
    rate: "Gbit/s",
    digits: 2,
    cpu: "CPU s/GiB",
    cpu_key: "s_per_gib",
    cpu_scale: GIB / BYTES_PER_GIGABIT,
};

#[derive(clap::Args)]
pub(super) struct BulkOptions {
    /// Run only one protocol
    #[arg(long = "case", value_enum, default_values_t = [Protocol::Http3, Protocol::Raw])]
    pub(super) protocols: Vec<Protocol>,
    /// Total number of bytes transferred on all connections
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30, value_parser = value_parser!(u64).range(CONNECTIONS[1]..))]
    pub(super) size: u64,
    /// UDP payload size of all stacks, or discover to use path MTU discovery; can be repeated
    #[arg(long = "datagram-size", value_name = "BYTES", default_values = ["1452", "8952"])]
    pub(super) datagram_sizes: Vec<DatagramSize>,
    #[command(flatten)]
    pub(super) pairs: PairOptions,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Debug)]
pub(super) enum Protocol {
    #[value(name = "h3")]
    Http3,
    Raw,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Direction {
    Download,
    Upload,
}

/// The UDP payload size of full-size datagrams.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum DatagramSize {
    /// A fixed size, used from the start by both endpoints.
    Bytes(u16),
    /// A size that each stack discovers with its default settings.
    Discovered,
}

/// One bulk transfer case.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Transfer {
    pub(super) protocol: Protocol,
    pub(super) direction: Direction,
    pub(super) connections: u64,
    pub(super) datagram_size: DatagramSize,
}

pub(super) fn results(options: &BulkOptions) -> Result<Results, String> {
    let ours = build()?;
    let place = Place::new(&ours)?;
    let peers = build_peers(&options.pairs.peers)?;
    let (http3, raw) = (Stacks::http3(&ours, &peers), Stacks::raw(&ours, &peers));
    let transfers = transfers(options);
    let case = |transfer: &Transfer| Case {
        name: transfer.to_string(),
        stacks: if transfer.protocol == Protocol::Http3 { &http3 } else { &raw },
    };
    let cases = transfers.iter().map(case).collect();
    let plan = Plan { cases, rounds: options.pairs.rounds, unit: UNIT };
    Ok(plan.run(|case, server, client| {
        transfers[case].measure([server, client], options.size, &place)
    }))
}

fn transfers(options: &BulkOptions) -> Vec<Transfer> {
    let mut all = Vec::new();
    for &protocol in &options.protocols {
        for direction in [Direction::Download, Direction::Upload] {
            for connections in CONNECTIONS {
                for &datagram_size in &options.datagram_sizes {
                    all.push(Transfer { protocol, direction, connections, datagram_size });
                }
            }
        }
    }
    all
}

impl Transfer {
    /// Transfers `size` bytes, minus a remainder if that is not divisible by the number of
    /// connections.
    pub(super) fn measure(
        &self,
        pair: [&Stack; 2],
        size: u64,
        place: &Place,
    ) -> Result<Run, Problem> {
        for (stack, end) in pair.into_iter().zip([End::Server, End::Client]) {
            if !self.datagram_size.is_possible_for(stack.name) {
                return Err(Problem::NotOffered(end));
            }
        }
        let each = size / self.connections;
        let [server_mtu, client_mtu] = pair.map(|stack| self.mtu(stack));
        let serve = [self.serve(), server_mtu.iter().map(String::as_str).collect()].concat();
        let ask = self.ask(each, client_mtu);
        let ask: Vec<&str> = ask.iter().map(String::as_str).collect();
        let job = Job { serve: &serve, ask: &ask };
        place.run(pair, &job, &UNIT, |result| amount(result, each * self.connections))
    }

    fn serve(&self) -> Vec<&'static str> {
        match self.protocol {
            Protocol::Http3 => SERVE_HTTP3.to_vec(),
            Protocol::Raw => SERVE_RAW.to_vec(),
        }
    }

    /// Returns the client's command to transfer this many bytes on each connection, with these
    /// options.
    fn ask(&self, bytes: u64, options: Vec<String>) -> Vec<String> {
        let bytes = bytes.to_string();
        let url = format!("https://localhost/zero/{bytes}");
        let sink = "https://localhost/sink";
        let (command, last) = match (self.protocol, self.direction) {
            (Protocol::Http3, Direction::Download) => {
                (vec!["client", "--discard", "--connect", ADDRESS], url.as_str())
            }
            (Protocol::Http3, Direction::Upload) => {
                (vec!["client", "--discard", "--connect", ADDRESS, "--upload", &bytes], sink)
            }
            (Protocol::Raw, Direction::Download) => {
                (vec!["raw-client", "--bytes", &bytes], ADDRESS)
            }
            (Protocol::Raw, Direction::Upload) => {
                (vec!["raw-client", "--bytes", &bytes, "--upload"], ADDRESS)
            }
        };
        let mut ask: Vec<String> = command.into_iter().map(str::to_owned).collect();
        ask.extend(options);
        // A program that supports only one connection does not need the option.
        if self.connections > 1 {
            ask.extend(["--connections".to_owned(), self.connections.to_string()]);
        }
        ask.push(last.to_owned());
        ask
    }

    /// Returns the options for the datagram size. Peers discover the size if none is given.
    fn mtu(&self, stack: &Stack) -> Vec<String> {
        let value = match self.datagram_size {
            DatagramSize::Bytes(size) => size.to_string(),
            DatagramSize::Discovered if stack.is_ours() => "discover".to_owned(),
            DatagramSize::Discovered => return Vec::new(),
        };
        vec!["--mtu".to_owned(), value]
    }
}

/// Returns the amount of transferred data in gigabits, and the time; `None` if the transfer is
/// incomplete.
fn amount(result: &Value, expected: u64) -> Option<(f64, f64)> {
    let bytes = result["bytes"].as_u64().filter(|bytes| *bytes == expected)?;
    Some((bytes as f64 / BYTES_PER_GIGABIT, result["seconds"].as_f64()?))
}

impl fmt::Display for Transfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { protocol, direction, connections, datagram_size } = self;
        let protocol = match protocol {
            Protocol::Http3 => "h3",
            Protocol::Raw => "raw",
        };
        let direction = match direction {
            Direction::Download => "download",
            Direction::Upload => "upload",
        };
        let plural = if *connections == 1 { "" } else { "s" };
        write!(f, "bulk, {protocol} {direction}, {connections} connection{plural}, {datagram_size}")
    }
}

impl DatagramSize {
    fn is_possible_for(self, stack: &str) -> bool {
        let largest = LARGEST_DATAGRAMS.iter().find(|(name, _)| *name == stack);
        match (self, largest) {
            (Self::Bytes(size), Some((_, largest))) => size <= *largest,
            _ => true,
        }
    }
}

impl FromStr for DatagramSize {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        match text {
            "discover" => Ok(Self::Discovered),
            size => size.parse().map(|size: u64| Self::Bytes(size.clamp(1200, 65_527) as u16)),
        }
    }
}

impl fmt::Display for DatagramSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(size) => write!(f, "datagrams of {size} bytes"),
            Self::Discovered => f.write_str("datagrams of the size that each stack discovers"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::options::defaults;

    #[test]
    fn every_case_has_its_command() {
        let all = transfers(&defaults());
        assert_eq!(all.len(), 16);
        let first = all[0];
        assert_eq!(first.to_string(), "bulk, h3 download, 1 connection, datagrams of 1452 bytes");
        assert_eq!(
            first.ask(5, Vec::new()).join(" "),
            "client --discard --connect {address} https://localhost/zero/5"
        );
        let last = all[15];
        assert_eq!(last.to_string(), "bulk, raw upload, 100 connections, datagrams of 8952 bytes");
        let options = vec!["--mtu".to_owned(), "1452".to_owned()];
        let expected = "raw-client --bytes 5 --upload --mtu 1452 --connections 100 {address}";
        assert_eq!(last.ask(5, options).join(" "), expected);
        assert_eq!(last.serve(), ["raw-server"]);
    }

    #[test]
    fn a_peer_with_a_largest_size_does_not_get_a_larger_one() {
        let possible =
            |size| ["quic-go", "quinn"].map(|name| DatagramSize::is_possible_for(size, name));
        assert_eq!(possible(DatagramSize::Bytes(1452)), [true, true]);
        assert_eq!(possible(DatagramSize::Bytes(1453)), [false, true]);
        assert_eq!(possible(DatagramSize::Discovered), [true, true]);
    }

    #[test]
    fn bytes_become_gigabits_and_processor_time_for_each_gibibyte() {
        let bytes = 1_u64 << 30;
        let result = json!({"bytes": bytes, "seconds": 2.0});
        let (gigabits, seconds) = amount(&result, bytes).unwrap();
        assert_eq!((gigabits * 1e9, seconds), (bytes as f64 * 8.0, 2.0));
        // One second for 1 GiB.
        assert!((UNIT.cpu_scale / gigabits - 1.0).abs() < 1e-9);
        assert_eq!(amount(&result, bytes + 1), None);
    }
}
