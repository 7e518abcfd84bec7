//! Clients of servers behind a load balancer. They download on connections that change their
//! address every second, and open additional connections at a steady rate. `cargo xtask
//! balance-test` controls this program through standard input.
//!
//! Each line on standard input is a command, which is answered with one line:
//!
//! * `report`: prints the outcomes since the last report.
//! * `probe`: connects once from each of many fixed addresses, and prints which server answered
//!   each of them.
//! * `finish`: starts no further operations, and prints a report when all operations in progress
//!   are complete.
//!
//! Each server must serve its own name at `/name`. At `/content`, it must serve bytes where byte
//! `i` is `i mod 251`.

mod member;
mod nat;
mod opening;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use clearway::http3::Client;
use clearway::{ClientConfig, Endpoint};
use http::{Request, StatusCode};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};

use self::member::Member;
use self::opening::{Openings, Probes};
use crate::options::Mtu;
use crate::{Outcome, attached, handshakes, http3, tls};

/// Time without a packet after which a connection times out.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);
/// Handshake timeout of a client.
const CONNECTING: Duration = Duration::from_secs(5);
/// Time to wait for downloads after the `finish` command.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between checks for completion.
const POLLING: Duration = Duration::from_millis(20);
/// The flow control windows in bytes. They hold a quarter of a second of a download, so that
/// datagrams arrive continuously.
const STREAM_WINDOW: u64 = 64 << 10;
const CONNECTION_WINDOW: u64 = 96 << 10;
/// Maximum length of a server's name in bytes.
const MAX_NAME: usize = 64;

#[derive(Args)]
pub(crate) struct FleetOptions {
    /// Certificate to trust, PEM.
    #[arg(long)]
    ca: PathBuf,
    /// The address of the balancer; the certificate of its servers must be for `localhost`.
    #[arg(long)]
    connect: SocketAddr,
    /// The first of the 65,536 local addresses that connections use.
    #[arg(long)]
    addresses: Ipv4Addr,
    /// Number of connections that download.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u8).range(1..=150))]
    connections: u8,
    /// Bytes in each download.
    #[arg(long)]
    size: u64,
    /// Bytes per second that a connection reads.
    #[arg(long)]
    rate: u32,
    /// Number of other connections to open per second, each for one small request.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    openings: u32,
    /// Number of connections that a probe opens.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u16).range(1..=1250))]
    probes: u16,
    /// Put the downloading connections behind a NAT, which changes the port of each every second
    /// while its connection ID stays the same; half a second later the connection ID changes, and
    /// the original port returns.
    #[arg(long)]
    nat: bool,
}

/// State shared by all connections.
struct Fleet {
    config: ClientConfig,
    remote: SocketAddr,
    addresses: Addresses,
    size: u64,
    rate: u32,
    began: Instant,
    is_over: AtomicBool,
}

impl Fleet {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Returns the time since the start of the program in seconds.
    fn now(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }
}

pub(crate) fn run(options: &FleetOptions, mtu: Mtu) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(execute(options, mtu))
}

/// Opens the connections, prints `open N`, and then executes commands until standard input closes.
async fn execute(options: &FleetOptions, mtu: Mtu) -> Outcome {
    let mut commands = attached::commands();
    permit_descriptors()?;
    let fleet = Arc::new(Fleet {
        config: config(options, mtu)?,
        remote: options.connect,
        addresses: Addresses(options.addresses),
        size: options.size,
        rate: options.rate,
        began: Instant::now(),
        is_over: AtomicBool::new(false),
    });
    // Opening the sockets and threads of the probes takes long enough to delay other connections.
    let probes = Probes::new(&fleet, options.probes)?;
    let mut members = Vec::new();
    for number in 0..options.connections {
        members.push(Member::open(&fleet, number, options.connections, options.nat).await?);
    }
    let openings = Openings::start(&fleet, options.openings);
    println!("open {}", members.len());
    while let Some(command) = commands.recv().await {
        match command.trim() {
            "report" => println!("{}", report(&fleet, &members, &openings)),
            "probe" => println!("{}", json!({"probes": probes.connect(&fleet).await})),
            "finish" => {
                finish(&fleet, &members, &openings).await;
                println!("{}", report(&fleet, &members, &openings));
            }
            other => return Err(format!("unknown command: {other}").into()),
        }
    }
    Ok(())
}

fn config(options: &FleetOptions, mtu: Mtu) -> Outcome<ClientConfig> {
    let transport = tls::transport(mtu, IDLE_TIMEOUT)
        .to_builder()
        .initial_stream_receive_window(STREAM_WINDOW)
        .initial_connection_receive_window(CONNECTION_WINDOW)
        .max_stream_receive_window(STREAM_WINDOW)
        .max_connection_receive_window(CONNECTION_WINDOW)
        .build()?;
    Ok(ClientConfig::with_roots(tls::roots(&options.ca)?)
        .application_protocols([http3::ALPN])
        .transport(transport)
        // Each connection represents a separate client.
        .session_store(handshakes::no_sessions()))
}

