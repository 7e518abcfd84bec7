//! `clearway proxy`: a MASQUE proxy for UDP, TCP and IP.

mod metrics;

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use clearway::http3::{Config, RecvBody, Responder, Server};
use clearway::masque::auth::Credentials;
use clearway::masque::limits::{Limits, MIN_IDLE};
use clearway::masque::policy::{Policy, Rule};
use clearway::masque::pool::AddressPool;
use clearway::masque::{self, IpOptions, IpRouter, Proxy, ProxyOptions, RelayOptions, Served};
use clearway::{Endpoint, MAX_SHARDS, MAX_SHARDS_WITH_HOT_RESTART, MemoryBudget, ServerConfig};
use clearway_network::{parse_duration, parse_rate};
use clearway_units::Rate;
use http::Request;
use ipnet::IpNet;

use crate::connection_options::ConnectionOptions;
use crate::exporter::MetricsOptions;
use crate::failure::Failure;
use crate::http3_options::Http3Options;
use crate::interrupt::Interrupt;
use crate::log::LogOptions;
use crate::serve::certificates::{CertificateOptions, Presented};
use crate::serve::restart::{Beginning, Ending, RestartOptions};
use crate::serve::{cannot_serve, parse_timeout};
use crate::tun::Tun;
use crate::units::bytes_text;
use crate::{address, output, service_manager, system};

/// Forward UDP, TCP and IP packets for clients over HTTP/3 (MASQUE).
///
/// Clients open UDP tunnels (CONNECT-UDP, RFC 9298) and TCP tunnels (CONNECT, RFC 9114 §4.4, and
/// connect-tcp) at the well-known URI templates. Each of them leads to one target. With --ip-pool,
/// clients also open IP tunnels (CONNECT-IP, RFC 9484), and get addresses. Targets with private,
/// loopback, link-local and other special addresses are refused unless allowed with --allow, also as
/// destinations of packets in IP tunnels, and so are
/// addresses of the proxy's own host unless --allow contains exactly this address; names are resolved by the proxy, and each resolved address
/// is checked. Clients need credentials (--users) or a certificate (--client-ca), unless the proxy
/// listens on loopback or --open is given. When interrupted (Ctrl-C, SIGTERM), the proxy accepts no more tunnels, and gives
/// open tunnels time to end.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ProxyCommand {
    /// The address to listen on; port 0 selects any free port.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:4443", value_parser = address::parse)]
    listen: SocketAddr,
    #[command(flatten)]
    certificates: CertificateOptions,
    /// File with client credentials: "basic NAME PASSWORD" or "bearer TOKEN [NAME]".
    ///
    /// One entry per line; lines that begin with # are ignored. With --client-ca, "certificate NAME"
    /// is a DNS name in a client's certificate. Only this user should be able to read the file.
    #[arg(long, value_name = "FILE")]
    users: Option<PathBuf>,
    /// Accept clients without credentials, from anywhere.
    #[arg(long, conflicts_with = "users")]
    open: bool,
    /// Allow a target (network, address, domain or *, and ports). May be repeated.
    ///
    /// Examples are 10.1.0.0/16, ".example.org 443", and "* 8000-8999"; ports are optional. The first
    /// rule that matches decides: those of --allow are checked in order, then those of --deny. A rule
    /// allows a special address only if its network is within the special range. With --only-allowed,
    /// all other targets are refused.
    #[arg(long, value_name = "TARGET", value_parser = parse_allow)]
    allow: Vec<Rule>,
    /// Refuse a target (network, address, domain or *, and ports). May be repeated.
    #[arg(long, value_name = "TARGET", value_parser = parse_deny)]
    deny: Vec<Rule>,
    /// Refuse all targets that no --allow rule matches.
    #[arg(long, requires = "allow")]
    only_allowed: bool,
    /// Maximum number of open tunnels.
    #[arg(long, value_name = "COUNT", default_value_t = 10_000)]
    tunnels: usize,
    /// Maximum number of open tunnels per client.
    #[arg(long, value_name = "COUNT", default_value_t = 256)]
    tunnels_per_client: usize,
    /// Maximum rate of payloads and packets in both directions; excess is dropped.
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    bandwidth: Option<Rate>,
    /// Maximum rate of UDP and IP tunnels per client, in both directions.
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    bandwidth_per_client: Option<Rate>,
    /// Close UDP tunnels that are idle for this long; at least 2min.
    #[arg(long, value_name = "DURATION", default_value = "2min", value_parser = parse_idle)]
    tunnel_idle: Duration,
    /// Serve IP tunnels with addresses from this prefix. May be repeated.
    ///
    /// Such as 10.99.0.0/24 or fd00:99::/64. Each client gets one address of each IP version. The
    /// first address of a prefix belongs to the
    /// proxy. Packets pass through a TUN device, which requires root or the capability
    /// CAP_NET_ADMIN. This host must forward them (sysctl net.ipv4.ip_forward=1 and
    /// net.ipv6.conf.all.forwarding=1), and translate addresses if the targets have no route back to
    /// the prefix. The proxy changes neither setting; docs/tunnels.md has the commands.
    #[arg(long, value_name = "PREFIX")]
    ip_pool: Vec<IpNet>,
    /// Name of the TUN device for IP tunnels; %d is replaced by a number.
    #[arg(long, value_name = "NAME", default_value = crate::tun::NAME, requires = "ip_pool")]
    tun: String,
    /// MTU of the TUN device in bytes, at least 1280.
    ///
    /// The kernel reports larger packets for clients to their source, or fragments them. If the MTU is
    /// larger than what fits into a client's tunnel, the proxy reports them instead, and fragments
    /// nothing.
    #[arg(long, value_name = "BYTES", default_value_t = crate::tun::MTU, requires = "ip_pool",
        value_parser = clap::value_parser!(u16).range(1280..))]
    tun_mtu: u16,
    /// Number of threads, 1 to 256, each with its own socket [default: one per core].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=MAX_SHARDS as i64))]
    shards: Option<u16>,
    #[command(flatten)]
    restart: RestartOptions,
    /// Time limit for open tunnels when the proxy is interrupted.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_timeout)]
    shutdown_timeout: Duration,
    /// Do not print a line for each tunnel.
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    http3: Http3Options,
    #[command(flatten)]
    connection: ConnectionOptions,
    #[command(flatten)]
    metrics: MetricsOptions,
    #[command(flatten)]
    reports: LogOptions,
}

