//! `cargo xtask platforms`: checks the library and the program for other targets, runs the program
//! where an emulator can, and prints a table.
//!
//! Clippy checks the Rust code of each target, with warnings denied. The library is not linked, so
//! a placeholder replaces the C compiler. For the program, zig or MinGW compiles the C code of its
//! dependencies.

mod emulation;
mod wine;
mod zig;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use self::emulation::{Emulator, TestRun};
use crate::command::{self, cargo};
use crate::install;

/// A target, what to check for it, and how to run its program.
struct Platform {
    target: &'static str,
    /// Packages to check, or all of the workspace if there are none. Packages whose tests are run
    /// under an emulator are checked too.
    packages: &'static [&'static str],
    /// Cargo options that select features.
    options: &'static [&'static str],
    compiler: Compiler,
    execution: Option<Execution>,
    /// The tools that check, link and run the target, for the table.
    how: &'static str,
}

/// The compiler for the C code of dependencies.
enum Compiler {
    /// A placeholder that compiles nothing.
    None,
    /// `zig cc` for this target in zig's notation.
    Zig(&'static str),
    /// MinGW.
    MinGw,
    /// Debian's cross compiler, which the emulator installs.
    Gcc,
}

/// How code for the target is linked and run.
enum Execution {
    /// The program is tested from outside.
    Program {
        link: fn(target: &str) -> Result<PathBuf, String>,
        /// Runs the program's tests, all of which must pass. Returns their number.
        run: fn(program: &Path) -> Result<usize, String>,
    },
    /// Tests of crates run under QEMU.
    Tests(Emulator),
    /// All tests of the workspace run on this machine.
    Native,
}

/// Options for the library without features that need a C compiler.
const LIBRARY: &[&str] =
    &["--no-default-features", "--features", "ring,http3,qlog,native-roots,quic-lb"];
/// The program, and all packages of the workspace that are not specific to Linux.
const PROGRAM: &[&str] = &[
    "clearway-cli",
    "clearway-lab-command",
    "clearway-terminal",
    "clearway",
    "clearway-io",
    "clearway-udp",
    "clearway-lab",
    "clearway-network",
    "clearway-qlog",
    "clearway-doctor",
    "clearway-balancer",
];
/// Crates that need neither sockets nor a random source.
const SANS_IO: &[&str] = &["clearway-wire", "clearway-congestion", "clearway-units"];
/// Crates without I/O, with the cryptography that compiles to WebAssembly.
const WITHOUT_IO: &[&str] = &[
    "clearway-units",
    "clearway-wire",
    "clearway-congestion",
    "clearway-transport",
    "clearway-http3",
    "clearway-qlog",
];
/// Features of [`WITHOUT_IO`].
const FOR_WASI: &[&str] = &[
    "--no-default-features",
    "--features",
    "clearway-transport/ring,clearway-http3/transport,clearway-qlog/read",
];
/// Crates whose tests all run on AArch64.
const EMULATED: &[&str] = &[
    "clearway-units",
    "clearway-wire",
    "clearway-congestion",
    "clearway-http3",
    "clearway-balancer",
];
/// Crates whose tests run on a processor with the other byte order.
const BIG_ENDIAN: &[&str] = &["clearway-units", "clearway-wire", "clearway-http3", "clearway-qlog"];
/// Arguments that leave out the tests in which the kernel selects a shard: QEMU's user mode
/// supports neither eBPF nor socket filters.
const WITHOUT_STEERING: &[&str] = &[
    "--skip",
    "system::linux::programs::",
    "--skip",
    "that_the_kernel_steers",
    "--skip",
    "every_datagram_of_a_merged_batch_gets_to_its_shard",
    "--skip",
    "connections_with_ids_of_quic_lb",
    "--skip",
    "connections_go_on_in_the_process_that_was_replaced",
];

const WINDOWS: &str = "x86_64-pc-windows-gnu";
const NATIVE: &str = "x86_64-unknown-linux-gnu";

const PLATFORMS: [Platform; 11] = [
    Platform {
        target: NATIVE,
        packages: &[],
        options: &[],
        compiler: Compiler::Gcc,
        execution: Some(Execution::Native),
        how: "clippy; all tests on this machine",
    },
    library("aarch64-apple-darwin"),
    library(WINDOWS),
    library("x86_64-unknown-freebsd"),
    Platform { packages: SANS_IO, options: &[], ..library("wasm32-unknown-unknown") },
    Platform { packages: WITHOUT_IO, options: FOR_WASI, ..library("wasm32-wasip2") },
    emulated("aarch64-unknown-linux-gnu", AARCH64),
    emulated("s390x-unknown-linux-gnu", S390X),
    program("aarch64-apple-darwin", Compiler::Zig("aarch64-macos"), "clippy; C by zig"),
    program("x86_64-unknown-freebsd", Compiler::Zig("x86_64-freebsd"), "clippy; C by zig"),
    Platform {
        execution: Some(Execution::Program { link: wine::link, run: wine::run }),
        ..program(WINDOWS, Compiler::MinGw, "clippy; C and linker by MinGW; run under Wine")
    },
];

const AARCH64: Emulator = Emulator {
    architecture: "aarch64",
    debian: "arm64",
    runs: &[
        TestRun { packages: EMULATED, options: &[], environment: &[], arguments: &[] },
        // The test programs of transport would take hours under QEMU.
        TestRun {
            packages: &["clearway-transport"],
            options: &["--lib"],
            environment: &[("PROPTEST_CASES", "32")],
            arguments: &[],
        },
        TestRun {
            packages: &["clearway-io"],
            options: &["--lib"],
            environment: &[("CLEARWAY_POLLER", "portable")],
            arguments: WITHOUT_STEERING,
        },
    ],
};

const S390X: Emulator = Emulator {
    architecture: "s390x",
    debian: "s390x",
    runs: &[TestRun { packages: BIG_ENDIAN, options: &[], environment: &[], arguments: &[] }],
};

const fn emulated(target: &'static str, emulator: Emulator) -> Platform {
    let execution = Some(Execution::Tests(emulator));
    let how = "clippy; C and linker by GCC; tests under QEMU";
    Platform { target, packages: &[], options: &[], compiler: Compiler::Gcc, execution, how }
}

const fn library(target: &'static str) -> Platform {
    let how = "clippy; without C";
    let (packages, options): (&[&str], _) = (&["clearway"], LIBRARY);
    Platform { target, packages, options, compiler: Compiler::None, execution: None, how }
}

const fn program(target: &'static str, compiler: Compiler, how: &'static str) -> Platform {
    Platform { target, packages: PROGRAM, options: &[], compiler, execution: None, how }
}

impl Platform {
    /// Returns the names of the packages to check.
    fn packages(&self) -> Vec<&'static str> {
        match &self.execution {
            Some(Execution::Tests(emulator)) => {
                emulator.runs.iter().flat_map(|run| run.packages).copied().collect()
            }
            _ => self.packages.to_vec(),
        }
    }
}

