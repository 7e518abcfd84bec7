//! The public API of the crates that users depend on, recorded in `docs/surface/`, so that changes
//! to it are noticed.
//!
//! Every item that is declared `pub` counts: the lint `unreachable_pub` ensures that users can
//! reach it. The paths of private modules are omitted, because users cannot name them.

mod module;
mod text;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use self::module::Module;
use crate::command::root;

/// The crates that have users outside this repository.
const CRATES: [&str; 19] = [
    "units",
    "wire",
    "congestion",
    "network",
    "balancer",
    "transport",
    "http3",
    "masque",
    "qlog",
    "kernel",
    "udp",
    "io",
    "forward",
    "clearway",
    "dns",
    "h3",
    "tower",
    "webtransport",
    "lab",
];

/// Compares the recorded public APIs with the code, or updates the records.
pub(crate) fn run(is_write: bool) -> Result<(), String> {
    if is_write { write() } else { compare() }
}

/// Returns the file that records a crate's public API.
fn record(name: &str) -> PathBuf {
    root().join("docs/surface").join(format!("{name}.txt"))
}

/// Returns the lines that describe a crate's public API, sorted.
fn surface(name: &str) -> Result<String, String> {
    let file = root().join("crates").join(name).join("src/lib.rs");
    let module = Module::read(&file, true)?;
    let types: BTreeSet<String> = module.types();
    let mut lines = BTreeSet::new();
    module.describe("", &types, &mut lines);
    Ok(lines.into_iter().map(|line| line + "\n").collect())
}

fn write() -> Result<(), String> {
    let folder = root().join("docs/surface");
    let failed = |error| format!("{}: {error}", folder.display());
    fs::create_dir_all(&folder).map_err(failed)?;
    for name in CRATES {
        fs::write(record(name), surface(name)?).map_err(failed)?;
    }
    Ok(())
}

/// Fails if a line of a crate's public API is missing from the record, or vice versa.
fn compare() -> Result<(), String> {
    let mut changes = Vec::new();
    for name in CRATES {
        let (recorded, now) =
            (fs::read_to_string(record(name)).unwrap_or_default(), surface(name)?);
        let (recorded, now): (BTreeSet<&str>, BTreeSet<&str>) =
            (recorded.lines().collect(), now.lines().collect());
        changes.extend(recorded.difference(&now).map(|line| format!("{name}: - {line}")));
        changes.extend(now.difference(&recorded).map(|line| format!("{name}: + {line}")));
    }
    if changes.is_empty() {
        return Ok(());
    }
    Err(format!(
        "the public API has changed:\n{}\nIf this is intended, describe it in CHANGELOG.md and run: cargo xtask surface --write",
        changes.join("\n")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_public_surface_is_the_recorded_one() {
        compare().unwrap();
    }
}
