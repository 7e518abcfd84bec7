//! Runs the cells of the test matrix.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clearway_units::Random;

use crate::capture::{KeyLog, Trace};
use crate::catalogue::{Files, Test};
use crate::cell::{Cell, Outcome, Verdict};
use crate::certificates::Certificates;
use crate::checks::{Evidence, Fault, check, goodput};
use crate::cross_traffic::CrossTraffic;
use crate::endpoints::{Plan, Programs, Setting, UNSUPPORTED, listening};
use crate::environment::{self, Environment, Place};
use crate::network::Network;
use crate::process::{Process, is_interrupted};
use crate::stack::Stack;
use crate::support;
use crate::targets;

/// Time limit for a server to start listening.
const START_LIMIT: Duration = Duration::from_secs(20);
/// Time to wait after the client has exited, so that its last packets can cross the network.
const DRAIN: Duration = Duration::from_millis(200);
/// Default number of runs for a measurement.
const MEASUREMENTS: u32 = 5;
/// Maximum number of characters to print of an endpoint's output.
const SHOWN: usize = 400;

/// The settings with which cells are run.
#[derive(Debug)]
pub(crate) struct Runner {
    pub(crate) programs: Programs,
    pub(crate) kind: environment::Kind,
    /// The folder that contains one subfolder for each cell.
    pub(crate) folder: PathBuf,
    pub(crate) seed: u64,
    /// Number of runs of a cell. With `None`, a test is run once and a measurement five times.
    pub(crate) repeat: Option<u32>,
    pub(crate) keep: bool,
    pub(crate) qlog: bool,
}

/// The result of running a cell once.
enum Run {
    Checked(String),
    Measured { goodput: f64, other: Option<f64>, lateness: Duration },
}

impl Runner {
    /// Runs a cell. Returns `None` if the user interrupts.
    pub(crate) fn run(&self, cell: &Cell) -> Option<Outcome> {
        if let Some(reason) = self.kind.leaves_out(cell.test) {
            return Some(Outcome::new(Verdict::Unsupported, format!("skipped: {reason}")));
        }
        let outcome = match cell.test.is_measurement() {
            false => self.test(cell, self.repeat.unwrap_or(1)),
            true => self.measure(cell, self.repeat.unwrap_or(MEASUREMENTS)),
        };
        (!is_interrupted()).then_some(outcome)
    }

    /// Runs a test several times, each time with a different seed. All runs must pass.
    fn test(&self, cell: &Cell, runs: u32) -> Outcome {
        let (mut passed, mut failed, mut first_failure) = (String::new(), 0, None);
        let mut of_peer = None;
        for repetition in 0..runs {
            match self.run_once(cell, repetition) {
                Ok(Run::Checked(detail)) => passed = detail,
                Ok(Run::Measured { .. }) => {}
                Err(Fault::Unsupported(why)) => return Outcome::new(Verdict::Unsupported, why),
                Err(Fault::Failed(why)) => {
                    failed += 1;
                    let Cell { client, server, test, .. } = cell;
                    match support::known_failure(*client, *server, test.letter, &why) {
                        Some(known) => of_peer = Some(known),
                        None => drop(first_failure.get_or_insert(why)),
                    }
                }
            }
            if is_interrupted() {
                break;
            }
        }
        let of = |detail| match runs {
            1 => detail,
            _ => format!("{} of {runs} runs passed: {detail}", runs - failed),
        };
        match (first_failure, of_peer) {
            (Some(why), _) => Outcome::new(Verdict::Failed, of(why)),
            (None, Some(why)) => Outcome::new(Verdict::Unsupported, of(why)),
            (None, None) => Outcome::new(Verdict::Ok, of(passed)),
        }
    }

    /// Runs a measurement several times, and returns the mean.
    fn measure(&self, cell: &Cell, runs: u32) -> Outcome {
        let (mut goodputs, mut others) = (Vec::new(), Vec::new());
        let mut worst = Duration::ZERO;
        for repetition in 0..runs {
            match self.run_once(cell, repetition) {
                Ok(Run::Measured { goodput, other, lateness }) => {
                    goodputs.push(goodput);
                    others.extend(other);
                    worst = worst.max(lateness);
                }
                Ok(Run::Checked(_)) => {}
                Err(fault) => return fault.into(),
            }
        }
        targets::judge(cell, &goodputs, &others, worst)
    }

    fn run_once(&self, cell: &Cell, repetition: u32) -> Result<Run, Fault> {
        let name = match repetition {
            0 => cell.name(),
            _ => format!("{}-{}", cell.name(), repetition + 1),
        };
        let folder = self.folder.join(&name);
        let result = self.run_in(cell, &folder, self.seed.wrapping_add(repetition.into()));
        let result = result.unwrap_or_else(|error| Err(Fault::Failed(error.to_string())));
        // The files of a failed cell are kept for the user.
        let is_over = result.is_ok() || matches!(result, Err(Fault::Unsupported(_)));
        let removed = match is_over && !self.keep || is_interrupted() {
            true => fs::remove_dir_all(&folder),
            false => fs::remove_dir_all(folder.join("www"))
                .and_then(|()| fs::remove_dir_all(folder.join("downloads"))),
        };
        // A failure to remove the files does not affect the result.
        drop(removed);
        match result {
            Err(Fault::Failed(why)) => {
                Err(Fault::Failed(format!("{why} (records in {})", folder.display())))
            }
            other => other,
        }
    }

