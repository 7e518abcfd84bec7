//! `clearway serve`: a file server.

mod access_log;
mod answer;
mod answering;
mod authority;
pub(crate) mod certificates;
mod conditions;
mod files;
mod http09;
mod http3;
mod identity;
mod memory;
pub(crate) mod metrics;
mod place;
mod quic_lb;
mod reload;
mod reserve;
pub(crate) mod restart;
mod store;
mod tunnel;
mod watcher;

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clearway::http3::{Config, Timeouts};
use clearway::{
    ConfigError, Endpoint, EndpointError, MAX_SHARDS, MAX_SHARDS_WITH_HOT_RESTART, MemoryBudget,
    PreferredAddressUnusable, ServerConfig, Version,
};
use clearway_network::parse_duration;

use crate::connection_options::ConnectionOptions;
use crate::exporter::MetricsOptions;
use crate::failure::Failure;
use crate::http3_options::{Http3Options, with_datagrams};
use crate::interrupt::Interrupt;
use crate::key_exchange::KeyExchangeOptions;
use crate::listening::Listening;
use crate::live::{LiveOptions, Traces};
use crate::log::LogOptions;
use crate::replacing::not_replaced;
use crate::units::size_of_at_least_1_mib;
use crate::{address, output, quic_version, service_manager, system, ticket_keys};
use access_log::AccessLog;
use authority::AuthorityOptions;
use certificates::{CertificateOptions, Presented};
use files::Files;
use metrics::Requests;
use quic_lb::Following;
use restart::{Beginning, Ending, RestartOptions};
use store::Store;

