//! The subject of a verdict: the host, a process or port, or a program that examines itself.

use std::collections::BTreeSet;

use crate::change::rise;
use crate::examination::Examination;
use crate::floor::Traffic;
use crate::stages::application;
use crate::{Application, Cause, Finding, Snapshot, Socket, SocketKey, Stage, Unseen};

/// The subject of a verdict. Losses [elsewhere](crate::Verdict::elsewhere) are listed, but never
/// determine the outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Scope {
    /// The network namespace, with all its losses.
    #[default]
    Host,
    /// The sockets of a process, those on a port, or those that match both. Losses at stages before
    /// the sockets may affect them, and count as well. Stray packets count only if no socket is
    /// bound to the port.
    Sockets {
        /// The process ID.
        process: Option<u32>,
        /// The local port.
        port: Option<u16>,
    },
    /// A process that examines itself: its own sockets and its [own counters](crate::Application).
    /// Counters of the whole namespace, which include losses of other processes, are ignored.
    Own {
        /// The process ID.
        process: u32,
    },
}

/// Findings in a scope, and findings outside of it.
pub(crate) struct Split {
    pub(crate) concerned: Vec<Finding>,
    pub(crate) elsewhere: Vec<Finding>,
}

impl Scope {
    /// Divides the findings into those in this scope and those outside of it.
    pub(crate) fn split(self, examination: &Examination<'_>, findings: Vec<Finding>) -> Split {
        match self {
            Self::Host => Split { concerned: findings, elsewhere: Vec::new() },
            Self::Sockets { process, port } => {
                let is_closed = self.has_closed_port(&examination.span.snapshots);
                let concerns = |it: &Finding| match it.cause.queue() {
                    Some(queue) => {
                        let reader = queue.process.as_ref().map(|(process, _)| *process);
                        process.is_none_or(|process| {
                            may_be_of(examination, process, (&queue.local, reader))
                        }) && port.is_none_or(|port| port_of(&queue.local) == Some(port))
                    }
                    None => !it.cause.is_stray() || is_closed,
                };
                let (concerned, elsewhere) = findings.into_iter().partition(concerns);
                Split { concerned, elsewhere }
            }
            Self::Own { process } => own(examination, process, findings),
        }
    }

    /// Returns the traffic that loss shares are relative to.
    pub(crate) fn traffic(self, examination: &Examination<'_>) -> Traffic {
        let traffic = Traffic::of(&examination.span);
        let Self::Own { process } = self else { return traffic };
        match told(examination, process, |it| it.received) {
            Some(received) => {
                let lost = drops(examination, &own_sockets(examination, process));
                traffic.of_process(received, lost)
            }
            None => traffic,
        }
    }

    /// Returns whether the scope is a port to which no socket was bound.
    pub(crate) fn has_closed_port(self, snapshots: &[&Snapshot]) -> bool {
        let Self::Sockets { process: None, port: Some(port) } = self else { return false };
        let mut sockets = snapshots.iter().filter_map(|it| it.sockets.seen()).flatten();
        !sockets.any(|(_, socket)| port_of(&socket.local) == Some(port))
    }

    /// Returns whether a part that could not be read matters in this scope. For a process that
    /// examines itself, losses of other processes before its sockets do not matter.
    pub(crate) fn needs(self, unseen: &Unseen) -> bool {
        match self {
            Self::Host | Self::Sockets { .. } => true,
            Self::Own { .. } => matches!(unseen.stage, Stage::Socket | Stage::Application),
        }
    }

    /// Returns whether a process that examines itself does not see its own sockets, in which case
    /// losses may be hidden there.
    pub(crate) fn is_blind(self, examination: &Examination<'_>) -> bool {
        let Self::Own { process } = self else { return false };
        own_sockets(examination, process).is_empty()
    }
}

/// Returns the port of a socket's address.
fn port_of(local: &str) -> Option<u16> {
    local.rsplit_once(':').and_then(|(_, port)| port.parse().ok())
}

fn sockets_at<'a>(
    examination: &Examination<'a>,
    local: &str,
) -> impl Iterator<Item = &'a Socket> + use<'a> {
    let seen = examination.span.snapshots.iter().filter_map(|it| it.sockets.seen());
    let at: Vec<_> = seen.flat_map(|it| it.values()).filter(|it| it.local == local).collect();
    at.into_iter()
}

