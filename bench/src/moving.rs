//! Requests on connections that repeatedly migrate to another local address, like those of mobile
//! phones. `cargo xtask bench moving` controls this program through standard input.
//!
//! The connections take turns, so that both the requests and the migrations are evenly distributed
//! over a second. A connection migrates alternately to another address and to another port of the
//! same address. The latter looks like a NAT rebinding.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use clearway::Endpoint;
use clearway::http3::Client;
use http::Uri;
use peer_common::Pace;

use crate::attached::Steps;
use crate::connections::Record;
use crate::options::Mtu;
use crate::{Outcome, clients, http3, overload, tls};

/// Time to wait for responses after the last request.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of connections per endpoint, and therefore per thread. An endpoint has 256
/// sockets for migrating connections, and each connection briefly needs two.
const PER_ENDPOINT: usize = 100;
/// Interval between checks for completion.
const POLLING: Duration = Duration::from_millis(5);

#[derive(Args)]
pub(crate) struct MovingOptions {
    /// Certificate to trust, PEM.
    #[arg(long)]
    ca: PathBuf,
    /// The address of the server in 127.0.0.0/8, whose certificate must be for `localhost`.
    #[arg(long)]
    connect: SocketAddr,
    /// Number of connections.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=2000))]
    connections: u32,
    /// Requests per second on each connection.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    requests: u32,
    /// Duration in seconds.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: u32,
    /// Bytes in each response.
    #[arg(long, default_value_t = 1024)]
    size: u64,
}

/// The migrating connections and their results.
struct Movers {
    endpoints: Vec<Endpoint>,
    clients: Vec<Client>,
    url: Uri,
    size: u64,
    record: Record,
    moves: Moves,
}

/// Counters for migrations.
#[derive(Default)]
struct Moves {
    begun: AtomicU32,
    completed: AtomicU32,
    failed: AtomicU32,
    /// Total duration of the completed migrations in microseconds.
    microseconds: AtomicU64,
}

impl Moves {
    fn unfinished(&self) -> u32 {
        let [begun, completed, failed] =
            [&self.begun, &self.completed, &self.failed].map(|it| it.load(Ordering::SeqCst));
        begun.saturating_sub(completed + failed)
    }

    /// Records a migration that took this long, or that failed. Only the first errors are printed.
    fn add(&self, outcome: Result<Duration, String>) {
        match outcome {
            Ok(took) => {
                let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
                self.microseconds.fetch_add(took, Ordering::SeqCst);
                self.completed.fetch_add(1, Ordering::SeqCst);
            }
            Err(error) => {
                if self.failed.fetch_add(1, Ordering::SeqCst) < 10 {
                    eprintln!("clearway-bench: a connection could not migrate: {error}");
                }
            }
        }
    }

