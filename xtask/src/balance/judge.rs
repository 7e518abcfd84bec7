//! Checks the results of each scenario against its requirements.

use super::fleet::{Member, Opening, Probes};
use super::strays::Strays;

/// How long the balancer may continue to assign new clients to a drained or dead server, in
/// seconds.
const NOTICING: f64 = 1.0;
/// Maximum duration of an opening, and maximum wait for content, if the event should not be
/// noticeable, in seconds.
const UNNOTICED: f64 = 1.0;
/// Permitted excess over 1/N for the fraction of first flights that move when a server is added.
const TOLERANCE: f64 = 0.02;
/// Minimum fraction of the scheduled migrations that must happen: a connection migrates once a
/// second, but not while there is no balancer.
const LEAST_MOVES: f64 = 0.5;

/// The event that happened, and when, in seconds since the start of the fleet.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Happened {
    /// No event, only the clients' migrations.
    Nothing,
    /// The server with this name gets no new clients from this time on.
    Drained { at: f64, server: String },
    /// The server with this name was killed. The balancer noticed it after `noticed` seconds, if it
    /// did.
    Killed { at: f64, server: String, noticed: Option<f64> },
    /// A server was added; the results are for the first flights of the same clients before and
    /// after. A balancer that `remembers` addresses moves none of the clients: it has to keep
    /// clients on their servers if it cannot read connection IDs (draft-ietf-quic-load-balancers
    /// §4.3.1).
    Added { server: String, servers: usize, before: Probes, after: Probes, remembers: bool },
    /// The balancer was not running between these times, on the fleet's clock. `at` was reported
    /// before the balancer is stopped; `back` is later by the time from that report until the
    /// balancer reports that it is listening. So the interval starts before the balancer stops, and
    /// does not end before it is listening again.
    Restarted { at: f64, back: f64 },
    /// Another balancer has taken over the traffic.
    Replaced,
}

/// The results of a scenario.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Facts {
    pub(super) members: Vec<Member>,
    pub(super) openings: Vec<Opening>,
    /// Number of openings that have not completed.
    pub(super) unfinished: usize,
    /// Stray datagrams at all servers until the end of the scenario, or until the server was
    /// killed.
    pub(super) strays: Strays,
    /// Number of stateless resets sent by all servers that are running at the end.
    pub(super) resets: u64,
    /// The sockets whose buffers overflowed, with the number of datagrams that the kernel dropped.
    pub(super) dropped: Vec<(String, u64)>,
    /// Duration of the clients' migrations, in seconds.
    pub(super) seconds: f64,
    pub(super) happened: Happened,
}

impl Facts {
    /// Returns the number of connections that were opened as probes.
    pub(super) fn probes(&self) -> usize {
        match &self.happened {
            Happened::Added { before, after, .. } => before.len() + after.len(),
            _ => 0,
        }
    }

    /// Returns remarks about the results for the reader.
    pub(super) fn note(&self) -> String {
        let dropped = self.dropped.iter().map(|(place, count)| {
            format!(
                "; sockets of {place} dropped {count} datagrams because their buffers were \
                full"
            )
        });
        std::iter::once(self.note_of_event()).chain(dropped).collect()
    }

    fn note_of_event(&self) -> String {
        match &self.happened {
            Happened::Added { before, after, .. } => {
                format!(
                    "{:.1} % of first flights moved to another server",
                    share_of_moved(before, after) * 100.0
                )
            }
            Happened::Restarted { at, back } => {
                format!("the balancer was down for {:.0} ms", (back - at) * 1000.0)
            }
            Happened::Drained { server, .. } => {
                format!("{} connections were at server {server}", self.count_at(server))
            }
            Happened::Killed { server, noticed, .. } => format!(
                "{} connections were at server {server}; {} of their datagrams reached other \
                 servers; the balancer noticed after {:.0} ms",
                self.count_at(server),
                self.strays.killed_server,
                noticed.unwrap_or(f64::INFINITY) * 1000.0,
            ),
            Happened::Nothing | Happened::Replaced => {
                let moves: u64 = self.members.iter().map(|member| member.moved).sum();
                format!("{moves} migrations")
            }
        }
    }

