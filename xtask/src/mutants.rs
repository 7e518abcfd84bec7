//! `cargo xtask mutants`: makes small changes to congestion control and loss recovery; for each, a test has to fail.
//!
//! cargo-mutants makes the changes. A seeded sample of them is tried in two stages: first with the unit tests of the
//! changed crate, which takes seconds; the mutants that survive these are then tried with the unit tests of both crates
//! and the lab's tests, which run its fast scenarios. A mutant that survives both has to be listed in
//! `xtask/survivors.toml` with the reason why it changes no behavior.

mod sample;
mod survivors;
mod trial;

use serde_json::json;

use self::sample::Mutant;
use self::trial::{Fate, Trials};

/// How many mutants are tried by default.
const SAMPLE: usize = 300;
/// The default seed, which determines the sample.
const SEED: u64 = 1;
/// The fraction of the mutants that build which has to be caught.
const WANTED: f64 = 0.9;

#[derive(Debug)]
struct Options {
    sample: usize,
    seed: u64,
    only: Option<String>,
    list: bool,
    json: bool,
}

pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    let options = parse(arguments)?;
    let tool = trial::tool()?;
    let all = sample::list(&tool)?;
    let mut mutants = sample::choose(&all, options.seed, options.sample);
    if let Some(part) = &options.only {
        mutants.retain(|mutant| mutant.name.contains(part.as_str()));
    }
    eprintln!("xtask: {} of {} mutants, seed {}", mutants.len(), all.len(), options.seed);
    if options.list {
        mutants.iter().for_each(|mutant| println!("{}", mutant.name));
        return Ok(());
    }
    let known = survivors::read()?;
    let trials = trial::try_all(&tool, &mutants)?;
    conclude(&mutants, &trials, &known, options.json)
}

fn parse(arguments: &[&str]) -> Result<Options, String> {
    let mut options = Options { sample: SAMPLE, seed: SEED, only: None, list: false, json: false };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().ok_or_else(|| format!("{argument} takes a value"));
        match *argument {
            "--sample" => options.sample = number(value()?)?,
            "--seed" => options.seed = number(value()?)?,
            "--only" => options.only = Some((*value()?).to_owned()),
            "--list" => options.list = true,
            "--json" => options.json = true,
            other => return Err(format!("mutants has no option {other}")),
        }
    }
    Ok(options)
}

fn number<T: core::str::FromStr>(word: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("{word} is not a number"))
}

fn conclude(
    mutants: &[Mutant],
    trials: &Trials,
    known: &survivors::Survivors,
    json: bool,
) -> Result<(), String> {
    let (mut caught, mut viable) = (0_u32, 0_u32);
    let mut unexplained = Vec::new();
    for mutant in mutants {
        let fate = trials.fate(mutant);
        viable += u32::from(fate != Fate::Unviable);
        caught += u32::from(fate == Fate::Caught);
        let why = known.why(mutant);
        if fate == Fate::Survived && why.is_none() {
            unexplained.push(mutant.name.as_str());
        }
        if json {
            println!("{}", json!({ "mutant": mutant.name, "fate": fate.name(), "why": why }));
        } else if fate == Fate::Survived {
            println!("survived: {} ({})", mutant.name, why.unwrap_or("not listed"));
        }
    }
    let share = f64::from(caught) / f64::from(viable.max(1));
    if json {
        println!("{}", json!({ "mutants": mutants.len(), "viable": viable, "caught": caught }));
    }
    eprintln!("xtask: {caught} of {viable} mutants that build are caught, {:.1} %", share * 100.0);
    if !unexplained.is_empty() {
        return Err(format!(
            "{} mutants survive without a reason in {}: add a test that fails for them, or list them there",
            unexplained.len(),
            survivors::FILE
        ));
    }
    if share < WANTED {
        return Err(format!(
            "less than {:.0} % of the mutants that build are caught",
            WANTED * 100.0
        ));
    }
    Ok(())
}
