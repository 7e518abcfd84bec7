//! `clearway probe`: sends anything to any QUIC or HTTP/3 endpoint.

mod conformance;
mod peer;

use std::fs;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use clearway_network::parse_duration;
use clearway_probe::qlog;
use clearway_probe::report::Report;
use clearway_probe::run::{Options, RunError, connect};
use clearway_probe::script::Script;

use crate::address;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output;
use peer::{ClientOptions, ServerOptions};

/// The exit status of invalid arguments and scripts.
const USAGE: u8 = 2;
/// The exit status if the peer cannot be reached.
const UNREACHABLE: u8 = 3;

/// Send anything to any QUIC or HTTP/3 endpoint, as a script says.
///
/// A script is a TOML file with steps: packets of any frames, HTTP/3 frames, QPACK instructions, resets, migrations,
/// lost and reordered datagrams, waiting, and expectations. docs/probe.md describes it.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct ProbeCommand {
    #[command(subcommand)]
    action: Option<Action>,
    /// The server, such as https://localhost:4433.
    #[arg(value_name = "URL", required_unless_present_any = ["listen", "print_script"])]
    url: Option<String>,
    /// TOML file with the steps; - for standard input.
    ///
    /// Without a script, the probe sends one GET request, or waits for one.
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    script: Option<PathBuf>,
    /// Replay what a client sent, from its qlog file (.sqlog).
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Print the script as TOML, and do not run it.
    #[arg(long)]
    print_script: bool,
    /// Be the server, on this address; the script runs with the first client.
    #[arg(long, value_name = "ADDR", value_parser = address::parse, conflicts_with = "url")]
    listen: Option<SocketAddr>,
    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
    /// Write a qlog of the run to this file.
    #[arg(long, value_name = "FILE")]
    qlog: Option<PathBuf>,
    /// Maximum time until the handshake is complete, or a client connects.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "10s")]
    timeout: Duration,
    #[command(flatten)]
    client: ClientOptions,
    #[command(flatten)]
    server: ServerOptions,
}

#[derive(Subcommand, Debug)]
enum Action {
    Conformance(Box<conformance::ConformanceCommand>),
}

const AFTER_HELP: &str = "\
Examples:
  Run a script against a server, and write what happened:
    clearway probe https://localhost:4433 --insecure --script steps.toml --qlog run.sqlog
  Run a script as a server, with the first client that connects:
    clearway probe --listen 127.0.0.1:4433 --script steps.toml
  Repeat what a client sent:
    clearway probe https://localhost:4433 --insecure --replay client.sqlog
  Check whether a server conforms to the RFCs:
    clearway probe conformance https://localhost:4433 --insecure

Exit status: 0 if every expectation was fulfilled, 1 if one was not, 2 if the arguments or the script are \
invalid, 3 if the peer cannot be reached.";

/// Runs the command.
pub(crate) async fn run(command: ProbeCommand) -> Result<(), Failure> {
    let mut interrupt = Interrupt::listen()?;
    let work = async {
        match command.action {
            Some(Action::Conformance(command)) => conformance::run(*command).await,
            None => run_script(command).await,
        }
    };
    tokio::select! {
        outcome = work => outcome,
        signal = interrupt.received() => Err(Failure::interrupted(signal, "interrupted")),
    }
}

async fn run_script(command: ProbeCommand) -> Result<(), Failure> {
    let script = script(&command)?;
    if command.print_script {
        let text = script.to_toml().map_err(|error| Failure::new(error.to_string()))?;
        return output::last_result(text.trim_end());
    }
    let options = Options { handshake_timeout: command.timeout, ..Options::default() };
    let report = match &command.listen {
        Some(address) => {
            let listener = command.server.listen(*address)?;
            output::status(&format!("waiting for a client on {}", listener.local_address()));
            blocking(move || listener.accept(&script, &options)).await?
        }
        None => {
            let url = command.url.as_deref().unwrap_or_default();
            let target = command.client.target(url).await?;
            blocking(move || connect(&target, &script, &options)).await?
        }
    };
    conclude(&command, &report)
}

/// Returns the script of the command.
fn script(command: &ProbeCommand) -> Result<Script, Failure> {
    let path = command.url.as_deref().map_or("/", peer::path);
    match (&command.script, &command.replay) {
        (Some(file), _) => Script::from_toml(&read(file)?).map_err(|error| {
            Failure::new(format!("cannot use {}: {error}", file.display())).with_exit_status(USAGE)
        }),
        (None, Some(file)) => qlog::replay(&read(file)?).map_err(|error| {
            Failure::new(format!("cannot replay {}: {error}", file.display()))
                .with_exit_status(USAGE)
        }),
        (None, None) => {
            use clearway_probe::script::Condition;
            let script = Script::http3();
            Ok(match command.listen {
                Some(_) => script.expect(vec![Condition::Headers { stream: 0 }]),
                None => script.get(0, path).expect(vec![Condition::response(0, &[])]),
            })
        }
    }
}

fn read(file: &Path) -> Result<String, Failure> {
    let text = match file.as_os_str() == "-" {
        true => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map(|_| text)
        }
        false => fs::read_to_string(file),
    };
    text.map_err(|error| {
        Failure::new(format!("cannot read {}: {error}", file.display())).with_exit_status(USAGE)
    })
}

/// Prints the report.
fn conclude(command: &ProbeCommand, report: &Report) -> Result<(), Failure> {
    if let Some(file) = &command.qlog {
        fs::write(file, qlog::write(report)).map_err(|error| {
            Failure::new(format!("cannot write {}: {error}", file.display()))
                .advise("choose another file with --qlog")
        })?;
    }
    output::last_result(&match command.json {
        true => report.to_json(),
        false => report.to_string(),
    })?;
    let failed = report.steps.iter().filter(|step| !step.is_ok).count();
    match failed {
        0 => Ok(()),
        1 => Err(Failure::new("1 step failed")),
        failed => Err(Failure::new(format!("{failed} steps failed"))),
    }
}

/// Runs a function that blocks, and converts its error.
async fn blocking<T: Send + 'static>(
    run: impl FnOnce() -> Result<T, RunError> + Send + 'static,
) -> Result<T, Failure> {
    match tokio::task::spawn_blocking(run).await {
        Ok(result) => result.map_err(|error| failure(&error)),
        Err(error) => Err(Failure::new(format!("the probe stopped: {error}"))),
    }
}

fn failure(error: &RunError) -> Failure {
    let failure = Failure::new(error.to_string());
    match error {
        RunError::CannotConnect { .. } | RunError::NoClient => {
            failure.with_exit_status(UNREACHABLE)
        }
        _ => failure,
    }
}
