//! `cargo xtask platforms`: checks the library for other operating systems, and prints a table.
//!
//! The compiler checks the Rust code for each target. Nothing is linked, so C code is not compiled: a placeholder takes the C
//! compiler's place.

use std::process::{Command, Stdio};
use std::time::Instant;

use crate::command::{self, cargo};

/// A target, and the packages to check for it.
struct Platform {
    target: &'static str,
    /// Arguments of Cargo that select packages and features.
    selection: &'static [&'static str],
}

/// The library with what does not need a C compiler.
const LIBRARY: &[&str] = &[
    "--package",
    "clearway",
    "--no-default-features",
    "--features",
    "ring,http3,qlog,native-roots,quic-lb",
];
/// Crates that need neither sockets nor a random source.
const SANS_IO: &[&str] = &[
    "--package",
    "clearway-wire",
    "--package",
    "clearway-congestion",
    "--package",
    "clearway-units",
];

const PLATFORMS: [Platform; 4] = [
    Platform { target: "aarch64-apple-darwin", selection: LIBRARY },
    Platform { target: "x86_64-pc-windows-gnu", selection: LIBRARY },
    Platform { target: "x86_64-unknown-freebsd", selection: LIBRARY },
    Platform { target: "wasm32-unknown-unknown", selection: SANS_IO },
];

/// Checks all targets, and prints the table. Fails if one of them has an error or a warning.
pub(crate) fn run() -> Result<(), String> {
    let mut failed = Vec::new();
    let mut rows = Vec::new();
    for Platform { target, selection } in &PLATFORMS {
        install(target)?;
        let began = Instant::now();
        let mut lint = cargo(&["clippy", "--lib", "--target", target]);
        lint.args(*selection).args(["--quiet", "--", "-D", "warnings"]);
        let name = target.replace('-', "_");
        lint.env(format!("CC_{name}"), "true").env(format!("AR_{name}"), "true");
        let outcome = command::run(&format!("checking {target}"), &mut lint);
        let verdict = if outcome.is_ok() { "checked" } else { "failed" };
        failed.extend(outcome.err());
        let packages: Vec<&str> = names(selection).collect();
        let seconds = began.elapsed().as_secs();
        rows.push(format!("{target:<24} {verdict:<8} {seconds:>7}   {}", packages.join(", ")));
    }
    println!("target                   result   seconds   packages");
    rows.iter().for_each(|row| println!("{row}"));
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
}

/// Returns the names of the selected packages.
fn names<'a>(selection: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    let pairs = selection.iter().zip(selection.iter().skip(1));
    pairs.filter(|(option, _)| **option == "--package").map(|(_, name)| *name)
}

/// Installs the standard library for `target`, unless it is there.
fn install(target: &str) -> Result<(), String> {
    let mut rustup = Command::new("rustup");
    rustup.args(["target", "add", target]).current_dir(command::root()).stderr(Stdio::null());
    command::output(&format!("installing the standard library for {target}"), &mut rustup)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selected_packages_have_names() {
        assert_eq!(names(LIBRARY).collect::<Vec<_>>(), ["clearway"]);
        assert_eq!(names(SANS_IO).count(), 3);
    }
}
