//! `cargo xtask fuzz`: runs the targets in `fuzz/`, each for a limited time, as many in parallel as there are cores.
//!
//! The fuzz targets are built with compiler options that exist on every channel. libFuzzer needs
//! the coverage counters of LLVM's pass, but no sanitizer is needed, because the targets reach no
//! `unsafe` code.

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::command::{self, cargo, output, root, target};

/// Interval between progress lines of a running target.
const INTERVAL: Duration = Duration::from_secs(60);
/// Time limit for a single input, in seconds.
const TIMEOUT: u64 = 20;
/// Memory limit of a target in MiB.
const MEMORY: u64 = 2048;
/// Maximum length of an input in bytes.
const LONGEST: u64 = 16_384;
/// Number of lines to show from the end of a failed target's output.
const LINES: usize = 40;

const FLAGS: &str = "--cfg fuzzing \
    -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// The part of `fuzz/Cargo.toml` that this task reads.
#[derive(Deserialize)]
struct Manifest {
    bin: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

#[derive(clap::Args)]
pub(crate) struct FuzzOptions {
    /// How long to run each target, in seconds
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    seconds: u64,
    /// Targets to run [default: all]
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
}

pub(crate) fn run(options: &FuzzOptions) -> Result<(), String> {
    let targets = select(names()?, &options.targets)?;
    let programs = build()?;
    let start = Instant::now();
    let failed = run_all(&programs, &targets, options.seconds)?;
    eprintln!("xtask: {} fuzz targets in {} s", targets.len(), start.elapsed().as_secs());
    if failed.is_empty() {
        Ok(())
    } else {
        Err(format!("fuzz targets failed: {}", failed.join(", ")))
    }
}

/// Returns the names of all targets.
fn names() -> Result<Vec<String>, String> {
    let path = root().join("fuzz/Cargo.toml");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let manifest: Manifest =
        toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(manifest.bin.into_iter().map(|target| target.name).collect())
}

fn select(names: Vec<String>, wanted: &[String]) -> Result<Vec<String>, String> {
    if let Some(unknown) = wanted.iter().find(|wanted| !names.contains(wanted)) {
        return Err(format!(
            "there is no fuzz target {unknown}; choose one of {}",
            names.join(", ")
        ));
    }
    let is_wanted = |name: &String| wanted.is_empty() || wanted.contains(name);
    Ok(names.into_iter().filter(is_wanted).collect())
}

/// Builds all fuzz targets, and returns the folder with their programs.
fn build() -> Result<PathBuf, String> {
    let version = output("querying rustc for the host", Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.ok_or("`rustc -vV` prints no host")?;
    let folder = target().join("fuzz");
    // With an explicit --target, build scripts and procedural macros are built without RUSTFLAGS,
    // so without counters.
    let mut build = cargo(&["build", "--release", "--locked", "--quiet", "--target", host]);
    build.arg("--manifest-path").arg(root().join("fuzz/Cargo.toml"));
    build.arg("--target-dir").arg(&folder).env("RUSTFLAGS", FLAGS);
    command::run("building the fuzz targets", &mut build)?;
    Ok(folder.join(host).join("release"))
}

/// Runs the targets and returns the names of those that failed.
fn run_all(programs: &Path, targets: &[String], seconds: u64) -> Result<Vec<String>, String> {
    let waiting: Mutex<VecDeque<&String>> = Mutex::new(targets.iter().collect());
    let failed = Mutex::new(Vec::new());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let next = || waiting.lock().map_err(|_| "a target's thread panicked".to_owned());
    std::thread::scope(|scope| {
        let work = || -> Result<(), String> {
            loop {
                let Some(name) = next()?.pop_front() else { return Ok(()) };
                if let Err(error) = attempt(programs, name, seconds) {
                    eprintln!("xtask: {error}");
                    failed.lock().map_err(|_| "a target's thread panicked")?.push(name.clone());
                }
            }
        };
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().map_err(|_| "a target's thread panicked")?)
    })?;
    failed.into_inner().map_err(|_| "a target's thread panicked".to_owned())
}

/// Runs one target. If it fails, the error contains its last lines of output.
fn attempt(programs: &Path, name: &str, seconds: u64) -> Result<(), String> {
    let artifacts = target().join("fuzz/artifacts");
    let found = target().join("fuzz/corpus").join(name);
    for folder in [&artifacts, &found] {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let mut command = Command::new(programs.join(name));
    command
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-timeout={TIMEOUT}"))
        .arg(format!("-rss_limit_mb={MEMORY}"))
        .arg(format!("-max_len={LONGEST}"))
        .arg(format!("-artifact_prefix={}/{name}-", artifacts.display()))
        // libFuzzer writes new inputs into the first folder.
        .args([&found, &root().join("fuzz/corpus").join(name)])
        .stderr(Stdio::piped())
        .stdout(Stdio::null());
    let start = Instant::now();
    let mut child = command.spawn().map_err(|error| format!("cannot run {name}: {error}"))?;
    let mut lines = VecDeque::new();
    let mut status = Status::default();
    let mut last_report = start;
    let output = child.stderr.take().ok_or("cannot read a target's output")?;
    for line in BufReader::new(output).split(b'\n') {
        let line = line.map_err(|error| format!("{name}: {error}"))?;
        let line = String::from_utf8_lossy(&line).into_owned();
        status.update(&line);
        if last_report.elapsed() >= INTERVAL {
            last_report = Instant::now();
            eprintln!("xtask: {name}: {status} so far");
        }
        lines.truncate(LINES - 1);
        lines.push_front(line);
    }
    let outcome = child.wait().map_err(|error| format!("{name}: {error}"))?;
    let took = start.elapsed().as_secs();
    if outcome.success() {
        eprintln!("xtask: {name}: {status} in {took} s, nothing found");
        return Ok(());
    }
    let lines: Vec<String> = lines.into_iter().rev().collect();
    Err(format!("{name} failed after {status} in {took} s:\n{}", lines.join("\n")))
}

/// The progress of a target.
#[derive(Default, PartialEq, Eq, Debug)]
struct Status {
    runs: u64,
    edges: u64,
}

impl Status {
    /// Parses a line of libFuzzer such as `#4096  pulse  cov: 312 ft: 1204 …`; other lines change
    /// nothing.
    fn update(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        let runs = words.next().and_then(|word| word.strip_prefix('#')?.parse().ok());
        let Some(runs) = runs else { return };
        self.runs = runs;
        let edges = words.skip_while(|word| *word != "cov:").nth(1);
        self.edges = edges.and_then(|word| word.parse().ok()).unwrap_or(self.edges);
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} runs, {} edges covered", self.runs, self.edges)
    }
}

#[cfg(test)]
mod tests {
    use super::{Status, names};
    use crate::command::{cargo, output, root};

