//! `cargo xtask interop`: the tests of the public interop runner between Clearway and other stacks (see `interop/`).

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{self, root, target};

/// Tests for CI: those of Clearway with itself that take less than 15 seconds.
const WITH_ITSELF: &str = "handshake transfer longrtt chacha20 multiplexing retry resumption zerortt http3 keyupdate ecn \
    amplificationlimit transferloss transfercorruption ipv6 v2 rebind-port connectionmigration";
const RUNNER: &str = "clearway-interop";
pub(crate) const PEERS: [&str; 5] = ["quinn", "tokio-quiche", "s2n-quic", "quic-go", "aioquic"];
/// A few tests to run in both roles with every peer.
const WITH_PEERS: &str = "handshake retry http3 keyupdate v2";

/// Builds the programs for the selected test cells, and then replaces this process with the runner.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let mut build = command::build("release", &[RUNNER]);
    command::run("building the interop runner", build.arg("--quiet"))?;
    let runner = target().join("release").join(RUNNER);
    let only_prints =
        |argument: &String| ["--help", "-h", "--list", "--show"].contains(&argument.as_str());
    if !arguments.iter().any(only_prints) {
        // Invalid options are reported before anything else is built.
        let mut list = Command::new(&runner);
        let peers = command::output("interop", list.arg("--list-peers").args(arguments))?;
        build_peers(&peers.split_whitespace().collect::<Vec<_>>())?;
        command::program()?;
    }
    // The runner replaces this process, so that on Ctrl-C it can shut down in order what it has
    // started.
    let error = prepare(runner).args(arguments).exec();
    Err(format!("cannot start the runner: {error}"))
}

/// Runs a selection of the tests: Clearway (this program) with itself, and with the peers that were
/// built.
pub(crate) fn run_few(program: &Path) -> Result<(), String> {
    let runner = command::tested(RUNNER)?;
    let built = |peer: &&str| target().join("peers").join(peer).exists();
    let peers: Vec<&str> = PEERS.into_iter().filter(built).collect();
    let run = |client: &[&str], server: &[&str], tests: &str| {
        let mut few = prepare(runner.clone());
        few.args(["--controller", "cubic", "--program"]).arg(program);
        let options = [("--client", client), ("--server", server)];
        for (option, values) in options {
            few.args(values.iter().flat_map(|value| [option, value]));
        }
        few.args(tests.split_whitespace().flat_map(|test| ["--test", test]));
        command::run("the interop runner's tests", &mut few)
    };
    run(&["clearway"], &["clearway"], WITH_ITSELF)?;
    if peers.is_empty() {
        return Ok(());
    }
    run(&["clearway"], &peers, WITH_PEERS)?;
    run(&peers, &["clearway"], WITH_PEERS)
}

fn prepare(runner: PathBuf) -> Command {
    let mut command = Command::new(runner);
    command.current_dir(root()).env("CARGO_TARGET_DIR", target());
    command
}

pub(crate) fn build_peers(names: &[&str]) -> Result<(), String> {
    if names.is_empty() {
        return Ok(());
    }
    let mut build = Command::new("sh");
    build.arg(root().join("interop/peers/build.sh")).args(names);
    command::run("building the peers", build.env("PEERS_OUT", target().join("peers")))
}
