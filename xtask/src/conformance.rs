//! `cargo xtask conformance`: the probe's checks against servers (see `interop/tests/conformance/`).

use crate::command::{self, cargo, target};
use crate::{failures, interop};

/// Compares the results of all checks with docs/probe-results.md, or writes this document.
pub(crate) fn run(is_write: bool) -> Result<(), String> {
    interop::build_peers(&interop::PEERS)?;
    let program = command::tested("clearway")?;
    let package = ["test", "--package", "clearway-interop", "--features", "peers"];
    let mut tests = cargo(&package);
    tests.args(["--test", "peers", "--"]);
    match is_write {
        true => tests.args(["--ignored", "write_conformance_tables"]),
        false => tests.args(["conformance::"]),
    };
    tests.env("PEERS_OUT", target().join("peers")).env("CLEARWAY", program);
    failures::run("running the conformance checks", &mut tests)
}
