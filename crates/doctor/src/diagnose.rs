//! Derives a verdict from snapshots.

use std::collections::BTreeMap;

use crate::change::{covers, rise};
use crate::examination::Examination;
use crate::floor::{rank, weigh};
use crate::scope::Split;
use crate::span::{Span, Table};
use crate::stages::{application, conntrack, device, ip, sending, socket, softnet, udp, xdp};
use crate::{Cause, Finding, Outcome, Scope, Snapshot, Stage, Verdict};

/// Reports where this host loses datagrams and why, from two or more snapshots in the order in
/// which they were taken.
///
/// Two snapshots are enough to show where datagrams are lost. More snapshots, at short intervals
/// such as 100 ms, show why a socket overflows. Only the most recent snapshots of the same boot and
/// network namespace are compared.
pub fn diagnose(snapshots: &[Snapshot]) -> Verdict {
    diagnose_for(snapshots, Scope::Host)
}

/// Like [`diagnose`], for a process or a port: losses of other sockets are listed, but do not
/// affect the outcome.
pub fn diagnose_for(snapshots: &[Snapshot], scope: Scope) -> Verdict {
    let (span, oddities) = Span::new(snapshots);
    let seconds = span.seconds;
    let mut examination = Examination::new(span, oddities);
    if !examination.span.is_comparable() {
        let count = examination.span.snapshots.len();
        examination.odd(format!(
            "at least two snapshots from different times are needed, but there are {count}"
        ));
        let oddities = examination.take_oddities();
        return Verdict { seconds, oddities, ..Verdict::unknown() };
    }
    examine(&mut examination);
    let findings = std::mem::take(&mut examination.findings);
    let Split { concerned: mut findings, mut elsewhere } = scope.split(&examination, findings);
    note_consequences(&mut findings);
    let traffic = scope.traffic(&examination);
    for list in [&mut findings, &mut elsewhere] {
        weigh(list, &traffic);
        rank(list);
    }
    note_silence(&mut examination, scope, &findings);
    let oddities = examination.take_oddities();
    let is_blind = scope.is_blind(&examination);
    let mut unseen = examination.take_unseen();
    unseen.retain(|it| scope.needs(it));
    let has_oddities = !oddities.is_empty() && !matches!(scope, Scope::Own { .. });
    let is_blind = is_blind || has_oddities || unseen.iter().any(|it| it.may_hide_loss);
    // A user who specifies a port expects a program to be listening on it: packets for it are lost,
    // not stray.
    let has_strays_as_loss = matches!(scope, Scope::Sockets { .. });
    let outcome = outcome(&findings, is_blind, has_strays_as_loss);
    Verdict { outcome, seconds, findings, elsewhere, unseen, oddities }
}

fn outcome(findings: &[Finding], is_blind: bool, has_strays_as_loss: bool) -> Outcome {
    let mut above = findings.iter().filter(|it| it.is_above_floor);
    match above.any(|it| has_strays_as_loss || !it.cause.is_stray()) {
        true => Outcome::Loss,
        false if is_blind => Outcome::Unknown,
        false if findings.iter().any(|it| it.is_above_floor) => Outcome::Stray,
        false => Outcome::NoLoss,
    }
}

/// Records that there is no basis for a conclusion: no traffic, or no socket bound to the port.
fn note_silence(examination: &mut Examination<'_>, scope: Scope, findings: &[Finding]) {
    if findings.iter().any(|it| it.is_above_floor) {
        return;
    }
    if let Scope::Sockets { port: Some(port), .. } = scope
        && scope.has_closed_port(&examination.span.snapshots)
    {
        examination.odd(format!("no UDP socket is bound to port {port}"));
    }
    if !has_traffic(examination) {
        examination.odd("no UDP datagram was received, sent or forwarded".to_owned());
    }
}

/// Examines every stage. The meaning of a counter depends on other counters, so all counters of a
/// stage are measured before the stage is evaluated.
fn examine(examination: &mut Examination<'_>) {
    let backlogs = softnet::measure(examination);
    let by_xdp = xdp::measure(examination);
    let rx_dropped = device::examine(examination, backlogs.dropped, &by_xdp);
    xdp::examine(examination, by_xdp);
    softnet::examine(examination, backlogs, rx_dropped);
    let tracked = conntrack::measure(examination);
    let missing = ip::missing(examination);
    ip::examine(examination, ip::without_tracked(missing, &tracked));
    conntrack::examine(examination, &tracked, missing);
    let drops = socket::measure(examination);
    let errors = udp::examine(examination, drops.total);
    socket::examine(examination, &drops, &errors);
    application::examine(examination);
    sending::examine(examination);
}

fn has_traffic(examination: &Examination<'_>) -> bool {
    let counters = [
        (Table::Udp, "InDatagrams"),
        (Table::Udp, "OutDatagrams"),
        (Table::Ipv6, "Udp6InDatagrams"),
        (Table::Ipv6, "Udp6OutDatagrams"),
        // On a router, only these counters rise.
        (Table::Ip, "ForwDatagrams"),
        (Table::Ipv6, "Ip6OutForwDatagrams"),
    ];
    let rose = |(table, name)| rise(&examination.span.protocol(table, name));
    counters.into_iter().filter_map(rose).any(|rise| rise.total > 0)
}

/// Fragments that were lost before IP leave incomplete datagrams, at most one per lost fragment.
/// The stage that lost most of the fragments is reported as the cause.
fn note_consequences(findings: &mut [Finding]) {
    let mut by_stage = BTreeMap::<Stage, u64>::new();
    for finding in findings.iter().filter(|it| it.stage < Stage::Ip) {
        let lost = by_stage.entry(finding.stage).or_default();
        *lost = lost.saturating_add(finding.lost);
    }
    let most = by_stage.iter().max_by_key(|(stage, lost)| (**lost, core::cmp::Reverse(**stage)));
    let Some(stage) = most.map(|(stage, _)| *stage) else { return };
    let fragments = by_stage.into_values().fold(0, u64::saturating_add);
    for finding in findings.iter_mut().filter(|it| it.cause == Cause::Reassembly) {
        if covers(fragments, finding.lost) {
            finding.consequence_of = Some(stage);
        }
    }
}

#[cfg(test)]
#[path = "hostile_tests.rs"]
mod hostile;
#[cfg(test)]
#[path = "order_tests.rs"]
mod order;
#[cfg(test)]
#[path = "diagnose_tests.rs"]
mod tests;
