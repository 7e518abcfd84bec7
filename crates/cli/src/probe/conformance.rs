//! `clearway probe conformance`: checks whether a server or a client conforms to the RFCs.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use clap::Args;
use clearway_network::parse_duration;
use clearway_probe::conformance::{
    Check, CheckResult, Suite, Summary, check_client, check_server, client_checks, server_checks,
};
use clearway_probe::run::Options;

use super::peer::{ClientOptions, ServerOptions};
use super::{USAGE, blocking};
use crate::address;
use crate::failure::Failure;
use crate::output;

/// Check whether a server, or a client, conforms to the RFCs.
///
/// Each check connects once, violates a rule or uses a right, and compares what the peer does with what the RFC
/// allows. With --listen, clients are checked: --client starts one for each check.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ConformanceCommand {
    /// The server, such as https://localhost:4433.
    #[arg(value_name = "URL", required_unless_present_any = ["listen", "list"])]
    url: Option<String>,
    /// Check clients, as a server on this address.
    #[arg(long, value_name = "ADDR", value_parser = address::parse, conflicts_with = "url")]
    listen: Option<SocketAddr>,
    /// Start this program for each check; {url} stands for the probe's URL.
    #[arg(long, value_name = "COMMAND", requires = "listen")]
    client: Option<String>,
    /// Run only checks whose names contain this text.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// List the checks, and do not run them; with --listen, those for clients.
    #[arg(long)]
    list: bool,
    /// Maximum number of checks that run at the same time.
    #[arg(long, value_name = "COUNT", default_value = "8", conflicts_with = "listen")]
    concurrency: NonZeroUsize,
    /// Time within which the peer must detect a violation.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "2s")]
    wait: Duration,
    /// Maximum time until the handshake is complete, or a client connects.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "10s")]
    timeout: Duration,
    /// Print the results as one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    client_options: ClientOptions,
    #[command(flatten)]
    server_options: ServerOptions,
}

const AFTER_HELP: &str = "\
Examples:
  Check a server with a self-signed certificate:
    clearway probe conformance https://localhost:4433 --insecure
  Run the checks about SETTINGS only:
    clearway probe conformance https://localhost:4433 --insecure --only settings
  Check a client:
    clearway probe conformance --listen 127.0.0.1:4434 --client 'clearway get --insecure {url}'

Exit status: 0 if no check failed, 1 if one failed, 2 if the arguments are invalid, 3 if the server cannot \
be reached.";

/// Runs the command.
pub(super) async fn run(command: ConformanceCommand) -> Result<(), Failure> {
    let suite = Suite {
        only: command.only.clone(),
        concurrency: command.concurrency,
        options: Options {
            handshake_timeout: command.timeout,
            expect_timeout: command.wait,
            ..Options::default()
        },
    };
    let all = if command.listen.is_some() { client_checks() } else { server_checks() };
    let selected = suite.select(all);
    if selected.is_empty() {
        let only = command.only.unwrap_or_default();
        return Err(Failure::new(format!("no check has a name that contains {only:?}"))
            .advise("--list lists the checks")
            .with_exit_status(USAGE));
    }
    if command.list {
        return list(&selected);
    }
    let json = command.json;
    let print = move |result: &CheckResult| {
        if !json {
            // A failure to print is reported with the summary.
            drop(output::result(&result.to_string()));
        }
    };
    let summary = match command.listen {
        Some(address) => {
            let listener = command.server_options.listen(address)?;
            let mut clients = Clients::new(command.client.as_deref(), listener.local_address())?;
            blocking(move || {
                Ok(check_client(&listener, &suite, |check| clients.start(check), print))
            })
            .await?
        }
        None => {
            let target =
                command.client_options.target(command.url.as_deref().unwrap_or_default()).await?;
            blocking(move || check_server(&target, &suite, print)).await?
        }
    };
    conclude(&summary, json)
}

fn list(checks: &[Check]) -> Result<(), Failure> {
    let lines: Vec<_> = checks
        .iter()
        .map(|check| format!("{} ({}): {}", check.name, check.reference, check.sends))
        .collect();
    output::last_result(&lines.join("\n"))
}

fn conclude(summary: &Summary, json: bool) -> Result<(), Failure> {
    output::last_result(&if json { summary.to_json() } else { summary.totals() })?;
    match summary.failed {
        0 => Ok(()),
        1 => Err(Failure::new("1 check failed")),
        failed => Err(Failure::new(format!("{failed} checks failed"))),
    }
}

/// Starts the client under test, once for each check.
struct Clients {
    /// The program and its arguments; empty if the user starts the client.
    words: Vec<String>,
    url: String,
    running: Option<Child>,
}

impl Clients {
    fn new(command: Option<&str>, address: SocketAddr) -> Result<Self, Failure> {
        let url = format!("https://localhost:{}/", address.port());
        let words: Vec<_> = command
            .unwrap_or_default()
            .split_whitespace()
            .map(|word| word.replace("{url}", &url))
            .collect();
        if command.is_some() && words.is_empty() {
            return Err(Failure::new("--client is empty").with_exit_status(USAGE));
        }
        Ok(Self { words, url, running: None })
    }

    fn start(&mut self, check: &Check) {
        self.stop();
        let Some((program, arguments)) = self.words.split_first() else {
            return output::status(&format!("{}: start a client for {}", check.name, self.url));
        };
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match command.spawn() {
            Ok(child) => self.running = Some(child),
            Err(error) => output::status(&format!("cannot start {program}: {error}")),
        }
    }

    /// Ends the client of the last check.
    fn stop(&mut self) {
        if let Some(mut child) = self.running.take() {
            // It may have ended by itself.
            drop(child.kill());
            drop(child.wait());
        }
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.stop();
    }
}
