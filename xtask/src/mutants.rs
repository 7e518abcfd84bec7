//! `cargo xtask mutants`: mutation testing. Makes small changes to the code, each of which must
//! make a test fail.
//!
//! cargo-mutants generates the changes. For each area, a seeded sample of them is tested with the
//! area's packages. A mutant that no test catches must be listed in `xtask/survivors.toml` with the
//! reason why it does not change behavior.

mod areas;
mod sample;
mod survivors;
mod switched;
mod tree;
mod trial;
mod workshop;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::json;

use self::areas::{AREAS, Area};
use self::survivors::Survivors;
use self::trial::{Fate, Sample, Trials};
use crate::command;

/// Areas to test by default: those that contain the gallery's bugs.
const DEFAULT: [&str; 2] = ["congestion", "transport"];

#[derive(clap::Args, Debug)]
pub(crate) struct MutantsOptions {
    /// Change all crates, and the programs serve, get and balance (takes hours)
    #[arg(long)]
    pub(crate) all: bool,
    /// Change only this crate or program; can be repeated
    #[arg(long = "crate", value_name = "NAME", value_parser = AREAS.map(|area| area.name), default_values = DEFAULT)]
    pub(crate) areas: Vec<String>,
    /// Number of mutants to test in each area
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    pub(crate) sample: usize,
    /// Seed that selects the mutants of each sample
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Test only the mutants of the sample whose name contains PART
    #[arg(long, value_name = "PART")]
    pub(crate) only: Option<String>,
    /// Only print the names
    #[arg(long)]
    pub(crate) list: bool,
    /// Print one JSON object per mutant, and a last one with the score
    #[arg(long)]
    pub(crate) json: bool,
}

impl MutantsOptions {
    fn areas(&self) -> impl Iterator<Item = &'static Area> {
        AREAS.iter().filter(|area| self.all || self.areas.iter().any(|name| name == area.name))
    }
}

/// Result for one area's sample of mutants.
struct Outcome {
    area: &'static Area,
    caught: u32,
    /// Number of mutants that build.
    viable: u32,
    unviable: u32,
    /// Surviving mutants, each with the listed reason if there is one.
    survived: Vec<(String, Option<String>)>,
    /// Total time spent on the mutants, summed over all threads.
    took: Duration,
}

impl Outcome {
    fn share(&self) -> f64 {
        f64::from(self.caught) / f64::from(self.viable.max(1))
    }

    fn unexplained(&self) -> usize {
        self.survived.iter().filter(|(_, why)| why.is_none()).count()
    }

    fn is_met(&self) -> bool {
        self.unexplained() == 0 && (self.viable == 0 || self.share() >= self.area.wanted)
    }

    fn line(&self) -> String {
        format!(
            "{:<11} {:>6} {:>8} {:>8} {:>10} {:>7.1} % {:>6.0} % {:>8.0}   {}",
            self.area.name,
            self.viable,
            self.caught,
            self.unviable,
            self.unexplained(),
            self.share() * 100.0,
            self.area.wanted * 100.0,
            self.took.as_secs_f64(),
            if self.is_met() { "met" } else { "not met" },
        )
    }
}

/// Returns the names of the areas that contain these files, whose paths are relative to the repository.
pub(crate) fn areas_of(files: &[PathBuf]) -> Vec<String> {
    let concerned = |area: &&Area| files.iter().any(|file| area.contains(file));
    AREAS.iter().filter(concerned).map(|area| area.name.to_owned()).collect()
}

pub(crate) fn run(options: &MutantsOptions) -> Result<(), String> {
    let tool = command::tool("cargo-mutants")?;
    let known = survivors::read()?;
    let mut samples = Vec::new();
    for area in options.areas() {
        let all = sample::list(&tool, area)?;
        let mut mutants = sample::choose(&all, options.seed, options.sample);
        if let Some(part) = &options.only {
            mutants.retain(|mutant| mutant.name.contains(part.as_str()));
        }
        let (name, seed) = (area.name, options.seed);
        eprintln!("xtask: {name}: {} of {} mutants, seed {seed}", mutants.len(), all.len());
        samples.push(Sample { area, mutants });
    }
    if options.list {
        let mutants = samples.iter().flat_map(|sample| &sample.mutants);
        mutants.for_each(|mutant| println!("{}", mutant.name));
        return Ok(());
    }
    let begun = Instant::now();
    let trials = trial::try_all(&samples)?;
    eprintln!("xtask: took {} s", begun.elapsed().as_secs());
    let outcomes: Vec<Outcome> =
        samples.iter().map(|sample| judge(sample, &trials, &known)).collect();
    outcomes.iter().for_each(|outcome| report(outcome, options.json));
    conclude(&outcomes, options.json)
}