    /// Returns the violated requirements; empty if there are none.
    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = self.of_connections();
        faults.extend(self.of_openings());
        faults.extend(self.of_strays());
        faults.extend(self.of_event());
        faults
    }

    /// Returns violated requirements for stray datagrams. A server may receive datagrams for
    /// unknown connections only if the connection IDs identify a killed server; it may answer each
    /// with a stateless reset.
    fn of_strays(&self) -> Vec<String> {
        let Strays { misrouted, late, killed_server, unknown_server } = self.strays;
        let answers = self.resets.saturating_sub(killed_server);
        let faults = [
            (misrouted, "datagrams reached a different server than their connection IDs identify"),
            (late, "datagrams reached their server after it had retired their connection IDs"),
            (unknown_server, "stray datagrams have connection IDs that do not identify a server"),
            (answers, "stateless resets"),
        ];
        let faults = faults.into_iter().filter(|(count, _)| *count > 0);
        faults.map(|(count, what)| format!("{count} {what}")).collect()
    }

    /// Returns the number of downloading connections on this server.
    fn count_at(&self, server: &str) -> usize {
        self.members.iter().filter(|member| member.server == server).count()
    }

    /// Returns whether the server of a connection was killed, so that the connection may be lost.
    fn may_be_lost(&self, member: &Member) -> bool {
        matches!(&self.happened, Happened::Killed { server, .. } if member.server == *server)
    }

    fn of_connections(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let due = (self.seconds * LEAST_MOVES).floor() as u64;
        for (number, member) in self.members.iter().enumerate() {
            let mut fault = |what: String| {
                faults.push(format!("connection {number} at server {} {what}", member.server));
            };
            let Member { complete, moved, rotated, .. } = *member;
            if member.is_wrong {
                fault("got wrong bytes".to_owned());
            }
            if self.may_be_lost(member) {
                continue;
            }
            if let Some(failure) = &member.failure {
                fault(format!("was lost: {failure}"));
            } else if complete == 0 {
                fault("did not complete any download".to_owned());
            } else if moved < due || rotated < due {
                fault(format!(
                    "changed its address {moved} times and its connection ID {rotated} \
                    times, not {due} times"
                ));
            }
        }
        faults
    }

    fn of_openings(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.openings.is_empty() {
            faults.push("no connection was opened during the event".to_owned());
        }
        if self.unfinished > 0 {
            faults.push(format!("{} connections neither opened nor failed", self.unfinished));
        }
        for opening in self.openings.iter().filter(|opening| self.must_open(opening)) {
            let at = opening.at;
            if let Some(error) = &opening.error {
                faults.push(format!("a connection was not opened at {at:.1} s: {error}"));
            } else if opening.took > UNNOTICED {
                let took = opening.took;
                faults.push(format!("a connection took {took:.1} s to open at {at:.1} s"));
            }
        }
        faults
    }

    /// Returns whether an opening must succeed. Openings that are in progress when a server is
    /// killed, or start within a second after that, may remain unanswered. So may those in progress
    /// while no balancer is running.
    fn must_open(&self, opening: &Opening) -> bool {
        let Opening { at: from, took, .. } = *opening;
        match self.happened {
            Happened::Killed { at, .. } => from >= at + NOTICING || from + took < at,
            Happened::Restarted { at, back } => from > back || from + took < at,
            _ => true,
        }
    }

    fn of_event(&self) -> Vec<String> {
        let mut faults = Vec::new();
        match &self.happened {
            Happened::Drained { at, server } => {
                faults.extend(self.none_at(server));
                faults.extend(self.new_ones_at(server, at + NOTICING));
            }
            Happened::Killed { at, server, noticed } => {
                if noticed.is_none_or(|noticed| noticed > NOTICING) {
                    faults.push(format!(
                        "the balancer did not notice within {NOTICING} s that server {server} was killed"
                    ));
                }
                faults.extend(self.none_at(server));
                faults.extend(self.new_ones_at(server, at + NOTICING));
                for (number, member) in self.members.iter().enumerate() {
                    if !self.may_be_lost(member) && member.waited > UNNOTICED {
                        let waited = member.waited;
                        faults.push(format!("connection {number} waited for {waited:.1} s"));
                    }
                }
            }
            Happened::Added { server, servers, before, after, remembers } => {
                let unanswered = before.iter().chain(after).filter(|it| it.is_none()).count();
                if unanswered > 0 {
                    faults.push(format!("{unanswered} probes were not answered"));
                }
                let (share, most) =
                    (share_of_moved(before, after), 1.0 / *servers as f64 + TOLERANCE);
                let is_right = match remembers {
                    true => share == 0.0,
                    false => share > 0.0 && share <= most,
                };
                if !is_right {
                    let [share, most] = [share, most].map(|it| it * 100.0);
                    let should = match remembers {
                        true => "none".to_owned(),
                        false => format!("more than 0 and at most {most:.1} %"),
                    };
                    faults.push(format!(
                        "{share:.1} % of first flights moved to another server; \
                            {should} should"
                    ));
                }
                if !self.openings.iter().any(|it| it.server.as_ref() == Some(server)) {
                    faults.push(format!("server {server} did not get any new clients"));
                }
            }
            Happened::Restarted { .. } | Happened::Replaced | Happened::Nothing => {}
        }
        faults
    }

    /// Returns a failure if no connection is on the server that the event affects, since nothing
    /// was tested in that case.
    fn none_at(&self, server: &str) -> Option<String> {
        (self.count_at(server) == 0).then(|| format!("no connection was at server {server}"))
    }

    fn new_ones_at(&self, server: &str, after: f64) -> Option<String> {
        let is_new =
            |opening: &&Opening| opening.at > after && opening.server.as_deref() == Some(server);
        let count = self.openings.iter().filter(is_new).count();
        (count > 0).then(|| format!("{count} new connections went to server {server}"))
    }
}

/// Returns the fraction of the first flights that went to a different server the second time, out
/// of those that were answered both times.
fn share_of_moved(before: &Probes, after: &Probes) -> f64 {
    let both = before
        .iter()
        .zip(after)
        .filter_map(|(first, then)| Some((first.as_ref()?, then.as_ref()?)));
    let both: Vec<_> = both.collect();
    let moved = both.iter().filter(|(first, then)| first != then).count();
    moved as f64 / both.len().max(1) as f64
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