/// Selects packages of the workspace for a Cargo command.
fn select(cargo: &mut Command, packages: &[&str]) {
    packages.iter().for_each(|package| {
        cargo.args(["--package", package]);
    });
    if packages.is_empty() {
        cargo.arg("--workspace");
    }
}

/// A row of the table.
#[derive(Debug, Default)]
struct Row {
    checked: Verdict,
    linked: Verdict,
    tested: Verdict,
    /// The number of tests that were run.
    tests: usize,
}

/// The result of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Verdict {
    #[default]
    NotTried,
    Passed,
    Failed,
}

impl Verdict {
    const fn text(self) -> &'static str {
        match self {
            Self::NotTried => "-",
            Self::Passed => "yes",
            Self::Failed => "FAILED",
        }
    }
}

/// Checks the targets in `only`, or all of them if it is empty, and prints the table. Fails if one of
/// them has an error or a warning, or a test fails.
pub(crate) fn run(only: &[String]) -> Result<(), String> {
    if let Some(unknown) = only.iter().find(|name| PLATFORMS.iter().all(|it| it.target != **name)) {
        let known: BTreeSet<&str> = PLATFORMS.iter().map(|platform| platform.target).collect();
        let known: Vec<&str> = known.into_iter().collect();
        return Err(format!("unknown target {unknown}; known are {}", known.join(", ")));
    }
    let is_selected =
        |platform: &&Platform| only.is_empty() || only.iter().any(|name| *name == platform.target);
    let mut failed = Vec::new();
    let mut lines = vec![heading()];
    for platform in PLATFORMS.iter().filter(is_selected) {
        let began = Instant::now();
        let mut row = Row::default();
        failed.extend(examine(platform, &mut row).err());
        lines.push(line(platform, &row, began.elapsed().as_secs()));
    }
    lines.iter().for_each(|line| println!("{line}"));
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
}

