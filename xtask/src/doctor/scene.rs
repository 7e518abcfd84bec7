//! A fault in progress: hosts, readers, senders and changed settings, all of which end on drop.

use std::io::{self, Write};
use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use clearway_namespaces::Namespace;
use rustix::net::{AddressFamily, SocketType, socket};
use rustix::process::Signal;

use super::host::{Group, Setting};
use super::packet::Damage;
use super::reader::Reader;
use super::sender::{Load, Pace, Sender, datagrams, packets};
use super::site::{Place, SENDER, Site};
use crate::program::Program;
use crate::waiting::wait_until;

/// The port that readers listen on.
pub(super) const PORT: u16 = 4433;
/// The source port of damaged packets, which no socket sends.
const HAND: u16 = 4000;
/// Each sender must have sent for 1/`BEFORE` seconds before the doctor starts.
const BEFORE: u64 = 5;
/// Time limit for the senders to have sent for that long.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The unprivileged user that owns the readers, and that runs the doctor if it does not run as
/// root.
pub(super) const USER: &str = "65534";

/// The paths of the programs to start.
pub(super) struct Programs {
    pub(super) clearway: PathBuf,
    /// The path of this program.
    pub(super) itself: PathBuf,
}

/// The hosts, and everything that runs on them. Fields are dropped in this order.
pub(super) struct Scene<'a> {
    senders: Vec<(Sender, u64)>,
    loads: Vec<Load>,
    readers: Vec<Program>,
    groups: Vec<Group>,
    settings: Vec<Setting>,
    descriptors: Vec<OwnedFd>,
    pub(super) site: Site,
    programs: &'a Programs,
    log: &'a Path,
}

impl<'a> Scene<'a> {
    pub(super) fn new(site: Site, programs: &'a Programs, log: &'a Path) -> Self {
        let (senders, loads, readers) = (Vec::new(), Vec::new(), Vec::new());
        let (groups, settings, descriptors) = (Vec::new(), Vec::new(), Vec::new());
        Self { senders, loads, readers, groups, settings, descriptors, site, programs, log }
    }

