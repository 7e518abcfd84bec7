//! `clearway get`: an HTTP/3 client.

mod connect;
mod download;
mod explain;
mod progress;
mod sink;
mod target;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clearway::ClientConfig;
use clearway_network::parse_duration;
use serde_json::json;

use crate::connection_options::ConnectionOptions;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output;
use crate::units::{bytes_text, rate_text};
use connect::Session;
use download::Outcome;
use progress::Progress;
use sink::Sink;
use target::Target;

/// Download over HTTP/3.
///
/// A file gets its name only when it is complete. The exit status is 0 only if every URL was downloaded
/// whole, with a status of success. SSLKEYLOGFILE is honoured.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct GetCommand {
    /// What to download; URLs of one server share a connection.
    #[arg(required = true, value_name = "URL")]
    urls: Vec<String>,
    /// Write to this file; - is standard output, and the default.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write each URL to a file that has the name with which the URL ends.
    #[arg(long, short = 'O', conflicts_with = "output")]
    remote_name: bool,
    /// Trust servers whose certificates lead to those in this PEM file, and no others.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Dangerous: believe any server. Whoever is on the way can read and change everything.
    #[arg(long, conflicts_with = "ca")]
    insecure: bool,
    /// Connect to this server instead of the one that the URL names.
    #[arg(long, value_name = "HOST:PORT")]
    connect: Option<String>,
    /// Give up after this long, over all.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,
    /// Send something after this much silence, so that the server learns it if a NAT has given this
    /// client another address; 0 for never.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_duration)]
    keep_alive: Duration,
    /// Speak HTTP/0.9 (hq-interop) instead of HTTP/3.
    #[arg(long)]
    http09: bool,
    /// Print one JSON object for each URL.
    #[arg(long)]
    json: bool,
    /// Show no progress.
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    connection: ConnectionOptions,
}

const AFTER_HELP: &str = "\
Examples:
  Print a page:
    clearway get https://www.example.org/
  Download two files from a server with a certificate of its own:
    clearway get -O --ca cert.pem https://localhost:4433/a.bin https://localhost:4433/b.bin
  Through an impaired link (see clearway link --help):
    clearway get -o file --ca cert.pem --connect 127.0.0.1:4434 https://localhost:4433/file";

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
            Err(Failure::new(format!("not done after {timeout:?}; nothing half-written was kept"))
                .advise("raise --timeout or ask for less"))
        }
        signal = interrupt.heard() => {
            Err(Failure::interrupted(signal, "interrupted; nothing half-written was kept"))
        }
    }
}

async fn download_all(command: &GetCommand) -> Result<(), Failure> {
    let targets: Vec<_> =
        command.urls.iter().map(|url| Target::parse(url)).collect::<Result<_, _>>()?;
    let files =
        targets.iter().map(|target| file(command, target)).collect::<Result<Vec<_>, _>>()?;
    check_outputs(command, &files)?;
    if command.insecure {
        output::status("warning: --insecure believes any server; what comes may be anyone's");
    }
    let config = connect::config(command)?;
    let mut session = None;
    for (target, file) in targets.iter().zip(&files) {
        // First of all, so that one learns at once that it cannot be written.
        let sink = Sink::open(file.as_deref()).await?;
        let current = match session.take() {
            Some(session) => reuse_or_close(session, target).await,
            None => None,
        };
        let current = match current {
            Some(current) => current,
            None => connect(command, &config, target).await?,
        };
        download(command, &current, target, file.as_ref(), sink).await?;
        session = Some(current);
    }
    if let Some(session) = session {
        session.close().await;
    }
    Ok(())
}

async fn connect(
    command: &GetCommand,
    config: &ClientConfig,
    target: &Target,
) -> Result<Session, Failure> {
    connect::connect(command, config, target).await
}

async fn reuse_or_close(session: Session, target: &Target) -> Option<Session> {
    if session.serves(target) {
        return Some(session);
    }
    session.close().await;
    None
}

async fn download(
    command: &GetCommand,
    session: &Session,
    target: &Target,
    file: Option<&PathBuf>,
    sink: Sink,
) -> Result<(), Failure> {
    let name = file.map_or_else(|| target.path().to_owned(), |file| file.display().to_string());
    let mut progress = Progress::start(&name, command.quiet || command.json);
    let outcome = download::download(session, target, sink, &mut progress).await?;
    if command.json {
        return output::result(&json_line(target, file, &progress, &outcome));
    }
    if !command.quiet && file.is_some() {
        let (bytes, seconds) = (bytes_text(progress.received()), progress.elapsed().as_secs_f64());
        let rate = rate_text(progress.goodput());
        drop(progress);
        output::status(&format!("{name}: {bytes} in {seconds:.3} s, {rate}"));
    }
    Ok(())
}

fn json_line(
    target: &Target,
    file: Option<&PathBuf>,
    progress: &Progress,
    outcome: &Outcome,
) -> String {
    let statistics = &outcome.statistics;
    json!({
        "url": target.uri.to_string(),
        "file": file.map(|file| file.display().to_string()),
        "status": outcome.status,
        "bytes": progress.received(),
        "seconds": progress.elapsed().as_secs_f64(),
        "goodput_bps": progress.goodput(),
        "rtt_seconds": statistics.smoothed_rtt.map(|rtt| rtt.as_secs_f64()),
        "packets_received": statistics.packets_received,
        "packets_sent": statistics.packets_sent,
        "packets_lost": statistics.packets_lost,
    })
    .to_string()
}

/// The file for a target; `None` for standard output.
fn file(command: &GetCommand, target: &Target) -> Result<Option<PathBuf>, Failure> {
    match &command.output {
        _ if command.remote_name => target.file_name().map(PathBuf::from).map(Some),
        Some(output) if output.as_os_str() != "-" => Ok(Some(output.clone())),
        _ => Ok(None),
    }
}

fn check_outputs(command: &GetCommand, files: &[Option<PathBuf>]) -> Result<(), Failure> {
    if files.len() > 1 && !command.remote_name && files.iter().any(Option::is_some) {
        return Err(Failure::new("several URLs cannot go to one file")
            .advise("use -O for a file each, or one command for each"));
    }
    if command.json && files.iter().any(Option::is_none) {
        return Err(Failure::new("--json and the content cannot both go to standard output")
            .advise("name a file with --output, or use -O"));
    }
    Ok(())
}