const AFTER_HELP: &str = "\
Examples:
  Try it on this machine, with a target on loopback:
    clearway serve --save-cert /tmp/cert.pem
    clearway proxy --save-cert /tmp/proxy.pem --allow localhost --allow 127.0.0.0/8
    clearway get --proxy https://localhost:4443 --proxy-ca /tmp/proxy.pem --ca /tmp/cert.pem https://localhost:4433/README.md
  Require a name and a password:
    clearway proxy --listen 0.0.0.0:443 --cert fullchain.pem --key privkey.pem --users users.txt
  Allow only DNS over QUIC and HTTP/3:
    clearway proxy --users users.txt --allow '* 853' --allow '* 443' --only-allowed
  IP tunnels, for `clearway tunnel`:
    clearway proxy --listen 0.0.0.0:443 --cert fullchain.pem --key privkey.pem --users users.txt --ip-pool 10.99.0.0/24 --ip-pool fd00:99::/64";

fn parse_allow(text: &str) -> Result<Rule, String> {
    format!("allow {text}").parse().map_err(|error: masque::policy::RuleError| error.to_string())
}

fn parse_deny(text: &str) -> Result<Rule, String> {
    format!("deny {text}").parse().map_err(|error: masque::policy::RuleError| error.to_string())
}

fn parse_idle(text: &str) -> Result<Duration, String> {
    match parse_duration(text).map_err(|error| error.to_string())? {
        time if time < MIN_IDLE => Err("must be at least 2min (RFC 9298 §3.1)".to_owned()),
        time => Ok(time),
    }
}

