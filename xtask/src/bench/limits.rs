//! `cargo xtask bench limits`: the limits of this machine, and the fraction of these limits that
//! bulk transfers reach.

use std::path::Path;

use serde_json::Value;

use super::bulk::{DatagramSize, Direction, Protocol, Transfer};
use super::place::{CLIENT_CORE, Place, Problem, SERVER_CORE};
use super::report::{Figure, Ratio, Results, Row};
use super::stacks::{Stack, Stacks, build};
use crate::measure::{self, Failure, Process};
use crate::options::positive;

const DATAGRAM_SIZES: [u16; 2] = [1452, 8952];
/// The measurement with which bulk transfers are compared.
const BOTH: &str = "encrypt + send / receive + decrypt";

#[derive(clap::Args)]
pub(super) struct LimitsOptions {
    /// Number of measurements of each case
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = positive::<usize>())]
    pub(super) rounds: usize,
    /// Size of a bulk transfer
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30, value_parser = positive::<u64>())]
    pub(super) size: u64,
}

/// The API for which the fraction of the limit is reported.
const IN_THE_SHARD: &str = "in the shard";

/// One measurement subject.
enum Subject {
    /// A command of Clearway's program with its options, running on one core.
    Alone(&'static str, Option<u16>),
    /// A sender on one core, and a receiver on the other.
    Datagrams { size: u16, protected: bool },
    /// A bulk transfer with Clearway at both endpoints.
    Bulk(Transfer, &'static str),
}

pub(super) fn results(options: &LimitsOptions) -> Result<Results, String> {
    let ours = build()?;
    let place = Place::new(&ours)?;
    let stacks = [Stacks::http3(&ours, &[]), Stacks::raw(&ours, &[])];
    let subjects = subjects();
    let mut values = vec![Vec::new(); subjects.len()];
    for round in 0..options.rounds {
        for (index, subject) in subjects.iter().enumerate() {
            let rate = match subject {
                Subject::Alone(part, size) => alone(&ours, part, *size)?,
                Subject::Datagrams { size, protected } => datagrams(&ours, *size, *protected)?,
                Subject::Bulk(transfer, face) => {
                    bulk(transfer, face, options.size, &stacks, &place)?
                }
            };
            let left = (options.rounds - round) * subjects.len() - index - 1;
            let title = subject.title();
            eprintln!("xtask: {title}: {rate:.2} Gbit/s; {left} runs left");
            values[index].push(rate);
        }
    }
    Ok(report(&subjects, values))
}

fn subjects() -> Vec<Subject> {
    let mut all = vec![Subject::Alone("copy", None)];
    for size in DATAGRAM_SIZES {
        all.extend([Subject::Alone("seal", Some(size)), Subject::Alone("open", Some(size))]);
        all.extend([false, true].map(|protected| Subject::Datagrams { size, protected }));
        for protocol in [Protocol::Http3, Protocol::Raw] {
            for direction in [Direction::Download, Direction::Upload] {
                let datagram_size = DatagramSize::Bytes(size);
                let transfer = Transfer { protocol, direction, connections: 1, datagram_size };
                all.extend([IN_THE_SHARD, "async"].map(|face| Subject::Bulk(transfer, face)));
            }
        }
    }
    all
}

impl Subject {
    fn title(&self) -> String {
        match self {
            Self::Alone("copy", _) => "copies of 64 KiB out of 64 MiB, one core".to_owned(),
            Self::Alone(part, size) => {
                let size = size.unwrap_or_default();
                format!("AES-128-GCM, {part}, datagrams of {size} bytes, one core")
            }
            Self::Datagrams { size, protected } => {
                let what = if *protected { BOTH } else { "send / receive" };
                format!("{what}, datagrams of {size} bytes, one core each")
            }
            Self::Bulk(transfer, face) => format!("{transfer}, {face}"),
        }
    }
}

/// Returns the rate in gigabits per second.
fn rate(result: &Value) -> Option<f64> {
    let (bytes, seconds) = (result["bytes"].as_f64()?, result["seconds"].as_f64()?);
    (bytes > 0.0 && seconds > 0.0).then(|| bytes * 8.0 / seconds / 1e9)
}

fn alone(ours: &Path, part: &str, size: Option<u16>) -> Result<f64, String> {
    let size = size.map(|size| size.to_string());
    let mut arguments = vec!["limits", part];
    if let Some(size) = &size {
        arguments.extend(["--size", size]);
    }
    let (result, _) = measure::client(ours, &arguments, CLIENT_CORE)?;
    rate(&result).ok_or_else(|| format!("{part} failed: {result}"))
}

/// Returns the receive rate. The sender sends for longer than the measurement takes.
fn datagrams(ours: &Path, size: u16, protected: bool) -> Result<f64, Failure> {
    let size = size.to_string();
    let mut common = vec!["--size", &size];
    common.extend(protected.then_some("--protected"));
    let receive = [&["limits", "receive", "--listen", "127.0.0.1:0"], &common[..]].concat();
    let mut receiver = Process::start(ours, &receive, CLIENT_CORE, "listening")?;
    let address = receiver.said().to_owned();
    let send = ["limits", "send", "--connect", &address, "--seconds", "1.2"];
    measure::client(ours, &[&send, &common[..]].concat(), SERVER_CORE)?;
    let line = receiver.next_line().unwrap_or_default();
    let result = serde_json::from_str(&line).ok().as_ref().and_then(rate);
    result.ok_or_else(|| Failure::Failed(format!("a receiver failed: {line:?}")))
}

/// Measures a transfer with this API at each endpoint that supports it.
fn bulk(
    transfer: &Transfer,
    face: &str,
    size: u64,
    [http3, raw]: &[Stacks; 2],
    place: &Place,
) -> Result<f64, String> {
    let stacks = if transfer.protocol == Protocol::Http3 { http3 } else { raw };
    let with_face = |stacks: &'_ [Stack]| {
        stacks.iter().position(|stack| stack.face == Some(face)).unwrap_or_default()
    };
    let server = &stacks.servers[with_face(&stacks.servers)];
    let client = &stacks.clients[with_face(&stacks.clients)];
    match transfer.measure([server, client], size, place) {
        Ok(run) => Ok(run.per_second),
        Err(Problem::Failed(error)) => Err(error),
        Err(Problem::NotOffered(end)) => {
            Err(format!("Clearway's {end} does not support {transfer}"))
        }
    }
}

/// Compares bulk transfers with datagrams of the same size.
fn report(subjects: &[Subject], values: Vec<Vec<f64>>) -> Results {
    let mut results = Results::default();
    let protected = |wanted: u16| {
        let found = subjects.iter().position(
            |subject| matches!(subject, Subject::Datagrams { size, protected: true } if *size == wanted),
        );
        found.map(|index| &values[index])
    };
    for (subject, values) in subjects.iter().zip(&values) {
        let Subject::Bulk(transfer, face) = subject else {
            let (case, values) = (subject.title(), values.clone());
            results.figures.push(Figure { case, unit: "Gbit/s", values });
            continue;
        };
        let DatagramSize::Bytes(size) = transfer.datagram_size else { continue };
        let Some(limit) = protected(size) else { continue };
        let ratio = Ratio::of(values, limit);
        if *face == IN_THE_SHARD {
            let percent = ratio.median * 100.0;
            let conclusion = format!("{transfer}: bulk reaches {percent:.0} % of {BOTH}");
            results.conclusions.push(conclusion);
        }
        results.rows.push(Row {
            case: transfer.to_string(),
            place: "both ends".to_owned(),
            face,
            peer: BOTH,
            unit: "Gbit/s".to_owned(),
            values: [values, limit].map(|values| super::median(&super::sorted(values.clone()))),
            ratio,
            digits: 2,
            notes: Default::default(),
            more: Vec::new(),
        });
    }
    results
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bulk_is_beside_the_datagrams_of_its_size() {
        let subjects = subjects();
        // The rate of each subject is its position.
        let values = (1..=subjects.len()).map(|rate| vec![rate as f64; 3]).collect();
        let results = report(&subjects, values);
        assert_eq!(results.figures.len(), 9);
        assert_eq!(results.rows.len(), 16);
        let limits: Vec<f64> = results.rows.iter().map(|row| row.values[1]).collect();
        assert_eq!((limits[0], limits[7], limits[8], limits[15]), (5.0, 5.0, 17.0, 17.0));
        assert_eq!(
            results.conclusions[0],
            "bulk, h3 download, 1 connection, datagrams of 1452 bytes: bulk reaches 120 % of encrypt + send / \
             receive + decrypt"
        );
    }

    #[test]
    fn a_rate_is_in_gigabits() {
        assert_eq!(rate(&json!({"bytes": 2_000_000_000, "seconds": 4.0})), Some(4.0));
        assert_eq!(rate(&json!({"bytes": 0, "seconds": 4.0})), None);
        assert_eq!(rate(&json!({})), None);
    }
}
