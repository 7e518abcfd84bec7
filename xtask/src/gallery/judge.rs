//! Runs the judges: the scenarios and tests that must detect a bug.

use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use super::patch::{Judge, TestTarget};
use super::tree::Tree;
use crate::command::GALLERY;

/// The result that a judge reported.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Seen {
    /// The properties that were violated, or the tests that failed.
    pub(super) violated: Vec<String>,
    /// The time of the first violation in the simulation, in seconds.
    pub(super) at: Option<f64>,
    /// Run time of the judge in seconds.
    pub(super) took: f64,
}

impl Seen {
    /// Returns whether the judge reported no violation.
    pub(super) fn is_silent(&self) -> bool {
        self.violated.is_empty()
    }

    /// Adds the report of another judge.
    pub(super) fn join(&mut self, other: Self) {
        self.violated.extend(other.violated);
        self.at = self.at.into_iter().chain(other.at).reduce(f64::min);
        self.took += other.took;
    }

    /// Returns whether one of `properties` was violated. If `properties` is empty, as for a test,
    /// returns whether anything failed.
    pub(super) fn is_one_of(&self, properties: &[String]) -> bool {
        match properties {
            [] => !self.violated.is_empty(),
            _ => self.violated.iter().any(|seen| properties.contains(seen)),
        }
    }
}

/// Builds the program or the test of `judge` in `tree`.
pub(super) fn build(tree: &Tree, judge: &Judge) -> Result<(), String> {
    let mut command = match judge {
        Judge::Test { package, target, .. } => test(tree, package, target, "--no-run"),
        // Built like the workspace: see `command::build`.
        _ => tree.cargo(&[
            "build",
            "-q",
            "--profile",
            GALLERY,
            "--workspace",
            "--bin",
            "clearway-lab",
        ]),
    };
    let output = command.output().map_err(|error| format!("cannot run cargo: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "the patched code does not build:\n{}",
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

/// Runs `judge`, whose program or test must have been built.
pub(super) fn run(tree: &Tree, judge: &Judge) -> Result<Seen, String> {
    let begin = Instant::now();
    let mut seen = match judge {
        Judge::Scenario { name, variant, controller, seeds } => {
            let seeds = seeds.to_string();
            let words = [
                "run",
                name,
                "--variant",
                variant,
                "--controller",
                controller,
                "--seeds",
                &seeds,
                "--json",
            ];
            of_rows(&lines(tree.program().args(words))?)
        }
        Judge::Across { property, controller } => {
            let words = ["across", property, "--controller", controller, "--json"];
            of_comparisons(&lines(tree.program().args(words))?)
        }
        Judge::Explore { controller, depth } => {
            let depth = depth.to_string();
            let words = ["explore", "--controller", controller, "--depth", &depth, "--json"];
            of_rows(&lines(tree.program().args(words))?)
        }
        Judge::Fleet { seeds } => {
            let seeds = seeds.to_string();
            let words = ["fleet", "--seeds", &seeds, "--json"];
            // A twentieth of the full search.
            let size = ["--servers", "20", "--connections", "500"];
            of_rows(&lines(tree.program().args(words).args(size))?)
        }
        Judge::Test { package, target, name } => {
            of_test(&mut test(tree, package, target, name), name)?
        }
    };
    seen.took = begin.elapsed().as_secs_f64();
    Ok(seen)
}

fn test(tree: &Tree, package: &str, target: &TestTarget, argument: &str) -> Command {
    let mut command = tree.cargo(&["test", "--quiet", "--profile", GALLERY, "--package", package]);
    match target {
        TestTarget::Library => command.arg("--lib"),
        TestTarget::File(file) => command.args(["--test", file]),
    };
    command.arg(argument);
    command
}

/// Returns the JSON objects that `command` prints, one per line. The exit status is ignored,
/// because the command also fails if it finds a violation.
fn lines(command: &mut Command) -> Result<Vec<Value>, String> {
    let output = command.stderr(Stdio::piped()).output();
    let output = output.map_err(|error| format!("cannot run the lab: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let objects: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
    match objects {
        Ok(objects) if !objects.is_empty() => Ok(objects),
        _ => {
            Err(format!("the lab printed no results: {}", String::from_utf8_lossy(&output.stderr)))
        }
    }
}

fn of_rows(rows: &[Value]) -> Seen {
    let mut seen = Seen::default();
    for violated in rows.iter().filter_map(|row| row["violated"].as_array()).flatten() {
        seen.violated.extend(violated["property"].as_str().map(str::to_owned));
        let at = violated["at_s"].as_f64();
        seen.at = seen.at.into_iter().chain(at).reduce(f64::min);
    }
    seen
}

fn of_comparisons(rows: &[Value]) -> Seen {
    let failed = rows.iter().filter(|row| row["expectations_met"] == false);
    let violated = failed.filter_map(|row| row["property"].as_str()).map(str::to_owned).collect();
    Seen { violated, ..Seen::default() }
}

fn of_test(command: &mut Command, name: &str) -> Result<Seen, String> {
    let output = command.output().map_err(|error| format!("cannot run cargo: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // If no test ran, the test's name is wrong. That is an error, not a success.
    let count = |word: &str| -> u64 {
        let counts = text.lines().filter(|line| line.starts_with("test result:"));
        let numbers = counts.filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let place = words.iter().position(|at| at.trim_end_matches(';') == word)?;
            words.get(place.checked_sub(1)?)?.parse::<u64>().ok()
        });
        numbers.sum()
    };
    match (count("passed"), count("failed")) {
        (0, 0) => Err(format!("there is no test called {name}")),
        (_, 0) => Ok(Seen::default()),
        _ => Ok(Seen { violated: vec![format!("test {name}")], ..Seen::default() }),
    }
}
