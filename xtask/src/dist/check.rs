//! Installs the files of a release in a Debian system without Rust, and runs the program there.

mod identity;
mod system;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::Release;
use crate::bounded::Finished;
use crate::command::root;
use crate::waiting::watch_signals;
use system::System;

/// Checks to run on each program: the name, and a script whose argument is the program's path.
const OF_EACH: [(&str, &str); 5] = [
    ("demo", include_str!("check/demo.sh")),
    ("transfer", include_str!("check/transfer.sh")),
    ("lab", include_str!("check/lab.sh")),
    ("view", include_str!("check/view.sh")),
    ("balance", include_str!("check/balance.sh")),
];
/// Checks to run only on the installed package.
const OF_PACKAGE: [(&str, &str); 2] = [
    ("manual", include_str!("check/manual.sh")),
    ("completion", include_str!("check/completion.sh")),
];
const INSTALL: &str = include_str!("check/install.sh");
const UNITS: &str = include_str!("check/units.sh");
const PURGE: &str = include_str!("check/purge.sh");

/// Time limit of one step.
const LIMIT: Duration = Duration::from_secs(180);

/// The results so far.
#[derive(Default)]
struct Results {
    failed: Vec<String>,
}

/// Creates the system, runs all checks in it, and prints a line for each step.
pub(super) fn run(release: &Release, archives: &[(&str, PathBuf)]) -> Result<(), String> {
    watch_signals()?;
    let system = System::make()?;
    prepare(release, &system)?;
    let mut results = Results::default();
    // `cargo xtask platforms` runs the program for Windows.
    let of_linux = archives.iter().filter(|(triple, _)| triple.contains("-linux-"));
    for (triple, archive) in of_linux {
        system.unpack(archive)?;
        let program = format!("/opt/{}/clearway", release.name(triple));
        results.of_program(triple, &program, &system)?;
    }
    if release.debian_package().is_some() {
        results.of_package(&system)?;
    }
    match results.failed.is_empty() {
        true => Ok(()),
        false => Err(format!("failed: {}", results.failed.join(", "))),
    }
}

impl Results {
    fn of_program(&mut self, name: &str, program: &str, system: &System) -> Result<(), String> {
        for (step, script) in OF_EACH {
            let began = Instant::now();
            let finished = system.run(script, program, LIMIT);
            self.add(&format!("{name} {step}"), began, finished)?;
        }
        Ok(())
    }

    fn of_package(&mut self, system: &System) -> Result<(), String> {
        let program = "/usr/bin/clearway";
        let began = Instant::now();
        self.add("deb install", began, system.run(INSTALL, program, LIMIT))?;
        self.of_program("deb", program, system)?;
        for (step, script) in OF_PACKAGE {
            let began = Instant::now();
            self.add(&format!("deb {step}"), began, system.run(script, program, LIMIT))?;
        }
        let began = Instant::now();
        self.add("deb units", began, system.run_booted(UNITS, LIMIT))?;
        let began = Instant::now();
        self.add("deb purge", began, system.run(PURGE, program, LIMIT))
    }

    /// Prints the result of a step, including the output of a failed step.
    fn add(
        &mut self,
        step: &str,
        began: Instant,
        finished: Result<Finished, String>,
    ) -> Result<(), String> {
        crate::waiting::check_interrupt()?;
        let (is_success, text) = match finished {
            Ok(finished) => (finished.is_success, finished.text),
            Err(error) => (false, error),
        };
        let seconds = began.elapsed().as_secs_f64();
        let verdict = if is_success { "ok" } else { "FAILED" };
        println!("{verdict:<6} {step:<36} {seconds:>6.1} s");
        if !is_success {
            println!("{text}");
            self.failed.push(step.to_owned());
        }
        Ok(())
    }
}

impl Release {
    /// Returns the path of the Debian package, if it was built.
    fn debian_package(&self) -> Option<PathBuf> {
        let files = fs::read_dir(&self.out).ok()?;
        let mut files = files.flatten().map(|entry| entry.path());
        files.find(|path| path.extension().is_some_and(|it| it == "deb"))
    }
}

/// Copies the files that the scripts use into the system.
fn prepare(release: &Release, system: &System) -> Result<(), String> {
    let folder = system.path("check");
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(&folder).map_err(failed)?;
    if let Some(package) = release.debian_package() {
        fs::copy(package, folder.join("clearway.deb")).map_err(failed)?;
    }
    let example = root().join("docs/fleet/backends.toml");
    fs::copy(example, folder.join("backends.toml")).map_err(failed)?;
    let one =
        "[[server]]\nname = \"a\"\naddress = \"127.0.0.1:443\"\npreface = false\nid-length = 8\n";
    fs::write(folder.join("one-server.toml"), one).map_err(failed)?;
    identity::write(&folder, "first")?;
    identity::write(&folder, "second")
}
