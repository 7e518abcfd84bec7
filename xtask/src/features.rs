//! `cargo xtask features`: checks that the library compiles with each supported set of Cargo
//! features, that it works with either cryptographic library alone, and that no crate has unused
//! dependencies.

use std::process::Command;

use crate::command::{self, cargo};

/// Cargo's arguments for each feature set: the package and its features.
const SETS: [&[&str]; 16] = [
    &["clearway"],
    &["clearway", "--no-default-features", "--features", "ring"],
    &["clearway", "--no-default-features", "--features", "aws-lc-rs"],
    &["clearway", "--no-default-features", "--features", "ring,http3"],
    &["clearway", "--no-default-features", "--features", "aws-lc-rs,qlog"],
    &["clearway", "--no-default-features", "--features", "ring,native-roots,quic-lb"],
    &["clearway", "--no-default-features", "--features", "ring,masque"],
    &["clearway", "--all-features"],
    &["clearway-h3", "--no-default-features", "--features", "ring"],
    &["clearway-tower", "--no-default-features", "--features", "ring"],
    &["clearway-tower", "--no-default-features", "--features", "ring,upgrade"],
    &["clearway-tower", "--no-default-features", "--features", "aws-lc-rs,tcp"],
    &["clearway-webtransport", "--no-default-features", "--features", "ring"],
    &["clearway-wire"],
    &["clearway-http3", "--no-default-features"],
    &["clearway-qlog", "--no-default-features", "--features", "clearway-transport/ring"],
];

/// The cryptographic libraries, one of which is sufficient.
const LIBRARIES: [&str; 2] = ["ring", "aws-lc-rs"];

/// The compiler's error message if there is no cryptographic library.
const NO_LIBRARY: &str = "enable the feature `aws-lc-rs` (the default) or `ring`";

pub(crate) fn run() -> Result<(), String> {
    unused_dependencies()?;
    for set in SETS {
        let lint = ["clippy", "--quiet", "--lib", "--package"];
        let lint = [&lint[..], set, &["--", "-D", "warnings"]].concat();
        command::run(&format!("linting {}", set.join(" ")), &mut cargo(&lint))?;
    }
    without_library()?;
    for library in LIBRARIES {
        let example = ["run", "--quiet", "--package", "clearway", "--example", "echo"];
        let features = ["--no-default-features", "--features", library];
        let what = format!("running the example echo with {library} only");
        command::run(&what, &mut cargo(&[&example[..], &features].concat()))?;
    }
    Ok(())
}

/// Checks that a build without a cryptographic library fails with an error that says what to do.
fn without_library() -> Result<(), String> {
    let check = ["check", "--quiet", "--package", "clearway", "--no-default-features"];
    match command::output("building without a cryptographic library", &mut cargo(&check)) {
        Ok(_) => Err("clearway builds without a cryptographic library, but must not".to_owned()),
        Err(said) if said.contains(NO_LIBRARY) => Ok(()),
        Err(said) => Err(said),
    }
}

/// Searches for dependencies that no file of their crate mentions.
fn unused_dependencies() -> Result<(), String> {
    let mut search = Command::new(command::tool("cargo-machete")?);
    command::run("looking for unused dependencies", search.current_dir(command::root()))
}
