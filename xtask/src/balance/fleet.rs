//! The clients, which are run by `clearway-bench fleet`.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::site::{CLIENTS, Site, VIRTUAL};
use crate::program::Program;

/// Number of downloading connections.
const CONNECTIONS: &str = "30";
/// Size of each download in bytes, and number of bytes that each connection reads per second. A
/// download takes two seconds.
pub(super) const SIZE: usize = 512 << 10;
const RATE: usize = 256 << 10;
/// Number of additional connections opened per second.
const OPENINGS: &str = "20";
/// Number of connections that a probe opens.
const PROBES: &str = "1000";
/// Time limits for a report, for the final report, and for a probe.
const REPORTING: Duration = Duration::from_secs(5);
const FINISHING: Duration = Duration::from_secs(15);
const PROBING: Duration = Duration::from_secs(40);

/// A downloading connection.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub(super) struct Member {
    /// The name of the connection's server.
    pub(super) server: String,
    /// Number of downloads started.
    pub(super) begun: u64,
    pub(super) complete: u64,
    /// Number of times that the connection changed its address, and its connection ID.
    pub(super) moved: u64,
    pub(super) rotated: u64,
    /// The longest wait for content since the previous report, in seconds.
    pub(super) waited: f64,
    /// Why the connection has stopped downloading.
    pub(super) failure: Option<String>,
    pub(super) is_wrong: bool,
}

/// A connection opened for one small request.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub(super) struct Opening {
    /// When the connection was opened, in seconds since the start of the fleet.
    pub(super) at: f64,
    /// Seconds until the request was answered or failed.
    pub(super) took: f64,
    /// The name of the connection's server, if one answered.
    pub(super) server: Option<String>,
    pub(super) error: Option<String>,
}

/// The results so far. Openings include only those since the previous report.
#[derive(Deserialize)]
pub(super) struct Report {
    /// Seconds since the start of the fleet.
    pub(super) now: f64,
    pub(super) members: Vec<Member>,
    openings: Vec<Opening>,
    unfinished_openings: usize,
}

/// The server that answered each probe; `None` if none did.
pub(super) type Probes = Vec<Option<String>>;

pub(super) struct Fleet {
    program: Program,
    /// All openings up to the last report.
    pub(super) openings: Vec<Opening>,
    /// Number of unfinished openings in the last report.
    pub(super) unfinished_openings: usize,
}

impl Fleet {
    /// Starts the client program, which opens the connections.
    pub(super) fn start(
        program: &Path,
        site: &Site,
        certificate: &str,
        has_nat: bool,
        log: &Path,
    ) -> Result<Self, String> {
        let [size, rate] = [SIZE, RATE].map(|it| it.to_string());
        let mut arguments = vec!["fleet", "--ca", certificate, "--connect", VIRTUAL];
        arguments.extend(["--addresses", CLIENTS, "--size", &size, "--rate", &rate]);
        arguments.extend(["--connections", CONNECTIONS, "--openings", OPENINGS]);
        arguments.extend(["--probes", PROBES]);
        arguments.extend(has_nat.then_some("--nat"));
        let started = (program, &arguments[..]);
        let program = Program::start("the fleet", &site.clients, started, "open", log)?;
        Ok(Self { program, openings: Vec::new(), unfinished_openings: 0 })
    }

    pub(super) fn report(&mut self) -> Result<Report, String> {
        let report = self.ask("report", REPORTING)?;
        self.take(report)
    }

    /// Waits until all pending operations are complete, and returns the last report.
    pub(super) fn finish(&mut self) -> Result<Report, String> {
        let report = self.ask("finish", FINISHING)?;
        self.take(report)
    }

    pub(super) fn probe(&mut self) -> Result<Probes, String> {
        let mut answer = self.ask("probe", PROBING)?;
        read(answer["probes"].take())
    }

    fn take(&mut self, report: Value) -> Result<Report, String> {
        let mut report: Report = read(report)?;
        self.openings.append(&mut report.openings);
        self.unfinished_openings = report.unfinished_openings;
        Ok(report)
    }

    fn ask(&mut self, command: &str, limit: Duration) -> Result<Value, String> {
        self.program.say(command)?;
        let line = self.program.next_line(limit)?;
        serde_json::from_str(&line).map_err(|error| format!("{line:?}: {error}"))
    }
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|error| {
        format!(
            "the fleet printed an unknown result: \
        {error}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_those_of_the_program() {
        let text = r#"{"now":3.5,"members":[{"server":"a","bytes":5,"begun":2,"complete":1,"moved":3,"not_moved":0,
            "rotated":3,"waited":0.25,"failure":null,"is_wrong":false}],"openings":[{"at":1.0,"took":0.5,"server":"b"},
            {"at":2.0,"took":5.0,"error":"no answer"}],"unfinished_openings":4}"#;
        let report: Report = read(serde_json::from_str(text).unwrap()).unwrap();
        assert_eq!((report.now, report.unfinished_openings), (3.5, 4));
        let [member] = &report.members[..] else { panic!() };
        assert_eq!((&member.server[..], member.moved, &member.failure), ("a", 3, &None));
        let [first, second] = &report.openings[..] else { panic!() };
        assert_eq!((first.server.as_deref(), first.error.as_deref()), (Some("b"), None));
        assert_eq!((second.server.as_deref(), second.error.as_deref()), (None, Some("no answer")));
        assert!(read::<Report>(serde_json::json!({"now": 1.0})).is_err());
    }
}
