//! `clearway serve`: a file server.

mod answer;
mod conditions;
mod files;
mod http09;
mod http3;
mod memory;
mod store;
mod tunnel;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clearway::http3::{Config, Timeouts};
use clearway::{EndpointError, ServerConfig, Version};
use clearway_network::{parse_duration, parse_size};

use crate::certificate::{self, Identity};
use crate::connection_options::ConnectionOptions;
use crate::failure::Failure;
use crate::http3_options::{Http3Options, with_datagrams};
use crate::interrupt::Interrupt;
use crate::listening::Listening;
use crate::live::{LiveOptions, Traces};
use crate::units::bytes_text;
use crate::{output, quic_version};
use files::Files;
use store::Store;

/// Serve the files of a folder over HTTP/3.
///
/// Without --cert and --key, a self-signed certificate for localhost, 127.0.0.1 and ::1 is generated; clients
/// trust it when they are given the file of --save-cert. Responses are sent in the order that the clients' priorities
/// ask for (RFC 9218). When the server is interrupted (Ctrl-C, SIGTERM), it asks its clients for no more requests, answers
/// those that are on their way, and ends; interrupted again, it ends at once. SSLKEYLOGFILE is honoured.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ServeCommand {
    /// The folder to serve.
    #[arg(default_value = ".", value_name = "DIR")]
    root: PathBuf,
    /// The address to listen on; port 0 means any free port.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4433")]
    listen: SocketAddr,
    /// PEM file with the server's certificate, followed by the intermediate certificates.
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// PEM file with the certificate's private key.
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Write the generated certificate to this file.
    #[arg(long, value_name = "FILE", conflicts_with = "cert")]
    save_cert: Option<PathBuf>,
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
    /// When the server is interrupted, wait at most this long until the responses in progress are complete.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_timeout)]
    shutdown_timeout: Duration,
    /// Send all responses in turns, whatever priorities the clients state.
    #[arg(long, conflicts_with = "http09")]
    ignore_priorities: bool,
    /// Accept tunnels (extended CONNECT, RFC 9220) with the protocol "echo", and send back their content, capsules among
    /// it, and their datagrams (RFC 9297). For tests of clients and of paths.
    #[arg(long, conflicts_with = "http09")]
    echo: bool,
    /// Do not print a line for each request.
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    http3: Http3Options,
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
    clearway serve /srv/www --listen 0.0.0.0:443 --cert fullchain.pem --key privkey.pem";

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
    let identity = match (&command.cert, &command.key) {
        (Some(certificates), Some(key)) => Identity::read(certificates, key)?,
        _ => Identity::development()?,
    };
    let development = identity.development_pem.clone();
    let live = command.live.start().await?;
    let config = config(&command, identity, live)?;
    let log = AccessLog { is_quiet: command.quiet };
    let interrupt = Interrupt::listen()?;
    if command.http09 {
        let server = http09::Http09::bind(command.listen, config)?;
        announce(&command, development.as_deref(), server.local_address(), "hq-interop")?;
        server.run(files, log, interrupt, command.shutdown_timeout).await;
    } else {
        let timeouts = Timeouts { request: command.request_timeout, send: command.send_timeout };
        let http3 = Config {
            prioritize: !command.ignore_priorities,
            extended_connect: command.echo,
            datagrams: command.echo,
            ..command.http3.config()
        };
        let server = http3::Http3::bind(command.listen, config, http3, timeouts)?;
        announce(&command, development.as_deref(), server.local_address(), "h3")?;
        server.run(files, log, interrupt, command.shutdown_timeout).await;
    }
    Ok(())
}

fn config(
    command: &ServeCommand,
    identity: Identity,
    live: Option<Traces>,
) -> Result<ServerConfig, Failure> {
    let mut transport = command.connection.transport();
    if command.echo {
        transport = with_datagrams(transport);
    }
    if !command.quic_versions.is_empty() {
        let versions = command.quic_versions.iter().copied();
        transport = transport.versions(versions).prefers_own_version(true);
    }
    let transport = transport.build()?;
    let observers = command.connection.observers(&transport, live)?;
    let config = ServerConfig::new(identity.chain, identity.key)
        .transport(transport)
        .require_retry(command.retry)
        .key_log_from_environment();
    Ok(match observers {
        Some(observers) => config.observer(observers),
        None => config,
    })
}

/// Prints the address of the server, and how clients can trust a generated certificate.
fn announce(
    command: &ServeCommand,
    development: Option<&str>,
    address: SocketAddr,
    protocol: &str,
) -> Result<(), Failure> {
    match (&command.save_cert, development) {
        (Some(file), Some(pem)) => {
            certificate::save(pem, file)?;
            output::status(&format!("clients can trust this server with --ca {}", file.display()));
        }
        (None, Some(_)) => output::status(
            "the certificate was generated now; to let clients trust it, save it with --save-cert FILE",
        ),
        (_, None) => {}
    }
    output::result(&format!("listening on https://{address} ({protocol})"))
}

/// The failure of a server that cannot start.
fn cannot_serve(listen: SocketAddr, error: EndpointError) -> Failure {
    match error {
        EndpointError::Io(error) => Listening::UDP.failed(listen, &error),
        error => Failure::new(format!("cannot serve at {listen}: {error}"))
            .advise("check that the key of --key belongs to the certificate of --cert"),
    }
}

/// Waits for the end of a shutdown, until the program is interrupted again or `timeout` has passed.
async fn end(shutdown: impl Future<Output = ()>, interrupt: &mut Interrupt, timeout: Duration) {
    tokio::select! {
        () = shutdown => {}
        // A second interrupt ends the server at once.
        _ = interrupt.received() => {}
        () = tokio::time::sleep(timeout) => {
            output::status(&format!("not all responses were complete after {timeout:?}; the rest is cut off"));
        }
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