    fn run_in(&self, cell: &Cell, folder: &Path, seed: u64) -> io::Result<Result<Run, Fault>> {
        let _ = fs::remove_dir_all(folder);
        let (root, downloads) = (folder.join("www"), folder.join("downloads"));
        fs::create_dir_all(&root)?;
        fs::create_dir_all(&downloads)?;
        let files = make_files(cell.test, &root, seed)?;
        let is_long = cell.test.network == Network::ListedLoss;
        let certificates = Certificates::create(&folder.join("certs"), is_long)?;
        let mut environment = Environment::create(self.kind, cell.test.host)?;
        let setting = Setting {
            test: cell.test,
            client: cell.client,
            controller: cell.controller,
            certificates: &certificates,
            root: &root,
            downloads: &downloads,
            files: &files,
            folder,
            listen: environment.listen,
            connect: environment.connect,
            preferred: environment.preferred,
            qlog: self.qlog,
        };
        let plans = (
            self.programs.server(cell.server, &setting),
            self.programs.client(cell.client, &setting),
        );
        let (servers, clients) = match plans {
            (Plan::Run(servers), Plan::Run(clients)) => (servers, clients),
            (Plan::Unsupported(why), _) | (_, Plan::Unsupported(why)) => {
                return Ok(Err(Fault::Unsupported(why)));
            }
        };
        let limit = cell.test.time_limit;
        let log = folder.join("server.log");
        let mut server = None;
        for command in &servers {
            server = Some(Process::start(&environment, Place::Server, command, limit, &log)?);
        }
        let Some(mut server) = server else {
            return Ok(Err(Fault::Failed("no server".to_owned())));
        };
        let Some(address) = server.wait_for_line(START_LIMIT, listening)? else {
            return Ok(Err(ended(cell.server, "server", &mut server)?));
        };
        environment.listens_at(address);
        let relay = environment.start(cell.test.network, seed, folder)?;
        let cross_traffic = match cell.test.network {
            Network::CrossTraffic => Some(CrossTraffic::start(&environment)?),
            _ => None,
        };
        let start = Instant::now();
        let log = folder.join("client.log");
        for command in &clients {
            let left = limit.saturating_sub(start.elapsed());
            let mut client = Process::start(&environment, Place::Client, command, limit, &log)?;
            match client.wait(left)? {
                Some(status) if status.success() => {}
                _ => return Ok(Err(ended(cell.client, "client", &mut client)?)),
            }
        }
        let other = cross_traffic.map(CrossTraffic::stop).transpose()?;
        std::thread::sleep(DRAIN);
        // A server that has already exited is a failure, whatever the client reports.
        if server.status()?.is_some() {
            return Ok(Err(ended(cell.server, "server", &mut server)?));
        }
        server.stop()?;
        let report = relay.stop()?;
        let keys = KeyLog::read(&["client", "server"].map(|side| setting.key_log(side)));
        let read = |name: &str| Trace::read(&folder.join(name), &keys, environment::is_server);
        let evidence = Evidence {
            test: cell.test,
            root: &root,
            downloads: &downloads,
            client: &read("client.pcap")?,
            server: &read("server.pcap")?,
            has_keys: !keys.is_empty(),
        };
        Ok(match cell.test.is_measurement() {
            false => check(&evidence).map(Run::Checked),
            true => goodput(&evidence).map(|goodput| Run::Measured {
                goodput,
                other,
                lateness: report.worst_lateness,
            }),
        })
    }
}

impl From<Fault> for Outcome {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Failed(why) => Self::new(Verdict::Failed, why),
            Fault::Unsupported(why) => Self::new(Verdict::Unsupported, why),
        }
    }
}

/// Returns why an endpoint failed.
fn ended(stack: Stack, side: &str, process: &mut Process) -> io::Result<Fault> {
    let what = match process.status()? {
        Some(status) if status.code() == Some(UNSUPPORTED) => {
            return Ok(Fault::Unsupported(format!("the {side} of {stack} exited with 127")));
        }
        Some(status) => format!("the {side} of {stack} exited with {status}"),
        None => format!("the {side} of {stack} took too long"),
    };
    let output = process.output();
    let output = output.trim();
    let mut begin = output.len().saturating_sub(SHOWN);
    while !output.is_char_boundary(begin) {
        begin += 1;
    }
    Ok(Fault::Failed(format!("{what}: {}", output[begin..].replace('\n', " | "))))
}

/// Writes files with random names and contents, and returns their names.
fn make_files(test: &Test, root: &Path, seed: u64) -> io::Result<Vec<String>> {
    let mut random = Random::from_number(seed);
    let shapes: Vec<(usize, usize)> = match test.files {
        Files::Sizes(sizes) => sizes.iter().map(|size| (*size, 10)).collect(),
        Files::Many { count, size, name_length } => vec![(size, name_length); count],
    };
    let mut names = Vec::new();
    for (size, name_length) in shapes {
        let letter = |_| char::from(b'a' + u8::try_from(random.below(26)).unwrap_or(0));
        let name: String = (0..name_length).map(letter).collect();
        let mut content = vec![0; size];
        random.fill(&mut content);
        fs::write(root.join(&name), content)?;
        names.push(name);
    }
    Ok(names)
}
