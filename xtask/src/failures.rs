//! Runs `cargo test`, and repeats the failures at the end: the output of a workspace's tests is
//! long, and logs often show only its last lines.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::command;

/// Number of lines of a failed test's output that are repeated.
const LINES_OF_A_TEST: usize = 30;

/// Failed tests in the output of `cargo test`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Failures {
    names: Vec<String>,
    /// The first lines that each failed test printed, with a heading.
    outputs: Vec<Vec<String>>,
    in_output: bool,
}

impl Failures {
    /// Reads a line of the output of `cargo test`.
    fn read(&mut self, line: &str) {
        let name = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED"));
        // The form with `--quiet`.
        if let Some(name) = name.or_else(|| line.strip_suffix(" --- FAILED")) {
            self.names.push(name.to_owned());
        }
        if line.starts_with("---- ") && line.ends_with(" stdout ----") {
            self.outputs.push(Vec::new());
            self.in_output = true;
        } else if line == "failures:" || line.starts_with("test result: ") {
            self.in_output = false;
        }
        match self.outputs.last_mut() {
            Some(output) if self.in_output && output.len() <= LINES_OF_A_TEST => {
                output.push(line.to_owned());
            }
            _ => {}
        }
    }

    /// Describes the failed tests, or returns nothing if no test failed.
    fn describe(&self) -> Option<String> {
        (!self.names.is_empty()).then(|| {
            let outputs = self.outputs.iter().map(|output| output.join("\n").trim_end().to_owned());
            let outputs: Vec<String> = outputs.collect();
            format!("{}\nfailed tests: {}", outputs.join("\n\n"), self.names.join(", "))
        })
    }
}

/// Runs a `cargo test` command and shows its output. If tests fail, their names and the beginning
/// of their output are printed again after everything else.
pub(crate) fn run(what: &str, tests: &mut Command) -> Result<(), String> {
    let mut failures = Failures::default();
    let result = command::run_with(what, tests.stdout(Stdio::piped()), |child| {
        let Some(stdout) = child.stdout.take() else { return };
        for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            failures.read(&line);
        }
    });
    if let Some(described) = failures.describe() {
        eprintln!("{described}");
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_tests_are_listed_with_the_beginning_of_their_output() {
        let long: Vec<String> = (0..100).map(|number| format!("line {number}")).collect();
        let output = format!(
            "running 3 tests\ntest a::passes ... ok\ntest a::fails ... FAILED\nb::also --- FAILED\n\n\
             failures:\n\n---- a::fails stdout ----\nassertion failed\n\n---- b::also stdout ----\n{}\n\n\
             failures:\n    a::fails\n    b::also\n\ntest result: FAILED. 1 passed; 2 failed\n",
            long.join("\n")
        );
        let mut failures = Failures::default();
        output.lines().for_each(|line| failures.read(line));
        assert_eq!(failures.names, ["a::fails", "b::also"]);
        assert_eq!(failures.outputs[0], ["---- a::fails stdout ----", "assertion failed", ""]);
        assert_eq!(failures.outputs[1].len(), LINES_OF_A_TEST + 1);
        let described = failures.describe().expect("two tests failed");
        assert!(described.ends_with("line 29\nfailed tests: a::fails, b::also"), "{described}");
    }

    #[test]
    fn nothing_is_said_if_all_tests_pass() {
        let mut failures = Failures::default();
        ["test a ... ok", "test result: ok. 1 passed"].iter().for_each(|line| failures.read(line));
        assert_eq!(failures.describe(), None);
    }
}
