//! `cargo xtask bench`: Clearway's speed beside other stacks.

mod bulk;
mod connections;
mod handshakes;
mod kernel;
mod memory;
mod overload;
mod pairs;
mod requests;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use self::pairs::{Latency, Run};
use crate::command::{cargo, root, run as show, target};
use crate::measure::{self, Server};

const SERVER_CORE: usize = 0;
const CLIENT_CORE: usize = 1;

const NAMES: &str = "bulk, connections, handshakes, memory, overload, qpack, requests";
/// Those with HTTP/3. s2n-quic is not among them: its adapter for HTTP/3 is in no registry.
const PEERS: [&str; 3] = ["quinn", "tokio-quiche", "quic-go"];

/// A program that serves or asks, with the arguments that choose how.
struct Stack {
    name: &'static str,
    program: PathBuf,
    arguments: &'static [&'static str],
}

/// The programs that speak HTTP/3: Clearway's, with both of its faces, and the peers'.
struct Stacks {
    servers: Vec<Stack>,
    clients: Vec<Stack>,
}

/// Runs the benchmark that the first argument names.
pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    match arguments {
        ["bulk", rest @ ..] => bulk::run(rest),
        ["connections", rest @ ..] => connections::run(rest),
        ["handshakes", rest @ ..] => handshakes::run(rest),
        ["memory", rest @ ..] => memory::run(rest),
        ["overload", rest @ ..] => overload::run(rest),
        ["qpack", rest @ ..] => qpack(rest),
        ["requests", rest @ ..] => requests::run(rest),
        [] => Err(format!("bench needs the name of a benchmark: {NAMES}")),
        [other, ..] => Err(format!("there is no benchmark {other}, but {NAMES}")),
    }
}

/// Header compression on the requests of a browser; the program takes the options.
fn qpack(arguments: &[&str]) -> Result<(), String> {
    let program = build()?;
    show("measuring QPACK", Command::new(program).arg("qpack").args(arguments))
}

/// Builds our program, and returns its path.
fn build() -> Result<PathBuf, String> {
    let build = ["build", "--profile", "dist", "--package", "clearway-bench"];
    show("building the benchmark", &mut cargo(&build))?;
    Ok(target().join("dist/clearway-bench"))
}

/// Builds the program of another stack, and returns its path.
fn peer(name: &str) -> Result<PathBuf, String> {
    let folder = target().join("peers");
    let mut build = Command::new("sh");
    build.arg(root().join("interop/peers/build.sh")).arg(name).env("PEERS_OUT", &folder);
    show(&format!("building the {name} peer"), &mut build)?;
    let program = folder.join(name);
    if !program.exists() {
        return Err(format!("the {name} peer was not built; what is missing is said above"));
    }
    Ok(program)
}

/// The peer of this name.
fn peer_named(name: &str) -> Result<&'static str, String> {
    let peer = PEERS.into_iter().find(|peer| *peer == name);
    peer.ok_or_else(|| format!("the peers are {}, not {name}", PEERS.join(", ")))
}

/// Where pairs run: a server with a certificate on one core, a client that trusts it on another.
struct Place {
    certificate: PathBuf,
    key: PathBuf,
}

impl Place {
    fn new((certificate, key): (PathBuf, PathBuf)) -> Self {
        Self { certificate, key }
    }

    /// Starts a server over HTTP/3.
    fn serve(&self, server: &Stack) -> Result<Server, String> {
        self.serve_with(server, &[])
    }

    /// Starts a server over HTTP/3, with more options.
    fn serve_with(&self, server: &Stack, options: &[&str]) -> Result<Server, String> {
        let mut arguments = vec!["server", "--listen", "127.0.0.1:0", "--root", "."];
        arguments.extend(["--cert", text(&self.certificate), "--key", text(&self.key)]);
        arguments.extend(server.arguments);
        arguments.extend(options);
        Server::start(&server.program, &arguments, SERVER_CORE)
    }

    /// Runs `command` of the client with a new server. `read` finds how many operations there were, and how many seconds they
    /// took, in the line that the client prints.
    fn run(
        &self,
        server: &Stack,
        client: &Stack,
        command: &str,
        options: &[&str],
        read: impl Fn(&Value) -> Option<(f64, f64)>,
    ) -> Result<Run, String> {
        let (result, cpu) = self.ask(server, client, command, options)?;
        let is_usable = |(count, seconds): &(f64, f64)| *count > 0.0 && *seconds > 0.0;
        let (count, seconds) =
            read(&result).filter(is_usable).ok_or_else(|| unusable(server, client, &result))?;
        let cpu = cpu.map(|seconds| seconds * 1e6 / count);
        Ok(Run { per_second: count / seconds, cpu, latency: None })
    }

    /// Runs `command` of the client with a new server, at half of the rate that `run` had. `read` finds the latencies in the
    /// line that the client prints.
    fn latency(
        &self,
        run: &Run,
        [server, client]: [&Stack; 2],
        command: &str,
        options: &[&str],
        read: impl Fn(&Value) -> Option<[f64; 2]>,
    ) -> Result<Latency, String> {
        let rate = run.per_second / 2.0;
        let text = rate.to_string();
        let options = [options, &["--rate", &text]].concat();
        let (result, _) = self.ask(server, client, command, &options)?;
        let microseconds = read(&result).ok_or_else(|| unusable(server, client, &result))?;
        Ok(Latency { rate, microseconds })
    }

    /// Runs `command` of the client with a new server: the line that it prints, and the CPU seconds of server and client.
    fn ask(
        &self,
        server: &Stack,
        client: &Stack,
        command: &str,
        options: &[&str],
    ) -> Result<(Value, [f64; 2]), String> {
        let listening = self.serve(server)?;
        let before = listening.cpu_seconds()?;
        let mut arguments = vec![command, "--ca", text(&self.certificate)];
        arguments.extend(["--connect", &listening.address]);
        arguments.extend(options);
        arguments.extend(client.arguments);
        let (result, client_cpu) = measure::client(&client.program, &arguments, CLIENT_CORE)?;
        Ok((result, [listening.cpu_seconds()? - before, client_cpu]))
    }
}

fn unusable(server: &Stack, client: &Stack, result: &Value) -> String {
    format!("{} with {} did not end well: {result}", client.name, server.name)
}

fn stacks(ours: &Path, peers: &[&'static str]) -> Result<Stacks, String> {
    let clearway = |name, arguments| Stack { name, program: ours.to_owned(), arguments };
    let mut servers = vec![
        clearway("clearway, in the shard", &["--face", "shard"]),
        clearway("clearway, async", &["--face", "async"]),
    ];
    let mut clients = vec![clearway("clearway", &[])];
    for name in peers {
        let program = peer(name)?;
        servers.push(Stack { name, program: program.clone(), arguments: &[] });
        clients.push(Stack { name, program, arguments: &[] });
    }
    Ok(Stacks { servers, clients })
}

/// A throw-away certificate, generated by our own program because no other tool has to be installed for that.
fn certificate(ours: &Path) -> Result<(PathBuf, PathBuf), String> {
    let folder = target().join("bench");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    let mut command = Command::new(ours);
    command.arg("certificate").arg(&certificate).arg(&key);
    show("making a certificate", &mut command)?;
    Ok((certificate, key))
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text} is not a whole number"))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

fn median(values: &[f64]) -> f64 {
    values[values.len() / 2]
}

fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
