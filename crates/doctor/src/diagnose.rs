//! From snapshots to a verdict.

use crate::change::rise;
use crate::examination::Examination;
use crate::span::{Span, Table};
use crate::stages::{application, conntrack, device, ip, sending, socket, softnet, udp, xdp};
use crate::{Cause, Finding, Outcome, Snapshot, Stage, Verdict};

/// Says where datagrams are lost and why, from two snapshots or more in the order in which they were taken.
///
/// Two show where; the more there are, and the closer together, the more is known of why a socket overflows: ten each
/// second are good. Only the last of them that are of one boot and one namespace are compared.
pub fn diagnose(snapshots: &[Snapshot]) -> Verdict {
    let (span, oddities) = Span::new(snapshots);
    let seconds = span.seconds;
    let mut examination = Examination::new(span, oddities);
    if !examination.span.is_comparable() {
        let count = examination.span.snapshots.len();
        examination.odd(format!(
            "there are {count} snapshots to compare: two are needed, of different times"
        ));
        let oddities = examination.take_oddities();
        let (first, later, unseen) = (Vec::new(), Vec::new(), Vec::new());
        return Verdict { outcome: Outcome::Unknown, seconds, first, later, unseen, oddities };
    }
    examine(&mut examination);
    let has_traffic = has_traffic(&examination);
    if !has_traffic && examination.findings.is_empty() {
        examination
            .odd("no datagram of UDP was received or sent, and nothing was forwarded".to_owned());
    }
    let (first, later) = ordered(std::mem::take(&mut examination.findings));
    let oddities = examination.take_oddities();
    let is_blind = examination.is_blind || !oddities.is_empty();
    let outcome = match (first.is_empty(), is_blind) {
        (false, _) => Outcome::Loss,
        (true, false) => Outcome::NoLoss,
        (true, true) => Outcome::Unknown,
    };
    let mut unseen = examination.unseen;
    unseen.sort_by_key(|it| it.stage);
    Verdict { outcome, seconds, first, later, unseen, oddities }
}

/// Looks at every stage. What a counter means depends on others: those of a stage are measured before it is judged.
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
        // A router has no other.
        (Table::Ip, "ForwDatagrams"),
        (Table::Ipv6, "Ip6OutForwDatagrams"),
    ];
    let rose = |(table, name)| rise(&examination.span.protocol(table, name));
    counters.into_iter().filter_map(rose).any(|rise| rise.total > 0)
}

/// The findings of the first stage that loses, and those of later ones.
fn ordered(mut findings: Vec<Finding>) -> (Vec<Finding>, Vec<Finding>) {
    findings.sort_by_key(|it| (it.stage, std::cmp::Reverse(it.lost)));
    let Some(first_stage) = findings.first().map(|it| it.stage) else {
        return (Vec::new(), Vec::new());
    };
    // Fragments that were lost before IP leave datagrams that cannot be completed.
    if first_stage < Stage::Ip {
        let incomplete = findings.iter_mut().filter(|it| it.cause == Cause::Reassembly);
        incomplete.for_each(|it| it.consequence_of = Some(first_stage));
    }
    findings.into_iter().partition(|it| it.stage == first_stage)
}

#[cfg(test)]
#[path = "hostile_tests.rs"]
mod hostile;
#[cfg(test)]
#[path = "diagnose_tests.rs"]
mod tests;
