//! A proxy between clients and servers, observed by the doctor.
//!
//! ```text
//! clients and servers   10.0.0.1
//! proxy and doctor      10.0.0.2, another namespace
//! ```

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use clearway_doctor::{Certainty, Outcome, Verdict};
use serde_json::Value;

use super::child_process::{ChildProcess, Ended};
use super::picture::grouped;
use super::samples::{INTERVAL, Sampler, Samples};
use crate::doctor::judge;
use crate::doctor::scene::set;
use crate::doctor::site::{NEIGHBOUR, SENDER, Site};
use crate::program::Program;
use crate::waiting::pause;

/// The factor by which the larger receive buffer exceeds the default, if the host allows it.
pub(super) const LARGER: u64 = 40;
/// The port of the proxy.
const PORT: u16 = 4433;
/// The clients' rate in datagrams per second, and the duration in seconds.
const RATE: u32 = 30_000;
const SECONDS: u64 = 11;
/// Time that the proxy spends on each datagram in microseconds. It limits the proxy to 25,000
/// datagrams per second.
const WORK_US: u32 = 40;
/// The servers' QUIC-LB server IDs.
const SERVER_IDS: [&str; 4] = ["0001", "0002", "0003", "0004"];
const NONCE_LENGTH: u32 = 6;
/// Time limit of the programs, in addition to the sending time.
const TIMEOUT: Duration = Duration::from_secs(6);
/// Time for buffered datagrams to reach the servers.
const REST: Duration = Duration::from_millis(500);
/// The one-second interval for which the counters are reported.
const SECOND: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(3)];

/// The program that forwards the datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Subject {
    /// A single-threaded loop, with a receive buffer of this many bytes.
    Loop(u64),
    Balancer,
}

impl Subject {
    pub(super) fn title(self) -> String {
        match self {
            Self::Loop(buffer) => {
                format!(
                    "One thread, {WORK_US} µs for a datagram, receive buffer of {} bytes",
                    grouped(buffer)
                )
            }
            Self::Balancer => "clearway balance".to_owned(),
        }
    }
}

/// The paths of the programs, and the folder for their files.
pub(super) struct Programs {
    pub(super) clearway: PathBuf,
    pub(super) bench: PathBuf,
    pub(super) folder: PathBuf,
}

/// The results of one proxy.
pub(super) struct Play {
    pub(super) subject: Subject,
    /// The commands that started the proxy, the clients and the doctor.
    commands: [String; 3],
    pub(super) samples: Samples,
    /// Number of datagrams that were sent, and number that arrived at the servers.
    sent: u64,
    received: u64,
    /// The lines that the proxy printed when it exited.
    final_output: Vec<String>,
    doctor: Ended,
    /// The time of the doctor's verdict, measured from the first arriving datagram.
    pub(super) judged: Duration,
    pub(super) verdict: Verdict,
}

/// Describes the traffic that the proxy receives.
pub(super) fn traffic() -> String {
    format!(
        "{RATE} datagrams of 1200 bytes arrive per second for {SECONDS} s, from {SENDER} to \
         {NEIGHBOUR}:{PORT}, and are forwarded to servers at {SENDER}"
    )
}