/// Serve the files of a folder over HTTP/3.
///
/// Without --cert and --key, the server generates a self-signed certificate for localhost,
/// 127.0.0.1 and ::1; clients can trust it with the file that --save-cert writes. On SIGHUP, the
/// server reloads its certificates and those of --client-ca. Responses are scheduled by the
/// clients' priorities (RFC 9218). If a service manager passes UDP sockets (LISTEN_FDS), the server
/// uses them, with a thread for each. When interrupted (Ctrl-C, SIGTERM), the server stops
/// accepting requests (GOAWAY), completes those in progress, and exits; interrupted again, it exits
/// immediately. SSLKEYLOGFILE is honored.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ServeCommand {
    /// The folder to serve.
    #[arg(default_value = ".", value_name = "DIR")]
    root: PathBuf,
    /// The address to listen on; port 0 selects any free port.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:4433", value_parser = address::parse)]
    listen: SocketAddr,
    /// Preferred address: clients migrate there after the handshake (RFC 9000 §9.6).
    ///
    /// The server listens there as well; port 0 selects any free port. May be given twice, for IPv4
    /// and for IPv6. Clients of the other family stay at --listen, as do those that get no response
    /// from this address.
    #[arg(long, value_name = "ADDR", value_parser = address::parse)]
    preferred_address: Vec<SocketAddr>,
    /// Number of threads, 1 to 256, each with its own socket [default: one per core].
    ///
    /// Clients are distributed across the threads, which all listen on the same addresses.
    /// Connections stay on their threads when clients migrate (by eBPF with CAP_BPF, otherwise by
    /// classic BPF). The default counts the cores that this program may use. Systems other than
    /// Linux have one thread.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=MAX_SHARDS as i64))]
    shards: Option<u16>,
    #[command(flatten)]
    restart: RestartOptions,
    #[command(flatten)]
    certificates: CertificateOptions,
    #[command(flatten)]
    authorities: AuthorityOptions,
    #[command(flatten)]
    key_exchange: KeyExchangeOptions,
    /// Validate every client's address with a Retry packet, which costs a round trip.
    #[arg(long, conflicts_with = "retry_above")]
    retry: bool,
    /// Send Retry while at least COUNT handshakes are in progress.
    ///
    /// The server stops sending Retry when half that many remain.
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    retry_above: usize,
    /// Accept datagrams only from the load balancer at this address. May be repeated.
    ///
    /// Up to 256 addresses; datagrams from other addresses are dropped. The balancer, such as
    /// clearway balance, puts a preface with the client's address before each datagram, and expects
    /// one before each datagram to a client. Anyone who can send from the balancer's address can
    /// spoof any client address: put the server on a network that nobody else can reach.
    #[arg(long, value_name = "IP", conflicts_with = "preferred_address")]
    balancer: Vec<IpAddr>,
    /// Do not accept early data (0-RTT).
    ///
    /// By default it is accepted, because replaying the request for a file does no harm: only GET
    /// and HEAD are served, and any other method gets 425 (Too Early).
    #[arg(long)]
    no_early_data: bool,
    /// File with the keys of session tickets and address validation tokens.
    ///
    /// Tickets and tokens (Retry and NEW_TOKEN) are then accepted after a restart, and by other
    /// servers with the same file whose clocks differ by less than a minute. Each line is a key of
    /// 64 hexadecimal digits: the first one is used, an optional second one (the previous key) is
    /// still accepted. The file is reloaded when it changes. The stateless reset key is derived
    /// from the file, too: after a crash, a server with the same file, host name and address resets
    /// connections that it has no state for.
    #[arg(long, value_name = "FILE")]
    ticket_keys: Option<PathBuf>,
    /// Issue connection IDs for load balancers (QUIC-LB), as this TOML file configures.
    ///
    /// The keys of the file are config-id (0 to 6), server-id (hexadecimal) or server-id-base64,
    /// nonce-length (default 7), key (32 hexadecimal digits; without it, everyone can read the
    /// server ID) and encodes-length (default false). It is reloaded when it changes and on SIGHUP:
    /// the IDs of all clients are then replaced, and no connection is interrupted. Their length
    /// cannot change: it is the length of server ID and nonce, plus 2 with a key or 1 without.
    #[arg(long, value_name = "FILE")]
    quic_lb: Option<PathBuf>,
    /// Serve HTTP/0.9 (hq-interop) instead of HTTP/3.
    #[arg(long)]
    http09: bool,
    /// QUIC versions to support, in order of preference: 1, 2, or 1,2.
    ///
    /// A client that supports the preferred version is switched to it. By default both are
    /// supported, and a client keeps the version that it begins with.
    #[arg(long, value_name = "VERSIONS", value_delimiter = ',', value_parser = quic_version::parse)]
    quic_versions: Vec<Version>,
    /// Also serve files and folders whose names begin with a dot.
    ///
    /// Of these, only /.well-known is served by default.
    #[arg(long)]
    hidden: bool,
    /// Maximum number of files to keep open.
    #[arg(long, value_name = "COUNT", default_value = "256", value_parser = clap::value_parser!(u32).range(1..))]
    open_files: u32,
    /// Maximum total memory for unacknowledged content of all clients.
    ///
    /// A host (an IPv4 address or an IPv6 /64) gets at most a quarter of what is free, and a
    /// network (/24 or /48) half. Content is read when the client has granted flow control credit
    /// for it, and responses wait for memory. If memory is low, the server resets a response of
    /// the host that holds the most: the one whose client has accepted nothing for the longest
    /// time, at least two seconds. The default is at most a quarter of the memory of the machine or
    /// of this program's cgroup.
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = size_of_at_least_1_mib)]
    content_memory: u64,
    /// Maximum memory for connections [default: half of the available memory].
    ///
    /// The limit covers received data that is not read, sent data that is not acknowledged, and 8
    /// KiB for each connection. The default is half of the memory of the machine, or of this
    /// program's cgroup if that is less. From half of the limit on, clients whose host or network
    /// holds more than its share get no larger windows; from three quarters on, they get no new
    /// connections; and from seven eighths on, the server closes the largest connection of the host
    /// that holds the most.
    #[arg(long, value_name = "SIZE", value_parser = size_of_at_least_1_mib)]
    connection_memory: Option<u64>,
    /// Reset a response if its client accepts no data for this long.
    ///
    /// Other streams are not affected.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_timeout)]
    send_timeout: Duration,
    /// Reset an incomplete request if no data arrives for this long.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_timeout)]
    request_timeout: Duration,
    /// Time limit for responses in progress when the server is interrupted.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_timeout)]
    shutdown_timeout: Duration,
    /// Send all responses round-robin, regardless of the clients' priorities.
    #[arg(long, conflicts_with = "http09")]
    ignore_priorities: bool,
    /// Accept tunnels with the protocol "echo" (extended CONNECT, RFC 9220).
    ///
    /// The server sends back their content, including capsules, and their datagrams (RFC 9297), to
    /// test clients and paths.
    #[arg(long, conflicts_with = "http09")]
    echo: bool,
    /// Poll for datagrams for up to this long, at most 1ms, before a thread sleeps.
    ///
    /// This makes round trips with clients in the same machine or rack shorter, where waking a
    /// thread takes longer than the response. The thread's core is busy while each poll finds
    /// datagrams; after unsuccessful polls, polling becomes rare.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse_busy_poll)]
    busy_poll: Duration,
    /// Do not print a line for each request.
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    http3: Http3Options,
    #[command(flatten)]
    connection: ConnectionOptions,
    #[command(flatten)]
    live: LiveOptions,
    #[command(flatten)]
    metrics: MetricsOptions,
    #[command(flatten)]
    reports: LogOptions,
}

