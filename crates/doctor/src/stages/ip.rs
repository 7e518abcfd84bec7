//! IP, and firewall rules: packets that IP received but did not deliver.

use crate::change::{Gap, above_first, agree, covers, gap};
use crate::devices;
use crate::examination::{Examination, certain_if, evidence};
use crate::span::Table;
use crate::stages::conntrack::Tracked;
use crate::{Cause, Evidence, Stage};

/// Number of packets that a CPU takes from a device's queue at once, and counts as received before
/// it delivers the first one (the NAPI weight).
const BATCH: u64 = 64;

/// An IP version: the location and names of its counters.
struct Version {
    table: Table,
    prefix: &'static str,
    forwarded: &'static str,
    /// Counters for packets that are accounted for: packets that were lost, have an unknown
    /// protocol, or are fragments.
    accounted: &'static [&'static str],
}

const VERSIONS: [Version; 2] = [
    Version {
        table: Table::Ip,
        prefix: "",
        forwarded: "ForwDatagrams",
        accounted: &["InHdrErrors", "InAddrErrors", "InUnknownProtos", "InDiscards", "FragFails"],
    },
    Version {
        table: Table::Ipv6,
        prefix: "Ip6",
        forwarded: "OutForwDatagrams",
        accounted: &[
            "InHdrErrors",
            "InAddrErrors",
            "InUnknownProtos",
            "InDiscards",
            "InTooBigErrors",
            "InNoRoutes",
            "InTruncatedPkts",
        ],
    },
];

/// Returns the number of packets that IP received and neither delivered nor counted as dropped.
pub(crate) fn missing(examination: &mut Examination<'_>) -> u64 {
    if !examination.needs(Stage::Ip, "the protocols' counters", |it| &it.protocols) {
        return 0;
    }
    let mut sum = 0_u64;
    for version in &VERSIONS {
        let differences = differences(examination, version);
        let on_the_way = BATCH.saturating_mul(examination.span.cpus());
        match gap(&differences, on_the_way) {
            Gap::Closed => {}
            Gap::Lost(missing) if may_be_multicast(examination, version, missing) => {}
            Gap::Lost(missing) => sum = sum.saturating_add(missing),
            Gap::Unclear(missing) => examination.blind_to(
                missing,
                Stage::Netfilter,
                format!(
                    "{missing} packets were received but not delivered; a number this small may \
                     still be in processing"
                ),
                Some("more snapshots".to_owned()),
            ),
        }
    }
    sum
}

/// Returns, for each snapshot, the number of packets that IP had received but not accounted for.
fn differences(examination: &mut Examination<'_>, version: &Version) -> Vec<i128> {
    let Version { table, prefix, forwarded, accounted } = *version;
    let span = &examination.span;
    let of = |table, name: &str| above_first(&span.protocol(table, name));
    let own = |name: &str| of(table, &format!("{prefix}{name}"));
    let received = own("InReceives");
    let mut minus = vec![own("InDelivers"), own(forwarded), own("ReasmReqds")];
    minus.extend(accounted.iter().map(|name| own(name)));
    if table == Table::Ip {
        minus.push(of(Table::IpExt, "InNoRoutes"));
        minus.push(of(Table::IpExt, "InTruncatedPkts"));
        minus.push(of(Table::TcpExt, "IPReversePathFilter"));
    }
    // A reassembled datagram is delivered once, but each of its fragments was counted as received.
    let plus = own("ReasmOKs");
    let at = |readings: &[Option<u64>], place: usize| {
        readings.get(place).copied().flatten().map(i128::from)
    };
    let difference = |place| {
        let total = minus
            .iter()
            .fold(0_i128, |sum, readings| sum.saturating_add(at(readings, place).unwrap_or(0)));
        let received = at(&received, place)?;
        at(minus.first()?, place)?;
        Some(received.saturating_add(at(&plus, place).unwrap_or(0)).saturating_sub(total))
    };
    (0..received.len()).filter_map(difference).collect()
}

