//! `clearway get`: an HTTP/3 client.

mod batch;
mod cipher_suites;
mod connect;
mod download;
mod early;
mod explain;
mod outcome;
mod progress;
mod protocol;
pub(crate) mod proxied;
mod rebind;
mod sessions;
mod sink;
mod target;
mod tls;
mod tunnel;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clearway::http3::{Priority, Protocol};
use clearway::rustls::SupportedCipherSuite;
use clearway::{ClientConfig, Version};
use clearway_network::parse_duration;

use crate::connection_options::ConnectionOptions;
use crate::failure::Failure;
use crate::http3_options::{Http3Options, parse_priority};
use crate::interrupt::Interrupt;
use crate::{output, quic_version};
use batch::{Batch, Job};
use proxied::ProxyOptions;
use sessions::Sessions;
pub(crate) use sessions::bytes_of;
use target::Target;
use tls::TlsOptions;

/// Download over HTTP/3.
///
/// A download is written to a temporary file, which is renamed when it is complete. It then
/// replaces an existing file of that name and keeps its permissions; a symbolic link is preserved.
/// A file that is not writable is not replaced. Several URLs are downloaded in parallel, except to
/// standard output; if one fails, the others continue. The exit status is 0 only if every URL was
/// downloaded completely and with a success status. SSLKEYLOGFILE is honored.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct GetCommand {
    /// The URLs to download; URLs of the same server share a connection.
    #[arg(required = true, value_name = "URL")]
    urls: Vec<String>,
    /// Write to this file [default: -, standard output].
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write each URL to a file named after the last segment of its path.
    #[arg(long, short = 'O', conflicts_with = "output")]
    remote_name: bool,
    /// Trust only certificate chains that end at a certificate in this PEM file.
    #[arg(long, alias = "cacert", value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Dangerous: do not verify certificates.
    ///
    /// Anyone on the path can read and change everything.
    #[arg(long, short_alias = 'k', conflicts_with = "ca")]
    insecure: bool,
    /// Connect to this address instead of the one in the URL.
    ///
    /// If it resolves to several addresses, the first one that responds is used (RFC 8305).
    #[arg(long, value_name = "HOST:PORT")]
    connect: Option<String>,
    #[command(flatten)]
    proxy: ProxyOptions,
    /// Time limit for the entire command.
    #[arg(long, alias = "max-time", value_name = "DURATION", value_parser = parse_duration)]
    timeout: Option<Duration>,
    /// Give up on a download that makes no progress for this long; 0 disables this.
    ///
    /// The timeout applies while the server is reachable but sends no part of the response,
    /// including the time before the response begins. It does not apply to --tunnel.
    #[arg(long, value_name = "DURATION", default_value = "5min", value_parser = parse_duration)]
    stall_timeout: Duration,
    /// Send a PING when the connection is idle for this long; 0 disables this.
    ///
    /// If a NAT has rebound this client, the server learns the new address from the PING.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse_duration)]
    keep_alive: Duration,
    /// Migrate each connection to another local port at this age, such as 500ms.
    ///
    /// The new path is validated first (RFC 9000 §9.2). If the server does not respond there or has
    /// disabled migration, the download continues on the old path, and the reason is printed.
    #[arg(long, value_name = "DURATION", value_parser = rebind::parse)]
    rebind_after: Option<Duration>,
    /// Download the other URLs on new connections that resume the first one's session.
    ///
    /// The first connection is closed when its download is complete. The new connections do a full
    /// handshake if the server rejects the resumption.
    #[arg(long)]
    resume: bool,
    /// Store TLS sessions and tokens in this file, and use those of earlier runs.
    ///
    /// This makes handshakes shorter and enables --early-data. Whoever can read the file can read
    /// and forge early data, so the file is readable by this user only. A file that is damaged, too
    /// large or of another version is ignored and replaced.
    #[arg(long, value_name = "FILE")]
    sessions: Option<PathBuf>,
    /// Send the requests before the handshake is complete (0-RTT), if possible.
    ///
    /// This saves a round trip, and requires a stored session that allows early data. An on-path
    /// attacker can replay the requests, but cannot read the responses.
    #[arg(long)]
    early_data: bool,
    /// Report on standard error whether early data was accepted.
    #[arg(long, short, conflicts_with = "quiet")]
    verbose: bool,
    /// Offer only these cipher suites, in order of preference.
    ///
    /// The suites are TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384 and
    /// TLS_CHACHA20_POLY1305_SHA256. By default, all are offered in this order.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', value_parser = cipher_suites::parse)]
    cipher_suites: Vec<SupportedCipherSuite>,
    #[command(flatten)]
    tls: TlsOptions,
    /// Use HTTP/0.9 (hq-interop) instead of HTTP/3.
    #[arg(long)]
    http09: bool,
    /// Priority of all responses (RFC 9218): u=0 (most urgent) to u=7, i, or both.
    ///
    /// The parameter i (incremental) marks a response that is useful in parts, so that the server
    /// interleaves it with other responses. Without this option, servers assume u=3.
    #[arg(long, value_name = "u=N,i", value_parser = parse_priority, conflicts_with = "http09")]
    priority: Option<Priority>,
    /// Open a tunnel with this protocol (extended CONNECT, RFC 9220).
    ///
    /// Standard input is sent, and received content is written to the output.
    #[arg(long, value_name = "PROTOCOL", value_parser = parse_protocol, conflicts_with_all = ["http09", "resume"])]
    tunnel: Option<Protocol>,
    /// Send each line of standard input as a datagram in the tunnel (RFC 9297).
    ///
    /// Each received datagram is written as a line. The command ends when as many datagrams have
    /// arrived as were sent, or when none has arrived for a second, since datagrams can be lost.
    #[arg(long, requires = "tunnel")]
    datagrams: bool,
    /// QUIC versions to support, in order of preference: 1, 2, or 1,2.
    ///
    /// By default, both are supported. The server may choose any of them.
    #[arg(long, value_name = "VERSIONS", value_delimiter = ',', value_parser = quic_version::parse)]
    quic_versions: Vec<Version>,
    /// QUIC version of the first packet [default: 1 if supported].
    ///
    /// If the server does not support this version, version negotiation takes another round trip.
    #[arg(long, value_name = "VERSION", value_parser = quic_version::parse)]
    quic_version: Option<Version>,
    /// Print one JSON object per URL.
    #[arg(long)]
    json: bool,
    /// Do not show progress.
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    http3: Http3Options,
    #[command(flatten)]
    connection: ConnectionOptions,
}

