//! The environment of a pair: a server with a certificate on one core, and a client that trusts
//! that certificate on another.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::measured::{Latency, Run, Unit};
use super::stacks::Stack;
use super::text;
use crate::command::{run as show, target};
use crate::measure::{self, Failure, Server};

pub(super) const SERVER_CORE: usize = 0;
pub(super) const CLIENT_CORE: usize = 1;

/// Placeholder for the server's address in a client's arguments.
pub(super) const ADDRESS: &str = "{address}";

/// One end of a pair: the server or the client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum End {
    Server,
    Client,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Server => "server",
            Self::Client => "client",
        })
    }
}

/// Why a run has no result.
#[derive(PartialEq, Debug)]
pub(super) enum Problem {
    /// This endpoint does not support the command or option.
    NotOffered(End),
    /// The run failed, with a description of the problem.
    Failed(String),
}

impl From<String> for Problem {
    fn from(text: String) -> Self {
        Self::Failed(text)
    }
}

impl Problem {
    fn at(end: End) -> impl Fn(Failure) -> Self {
        move |failure| match failure {
            Failure::NotOffered => Self::NotOffered(end),
            Failure::Failed(text) => Self::Failed(text),
        }
    }
}

/// The task of a server and a client: their commands with options.
pub(super) struct Job<'a> {
    pub(super) serve: &'a [&'a str],
    /// The client's arguments, with [`ADDRESS`] in place of the server's address. Positional
    /// arguments are at the end.
    pub(super) ask: &'a [&'a str],
}

/// The command that starts a server with raw streams.
pub(super) const SERVE_RAW: [&str; 1] = ["raw-server"];

/// The command that starts an HTTP/3 server.
pub(super) const SERVE_HTTP3: [&str; 3] = ["server", "--root", "."];

pub(super) struct Place {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
    /// The CA certificate that clients trust and that signed the server's certificate.
    pub(super) authority: PathBuf,
}

impl Place {
    /// Creates an environment with a temporary certificate. Clearway's program generates it, so
    /// that no other tool is needed.
    pub(super) fn new(ours: &Path) -> Result<Self, String> {
        let folder = target().join("bench");
        std::fs::create_dir_all(&folder)
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        let [certificate, key, authority] =
            ["cert.pem", "key.pem", "authority.pem"].map(|name| folder.join(name));
        let mut command = Command::new(ours);
        command.arg("certificate").arg(&certificate).arg(&key);
        command.arg("--authority").arg(&authority);
        show("making a certificate", &mut command)?;
        Ok(Self { certificate, key, authority })
    }

    /// Starts a server.
    pub(super) fn serve(&self, server: &Stack, command: &[&str]) -> Result<Server, Failure> {
        let mut arguments = command.to_vec();
        arguments.extend(["--listen", "127.0.0.1:0"]);
        arguments.extend(["--cert", text(&self.certificate), "--key", text(&self.key)]);
        arguments.extend(server.arguments);
        Server::start(&server.program, &arguments, SERVER_CORE)
    }

    /// Runs the job with a new server. `read` extracts the amount of work in units, and the time in
    /// seconds, from the line that the client prints.
    pub(super) fn run(
        &self,
        [server, client]: [&Stack; 2],
        job: &Job<'_>,
        unit: &Unit,
        read: impl Fn(&Value) -> Option<(f64, f64)>,
    ) -> Result<Run, Problem> {
        let (result, cpu) = self.ask([server, client], job)?;
        let is_usable = |(amount, seconds): &(f64, f64)| *amount > 0.0 && *seconds > 0.0;
        let (amount, seconds) =
            read(&result).filter(is_usable).ok_or_else(|| unusable([server, client], &result))?;
        let cpu = cpu.map(|seconds| seconds * unit.cpu_scale / amount);
        Ok(Run { per_second: amount / seconds, cpu, latency: None })
    }

    /// Runs the job with a new server, at half of the rate that `run` reached. `read` extracts the
    /// latencies from the line that the client prints.
    pub(super) fn latency(
        &self,
        run: &Run,
        pair: [&Stack; 2],
        job: &Job<'_>,
        read: impl Fn(&Value) -> Option<[f64; 2]>,
    ) -> Result<Latency, Problem> {
        let rate = run.per_second / 2.0;
        let number = rate.to_string();
        let mut ask = job.ask.to_vec();
        ask.splice(1..1, ["--rate", &number]);
        let (result, _) = self.ask(pair, &Job { serve: job.serve, ask: &ask })?;
        let microseconds = read(&result).ok_or_else(|| unusable(pair, &result))?;
        Ok(Latency { rate, microseconds })
    }

    /// Runs the job with a new server. Returns the line that the client prints, and the CPU seconds
    /// used by server and client.
    fn ask(
        &self,
        [server, client]: [&Stack; 2],
        job: &Job<'_>,
    ) -> Result<(Value, [f64; 2]), Problem> {
        let listening = self.serve(server, job.serve).map_err(Problem::at(End::Server))?;
        let before = listening.cpu_seconds()?;
        let with_address = |argument| match argument {
            ADDRESS => listening.address.as_str(),
            other => other,
        };
        let mut arguments: Vec<&str> = job.ask.iter().copied().map(with_address).collect();
        // Positional arguments must stay at the end: some parsers read no options after them.
        let options = [&["--ca", text(&self.authority)], client.arguments].concat();
        arguments.splice(1..1, options);
        let (result, client_cpu) = measure::client(&client.program, &arguments, CLIENT_CORE)
            .map_err(Problem::at(End::Client))?;
        Ok((result, [listening.cpu_seconds()? - before, client_cpu]))
    }
}

fn unusable([server, client]: [&Stack; 2], result: &Value) -> String {
    // Some results contain lists with thousands of entries.
    let said: String = result.to_string().chars().take(120).collect();
    format!("{} with {} failed: {said}", client.title(), server.title())
}
