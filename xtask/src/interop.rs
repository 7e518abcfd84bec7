//! `cargo xtask interop`: the tests of the public interop runner between Clearway and other stacks (see `interop/`).

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use crate::command::{self, cargo, root, target};

/// A few tests of Clearway with itself, for continuous integration.
const FEW: [&str; 14] = [
    "--client",
    "clearway",
    "--server",
    "clearway",
    "--controller",
    "cubic",
    "--test",
    "handshake",
    "--test",
    "transfer",
    "--test",
    "retry",
    "--test",
    "http3",
];

/// Builds what the chosen cells need, and becomes the program that runs them.
pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    let runner = build_runner()?;
    let only_prints = |argument: &&str| ["--help", "-h", "--list", "--show"].contains(argument);
    if !arguments.iter().any(only_prints) {
        // Wrong options are reported before anything else is built.
        let mut list = Command::new(&runner);
        let peers = command::output("interop", list.arg("--list-peers").args(arguments))?;
        build_peers(&peers.split_whitespace().collect::<Vec<_>>())?;
        command::program()?;
    }
    // In place of this process, so that Ctrl-C ends in order what it has started.
    let error = prepare(runner).args(arguments).exec();
    Err(format!("the runner cannot be started: {error}"))
}

/// Runs a few tests of Clearway with itself.
pub(crate) fn run_few() -> Result<(), String> {
    let runner = build_runner()?;
    command::program()?;
    command::run("the interop runner's tests", prepare(runner).args(FEW))
}

fn prepare(runner: PathBuf) -> Command {
    let mut command = Command::new(runner);
    command.current_dir(root()).env("CARGO_TARGET_DIR", target());
    command
}

fn build_runner() -> Result<PathBuf, String> {
    let mut build = cargo(&["build", "--release", "--package", "clearway-interop", "--quiet"]);
    command::run("building the interop runner", &mut build)?;
    Ok(target().join("release/clearway-interop"))
}

fn build_peers(names: &[&str]) -> Result<(), String> {
    if names.is_empty() {
        return Ok(());
    }
    let mut build = Command::new("sh");
    build.arg(root().join("interop/peers/build.sh")).args(names);
    command::run("building the peers", build.env("PEERS_OUT", target().join("peers")))
}
