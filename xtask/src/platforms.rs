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
    /// Cargo arguments that select packages and features.
    selection: &'static [&'static str],
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

/// The library, without features that need a C compiler.
const LIBRARY: &[&str] = &[
    "--package",
    "clearway",
    "--no-default-features",
    "--features",
    "ring,http3,qlog,native-roots,quic-lb",
];
/// The program, and all packages of the workspace that are not specific to Linux.
const PROGRAM: &[&str] = &[
    "--package",
    "clearway-cli",
    "--package",
    "clearway-lab-command",
    "--package",
    "clearway-terminal",
    "--package",
    "clearway",
    "--package",
    "clearway-io",
    "--package",
    "clearway-udp",
    "--package",
    "clearway-lab",
    "--package",
    "clearway-network",
    "--package",
    "clearway-qlog",
    "--package",
    "clearway-doctor",
    "--package",
    "clearway-balancer",
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
/// Crates without I/O, with the cryptography that compiles to WebAssembly.
const WITHOUT_IO: &[&str] = &[
    "--package",
    "clearway-units",
    "--package",
    "clearway-wire",
    "--package",
    "clearway-congestion",
    "--package",
    "clearway-transport",
    "--package",
    "clearway-http3",
    "--package",
    "clearway-qlog",
    "--no-default-features",
    "--features",
    "clearway-transport/ring,clearway-http3/transport,clearway-qlog/read",
];
/// Crates whose tests all run on AArch64.
const EMULATED: &[&str] = &[
    "--package",
    "clearway-units",
    "--package",
    "clearway-wire",
    "--package",
    "clearway-congestion",
    "--package",
    "clearway-http3",
    "--package",
    "clearway-balancer",
];
/// The crates in [`EMULATED`], and those of which only some tests run on AArch64.
const EMULATED_IN_PART: &[&str] = &[
    "--package",
    "clearway-units",
    "--package",
    "clearway-wire",
    "--package",
    "clearway-congestion",
    "--package",
    "clearway-http3",
    "--package",
    "clearway-balancer",
    "--package",
    "clearway-transport",
    "--package",
    "clearway-io",
];
/// Crates whose tests run on a processor with the other byte order.
const BIG_ENDIAN: &[&str] = &[
    "--package",
    "clearway-units",
    "--package",
    "clearway-wire",
    "--package",
    "clearway-http3",
    "--package",
    "clearway-qlog",
];
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
/// The crate with the sockets and threads.
const SOCKETS: &[&str] = &["--package", "clearway-io", "--lib"];

const WINDOWS: &str = "x86_64-pc-windows-gnu";
const NATIVE: &str = "x86_64-unknown-linux-gnu";

const PLATFORMS: [Platform; 11] = [
    Platform {
        target: NATIVE,
        selection: &["--workspace"],
        compiler: Compiler::Gcc,
        execution: Some(Execution::Native),
        how: "clippy; all tests on this machine",
    },
    library("aarch64-apple-darwin"),
    library(WINDOWS),
    library("x86_64-unknown-freebsd"),
    Platform { selection: SANS_IO, ..library("wasm32-unknown-unknown") },
    Platform { selection: WITHOUT_IO, ..library("wasm32-wasip2") },
    emulated("aarch64-unknown-linux-gnu", EMULATED_IN_PART, AARCH64),
    emulated("s390x-unknown-linux-gnu", BIG_ENDIAN, S390X),
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
        TestRun { selection: EMULATED, environment: &[], arguments: &[] },
        // The test programs of transport would take hours under QEMU.
        TestRun {
            selection: &["--package", "clearway-transport", "--lib"],
            environment: &[("PROPTEST_CASES", "32")],
            arguments: &[],
        },
        TestRun {
            selection: SOCKETS,
            environment: &[("CLEARWAY_POLLER", "portable")],
            arguments: WITHOUT_STEERING,
        },
    ],
};

const S390X: Emulator = Emulator {
    architecture: "s390x",
    debian: "s390x",
    runs: &[TestRun { selection: BIG_ENDIAN, environment: &[], arguments: &[] }],
};

const fn emulated(
    target: &'static str,
    selection: &'static [&'static str],
    emulator: Emulator,
) -> Platform {
    let execution = Some(Execution::Tests(emulator));
    let how = "clippy; C and linker by GCC; tests under QEMU";
    Platform { target, selection, compiler: Compiler::Gcc, execution, how }
}

const fn library(target: &'static str) -> Platform {
    let how = "clippy; without C";
    Platform { target, selection: LIBRARY, compiler: Compiler::None, execution: None, how }
}

const fn program(target: &'static str, compiler: Compiler, how: &'static str) -> Platform {
    Platform { target, selection: PROGRAM, compiler, execution: None, how }
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
    let Platform { target, selection, compiler, .. } = platform;
    let mut lint = cargo(&["clippy", "--lib", "--bins", "--target", target]);
    lint.args(*selection).args(["--quiet", "--", "-D", "warnings"]);
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
    let packages: Vec<&str> = match platform.selection {
        ["--workspace"] => vec!["all"],
        selection => names(selection).collect(),
    };
    format!(
        "{:<24} {:<8} {:<7} {tested:<10} {seconds:>7}   {:<46} {}",
        platform.target,
        row.checked.text(),
        row.linked.text(),
        platform.how,
        packages.join(", ")
    )
}

/// Returns the names of the selected packages.
fn names<'a>(selection: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    let pairs = selection.iter().zip(selection.iter().skip(1));
    pairs.filter(|(option, _)| **option == "--package").map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selected_packages_have_names() {
        assert_eq!(names(LIBRARY).collect::<Vec<_>>(), ["clearway"]);
        assert_eq!(names(SANS_IO).count(), 3);
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
