//! Runs the scenarios.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::fleet::{Fleet, Report};
use super::judge::{Facts, Happened};
use super::servers::{
    self, Certificate, Counts, Listed, NAMES, Programs, number_of, number_of_id, text,
};
use super::site::{METRICS, Site, VIRTUAL};
use super::strays::Strays;
use super::table::Row;
use super::{Event, Scenario, Stack, create, write};
use crate::command;
use crate::program::Program;
use crate::waiting::{pause, wait_until};

/// Initial number of servers.
const SERVERS: usize = 3;
/// Duration of the clients' migrations if there is no event.
const MOVING: Duration = Duration::from_secs(8);
/// Duration of the clients' migrations before and after the event.
const BEFORE: Duration = Duration::from_millis(1500);
const AFTER: Duration = Duration::from_secs(4);
/// Time without a balancer, in addition to the time needed to stop and to start it.
const DOWNTIME: Duration = Duration::from_millis(300);
/// Time during which both balancers run.
const BOTH: Duration = Duration::from_secs(2);
/// Time limit for an added server to get a new client, and the polling interval.
const ADDING: Duration = Duration::from_secs(5);
const ASKING: Duration = Duration::from_millis(200);
/// Time to wait until a balancer notices that a server was killed. The check of the results is
/// stricter.
const NOTICING: Duration = Duration::from_secs(3);
/// Time limit for a server to log all datagrams that it has counted.
const WRITING: Duration = Duration::from_secs(5);

/// Runs a scenario from setup to teardown. The input and output of its programs are written to
/// `folder`.
pub(super) fn run(scenario: Scenario, programs: &Programs, folder: &Path) -> Result<Row, String> {
    let began = Instant::now();
    create(folder)?;
    let facts = Stage::set(scenario.stack, programs, folder)?.play(scenario.event)?;
    Ok(Row::new(scenario, &facts, began.elapsed().as_secs_f64()))
}

/// The running programs of a scenario. Fields are dropped in order, so the first one is stopped
/// first.
struct Stage<'a> {
    fleet: Fleet,
    balancer: Program,
    /// The servers listed in the balancer's file.
    listed: Vec<Listed>,
    /// The servers by number; `None` if a server was killed.
    servers: Vec<Option<Program>>,
    strays: Strays,
    /// Number of stray datagrams that each server has logged so far.
    written: [usize; NAMES.len()],
    site: Site,
    equipment: Equipment<'a>,
}

/// The paths and the network needed to start programs.
struct Equipment<'a> {
    stack: Stack,
    programs: &'a Programs,
    certificate: Certificate,
    folder: &'a Path,
}

impl Equipment<'_> {
    fn server(&self, number: usize, site: &Site) -> Result<Program, String> {
        let Self { stack, programs, certificate, folder } = self;
        servers::start(*stack, number, site, programs, certificate, folder)
    }

    fn balancer(&self, number: usize, site: &Site) -> Result<Program, String> {
        let name = format!("balancer {}", number + 1);
        let log = self.folder.join(format!("balancer-{}.log", number + 1));
        let backends = self.backends();
        let arguments = ["balance", "--listen", VIRTUAL, "--backends", text(&backends)];
        let arguments = [&arguments[..], &["--metrics", METRICS]].concat();
        let started = (&*self.programs.clearway, &arguments[..]);
        Program::start(&name, &site.balancers[number], started, "listening", &log)
    }

    fn fleet(&self, site: &Site) -> Result<Fleet, String> {
        let (programs, certificate) = (self.programs, text(&self.certificate.certificate));
        let has_nat = self.stack == Stack::QuicGoOpaque;
        Fleet::start(&programs.fleet, site, certificate, has_nat, &self.folder.join("fleet.log"))
    }

    /// Returns the path of the file that balancers read.
    fn backends(&self) -> PathBuf {
        self.folder.join("backends.toml")
    }

    fn list(&self, servers: &[Listed]) -> Result<(), String> {
        write(&self.backends(), servers::backends(self.stack, servers))
    }
}

impl<'a> Stage<'a> {
    /// Starts servers, a balancer and clients. The clients download from then on.
    fn set(stack: Stack, programs: &'a Programs, folder: &'a Path) -> Result<Self, String> {
        let certificate = certificate(&programs.fleet, folder)?;
        let equipment = Equipment { stack, programs, certificate, folder };
        let site = Site::create().map_err(network)?;
        let mut servers = Vec::new();
        for number in 0..SERVERS {
            servers.push(Some(equipment.server(number, &site)?));
        }
        let listed: Vec<_> = (0..SERVERS).map(|number| Listed { number, drains: false }).collect();
        equipment.list(&listed)?;
        let balancer = equipment.balancer(0, &site)?;
        let fleet = equipment.fleet(&site)?;
        let (strays, written) = (Strays::default(), [0; NAMES.len()]);
        Ok(Self { fleet, balancer, listed, servers, strays, written, site, equipment })
    }

    fn play(mut self, event: Event) -> Result<Facts, String> {
        let began = Instant::now();
        if event != Event::Moves {
            pause(BEFORE)?;
        }
        let happened = match event {
            Event::Moves => self.only_move()?,
            Event::Drain => self.drain()?,
            Event::Kill => self.kill()?,
            Event::Add => self.add()?,
            Event::Restart => self.restart()?,
            Event::Second => self.replace()?,
        };
        if event != Event::Moves {
            pause(AFTER)?;
        }
        let seconds = began.elapsed().as_secs_f64();
        let members = self.fleet.finish()?.members;
        self.note_strays()?;
        Ok(Facts {
            members,
            strays: self.strays,
            resets: self.counts()?.into_iter().map(|(_, counts)| counts.resets).sum(),
            unfinished: self.fleet.unfinished_openings,
            openings: self.fleet.openings,
            dropped: self.site.dropped().map_err(network)?,
            seconds,
            happened,
        })
    }

