//! Clients that send through a proxy, servers that count the datagrams they receive, and the
//! results.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::super::kernel::{socket_drops, udp_errors};
use super::super::text;
use super::proxy::{NONCE_LENGTH, Proxy, SERVER_IDS};
use crate::measure::{self, Process};

/// Number of clients, each with its own address and connection.
pub(super) const CLIENTS: usize = 64;
/// UDP payload size of the datagrams.
pub(super) const SIZE: usize = 1200;
/// Interval between polls of the received count. If the count has not changed, no datagrams are in
/// flight any more.
const SETTLING: Duration = Duration::from_millis(50);
/// Maximum number of polls until no datagrams are in flight.
const MAX_LOOKS: usize = 200;

/// The load that the clients generate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traffic {
    /// Number of datagrams that a connection sends per system call.
    pub(super) batch: usize,
    /// Datagrams to send per second; `None` for as many as possible.
    pub(super) rate: Option<f64>,
    pub(super) seconds: u64,
}

/// The cores of servers or clients: a single core, or several with one client process on each.
pub(super) type Cores<'a> = &'a [usize];

/// Servers that count datagrams.
pub(super) struct Servers {
    process: Process,
    /// The servers' addresses, separated by commas.
    pub(super) addresses: String,
}

impl Servers {
    pub(super) fn start(program: &Path, cores: Cores<'_>) -> Result<Self, String> {
        let list: Vec<String> = cores.iter().map(usize::to_string).collect();
        let around = ["--cpu-list", &list.join(","), text(program)];
        let count = SERVER_IDS.len().to_string();
        let arguments = [&around[..], &["forward", "sink", "--servers", &count]].concat();
        let core = cores.first().copied().unwrap_or_default();
        let process = Process::start(Path::new("taskset"), &arguments, core, "listening")?;
        Ok(Self { addresses: process.said().to_owned(), process })
    }

    /// Returns the final counts, once no more datagrams arrive.
    fn settled(&mut self) -> Result<Value, String> {
        let mut before = Value::Null;
        for _ in 0..MAX_LOOKS {
            let counts = self.process.ask()?;
            if counts["received"] == before {
                return Ok(counts);
            }
            before = counts["received"].clone();
            std::thread::sleep(SETTLING);
        }
        Err("datagrams are still arriving long after the last one was sent".to_owned())
    }
}

/// The results of one run.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Run {
    /// Number of datagrams that the clients sent per second.
    pub(super) offered: f64,
    /// Number of datagrams that arrived per second, measured from the first arrival to the last, or
    /// over the time in which the clients sent if that is longer.
    pub(super) reached: f64,
    /// Number of datagrams that arrived per CPU second of the proxies.
    pub(super) per_cpu_second: f64,
    /// The fraction of a core that each proxy, or each of its threads, used.
    pub(super) used: Vec<f64>,
    /// The fraction of the sent datagrams that did not arrive.
    pub(super) lost: f64,
    /// Datagrams that arrived at the wrong server.
    pub(super) misrouted: u64,
    /// Datagrams that arrived although no client sent them.
    pub(super) unreadable: u64,
    /// Datagrams that arrived with a preface that contains the client's address.
    pub(super) prefaced: u64,
    pub(super) received: u64,
    /// Mean number of datagrams that the servers received in one batch.
    pub(super) at_once: f64,
    pub(super) drops: Drops,
}

/// Number of datagrams dropped by the kernel, by location. Coalesced datagrams count once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Drops {
    /// Datagrams dropped at the proxies' sockets.
    pub(super) proxies: u64,
    /// Datagrams dropped at the servers' sockets.
    pub(super) servers: u64,
    /// Datagrams dropped on the whole machine because of full socket buffers.
    pub(super) machine: u64,
}

/// Sends traffic through the proxies, distributing the clients among them, and waits until no
/// datagrams are in flight.
pub(super) fn send(
    program: &Path,
    traffic: Traffic,
    proxies: &[Proxy],
    servers: &mut Servers,
    cores: Cores<'_>,
) -> Result<Run, String> {
    let errors = udp_errors()?;
    let before = cpu_of(proxies)?;
    let sent = clients(program, traffic, proxies, cores)?;
    let arrived = servers.settled()?;
    let after = cpu_of(proxies)?;
    let cpu: Vec<f64> = after.iter().zip(before).map(|(after, before)| after - before).collect();
    let drops = Drops {
        proxies: proxies.iter().map(|it| socket_drops(it.id())).sum::<Result<_, String>>()?,
        servers: socket_drops(servers.process.id())?,
        machine: udp_errors()?.since(errors).receive_buffer,
    };
    Run::new(&sent, &arrived, &cpu, drops)
}

