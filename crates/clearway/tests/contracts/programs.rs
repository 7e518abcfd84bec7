//! Tests that need a separate process, since they count descriptors or exit.

use std::net::SocketAddr;
use std::process::Command;

/// Environment variable with the address of a server for the program.
const SERVER: &str = "CLEARWAY_CONTRACTS_SERVER";
/// Environment variable that marks this process as one that a test has started.
const IS_PROGRAM: &str = "CLEARWAY_CONTRACTS_PROGRAM";

/// Runs the ignored test `name` as a separate program, which may need the address of a server.
pub(crate) fn run_program(name: &str, server: Option<SocketAddr>) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--ignored", "--nocapture"]).env(IS_PROGRAM, "1");
    if let Some(server) = server {
        command.env(SERVER, server.to_string());
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
}

/// Returns whether this process was started by a test, rather than being a run of all ignored
/// tests.
pub(crate) fn is_program() -> bool {
    std::env::var_os(IS_PROGRAM).is_some()
}

pub(crate) fn server_of_program() -> Option<SocketAddr> {
    std::env::var(SERVER).ok().map(|address| address.parse().unwrap())
}
