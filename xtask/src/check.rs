//! `cargo xtask check`: checks a change in minutes, before it is proposed. Runs all tests of the
//! changed crates, because a change most often breaks these, then the formatter and lints, and the
//! unit tests of the direct dependents. A crate that (also) depends on a changed crate through
//! another dependent is only linted; CI runs its tests.
//!
//! Only these packages are selected. With this selection, Cargo may choose other features for the
//! remaining crates than in a build of the whole workspace. Those crates are then compiled again,
//! at the first check of a change to the same package.

mod packages;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use serde_json::Value;

use self::packages::{Package, Part, Scope};
use crate::command::{self, QUINN, cargo, root};
use crate::mutants::{self, MutantsOptions};
use crate::options::defaults;

/// Number of mutants that the slow tier tries in each changed area.
const MUTANTS: usize = 20;

#[derive(clap::Args)]
pub(crate) struct CheckOptions {
    /// Check what changed since COMMIT (default: the main branch; on that branch, the last commit)
    #[arg(long, value_name = "COMMIT")]
    base: Option<String>,
    /// Also test 20 mutants of each changed area
    #[arg(long)]
    slow: bool,
}

pub(crate) fn run(options: &CheckOptions) -> Result<(), String> {
    let start = Instant::now();
    let packages = packages::read()?;
    let base = options.base.clone().map_or_else(packages::default_base, Ok)?;
    let files = packages::changed_files(&base)?;
    let scope = Scope::of(&packages, &files);
    eprintln!("xtask: {} files changed since {base}: {scope}", files.len());
    if scope.is_empty() {
        return Ok(());
    }
    test(&packages, &scope, Part::Changed)?;
    let mut format = cargo(&["fmt", "--check"]);
    command::run("checking the formatting", format.args(scope.select(Part::Changed)))?;
    let deny = ["--quiet", "--", "-D", "warnings"];
    let mut lint = cargo(&["clippy", "--all-targets"]);
    command::run("linting the changed crates", lint.args(scope.select(Part::Changed)).args(deny))?;
    if scope.has_dependents() {
        let mut lint = cargo(&["clippy", "--workspace", "--features", QUINN, "--lib", "--bins"]);
        command::run("linting the dependent crates", lint.args(deny))?;
        test(&packages, &scope, Part::Dependents)?;
    }
    let areas = mutants::areas_of(&files);
    if options.slow && !areas.is_empty() {
        mutants::run(&MutantsOptions { areas, sample: MUTANTS, ..defaults() })?;
    }
    let mutants =
        if options.slow { "" } else { " Add --slow to test mutants of the changed code." };
    eprintln!(
        "xtask: all checks passed ({} s). Left to CI: {}lints of these tests, the documentation, \
         other QUIC stacks, browsers, the gallery, instruction counts, fuzzing and \
         attacks.{mutants}",
        start.elapsed().as_secs(),
        scope.left_out(),
    );
    Ok(())
}

/// A test program.
struct Tests {
    name: String,
    path: PathBuf,
    /// The working directory of the test program: its package's folder.
    folder: PathBuf,
}

/// Builds and runs the tests of a part of `scope`.
fn test(packages: &[Package], scope: &Scope, part: Part) -> Result<(), String> {
    for program in built(packages, scope, part)? {
        let mut tests = Command::new(&program.path);
        command::run(
            &format!("testing {}", program.name),
            tests.arg("--quiet").current_dir(program.folder),
        )?;
    }
    Ok(())
}

/// Builds the tests of a part of `scope`.
fn built(packages: &[Package], scope: &Scope, part: Part) -> Result<Vec<Tests>, String> {
    let mut build = cargo(&["test", "--no-run", "--bins"]);
    build.args(scope.select(part)).args(scope.has_library(packages, part).then_some("--lib"));
    let names: BTreeSet<&str> = scope.integration_tests(packages, part).collect();
    names.iter().for_each(|name| {
        build.args(["--test", name]);
    });
    build
        .args(["--message-format", "json-render-diagnostics"])
        .stderr(std::process::Stdio::inherit());
    let what = format!("building the tests of the {part}");
    eprintln!("xtask: {what}");
    let text = command::output(&what, &mut build)?;
    let mut tests = Vec::new();
    for line in text.lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
        let (Some(path), Some(manifest)) =
            (message["executable"].as_str(), message["manifest_path"].as_str())
        else {
            continue;
        };
        let package = packages.iter().find(|package| package.manifest() == *manifest);
        let (Some(package), true) = (package, message["profile"]["test"] == true) else { continue };
        let target = &message["target"];
        let is_integration =
            target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "test"));
        if scope.includes(&package.name, part, is_integration) {
            let name =
                format!("{} ({})", package.name, target["name"].as_str().unwrap_or_default());
            tests.push(Tests { name, path: path.into(), folder: root().join(&package.folder) });
        }
    }
    Ok(tests)
}