/// Sends datagrams to a proxy until the doctor has its verdict. `name` distinguishes the files of
/// this run from those of other runs.
pub(super) fn play(subject: Subject, programs: &Programs, name: &str) -> Result<Play, String> {
    let file = |ending: &str| programs.folder.join(format!("{name}.{ending}"));
    let site = Site::direct().map_err(|error| format!("the network: {error}"))?;
    for host in [&site.sender, &site.receiver] {
        // Otherwise the host's own multicast packets would be in the counters for the first
        // seconds, which are not part of the experiment.
        set(host, "ipv6/conf/all/disable_ipv6", "1")?;
    }
    let (log, saved, backends) = (file("log"), file("jsonl"), file("toml"));
    let address = SENDER.to_string();
    let servers = ["forward", "sink", "--address", &address, "--servers", "4"];
    let servers = (programs.bench.as_path(), &servers[..]);
    let mut servers = Program::start("the servers", &site.sender, servers, "listening", &log)?;
    let addresses = servers.said().trim_start_matches("listening ").to_owned();
    let (program, arguments) = proxy(subject, programs, &addresses, &backends)?;
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let started = (program, &words[..]);
    let mut proxy = Program::start("the proxy", &site.receiver, started, "listening", &log)?;
    let sampler = Sampler::start(&site.receiver, PORT);
    let source = source();
    let source_words: Vec<&str> = source.iter().map(String::as_str).collect();
    let source_ended =
        ChildProcess::start("the clients", &site.sender, &programs.bench, &source_words)?;
    let (port, path) = (PORT.to_string(), text(&saved));
    let look = ["doctor", "--port", &port];
    let save = [&look[..], &["--save", path]].concat();
    let doctor = ChildProcess::start("the doctor", &site.receiver, &programs.clearway, &save)?;
    let limit = Duration::from_secs(SECONDS) + TIMEOUT;
    let doctor = doctor.finish(limit)?;
    let sent = counted(&source_ended.finish(limit)?.said[0], "sent")?;
    pause(REST)?;
    servers.say("")?;
    let received = counted(&servers.next_line(TIMEOUT)?, "received")?;
    let began = sampler.began();
    let samples = sampler.finish()?;
    let final_output = final_output(subject, &mut proxy)?;
    let verdict = verdict(programs, &[&look[..], &["--json", "--from", path]].concat(), &doctor)?;
    let commands = [
        shown(program, &words),
        shown(&programs.bench, &source_words),
        shown(&programs.clearway, &look),
    ];
    let judged = since(doctor.at, began + samples.begin());
    let play =
        Play { subject, commands, samples, sent, received, final_output, doctor, judged, verdict };
    Ok(play)
}

fn since(later: Instant, earlier: Instant) -> Duration {
    later.saturating_duration_since(earlier)
}

/// Returns the program and the arguments of a proxy.
fn proxy<'a>(
    subject: Subject,
    programs: &'a Programs,
    servers: &str,
    backends: &Path,
) -> Result<(&'a Path, Vec<String>), String> {
    let listen = format!("{NEIGHBOUR}:{PORT}");
    match subject {
        Subject::Loop(buffer) => {
            let (work, buffer) = (WORK_US.to_string(), buffer.to_string());
            let arguments = ["forward", "loop", "--listen", &listen, "--servers", servers];
            let more = ["--work-us", &work, "--receive-buffer", &buffer];
            Ok((&programs.bench, owned(&[&arguments[..], &more].concat())))
        }
        Subject::Balancer => {
            let failed = |error| format!("{}: {error}", backends.display());
            std::fs::write(backends, settings(servers)).map_err(failed)?;
            let arguments = ["balance", "--listen", &listen, "--backends", text(backends)];
            Ok((&programs.clearway, owned(&arguments)))
        }
    }
}

/// Returns the content of the balancer's `--backends` file. Health checks are off, because the
/// servers only count datagrams.
fn settings(servers: &str) -> String {
    let length = SERVER_IDS[0].len() / 2;
    let mut file = format!(
        "[[config]]\nid = 0\nserver-id-length = {length}\nnonce-length = {NONCE_LENGTH}\n\n[health]\noff = true\n"
    );
    for (id, address) in SERVER_IDS.iter().zip(servers.split(',')) {
        file += &format!(
            "\n[[server]]\nname = \"server-{id}\"\naddress = \"{address}\"\nserver-id = \"{id}\"\n"
        );
    }
    file
}

fn source() -> Vec<String> {
    let (connect, from) = (format!("{NEIGHBOUR}:{PORT}"), SENDER.to_string());
    let (ids, rate, seconds) = (SERVER_IDS.join(","), RATE.to_string(), SECONDS.to_string());
    let arguments = ["forward", "source", "--connect", &connect, "--from", &from];
    let more = ["--server-ids", &ids, "--batch", "1", "--rate", &rate, "--seconds", &seconds];
    owned(&[&arguments[..], &more].concat())
}

/// Stops the proxy and returns its last lines. The balancer prints its statistics when it stops.
fn final_output(subject: Subject, proxy: &mut Program) -> Result<Vec<String>, String> {
    if subject != Subject::Balancer {
        return Ok(Vec::new());
    }
    proxy.stop()?;
    let mut lines = Vec::new();
    while let Ok(line) = proxy.next_line(TIMEOUT) {
        lines.push(line);
    }
    Ok(lines)
}

/// Recomputes the doctor's verdict from the saved snapshots.
fn verdict(programs: &Programs, again: &[&str], doctor: &Ended) -> Result<Verdict, String> {
    let failed = |why: &str| format!("the doctor: {why}: {}", doctor.said[1].trim());
    if !matches!(doctor.status, Some(0..=2)) {
        return Err(failed("the command failed"));
    }
    let mut command = Command::new(&programs.clearway);
    let output = command.args(again).output().map_err(|error| failed(&error.to_string()))?;
    judge::read(&String::from_utf8_lossy(&output.stdout))
}