fn parse_protocol(input: &str) -> Result<Protocol, String> {
    Protocol::new(input).ok_or_else(|| "expected an upgrade token, such as connect-udp".to_owned())
}

const AFTER_HELP: &str = "\
Examples:
  Print a page:
    clearway get https://www.example.org/
  Download two files from a server with a self-signed certificate:
    clearway get -O --ca cert.pem https://localhost:4433/a.bin https://localhost:4433/b.bin
  Exchange datagrams with `clearway serve --echo`:
    seq 3 | clearway get --ca cert.pem --tunnel echo --datagrams https://localhost:4433/
  Migrate to another port during a download, as after a network change:
    clearway get -O --ca cert.pem --rebind-after 500ms https://localhost:4433/large.bin
  Download through an impaired link (see clearway link --help):
    clearway get -o file --ca cert.pem --connect 127.0.0.1:4434 https://localhost:4433/file
  Use a client certificate, for a server that requests one:
    clearway get --cert me.pem --key me.key https://www.example.org/
  Hide the server's name from the path (ECH), with the ech= value of dig +short HTTPS:
    clearway get --ech ech.txt https://www.example.org/";

/// Runs the command.
pub(crate) async fn run(command: GetCommand) -> Result<(), Failure> {
    let mut interrupt = Interrupt::listen()?;
    let timeout = async {
        match command.timeout {
            Some(timeout) => {
                tokio::time::sleep(timeout).await;
                timeout
            }
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        result = download_all(&command) => result,
        timeout = timeout => {
            Err(Failure::new(format!("timed out after {timeout:?}; incomplete files were removed"))
                .advise("raise --timeout, or download less"))
        }
        signal = interrupt.received() => {
            Err(Failure::interrupted(signal, "interrupted; incomplete files were removed"))
        }
    }
}

async fn download_all(command: &GetCommand) -> Result<(), Failure> {
    let targets: Vec<_> =
        command.urls.iter().map(|url| Target::parse(url)).collect::<Result<_, _>>()?;
    let jobs: Vec<_> = targets
        .into_iter()
        .map(|target| Ok(Job { file: file(command, &target)?, target }))
        .collect::<Result<_, Failure>>()?;
    check_outputs(command, &jobs)?;
    if command.tunnel.is_some() && jobs.len() > 1 {
        return Err(Failure::new("standard input cannot be sent to several URLs")
            .advise("run a separate command with --tunnel for each URL"));
    }
    if command.insecure {
        output::status(
            "warning: --insecure does not verify the server; the content may come from anyone",
        );
    }
    // TLS sessions are resumed between connections of the same configuration.
    let sessions = command.sessions.as_deref().map(Sessions::open);
    let config = connect::config(command, sessions.as_ref())?;
    let (first, others) = jobs.split_at(if command.resume { 1 } else { jobs.len() });
    download_batch(command, &config, first, sessions.as_ref()).await?;
    match others.is_empty() {
        true => Ok(()),
        false => download_batch(command, &config, others, sessions.as_ref()).await,
    }
}

/// Downloads files over connections that are closed at the end.
async fn download_batch(
    command: &GetCommand,
    config: &ClientConfig,
    jobs: &[Job],
    sessions: Option<&Sessions>,
) -> Result<(), Failure> {
    let batch = Batch::new(command, config, jobs);
    let outcome = batch.run(jobs).await;
    batch.report().await;
    if let Some(sessions) = sessions {
        if outcome.is_ok() {
            sessions.wait().await;
        }
        let saved = sessions.save();
        batch.close();
        return outcome.and(saved);
    }
    batch.close();
    outcome
}

/// Returns the file to which a target is downloaded; `None` for standard output.
fn file(command: &GetCommand, target: &Target) -> Result<Option<PathBuf>, Failure> {
    match &command.output {
        _ if command.remote_name => target.file_name().map(PathBuf::from).map(Some),
        Some(output) if output.as_os_str() != "-" => Ok(Some(output.clone())),
        _ => Ok(None),
    }
}

fn check_outputs(command: &GetCommand, jobs: &[Job]) -> Result<(), Failure> {
    if jobs.len() > 1 && !command.remote_name && jobs.iter().any(|job| job.file.is_some()) {
        return Err(Failure::new("cannot write several URLs to one file").advise(
            "use -O to write each URL to a separate file, or run a separate command for each",
        ));
    }
    let mut names = BTreeSet::new();
    if let Some(twice) =
        jobs.iter().filter_map(|job| job.file.as_ref()).find(|file| !names.insert(*file))
    {
        return Err(Failure::new(format!(
            "two of the URLs have the file name {}",
            twice.display()
        ))
        .advise("run a separate command with --output for each URL"));
    }
    if command.json && jobs.iter().any(|job| job.file.is_none()) {
        return Err(Failure::new(
            "--json and the content cannot both be written to standard output",
        )
        .advise("choose a file with --output, or use -O"));
    }
    Ok(())
}