/// Checks, links and runs a platform. Records the result of each step in `row`.
fn examine(platform: &Platform, row: &mut Row) -> Result<(), String> {
    row.checked = Verdict::Failed;
    install::standard_library(platform.target)?;
    if let Some(Execution::Tests(emulator)) = &platform.execution {
        emulator.install()?;
    }
    check(platform)?;
    row.checked = Verdict::Passed;
    let Some(execution) = &platform.execution else { return Ok(()) };
    row.linked = Verdict::Failed;
    let run: Box<dyn Fn() -> Result<usize, String>> = match execution {
        Execution::Program { link, run } => {
            let program = link(platform.target)?;
            Box::new(move || run(&program))
        }
        Execution::Tests(emulator) => {
            emulator.link(platform.target)?;
            Box::new(|| emulator.run(platform.target))
        }
        Execution::Native => {
            native::link()?;
            Box::new(native::run)
        }
    };
    row.linked = Verdict::Passed;
    row.tested = Verdict::Failed;
    row.tests = run()?;
    row.tested = Verdict::Passed;
    Ok(())
}

/// Tests on this machine.
mod native {
    use std::process::Command;

    use super::emulation::count_passed;
    use crate::command::{self, cargo};

    fn test() -> Command {
        cargo(&["test", "--workspace"])
    }

    /// Compiles and links all tests.
    pub(super) fn link() -> Result<(), String> {
        if cfg!(not(all(target_arch = "x86_64", target_os = "linux"))) {
            return Err("this needs Linux on x86_64; select other targets with --target".to_owned());
        }
        command::run("linking all tests", test().args(["--no-run", "--quiet"]))
    }

    /// Runs the tests. Returns how many passed.
    pub(super) fn run() -> Result<usize, String> {
        let mut test = test();
        test.args(["--no-fail-fast", "--", "--quiet"]);
        Ok(count_passed(&command::output("all tests", &mut test)?))
    }
}

/// Runs Clippy.
fn check(platform: &Platform) -> Result<(), String> {
    let Platform { target, options, compiler, .. } = platform;
    let mut lint = cargo(&["clippy", "--lib", "--bins", "--target", target]);
    select(&mut lint, &platform.packages());
    lint.args(*options).args(["--quiet", "--", "-D", "warnings"]);
    compile_c_with(compiler, target, &mut lint)?;
    command::run(&format!("checking {target}"), &mut lint)
}

/// Sets the variables of the crate `cc` for a Cargo command, and installs the C compiler.
fn compile_c_with(compiler: &Compiler, target: &str, cargo: &mut Command) -> Result<(), String> {
    let name = target.replace('-', "_");
    let [cc, ar] = match compiler {
        Compiler::None => ["true", "true"].map(PathBuf::from),
        Compiler::Zig(target) => zig::compiler(target)?,
        Compiler::Gcc => return Ok(()),
        Compiler::MinGw => return install::debian(&["gcc-mingw-w64-x86-64"], wine::MINGW),
    };
    cargo.env(format!("CC_{name}"), cc).env(format!("AR_{name}"), ar);
    Ok(())
}

fn heading() -> String {
    format!(
        "{:<24} {:<8} {:<7} {:<10} {:>7}   {:<46} packages",
        "target", "checked", "linked", "tests run", "seconds", "how"
    )
}

fn line(platform: &Platform, row: &Row, seconds: u64) -> String {
    let tested = match row.tested {
        Verdict::Passed => row.tests.to_string(),
        other => other.text().to_owned(),
    };
    let packages = match &platform.packages()[..] {
        [] => "all".to_owned(),
        packages => packages.join(", "),
    };
    format!(
        "{:<24} {:<8} {:<7} {tested:<10} {seconds:>7}   {:<46} {}",
        platform.target,
        row.checked.text(),
        row.linked.text(),
        platform.how,
        packages
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_with_emulated_tests_are_checked() {
        let aarch64 = PLATFORMS.iter().find(|it| it.target.starts_with("aarch64-unknown")).unwrap();
        let packages = aarch64.packages();
        assert!(packages.contains(&"clearway-wire") && packages.contains(&"clearway-io"));
        let mut lint = cargo(&["clippy"]);
        select(&mut lint, &packages[..1]);
        assert!(lint.get_args().eq(["clippy", "--package", packages[0]]));
        let mut lint = cargo(&["clippy"]);
        select(&mut lint, &[]);
        assert!(lint.get_args().eq(["clippy", "--workspace"]));
    }

    #[test]
    fn a_row_says_which_step_failed() {
        let [.., windows] = &PLATFORMS;
        let words = |row: &Row| {
            let line = line(windows, row, 5);
            line.split_whitespace().take(5).collect::<Vec<_>>().join(" ")
        };
        let (checked, linked) = (Verdict::Passed, Verdict::Failed);
        let row = Row { checked, linked, ..Row::default() };
        assert_eq!(words(&row), format!("{WINDOWS} yes FAILED - 5"));
        let row = Row { linked: Verdict::Passed, tested: Verdict::Passed, tests: 3, ..row };
        assert_eq!(words(&row), format!("{WINDOWS} yes yes 3 5"));
    }
}