/// Returns the CPU seconds used so far by each individually counted part of the proxies.
fn cpu_of(proxies: &[Proxy]) -> Result<Vec<f64>, String> {
    let all: Vec<Vec<f64>> = proxies.iter().map(Proxy::cpu_seconds).collect::<Result<_, _>>()?;
    Ok(all.concat())
}

/// Runs a client process on each core, and returns their output.
fn clients(
    program: &Path,
    traffic: Traffic,
    proxies: &[Proxy],
    cores: Cores<'_>,
) -> Result<Vec<Value>, String> {
    let processes = cores.len();
    let addresses: Vec<&str> = proxies.iter().map(|it| it.address.as_str()).collect();
    let clients = (CLIENTS / processes).to_string();
    let (batch, size) = (traffic.batch.to_string(), SIZE.to_string());
    let (seconds, nonce) = (traffic.seconds.to_string(), NONCE_LENGTH.to_string());
    let (addresses, ids) = (addresses.join(","), SERVER_IDS.join(","));
    let rate = traffic.rate.map(|rate| (rate / processes as f64).to_string());
    let arguments = ["forward", "source", "--connect", &addresses, "--server-ids", &ids];
    let more = ["--nonce-length", &nonce, "--clients", &clients, "--size", &size];
    let mut arguments = [&arguments[..], &more].concat();
    arguments.extend(["--batch", &batch, "--seconds", &seconds]);
    arguments.extend(rate.iter().flat_map(|rate| ["--rate", rate]));
    std::thread::scope(|scope| {
        let start = |(index, core): (usize, usize)| {
            let first = (index * CLIENTS / processes).to_string();
            let arguments = [&arguments[..], &["--first-client", &first]].concat();
            let arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
            scope.spawn(move || {
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                measure::client(program, &arguments, core)
            })
        };
        let all: Vec<_> = cores.iter().copied().enumerate().map(start).collect();
        let ended = all.into_iter().map(|clients| match clients.join() {
            Ok(outcome) => Ok(outcome?.0),
            Err(_) => Err("a thread that waits for clients panicked".to_owned()),
        });
        ended.collect()
    })
}

impl Run {
    /// Computes the results from the output of the clients and servers, and the CPU seconds of each
    /// part of the proxies.
    fn new(sent: &[Value], arrived: &Value, cpu: &[f64], drops: Drops) -> Result<Self, String> {
        let number = |object: &Value, name: &str| {
            object[name].as_f64().ok_or_else(|| format!("{name} is missing in {object}"))
        };
        let count = |name: &str| {
            arrived[name].as_u64().ok_or_else(|| format!("{name} is missing in {arrived}"))
        };
        let (mut total, mut elapsed) = (0.0, 0.0_f64);
        for clients in sent {
            total += number(clients, "sent")?;
            elapsed = elapsed.max(number(clients, "seconds")?);
        }
        let (received, seconds) = (count("received")?, number(arrived, "seconds")?);
        let of_cpu: f64 = cpu.iter().sum();
        if received == 0 || seconds <= 0.0 || elapsed <= 0.0 || of_cpu <= 0.0 {
            return Err(format!("nothing was forwarded: {total} datagrams sent, then {arrived}"));
        }
        let arrived_count = received as f64;
        Ok(Self {
            offered: total / elapsed,
            // A burst may arrive in less time than it took to send, but that does not increase the
            // rate.
            reached: arrived_count / seconds.max(elapsed),
            per_cpu_second: arrived_count / of_cpu,
            used: cpu.iter().map(|cpu| cpu / elapsed).collect(),
            lost: 1.0 - arrived_count / total,
            misrouted: count("misrouted")?,
            unreadable: count("unreadable")?,
            prefaced: count("prefaced")?,
            received,
            at_once: arrived_count / number(arrived, "batches")?.max(1.0),
            drops,
        })
    }

