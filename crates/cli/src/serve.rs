//! `clearway serve`: a file server.

mod answer;
mod certificates;
mod conditions;
mod files;
mod http09;
mod http3;
mod memory;
mod reload;
mod store;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clearway::http3::Timeouts;
use clearway::{EndpointError, ServerConfig, Version};
use clearway_network::{parse_duration, parse_size};

use crate::connection_options::ConnectionOptions;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::key_exchange::KeyExchangeOptions;
use crate::listening::Listening;
use crate::live::{LiveOptions, Traces};
use crate::units::bytes_text;
use crate::{output, quic_version};
use certificates::{CertificateOptions, Presented};
use files::Files;
use store::Store;

/// Serve the files of a folder over HTTP/3.
///
/// Without --cert and --key, a self-signed certificate for localhost, 127.0.0.1 and ::1 is generated; clients
/// trust it when they are given the file of --save-cert. SIGHUP makes the server read its certificates again. When the server is interrupted (Ctrl-C), it answers
/// the requests that it has received and ends; interrupted again, it ends at once. SSLKEYLOGFILE is honoured.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ServeCommand {
    /// The folder to serve.
    #[arg(default_value = ".", value_name = "DIR")]
    root: PathBuf,
    /// The address to listen on; port 0 means any free port.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4433")]
    listen: SocketAddr,
    #[command(flatten)]
    certificates: CertificateOptions,
    #[command(flatten)]
    key_exchange: KeyExchangeOptions,
    /// Validate the address of every client with a Retry packet.
    #[arg(long)]
    retry: bool,
    /// Serve HTTP/0.9 (hq-interop) instead of HTTP/3.
    #[arg(long)]
    http09: bool,
    /// Speak these versions of QUIC, the preferred one first: 1, 2, or both with a comma between them. A client that
    /// offers the preferred one is changed to it. Without this option both are spoken, and a client stays in the version
    /// with which it begins.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = quic_version::parse)]
    quic_versions: Vec<Version>,
    /// Also serve files and folders whose names begin with a dot; by default, only /.well-known of these is served.
    #[arg(long)]
    hidden: bool,
    /// Keep at most this many files open.
    #[arg(long, value_name = "COUNT", default_value = "256", value_parser = clap::value_parser!(u32).range(1..))]
    open_files: u32,
    /// Keep at most this much unacknowledged content in memory, for all clients together; a client gets at most an
    /// eighth of what is free. Requests that arrive when too little is free are answered with 503.
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = parse_memory)]
    content_memory: u64,
    /// Reset a response of which the client accepts nothing for this long. Other streams are not affected.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_timeout)]
    send_timeout: Duration,
    /// Reset an incomplete request of which nothing arrives for this long.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_timeout)]
    request_timeout: Duration,
    /// Do not print a line for each request.
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    connection: ConnectionOptions,
    #[command(flatten)]
    live: LiveOptions,
}

const AFTER_HELP: &str = "\
Examples:
  Serve the current folder to clients on this machine:
    clearway serve --save-cert /tmp/cert.pem
    clearway get --ca /tmp/cert.pem https://localhost:4433/README.md
  Serve a folder publicly, with a certificate from a CA:
    clearway serve /srv/www --listen 0.0.0.0:443 --cert fullchain.pem --key privkey.pem
  Serve two names with a certificate each, only to clients with a certificate of our own CA:
    clearway serve --cert a.pem --key a.key --cert b.pem --key b.key --client-ca ca.pem
    clearway get --cert me.pem --key me.key https://a.example:4433/file";

/// The minimum of `--content-memory`: with less, not even one piece of a file could be held.
const LEAST_MEMORY: u64 = 1 << 20;

fn parse_memory(input: &str) -> Result<u64, String> {
    match parse_size(input).map_err(|error| error.to_string())? {
        size if size < LEAST_MEMORY => Err("it must be at least 1MiB".to_owned()),
        size => Ok(size),
    }
}

fn parse_timeout(input: &str) -> Result<Duration, String> {
    match parse_duration(input).map_err(|error| error.to_string())? {
        Duration::ZERO => Err("it must be longer than 0".to_owned()),
        timeout => Ok(timeout),
    }
}

