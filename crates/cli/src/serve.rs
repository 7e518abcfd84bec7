//! `clearway serve`: a file server.

mod answer;
mod conditions;
mod files;
mod http09;
mod http3;
mod memory;
mod store;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clearway::http3::Timeouts;
use clearway::{EndpointError, ServerConfig};
use clearway_network::{parse_duration, parse_size};

use crate::certificate::{self, Identity};
use crate::connection_options::ConnectionOptions;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::listening::Listening;
use crate::live::{LiveOptions, Traces};
use crate::output;
use crate::units::bytes_text;
use files::Files;
use store::Store;

/// Serve the files of a folder over HTTP/3.
///
/// Without --cert and --key a certificate for localhost, 127.0.0.1 and ::1 is made on the spot; clients
/// trust it when they are given the file of --save-cert. Interrupt the server (Ctrl-C) and it answers
/// what was asked and ends; interrupt it again and it ends at once. SSLKEYLOGFILE is honoured.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ServeCommand {
    /// The folder.
    #[arg(default_value = ".", value_name = "DIR")]
    root: PathBuf,
    /// Where to listen; port 0 takes any.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4433")]
    listen: SocketAddr,
    /// PEM file with the server's certificate, and those that lead to a root.
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// PEM file with the certificate's private key.
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Write the certificate that was made on the spot to this file.
    #[arg(long, value_name = "FILE", conflicts_with = "cert")]
    save_cert: Option<PathBuf>,
    /// Have every client show that it receives what is sent to its address (Retry).
    #[arg(long)]
    retry: bool,
    /// Serve HTTP/0.9 (hq-interop) instead of HTTP/3.
    #[arg(long)]
    http09: bool,
    /// Serve files and folders whose names begin with a dot, too; without this, of those only /.well-known.
    #[arg(long)]
    hidden: bool,
    /// Keep at most this many files open.
    #[arg(long, value_name = "COUNT", default_value = "256", value_parser = clap::value_parser!(u32).range(1..))]
    open_files: u32,
    /// Hold at most this much of what clients have not acknowledged, for all of them together; no client gets more than an
    /// eighth of what is free. Who asks when nothing is free is told to come again (503).
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = parse_memory)]
    content_memory: u64,
    /// Abandon a response of which the client takes nothing for this long. The connection's others go on.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_timeout)]
    send_timeout: Duration,
    /// Abandon a request that is not complete and of which nothing comes for this long.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_timeout)]
    request_timeout: Duration,
    /// Print no line per request.
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    connection: ConnectionOptions,
    #[command(flatten)]
    live: LiveOptions,
}

const AFTER_HELP: &str = "\
Examples:
  Serve this folder to this machine:
    clearway serve --save-cert /tmp/cert.pem
    clearway get --ca /tmp/cert.pem https://localhost:4433/README.md
  Serve a folder to everyone, with a real certificate:
    clearway serve /srv/www --listen 0.0.0.0:443 --cert fullchain.pem --key privkey.pem";

/// The least that `--content-memory` can be: less would not do for one piece of a file.
const LEAST_MEMORY: u64 = 1 << 20;

fn parse_memory(input: &str) -> Result<u64, String> {
    match parse_size(input).map_err(|error| error.to_string())? {
        size if size < LEAST_MEMORY => Err("it must be 1MiB or more".to_owned()),
        size => Ok(size),
    }
}

fn parse_timeout(input: &str) -> Result<Duration, String> {
    match parse_duration(input).map_err(|error| error.to_string())? {
        Duration::ZERO => Err("no time at all is too little".to_owned()),
        timeout => Ok(timeout),
    }
}

/// Runs the command.
pub(crate) async fn run(command: ServeCommand) -> Result<(), Failure> {
    let open_files = usize::try_from(command.open_files).unwrap_or(usize::MAX);
    let store = Store::new(open_files, command.content_memory);
    let files = Files::new(&command.root, command.hidden, store).map_err(|error| {
        Failure::new(format!("cannot serve {}: {error}", command.root.display()))
            .advise("name a folder that this user may read")
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
        server.run(files, log, interrupt).await;
    } else {
        let timeouts = Timeouts { request: command.request_timeout, send: command.send_timeout };
        let server = http3::Http3::bind(command.listen, config, timeouts)?;
        announce(&command, development.as_deref(), server.local_address(), "h3")?;
        server.run(files, log, interrupt).await;
    }
    Ok(())
}

fn config(
    command: &ServeCommand,
    identity: Identity,
    live: Option<Traces>,
) -> Result<ServerConfig, Failure> {
    let transport = command.connection.transport().build()?;
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

/// Says where the server listens, and how clients come to trust a certificate made on the spot.
fn announce(
    command: &ServeCommand,
    development: Option<&str>,
    address: SocketAddr,
    protocol: &str,
) -> Result<(), Failure> {
    match (&command.save_cert, development) {
        (Some(file), Some(pem)) => {
            certificate::save(pem, file)?;
            output::status(&format!("clients trust this server with --ca {}", file.display()));
        }
        (None, Some(_)) => output::status(
            "the certificate was made on the spot; with --save-cert FILE clients can trust it",
        ),
        (_, None) => {}
    }
    output::result(&format!("listening on https://{address} ({protocol})"))
}

/// Why the server cannot begin.
fn cannot_serve(listen: SocketAddr, error: EndpointError) -> Failure {
    match error {
        EndpointError::Io(error) => Listening::UDP.failed(listen, &error),
        error => Failure::new(format!("cannot serve at {listen}: {error}"))
            .advise("check that --cert and --key belong together"),
    }
}

/// One line for each request.
#[derive(Clone, Copy, Debug)]
struct AccessLog {
    is_quiet: bool,
}

impl AccessLog {
    /// Says why a path could not be served, also where no line per request is wanted.
    fn problem(self, path: &str, problem: &str) {
        output::status(&format!("clearway: cannot serve \"{}\": {problem}", path.escape_debug()));
    }

    /// Writes a line; `outcome` is how many bytes the answer had, or why it was cut off.
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
        // A path is the client's own: it must not write to a terminal as it likes.
        let path = path.escape_debug();
        let line =
            format!("{client} {method} \"{path}\" {status} {outcome} {:.3} s", time.as_secs_f64());
        // A log that nobody reads any more does not end the server.
        let _ = output::result(&line);
    }
}