    /// Describes for the reader where datagrams were lost.
    pub(super) fn loss(&self) -> String {
        let Self { lost, drops: Drops { proxies, servers, .. }, .. } = self;
        let percent = lost * 100.0;
        let at = match (proxies, servers) {
            (0, 0) => "none of them dropped by a full socket buffer",
            (_, 0) => "dropped by the full buffer of the proxy's socket",
            (0, _) => {
                "dropped by the full buffers of the servers' sockets, which were the \
                bottleneck"
            }
            (_, _) => {
                "dropped by the full buffers of the proxy's and the servers' sockets, which \
                were a bottleneck"
            }
        };
        match *lost > 0.0 {
            true => format!("{percent:.1} % lost, {at}"),
            false => "nothing lost".to_owned(),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    /// Returns a run in which a proxy forwarded this many datagrams per second, using a whole core.
    pub(in super::super) fn run(per_second: f64) -> Run {
        let (sent, received) = (4.0 * per_second, 2.0 * per_second);
        let sent = json!({"sent": sent, "seconds": 2.0});
        let arrived = json!({
            "received": received as u64, "misrouted": 0, "unreadable": 0, "prefaced": 0,
            "batches": (received / 50.0) as u64, "seconds": 2.0,
        });
        Run::new(&[sent], &arrived, &[2.0], Drops { proxies: 7, ..Drops::default() }).unwrap()
    }

    #[test]
    fn what_has_not_arrived_is_lost() {
        let expected = Run {
            offered: 2000.0,
            reached: 1000.0,
            per_cpu_second: 1000.0,
            used: vec![1.0],
            lost: 0.5,
            received: 2000,
            at_once: 50.0,
            drops: Drops { proxies: 7, servers: 0, machine: 0 },
            ..Run::default()
        };
        assert_eq!(run(1000.0), expected);
        assert_eq!(
            expected.loss(),
            "50.0 % lost, dropped by the full buffer of the proxy's socket"
        );
        let drops = Drops { servers: 1, ..Drops::default() };
        let said = Run { drops, ..expected.clone() }.loss();
        assert!(said.ends_with("servers' sockets, which were the bottleneck"), "{said}");
        assert_eq!(Run { lost: 0.0, ..expected }.loss(), "nothing lost");
    }

    #[test]
    fn clients_and_threads_add_up() {
        let sent = [json!({"sent": 300, "seconds": 1.0}), json!({"sent": 100, "seconds": 2.0})];
        let arrived = json!({
            "received": 200, "misrouted": 3, "unreadable": 2, "prefaced": 200, "batches": 200,
            "seconds": 1.0,
        });
        let run = Run::new(&sent, &arrived, &[0.5, 0.3], Drops::default()).unwrap();
        assert_eq!((run.offered, run.reached, run.per_cpu_second), (200.0, 100.0, 250.0));
        assert_eq!((run.used, run.misrouted, run.unreadable), (vec![0.25, 0.15], 3, 2));
    }

    /// The clients intend to send for two seconds. If they limit the rate, the last datagram
    /// arrives before the end.
    #[test]
    fn no_more_arrives_in_a_second_than_was_sent() {
        let rates = |seconds: f64| {
            let arrived = json!({
                "received": 400, "misrouted": 0, "unreadable": 0, "prefaced": 0, "batches": 400,
                "seconds": seconds,
            });
            let sent = json!({"sent": 400, "seconds": 2.0});
            let run = Run::new(&[sent], &arrived, &[0.5], Drops::default()).unwrap();
            (run.offered, run.reached)
        };
        assert_eq!(rates(1.5), (200.0, 200.0));
        // The datagrams that are still in flight take longer in this case.
        assert_eq!(rates(2.5), (200.0, 160.0));
    }

    #[test]
    fn nothing_forwarded_is_an_error() {
        let arrived = json!({
            "received": 0, "misrouted": 0, "unreadable": 0, "prefaced": 0, "batches": 0,
            "seconds": 0.0,
        });
        let sent = [json!({"sent": 300, "seconds": 1.0})];
        assert!(Run::new(&sent, &arrived, &[0.5], Drops::default()).is_err());
        assert!(Run::new(&[json!({})], &arrived, &[0.5], Drops::default()).is_err());
    }
}