/// Runs the command.
pub(crate) async fn run(command: ServeCommand) -> Result<(), Failure> {
    let open_files = usize::try_from(command.open_files).unwrap_or(usize::MAX);
    let store = Store::new(open_files, command.content_memory);
    let files = Files::new(&command.root, command.hidden, store).map_err(|error| {
        Failure::new(format!("cannot serve {}: {error}", command.root.display()))
            .advise("choose a folder that this user may read")
    })?;
    let mut presented = command.certificates.present()?;
    let live = command.live.start().await?;
    let config = config(&command, &presented, live)?;
    let log = AccessLog { is_quiet: command.quiet };
    let (interrupt, hung_up) = Interrupt::listen_and_reload()?;
    if let Some(reloading) = presented.reloading.take() {
        tokio::spawn(reloading.run(hung_up));
    }
    if command.http09 {
        let server = http09::Http09::bind(command.listen, config)?;
        announce(&command, &presented, server.local_address(), "hq-interop")?;
        server.run(files, log, interrupt).await;
    } else {
        let timeouts = Timeouts { request: command.request_timeout, send: command.send_timeout };
        let server = http3::Http3::bind(command.listen, config, timeouts)?;
        announce(&command, &presented, server.local_address(), "h3")?;
        server.run(files, log, interrupt).await;
    }
    Ok(())
}

fn config(
    command: &ServeCommand,
    presented: &Presented,
    live: Option<Traces>,
) -> Result<ServerConfig, Failure> {
    let mut transport = command.connection.transport();
    if !command.quic_versions.is_empty() {
        let versions = command.quic_versions.iter().copied();
        transport = transport.versions(versions).prefers_own_version(true);
    }
    let transport = transport.build()?;
    let observers = command.connection.observers(&transport, live)?;
    let config = command.certificates.configure(presented)?;
    let config = match command.key_exchange.groups() {
        Some(groups) => config.key_exchange_groups(groups),
        None => config,
    };
    let config =
        config.transport(transport).require_retry(command.retry).key_log_from_environment();
    Ok(match observers {
        Some(observers) => config.observer(observers),
        None => config,
    })
}

/// Prints the address of the server, and how clients can trust a generated certificate.
fn announce(
    command: &ServeCommand,
    presented: &Presented,
    address: SocketAddr,
    protocol: &str,
) -> Result<(), Failure> {
    command.certificates.announce(presented)?;
    output::result(&format!("listening on https://{address} ({protocol})"))
}

/// The failure of a server that cannot start.
fn cannot_serve(listen: SocketAddr, error: EndpointError) -> Failure {
    match error {
        EndpointError::Io(error) => Listening::UDP.failed(listen, &error),
        error => Failure::new(format!("cannot serve at {listen}: {error}")),
    }
}

/// The access log: one line for each request.
#[derive(Clone, Copy, Debug)]
struct AccessLog {
    is_quiet: bool,
}

impl AccessLog {
    /// Prints why a path could not be served, even with `--quiet`.
    fn problem(self, path: &str, problem: &str) {
        output::status(&format!("clearway: cannot serve \"{}\": {problem}", path.escape_debug()));
    }

    /// Prints a line; `outcome` is the length of the content, or why it was cut off.
    fn line(
        self,
        client: Option<SocketAddr>,
        method: &str,
        path: &str,
        status: u16,
        outcome: Result<u64, String>,
        time: Duration,
    ) {
        if self.is_quiet {
            return;
        }
        let client = client.map_or_else(|| "-".to_owned(), |client| client.to_string());
        let outcome = match outcome {
            Ok(length) => bytes_text(length),
            Err(error) => format!("cut off: {error}"),
        };
        // The client chooses the path: it must not contain control characters for the terminal.
        let path = path.escape_debug();
        let line =
            format!("{client} {method} \"{path}\" {status} {outcome} {:.3} s", time.as_secs_f64());
        // If the log cannot be written any more, the server continues.
        let _ = output::result(&line);
    }
}
