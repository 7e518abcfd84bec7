//! Runs tests on mutants until one fails.
//!
//! All mutants of an area are built together, each behind a switch, because building takes longer than testing. A first run of each
//! test program notes which mutants it reaches; only these programs are run on a mutant, the fastest first. Of a program that takes
//! long, each test notes this by itself, and only the tests that reach a mutant are run on it. What cannot have a switch is built by
//! itself: constant functions, for example, and what does not build at all.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::areas::Area;
use super::sample::Mutant;
use super::workshop::{TestProgram, Workshop};
use crate::command::{self, target};
use crate::waiting::wait_until;

/// How much longer than without a mutant a test program may take: some mutants loop forever.
const SLOWER: u32 = 4;
const LONGER: Duration = Duration::from_secs(15);
/// How long a test program may take without a mutant.
const LONGEST: Duration = Duration::from_secs(900);
/// A program that takes this long has its tests selected for each mutant.
const LONG: Duration = Duration::from_secs(15);
/// How much memory it may have.
const MEMORY: &str = "--as=8589934592";

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
pub(super) struct Trials(BTreeMap<String, Fate>);

impl Trials {
    pub(super) fn fate(&self, mutant: &Mutant) -> Fate {
        self.0.get(&mutant.name).copied().unwrap_or(Fate::Survived)
    }

    fn note(&mut self, mutant: &Mutant, fate: Fate, why: &str) {
        eprintln!("xtask: {}: {fate:?}{why}", mutant.name);
        self.0.insert(mutant.name.clone(), fate);
    }
}

/// Tries `mutants` with the tests of the packages that `area` names.
pub(super) fn try_all(area: &Area, mutants: &[Mutant]) -> Result<Trials, String> {
    let mut trials = Trials::default();
    let files: BTreeSet<PathBuf> = mutants.iter().map(|mutant| mutant.file.clone()).collect();
    let mut workshop = Workshop::open(files)?;
    eprintln!("xtask: {}: building {} mutants at once", area.name, mutants.len());
    let (switched, rejected) = workshop.apply_switched(mutants)?;
    // How long each program takes without a mutant.
    let mut paces = BTreeMap::new();
    if !switched.is_empty() {
        let programs = workshop.test_programs(area.packages)?.ok_or("the tests do not build")?;
        eprintln!("xtask: {}: running {} test programs", area.name, programs.len());
        let trial = Trial::new(area, &programs)?;
        let pace = |sound: &Sound<'_>| (sound.program.name.clone(), sound.took);
        paces = trial.programs.iter().map(pace).collect();
        trial.run(&switched, |place, outcome| {
            if let Some(mutant) = mutants.get(place) {
                note(&mut trials, mutant, outcome);
            }
        })?;
    }
    let singles: Vec<&Mutant> = rejected.iter().filter_map(|place| mutants.get(*place)).collect();
    for (index, mutant) in singles.iter().enumerate() {
        eprintln!("xtask: {}: building mutant {} of {}", area.name, index + 1, singles.len());
        workshop.apply(mutant)?;
        let fate = match workshop.is_built(mutant)? {
            true => try_alone(&workshop, area, mutant, &paces)?,
            false => None,
        };
        match fate {
            Some(caught_by) => note(&mut trials, mutant, caught_by),
            None => trials.note(mutant, Fate::Unviable, ""),
        }
    }
    Ok(trials)
}

/// The name of the program that catches the mutant that is applied, if one does; `None` if its tests do not build. Those of its own
/// package are built and run first.
fn try_alone(
    workshop: &Workshop,
    area: &Area,
    mutant: &Mutant,
    paces: &BTreeMap<String, Duration>,
) -> Result<Option<Option<String>>, String> {
    let pace = |program: &TestProgram| paces.get(&program.name).copied().unwrap_or(LONGEST);
    let mut has_run = BTreeSet::new();
    for packages in [&[mutant.package.as_str()], area.packages] {
        let Some(mut programs) = workshop.test_programs(packages)? else { return Ok(None) };
        programs.retain(|program| !has_run.contains(&program.name));
        programs.sort_by_key(pace);
        for program in programs {
            if !run(&program, &[], &[], limit(pace(&program)))?.is_passed {
                return Ok(Some(Some(program.name)));
            }
            has_run.insert(program.name);
        }
    }
    Ok(Some(None))
}

