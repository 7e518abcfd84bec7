//! Many concurrent connections, each of which makes a small request from time to time.
//!
//! A single schedule in a separate thread (`pace.rs`) serves all connections, so a waiting
//! connection needs no timer and no task. The requests are made on the shard threads, one for each
//! local address, because an endpoint of the library has one socket and one thread.

mod client;
mod messages;
mod pace;
mod record;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use clap::Args;
use clearway::{ClientConfig, Endpoint};

use self::client::{Client, Protocol, Wanted};
use self::pace::Steady;
pub(crate) use self::record::Record;
use crate::attached::Steps;
use crate::options::Mtu;
use crate::{Outcome, handshakes, tls};

/// Number of connections after which the server has made its one-time allocations; at most a fifth
/// of all connections.
const FIRST: usize = 200;
/// Idle timeout as a number of request periods: some requests may be lost, and requests are less
/// frequent at first.
const PERIODS_OF_SILENCE: u32 = 10;
/// Maximum number of attempts to open each connection.
const ATTEMPTS: usize = 3;
/// Time to wait for responses after the steady phase.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between progress messages.
const PROGRESS: Duration = Duration::from_secs(5);
/// Amount of free memory below which no more connections are opened, before the kernel's OOM killer
/// kills a process.
const LEAST_MEMORY: u64 = 1 << 30;

#[derive(Args)]
pub(crate) struct ConnectionsOptions {
    /// Certificate to trust, PEM.
    #[arg(long)]
    ca: PathBuf,
    /// The address of the server in 127.0.0.0/8, whose certificate must be for `localhost`.
    #[arg(long)]
    connect: SocketAddr,
    /// Number of connections.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count: u32,
    /// Protocol of the connections.
    #[arg(long, value_enum, default_value_t = Protocol::Http3)]
    protocol: Protocol,
    /// Number of local addresses, each with a socket and a thread, to distribute the connections
    /// over.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    addresses: u32,
    /// Number of concurrent handshakes.
    #[arg(long, default_value_t = 64)]
    opening: usize,
    /// Seconds between two requests of a connection.
    #[arg(long, default_value_t = 30)]
    period: u64,
    /// Seconds for which to count requests once all connections are open.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Bytes in each response.
    #[arg(long, default_value_t = 1024)]
    size: u64,
}

/// The open connections, and the outcomes of their requests.
pub(crate) struct Held {
    /// The clients, in the order in which they make requests.
    clients: Box<[OnceLock<Client>]>,
    period: Duration,
    wanted: Arc<Wanted>,
    /// The time interval in which requests are counted.
    steady: OnceLock<Steady>,
    record: Record,
}

impl Held {
    fn new(options: &ConnectionsOptions) -> Outcome<Self> {
        Ok(Self {
            clients: (0..options.count).map(|_| OnceLock::new()).collect(),
            period: Duration::from_secs(options.period.max(1)),
            wanted: Arc::new(Wanted {
                url: format!("https://localhost/zero/{}", options.size).parse()?,
                size: options.size,
            }),
            steady: OnceLock::new(),
            record: Record::default(),
        })
    }

    /// Returns the number of connections that have ended.
    fn lost(&self) -> usize {
        let open = self.clients.iter().filter_map(OnceLock::get);
        open.filter(|client| !client.is_open()).count()
    }
}

/// Opens the first connections and prints `first N`, opens the others and prints `open N`, counts
/// requests during the steady phase and prints the result. Each step waits for a line on standard
/// input; the process exits when standard input closes.
pub(crate) fn run(options: &ConnectionsOptions, mtu: Mtu) -> Outcome {
    let steps = Steps::new();
    let held = Arc::new(Held::new(options)?);
    let opener = Opener::new(options, mtu, held.clone())?;
    let pacing = held.clone();
    std::thread::spawn(move || pace::pace(&pacing));
    let count = held.clients.len();
    let first = FIRST.min(count / 5);
    opener.open(first)?;
    steps.wait(&format!("first {first}"))?;
    let began = Instant::now();
    opener.open(count)?;
    let opening = began.elapsed().as_secs_f64();
    steps.wait(&format!("open {count}"))?;
    let steady = held.steady.get_or_init(|| Steady::new(Duration::from_secs(options.seconds)));
    watch(&held, *steady);
    let result = format!(
        r#""addresses":{},"opened_per_second":{:.1},"handshakes_failed":{},"lost":{}"#,
        opener.endpoints.len(),
        (count - first) as f64 / opening,
        opener.failed.load(Ordering::Relaxed),
        held.lost(),
    );
    steps.wait(&format!("{{{result},{}}}", held.record.summary()))
}

/// Reports progress until the steady phase has ended and all requests are answered.
fn watch(held: &Held, steady: Steady) {
    let mut said = Instant::now();
    loop {
        std::thread::sleep(Duration::from_millis(50));
        let now = Instant::now();
        let is_over = now >= steady.end && held.record.unanswered() == 0;
        if is_over || now >= steady.end + DRAIN_TIMEOUT {
            return;
        }
        if now >= said + PROGRESS {
            said = now;
            eprintln!(
                "clearway-bench: {} of {} s, {}, {} connections lost",
                (now - steady.begin).min(steady.end - steady.begin).as_secs(),
                (steady.end - steady.begin).as_secs(),
                held.record.progress(),
                held.lost(),
            );
        }
    }
}