const AFTER_HELP: &str = "\
Examples:
  Serve the current folder to clients on this machine:
    clearway serve --save-cert /tmp/cert.pem
    clearway get --ca /tmp/cert.pem https://localhost:4433/README.md
  Serve a folder publicly, with a certificate from a CA:
    clearway serve /srv/www --listen 0.0.0.0:443 --cert fullchain.pem --key privkey.pem
  Serve two names, each with its own certificate, only to clients with a certificate from our CA:
    clearway serve --cert a.pem --key a.key --cert b.pem --key b.key --client-ca ca.pem
    clearway get --cert me.pem --key me.key https://a.example:4433/file
  Replace the running server with a new version without interrupting connections (run the same command again):
    clearway serve /srv/www --listen 0.0.0.0:443 --hot-restart /run/www/restart --cert … --key …
  Accept clients at an address that several machines share, and move them to this machine's own address:
    clearway serve --listen 192.0.2.1:443 --preferred-address 198.51.100.7:443 --cert … --key …
  Serve behind a QUIC-LB load balancer, with its configuration for this server:
    clearway serve /srv/www --listen 0.0.0.0:443 --quic-lb lb.toml --cert … --key …
  Export metrics to Prometheus, and log every connection on standard error:
    clearway serve /srv/www --metrics 127.0.0.1:9433 --log debug";

/// Upper limit for the default of `--content-memory`, in bytes.
const CONTENT_MEMORY: u64 = 256 << 20;

/// Returns the memory limit for content: `asked`, or else the default. The default is at most half
/// of the connections' default, which itself is half of the memory that this program may use.
fn content_memory(asked: u64) -> u64 {
    let share = MemoryBudget::of_process().map_or(u64::MAX, |budget| budget.limit() / 2);
    if asked == CONTENT_MEMORY { asked.min(share.max(1 << 20)) } else { asked }
}

/// Maximum number of connections, unless memory is low.
const MAX_CONNECTIONS: usize = 100_000;

pub(crate) fn parse_timeout(input: &str) -> Result<Duration, String> {
    match parse_duration(input).map_err(|error| error.to_string())? {
        Duration::ZERO => Err("must be longer than 0".to_owned()),
        timeout => Ok(timeout),
    }
}

fn parse_busy_poll(input: &str) -> Result<Duration, String> {
    match parse_duration(input).map_err(|error| error.to_string())? {
        limit if limit > Duration::from_millis(1) => Err("must be at most 1ms".to_owned()),
        limit => Ok(limit),
    }
}

