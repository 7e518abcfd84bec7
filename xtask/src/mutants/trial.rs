//! Runs tests on each mutant until a test fails.
//!
//! All mutants are built together, each behind a switch, because building takes longer than
//! testing. A first run of each test program records which mutants it reaches. A mutant is then
//! tested only with the programs that reach it, and in slow programs only with the tests that reach
//! it. Fast tests run first. Mutants that cannot be switched at run time are built one by one, for
//! example those of constants in types.

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
use super::workshop::{Switched, TestProgram, Workshop};
use crate::command::{self, target};
use crate::waiting::wait_until;

/// Time limit of a test program with a mutant: a multiple of its time without one, plus a constant.
/// Some mutants loop forever.
const SLOWER: u32 = 4;
const LONGER: Duration = Duration::from_secs(15);
/// Time limit of a test program without a mutant.
const LONGEST: Duration = Duration::from_secs(900);
/// Duration above which a test program counts as slow, so that only some of its tests are selected
/// for each mutant.
const LONG: Duration = Duration::from_secs(15);
/// Total duration of the tests in the first batch of a slow program.
const FIRST_BATCH: Duration = Duration::from_secs(2);
/// Address space limit of a test program.
const MEMORY: &str = "--as=8589934592";

/// Outcome of testing one mutant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// A test failed or timed out with the mutant.
    Caught,
    /// All tests passed with the mutant.
    Survived,
    /// The mutant does not build.
    Unviable,
}

/// Outcomes by mutant name, with the time spent on each mutant.
#[derive(Default, Debug)]
pub(super) struct Trials(BTreeMap<String, (Fate, Duration)>);

impl Trials {
    pub(super) fn fate(&self, mutant: &Mutant) -> Fate {
        self.0.get(&mutant.name).map_or(Fate::Survived, |(fate, _)| *fate)
    }

    pub(super) fn took(&self, mutant: &Mutant) -> Duration {
        self.0.get(&mutant.name).map_or(Duration::ZERO, |(_, took)| *took)
    }

    fn note(&mut self, mutant: &Mutant, fate: Fate, took: Duration, why: &str) {
        let number = self.0.len() + 1;
        eprintln!("xtask: {number}: {}: {fate:?}{why} in {:.1} s", mutant.name, took.as_secs_f64());
        self.0.insert(mutant.name.clone(), (fate, took));
    }

    fn note_tests(&mut self, mutant: &Mutant, caught_by: Option<String>, took: Duration) {
        match caught_by {
            Some(program) => self.note(mutant, Fate::Caught, took, &format!(" by {program}")),
            None => self.note(mutant, Fate::Survived, took, ""),
        }
    }
}

/// The sampled mutants of an area.
pub(super) struct Sample {
    pub(super) area: &'static Area,
    pub(super) mutants: Vec<Mutant>,
}

/// Tests each sample with its area's packages.
pub(super) fn try_all(samples: &[Sample]) -> Result<Trials, String> {
    let mut trials = Trials::default();
    let areas: Vec<&Area> =
        samples.iter().flat_map(|sample| sample.mutants.iter().map(|_| sample.area)).collect();
    let mutants: Vec<&Mutant> = samples.iter().flat_map(|sample| &sample.mutants).collect();
    let files: BTreeSet<PathBuf> = mutants.iter().map(|mutant| mutant.file.clone()).collect();
    let packages: BTreeSet<&str> = areas.iter().flat_map(|area| area.packages).copied().collect();
    let mut workshop = Workshop::open(files)?;
    eprintln!("xtask: building {} mutants together", mutants.len());
    let Switched { switched, unviable, rejected } = workshop.apply_switched(&mutants, &packages)?;
    let switched: Vec<usize> = switched.into_iter().collect();
    for mutant in unviable.iter().filter_map(|place| mutants.get(*place)) {
        trials.note(mutant, Fate::Unviable, Duration::ZERO, "");
    }
    eprintln!("xtask: {} do not build, {} are built separately", unviable.len(), rejected.len());
    // Duration of each test program without a mutant.
    let mut paces = BTreeMap::new();
    if !switched.is_empty() {
        let programs = workshop.test_programs(&packages)?.ok_or("the tests do not build")?;
        eprintln!("xtask: running {} test programs", programs.len());
        let trial = Trial::new(&programs)?;
        let pace = |sound: &Sound<'_>| (sound.program.name.clone(), sound.took);
        paces = trial.programs.iter().map(pace).collect();
        trial.run(&switched, &areas, |place, caught_by, took| {
            if let Some(mutant) = mutants.get(place) {
                trials.note_tests(mutant, caught_by, took);
            }
        })?;
    }
    for (index, place) in rejected.iter().enumerate() {
        let (Some(mutant), Some(area)) = (mutants.get(*place), areas.get(*place)) else { continue };
        eprintln!("xtask: building mutant {} of {}", index + 1, rejected.len());
        let begun = Instant::now();
        workshop.apply(mutant)?;
        let fate = match workshop.is_built(mutant)? {
            true => try_alone(&workshop, area, mutant, &paces)?,
            false => None,
        };
        match fate {
            Some(caught_by) => trials.note_tests(mutant, caught_by, begun.elapsed()),
            None => trials.note(mutant, Fate::Unviable, begun.elapsed(), ""),
        }
    }
    Ok(trials)
}