fn note(trials: &mut Trials, mutant: &Mutant, caught_by: Option<String>) {
    match caught_by {
        Some(program) => trials.note(mutant, Fate::Caught, &format!(" by {program}")),
        None => trials.note(mutant, Fate::Survived, ""),
    }
}

/// A test program that passes without a mutant.
struct Sound<'a> {
    program: &'a TestProgram,
    took: Duration,
    /// The mutants that it reaches.
    reached: BTreeSet<usize>,
    /// The tests that reach each mutant, if the program takes long.
    tests: BTreeMap<usize, Vec<String>>,
}

impl<'a> Sound<'a> {
    /// Runs a program without a mutant.
    fn new(program: &'a TestProgram) -> Result<Self, String> {
        let (outcome, reached) = reach(program, &[])?;
        if !outcome.is_passed {
            return Err(format!("{} fails without a mutant", program.name));
        }
        Ok(Self { program, took: outcome.took, reached, tests: BTreeMap::new() })
    }

    /// Finds out what each test reaches. One that fails by itself is left out, and its mutants are tried with the others.
    fn look_into(&mut self) -> Result<(), String> {
        for test in list(self.program)? {
            let (outcome, reached) = reach(self.program, &["--exact", &test])?;
            if outcome.is_passed {
                for number in reached {
                    self.tests.entry(number).or_default().push(test.clone());
                }
            }
        }
        Ok(())
    }

    /// Whether the tests pass on this mutant.
    fn passes(&self, number: usize) -> Result<bool, String> {
        let active = number.to_string();
        let tests = self.tests.get(&number).into_iter().flatten().map(String::as_str);
        let mut arguments: Vec<&str> = tests.collect();
        if !arguments.is_empty() {
            arguments.push("--exact");
        }
        let switch = [("MUTANT", active.as_ref())];
        Ok(run(self.program, &arguments, &switch, limit(self.took))?.is_passed)
    }
}

/// Runs a program without a mutant, and notes what it reaches.
fn reach(program: &TestProgram, arguments: &[&str]) -> Result<(Outcome, BTreeSet<usize>), String> {
    let folder = target().join("mutants/reached");
    let _ = fs::remove_dir_all(&folder);
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(&folder).map_err(failed)?;
    let noting = [("MUTANTS_REACHED", folder.as_os_str())];
    let mut outcome = run(program, arguments, &noting, LONGEST)?;
    if !outcome.is_passed {
        // Noting may have been what a test failed for that counts allocations.
        outcome = run(program, arguments, &[], LONGEST)?;
    }
    let names = fs::read_dir(&folder).map_err(failed)?.flatten();
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    Ok((outcome, names.filter_map(number).collect()))
}

/// The tests of a program.
fn list(program: &TestProgram) -> Result<Vec<String>, String> {
    let mut command = Command::new(&program.file);
    command.args(["--list", "--format=terse"]).current_dir(&program.folder);
    let listed = command::output("listing tests", &mut command)?;
    Ok(listed.lines().filter_map(|line| Some(line.strip_suffix(": test")?.to_owned())).collect())
}

struct Trial<'a> {
    /// The fastest first.
    programs: Vec<Sound<'a>>,
    /// How many programs run at a time: one if they use sockets, and measure time.
    threads: usize,
}

impl<'a> Trial<'a> {
    /// Runs each program without a mutant.
    fn new(area: &Area, programs: &'a [TestProgram]) -> Result<Self, String> {
        let mut sound = programs.iter().map(Sound::new).collect::<Result<Vec<_>, _>>()?;
        sound.sort_by_key(|program| program.took);
        let is_long =
            |program: &&mut Sound<'_>| program.took >= LONG && !program.reached.is_empty();
        for program in sound.iter_mut().filter(is_long) {
            eprintln!("xtask: {}: running each test of {}", area.name, program.program.name);
            program.look_into()?;
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self { programs: sound, threads: if area.is_slow { 1 } else { cores } })
    }