/// Returns a number from a benchmark program's output.
fn counted(line: &str, name: &str) -> Result<u64, String> {
    let value: Value =
        serde_json::from_str(line.trim()).map_err(|error| format!("{name}: {error}: {line}"))?;
    value[name].as_u64().ok_or_else(|| format!("{name} is missing: {line}"))
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}

/// Returns a command as a user would type it, with file names instead of full paths.
fn shown(program: &Path, arguments: &[&str]) -> String {
    let bare = |word: &str| word.rsplit('/').next().unwrap_or(word).to_owned();
    let mut words = vec![bare(text(program))];
    words.extend(
        arguments
            .iter()
            .map(|word| if word.starts_with('/') { bare(word) } else { (*word).to_owned() }),
    );
    words.join(" ")
}

impl Play {
    /// Describes the results for the reader.
    pub(super) fn story(&self) -> String {
        let [proxy, clients, doctor] = &self.commands;
        let counters = self.samples.rose(SECOND[0], SECOND[1]);
        let counters: Vec<_> =
            counters.iter().map(|(name, rise)| format!("    {name:<20} {rise:>8}")).collect();
        let (lost, every) = (self.samples.lost(), INTERVAL.as_millis());
        let first = self.samples.first_lost().map_or_else(
            || "no datagram was lost at the proxy's socket".to_owned(),
            |after| {
                format!(
                    "the first datagram was lost {} ms after the first one arrived (checked every \
                     {every} ms)",
                    after.as_millis()
                )
            },
        );
        let final_output: String =
            self.final_output.iter().map(|line| format!("    {line}\n")).collect();
        let status = self.doctor.status.map_or_else(String::new, |status| status.to_string());
        let [verdict, messages] = &self.doctor.said;
        // The doctor first prints how long it will observe.
        let (begin, end) = messages.split_once('\n').unwrap_or(("", messages));
        let said = begin.lines().chain(verdict.lines()).chain(end.lines());
        let said: String =
            said.map(|line| format!("    {line}\n").replace("    \n", "\n")).collect();
        format!(
            "{title}\n\n    {proxy}\n    {clients}\n\nThe UDP counters in the third \
             second:\n\n{counters}\n\n{first}; sent: {sent}, lost at the proxy's socket: {lost}, \
             received by the servers: {received}\n{final_output}\n    {doctor}\n\n{said}\nexit \
             status {status}, {judged:.1} s after the first datagram arrived\n",
            title = self.subject.title(),
            counters = counters.join("\n"),
            sent = self.sent,
            received = self.received,
            judged = self.judged.as_secs_f64(),
        )
    }

    /// Returns the verdict in a few words.
    pub(super) fn verdict_in_short(&self) -> String {
        match (self.verdict.outcome, self.verdict.findings.first()) {
            (Outcome::Loss, Some(finding)) => {
                let sure = match finding.certainty {
                    Certainty::Certain => "certain",
                    Certainty::Possible => "possible",
                };
                let cause = finding.cause.name().replace('_', " ");
                format!("{cause}, at the {} ({sure})", finding.stage.title())
            }
            (Outcome::NoLoss | Outcome::Stray, _) => "no loss".to_owned(),
            _ => "unknown".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_shown_as_they_are_typed() {
        let program = Path::new("/some/where/clearway");
        let shown =
            shown(program, &["balance", "--backends", "/a/1.toml", "--listen", "10.0.0.2:4433"]);
        assert_eq!(shown, "clearway balance --backends 1.toml --listen 10.0.0.2:4433");
    }

    #[test]
    fn what_programs_count_is_read() {
        assert_eq!(counted("{\"sent\":5,\"seconds\":1.0}\n", "sent"), Ok(5));
        assert!(counted("{}", "sent").is_err() && counted("", "sent").is_err());
    }

    #[test]
    fn each_server_has_its_id() {
        let file: toml::Table =
            settings("10.0.0.1:1,10.0.0.1:2,10.0.0.1:3,10.0.0.1:4").parse().unwrap();
        let servers = file["server"].as_array().unwrap();
        let ids: Vec<_> = servers.iter().map(|it| it["server-id"].as_str().unwrap()).collect();
        assert_eq!(ids, SERVER_IDS);
    }
}
