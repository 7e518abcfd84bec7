//! `clearway balance`: a load balancer for QUIC.

mod backends;
mod check;
mod counts;
mod fleet;
mod metrics;
mod routing;
mod summary;
mod supervise;
mod watch;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use clap::Args;
use clearway::{MAX_SHARDS, Timestamp};
use clearway_balancer::{Limits, SharedIds};
use clearway_io::{ForwardOptions, Forwarders, Routing, spawn_forwarders};
use clearway_network::parse_duration;
use clearway_units::Random;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::mpsc;

use crate::exporter::MetricsOptions;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::listening::Listening;
use crate::output;
use backends::Backends;
use counts::{FleetCounts, ShardCounts};
use fleet::Fleet;
use metrics::Counted;
use routing::{ShardRouting, SharedPool};
use summary::Summary;
use supervise::Supervisor;

/// Divide QUIC connections among servers, and keep each at its server wherever its client moves to.
///
/// Nothing is decrypted and no certificate is needed: the balancer reads the server from the connection ID (QUIC-LB,
/// draft-ietf-quic-load-balancers), which servers of this program issue with --quic-lb. New clients are divided by a hash of
/// their address that every balancer with the same file computes alike (Maglev). Servers of this program get each datagram with
/// the client's address before it (serve --balancer). Before other servers, whose connection IDs say nothing, the balancer
/// remembers clients and the connection IDs that it sees.
///
/// The file is read again when it changes, and at SIGHUP: a wrong one is reported with line and column, and the servers stay as
/// they were. Servers are checked with a QUIC handshake; one that is down gets nothing, unless all are, and one that is up again
/// gets new clients little by little. Interrupt it (Ctrl-C) to print what was forwarded. docs/fleet.md has more on several
/// balancers, on the rotation of keys, and on sizes.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct BalanceCommand {
    /// The address that clients send to; port 0 means any free port.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4433")]
    listen: SocketAddr,
    /// The file with the servers.
    #[arg(long, value_name = "FILE")]
    backends: PathBuf,
    /// Only check the file, and print what is in it: exit status 0 if nothing is wrong.
    #[arg(long)]
    check: bool,
    /// Divide the clients among this many threads, 1 to 256, each with sockets of its own. By default one for each core that
    /// this program may use.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=MAX_SHARDS as i64))]
    shards: Option<u16>,
    /// For servers without preface: the most clients that such a server has at a time from each thread. Each of them takes a
    /// socket.
    #[arg(long, value_name = "COUNT", default_value = "4096", value_parser = clap::value_parser!(u16).range(1..=60_000))]
    ports: u16,
    /// For servers without preface or without server ID: how long a client is remembered after its last datagram. It should be
    /// longer than the idle timeout of connections.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_idle)]
    idle: Duration,
    /// Remember at most this many clients, and as many connections of servers without server ID, in each thread; 208 bytes for
    /// both. Connections with a server ID need it for the first round trip only.
    #[arg(long, value_name = "COUNT", default_value_t = 1 << 17, value_parser = clap::value_parser!(u32).range(1..=1 << 26))]
    remember: u32,
    #[command(flatten)]
    metrics: MetricsOptions,
    /// Do not print when servers come up or go down.
    #[arg(long, short)]
    quiet: bool,
    /// Print the outcome of --check, or what was forwarded, as one JSON object.
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
The file (TOML); what is not shown as optional has to be there:
  seed = 0                      # optional; the same on all balancers, otherwise they divide clients differently
  [[config]]                    # optional; what connection IDs look like, up to seven at a time
  id = 0                        # 0 to 6, the first three bits of each connection ID
  server-id-length = 2          # octets, 1 to 15
  nonce-length = 14             # octets, at least 4; 16 octets together are decrypted fastest
  key = \"<32 hex digits>\"       # optional; without it everyone can read the server ID
  further-octets = 1            # optional; what servers add: by default 1 with a key, 0 without
  [[server]]
  name = \"a\"
  address = \"192.0.2.1:4433\"
  server-id = { 0 = \"0a01\" }    # for each config, or just \"0a01\" if there is one
  server-id-base64 = \"…\"        # instead: as AWS writes it
  weight = 1                    # optional, 0 to 1000: its part of new clients
  drain = false                 # optional; true: no new clients
  preface = true                # optional; false for servers other than clearway serve --balancer
  id-length = 8                 # optional; octets in the connection IDs of a server without server ID
  [health]                      # optional
  interval = \"500ms\"
  timeout = \"1s\"
  down-after = 3
  up-after = 2
  slow-start = \"30s\"
  server-name = \"localhost\"
  application-protocol = \"h3\"
  off = false

Examples:
  Say what is wrong in a file, or what is in it:
    clearway balance --check --backends backends.toml
  Balance for everyone, with metrics for Prometheus:
    clearway balance --listen 0.0.0.0:443 --backends backends.toml --metrics 127.0.0.1:9434
  Three servers on this machine, which know nothing of the balancer (preface = false in the file):
    clearway serve --listen 127.0.0.1:5001 …
    clearway balance --listen 127.0.0.1:4433 --backends backends.toml
    clearway get --ca /tmp/cert.pem https://localhost:4433/file";

fn parse_idle(input: &str) -> Result<Duration, String> {
    match parse_duration(input).map_err(|error| error.to_string())? {
        Duration::ZERO => Err("it must be longer than 0".to_owned()),
        idle => Ok(idle),
    }
}

/// Runs the command.
pub(crate) async fn run(command: BalanceCommand) -> Result<(), Failure> {
    let (backends, watch) = watch::read(command.backends.clone())?;
    if command.check {
        return output::result(&match command.json {
            true => backends.json().to_string(),
            false => backends.text(),
        });
    }
    let exporter = command.metrics.listen(false).await?;
    let (mut interrupt, [hung_up]) = Interrupt::listen_and_reload()?;
    let summary = backends.summary();
    let balancer = Balancer::start(&command, backends)?;
    let counted = balancer.counted.clone();
    if let Some(exporter) = exporter {
        tokio::spawn(exporter.run(metrics::registry(counted.clone())));
    }
    output::result(&format!("listening on {} for {summary}", balancer.local_address))?;
    let (sender, file) = mpsc::channel(1);
    tokio::spawn(watch.run(hung_up, sender));
    tokio::select! {
        _ = interrupt.received() => {}
        never = balancer.supervisor.run(file) => match never {},
    }
    let summary = Summary::of(&counted);
    output::result(&match command.json {
        true => summary.json().to_string(),
        false => summary.text(),
    })
}

/// A balancer that forwards.
struct Balancer {
    local_address: SocketAddr,
    supervisor: Supervisor,
    counted: Arc<Counted>,
}

impl Balancer {
    fn start(command: &BalanceCommand, backends: Backends) -> Result<Self, Failure> {
        let origin = Instant::now();
        let (fleet, pool) = Fleet::start(backends, Timestamp::ORIGIN).map_err(|error| {
            Failure::new(format!("cannot use {}: {error}", command.backends.display()))
        })?;
        let pool: SharedPool = Arc::new(ArcSwap::new(pool));
        let shards: Vec<_> = (0..shards(command.shards)).map(|_| Arc::default()).collect();
        let forwarders = forward(command, &pool, &shards)?;
        let local_address = forwarders.local_address();
        let counts = Arc::new(FleetCounts::default());
        let counted = Arc::new(Counted {
            forwarded: Box::new(move || forwarders.statistics()),
            shards,
            fleet: counts.clone(),
            pool: pool.clone(),
        });
        let supervisor = Supervisor::new(fleet, origin, pool, counts, command.quiet);
        Ok(Self { local_address, supervisor, counted })
    }
}

/// Starts the threads that forward.
fn forward(
    command: &BalanceCommand,
    pool: &SharedPool,
    counts: &[Arc<ShardCounts>],
) -> Result<Forwarders, Failure> {
    permit_descriptors();
    let seed = clearway_io::seed()
        .map_err(|error| Failure::new(format!("the system gives no random numbers: {error}")))?;
    let entries = usize::try_from(command.remember).unwrap_or(usize::MAX);
    let limits = Limits { flows: entries, learned: entries, lifetime: command.idle };
    let options = ForwardOptions {
        listen: command.listen,
        shards: at_least_one(counts.len()),
        ports: at_least_one(command.ports.into()),
        idle: command.idle,
    };
    let shared = Arc::new(SharedIds::new(limits, counts.len(), Random::from_seed(seed)));
    let mut routing = |shard: usize| -> Box<dyn Routing> {
        let counts = counts.get(shard).cloned().unwrap_or_default();
        Box::new(ShardRouting::new(pool, limits, &shared, counts))
    };
    spawn_forwarders(options, &mut routing)
        .map_err(|error| Listening::UDP.failed(command.listen, &error))
}

/// As many threads as were asked for, or as there are cores.
fn shards(asked: Option<u16>) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    asked.map_or_else(cores, usize::from).min(MAX_SHARDS)
}

fn at_least_one(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN)
}

/// Permits this process as many descriptors as it may have: by default it has 1,024, and each client of a server without
/// preface takes one.
fn permit_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    // Without them, further clients are dropped, which is counted.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
