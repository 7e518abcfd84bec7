//! `cargo xtask doctor-test`: injects each host fault in network namespaces, runs `clearway doctor`
//! as root and as another user, and compares the verdicts with the injected fault.

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
use crate::options::positive;
use crate::waiting::{check_interrupt, watch_signals};

/// Duration in seconds for which the doctor observes the host.
const SECONDS: &str = "2";
/// Minimum percentage of correct verdicts as root.
const MIN_PERCENT: usize = 95;
/// The faults of `--short`, one per stage. Their verdicts do not depend on rates, and therefore not
/// on other load on the host.
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
/// A higher priority than that of the host's other programs, so that only the injected fault
/// occurs. Readers inherit the priority from this program.
const NICENESS: i32 = -10;

#[derive(clap::Args, Debug)]
pub(crate) struct DoctorTestOptions {
    /// Run only this fault; can be repeated
    #[arg(long, value_name = "NAME", value_parser = fault_name)]
    pub(crate) only: Vec<String>,
    /// Number of runs of each fault
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = positive::<usize>())]
    pub(crate) runs: usize,
    /// Also run the faults that change a host-wide setting for some seconds
    #[arg(long)]
    pub(crate) host: bool,
    /// Omit the background noise of a normal host: port scans, multicast and other programs
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Run one fault per stage once, only faults whose verdict does not depend on the host's load
    ///
    /// Takes less than a minute.
    #[arg(long, conflicts_with = "runs")]
    pub(crate) short: bool,
    /// Only print the names
    #[arg(long)]
    pub(crate) list: bool,
    /// Print one JSON object per fault
    #[arg(long)]
    pub(crate) json: bool,
    /// Keep the snapshots of each fault's first run as root, in the format of
    /// crates/doctor/tests/fixtures
    #[arg(long, value_name = "FOLDER")]
    pub(crate) save: Option<PathBuf>,
}

impl DoctorTestOptions {
    fn faults(&self) -> impl Iterator<Item = Fault> {
        let short: &[&str] = if self.short { &SHORT } else { &[] };
        let is_chosen = move |name: &str| {
            let is_named = self.only.iter().any(|word| word == name) || short.contains(&name);
            is_named || self.only.is_empty() && !self.short
        };
        Fault::all().filter(move |fault| is_chosen(fault.name))
    }

    fn runs(&self) -> usize {
        if self.short { 1 } else { self.runs }
    }
}

fn fault_name(word: &str) -> Result<String, String> {
    let is_known = Fault::all().any(|fault| fault.name == word);
    is_known.then(|| word.to_owned()).ok_or("unknown fault name; --list prints all".to_owned())
}

/// Injects the faults one after the other.
pub(crate) fn run(options: &DoctorTestOptions) -> Result<(), String> {
    if options.list {
        for fault in options.faults() {
            println!("{:20} {}", fault.name, fault.what);
        }
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        return Err("doctor-test needs network and user namespaces; run it as root".to_owned());
    }
    Namespace::create().map_err(|error| format!("doctor-test needs namespaces: {error}"))?;
    let itself = std::env::current_exe().map_err(|error| format!("this program: {error}"))?;
    // The verdicts of this program do not depend on the optimization level, and the tests have
    // already built it.
    let mut build = cargo(&["build", "--package", "clearway-cli"]);
    command::run("building clearway", &mut build)?;
    let programs = Programs { clearway: target().join("debug/clearway"), itself };
    watch_signals()?;
    // On a host that does not allow this, the test is only slower.
    let _ = rustix::process::setpriority_process(None, NICENESS);
    let folder = target().join("doctor-test");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let began = Instant::now();
    let mut rows = Vec::new();
    for fault in options.faults() {
        let row = all_runs(&fault, options, &programs, &folder)?;
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

/// Injects a fault as many times as requested.
fn all_runs(
    fault: &Fault,
    options: &DoctorTestOptions,
    programs: &Programs,
    folder: &Path,
) -> Result<Row, String> {
    let mut row = Row { name: fault.name, blocked: None, judgements: Vec::new() };
    if fault.needs == Needs::Host && !options.host {
        row.blocked = Some("it changes a host-wide setting (requires --host)".to_owned());
        return Ok(row);
    }
    let log = folder.join(format!("{}.log", fault.name));
    for number in 1..=options.runs() {
        let save = options.save.as_ref().filter(|_| number == 1);
        let saved = save.map(|_| folder.join(format!("{}.jsonl", fault.name)));
        let outcome = once(fault, !options.quiet, (programs, &log), saved.as_deref());
        check_interrupt()?;
        if let (Some(folder), Some(saved), false) = (save, &saved, fault.is_carried) {
            let written = fixture::write(saved, &folder.join(format!("{}.jsonl", fault.name)));
            if let Err(error) = written {
                eprintln!("xtask: there is no fixture for {}: {error}", fault.name);
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

/// Injects a fault once, while two doctors observe the host concurrently.
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

/// Starts `clearway doctor` on a host.
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
            wrong.push(format!(
                "{certainly_wrong} wrong verdicts stated as certain {}",
                rights.name()
            ));
        }
        if rights == Rights::Root && right * 100 < all * MIN_PERCENT {
            wrong.push(format!("only {right} of {all} verdicts with root were correct"));
        }
    }
    let faults = rows.iter().flat_map(|row| &row.judgements);
    let faults: usize = faults.map(|(_, judgement)| judgement.faults.len()).sum();
    if faults > 0 {
        wrong.push(format!("{faults} verdicts with an incorrect exit status or a missing fault"));
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(format!("doctor-test: {}", wrong.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::parse;

    #[test]
    fn faults_are_all_or_named_or_one_of_each_stage() {
        let names = |words: &[&str]| {
            let options: DoctorTestOptions = parse(words).unwrap();
            (options.faults().map(|fault| fault.name).collect::<Vec<_>>(), options.runs())
        };
        assert_eq!(names(&[]), (Fault::all().map(|fault| fault.name).collect(), 20));
        let some = ["--only", "rate", "--only", "burst", "--runs", "3"];
        assert_eq!(names(&some), (vec!["rate", "burst"], 3));
        let (short, runs) = names(&["--short"]);
        assert_eq!((short.len(), runs), (SHORT.len(), 1));
        assert!(parse::<DoctorTestOptions>(&["--only", "x"]).is_err());
    }
}
