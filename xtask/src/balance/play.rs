//! What happens in each scenario.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::fleet::{Fleet, Report};
use super::judge::{Facts, Happened};
use super::program::Program;
use super::servers::{self, Counts, Listed, NAMES, number_of, text};
use super::site::{Site, VIRTUAL};
use super::table::Row;
use super::{Event, Scenario, Stack, create, pause, write};
use crate::command;

/// How many servers there are at first.
const SERVERS: usize = 3;
/// For how long clients move if nothing else happens.
const MOVING: Duration = Duration::from_secs(8);
/// For how long they do before something happens, and after it.
const BEFORE: Duration = Duration::from_millis(1500);
const AFTER: Duration = Duration::from_secs(4);
/// How long there is no balancer, beside the time that it takes to end and to start.
const AWAY: Duration = Duration::from_millis(300);
/// How long both balancers run.
const BOTH: Duration = Duration::from_secs(2);
/// How long it may take until an added server gets a new client, and how often that is asked.
const ADDING: Duration = Duration::from_secs(5);
const ASKING: Duration = Duration::from_millis(200);

/// The programs.
pub(super) struct Programs {
    pub(super) clearway: PathBuf,
    /// That of the clients.
    pub(super) fleet: PathBuf,
    pub(super) quic_go: PathBuf,
}

/// That of all servers.
pub(super) struct Certificate {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

/// Runs a scenario from nothing to nothing. What its programs need and say is written to `folder`.
pub(super) fn run(scenario: Scenario, programs: &Programs, folder: &Path) -> Result<Row, String> {
    let began = Instant::now();
    create(folder)?;
    let facts = Stage::set(scenario.stack, programs, folder)?.play(scenario.event)?;
    Ok(Row::new(scenario, &facts, began.elapsed().as_secs_f64()))
}

/// Everything that runs. What is first here ends first.
struct Stage<'a> {
    fleet: Fleet,
    balancer: Program,
    /// What the balancer is told.
    listed: Vec<Listed>,
    /// By their numbers; `None` if it was killed.
    servers: Vec<Option<Program>>,
    site: Site,
    equipment: Equipment<'a>,
}

/// What is needed to start something.
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
        let started = (&*self.programs.clearway, &arguments[..]);
        Program::start(&name, &site.balancers[number], started, "listening", &log)
    }

    fn fleet(&self, site: &Site) -> Result<Fleet, String> {
        let (programs, certificate) = (self.programs, text(&self.certificate.certificate));
        let has_nat = self.stack == Stack::QuicGoOpaque;
        Fleet::start(&programs.fleet, site, certificate, has_nat, &self.folder.join("fleet.log"))
    }

    /// The file that balancers read.
    fn backends(&self) -> PathBuf {
        self.folder.join("backends.toml")
    }

    fn list(&self, servers: &[Listed]) -> Result<(), String> {
        write(&self.backends(), servers::backends(self.stack, servers))
    }
}

impl<'a> Stage<'a> {
    /// Starts servers, a balancer and clients, which download from then on.
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
        Ok(Self { fleet, balancer, listed, servers, site, equipment })
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
        Ok(Facts {
            members,
            counts: self.counts()?,
            unfinished: self.fleet.unfinished_openings,
            openings: self.fleet.openings,
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
        let (server, before) = (busiest(&report)?, self.counts()?);
        // Dropping it is that.
        self.servers[number_of(&server)?] = None;
        Ok(Happened::Killed { at: report.now, server, before })
    }

    fn add(&mut self) -> Result<Happened, String> {
        let before = self.fleet.probe()?;
        let number = self.servers.len();
        self.servers.push(Some(self.equipment.server(number, &self.site)?));
        self.listed.push(Listed { number, drains: false });
        self.list()?;
        let server = NAMES[number].to_owned();
        // If it gets none, the verdict says so.
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
        Ok(Happened::Added { server, servers: self.servers.len(), before, after })
    }

    fn restart(&mut self) -> Result<Happened, String> {
        let (at, began) = (self.fleet.report()?.now, Instant::now());
        self.balancer.stop()?;
        pause(AWAY)?;
        self.balancer = self.equipment.balancer(0, &self.site)?;
        Ok(Happened::Restarted { at, back: at + began.elapsed().as_secs_f64() })
    }

    fn replace(&mut self) -> Result<Happened, String> {
        let second = self.equipment.balancer(1, &self.site)?;
        self.site.send_to(1).map_err(network)?;
        pause(BOTH)?;
        // The first has nothing left to do.
        std::mem::replace(&mut self.balancer, second).stop()?;
        Ok(Happened::Replaced)
    }

    /// Writes the file anew, and lets the balancer read it.
    fn list(&self) -> Result<(), String> {
        self.equipment.list(&self.listed)?;
        self.balancer.signal(Signal::HUP)
    }

    /// What the servers have counted.
    fn counts(&self) -> Result<Counts, String> {
        let living = (0..).zip(&self.servers).filter(|(_, server)| server.is_some());
        let counts = living.map(|(number, _)| {
            let metrics = self.site.metrics(number);
            let metrics = metrics.map_err(|error| format!("the metrics of a server: {error}"))?;
            Counts::read(self.equipment.stack, &metrics)
        });
        counts.sum()
    }
}

/// The server that has the most connections.
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
