//! `clearway dns`: a DNS forwarder.

mod listeners;
mod metrics;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clearway::rustls::RootCertStore;
use clearway_dns::{Forwarder, ForwarderConfig, ForwarderStatistics, Limits, Server, Upstream};
use clearway_network::parse_duration;

use crate::certificate::read_roots;
use crate::exporter::MetricsOptions;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::log::LogOptions;
use crate::serve::certificates::CertificateOptions;
use crate::units::size_of_at_least_1_mib;
use crate::{address, output, service_manager, system};
use listeners::Listeners;

/// Forward DNS to servers over QUIC, HTTP/3 or TLS, and cache responses.
///
/// Clients use DNS over QUIC (RFC 9250) at --listen, and the other protocols for which an address
/// is given. A query goes to the first upstream server that is up; if that does not respond, it
/// goes to the next one. Responses are cached for their TTL, and negative ones as well (RFC 2308).
/// If no upstream server responds, clients get SERVFAIL with an Extended DNS Error (RFC 8914).
///
/// Without --cert and --key, the server generates a self-signed certificate for localhost,
/// 127.0.0.1 and ::1; clients trust it with the file of --save-cert. On SIGHUP, the server reloads
/// its certificates and those of --client-ca. When interrupted (Ctrl-C, SIGTERM), it completes
/// outstanding queries, and exits.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct DnsCommand {
    /// The address for DNS over QUIC; port 0 selects any free port.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:853", value_parser = address::parse)]
    listen: SocketAddr,
    /// The address for DNS over HTTP/3 (RFC 8484), at the path /dns-query.
    #[arg(long, value_name = "ADDR", value_parser = address::parse)]
    listen_https: Option<SocketAddr>,
    /// The address for DNS over UDP, for clients on this host or network.
    ///
    /// The source address of a UDP query can be spoofed, so a server that the Internet can reach
    /// over UDP is useful for attacks on others.
    #[arg(long, value_name = "ADDR", value_parser = address::parse)]
    listen_udp: Option<SocketAddr>,
    /// The address for DNS over TCP, for clients on this host or network.
    #[arg(long, value_name = "ADDR", value_parser = address::parse)]
    listen_tcp: Option<SocketAddr>,
    /// URL of an upstream server; may be repeated, in order of preference.
    ///
    /// quic://HOST is DNS over QUIC (port 853), https://HOST/dns-query or h3://HOST DNS over HTTP/3
    /// (port 443), tls://HOST DNS over TLS (port 853), udp://ADDRESS and tcp://ADDRESS DNS without
    /// encryption (port 53). If HOST is an address, the name in the server's certificate can follow
    /// after a #: tls://192.0.2.1#dns.example. Names are resolved by the system, which must not
    /// depend on this server.
    #[arg(long, value_name = "URL", required = true, value_parser = str::parse::<Upstream>)]
    upstream: Vec<Upstream>,
    /// PEM file with the trust anchors of upstream servers [default: the system's].
    #[arg(long, value_name = "FILE", visible_alias = "cacert")]
    ca: Option<PathBuf>,
    #[command(flatten)]
    certificates: CertificateOptions,
    /// Do not accept early data (0-RTT).
    ///
    /// By default it is accepted, because replaying a query does no harm; operations other than
    /// QUERY and NOTIFY are refused in early data.
    #[arg(long)]
    no_early_data: bool,
    /// Maximum number of responses in the cache; 0 disables it.
    #[arg(long, value_name = "COUNT", default_value_t = 100_000)]
    cache_size: u64,
    /// Maximum memory for the cache.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size_of_at_least_1_mib)]
    cache_memory: u64,
    /// Try the next upstream server if one does not respond for this long.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse_time)]
    upstream_timeout: Duration,
    /// Respond with SERVFAIL if no upstream server responds for this long.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_time)]
    query_timeout: Duration,
    #[command(flatten)]
    metrics: MetricsOptions,
    #[command(flatten)]
    reports: LogOptions,
}

/// The port of unencrypted DNS.
const DNS_PORT: u16 = 53;

const AFTER_HELP: &str = "\
Examples:
  A resolver for this host, over encrypted connections, with a second server in case the first fails:
    clearway dns --listen-udp 127.0.0.1:53 --listen-tcp 127.0.0.1:53 --upstream quic://dns.example --upstream tls://192.0.2.1#dns.example
  DNS over QUIC and over HTTP/3 in front of an existing resolver:
    clearway dns --listen 0.0.0.0:853 --listen-https 0.0.0.0:443 --cert cert.pem --key key.pem --upstream udp://127.0.0.1:53";