/// Returns the name of the test program that catches the applied mutant, if one does, or `None` if the tests do not build. Tests of
/// the mutant's own package are built and run first.
fn try_alone(
    workshop: &Workshop,
    area: &Area,
    mutant: &Mutant,
    paces: &BTreeMap<String, Duration>,
) -> Result<Option<Option<String>>, String> {
    let pace = |program: &TestProgram| paces.get(&program.name).copied().unwrap_or(LONGEST);
    let mut has_run = BTreeSet::new();
    for packages in [&[mutant.package.as_str()], area.packages] {
        let packages = packages.iter().copied().collect();
        let Some(mut programs) = workshop.test_programs(&packages)? else { return Ok(None) };
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

/// A test program that passes when no mutant is active.
struct Sound<'a> {
    program: &'a TestProgram,
    took: Duration,
    /// Mutants that the program reaches.
    reached: BTreeSet<usize>,
    /// Tests that reach each mutant, with the tests' durations. Only recorded if the program is
    /// slow.
    tests: BTreeMap<usize, Vec<(Duration, String)>>,
}

/// Tests of one program that run together on a mutant.
struct Batch<'a> {
    program: &'a TestProgram,
    /// Names of the tests; empty to run all.
    tests: Vec<&'a str>,
    /// Duration of the tests without a mutant.
    took: Duration,
}

impl<'a> Sound<'a> {
    /// Runs a program without a mutant.
    fn new(program: &'a TestProgram) -> Result<Self, String> {
        let (outcome, reached) = reach(program, &[])?;
        if !outcome.is_passed {
            return Err(format!("{} fails without a mutant", program.name));
        }
        let mut sound = Self { program, took: outcome.took, reached, tests: BTreeMap::new() };
        if sound.took >= LONG && !sound.reached.is_empty() {
            eprintln!("xtask: running each test of {}", program.name);
            sound.look_into()?;
        }
        Ok(sound)
    }

    /// Records which mutants each test reaches. A test that fails when run alone is skipped; the
    /// mutants that it reaches are tested with the other tests.
    fn look_into(&mut self) -> Result<(), String> {
        for test in list(self.program)? {
            let (outcome, reached) = reach(self.program, &["--exact", &test])?;
            if outcome.is_passed {
                for number in reached {
                    let tests = self.tests.entry(number).or_default();
                    tests.push((outcome.took, test.clone()));
                }
            }
        }
        self.tests.values_mut().for_each(|tests| tests.sort());
        Ok(())
    }

    /// Returns the batches of tests for this mutant. For a slow program, the first batches contain
    /// the fast tests.
    fn batches(&self, number: usize) -> Vec<Batch<'_>> {
        let (program, took) = (self.program, self.took);
        let Some(mut rest) = self.tests.get(&number).map(Vec::as_slice) else {
            return vec![Batch { program, tests: Vec::new(), took }];
        };
        let (mut batches, mut longest) = (Vec::new(), FIRST_BATCH);
        while !rest.is_empty() {
            let mut took = Duration::ZERO;
            let fits = rest.iter().take_while(|(test, _)| {
                took += *test;
                took <= longest
            });
            let (batch, others) = rest.split_at(fits.count().max(1));
            let tests = batch.iter().map(|(_, name)| name.as_str()).collect();
            batches.push(Batch { program, tests, took: batch.iter().map(|(took, _)| *took).sum() });
            (rest, longest) = (others, longest * 4);
        }
        batches
    }
}

impl Batch<'_> {
    /// Returns whether the tests pass with this mutant.
    fn passes(&self, number: usize) -> Result<bool, String> {
        let active = number.to_string();
        let mut arguments = self.tests.clone();
        if !arguments.is_empty() {
            arguments.push("--exact");
        }
        let switch = [("MUTANT", active.as_ref())];
        Ok(run(self.program, &arguments, &switch, limit(self.took))?.is_passed)
    }
}

/// Runs a program without a mutant, and records which mutants it reaches.
fn reach(program: &TestProgram, arguments: &[&str]) -> Result<(Outcome, BTreeSet<usize>), String> {
    let folder = target().join("mutants/reached").join(&program.name);
    let _ = fs::remove_dir_all(&folder);
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(&folder).map_err(failed)?;
    let noting = [("MUTANTS_REACHED", folder.as_os_str())];
    let mut outcome = run(program, arguments, &noting, LONGEST)?;
    if !outcome.is_passed {
        // Recording may have broken a test that counts allocations.
        outcome = run(program, arguments, &[], LONGEST)?;
    }
    let names = fs::read_dir(&folder).map_err(failed)?.flatten();
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    Ok((outcome, names.filter_map(number).collect()))
}