/// Runs the command.
pub(crate) async fn run(command: ServeCommand) -> Result<(), Failure> {
    let open_files = usize::try_from(command.open_files).unwrap_or(usize::MAX);
    system::permit_all_descriptors();
    let store = Store::new(open_files, content_memory(command.content_memory));
    let files = Files::new(&command.root, command.hidden, store).map_err(|error| {
        Failure::new(format!("cannot serve {}: {error}", command.root.display()))
            .advise("choose a folder that this user may read")
    })?;
    check_shards(command.shards)?;
    command.reports.start();
    let beginning = command.restart.begin(command.listen).await?;
    let mut presented = command.certificates.present()?;
    let exporter = command.metrics.listen(beginning.is_replacing).await?;
    let requests = Requests::new();
    let live = command.live.start().await?;
    let listen = beginning.listen;
    let quic_lb = command.quic_lb.as_deref().map(Following::start).transpose()?;
    let mut config = config(&command, &presented, beginning, live)?;
    if let Some(following) = &quic_lb {
        config = config.quic_lb(following.config());
    }
    let log = AccessLog::new(command.quiet);
    let (interrupt, [to_certificates, to_roots, to_quic_lb]) = Interrupt::listen_and_reload()?;
    if let Some(reloading) = presented.reloading.take() {
        tokio::spawn(reloading.run(to_certificates));
    }
    if let Some(reloading) = presented.reloading_roots.take() {
        tokio::spawn(reloading.run(to_roots));
    }
    let follow = |endpoint: &Endpoint| {
        watcher::start(endpoint.clone());
        if let Some(following) = quic_lb {
            following.announce();
            tokio::spawn(following.run(endpoint.clone(), to_quic_lb));
        }
    };
    let (timeout, drain) = (command.shutdown_timeout, command.restart.drain());
    let ending = Ending { interrupt, timeout, drain };
    let timeouts = Timeouts { request: command.request_timeout, send: command.send_timeout };
    let (answering, all_answered) = answering::answering();
    if command.http09 {
        let server = http09::Http09::bind(listen, config)?;
        if let Some(exporter) = exporter {
            metrics::start(exporter, server.endpoint().clone(), &requests, &files.store)?;
        }
        server.endpoint().set_busy_poll(command.busy_poll);
        follow(server.endpoint());
        announce(&command, &presented, server.endpoint(), "hq-interop")?;
        let endpoint = server.endpoint().clone();
        server
            .run(http09::Site { files, log, timeouts, _answering: answering }, ending, all_answered)
            .await;
        check(&endpoint)?;
    } else {
        let http3 = Config {
            prioritize: !command.ignore_priorities,
            extended_connect: command.echo,
            datagrams: command.echo,
            ..command.http3.config()
        };
        let server = http3::Http3::bind(listen, config, http3, timeouts)?;
        if let Some(exporter) = exporter {
            metrics::start(exporter, server.endpoint().clone(), &requests, &files.store)?;
        }
        server.endpoint().set_busy_poll(command.busy_poll);
        follow(server.endpoint());
        announce(&command, &presented, server.endpoint(), "h3")?;
        let authorities = command.authorities.authorities(presented.certificates.clone());
        let site = http3::Site { files, authorities, log, requests, _answering: answering };
        let endpoint = server.endpoint().clone();
        server.run(site, ending, all_answered).await;
        check(&endpoint)?;
    }
    Ok(())
}

/// Returns an error if a shard has ended on its own.
fn check(endpoint: &Endpoint) -> Result<(), Failure> {
    match endpoint.failure() {
        Some(failure) => Err(Failure::new(format!("a shard of the server has exited: {failure}"))),
        None => Ok(()),
    }
}

fn config(
    command: &ServeCommand,
    presented: &Presented,
    beginning: Beginning,
    live: Option<Traces>,
) -> Result<ServerConfig, Failure> {
    let mut transport = command.connection.transport();
    if command.echo {
        transport = with_datagrams(transport);
    }
    quic_version::check(&command.quic_versions)?;
    if !command.quic_versions.is_empty() {
        let versions = command.quic_versions.iter().copied();
        transport = transport.versions(versions).prefers_own_version(true);
    }
    let transport = transport.build().map_err(|error| Failure::new(error.to_string()))?;
    let observers = command.connection.observers(&transport, live)?;
    let config = command.certificates.configure(presented);
    let config = match command.key_exchange.groups() {
        Some(groups) => config.key_exchange_groups(groups),
        None => config,
    };
    let config = config
        .transport(transport)
        .shards(shards(command.shards, beginning.shards, command.restart.is_given()))
        .retry_above(if command.retry { 0 } else { command.retry_above })
        .balancers(command.balancer.iter().copied())
        .early_data(!command.no_early_data)
        .key_log_from_environment();
    let budget = match command.connection_memory {
        Some(limit) => Some(MemoryBudget::new(limit)),
        None => system::memory_budget(),
    };
    let config = match budget {
        Some(budget) => {
            let max_connections = budget.max_connections().min(MAX_CONNECTIONS);
            config.memory_budget(budget).max_connections(max_connections)
        }
        None => config,
    };
    let config = match &command.ticket_keys {
        Some(file) => config.ticket_keys(ticket_keys::follow(file)?),
        None => config,
    };
    let config = prefer(beginning.configure(config), &command.preferred_address)?;
    Ok(match observers {
        Some(observers) => config.observer(observers),
        None => config,
    })
}