    /// The fuzz targets are a separate workspace, whose lock file nothing else checks.
    #[test]
    fn the_lock_file_is_up_to_date_with_the_crates() {
        let manifest = root().join("fuzz/Cargo.toml");
        let mut metadata =
            cargo(&["metadata", "--locked", "--format-version=1", "--manifest-path"]);
        output("reading the lock file of the fuzz targets", metadata.arg(manifest)).unwrap();
    }

    #[test]
    fn every_target_has_a_program_and_seeds() {
        let fuzz = root().join("fuzz");
        let names = names().unwrap();
        for name in &names {
            assert!(fuzz.join(format!("fuzz_targets/{name}.rs")).is_file(), "{name}");
            let seeds = fuzz.join("corpus").join(name).read_dir();
            assert!(seeds.is_ok_and(|mut seeds| seeds.next().is_some()), "{name} has no seeds");
        }
        let files = fuzz.join("fuzz_targets").read_dir().unwrap();
        assert_eq!(files.count(), names.len(), "a target is not in fuzz/Cargo.toml");
    }

    #[test]
    fn runs_and_coverage_are_read_from_the_lines_that_have_them() {
        let mut status = Status::default();
        for line in [
            "INFO: Running with entropic power schedule (0xFF, 100).",
            "#2\tINITED cov: 31 ft: 32 corp: 1/1b exec/s: 0 rss: 27Mb",
            "#4096\tpulse  cov: 312 ft: 1204 corp: 99/1423b",
            "Done 5000 runs in 2 second(s)",
        ] {
            status.update(line);
        }
        assert_eq!(status, Status { runs: 4096, edges: 312 });
    }
}
