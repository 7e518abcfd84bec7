//! The public surface of the crates that users depend on, noted in `docs/surface/`, so that a change to it is seen.
//!
//! Every item that is declared `pub` counts: the lint `unreachable_pub` sees to it that users can reach it. The path of a
//! private module is left out, since it is none of the users' business.

mod module;
mod text;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use self::module::Module;
use crate::command::root;

/// The crates whose users are others.
const CRATES: [&str; 10] = [
    "units",
    "wire",
    "congestion",
    "network",
    "transport",
    "http3",
    "qlog",
    "io",
    "clearway",
    "lab",
];

/// Writes the notes anew, or compares them.
pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    match arguments {
        [] => compare(),
        ["--write"] => write(),
        other => Err(format!("surface takes --write, not {}", other.join(" "))),
    }
}

fn note(name: &str) -> PathBuf {
    root().join("docs/surface").join(format!("{name}.txt"))
}

/// The lines that describe a crate's surface, in the order of the alphabet.
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
        fs::write(note(name), surface(name)?).map_err(failed)?;
    }
    Ok(())
}

/// What the surface of a crate has that its note lacks, and the other way round.
fn compare() -> Result<(), String> {
    let mut changes = Vec::new();
    for name in CRATES {
        let (noted, now) = (fs::read_to_string(note(name)).unwrap_or_default(), surface(name)?);
        let (noted, now): (BTreeSet<&str>, BTreeSet<&str>) =
            (noted.lines().collect(), now.lines().collect());
        changes.extend(noted.difference(&now).map(|line| format!("{name}: - {line}")));
        changes.extend(now.difference(&noted).map(|line| format!("{name}: + {line}")));
    }
    if changes.is_empty() {
        return Ok(());
    }
    Err(format!(
        "the public surface has changed:\n{}\nIf this is meant, write CHANGELOG.md and run: cargo xtask surface --write",
        changes.join("\n")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_public_surface_is_the_one_that_is_noted() {
        compare().unwrap();
    }
}