/// Parses a time limit, which must not be 0.
fn parse_time(input: &str) -> Result<Duration, String> {
    match parse_duration(input).map_err(|error| error.to_string())? {
        Duration::ZERO => Err("it must be longer than 0".to_owned()),
        time => Ok(time),
    }
}

/// Runs the command.
pub(crate) async fn run(command: DnsCommand) -> Result<(), Failure> {
    system::permit_all_descriptors();
    command.reports.start();
    if command.listen.port() == DNS_PORT {
        return Err(Failure::new("DNS over QUIC must not use port 53 (RFC 9250 §4.1.1)")
            .advise("choose another port with --listen; the usual port is 853"));
    }
    let forwarder = forwarder(&command)?;
    let server = Server::new(forwarder.clone());
    let mut presented = command.certificates.present()?;
    let exporter = command.metrics.listen(false).await?;
    let mut listeners = Listeners::bind(&command, &presented, &server).await?;
    if let Some(exporter) = exporter {
        tokio::spawn(exporter.run(metrics::registry(server.clone(), forwarder.clone())));
    }
    let (mut interrupt, [to_certificates, to_roots]) = Interrupt::listen_and_reload()?;
    if let Some(reloading) = presented.reloading.take() {
        tokio::spawn(reloading.run(to_certificates));
    }
    if let Some(reloading) = presented.reloading_roots.take() {
        tokio::spawn(reloading.run(to_roots));
    }
    command.certificates.announce(&presented)?;
    output::settle();
    listeners.announce();
    service_manager::ready();
    let outcome = tokio::select! {
        _ = interrupt.received() => Ok(()),
        failure = listeners.serve(&server) => Err(failure),
        () = report_health(&forwarder) => Ok(()),
    };
    if outcome.is_ok() {
        // The time limit of the queries also limits this.
        let _ = tokio::time::timeout(command.query_timeout, server.drain()).await;
    }
    listeners.close().await;
    output::status(&summary(&forwarder.statistics()));
    outcome
}

fn forwarder(command: &DnsCommand) -> Result<Forwarder, Failure> {
    let config = match &command.ca {
        Some(file) => ForwarderConfig::with_roots(read_roots(file)?),
        None if command.upstream.iter().any(|it| it.protocol().is_encrypted()) => {
            ForwarderConfig::with_native_roots()
        }
        None => ForwarderConfig::with_roots(RootCertStore::empty()),
    };
    let cannot = |error| Failure::new(format!("cannot forward queries: {error}"));
    let mut config = config.map_err(|error| {
        cannot(error).advise("name the trust anchors of the upstream servers with --ca FILE")
    })?;
    config.cache_entries = command.cache_size;
    config.cache_bytes = command.cache_memory;
    config.attempt_time = command.upstream_timeout;
    config.query_time = command.query_timeout;
    config.max_udp_sockets = max_udp_sockets(system::max_descriptors());
    Forwarder::new(command.upstream.iter().cloned(), config).map_err(cannot)
}

/// Prints when upstream servers go down or come back.
async fn report_health(forwarder: &Forwarder) {
    let mut health = forwarder.watch_health();
    let mut before = forwarder.statistics().upstreams;
    while health.changed().await {
        let now = forwarder.statistics().upstreams;
        for (before, now) in before.iter().zip(&now).filter(|(a, b)| a.is_up != b.is_up) {
            let url = &before.url;
            output::event(&match (now.is_up, &now.last_error) {
                (true, _) => format!("upstream {url} responds again"),
                (false, Some(error)) => format!("upstream {url} is down: {error}"),
                (false, None) => format!("upstream {url} is down"),
            });
        }
        before = now;
    }
}

/// Returns the number of sockets for queries to UDP upstream servers: half of the descriptors of the
/// process, and no more than the server accepts queries.
fn max_udp_sockets(descriptors: Option<u64>) -> usize {
    let most = Limits::default().queries;
    descriptors.map_or(most, |it| usize::try_from(it / 2).map_or(most, |half| half.min(most)))
}

fn summary(statistics: &ForwarderStatistics) -> String {
    let ForwarderStatistics { hits, misses, failures, .. } = statistics;
    let queries = hits.saturating_add(*misses);
    format!("{queries} queries: {hits} answered from the cache, {failures} without an answer")
}

#[cfg(test)]
#[path = "dns/dns_tests.rs"]
mod dns_tests;
