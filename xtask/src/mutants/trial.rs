//! Runs cargo-mutants on the chosen mutants, in two stages.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::areas::Area;
use super::sample::{self, Mutant};
use super::tree;
use crate::command::{self, cargo, target};

/// The build profile, with which the tests of one mutant take seconds.
const PROFILE: &str = "trial";
/// Timeouts of the tests in seconds, also where they use sockets and programs: many times what they take, because some mutants
/// loop forever.
const QUICK_TIMEOUT: &str = "60";
const TIMEOUT: &str = "180";
const SLOW_TIMEOUT: &str = "900";

/// The outcome for one mutant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// A test failed, or ran into the timeout.
    Caught,
    /// All tests passed.
    Survived,
    /// It does not build.
    Unviable,
}

/// The outcomes for all mutants, by name.
#[derive(Default, Debug)]
pub(super) struct Trials {
    survived: BTreeSet<String>,
    unviable: BTreeSet<String>,
}

impl Trials {
    pub(super) fn fate(&self, mutant: &Mutant) -> Fate {
        if self.unviable.contains(&mutant.name) {
            Fate::Unviable
        } else if self.survived.contains(&mutant.name) {
            Fate::Survived
        } else {
            Fate::Caught
        }
    }
}

/// The path of cargo-mutants: the installed one if there is one, otherwise it is built in the target folder.
pub(super) fn tool() -> Result<PathBuf, String> {
    let is_installed = cargo(&["mutants", "--version"]).output();
    if is_installed.is_ok_and(|output| output.status.success()) {
        return Ok(PathBuf::from("cargo-mutants"));
    }
    let place = target().join("tools");
    let built = place.join("bin/cargo-mutants");
    if !built.is_file() {
        let mut install = cargo(&["install", "cargo-mutants", "--locked", "--root"]);
        command::run("building cargo-mutants", install.arg(&place))?;
    }
    Ok(built)
}

/// Tries those of `all` that are `chosen` first with the quick tests of their own package, and those that survive with all tests
/// of the packages that `area` names.
pub(super) fn try_all(
    tool: &Path,
    area: &Area,
    all: &[Mutant],
    chosen: &[Mutant],
) -> Result<Trials, String> {
    let names = chosen.iter().map(|mutant| mutant.name.clone()).collect();
    let first = stage(tool, area, "quick-tests", all, &names, area.quick, QUICK_TIMEOUT)?;
    let packages: Vec<&str> =
        area.packages.iter().flat_map(|package| ["--test-package", *package]).collect();
    let timeout = if area.is_slow { SLOW_TIMEOUT } else { TIMEOUT };
    let second = stage(tool, area, "all-tests", all, &first.survived, &packages, timeout)?;
    Ok(Trials { survived: second.survived, unviable: first.unviable })
}

/// Tries those of `all` that are called `names` with the tests that `arguments` select: by default those of their own packages.
fn stage(
    tool: &Path,
    area: &Area,
    title: &str,
    all: &[Mutant],
    names: &BTreeSet<String>,
    arguments: &[&str],
    timeout: &str,
) -> Result<Trials, String> {
    if names.is_empty() {
        return Ok(Trials::default());
    }
    eprintln!("xtask: {}: trying {} mutants, stage {title}", area.name, names.len());
    let folder = target().join("mutants").join(area.name).join(title);
    let _ = fs::remove_dir_all(&folder);
    leave_out(&folder, all.iter().filter(|mutant| !names.contains(&mutant.name)))
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut command = Command::new(tool);
    command.args(["mutants", "--workspace", "--in-place"]).args(sample::files(area));
    command.current_dir(tree::update(PROFILE)?);
    command.args(["--iterate", "--output"]).arg(&folder);
    command.args(["--timeout", timeout, "--no-shuffle", "--colors", "never"]);
    command.args(["--profile", PROFILE]).args(arguments);
    // The copy has a target folder of its own.
    command.env_remove("CARGO_TARGET_DIR");
    // The exit status is also nonzero if mutants survive (2) or time out (3).
    let status = command.status().map_err(|error| format!("cargo-mutants: {error}"))?;
    if !matches!(status.code(), Some(0 | 2 | 3)) {
        return Err(format!("cargo-mutants failed ({status}) in the stage {title}"));
    }
    let read = |list: &str| read(&folder.join("mutants.out").join(list));
    Ok(Trials { survived: read("missed.txt")?, unviable: read("unviable.txt")? })
}

fn read(file: &Path) -> Result<BTreeSet<String>, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// Tells cargo-mutants that it has caught `mutants` in an earlier run with this folder, so that it tries the others. A pattern of
/// names does not do that: it has no effect on mutants that delete a field.
fn leave_out<'a>(folder: &Path, mutants: impl Iterator<Item = &'a Mutant>) -> std::io::Result<()> {
    let earlier = folder.join("mutants.out");
    fs::create_dir_all(&earlier)?;
    let names: String = mutants.map(|mutant| format!("{}\n", mutant.name)).collect();
    fs::write(earlier.join("caught.txt"), names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_listed_as_caught() {
        let folder = std::env::temp_dir().join(format!("xtask-trial-{}", std::process::id()));
        let mutant = |name: &str| Mutant { name: name.to_owned(), package: String::new() };
        leave_out(&folder, [mutant("a.rs:1:2: b"), mutant("c")].iter()).unwrap();
        let listed = read(&folder.join("mutants.out/caught.txt")).unwrap();
        assert_eq!(listed, ["a.rs:1:2: b".to_owned(), "c".to_owned()].into());
        fs::remove_dir_all(folder).unwrap();
    }
}
