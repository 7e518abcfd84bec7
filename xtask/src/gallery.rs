//! `cargo xtask gallery`: applies published bugs of other QUIC and TCP stacks to Clearway's code,
//! one at a time, and checks that each is detected.

mod judge;
mod patch;
mod rows;
mod table;
mod tree;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use serde_json::json;

use self::judge::Seen;
use self::patch::{Judge, Patch};
use self::tree::Tree;
use crate::command::root;

/// The minimum fraction of the patches that must be caught.
const WANTED: f64 = 0.95;

#[derive(clap::Args)]
pub(crate) struct GalleryOptions {
    /// Run only this patch, or the patches of this row; can be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Vec<String>,
    /// Run only rows whose bug was fully described
    #[arg(long)]
    pub(crate) marked: bool,
    /// Only check that all patches apply
    #[arg(long)]
    pub(crate) check: bool,
    /// Write the table in gallery/README.md, with a row for every patch
    #[arg(long, conflicts_with_all = ["only", "marked"])]
    pub(crate) write: bool,
    /// Print one JSON object per patch, and a last one with the score
    #[arg(long)]
    pub(crate) json: bool,
}

/// The outcome of one patch.
struct Trial<'a> {
    patch: &'a Patch,
    seen: Seen,
    is_caught: bool,
}

pub(crate) fn run(options: &GalleryOptions) -> Result<(), String> {
    let folder = folder();
    let patches = patch::read_all(&folder)?;
    rows::check(&rows::read(&folder)?, &patches)?;
    let patches = select(patches, options)?;
    let tree = Tree::new()?;
    check(&tree, &patches)?;
    if options.check {
        return Ok(());
    }
    check_silence(&tree, &patches)?;
    let mut trials = Vec::new();
    for (index, patch) in patches.iter().enumerate() {
        let trial = attempt(&tree, patch)?;
        print(&trial, index + 1, patches.len());
        if options.json {
            println!("{}", object(&trial));
        }
        trials.push(trial);
    }
    tree.restore()?;
    conclude(&trials, options)
}

/// Returns the folder that contains the patches.
fn folder() -> PathBuf {
    root().join("gallery")
}

fn select(patches: Vec<Patch>, options: &GalleryOptions) -> Result<Vec<Patch>, String> {
    let is_named =
        |patch: &Patch, name: &String| patch.name == *name || patch.row.to_string() == *name;
    if let Some(name) =
        options.only.iter().find(|name| !patches.iter().any(|patch| is_named(patch, name)))
    {
        return Err(format!("there is no patch {name} in the gallery; see gallery/README.md"));
    }
    let is_wanted = |patch: &Patch| {
        (options.only.is_empty() || options.only.iter().any(|name| is_named(patch, name)))
            && (!options.marked || patch.is_marked)
    };
    Ok(patches.into_iter().filter(is_wanted).collect())
}

/// Checks that every patch applies.
fn check(tree: &Tree, patches: &[Patch]) -> Result<(), String> {
    let complaints: Vec<String> = patches
        .iter()
        .filter_map(|patch| {
            let error = tree.check(&patch.path).err()?;
            Some(format!("{} does not apply: {error}", patch.name))
        })
        .collect();
    if complaints.is_empty() {
        eprintln!("xtask: all {} patches of the gallery apply", patches.len());
        return Ok(());
    }
    Err(complaints.join("\n"))
}

/// Checks that no judge reports a violation in the unchanged code.
fn check_silence(tree: &Tree, patches: &[Patch]) -> Result<(), String> {
    let mut judges: Vec<&Judge> = patches.iter().flat_map(|patch| &patch.judges).collect();
    judges.sort();
    judges.dedup();
    eprintln!("xtask: building without a patch");
    for judge in &judges {
        judge::build(tree, judge)?;
        let seen = judge::run(tree, judge)?;
        if !seen.is_silent() {
            return Err(format!(
                "without a patch, {} reports {}",
                judge.describe(),
                seen.violated.join(", ")
            ));
        }
    }
    eprintln!("xtask: without a patch, all {} checks pass", judges.len());
    Ok(())
}

fn attempt<'a>(tree: &Tree, patch: &'a Patch) -> Result<Trial<'a>, String> {
    tree.restore()?;
    tree.apply(&patch.path).map_err(|error| format!("{} does not apply: {error}", patch.name))?;
    let named = |error| format!("{}: {error}", patch.name);
    let begin = Instant::now();
    for judge in &patch.judges {
        judge::build(tree, judge).map_err(named)?;
    }
    eprint!("xtask: {} built in {:.0} s; ", patch.name, begin.elapsed().as_secs_f64());
    let (mut all, mut is_caught) = (Seen::default(), true);
    for judge in &patch.judges {
        let seen = judge::run(tree, judge).map_err(named)?;
        is_caught &= seen.is_one_of(&patch.properties);
        all.join(seen);
    }
    Ok(Trial { patch, seen: all, is_caught })
}

fn print(trial: &Trial<'_>, number: usize, of: usize) {
    let Trial { patch, seen, is_caught } = trial;
    let violated = match seen.violated.as_slice() {
        [] => "nothing".to_owned(),
        violated => violated.join(", "),
    };
    let verdict = if *is_caught { "caught" } else { "NOT CAUGHT" };
    let by = patch.describe_judges();
    eprintln!("{number} of {of}: {verdict}: {by} reports {violated} after {:.1} s", seen.took);
}

fn object(trial: &Trial<'_>) -> serde_json::Value {
    let Trial { patch, seen, is_caught } = trial;
    json!({
        "patch": patch.name, "row": patch.row, "property": patch.properties.join(","),
        "caught": is_caught, "violated": seen.violated, "at_s": seen.at, "wall_s": seen.took,
        "judge": patch.describe_judges(), "open": patch.open,
    })
}

fn conclude(trials: &[Trial<'_>], options: &GalleryOptions) -> Result<(), String> {
    let caught = trials.iter().filter(|trial| trial.is_caught).count();
    if options.json {
        println!("{}", json!({ "patches": trials.len(), "caught": caught }));
    }
    eprintln!("xtask: {caught} of {} patches are caught", trials.len());
    if options.write {
        table::write(trials)?;
    }
    // A patch that is not caught must have the key Open, and one that is caught must not have it.
    let wrong: BTreeMap<&str, &str> = trials
        .iter()
        .filter_map(|trial| match (trial.is_caught, &trial.patch.open) {
            (false, None) => {
                Some((trial.patch.name.as_str(), "is not caught, but its header has no key Open"))
            }
            (true, Some(_)) => {
                Some((trial.patch.name.as_str(), "is caught: remove the key Open from its header"))
            }
            _ => None,
        })
        .collect();
    if !wrong.is_empty() {
        let wrong: Vec<_> = wrong.iter().map(|(name, what)| format!("{name} {what}")).collect();
        return Err(wrong.join("\n"));
    }
    if (caught as f64) < WANTED * trials.len() as f64 {
        return Err(format!("only {caught} of {} patches are caught", trials.len()));
    }
    Ok(())
}