/// Returns whether all `missing` packets may have been for multicast groups that no socket here has
/// joined; no counter reports such packets.
fn may_be_multicast(examination: &mut Examination<'_>, version: &Version, missing: u64) -> bool {
    let by_firewall = examination.span.reason("NETFILTER_DROP");
    // Additional firewall drops may belong to other namespaces.
    if by_firewall.is_some_and(|rise| agree(rise, missing)) {
        return false;
    }
    let received = match version.table {
        Table::Ipv6 => examination.counter(Stage::Ip, Table::Ipv6, "Ip6InMcastPkts").unwrap_or(0),
        _ => {
            let names = devices::names(&examination.span.snapshots);
            let of = |name: &String| devices::statistic(examination, name, "multicast");
            names.iter().map(of).fold(0, u64::saturating_add)
        }
    };
    if received < missing {
        return false;
    }
    let why = format!(
        "the IP layer did not deliver {missing} packets, and at least as many multicast packets \
         arrived: they may be for groups that no socket here has joined, or a firewall dropped them"
    );
    match by_firewall {
        Some(0) => examination.unseen(Stage::Netfilter, why, None),
        Some(_) => examination.blind_to(missing, Stage::Netfilter, why, None),
        None => {
            let needed = "CAP_BPF and CAP_PERFMON: drops by reason".to_owned();
            examination.blind_to(missing, Stage::Netfilter, why, Some(needed));
        }
    }
    true
}

/// Records losses that IP's counters report.
pub(crate) fn examine(examination: &mut Examination<'_>, missing: u64) {
    for version in &VERSIONS {
        if version.table == Table::Ip || has_ipv6(examination) {
            for name in ["InReceives", "InDelivers"] {
                let name = format!("{}{name}", version.prefix);
                examination.needed_counter(Stage::Ip, version.table, &name);
            }
        }
    }
    let headers = sum(
        examination,
        &[
            (Table::Ip, "InHdrErrors"),
            (Table::Ip, "InAddrErrors"),
            (Table::IpExt, "InTruncatedPkts"),
            (Table::Ipv6, "Ip6InHdrErrors"),
            (Table::Ipv6, "Ip6InAddrErrors"),
            (Table::Ipv6, "Ip6InTruncatedPkts"),
        ],
    );
    let (lost, mut all) = headers;
    // Each bad header checksum is also counted among the header errors.
    let (checksums, more) = sum(examination, &[(Table::IpExt, "InCsumErrors")]);
    all.extend(more);
    let reasons = ["IP_CSUM", "IP_INHDR", "IP_INADDRERRORS"].map(|name| examination.reason(name));
    let by_reason = reasons.iter().flatten().fold(0_u64, |sum, it| sum.saturating_add(it.rise));
    all.extend(reasons.into_iter().flatten());
    let is_certain = agree(checksums, lost) || agree(by_reason, lost);
    examination.find(Stage::Ip, Cause::IpHeader, lost, certain_if(is_certain), all);

    // Filtered packets were received and not delivered. They are therefore part of the gap as well,
    // so there are two counters.
    let (filtered, mut all) = sum(examination, &[(Table::TcpExt, "IPReversePathFilter")]);
    let by_reason = examination.reason("IP_RPFILTER");
    let is_certain = by_reason.as_ref().is_some_and(|it| covers(it.rise, filtered))
        || is_gap(examination, filtered);
    all.extend(by_reason);
    let cause = Cause::ReversePathFilter;
    examination.find(Stage::Ip, cause, filtered, certain_if(is_certain), all);

    reassembly(examination);
    no_route(examination);
    discards(examination);
    rest(examination, missing);
}

/// Returns whether at least `lost` packets were received but not delivered.
fn is_gap(examination: &Examination<'_>, lost: u64) -> bool {
    let rise = |name: &str| {
        let readings = examination.span.protocol(Table::Ip, name);
        above_first(&readings).last().copied().flatten().unwrap_or(0)
    };
    covers(rise("InReceives").saturating_sub(rise("InDelivers")), lost)
}

fn has_ipv6(examination: &Examination<'_>) -> bool {
    let mut snapshots = examination.span.snapshots.iter();
    snapshots.any(|it| it.protocols.seen().is_some_and(|it| it.ipv6.is_some()))
}

/// Records packets that IP discarded for an uncounted reason. On hosts where IPv6 is disabled, IP
/// discards all IPv6 packets.
fn discards(examination: &mut Examination<'_>) {
    let (mut lost, mut all) = sum(examination, &[(Table::Ip, "InDiscards")]);
    let (of_ipv6, more) = sum(examination, &[(Table::Ipv6, "Ip6InDiscards")]);
    let (received, _) = sum(examination, &[(Table::Ipv6, "Ip6InReceives")]);
    let by_reason = examination.reason("IPV6DISABLED").map_or(0, |it| it.rise);
    if of_ipv6 > 0 && (agree(of_ipv6, received) || by_reason >= of_ipv6) {
        let why = format!("{of_ipv6} IPv6 packets arrived where IPv6 is disabled");
        examination.unseen(Stage::Ip, why, None);
    } else {
        lost = lost.saturating_add(of_ipv6);
        all.extend(more);
    }
    examination.find(Stage::Ip, Cause::Other, lost, certain_if(false), all);
}