/// Opens the connections of the benchmark.
struct Opener {
    endpoints: Vec<Endpoint>,
    protocol: Protocol,
    /// Maximum number of concurrent handshakes per endpoint.
    parallel: usize,
    /// Client configuration shared by all connections: a clone made before the first connection
    /// would have its own TLS configuration.
    config: Arc<ClientConfig>,
    remote: SocketAddr,
    held: Arc<Held>,
    next: Arc<AtomicUsize>,
    /// Number of failed handshakes.
    failed: Arc<AtomicUsize>,
}

impl Opener {
    fn new(options: &ConnectionsOptions, mtu: Mtu, held: Arc<Held>) -> Outcome<Self> {
        if !matches!(options.connect.ip(), IpAddr::V4(ip) if ip.is_loopback()) {
            return Err(format!("{} is not an address in 127.0.0.0/8", options.connect).into());
        }
        let addresses = options.addresses.min(options.count);
        let endpoints = (0..addresses).map(|it| Endpoint::client(local_address(it)));
        let endpoints = endpoints.collect::<Result<Vec<_>, _>>()?;
        let idle_timeout = held.period * PERIODS_OF_SILENCE;
        let config = ClientConfig::with_roots(tls::roots(&options.ca)?)
            .application_protocols([options.protocol.alpn()])
            .transport(tls::transport(mtu, idle_timeout))
            // Each connection represents a separate client.
            .session_store(handshakes::no_sessions());
        Ok(Self {
            parallel: options.opening.max(1).div_ceil(endpoints.len()),
            endpoints,
            protocol: options.protocol,
            config: Arc::new(config),
            remote: options.connect,
            held,
            next: Arc::default(),
            failed: Arc::default(),
        })
    }

    /// Opens connections until there are `count` of them, and makes one request on each.
    fn open(&self, count: usize) -> Outcome {
        let (sender, ended) = channel();
        for endpoint in &self.endpoints {
            for _ in 0..self.parallel {
                let work = self.work(endpoint.clone(), count);
                let sender = sender.clone();
                endpoint.spawn(async move {
                    // The receiver is gone if another task has failed.
                    let _ = sender.send(work.await);
                });
            }
        }
        drop(sender);
        let (began, before) = (Instant::now(), self.opened());
        loop {
            match ended.recv_timeout(PROGRESS) {
                Ok(outcome) => outcome?,
                Err(RecvTimeoutError::Timeout) => {
                    eprintln!(
                        "clearway-bench: {} of {} connections open, {:.0}/s",
                        self.opened(),
                        self.held.clients.len(),
                        (self.opened() - before) as f64 / began.elapsed().as_secs_f64(),
                    );
                    check_memory()
                        .map_err(|error| format!("{} connections: {error}", self.opened()))?;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        // Workers that had no connection left to open have incremented the counter too.
        self.next.store(count, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the number of connections that are open or being opened.
    fn opened(&self) -> usize {
        self.next.load(Ordering::Relaxed).min(self.held.clients.len())
    }

    /// Opens connections sequentially on one endpoint.
    fn work(
        &self,
        endpoint: Endpoint,
        count: usize,
    ) -> impl Future<Output = Result<(), String>> + Send + 'static {
        let (config, remote, held) = (self.config.clone(), self.remote, self.held.clone());
        let (next, failed) = (self.next.clone(), self.failed.clone());
        let protocol = self.protocol;
        async move {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= count {
                    return Ok(());
                }
                let mut attempt = 1;
                let client = loop {
                    match Client::connect(protocol, &endpoint, &config, remote).await {
                        Ok(client) => break client,
                        Err(error) if attempt == ATTEMPTS => {
                            return Err(format!("connection {index}: {error}"));
                        }
                        Err(_) => attempt += 1,
                    }
                    failed.fetch_add(1, Ordering::Relaxed);
                };
                let answer = client.ask_now(&held.wanted).await;
                answer.map_err(|error| format!("connection {index}: {error}"))?;
                // Each index is used exactly once.
                let _ = held.clients[index].set(client);
            }
        }
    }
}

fn check_memory() -> Result<(), String> {
    let path = "/proc/meminfo";
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let available = text.lines().find_map(|line| {
        line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    });
    let available = available.ok_or_else(|| format!("{path} has no line MemAvailable"))? << 10;
    match available < LEAST_MEMORY {
        true => {
            Err(format!("only {} MiB of memory are available on this machine", available >> 20))
        }
        false => Ok(()),
    }
}

/// Returns a local address that no server is likely to use.
fn local_address(index: u32) -> SocketAddr {
    let [_, _, high, low] = (index + 1).to_be_bytes();
    SocketAddr::new(Ipv4Addr::new(127, 1, high, low).into(), 0)
}
