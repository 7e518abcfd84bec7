//! Checks the page of `clearway view`: its source, and its tests in a browser.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use crate::command::{self, output, root};

/// Checks that the committed page matches its source, and tests the page in a browser, served by
/// the program.
pub(crate) fn run() -> Result<(), String> {
    let folder = root().join("viewer");
    let path =
        path(&output("preparing the viewer", Command::new("sh").arg(folder.join("prepare.sh")))?)?;
    let npm = |words: &[&str]| {
        let mut npm = Command::new("npm");
        npm.args(words).current_dir(&folder).env("PATH", &path);
        npm
    };
    command::run(
        "installing the viewer's build dependencies",
        &mut npm(&["ci", "--no-fund", "--no-audit"]),
    )?;
    command::run("comparing the viewer's page with its source", &mut npm(&["run", "check"]))?;
    let program = command::tested("clearway")?;
    command::run("testing the viewer", npm(&["test"]).env("CLEARWAY", program))
}

/// Writes `viewer/src/protocol.ts` from the types in `crates/qlog/src/model/header.rs`. A test in
/// that crate checks that the file is up to date.
pub(crate) fn write_types() -> Result<(), String> {
    let test = "model::protocol::write_the_types_of_the_viewer";
    let words = ["test", "-p", "clearway-qlog", "--lib", "--", "--ignored", "--exact", test];
    command::run("writing the viewer's types", &mut command::cargo(&words))
}

/// Returns `PATH`, preceded by the folder of a newer Node.js if `prepare.sh` printed one.
fn path(named: &str) -> Result<OsString, String> {
    let present = env::var_os("PATH").unwrap_or_default();
    let named = Some(named.trim()).filter(|named| !named.is_empty()).map(PathBuf::from);
    let folders = named.into_iter().chain(env::split_paths(&present));
    env::join_paths(folders).map_err(|error| format!("cannot extend PATH: {error}"))
}