/// Records packets without a route. In its first seconds, a device has no valid IPv6 address, and
/// therefore no route for its neighbors' multicast packets. Those packets do not matter; neighbors
/// that start at the same time send about as many of them as this host does.
fn no_route(examination: &mut Examination<'_>) {
    let (lost, mut all) = sum(examination, &[(Table::IpExt, "InNoRoutes")]);
    let (of_ipv6, more) = sum(examination, &[(Table::Ipv6, "Ip6InNoRoutes")]);
    let multicast = [(Table::Ipv6, "Ip6InMcastPkts"), (Table::Ipv6, "Ip6OutMcastPkts")];
    let (multicast, _) = sum(examination, &multicast);
    all.extend(more);
    let lost = lost.saturating_add(of_ipv6.saturating_sub(multicast));
    examination.find(Stage::Ip, Cause::NoRoute, lost, certain_if(false), all);
}

fn reassembly(examination: &mut Examination<'_>) {
    let (lost, mut all) =
        sum(examination, &[(Table::Ip, "ReasmFails"), (Table::Ipv6, "Ip6ReasmFails")]);
    let (timeouts, more) =
        sum(examination, &[(Table::Ip, "ReasmTimeout"), (Table::Ipv6, "Ip6ReasmTimeout")]);
    all.extend(more);
    let reasons = ["FRAG_REASM_TIMEOUT", "DUP_FRAG", "FRAG_TOO_FAR"];
    let reasons = reasons.map(|name| examination.reason(name));
    let by_reason = reasons.iter().flatten().fold(0_u64, |sum, it| sum.saturating_add(it.rise));
    all.extend(reasons.into_iter().flatten());
    // A reassembly timeout may also be caused by losses at the sender or in the network: only a
    // loss on this host is visible here.
    let is_certain = covers(timeouts, lost) || covers(by_reason, lost);
    examination.find(Stage::Ip, Cause::Reassembly, lost, certain_if(is_certain), all);
}

/// Records missing packets that neither IP nor connection tracking explains. They are attributed to
/// the firewall, unless a drop reason shows another cause.
fn rest(examination: &mut Examination<'_>, missing: u64) {
    let gap = evidence("Ip: packets received but not delivered", missing);
    let firewall = examination.reason("NETFILTER_DROP");
    let sources = ["IP_INVALID_SOURCE", "IP_LOCAL_SOURCE", "IP_INVALID_DEST", "IP_LOCALNET"];
    let sources: Vec<Evidence> =
        sources.iter().filter_map(|name| examination.reason(name)).collect();
    let by_source = sources.iter().fold(0_u64, |sum, it| sum.saturating_add(it.rise));
    match firewall {
        None => {
            let (cause, certainty) = (Cause::Firewall, certain_if(false));
            examination.find(Stage::Netfilter, cause, missing, certainty, vec![gap]);
        }
        Some(firewall) if firewall.rise > 0 => {
            let certainty = certain_if(agree(firewall.rise, missing) && by_source == 0);
            let evidence = vec![gap, firewall];
            examination.find(Stage::Netfilter, Cause::Firewall, missing, certainty, evidence);
        }
        Some(_) => {
            let cause = if by_source > 0 { Cause::IpHeader } else { Cause::Undelivered };
            let evidence = [vec![gap], sources].concat();
            examination.find(Stage::Ip, cause, missing, certain_if(false), evidence);
        }
    }
}

/// Returns the sum of the rises of several counters, and each rise as evidence.
pub(crate) fn sum(
    examination: &mut Examination<'_>,
    counters: &[(Table, &str)],
) -> (u64, Vec<Evidence>) {
    let (mut total, mut all) = (0_u64, Vec::new());
    for (table, name) in counters {
        let rise = examination.counter(Stage::Ip, *table, name).unwrap_or(0);
        total = total.saturating_add(rise);
        all.push(evidence(table.label(name), rise));
    }
    (total, all)
}

/// Splits the `missing` packets into those dropped by connection tracking and the rest.
pub(crate) fn without_tracked(missing: u64, tracked: &Tracked) -> u64 {
    let tracked = tracked.dropped.saturating_add(tracked.collided);
    if agree(missing, tracked) { 0 } else { missing.saturating_sub(tracked) }
}