    fn only_move(&mut self) -> Result<Happened, String> {
        pause(MOVING)?;
        Ok(Happened::Nothing)
    }

    fn drain(&mut self) -> Result<Happened, String> {
        let report = self.fleet.report()?;
        let server = busiest(&report)?;
        let number = number_of(&server)?;
        for listed in self.listed.iter_mut().filter(|it| it.number == number) {
            listed.drains = true;
        }
        self.list()?;
        Ok(Happened::Drained { at: report.now, server })
    }

    fn kill(&mut self) -> Result<Happened, String> {
        let report = self.fleet.report()?;
        let server = busiest(&report)?;
        self.note_strays()?;
        let began = Instant::now();
        // Dropping the server kills its process.
        self.servers[number_of(&server)?] = None;
        let down =
            format!("clearway_balance_server_state{{server=\"{server}\",state=\"down\"}} 1.0");
        let mut noticed = None;
        wait_until(NOTICING, || {
            let metrics = self.site.balancer_metrics(0);
            let metrics = metrics.map_err(|error| format!("the balancer's metrics: {error}"))?;
            let is_down = metrics.lines().any(|line| line == down);
            noticed = is_down.then(|| began.elapsed().as_secs_f64());
            Ok(is_down)
        })?;
        Ok(Happened::Killed { at: report.now, server, noticed })
    }

    fn add(&mut self) -> Result<Happened, String> {
        let before = self.fleet.probe()?;
        let number = self.servers.len();
        self.servers.push(Some(self.equipment.server(number, &self.site)?));
        self.listed.push(Listed { number, drains: false });
        self.list()?;
        let server = NAMES[number].to_owned();
        // If the server gets no client, the check reports that.
        let began = Instant::now();
        loop {
            self.fleet.report()?;
            let is_new = |server_of: &Option<String>| server_of.as_ref() == Some(&server);
            let has_new = self.fleet.openings.iter().any(|it| is_new(&it.server));
            if has_new || began.elapsed() > ADDING {
                break;
            }
            pause(ASKING)?;
        }
        let after = self.fleet.probe()?;
        let remembers = self.equipment.stack == Stack::QuicGoOpaque;
        Ok(Happened::Added { server, servers: self.servers.len(), before, after, remembers })
    }

    fn restart(&mut self) -> Result<Happened, String> {
        // In this order, so that the downtime measured on the clients' clock is at least as long as
        // the actual one.
        let began = Instant::now();
        let at = self.fleet.report()?.now;
        self.balancer.stop()?;
        pause(DOWNTIME)?;
        self.balancer = self.equipment.balancer(0, &self.site)?;
        Ok(Happened::Restarted { at, back: at + began.elapsed().as_secs_f64() })
    }

    fn replace(&mut self) -> Result<Happened, String> {
        let second = self.equipment.balancer(1, &self.site)?;
        self.site.send_to(1).map_err(network)?;
        pause(BOTH)?;
        // The first balancer has no pending work.
        std::mem::replace(&mut self.balancer, second).stop()?;
        Ok(Happened::Replaced)
    }

    /// Rewrites the balancer's file, and makes the balancer reload it.
    fn list(&self) -> Result<(), String> {
        self.equipment.list(&self.listed)?;
        self.balancer.signal(Signal::HUP)
    }

    /// Returns the counters of the running servers, with each server's number.
    fn counts(&self) -> Result<Vec<(usize, Counts)>, String> {
        let living = (0..).zip(&self.servers).filter(|(_, server)| server.is_some());
        let counts = living.map(|(number, _)| {
            let metrics = self.site.metrics(number);
            let metrics = metrics.map_err(|error| format!("the metrics of a server: {error}"))?;
            Ok((number, Counts::read(self.equipment.stack, &metrics)?))
        });
        counts.collect()
    }

    /// Counts the datagrams that have reached the wrong servers since the last call. Waits until
    /// the servers have logged all datagrams that they have counted.
    fn note_strays(&mut self) -> Result<(), String> {
        let codec = servers::codec(self.equipment.stack)?;
        for (at, Counts { unknown, .. }) in self.counts()? {
            let path = servers::log(self.equipment.folder, at);
            let runs = |number: usize| self.servers.get(number).is_some_and(Option::is_some);
            let (mut strays, mut written) = (Strays::default(), 0);
            let is_complete = wait_until(WRITING, || {
                let log = std::fs::read(&path);
                let log = log.map_err(|error| format!("{}: {error}", path.display()))?;
                let log = String::from_utf8_lossy(&log);
                let known = (at, self.written[at]);
                (strays, written) = Strays::read(&log, known, &codec, runs, number_of_id)?;
                Ok(written as u64 >= unknown)
            })?;
            if !is_complete {
                return Err(format!(
                    "server {} counted {unknown} stray datagrams, but logged {written}",
                    NAMES[at]
                ));
            }
            self.written[at] = written;
            self.strays += strays;
        }
        Ok(())
    }
}

/// Returns the server with the most connections.
fn busiest(report: &Report) -> Result<String, String> {
    let count = |name: &str| report.members.iter().filter(|member| member.server == name).count();
    let server = NAMES.into_iter().max_by_key(|name| count(name));
    Ok(server.ok_or("there is no server")?.to_owned())
}

fn certificate(program: &Path, folder: &Path) -> Result<Certificate, String> {
    let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    let mut make = Command::new(program);
    command::output("making a certificate", make.arg("certificate").args([&certificate, &key]))?;
    Ok(Certificate { certificate, key })
}

fn network(error: io::Error) -> String {
    format!("the network: {error}")
}
