//! `clearway balance`: a QUIC load balancer.

mod backends;
mod check;
mod counts;
mod fleet;
mod metrics;
mod own;
mod retries;
mod routing;
mod sources;
mod summary;
mod supervise;
mod watch;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use clap::Args;
use clearway::rustls::time_provider::DefaultTimeProvider;
use clearway::{HotRestart, MAX_SHARDS, TicketKeys, Timestamp};
use clearway_balancer::{Limits, SharedIds};
use clearway_forward::{Forwarders, Options, Routing};
use clearway_network::parse_duration;
use clearway_transport::{RetryOffload, SharedTokens};
use clearway_units::Random;
use tokio::sync::{Notify, mpsc};

use crate::doctor::Carried;
use crate::exporter::MetricsOptions;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::listening::Listening;
use crate::replacing::{look_for, not_replaced};
use crate::{address, output, service_manager, system, ticket_keys};
use backends::Backends;
use counts::{FleetCounts, ShardCounts};
use fleet::Fleet;
use metrics::Counted;
use retries::{Retries, SharedLimit};
use routing::{ShardRouting, SharedPool};
use sources::Sources;
use summary::Summary;
use supervise::Supervisor;

/// Load-balance QUIC; connections stay on their server when clients migrate.
///
/// The balancer does not decrypt traffic and needs no certificate: it reads the server from the
/// connection ID (QUIC-LB, draft-ietf-quic-load-balancers), as issued by clearway serve --quic-lb.
/// New clients are distributed by a hash of their address (Maglev); all balancers with the same
/// file compute the same result. Clearway servers receive the client's address in a preface before
/// each datagram (serve --balancer). Other servers, whose connection IDs do not encode a server ID,
/// need state: the balancer remembers their clients and the connection IDs that it observes.
///
/// The file lists the servers, or the sources to discover them from: DNS, etcd, or a Kubernetes
/// service. It is reloaded when it changes, and on SIGHUP. An invalid file is reported with line
/// and column, and the current servers stay in use, as they do while a source does not respond.
/// Servers are checked with QUIC handshakes. A server that is down gets no datagrams, unless all
/// are down; a server that recovers gets new clients gradually. Interrupt the balancer (Ctrl-C) to
/// print its counters. docs/fleet.md describes fleets of balancers, key rotation and capacity.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct BalanceCommand {
    /// The address that clients connect to; port 0 selects any free port.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:4433", value_parser = address::parse)]
    listen: SocketAddr,
    /// The TOML file with the servers or their sources.
    #[arg(long, value_name = "FILE")]
    backends: PathBuf,
    /// Only check the file and print a summary; the exit status is 0 if it is valid.
    #[arg(long)]
    check: bool,
    /// Number of threads, 1 to 256, each with its own sockets [default: one per core].
    ///
    /// Clients are distributed across the threads. The default counts the cores that this program
    /// may use.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=MAX_SHARDS as i64))]
    shards: Option<u16>,
    /// Maximum number of clients per server without prefaces, in each thread.
    ///
    /// Each of these clients uses one socket. An IPv4 address or IPv6 /64 can use up to four fifths
    /// of them, or fewer while other clients use many.
    #[arg(long, value_name = "COUNT", default_value = "4096", value_parser = clap::value_parser!(u16).range(1..=60_000))]
    ports: u16,
    /// How long to remember a client of a server without prefaces or server IDs.
    ///
    /// The time is measured from the client's last datagram. It should be longer than the idle
    /// timeout of the connections.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_idle)]
    idle: Duration,
    /// Maximum number of clients to remember in each thread.
    ///
    /// The same number of connections to servers that have no server ID is remembered, too; a
    /// client and a connection together take 208 bytes. Connections with a server ID need an entry
    /// only during their first round trip.
    #[arg(long, value_name = "COUNT", default_value_t = 1 << 17, value_parser = clap::value_parser!(u32).range(1..=1 << 26))]
    remember: u32,
    /// Replace the balancer at this unix socket without losing datagrams.
    ///
    /// If no balancer is running there, this one starts normally, and a later one can replace it in
    /// the same way. The new balancer takes over the sockets and the tables, and the old one exits.
    /// Both need the same --listen and --shards. If the new one cannot start, the old one
    /// continues. Only this user can use the socket.
    #[arg(long, value_name = "SOCKET")]
    hot_restart: Option<PathBuf>,
    /// File with the keys of address validation tokens; required for [retry].
    ///
    /// This must be the same file as --ticket-keys of all servers. It is reloaded when it changes.
    /// The clocks of the balancer and the servers must differ by less than a minute.
    #[arg(long, value_name = "FILE")]
    ticket_keys: Option<PathBuf>,
    #[command(flatten)]
    metrics: MetricsOptions,
    /// Do not print when servers go up or down.
    #[arg(long, short)]
    quiet: bool,
    /// Print the result of --check, or the counters, as one JSON object.
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
The file (TOML); everything that is not marked as optional is required:
  seed = 0                      # optional; must be the same on all balancers, or they select different servers
  [[config]]                    # optional; formats of connection IDs, up to seven at a time
  id = 0                        # 0 to 6, the first three bits of each connection ID
  server-id-length = 2          # octets, 1 to 15
  nonce-length = 14             # octets, at least 4; a total of 16 octets is decrypted fastest
  key = \"<32 hex digits>\"       # optional; without it everyone can read the server ID
  further-octets = 1            # optional; octets that servers append: by default 1 with a key, 0 without
  [[server]]
  name = \"a\"
  address = \"192.0.2.1:4433\"
  server-id = { 0 = \"0a01\" }    # for each config, or just \"0a01\" if there is only one
  server-id-base64 = \"…\"        # alternative to server-id, in AWS's format
  weight = 1                    # optional, 0 to 1000: the server's relative share of new clients
  drain = false                 # optional; true: no new clients
  preface = true                # optional; false for servers other than clearway serve --balancer
  id-length = 8                 # optional; connection ID length in octets, for a server that has no server ID
  [[source]]                    # optional; a source of more servers
  dns = \"_quic._udp.example.com\"  # SRV records; or \"web.example.com:443\" for its addresses
  resolver = \"192.0.2.53:53\"    # optional; by default the name servers of this system
  server-id = \"stated\"          # \"stated\" (by the source), \"address\", \"none\", or a table { name = \"0a01\" } with all servers
  preface = true                # optional, as above; so is id-length
  [[source]]
  etcd = [\"https://192.0.2.7:2379\"]  # the etcd members; the first one that responds is used
  prefix = \"clearway/web/\"      # prefix of the servers' keys; an example value: {\"address\": \"192.0.2.1:443\", \"server-id\": \"0a01\"}
  ca = \"ca.pem\"                 # optional; also cert and key, for a client certificate
  server-id = \"stated\"
  [[source]]
  kubernetes = \"default/web\"    # a service: namespace and name
  port = \"quic\"                 # its name or number; optional if there is only one UDP port
  api = \"https://192.0.2.8:6443\"  # optional in a pod, as are the files token and ca
  server-id = \"address\"
  [health]                      # optional
  interval = \"500ms\"
  timeout = \"1s\"
  down-after = 3
  up-after = 2
  slow-start = \"30s\"
  server-name = \"localhost\"
  application-protocol = \"h3\"
  off = false
  [retry]                       # optional; needs --ticket-keys, here and on the servers
  above = 10000                 # send Retry to new clients above this many Initial packets per second;
                                # 0: always

Examples:
  Check a file, and print a summary:
    clearway balance --check --backends backends.toml
  Balance publicly, with metrics for Prometheus:
    clearway balance --listen 0.0.0.0:443 --backends backends.toml --metrics 127.0.0.1:9434
  Replace the running balancer with a new version without losing datagrams (run the same command again):
    clearway balance --listen 0.0.0.0:443 --backends backends.toml --hot-restart /run/balance/restart
  Balance three servers on this machine that do not support prefaces (preface = false in the file):
    clearway serve --listen 127.0.0.1:5001 …
    clearway balance --listen 127.0.0.1:4433 --backends backends.toml
    clearway get --ca /tmp/cert.pem https://localhost:4433/file";

fn parse_idle(input: &str) -> Result<Duration, String> {
    match parse_duration(input).map_err(|error| error.to_string())? {
        Duration::ZERO => Err("must be longer than 0".to_owned()),
        idle => Ok(idle),
    }
}

/// Runs the command.
pub(crate) async fn run(command: BalanceCommand) -> Result<(), Failure> {
    let (backends, watch) = watch::read(command.backends.clone(), command.listen)?;
    if command.check {
        return output::result(&match command.json {
            true => backends.json().to_string(),
            false => backends.text(),
        });
    }
    let backends = watch::with_keys(backends, command.ticket_keys.is_some())?;
    let keys = command.ticket_keys.as_deref().map(ticket_keys::follow).transpose()?;
    let (mut interrupt, [hung_up]) = Interrupt::listen_and_reload()?;
    let mut sources = Sources::start(backends, command.listen);
    let waiting =
        |why: &str| output::status(&format!("clearway: waiting for the list of servers: {why}"));
    let backends = tokio::select! {
        signal = interrupt.received() => {
            let what = "interrupted while waiting for the list of servers";
            return Err(Failure::interrupted(signal, what));
        }
        first = sources.first(waiting) => first?,
    };
    // This must not happen earlier: the process that is being replaced continues until this one has
    // its list of servers.
    let (hot_restart, replaced) = restart(command.hot_restart.as_deref()).await?;
    let is_replacing = hot_restart.as_ref().is_some_and(HotRestart::replaces);
    let exporter = command.metrics.listen(is_replacing).await?;
    let summary = backends.summary();
    let balancer = Balancer::start(&command, backends, keys, hot_restart)?;
    let counted = balancer.counted.clone();
    // The port may have been chosen by the system.
    sources.listening_on(balancer.local_address)?;
    if let Some(exporter) = exporter {
        let told = counted.clone();
        let doctor = Carried::start(move || metrics::application(&told))?;
        tokio::spawn(exporter.run(metrics::registry(counted.clone(), doctor)));
    }
    output::settle();
    output::event(&format!("listening on {} for {summary}", balancer.local_address));
    service_manager::ready();
    let (file_sender, file) = mpsc::channel(1);
    let has_keys = command.ticket_keys.is_some();
    tokio::spawn(watch.run(has_keys, balancer.local_address, hung_up, file_sender));
    let (sender, changes) = mpsc::channel(1);
    tokio::select! {
        _ = interrupt.received() => {}
        () = replaced.notified() => output::status("another process has replaced this one"),
        never = sources.run(file, sender) => match never {},
        never = balancer.supervisor.run(changes) => match never {},
    }
    let summary = Summary::of(&counted);
    output::last_result(&match command.json {
        true => summary.json().to_string(),
        false => summary.text(),
    })
}

/// A running load balancer.
struct Balancer {
    local_address: SocketAddr,
    supervisor: Supervisor,
    counted: Arc<Counted>,
}

impl Balancer {
    fn start(
        command: &BalanceCommand,
        backends: Backends,
        keys: Option<TicketKeys>,
        hot_restart: Option<HotRestart>,
    ) -> Result<Self, Failure> {
        let retry_limit = Arc::new(SharedLimit::new(backends.retry_above));
        report_skipped(&backends);
        let skipped = backends.skipped.len();
        let origin = Instant::now();
        let (fleet, pool) = Fleet::start(backends, Timestamp::ORIGIN).map_err(|error| {
            Failure::new(format!(
                "cannot use the backends file {}: {error}",
                command.backends.display()
            ))
        })?;
        let pool: SharedPool = Arc::new(ArcSwap::new(pool));
        let there_are = hot_restart.as_ref().and_then(HotRestart::shards);
        let count = shards(command.shards, there_are);
        let shards: Vec<_> = (0..count).map(|_| Arc::default()).collect();
        let known = Known { pool: pool.clone(), retry_limit: retry_limit.clone(), keys };
        let forwarders = forward(command, &known, &shards, hot_restart)?;
        let local_address = forwarders.local_address();
        let counts = Arc::new(FleetCounts::default());
        let counted = Arc::new(Counted {
            forwarded: Box::new(move || forwarders.statistics()),
            shards,
            fleet: counts.clone(),
            pool: pool.clone(),
        });
        counts.skipped(skipped);
        let supervisor = Supervisor::new(fleet, origin, (pool, retry_limit), counts, command.quiet);
        Ok(Self { local_address, supervisor, counted })
    }
}

/// Maximum number of skipped source entries to report at a time.
const MAX_REPORTED: usize = 5;

/// Reports which source entries were skipped.
fn report_skipped(backends: &Backends) {
    for why in backends.skipped.iter().take(MAX_REPORTED) {
        output::status(&format!("clearway: skipped a source entry: {why}"));
    }
    let more = backends.skipped.len().saturating_sub(MAX_REPORTED);
    if more > 0 {
        output::status(&format!("clearway: skipped {more} more source entries"));
    }
}

/// State shared by the forwarding threads.
struct Known {
    pool: SharedPool,
    retry_limit: Arc<SharedLimit>,
    /// The keys that protect Retry tokens.
    keys: Option<TicketKeys>,
}

impl Known {
    /// Creates the Retry handling of one of `threads` threads.
    fn retries(&self, threads: usize, random: Random) -> Option<Retries> {
        let keys = self.keys.clone()?;
        let tokens = SharedTokens { keys, clock: Arc::new(DefaultTimeProvider) };
        let offload = RetryOffload::new(tokens, random);
        Some(Retries::new(self.retry_limit.clone(), threads, offload))
    }
}

/// Starts the forwarding threads.
fn forward(
    command: &BalanceCommand,
    known: &Known,
    counts: &[Arc<ShardCounts>],
    hot_restart: Option<HotRestart>,
) -> Result<Forwarders, Failure> {
    system::permit_all_descriptors();
    let seed = clearway_io::seed().map_err(|error| {
        Failure::new(format!("cannot get random numbers from the system: {error}"))
    })?;
    let entries = usize::try_from(command.remember).unwrap_or(usize::MAX);
    let limits = Limits { flows: entries, learned: entries, lifetime: command.idle };
    let options = Options {
        listen: command.listen,
        shards: at_least_one(counts.len()),
        ports: at_least_one(command.ports.into()),
        idle: command.idle,
    };
    let mut random = Random::from_seed(seed);
    let shared = Arc::new(SharedIds::new(limits, counts.len(), random.fork()));
    let mut routing = |shard: usize| -> Box<dyn Routing> {
        let of_shard = counts.get(shard).cloned().unwrap_or_default();
        let routing = ShardRouting::new(&known.pool, limits, &shared, of_shard);
        match known.retries(counts.len(), random.fork()) {
            Some(retries) => Box::new(routing.with_retries(retries)),
            None => Box::new(routing),
        }
    };
    clearway_forward::spawn(options, &mut routing, hot_restart).map_err(|error| {
        match error.get_ref().and_then(|cause| cause.downcast_ref()) {
            Some(error) => not_replaced(error),
            None => Listening::UDP.failed(command.listen, &error),
        }
    })
}

/// Looks for a balancer to replace. The returned notification fires when this process has itself
/// been replaced.
async fn restart(path: Option<&Path>) -> Result<(Option<HotRestart>, Arc<Notify>), Failure> {
    let replaced = Arc::new(Notify::new());
    let Some(path) = path else { return Ok((None, replaced)) };
    let mut found = look_for(path, HotRestart::of_balancer_at).await?;
    let notified = replaced.clone();
    found.on_replaced(move || notified.notify_one());
    Ok((Some(found), replaced))
}

/// Returns the number of threads: the requested number, the replaced balancer's number, or the
/// number of cores.
fn shards(asked: Option<u16>, there_are: Option<usize>) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    asked.map(usize::from).or(there_are).unwrap_or_else(cores).min(MAX_SHARDS)
}

fn at_least_one(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_threads_as_asked_for() {
        assert_eq!(shards(Some(3), Some(5)), 3);
        assert_eq!(shards(None, Some(5)), 5, "as many as the replaced balancer has");
        assert_eq!(shards(None, Some(MAX_SHARDS + 1)), MAX_SHARDS);
        assert!((1..=MAX_SHARDS).contains(&shards(None, None)));
        assert_eq!([0, 1, 7].map(|count| at_least_one(count).get()), [1, 1, 7]);
    }

    #[test]
    fn a_client_is_remembered_for_some_time() {
        assert_eq!(parse_idle("1ms"), Ok(Duration::from_millis(1)));
        assert_eq!(parse_idle("0s"), Err("must be longer than 0".to_owned()));
        assert!(parse_idle("60").is_err());
    }

    /// Retry tokens require the servers' keys.
    #[test]
    fn retries_need_keys() {
        for (more, has_keys, is_ok) in [
            ("", false, true),
            ("", true, true),
            ("[retry]\nabove = 0\n", true, true),
            ("[retry]\nabove = 0\n", false, false),
        ] {
            let file = format!("[[server]]\nname = \"a\"\naddress = \"192.0.2.1:1\"\n{more}");
            let backends = Backends::parse(&file).unwrap_or_else(|fault| panic!("{fault:?}"));
            let checked = watch::with_keys(backends, has_keys);
            assert_eq!(checked.is_ok(), is_ok, "{more} {has_keys}");
        }
    }
}
