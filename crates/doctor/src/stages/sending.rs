//! The send path: send buffers, routes and path MTUs, queueing disciplines, devices.

use std::collections::BTreeMap;

use crate::change::{agree, covers};
use crate::devices;
use crate::examination::{Examination, certain_if, evidence};
use crate::span::Table;
use crate::stages::{application, ip};
use crate::{Cause, Evidence, Paths, Qdisc, Snapshot, Stage};

/// The parent of `tc filter` rules for received packets (`ingress`, `clsact`), which are not on the
/// send path.
const INGRESS: u32 = 0xffff_fff1;

pub(crate) fn examine(examination: &mut Examination<'_>) {
    let has_sent = has_sent(examination);
    let queues = if has_sent || has_qdiscs(examination) { qdiscs(examination) } else { 0 };
    let (discarded, discards) =
        ip::sum(examination, &[(Table::Ip, "OutDiscards"), (Table::Ipv6, "Ip6OutDiscards")]);
    let is_full = is_send_buffer_full(examination);
    // IP counts a packet as discarded if a queueing discipline dropped it, and also if the socket's
    // buffer was full. If queueing disciplines were not seen, only a full socket distinguishes the
    // two cases.
    let elsewhere = if has_qdiscs(examination) || is_full { queues } else { discarded };
    let refused = send_buffer(examination, elsewhere, is_full);
    no_route(examination);
    path_mtu(examination);
    let explained = queues.saturating_add(refused);
    if discarded > explained && !agree(discarded, explained) {
        let rest = discarded.saturating_sub(explained);
        examination.find(Stage::SendIp, Cause::Other, rest, certain_if(false), discards);
    }
    devices(examination);
}

fn has_sent(examination: &mut Examination<'_>) -> bool {
    let sent = [(Table::Udp, "OutDatagrams"), (Table::Ipv6, "Udp6OutDatagrams")];
    ip::sum(examination, &sent).0 > 0
}

fn has_qdiscs(examination: &Examination<'_>) -> bool {
    examination.span.snapshots.iter().any(|it| it.qdiscs.seen().is_some())
}

/// Records sends that were rejected because the socket's send buffer was full, and returns their
/// number. `queues` is how many packets were dropped elsewhere: the kernel counts those as send
/// buffer errors, too. `is_full` is whether a send buffer was seen full.
fn send_buffer(examination: &mut Examination<'_>, queues: u64, is_full: bool) -> u64 {
    let (errors, mut all) =
        ip::sum(examination, &[(Table::Udp, "SndbufErrors"), (Table::Ipv6, "Udp6SndbufErrors")]);
    let own = if agree(errors, queues) { 0 } else { errors.saturating_sub(queues) };
    let mut refused = 0_u64;
    for name in application::names(&examination.span.snapshots) {
        let readings =
            examination.span.values(|it| Some(application::application(it, &name)?.send_refused));
        let label = format!("{name}: refused sends");
        let rise = examination.rise_of(Stage::SendSocket, &label, &readings).unwrap_or(0);
        refused = refused.saturating_add(rise);
        all.push(evidence(label, rise));
    }
    if is_full {
        all.push(evidence("sockets whose send buffer was more than half full", 1));
    }
    // Drops by a queueing discipline are also reported to applications that requested such errors.
    let told = if refused <= queues || agree(refused, queues) { 0 } else { refused };
    let lost = own.max(told);
    let is_certain = own > 0 && (is_full || refused > 0);
    let cause = Cause::SendBuffer;
    examination.find(Stage::SendSocket, cause, lost, certain_if(is_certain), all);
    lost
}

fn is_send_buffer_full(examination: &Examination<'_>) -> bool {
    let sockets = examination.span.snapshots.iter().filter_map(|it| it.sockets.seen());
    sockets.flat_map(|sockets| sockets.values()).any(|socket| {
        let full = socket.send_buffer.filter(|size| *size > 0);
        full.is_some_and(|size| socket.send_queue >= size.div_euclid(2))
    })
}