    /// Tries the mutants with these numbers, and passes on the name of the program that catches each.
    fn run(
        &self,
        numbers: &[usize],
        mut done: impl FnMut(usize, Option<String>),
    ) -> Result<(), String> {
        let next = AtomicUsize::new(0);
        let (sender, outcomes) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            for _ in 0..self.threads {
                let (sender, next) = (sender.clone(), &next);
                scope.spawn(move || {
                    while let Some(number) = numbers.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let outcome = self.try_one(*number).map(|caught_by| (*number, caught_by));
                        if sender.send(outcome).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(sender);
            // An error ends the threads, because nobody receives from them any more.
            outcomes
                .into_iter()
                .try_for_each(|outcome| outcome.map(|(number, caught_by)| done(number, caught_by)))
        })
    }

    /// The name of the program that catches this mutant.
    fn try_one(&self, number: usize) -> Result<Option<String>, String> {
        for sound in self.programs.iter().filter(|sound| sound.reached.contains(&number)) {
            if !sound.passes(number)? {
                return Ok(Some(sound.program.name.clone()));
            }
        }
        Ok(None)
    }
}

/// How long a program may take with a mutant.
fn limit(pace: Duration) -> Duration {
    pace.saturating_mul(SLOWER) + LONGER
}

struct Outcome {
    is_passed: bool,
    took: Duration,
}

/// A test program, which is killed with its children when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // The ID is that of the group until it is waited for.
        if let Some(group) = Pid::from_raw(self.0.id().cast_signed()) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

/// Runs a test program until it ends, a test fails, or it takes longer than `limit`.
fn run(
    program: &TestProgram,
    arguments: &[&str],
    environment: &[(&str, &std::ffi::OsStr)],
    limit: Duration,
) -> Result<Outcome, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", program.name);
    let mut command = Command::new("prlimit");
    command.arg(MEMORY).arg(&program.file).args(arguments).current_dir(&program.folder);
    command.env("CARGO_MANIFEST_DIR", &program.folder).envs(environment.iter().copied());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    let began = Instant::now();
    let mut running = Running(command.spawn().map_err(failed)?);
    let output = running.0.stdout.take();
    let reader = std::thread::spawn(move || {
        let lines = output.map(BufReader::new).into_iter().flat_map(BufRead::lines);
        lines.map_while(Result::ok).any(|line| line.ends_with("... FAILED"))
    });
    let mut status = None;
    let is_over = wait_until(limit, || {
        status = running.0.try_wait().map_err(failed)?;
        // The reader ends before the program when a test fails.
        Ok(status.is_some() || reader.is_finished())
    })?;
    let took = began.elapsed();
    if is_over && status.is_none() && reader.join().is_ok_and(|has_failed| !has_failed) {
        // It has closed its output.
        status = running.0.wait().ok();
    }
    Ok(Outcome { is_passed: status.is_some_and(|status| status.success()), took })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(script: &str, limit: Duration) -> Outcome {
        let file = std::env::temp_dir().join(format!("xtask-trial-{}", std::process::id()));
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        fs::set_permissions(&file, mode).unwrap();
        let folder = PathBuf::from("/");
        let program = TestProgram { name: "script".to_owned(), file: file.clone(), folder };
        let outcome = run(&program, &[], &[("SAID", "yes".as_ref())], limit).unwrap();
        fs::remove_file(file).unwrap();
        outcome
    }

    #[test]
    fn a_program_fails_by_its_status_its_output_or_its_time() {
        let long = Duration::from_secs(20);
        assert!(outcome("echo test a ... ok; test $SAID = yes", long).is_passed);
        assert!(outcome("exec >/dev/null; sleep 0.2", long).is_passed);
        assert!(!outcome("exit 101", long).is_passed);
        let began = Instant::now();
        assert!(!outcome("echo test a ... FAILED; sleep 60", long).is_passed);
        assert!(!outcome("sleep 60", Duration::from_millis(300)).is_passed);
        assert!(began.elapsed() < long);
    }
}