/// Returns the number of shards: the requested one, the number of inherited sockets, or the number
/// of cores.
fn shards(count: Option<u16>, given: Option<NonZeroUsize>, can_be_replaced: bool) -> NonZeroUsize {
    let asked = count.and_then(|count| NonZeroUsize::new(count.into()));
    let cores = || {
        let most = if can_be_replaced { MAX_SHARDS_WITH_HOT_RESTART } else { MAX_SHARDS };
        let cores = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let most = cores.min(NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN));
        system::shards_at_port(most)
    };
    asked.or(given).unwrap_or_else(cores)
}

/// Fails if this system cannot run the requested number of shards.
fn check_shards(count: Option<u16>) -> Result<(), Failure> {
    let asked = count.and_then(|count| NonZeroUsize::new(count.into()));
    match asked {
        Some(count) if system::shards_at_port(count) < count => {
            Err(Failure::new(format!("cannot start {count} threads: only Linux distributes datagrams among the sockets of a port"))
                .advise("omit --shards"))
        }
        _ => Ok(()),
    }
}

/// Returns the configuration with the preferred addresses, at most one per family.
fn prefer(mut config: ServerConfig, addresses: &[SocketAddr]) -> Result<ServerConfig, Failure> {
    for (at, address) in addresses.iter().enumerate() {
        if addresses[..at].iter().any(|other| other.is_ipv4() == address.is_ipv4()) {
            let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
            return Err(Failure::new(format!("two preferred {family} addresses were given"))
                .advise("use --preferred-address once for IPv4 and once for IPv6"));
        }
        config = match *address {
            SocketAddr::V4(v4) => config.preferred_address_v4(v4),
            SocketAddr::V6(v6) => config.preferred_address_v6(v6),
        };
    }
    Ok(config)
}

/// Prints the addresses of the server, and how clients can be made to trust a generated
/// certificate.
fn announce(
    command: &ServeCommand,
    presented: &Presented,
    endpoint: &Endpoint,
    protocol: &str,
) -> Result<(), Failure> {
    command.certificates.announce(presented)?;
    let v4 = endpoint.preferred_address_v4().map(SocketAddr::from);
    let v6 = endpoint.preferred_address_v6().map(SocketAddr::from);
    for preferred in v4.into_iter().chain(v6) {
        output::status(&format!("clients migrate to {preferred}"));
    }
    if let Some(steering) = endpoint.steering() {
        let count = endpoint.shard_statistics().len();
        output::status(&format!("{count} shards, steered {steering}"));
    }
    output::settle();
    output::event(&format!("listening on https://{} ({protocol})", endpoint.local_address()));
    service_manager::ready();
    Ok(())
}