/// Waits until all downloads and handshakes have ended or the time limit expires.
async fn finish(fleet: &Fleet, members: &[Arc<Member>], openings: &Openings) {
    fleet.is_over.store(true, Ordering::SeqCst);
    let began = Instant::now();
    let is_busy = || openings.unfinished() > 0 || members.iter().any(|member| member.is_busy());
    while is_busy() && began.elapsed() < DRAIN_TIMEOUT {
        tokio::time::sleep(POLLING).await;
    }
}

fn report(fleet: &Fleet, members: &[Arc<Member>], openings: &Openings) -> Value {
    let members: Vec<Value> = members.iter().map(|member| member.report()).collect();
    json!({
        "now": fleet.now(),
        "members": members,
        "openings": openings.take(),
        "unfinished_openings": openings.unfinished(),
    })
}

/// Connects from `endpoint`, and requests the name of the server that answers.
async fn connect(
    endpoint: &Endpoint,
    fleet: &Fleet,
    remote: SocketAddr,
) -> Result<(Client, String), String> {
    let connecting = async {
        let client = Client::connect(endpoint, &fleet.config, remote, "localhost").await?;
        let mut response = client.send(request("/name")).await?;
        let name = response.body_mut().bytes(MAX_NAME).await?;
        Ok::<_, clearway::http3::Error>((client, response.status(), name))
    };
    let connected = tokio::time::timeout(CONNECTING, connecting).await;
    let connected =
        connected.map_err(|_| format!("no response within {} s", CONNECTING.as_secs()))?;
    let (client, status, name) = connected.map_err(|error| error.to_string())?;
    match status {
        StatusCode::OK => Ok((client, String::from_utf8_lossy(&name).trim().to_owned())),
        status => Err(format!("/name has status {status}")),
    }
}

fn request(path: &str) -> Request<()> {
    let mut request = Request::new(());
    // All parts are constants, so this succeeds.
    if let Ok(uri) = format!("https://localhost{path}").parse() {
        *request.uri_mut() = uri;
    }
    request
}

/// Raises the limit on file descriptors to its maximum, because each connection has its own socket.
fn permit_descriptors() -> Outcome {
    let limit = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?)
}

/// The local addresses: 250 for each downloading connection, 50 × 250 for the connections that are
/// opened later, which use them in turn, and 5 × 250 for probes.
#[derive(Clone, Copy)]
struct Addresses(Ipv4Addr);

impl Addresses {
    /// The local port of the probes; all other connections use any free port.
    const PROBE_PORT: u16 = 9000;
    const EACH: usize = 250;
    const OPENINGS: usize = 200;
    const PROBES: usize = 250;

    fn of_member(self, number: u8, turn: usize) -> SocketAddr {
        self.address(usize::from(number), turn, 0)
    }

    fn of_opening(self, number: usize) -> SocketAddr {
        let place = number % (50 * Self::EACH);
        self.address(Self::OPENINGS + place / Self::EACH, place, 0)
    }

    fn of_probe(self, number: u16) -> SocketAddr {
        let number = usize::from(number);
        self.address(Self::PROBES + number / Self::EACH, number, Self::PROBE_PORT)
    }

    fn address(self, third: usize, fourth: usize, port: u16) -> SocketAddr {
        let [a, b, ..] = self.0.octets();
        let third = u8::try_from(third).unwrap_or(u8::MAX);
        let fourth = u8::try_from(1 + fourth % Self::EACH).unwrap_or(1);
        SocketAddr::new(Ipv4Addr::new(a, b, third, fourth).into(), port)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_kinds_of_connections_share_an_address() {
        let addresses = Addresses(Ipv4Addr::new(10, 1, 0, 0));
        assert_eq!(addresses.of_member(3, 0), "10.1.3.1:0".parse().unwrap());
        assert_eq!(addresses.of_member(3, 251), "10.1.3.2:0".parse().unwrap());
        assert_eq!(addresses.of_opening(251), "10.1.201.2:0".parse().unwrap());
        assert_eq!(addresses.of_probe(1249), "10.1.254.250:9000".parse().unwrap());
        let members =
            (0..150).flat_map(|it| (0..300).map(move |turn| addresses.of_member(it, turn)));
        let members: BTreeSet<_> = members.map(|it| it.ip()).collect();
        let openings: BTreeSet<_> = (0..20_000).map(|it| addresses.of_opening(it).ip()).collect();
        let probes: BTreeSet<_> = (0..1250).map(|it| addresses.of_probe(it).ip()).collect();
        assert_eq!((members.len(), openings.len(), probes.len()), (150 * 250, 50 * 250, 1250));
        assert!(members.is_disjoint(&openings) && members.is_disjoint(&probes));
        assert!(openings.is_disjoint(&probes));
    }
}