/// Lists the tests of a program.
fn list(program: &TestProgram) -> Result<Vec<String>, String> {
    let mut command = Command::new(&program.file);
    command.args(["--list", "--format=terse"]).current_dir(&program.folder);
    let listed = command::output("listing tests", &mut command)?;
    Ok(listed.lines().filter_map(|line| Some(line.strip_suffix(": test")?.to_owned())).collect())
}

struct Trial<'a> {
    programs: Vec<Sound<'a>>,
}

impl<'a> Trial<'a> {
    /// Runs each program without a mutant.
    fn new(programs: &'a [TestProgram]) -> Result<Self, String> {
        let mut sound = Vec::new();
        on_all_cores(programs, Sound::new, |program| sound.push(program))?;
        Ok(Self { programs: sound })
    }

    /// Tests the mutants with these numbers, which index `areas`, and calls `done` with the name of the program that catches each.
    fn run(
        &self,
        numbers: &[usize],
        areas: &[&Area],
        mut done: impl FnMut(usize, Option<String>, Duration),
    ) -> Result<(), String> {
        let try_one = |number: &usize| {
            let begun = Instant::now();
            let packages = areas.get(*number).map_or(&[][..], |area| area.packages);
            self.try_one(*number, packages).map(|caught_by| (*number, caught_by, begun.elapsed()))
        };
        on_all_cores(numbers, try_one, |(number, caught_by, took)| done(number, caught_by, took))
    }

    /// Returns the name of the first test program in these packages that catches this mutant.
    fn try_one(&self, number: usize, packages: &[&str]) -> Result<Option<String>, String> {
        let is_concerned = |sound: &&Sound<'_>| {
            sound.reached.contains(&number) && packages.contains(&sound.program.package.as_str())
        };
        let concerned = self.programs.iter().filter(is_concerned);
        let mut batches: Vec<Batch<'_>> =
            concerned.flat_map(|sound| sound.batches(number)).collect();
        batches.sort_by_key(|batch| batch.took);
        for batch in batches {
            if !batch.passes(number)? {
                return Ok(Some(batch.program.name.clone()));
            }
        }
        Ok(None)
    }
}

/// Calls `work` for each item, on one thread per core, and `done` with each result. Stops at the first error.
fn on_all_cores<'a, Item: Sync, Output: Send>(
    items: &'a [Item],
    work: impl Fn(&'a Item) -> Result<Output, String> + Sync,
    mut done: impl FnMut(Output),
) -> Result<(), String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let (sender, outcomes) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..cores {
            let (sender, next, work) = (sender.clone(), &next, &work);
            scope.spawn(move || {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if sender.send(work(item)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        // After an error the receiver is dropped, which ends the threads.
        outcomes.into_iter().try_for_each(|outcome| outcome.map(&mut done))
    })
}

/// Returns the time limit of a program with a mutant.
fn limit(pace: Duration) -> Duration {
    pace.saturating_mul(SLOWER) + LONGER
}

struct Outcome {
    is_passed: bool,
    took: Duration,
}

/// A running test program, which is killed with its children when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Until the process is waited for, its process ID remains that of the group.
        if let Some(group) = Pid::from_raw(self.0.id().cast_signed()) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

/// Runs a test program until it exits, a test fails, or the program takes longer than `limit`.
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
        // The reader stops early when a test fails.
        Ok(status.is_some() || reader.is_finished())
    })?;
    let took = began.elapsed();
    if is_over && status.is_none() && reader.join().is_ok_and(|has_failed| !has_failed) {
        // The program has closed its standard output.
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
        let (name, package) = ("script".to_owned(), String::new());
        let program = TestProgram { name, package, file: file.clone(), folder };
        let outcome = run(&program, &[], &[("SAID", "yes".as_ref())], limit).unwrap();
        fs::remove_file(file).unwrap();
        outcome
    }

    #[test]
    fn fast_tests_of_a_slow_program_are_run_first() {
        let program = TestProgram {
            name: String::new(),
            package: String::new(),
            file: PathBuf::new(),
            folder: PathBuf::new(),
        };
        let test = |name: &str, seconds| (Duration::from_secs(seconds), name.to_owned());
        let tests = vec![test("a", 0), test("b", 1), test("c", 3), test("d", 4), test("e", 90)];
        let (took, reached) = (Duration::from_secs(98), BTreeSet::from([7]));
        let sound = Sound { program: &program, took, reached, tests: [(7, tests)].into() };
        let batches: Vec<_> = sound.batches(7).into_iter().map(|batch| batch.tests).collect();
        assert_eq!(batches, [vec!["a", "b"], vec!["c", "d"], vec!["e"]]);
        assert!(sound.batches(8)[0].tests.is_empty());
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