    /// Returns the counters as members of a JSON object. Unfinished migrations count as failed.
    fn summary(&self) -> String {
        let completed = self.completed.load(Ordering::SeqCst);
        let mean = self.microseconds.load(Ordering::SeqCst) / u64::from(completed.max(1));
        let failed = self.failed.load(Ordering::SeqCst) + self.unfinished();
        format!(r#""moved":{completed},"not_moved":{failed},"mean_move_us":{mean}"#)
    }
}

/// Opens the connections and prints `open N`. The next line on standard input starts the load and
/// the migrations. Prints the result when all of them have ended. The process exits when standard
/// input closes.
pub(crate) fn run(options: &MovingOptions, mtu: Mtu) -> Outcome {
    let steps = Steps::new();
    if !matches!(options.connect.ip(), IpAddr::V4(ip) if ip.is_loopback()) {
        return Err(format!("{} is not an address in 127.0.0.0/8", options.connect).into());
    }
    let movers = Arc::new(open(options, mtu)?);
    steps.wait(&format!("open {}", movers.clients.len()))?;
    let (seconds, count) = (options.seconds as usize, movers.clients.len());
    let requests = seconds * count * options.requests as usize;
    let (asking, moving) = (movers.clone(), movers.clone());
    Pace::new(requests as f64 / seconds as f64, requests).start(move |number, due| {
        ask(&asking, number % asking.clients.len(), due);
        true
    });
    Pace::new(count as f64, seconds * count).start(move |number, _due| {
        let (client, turn) = (number % moving.clients.len(), number / moving.clients.len());
        migrate(&moving, client, turn);
        true
    });
    std::thread::sleep(Duration::from_secs(options.seconds.into()));
    let ended = Instant::now();
    let is_complete = || {
        movers.record.asked.load(Ordering::SeqCst) == requests as u64
            && movers.record.unanswered() == 0
            && movers.moves.unfinished() == 0
    };
    while !is_complete() && ended.elapsed() < DRAIN_TIMEOUT {
        std::thread::sleep(POLLING);
    }
    let lost = movers.clients.iter().filter(|client| !client.is_open()).count();
    let (moves, record) = (movers.moves.summary(), movers.record.summary());
    steps.wait(&format!(r#"{{"lost":{lost},{moves},{record}}}"#))
}

fn open(options: &MovingOptions, mtu: Mtu) -> Outcome<Movers> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let config = tls::client(&options.ca, http3::ALPN, mtu)?;
    let count = options.connections as usize;
    let (mut endpoints, mut clients) = (Vec::new(), Vec::new());
    while clients.len() < count {
        let endpoint = Endpoint::client(local_address(clients.len(), 0))?;
        let more = PER_ENDPOINT.min(count - clients.len());
        let opening = clients::connect_at(&endpoint, config.clone(), options.connect, more);
        clients.extend(runtime.block_on(tokio::task::LocalSet::new().run_until(opening))?);
        endpoints.push(endpoint);
    }
    Ok(Movers {
        endpoints,
        clients,
        url: format!("https://localhost/zero/{}", options.size).parse()?,
        size: options.size,
        record: Record::default(),
        moves: Moves::default(),
    })
}

/// Makes a request on a connection. The task belongs to the endpoint, because tasks of a lost
/// connection do not run.
fn ask(movers: &Arc<Movers>, client: usize, due: Instant) {
    movers.record.asked.fetch_add(1, Ordering::SeqCst);
    let (movers, endpoint) = (movers.clone(), movers.endpoints[client / PER_ENDPOINT].clone());
    endpoint.spawn(async move {
        let asked = overload::ask(&movers.clients[client], movers.url.clone(), movers.size);
        let outcome = asked.await.map(|()| due.elapsed()).map_err(|error| error.to_string());
        movers.record.add(true, outcome);
    });
}

/// Migrates a connection that has already migrated `turn` times.
fn migrate(movers: &Arc<Movers>, client: usize, turn: usize) {
    movers.moves.begun.fetch_add(1, Ordering::SeqCst);
    let (movers, endpoint, began) =
        (movers.clone(), movers.endpoints[client / PER_ENDPOINT].clone(), Instant::now());
    endpoint.spawn(async move {
        let moved = movers.clients[client].migrate(local_address(client, turn)).await;
        let outcome = moved.map(|_| began.elapsed()).map_err(|error| error.to_string());
        movers.moves.add(outcome);
    });
}

/// Returns an address that no server is likely to use, with any port. Turns 2n and 2n + 1 have the
/// same IP address.
fn local_address(client: usize, turn: usize) -> SocketAddr {
    let [high, low] = u16::try_from(client).unwrap_or_default().to_be_bytes();
    let address = u8::try_from(1 + turn / 2 % 250).unwrap_or(1);
    SocketAddr::new(Ipv4Addr::new(127, address, high, low.max(1)).into(), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_ports_change_alternately() {
        assert_eq!(local_address(5, 0), "127.1.0.5:0".parse().unwrap());
        assert_eq!(local_address(5, 1), "127.1.0.5:0".parse().unwrap());
        assert_eq!(local_address(5, 2), "127.2.0.5:0".parse().unwrap());
        assert_eq!(local_address(700, 500), "127.1.2.188:0".parse().unwrap());
    }

    #[test]
    fn what_is_not_finished_has_not_moved() {
        let moves = Moves::default();
        moves.begun.store(4, Ordering::SeqCst);
        moves.add(Ok(Duration::from_micros(10)));
        moves.add(Ok(Duration::from_micros(20)));
        moves.add(Err("no answer".to_owned()));
        assert_eq!(moves.unfinished(), 1);
        assert_eq!(moves.summary(), r#""moved":2,"not_moved":2,"mean_move_us":15"#);
    }
}
