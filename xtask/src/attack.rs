//! `cargo xtask attack`: attacks on running programs over loopback, each with a well-behaved client beside it, and what they
//! cost.

mod client;
mod endpoint;
mod http3;
mod rows;
mod scene;
mod table;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use self::client::Client;
use self::endpoint::Sent;
use self::rows::{Row, Target};
use self::scene::{SMALL, Scene, Site, start};
use self::table::{Line, outcome};
use self::watch::Watch;
use crate::command::{self, cargo, target};
use crate::waiting::{check_interrupt, pause, watch_signals};

/// How long the well-behaved client asks before the attack begins, so that what a server allocates once is there.
const BEFORE: Duration = Duration::from_millis(400);
/// How long it asks after the attack.
const AFTER: Duration = Duration::from_millis(500);

struct Options {
    only: Vec<String>,
    is_quick: bool,
    is_list: bool,
    program: Option<PathBuf>,
    library: Option<PathBuf>,
}

/// Runs the chosen attacks and prints the table.
///
/// # Errors
/// If a bound does not hold.
pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    let options = parse(arguments)?;
    let chosen = chosen(&options)?;
    if options.is_list {
        chosen.iter().for_each(|row| println!("{}", row.name));
        return Ok(());
    }
    watch_signals()?;
    let site = prepare(&options)?;
    println!("{}", table::HEAD);
    let mut failed = Vec::new();
    for row in &chosen {
        check_interrupt()?;
        let line = attack(&site, row)?;
        println!("{}", line.text());
        if !line.faults.is_empty() {
            failed.push(row.name);
        }
    }
    let _ = std::fs::remove_dir_all(&site.folder);
    match failed.as_slice() {
        [] => Ok(()),
        _ => Err(format!(
            "{} of {} attacks exceed their bounds: {}",
            failed.len(),
            chosen.len(),
            failed.join(", ")
        )),
    }
}

fn parse(arguments: &[&str]) -> Result<Options, String> {
    let mut options =
        Options { only: Vec::new(), is_quick: false, is_list: false, program: None, library: None };
    let mut rest = arguments;
    loop {
        rest = match rest {
            [] => return Ok(options),
            ["--quick", rest @ ..] => {
                options.is_quick = true;
                rest
            }
            ["--list", rest @ ..] => {
                options.is_list = true;
                rest
            }
            ["--only", name, rest @ ..] => {
                options.only.push((*name).to_owned());
                rest
            }
            ["--program", file, rest @ ..] => {
                options.program = Some(file.into());
                rest
            }
            ["--library", file, rest @ ..] => {
                options.library = Some(file.into());
                rest
            }
            [other, ..] => return Err(format!("unknown option: {other}; see cargo xtask help")),
        };
    }
}

fn chosen(options: &Options) -> Result<Vec<Row>, String> {
    let is_wanted = |row: &Row| match options.only.as_slice() {
        [] => row.is_quick || !options.is_quick,
        names => names.iter().any(|name| row.name.contains(name.as_str())),
    };
    let chosen: Vec<Row> = rows::all().into_iter().filter(is_wanted).collect();
    match chosen.is_empty() {
        true => Err("no attack has this name; --list prints all".to_owned()),
        false => Ok(chosen),
    }
}

fn prepare(options: &Options) -> Result<Site, String> {
    let program = match &options.program {
        Some(program) => program.clone(),
        None => command::program()?,
    };
    let library = match &options.library {
        Some(library) => library.clone(),
        None => {
            let words = ["build", "--release", "-p", "clearway", "--example", "peer"];
            command::run("building the example peer", &mut cargo(&words))?;
            target().join("release/examples/peer")
        }
    };
    // The path is unique, so that two runs do not share files.
    let folder = target().join("attack").join(std::process::id().to_string());
    Site::new(&folder, program, library)
}

/// Runs one attack.
///
/// # Errors
/// If it cannot be run: that its bound does not hold is in the line.
fn attack(site: &Site, row: &Row) -> Result<Line, String> {
    let failed = |error: String| format!("{}: {error}", row.name);
    let folder = site.folder.join(row.name);
    std::fs::create_dir_all(&folder).map_err(|error| failed(error.to_string()))?;
    let Target::Serve(options) = row.target;
    let path = folder.display().to_string();
    let options: Vec<String> =
        options.iter().map(|option| option.replace("{folder}", &path)).collect();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let log = site.folder.join(format!("{}.log", row.name));
    let (mut server, address) = start(site.serve(&options), &log).map_err(failed)?;
    let counter = Arc::new(Sent::default());
    let quiet = Arc::new(Sent::default());
    let client = Client::start(address, site.settings(&quiet), SMALL);
    pause(BEFORE)?;
    let watch = Watch::start(server.id(), &folder);
    let mut scene = Scene {
        site,
        folder,
        address,
        process: server.id(),
        counter: counter.clone(),
        notes: Vec::new(),
        faults: Vec::new(),
    };
    let driven = (row.drive)(&mut scene);
    pause(AFTER)?;
    let cost = watch.stop();
    let seen = client.stop();
    let mut faults = std::mem::take(&mut scene.faults);
    if let Err(error) = driven {
        faults.push(format!("the attack could not be finished: {error}"));
    }
    if !server.is_running() {
        faults.push("the target has ended".to_owned());
    }
    if server.log().contains("panicked") {
        faults.push("the target panicked".to_owned());
    }
    faults.extend(outcome(&row.bound, &cost, &seen));
    Ok(Line {
        name: row.name,
        sent: counter.bytes.load(Ordering::Relaxed),
        datagrams: counter.datagrams.load(Ordering::Relaxed),
        cost,
        seen,
        notes: scene.notes,
        faults,
    })
}

#[cfg(test)]
mod tests {
    use super::{chosen, parse, rows};

    #[test]
    fn attacks_are_chosen_by_name_and_size() {
        let count = |words: &[&str]| {
            let options = parse(words).and_then(|options| chosen(&options));
            options.map_or(0, |chosen| chosen.len())
        };
        assert_eq!(count(&["--only", "ping-flood"]), 1);
        assert_eq!(count(&[]), rows::all().len());
        assert!((1..=count(&[])).contains(&count(&["--quick"])));
        assert_eq!(count(&["--only", "nobody"]), 0);
        assert!(parse(&["--onyl", "ping"]).is_err());
    }

    #[test]
    fn every_attack_has_a_name_of_its_own() {
        let mut names: Vec<&str> = rows::all().iter().map(|row| row.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
