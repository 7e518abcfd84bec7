//! Minimum loss that affects a verdict: every host on the Internet receives a few packets that it
//! rejects.

use std::collections::BTreeMap;

use crate::span::{Span, Table};
use crate::{Cause, Finding, Stage, Starvation, change};

/// A share of the arrivals and a number of packets per second. Losses must reach both.
#[derive(Clone, Copy, Debug)]
struct Floor {
    share: f64,
    per_second: f64,
}

/// Minimum for packets that are dropped for lack of buffer space or CPU time.
const LOST: Floor = Floor { share: 0.001, per_second: 1.0 };
/// Minimum for packets that are rejected, which any sender can cause.
const REFUSED: Floor = Floor { share: 0.1, per_second: 10.0 };

impl Floor {
    fn is_reached(self, lost: u64, seconds: f64, share: f64) -> bool {
        // A few packets within a moment are not a rate.
        lost as f64 / seconds.max(1.0) >= self.per_second && share >= self.share
    }
}

/// Neighboring stages that are reached by the same packets, so that their losses can be added up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Level {
    Ip,
    Udp,
    SendSocket,
    SendIp,
}

impl Level {
    fn of(stage: Stage) -> Self {
        match stage {
            Stage::Device
            | Stage::Xdp
            | Stage::Softnet
            | Stage::Ip
            | Stage::Netfilter
            | Stage::Conntrack => Self::Ip,
            Stage::Udp | Stage::Socket | Stage::Application => Self::Udp,
            Stage::SendSocket => Self::SendSocket,
            Stage::SendIp | Stage::SendQdisc | Stage::SendDevice => Self::SendIp,
        }
    }
}

/// Number of packets that reached the stages between the first and the last snapshot.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub(crate) struct Traffic {
    seconds: f64,
    ip: u64,
    udp: u64,
    send_udp: u64,
    send_ip: u64,
}

impl Traffic {
    /// Returns the traffic as counted by the protocols.
    pub(crate) fn of(span: &Span<'_>) -> Self {
        let sum = |counters: &[(Table, &str)]| {
            let rise = |(table, name): &(Table, &str)| change::rise(&span.protocol(*table, name));
            let rises = counters.iter().filter_map(rise).map(|rise| rise.total);
            rises.fold(0, u64::saturating_add)
        };
        Self {
            seconds: span.seconds,
            ip: sum(&[(Table::Ip, "InReceives"), (Table::Ipv6, "Ip6InReceives")]),
            udp: sum(&[
                (Table::Udp, "InDatagrams"),
                (Table::Udp, "InErrors"),
                (Table::Udp, "NoPorts"),
                (Table::Ipv6, "Udp6InDatagrams"),
                (Table::Ipv6, "Udp6InErrors"),
                (Table::Ipv6, "Udp6NoPorts"),
            ]),
            send_udp: sum(&[(Table::Udp, "OutDatagrams"), (Table::Ipv6, "Udp6OutDatagrams")]),
            send_ip: sum(&[
                (Table::Ip, "OutRequests"),
                (Table::Ip, "ForwDatagrams"),
                (Table::Ipv6, "Ip6OutRequests"),
                (Table::Ipv6, "Ip6OutForwDatagrams"),
            ]),
        }
    }

    /// Returns the traffic of a process that received this many datagrams, and lost more at its own
    /// sockets.
    pub(crate) fn of_process(self, received: u64, lost: u64) -> Self {
        Self { udp: received.saturating_add(lost), ..self }
    }

    /// Returns how many packets reached the layer of `stage`, which dropped `lost` of them. Some
    /// receive counters exclude dropped packets, so these are added.
    fn total(&self, stage: Stage, lost: u64) -> u64 {
        match Level::of(stage) {
            // Packets that were lost at a device never reached IP.
            Level::Ip => self.ip.saturating_add(if stage < Stage::Ip { lost } else { 0 }).max(lost),
            Level::Udp => self.udp.max(lost),
            Level::SendSocket => self.send_udp.saturating_add(lost),
            Level::SendIp => self.send_ip.saturating_add(lost),
        }
    }

    fn share(&self, stage: Stage, lost: u64) -> f64 {
        match self.total(stage, lost) {
            0 => 0.0,
            total => lost as f64 / total as f64,
        }
    }

    /// Returns whether this many packets, which may have been lost at a stage, are too few to
    /// affect a verdict. From the IP stage on, the floor for rejected packets applies.
    pub(crate) fn is_little(&self, stage: Stage, packets: u64) -> bool {
        let floor = if stage < Stage::Ip { LOST } else { REFUSED };
        !floor.is_reached(packets, self.seconds, self.share(stage, packets))
    }
}

/// Sets each finding's share, and whether it is large enough to determine the verdict.
pub(crate) fn weigh(findings: &mut [Finding], traffic: &Traffic) {
    let seconds = traffic.seconds;
    let mut sums: BTreeMap<Kind, u64> = BTreeMap::new();
    for finding in findings.iter() {
        let sum = sums.entry(kind(finding)).or_default();
        *sum = sum.saturating_add(finding.lost);
    }
    for finding in findings {
        let sum = sums.get(&kind(finding)).copied().unwrap_or(finding.lost);
        let floor = if finding.cause.is_refusal() { REFUSED } else { LOST };
        let of_level = traffic.share(finding.stage, finding.lost);
        let own = own_share(finding, seconds).unwrap_or(0.0);
        finding.share = Some(of_level.max(own));
        finding.is_above_floor = floor.is_reached(sum, seconds, traffic.share(finding.stage, sum))
            || floor.is_reached(finding.lost, seconds, own);
    }
}

/// Key for adding up losses: the level, and how packets are lost. A consequence is counted together
/// with its cause, and stray packets are not counted as losses.
type Kind = (Level, bool, bool, Option<Stage>);

fn kind(finding: &Finding) -> Kind {
    let Finding { stage, cause, consequence_of, .. } = finding;
    (Level::of(*stage), cause.is_refusal(), cause.is_stray(), *consequence_of)
}

/// Returns the share of arrivals that were lost at the finding's own socket, if it was measured.
/// For a stopped reader, which reads nothing, the share is 1.
fn own_share(finding: &Finding, seconds: f64) -> Option<f64> {
    if matches!(finding.cause, Cause::Starved(_, Starvation::Stopped)) {
        return Some(1.0);
    }
    let arrived = finding.cause.queue()?.arrival_rate? * seconds;
    let lost = finding.lost as f64;
    (lost > 0.0).then(|| lost / arrived.max(lost))
}

/// Sorts findings, worst first. Ties are broken deterministically, so that the same host always
/// gets the same report.
pub(crate) fn rank(findings: &mut [Finding]) {
    findings.sort_by(|one, other| key(one).cmp(&key(other)));
}

type Key<'a> = (bool, bool, bool, core::cmp::Reverse<u64>, Stage, &'static str, &'a str);

fn key(finding: &Finding) -> Key<'_> {
    let Finding { stage, cause, lost, .. } = finding;
    let name = cause.queue().map_or("", |queue| queue.local.as_str());
    let evidence = finding.evidence.first().map_or("", |it| it.counter.as_str());
    (
        cause.is_stray(),
        !finding.is_above_floor,
        finding.consequence_of.is_some(),
        core::cmp::Reverse(*lost),
        *stage,
        cause.name(),
        if name.is_empty() { evidence } else { name },
    )
}