/// Runs the command.
pub(crate) async fn run(command: ProxyCommand) -> Result<(), Failure> {
    system::permit_all_descriptors();
    let beginning = command.restart.begin(command.listen).await?;
    // A service manager may have opened sockets at another address than --listen.
    let listen = beginning.listen;
    let mut options = options(&command, listen)?;
    command.reports.start();
    let router = match command.ip_pool.is_empty() {
        true => None,
        false => Some(router(&command).await?),
    };
    if let Some(IpPart { pool, router, own, .. }) = &router {
        options.policy = options.policy.with_own_addresses(own.iter().copied());
        options.ip = Some(IpOptions::new(pool.clone(), router.clone()));
    }
    let proxy = Proxy::new(options);
    let mut presented = command.certificates.present()?;
    let exporter = command.metrics.listen(beginning.is_replacing).await?;
    let config = config(&command, &presented, beginning)?;
    let (interrupt, [to_certificates, to_roots]) = Interrupt::listen_and_reload()?;
    if let Some(reloading) = presented.reloading.take() {
        tokio::spawn(reloading.run(to_certificates));
    }
    if let Some(reloading) = presented.reloading_roots.take() {
        tokio::spawn(reloading.run(to_roots));
    }
    let http3 = Config { extended_connect: true, datagrams: true, ..command.http3.config() };
    let server =
        Server::bind_with(listen, config, http3).map_err(|error| cannot_serve(listen, error))?;
    if let Some(exporter) = exporter {
        metrics::start(exporter, server.endpoint().clone(), proxy.clone());
    }
    command.certificates.announce(&presented)?;
    output::settle();
    output::event(&format!("proxy at https://{} (h3)", server.local_address()));
    if let Some(IpPart { device, .. }) = &router {
        output::event(&format!("IP tunnels through {device}"));
    }
    service_manager::ready();
    let (timeout, drain) = (command.shutdown_timeout, command.restart.drain());
    let serving = serve(&server, proxy, command.quiet, Ending { interrupt, timeout, drain });
    match router {
        None => serving.await,
        Some(IpPart { router, .. }) => tokio::select! {
            () = serving => {}
            error = router.run() => {
                return Err(Failure::new(format!("the TUN device has failed: {error}")));
            }
        },
    }
    check(server.endpoint())
}

/// The address pool and the device of all IP tunnels.
struct IpPart {
    pool: AddressPool,
    router: IpRouter,
    /// The addresses of this host.
    own: Vec<IpAddr>,
    /// The name of the device.
    device: String,
}

/// Opens the device of all IP tunnels, and routes the address pool there.
async fn router(command: &ProxyCommand) -> Result<IpPart, Failure> {
    if command.restart.is_given() {
        return Err(Failure::new("a TUN device cannot be handed over to another process")
            .advise("use --ip-pool without hot restart, or run a second proxy for IP tunnels"));
    }
    let pool = AddressPool::new(&command.ip_pool)
        .map_err(|error| Failure::new(format!("cannot use --ip-pool: {error}")))?;
    let tun = Tun::open(&command.tun, command.tun_mtu).await?;
    // The device has no address: the gateways of the prefixes are addresses of the proxy itself.
    for prefix in &command.ip_pool {
        tun.add_route(prefix.trunc()).await?;
    }
    let device = tun.name().to_owned();
    let own = tun.host_addresses().await?;
    Ok(IpPart { pool, router: IpRouter::new(tun), own, device })
}

/// Serves until the program is interrupted or replaced, and the tunnels have ended.
async fn serve(server: &Server, proxy: Proxy, is_quiet: bool, mut ending: Ending) {
    let serving = async {
        while let Some((request, responder)) = server.accept().await {
            tokio::spawn(tunnel(proxy.clone(), request, responder, is_quiet));
        }
    };
    let mut ending = pin!(async {
        let cause = ending.begin(server.endpoint()).await;
        ending.complete(cause, server.shutdown()).await;
    });
    tokio::select! {
        () = &mut ending => {}
        () = serving => if server.endpoint().failure().is_none() {
            ending.await;
        },
    }
}

async fn tunnel(proxy: Proxy, request: Request<RecvBody>, responder: Responder, is_quiet: bool) {
    let remote = responder.remote_address();
    let began = std::time::Instant::now();
    let served = proxy.serve(request, responder).await;
    if !is_quiet {
        output::event(&line(remote, &served, began.elapsed()));
    }
}

/// Returns the log line of a tunnel.
fn line(remote: Option<SocketAddr>, served: &Served, time: Duration) -> String {
    let remote = remote.map_or_else(|| "-".to_owned(), |remote| remote.to_string());
    let client = served.client.as_deref().unwrap_or("-");
    let kind = served.kind.map_or_else(|| "-".to_owned(), |kind| kind.to_string());
    let target = target_text(served);
    let (status, outcome) = (served.status.as_u16(), &served.outcome);
    let (sent, received) = (bytes_text(served.to_target.bytes), bytes_text(served.to_client.bytes));
    let seconds = time.as_secs_f64();
    let outcome = crate::foreign::Foreign(outcome);
    format!(
        "{remote} {client} {kind} {target} {status} {sent} sent {received} received {seconds:.3} s: \
         {outcome}"
    )
}