fn judge(sample: &Sample, trials: &Trials, known: &Survivors) -> Outcome {
    let (mut caught, mut viable, mut unviable, mut survived) = (0_u32, 0_u32, 0_u32, Vec::new());
    for mutant in &sample.mutants {
        match trials.fate(mutant) {
            Fate::Unviable => unviable += 1,
            Fate::Caught => (caught, viable) = (caught + 1, viable + 1),
            Fate::Survived => {
                viable += 1;
                survived.push((mutant.name.clone(), known.why(mutant).map(str::to_owned)));
            }
        }
    }
    let took = sample.mutants.iter().map(|mutant| trials.took(mutant)).sum();
    Outcome { area: sample.area, caught, viable, unviable, survived, took }
}

fn report(outcome: &Outcome, json: bool) {
    for (mutant, why) in &outcome.survived {
        match json {
            true => println!("{}", json!({ "mutant": mutant, "fate": "survived", "why": why })),
            false => println!("survived: {mutant} ({})", why.as_deref().unwrap_or("not listed")),
        }
    }
    if json {
        let (name, viable) = (outcome.area.name, outcome.viable);
        println!("{}", json!({ "area": name, "viable": viable, "caught": outcome.caught }));
    }
}

/// Prints the table of all areas, and fails if an area misses its target.
fn conclude(outcomes: &[Outcome], json: bool) -> Result<(), String> {
    if !json && !outcomes.is_empty() {
        println!("area         built   caught  unbuilt  unlisted    share  wanted  seconds");
        outcomes.iter().for_each(|outcome| println!("{}", outcome.line()));
    }
    let unexplained: usize = outcomes.iter().map(Outcome::unexplained).sum();
    if unexplained > 0 {
        return Err(format!(
            "{unexplained} mutants survive without an entry in {}: add a test that fails for \
             them, or list them there",
            survivors::FILE
        ));
    }
    let missed = outcomes.iter().filter(|outcome| !outcome.is_met());
    let missed: Vec<&str> = missed.map(|outcome| outcome.area.name).collect();
    match missed.is_empty() {
        true => Ok(()),
        false => Err(format!("too few mutants are caught: {}", missed.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::parse;

    #[test]
    fn areas_are_named_or_all_or_those_of_the_gallery() {
        let names = |words: &[&str]| {
            let options: MutantsOptions = parse(words).unwrap();
            options.areas().map(|area| area.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&["--crate", "wire", "--crate", "io"]), ["wire", "io"]);
        assert_eq!(names(&["--all"]).len(), AREAS.len());
        assert_eq!(names(&["--sample", "7"]), DEFAULT);
        let wrong = parse::<MutantsOptions>(&["--crate", "none"]).unwrap_err();
        assert!(wrong.to_string().contains("wire, congestion"));
    }

    #[test]
    fn a_survivor_without_a_reason_and_a_low_share_do_not_meet_the_target() {
        let area = &AREAS[0];
        let survived = |why: Option<&str>| vec![("a".to_owned(), why.map(str::to_owned))];
        let outcome = |caught, viable, survived| Outcome {
            area,
            caught,
            viable,
            unviable: 3,
            survived,
            took: Duration::ZERO,
        };
        assert!(outcome(95, 100, survived(Some("equal"))).is_met());
        assert!(!outcome(94, 100, survived(Some("equal"))).is_met());
        assert!(!outcome(99, 100, survived(None)).is_met());
        assert!(conclude(&[outcome(99, 100, survived(None))], true).is_err());
    }
}
