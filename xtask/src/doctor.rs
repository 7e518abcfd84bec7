//! `cargo xtask doctor-test`: makes each fault of a host happen in network namespaces, lets `clearway doctor` look, with root
//! and without, and compares its verdict with what was done.

mod faults;
mod fixture;
mod host;
pub(crate) mod judge;
mod matrix;
mod noise;
mod object;
mod packet;
pub(crate) mod reader;
pub(crate) mod scene;
mod sender;
pub(crate) mod site;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use clearway_namespaces::Namespace;

use self::faults::{Fault, Needs};
use self::judge::{Judgement, judge};
use self::matrix::{Rights, Row, Score};
use self::scene::{Programs, Scene, USER};
use self::site::Site;
use crate::command::{self, cargo, target};
use crate::waiting::{check_interrupt, watch_signals};

/// For how many seconds the doctor looks.
const SECONDS: &str = "2";
/// How many of a hundred verdicts have to be right with root.
const MIN_PERCENT: usize = 95;
/// Faults of `--short`, one of a stage: those whose verdicts depend on no rate, and so not on what else the host does.
const SHORT: [&str; 9] = [
    "healthy-ipv4",
    "device-mtu",
    "xdp-native",
    "xdp-socket",
    "ip-checksum",
    "firewall",
    "no-socket",
    "socket-filter",
    "no-route",
];
/// Above other programs of the host, so that what is not injected does not happen; readers have it from this program.
const NICENESS: i32 = -10;

#[derive(PartialEq, Debug)]
struct Options {
    only: Vec<String>,
    runs: usize,
    host: bool,
    /// Whether hosts have nothing beside the fault.
    is_quiet: bool,
    only_lists: bool,
    json: bool,
    /// A folder for the snapshots of each fault's first run with root, as fixtures.
    save: Option<PathBuf>,
}

impl Options {
    fn faults(&self) -> impl Iterator<Item = Fault> {
        let is_chosen = |name| self.only.is_empty() || self.only.iter().any(|word| word == name);
        Fault::all().filter(move |fault| is_chosen(fault.name))
    }
}

/// Makes the faults happen, one after the other.
pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    let options = parse(arguments)?;
    if options.only_lists {
        for fault in options.faults() {
            println!("{:20} {}", fault.name, fault.what);
        }
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        return Err("doctor-test needs network namespaces and users; run it as root".to_owned());
    }
    Namespace::create().map_err(|error| format!("doctor-test needs namespaces: {error}"))?;
    let itself = std::env::current_exe().map_err(|error| format!("this program: {error}"))?;
    // What it says does not depend on how well it is optimised, and the tests have built this one already.
    let mut build = cargo(&["build", "--package", "clearway-cli"]);
    command::run("building clearway", &mut build)?;
    let programs = Programs { clearway: target().join("debug/clearway"), itself };
    watch_signals()?;
    // A host that does not permit it is only slower.
    let _ = rustix::process::setpriority_process(None, NICENESS);
    let folder = target().join("doctor-test");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let began = Instant::now();
    let mut rows = Vec::new();
    for fault in options.faults() {
        let row = all_runs(&fault, &options, &programs, &folder)?;
        if options.json {
            println!("{}", row.json());
        }
        rows.push(row);
    }
    if !options.json {
        print!("{}", matrix::text(&rows));
        println!("{} faults in {:.0} s", rows.len(), began.elapsed().as_secs_f64());
    }
    verdict(&rows)
}

/// Makes a fault happen as often as it is asked for.
fn all_runs(
    fault: &Fault,
    options: &Options,
    programs: &Programs,
    folder: &Path,
) -> Result<Row, String> {
    let mut row = Row { name: fault.name, blocked: None, judgements: Vec::new() };
    if fault.needs == Needs::Host && !options.host {
        row.blocked = Some("it changes a setting of the whole host (--host)".to_owned());
        return Ok(row);
    }
    let log = folder.join(format!("{}.log", fault.name));
    for number in 1..=options.runs {
        let save = options.save.as_ref().filter(|_| number == 1);
        let saved = save.map(|_| folder.join(format!("{}.jsonl", fault.name)));
        let outcome = once(fault, !options.is_quiet, (programs, &log), saved.as_deref());
        check_interrupt()?;
        if let (Some(folder), Some(saved), false) = (save, &saved, fault.is_carried) {
            let written = fixture::write(saved, &folder.join(format!("{}.jsonl", fault.name)));
            if let Err(error) = written {
                eprintln!("xtask: there is no fixture of {}: {error}", fault.name);
            }
        }
        match outcome {
            Ok(judgements) => {
                for (rights, judgement) in &judgements {
                    let Judgement { grade, said, faults } = judgement;
                    let (name, rights, more) = (fault.name, rights.name(), faults.join("; "));
                    eprintln!("xtask: {name} {number}, {rights}: {said}: {grade:?} {more}");
                }
                row.judgements.extend(judgements);
            }
            Err(error) => {
                eprintln!("xtask: {}: {error}", fault.name);
                row.blocked = Some(error);
                break;
            }
        }
    }
    Ok(row)
}