/// Returns the target of a UDP or TCP tunnel, or the scope of an IP tunnel and its addresses.
fn target_text(served: &Served) -> String {
    if let Some(target) = &served.target {
        return target.to_string();
    }
    let Some(scope) = &served.scope else { return "-".to_owned() };
    let protocol = scope.protocol.map_or_else(|| "*".to_owned(), |it| it.to_string());
    let addresses: Vec<String> = served.addresses.iter().map(ToString::to_string).collect();
    match addresses.is_empty() {
        true => format!("{}/{protocol}", scope.target),
        false => format!("{}/{protocol} as {}", scope.target, addresses.join(",")),
    }
}

fn check(endpoint: &Endpoint) -> Result<(), Failure> {
    match endpoint.failure() {
        Some(failure) => Err(Failure::new(format!("a shard of the proxy has exited: {failure}"))),
        None => Ok(()),
    }
}

fn options(command: &ProxyCommand, listen: SocketAddr) -> Result<ProxyOptions, Failure> {
    let mut policy = if command.only_allowed { Policy::closed() } else { Policy::default() };
    for rule in command.allow.iter().chain(&command.deny) {
        policy = policy.with_rule(rule.clone());
    }
    let mut options = ProxyOptions::default();
    options.policy = policy;
    options.credentials = credentials(command, listen)?;
    options.limits = Limits {
        tunnels: command.tunnels,
        tunnels_per_client: command.tunnels_per_client,
        bandwidth: command.bandwidth,
        bandwidth_per_client: command.bandwidth_per_client,
        ..Limits::default()
    };
    let mut relay = RelayOptions::default();
    relay.idle_timeout = command.tunnel_idle;
    options.relay = relay;
    Ok(options)
}

/// Reads the credentials. An open proxy must be requested explicitly.
fn credentials(
    command: &ProxyCommand,
    listen: SocketAddr,
) -> Result<Option<Arc<Credentials>>, Failure> {
    let Some(file) = &command.users else {
        let is_closed = listen.ip().is_loopback()
            || command.open
            || command.certificates.requires_client_certificate();
        return match is_closed {
            true => Ok(None),
            false => Err(Failure::new(format!(
                "the proxy at {listen} would relay anyone's traffic"
            ))
            .advise("require credentials with --users FILE, or certificates with --client-ca FILE, or pass --open")),
        };
    };
    let shown = file.display();
    let text = fs::read_to_string(file).map_err(|error| {
        Failure::new(format!("cannot read the credentials in {shown}: {error}"))
            .advise("check the path and the permissions of the file")
    })?;
    let credentials =
        Credentials::parse(&text).map_err(|error| Failure::new(format!("{shown}: {error}")))?;
    match credentials.is_empty() {
        true => Err(Failure::new(format!("{shown} contains no credentials"))
            .advise("add a line such as: basic NAME PASSWORD")),
        false => Ok(Some(Arc::new(credentials))),
    }
}

fn config(
    command: &ProxyCommand,
    presented: &Presented,
    beginning: Beginning,
) -> Result<ServerConfig, Failure> {
    let transport = masque::transport_config(command.connection.transport());
    let transport = transport.build().map_err(|error| Failure::new(error.to_string()))?;
    let observers = command.connection.observers(&transport, None)?;
    let asked = command.shards.and_then(|count| NonZeroUsize::new(count.into()));
    let most = if command.restart.is_given() { MAX_SHARDS_WITH_HOT_RESTART } else { MAX_SHARDS };
    let cores = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let cores = cores.min(NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN));
    let shards = asked.or(beginning.shards).unwrap_or_else(|| system::shards_at_port(cores));
    let config = command
        .certificates
        .configure(presented)
        .transport(transport)
        .shards(shards)
        // A tunnel has effects that a replayed request must not have.
        .early_data(false)
        .key_log_from_environment();
    let config = match system::memory_budget() {
        Some(budget) => with_budget(config, budget),
        None => config,
    };
    let config = beginning.configure(config);
    Ok(match observers {
        Some(observers) => config.observer(observers),
        None => config,
    })
}

fn with_budget(config: ServerConfig, budget: MemoryBudget) -> ServerConfig {
    let max_connections = budget.max_connections();
    config.memory_budget(budget).max_connections(max_connections)
}