fn no_route(examination: &mut Examination<'_>) {
    let (lost, mut all) =
        ip::sum(examination, &[(Table::Ip, "OutNoRoutes"), (Table::Ipv6, "Ip6OutNoRoutes")]);
    let reason = examination.reason("IP_OUTNOROUTES");
    let is_certain = reason.as_ref().is_some_and(|it| agree(it.rise, lost));
    all.extend(reason);
    examination.find(Stage::SendIp, Cause::NoRoute, lost, certain_if(is_certain), all);
}

/// Maximum number of listed destinations with a learned path MTU.
const LISTED: usize = 8;

/// Records packets that were too large for a path: routers count them, and senders learn of them
/// from ICMP.
fn path_mtu(examination: &mut Examination<'_>) {
    let (forwarded, mut all) = ip::sum(
        examination,
        &[
            (Table::Ip, "FragFails"),
            (Table::Ipv6, "Ip6FragFails"),
            (Table::Ipv6, "Ip6InTooBigErrors"),
        ],
    );
    let (told, more) = ip::sum(examination, &[(Table::Ipv6, "Icmp6InPktTooBigs")]);
    all.extend(more);
    let learned = learned(&examination.span.snapshots);
    let count = u64::try_from(learned.len()).unwrap_or(u64::MAX);
    for (destination, mtu) in learned.iter().take(LISTED) {
        all.push(evidence(format!("a path MTU of {mtu} bytes was learned for {destination}"), 1));
    }
    let unlisted = u64::try_from(learned.len().saturating_sub(LISTED)).unwrap_or(u64::MAX);
    all.push(evidence("other destinations for which a path MTU was learned", unlisted));
    let (unreachable, more) = ip::sum(examination, &[(Table::Icmp, "InDestUnreachs")]);
    all.extend(more);
    let (answered, more) = ip::sum(
        examination,
        &[(Table::Icmp, "OutDestUnreachs"), (Table::Ipv6, "Icmp6OutPktTooBigs")],
    );
    all.extend(more);
    let is_told_and_learned = count > 0 && (told > 0 || unreachable > 0);
    // If a sender keeps sending packets that are too large for a path whose MTU is already known, a
    // router responds to each of them. Packets to a port without a socket cause the same ICMP
    // error.
    let known = smaller_paths(&examination.span.snapshots);
    let still_told = if known > 0 { unreachable } else { 0 };
    if still_told > 0 {
        all.push(evidence("destinations whose path MTU is known to be smaller", known));
    }
    let lost = forwarded.max(told).max(count).max(still_told);
    let certainty = certain_if(is_told_and_learned || (forwarded > 0 && answered > 0));
    examination.find(Stage::SendIp, Cause::PathMtu, lost, certainty, all);
}

/// Returns the path MTUs that were learned or decreased between the snapshots.
fn learned(snapshots: &[&Snapshot]) -> BTreeMap<String, u32> {
    let mut seen = snapshots.iter().filter_map(|it| it.paths.seen());
    let (Some(first), Some(last)) = (seen.next(), seen.next_back()) else {
        return BTreeMap::new();
    };
    let Paths { path_mtus } = last;
    let is_new = |(destination, mtu): &(&String, &u32)| {
        first.path_mtus.get(*destination).is_none_or(|before| before > mtu)
    };
    let new = path_mtus.iter().filter(is_new);
    new.map(|(destination, mtu)| (destination.clone(), *mtu)).collect()
}

/// Returns the number of destinations with a learned path MTU.
fn smaller_paths(snapshots: &[&Snapshot]) -> u64 {
    let last = snapshots.iter().rev().find_map(|it| it.paths.seen());
    last.map_or(0, |paths| u64::try_from(paths.path_mtus.len()).unwrap_or(u64::MAX))
}

/// Identity of a queueing discipline.
type Key = (String, u32, u32, String);

fn key(qdisc: &Qdisc) -> Key {
    (qdisc.device.clone(), qdisc.parent, qdisc.handle, qdisc.kind.clone())
}

