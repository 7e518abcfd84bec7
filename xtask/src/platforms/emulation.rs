//! Tests of other processors, compiled with Debian's cross compilers and run by QEMU.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{self, cargo};
use crate::install;

/// A processor that QEMU emulates.
pub(super) struct Emulator {
    /// Name of the architecture in commands.
    pub(super) architecture: &'static str,
    /// Name of the architecture in Debian's packages of libraries.
    pub(super) debian: &'static str,
    /// Runs of `cargo test`.
    pub(super) runs: &'static [TestRun],
}

/// A run of `cargo test`.
pub(super) struct TestRun {
    pub(super) packages: &'static [&'static str],
    /// Options of `cargo test`.
    pub(super) options: &'static [&'static str],
    /// Environment variables.
    pub(super) environment: &'static [(&'static str, &'static str)],
    /// Arguments of the test programs.
    pub(super) arguments: &'static [&'static str],
}

impl Emulator {
    /// Installs the compiler and QEMU.
    pub(super) fn install(&self) -> Result<(), String> {
        let Self { architecture, debian, .. } = self;
        let compiler =
            [format!("gcc-{architecture}-linux-gnu"), format!("libc6-dev-{debian}-cross")];
        let headers = libraries(architecture).join("include/stdlib.h");
        if !headers.exists() {
            install::install(&compiler.each_ref().map(String::as_str))?;
        }
        install::debian(&["qemu-user"], &format!("qemu-{architecture}"))
    }

    fn compiler(&self) -> String {
        format!("{}-linux-gnu-gcc", self.architecture)
    }

    /// Compiles and links the tests of all runs.
    pub(super) fn link(&self, target: &str) -> Result<(), String> {
        self.runs.iter().try_for_each(|run| {
            let mut test = self.test(target, run);
            test.args(["--no-run", "--quiet"]);
            command::run(&format!("linking tests for {target}"), &mut test)
        })
    }

    /// Runs the tests. Returns how many passed.
    pub(super) fn run(&self, target: &str) -> Result<usize, String> {
        let mut passed = 0;
        for run in self.runs {
            let mut test = self.test(target, run);
            test.arg("--no-fail-fast").args(["--", "--quiet"]).args(run.arguments);
            let output = command::output(&format!("tests under QEMU for {target}"), &mut test)?;
            passed += count_passed(&output);
        }
        Ok(passed)
    }

    fn test(&self, target: &str, run: &TestRun) -> Command {
        let Self { architecture, .. } = self;
        let name = target.replace('-', "_");
        let compiler = self.compiler();
        let mut test = cargo(&["test", "--target", target]);
        super::select(&mut test, run.packages);
        test.args(run.options)
            .env(format!("CC_{name}"), &compiler)
            .env(format!("CARGO_TARGET_{}_LINKER", name.to_uppercase()), &compiler)
            .env(format!("CARGO_TARGET_{}_RUNNER", name.to_uppercase()), runner(architecture))
            .envs(run.environment.iter().copied());
        test
    }
}

/// Returns the root folder of the libraries that Debian's cross compiler links to.
fn libraries(architecture: &str) -> PathBuf {
    Path::new("/usr").join(format!("{architecture}-linux-gnu"))
}

/// Returns the command that runs a program.
fn runner(architecture: &str) -> String {
    format!("qemu-{architecture} -L {}", libraries(architecture).display())
}

/// Counts the passed tests in what `cargo test` printed.
pub(super) fn count_passed(output: &str) -> usize {
    let results = output.lines().filter_map(|line| line.strip_prefix("test result: ok. "));
    results.filter_map(|line| line.split_once(" passed")?.0.parse::<usize>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::count_passed;

    #[test]
    fn passed_tests_of_all_programs_are_added() {
        let output = "running 3 tests\n...\ntest result: ok. 3 passed; 0 failed; 0 ignored\n\
                      test result: ok. 40 passed; 0 failed\ntest result: FAILED. 9 passed; 1 failed";
        assert_eq!(count_passed(output), 43);
    }
}