    /// Returns the address that readers listen on.
    pub(super) fn target(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.site.address, PORT)
    }

    /// Starts a reader on the receiver, and returns its index.
    pub(super) fn read(&mut self, reader: &Reader) -> Result<usize, String> {
        self.read_at(Place::Receiver, reader, &[])
    }

    /// Starts a reader on a host through another program, such as `nice`, and returns the reader's
    /// index.
    pub(super) fn read_at(
        &mut self,
        place: Place,
        reader: &Reader,
        before: &[&str],
    ) -> Result<usize, String> {
        let program = self.programs.itself.to_string_lossy().into_owned();
        let words = reader.arguments();
        let mut all = vec!["--reuid", USER, "--regid", USER, "--clear-groups"];
        all.extend(before);
        all.push(&program);
        all.extend(words.iter().map(String::as_str));
        let host = self.site.at(place).ok_or("there is no router")?;
        let setpriv = (Path::new("setpriv"), &all[..]);
        let started = Program::start("the reader", host, setpriv, "listening", self.log)?;
        self.readers.push(started);
        Ok(self.readers.len().saturating_sub(1))
    }

    /// Writes a file, and returns its path.
    pub(super) fn file(&self, name: &str, content: &[u8]) -> Result<String, String> {
        let path = self.log.with_file_name(name);
        std::fs::write(&path, content).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path.to_string_lossy().into_owned())
    }

    /// Returns what the engine inside the first reader finds in this many seconds.
    pub(super) fn ask(&mut self, seconds: &str) -> Result<String, String> {
        let reader = self.readers.first_mut().ok_or("there is no reader")?;
        reader.say(seconds)?;
        reader.next_line(TIMEOUT)
    }

    /// Stops a reader with a signal, as a debugger does.
    pub(super) fn stop(&self, reader: usize) -> Result<(), String> {
        self.readers[reader].signal(Signal::STOP)
    }

    /// Limits a reader's CPU time to `quota` of every 100,000 microseconds.
    pub(super) fn throttle(&mut self, reader: usize, quota: u32) -> Result<(), String> {
        let process = self.readers[reader].process();
        let group = Group::create(&format!("clearway-doctor-test-{process}"), quota)?;
        group.add(process)?;
        self.groups.push(group);
        Ok(())
    }

    /// Keeps a CPU busy until the scene ends.
    pub(super) fn keep_busy(&mut self, cpu: usize, threads: usize) {
        self.loads.push(Load::start(cpu, threads));
    }

    /// Keeps a changed setting of the host until the scene ends.
    pub(super) fn keep(&mut self, setting: Setting) {
        self.settings.push(setting);
    }

    /// Opens an AF_XDP socket on the receiver, without binding it.
    pub(super) fn open_xdp_socket(&mut self) -> Result<(), String> {
        let open = || socket(AddressFamily::XDP, SocketType::RAW, None);
        let opened = self.site.receiver.run(open).map_err(|error| error.to_string())?;
        self.descriptors.push(opened.map_err(|error| format!("an AF_XDP socket: {error}"))?);
        Ok(())
    }

    /// Sends datagrams to an address from the sender.
    pub(super) fn send_to(
        &mut self,
        to: SocketAddrV4,
        size: usize,
        pace: Pace,
    ) -> Result<(), String> {
        let send = datagrams(&self.site.sender, to, size).map_err(|error| error.to_string())?;
        self.send(pace, None, send);
        Ok(())
    }

    /// Sends damaged packets from the sender's own address.
    pub(super) fn send_damaged(&mut self, damage: Damage, pace: Pace) -> Result<(), String> {
        let ends = (SocketAddrV4::new(SENDER, HAND), self.target());
        let send = packets(&self.site.sender, ends, 100, damage).map_err(|it| it.to_string())?;
        self.send(pace, None, send);
        Ok(())
    }

    /// Calls a function for each packet to send.
    pub(super) fn send(
        &mut self,
        pace: Pace,
        cpu: Option<usize>,
        send: impl FnMut(u64) -> io::Result<()> + Send + 'static,
    ) {
        let enough = u64::from(pace.rate).div_ceil(BEFORE);
        self.senders.push((Sender::start(pace, cpu, send), enough));
    }

    /// Waits until each sender has sent for a while.
    pub(super) fn wait_for_senders(&self) -> Result<(), String> {
        let have_sent = || self.senders.iter().all(|(sender, enough)| sender.tried() >= *enough);
        match wait_until(TIMEOUT, || Ok(have_sent()))? {
            true => Ok(()),
            false => Err("a sender did not send its packets in time".to_owned()),
        }
    }
}

/// Runs a command on a host.
pub(super) fn run(host: &Namespace, words: &[&str]) -> Result<(), String> {
    let [program, arguments @ ..] = words else { return Ok(()) };
    let output = host
        .run(|| Command::new(program).args(arguments).output())
        .and_then(|outcome| outcome)
        .map_err(|error| format!("{program}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(format!("{}: {}", words.join(" "), said.trim()))
        }
    }
}

/// Adds nftables rules on a host.
pub(super) fn filter(host: &Namespace, rules: &str) -> Result<(), String> {
    let failed = |error: io::Error| format!("nft: {error} (it is in the package nftables)");
    let start = || {
        let mut command = Command::new("nft");
        command.args(["-f", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped());
        command.spawn()
    };
    let mut child = host.run(start).and_then(|child| child).map_err(failed)?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(rules.as_bytes()).map_err(failed)?;
    }
    let output = child.wait_with_output().map_err(failed)?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("nft: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// Writes a setting below `/proc/sys/net` of a host.
pub(crate) fn set(host: &Namespace, name: &str, value: &str) -> Result<(), String> {
    let path = format!("/proc/sys/net/{name}");
    let written = host.run(|| std::fs::write(&path, value)).and_then(|outcome| outcome);
    written.map_err(|error| format!("{path}: {error}"))
}