/// Examines the queueing disciplines. Returns the number of packets dropped by those on the send
/// path.
fn qdiscs(examination: &mut Examination<'_>) -> u64 {
    if !examination.needs(Stage::SendQdisc, "queueing disciplines", |it| &it.qdiscs) {
        return 0;
    }
    let by_key = |it: &Vec<Qdisc>| it.iter().map(|it| (key(it), it.drops)).collect();
    let seen: Vec<Option<BTreeMap<Key, u64>>> =
        examination.span.values(|it| it.qdiscs.seen().map(by_key));
    let keys: Vec<Key> = {
        let all = seen.iter().flatten().flat_map(|it| it.keys().cloned());
        all.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
    };
    // A discipline also counts the drops of its children, so on each device the one with the most
    // drops includes all others.
    let mut devices: BTreeMap<String, (u64, Vec<Evidence>)> = BTreeMap::new();
    for key in keys {
        let readings: Vec<Option<u64>> =
            seen.iter().map(|it| it.as_ref()?.get(&key).copied()).collect();
        let (device, parent, _, kind) = key;
        let label = format!("{device}: packets dropped by {kind}");
        let Some(rise) = examination.known_rise(&label, &readings) else { continue };
        if !rise.is_complete && !rise.went_back {
            let why = format!("{kind} of {device} was not present in all snapshots");
            examination.blind(Stage::SendQdisc, why, None);
        }
        if parent == INGRESS {
            ingress(examination, label, rise.total);
            continue;
        }
        let (lost, all) = devices.entry(device).or_default();
        *lost = rise.total.max(*lost);
        all.push(evidence(label, rise.total));
    }
    let (errors, refused) =
        ip::sum(examination, &[(Table::Udp, "SndbufErrors"), (Table::Ipv6, "Udp6SndbufErrors")]);
    let (_, discards) =
        ip::sum(examination, &[(Table::Ip, "OutDiscards"), (Table::Ipv6, "Ip6OutDiscards")]);
    let reasons = ["QDISC_DROP", "QDISC_OVERLIMIT"].map(|name| examination.reason(name));
    let by_reason = reasons.iter().flatten().fold(0_u64, |sum, it| sum.saturating_add(it.rise));
    let total = devices.values().fold(0_u64, |sum, (lost, _)| sum.saturating_add(*lost));
    for (lost, mut all) in devices.into_values() {
        all.extend(refused.iter().chain(&discards).chain(reasons.iter().flatten()).cloned());
        let certainty = certain_if(covers(errors, lost) || covers(by_reason, lost));
        examination.find(Stage::SendQdisc, Cause::QdiscFull, lost, certainty, all);
    }
    total
}

/// Records drops by a `tc filter` rule for received packets, which acts like a firewall rule.
fn ingress(examination: &mut Examination<'_>, label: String, lost: u64) {
    let reason = examination.reason("TC_INGRESS");
    let is_certain = reason.as_ref().is_some_and(|it| agree(it.rise, lost));
    let mut all = vec![evidence(label, lost)];
    all.extend(reason);
    let certainty = certain_if(is_certain);
    examination.find(Stage::Netfilter, Cause::Firewall, lost, certainty, all);
}

fn devices(examination: &mut Examination<'_>) {
    for name in devices::names(&examination.span.snapshots) {
        let mut all = Vec::new();
        let mut of = |counter: &str| {
            let rise = devices::statistic(examination, &name, counter);
            all.push(evidence(format!("{name}: {counter}"), rise));
            rise
        };
        let (dropped, errors) = (of("tx_dropped"), of("tx_errors"));
        let parts = ["tx_fifo_errors", "tx_carrier_errors", "tx_aborted_errors"].map(&mut of);
        let lost =
            dropped.saturating_add(errors.max(parts.into_iter().fold(0, u64::saturating_add)));
        let cause = Cause::DeviceSend;
        examination.find(Stage::SendDevice, cause, lost, certain_if(false), all);
    }
}
