//! `clearway get`: an HTTP/3 client.

mod batch;
mod connect;
mod download;
mod explain;
mod progress;
mod sink;
mod target;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clearway_network::parse_duration;

use crate::connection_options::ConnectionOptions;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output;
use batch::{Batch, Job};
use target::Target;

/// Download over HTTP/3.
///
/// A file gets its name only when it is complete; then it replaces the one of that name, whose permissions it takes over,
/// and a symbolic link goes on leading to it. A file that is protected from writing is not replaced. Several URLs are
/// downloaded at once, except to standard output, and the failure of one does not end the others. The exit status is 0 only if
/// every URL was downloaded whole, with a status of success. SSLKEYLOGFILE is honoured.
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
    let jobs: Vec<_> = targets
        .into_iter()
        .map(|target| Ok(Job { file: file(command, &target)?, target }))
        .collect::<Result<_, Failure>>()?;
    check_outputs(command, &jobs)?;
    if command.insecure {
        output::status("warning: --insecure believes any server; what comes may be anyone's");
    }
    let batch = Batch::new(command, connect::config(command)?, &jobs);
    let outcome = batch.run(&jobs).await;
    batch.close();
    outcome
}

/// The file for a target; `None` for standard output.
fn file(command: &GetCommand, target: &Target) -> Result<Option<PathBuf>, Failure> {
    match &command.output {
        _ if command.remote_name => target.file_name().map(PathBuf::from).map(Some),
        Some(output) if output.as_os_str() != "-" => Ok(Some(output.clone())),
        _ => Ok(None),
    }
}

fn check_outputs(command: &GetCommand, jobs: &[Job]) -> Result<(), Failure> {
    if jobs.len() > 1 && !command.remote_name && jobs.iter().any(|job| job.file.is_some()) {
        return Err(Failure::new("several URLs cannot go to one file")
            .advise("use -O for a file each, or one command for each"));
    }
    let mut names = BTreeSet::new();
    if let Some(twice) =
        jobs.iter().filter_map(|job| job.file.as_ref()).find(|file| !names.insert(*file))
    {
        return Err(Failure::new(format!("two of the URLs end with {}", twice.display()))
            .advise("use --output and one command for each"));
    }
    if command.json && jobs.iter().any(|job| job.file.is_none()) {
        return Err(Failure::new("--json and the content cannot both go to standard output")
            .advise("name a file with --output, or use -O"));
    }
    Ok(())
}