/// Returns whether a socket may belong to a process. If the process that reads the socket is
/// unknown, this depends on the owners of the sockets at its address; a socket without known owners
/// may belong to any process.
fn may_be_of(
    examination: &Examination<'_>,
    process: u32,
    (local, reader): (&str, Option<u32>),
) -> bool {
    match reader {
        Some(reader) => reader == process,
        None => sockets_at(examination, local)
            .any(|it| it.owners.is_empty() || it.owners.contains(&process)),
    }
}

fn own_sockets(examination: &Examination<'_>, process: u32) -> BTreeSet<SocketKey> {
    let seen = examination.span.snapshots.iter().filter_map(|it| it.sockets.seen()).flatten();
    let is_own = |(_, socket): &(&SocketKey, &Socket)| socket.owners.contains(&process);
    seen.filter(is_own).map(|(key, _)| *key).collect()
}

/// Returns how many datagrams these sockets dropped.
fn drops(examination: &Examination<'_>, sockets: &BTreeSet<SocketKey>) -> u64 {
    let of = |key: &SocketKey| {
        rise(&examination.span.values(|it| Some(it.sockets.seen()?.get(key)?.drops)))
    };
    sockets.iter().filter_map(of).map(|it| it.total).fold(0, u64::saturating_add)
}

/// Returns the rise of a counter that the process reports about itself.
fn told(examination: &Examination<'_>, process: u32, get: fn(&Application) -> u64) -> Option<u64> {
    let name = name_of(examination, process)?;
    let readings = examination.span.values(|it| application::application(it, &name).map(get));
    rise(&readings).map(|it| it.total)
}

fn name_of(examination: &Examination<'_>, process: u32) -> Option<String> {
    let mut seen = examination.span.snapshots.iter().filter_map(|it| it.applications.seen());
    let find = |(name, it): (&String, &Application)| (it.process == process).then(|| name.clone());
    seen.find_map(|applications| applications.iter().find_map(find))
}

/// Returns the losses of a process that examines itself. The counters of the namespace show why its
/// sockets dropped datagrams, but not how many: the sockets' own counters set the limit.
fn own(examination: &Examination<'_>, process: u32, findings: Vec<Finding>) -> Split {
    let mut split = Split { concerned: Vec::new(), elsewhere: Vec::new() };
    let mut dropped = drops(examination, &own_sockets(examination, process));
    let mut refused = told(examination, process, |it| it.send_refused).unwrap_or(0);
    let name = name_of(examination, process);
    let (of_sockets, others): (Vec<_>, Vec<_>) =
        findings.into_iter().partition(|it| it.cause.queue().is_some());
    for finding in of_sockets {
        let is_own = finding.cause.queue().is_some_and(|queue| {
            let reader = queue.process.as_ref().map(|(process, _)| *process);
            sockets_at(examination, &queue.local).any(|it| it.owners.contains(&process))
                && reader.is_none_or(|reader| reader == process)
        });
        let lost = if is_own { finding.lost.min(dropped) } else { 0 };
        dropped = dropped.saturating_sub(lost);
        split.put(finding, lost);
    }
    for finding in others {
        let lost = match (&finding.cause, finding.stage) {
            // The sockets' drop counters include these, too.
            (Cause::SocketFilter | Cause::UdpMemory | Cause::BadChecksum, _)
            | (Cause::Other, Stage::Socket) => {
                let lost = finding.lost.min(dropped);
                dropped = dropped.saturating_sub(lost);
                lost
            }
            (_, Stage::Application) if is_of(&finding, name.as_deref()) => finding.lost,
            (Cause::SendBuffer | Cause::QdiscFull, _) => {
                let lost = finding.lost.min(refused);
                refused = refused.saturating_sub(lost);
                lost
            }
            _ => 0,
        };
        split.put(finding, lost);
    }
    split
}

/// Returns whether the finding's evidence comes from the application's own counters.
fn is_of(finding: &Finding, name: Option<&str>) -> bool {
    let prefix = name.map(|name| format!("{name}: "));
    let is_own = |prefix: String| finding.evidence.iter().any(|it| it.counter.starts_with(&prefix));
    prefix.is_some_and(is_own)
}

impl Split {
    /// Assigns `lost` packets of a finding to the scope, and the rest to the findings elsewhere.
    fn put(&mut self, finding: Finding, lost: u64) {
        let rest = finding.lost.saturating_sub(lost);
        for (list, part) in [(&mut self.concerned, lost), (&mut self.elsewhere, rest)] {
            if part > 0 {
                list.push(part_of(&finding, part));
            }
        }
    }
}

fn part_of(finding: &Finding, lost: u64) -> Finding {
    let share = lost as f64 / finding.lost.max(1) as f64;
    Finding { lost, per_second: finding.per_second * share, ..finding.clone() }
}