/// Returns the failure that explains why a server cannot start.
pub(crate) fn cannot_serve(listen: SocketAddr, error: EndpointError) -> Failure {
    match error {
        EndpointError::Io(error) => {
            if let Some(error) = error.get_ref().and_then(|cause| cause.downcast_ref()) {
                return not_replaced(error);
            }
            let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
            match cause {
                Some(PreferredAddressUnusable { address, error, .. }) => {
                    Listening::PREFERRED.failed(*address, error)
                }
                None => Listening::UDP.failed(listen, &error),
            }
        }
        EndpointError::Config(error @ ConfigError::PreferredAddress(_)) => {
            Failure::new(format!("cannot use the preferred address: {error}"))
                .advise("use an address of this machine for --preferred-address")
        }
        error => Failure::new(format!("cannot serve at {listen}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use clap::{Command, FromArgMatches};

    use super::*;

    fn parse(count: &str) -> Result<u16, String> {
        let command = ServeCommand::augment_args(Command::new("serve"));
        let matches = command.try_get_matches_from(["serve", "--shards", count]);
        let matches = matches.map_err(|error| error.to_string())?;
        Ok(*matches.get_one("shards").expect("the option exists"))
    }

    #[test]
    fn the_default_of_content_memory_is_the_constant() {
        let command = ServeCommand::augment_args(Command::new("serve"));
        let matches = command.try_get_matches_from(["serve"]).unwrap();
        assert_eq!(matches.get_one("content_memory"), Some(&super::CONTENT_MEMORY));
        assert_eq!(super::content_memory(1 << 40), 1 << 40);
    }

    #[test]
    fn there_are_as_many_shards_as_asked_for() {
        assert_eq!((parse("1"), parse("256")), (Ok(1), Ok(256)));
        for wrong in ["0", "257", "65537"] {
            let error = parse(wrong).unwrap_err();
            assert!(error.contains(wrong) && error.contains("is not in 1..=256"), "{error}");
        }
        let given = NonZeroUsize::new(5);
        assert_eq!(shards(Some(3), given, false).get(), 3);
        assert_eq!(shards(None, given, false), NonZeroUsize::new(5).unwrap());
        for (can_be_replaced, most) in [(false, MAX_SHARDS), (true, MAX_SHARDS_WITH_HOT_RESTART)] {
            assert!((1..=most).contains(&shards(None, None, can_be_replaced).get()));
        }
    }

    #[test]
    fn durations_keep_to_their_bounds() {
        let milliseconds = Duration::from_millis;
        let most = || Err("must be at most 1ms".to_owned());
        assert_eq!(parse_busy_poll("0s"), Ok(Duration::ZERO));
        assert_eq!(parse_busy_poll("1ms"), Ok(milliseconds(1)));
        assert_eq!((parse_busy_poll("1001us"), parse_busy_poll("1s")), (most(), most()));
        assert!(parse_busy_poll("1").is_err());
        assert_eq!(parse_timeout("1ms"), Ok(milliseconds(1)));
        assert_eq!(parse_timeout("0s"), Err("must be longer than 0".to_owned()));
        assert!(parse_timeout("1").is_err());
    }

    #[test]
    fn a_server_can_be_replaced_if_it_has_a_socket_for_that() {
        let restart = |arguments: &[&str]| {
            let command = RestartOptions::augment_args(Command::new("serve"));
            let arguments = [&["serve"][..], arguments].concat();
            let matches = command.try_get_matches_from(arguments).unwrap();
            let options = RestartOptions::from_arg_matches(&matches).unwrap();
            (options.is_given(), options.drain())
        };
        assert_eq!(restart(&[]), (false, None));
        assert_eq!(restart(&["--hot-restart", "s"]), (true, None));
        let minute = Some(Duration::from_secs(60));
        assert_eq!(restart(&["--hot-restart", "s", "--drain", "1min"]), (true, minute));
    }

    #[test]
    fn there_is_one_preferred_address_per_family() {
        let preferred = |addresses: &[&str]| {
            let addresses: Vec<_> = addresses.iter().map(|it| it.parse().unwrap()).collect();
            let resolver = crate::certificate::Development::generate().unwrap().identity;
            let certificates = clearway::Certificates::new([resolver]).unwrap();
            let config = ServerConfig::with_resolver(std::sync::Arc::new(certificates));
            prefer(config, &addresses).map(drop).map_err(|failure| failure.to_string())
        };
        let (v4, v6) = ("192.0.2.1:443", "[2001:db8::1]:443");
        for good in [&[][..], &[v4], &[v6], &[v4, v6], &[v6, v4]] {
            assert_eq!(preferred(good), Ok(()), "{good:?}");
        }
        for (twice, family) in [(&[v4, v6, "192.0.2.2:1"][..], "IPv4"), (&[v6, v6], "IPv6")] {
            let why = preferred(twice).unwrap_err();
            assert!(why.contains(&format!("two preferred {family} addresses")), "{why}");
        }
    }
}

#[cfg(test)]
#[path = "serve/attack_tests.rs"]
mod attack_tests;