/// Makes a fault happen once, and has it looked at by two doctors at the same time.
fn once(
    fault: &Fault,
    is_noisy: bool,
    (programs, log): (&Programs, &Path),
    save: Option<&Path>,
) -> Result<Vec<(Rights, Judgement)>, String> {
    let site = if fault.is_routed { Site::routed() } else { Site::direct() };
    let site = site.map_err(|error| format!("the network: {error}"))?;
    let mut scene = Scene::new(site, programs, log);
    (fault.inject)(&mut scene)?;
    if is_noisy {
        noise::make(&mut scene, fault)?;
    }
    scene.wait_for_senders()?;
    if fault.is_carried {
        let verdict = judge::read(&scene.ask(SECONDS)?)?;
        return Ok(vec![(Rights::User, judge(fault.expected, &verdict, None))]);
    }
    let host = scene.site.at(fault.place).ok_or("there is no such host")?;
    let doctors = Rights::BOTH.map(|rights| {
        let save = save.filter(|_| rights == Rights::Root);
        look(host, programs, rights, save).map(|child| (rights, child))
    });
    let finish = |outcome: Result<(Rights, Child), String>| {
        let (rights, child) = outcome?;
        let output = child.wait_with_output().map_err(|error| format!("the doctor: {error}"))?;
        let with_errors =
            |error| format!("{error}: {}", String::from_utf8_lossy(&output.stderr).trim());
        let verdict = judge::read(&String::from_utf8_lossy(&output.stdout));
        let status = output.status.code();
        Ok((rights, judge(fault.expected, &verdict.map_err(with_errors)?, status)))
    };
    doctors.into_iter().map(finish).collect()
}

/// Starts a doctor on a host.
fn look(
    host: &Namespace,
    programs: &Programs,
    rights: Rights,
    save: Option<&Path>,
) -> Result<Child, String> {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/proc/{}/ns/net", host.process()));
    if rights == Rights::User {
        command.args(["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups"]);
    }
    command.arg(&programs.clearway).args(["doctor", "--json", "--for", SECONDS]);
    if let Some(file) = save {
        command.arg("--save").arg(file);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().map_err(|error| format!("nsenter: {error} (it is in the package util-linux)"))
}

fn verdict(rows: &[Row]) -> Result<(), String> {
    let mut wrong = Vec::new();
    for rights in Rights::BOTH {
        let Score { all, right, certainly_wrong } = matrix::score(rows, rights);
        if certainly_wrong > 0 {
            wrong.push(format!("{certainly_wrong} wrong and certain {}", rights.name()));
        }
        if rights == Rights::Root && right * 100 < all * MIN_PERCENT {
            wrong.push(format!("only {right} of {all} right with root"));
        }
    }
    let faults = rows.iter().flat_map(|row| &row.judgements);
    let faults: usize = faults.map(|(_, judgement)| judgement.faults.len()).sum();
    if faults > 0 {
        wrong.push(format!("{faults} verdicts with another fault"));
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(format!("doctor-test: {}", wrong.join(", "))),
    }
}

fn parse(arguments: &[&str]) -> Result<Options, String> {
    let (only, save) = (Vec::new(), None);
    let (host, is_quiet, only_lists, json) = (false, false, false, false);
    let mut options = Options { only, runs: 20, host, is_quiet, only_lists, json, save };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().copied().ok_or(format!("{argument} needs a value"));
        match *argument {
            "--host" => options.host = true,
            "--short" => {
                options.runs = 1;
                options.only.extend(SHORT.map(str::to_owned));
            }
            "--quiet" => options.is_quiet = true,
            "--list" => options.only_lists = true,
            "--json" => options.json = true,
            "--save" => options.save = Some(value()?.into()),
            "--runs" => match value()?.parse() {
                Ok(runs) if runs > 0 => options.runs = runs,
                _ => return Err("--runs: expected a number above 0".to_owned()),
            },
            "--only" => {
                let word = value()?;
                if !Fault::all().any(|fault| fault.name == word) {
                    return Err(format!("there is no fault {word}; --list prints all"));
                }
                options.only.push(word.to_owned());
            }
            other => return Err(format!("doctor-test has no option {other}")),
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let all = parse(&[]).unwrap();
        assert_eq!((all.runs, all.host, all.json), (20, false, false));
        assert_eq!(all.faults().count(), Fault::all().count());
        let some = ["--only", "rate", "--only", "burst", "--runs", "3", "--host", "--save", "x"];
        let some = parse(&some).unwrap();
        let names: Vec<_> = some.faults().map(|fault| fault.name).collect();
        assert_eq!((names, some.runs, some.host), (vec!["rate", "burst"], 3, true));
        let short = parse(&["--short"]).unwrap();
        assert_eq!((short.faults().count(), short.runs), (SHORT.len(), 1));
    }

    #[test]
    fn wrong_arguments_are_named() {
        let error = |arguments: &[&str]| parse(arguments).unwrap_err();
        assert_eq!(error(&["--only"]), "--only needs a value");
        assert_eq!(error(&["--only", "x"]), "there is no fault x; --list prints all");
        assert_eq!(error(&["--runs", "0"]), "--runs: expected a number above 0");
        assert_eq!(error(&["--peer"]), "doctor-test has no option --peer");
    }
}
