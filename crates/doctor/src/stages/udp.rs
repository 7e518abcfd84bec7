//! UDP: ports without a socket, checksums, lengths, filters, and the memory shared by all sockets.

use crate::change::{Gap, above_first, agree, covers, gap};
use crate::examination::{Examination, certain_if, evidence};
use crate::span::Table;
use crate::stages::ip;
use crate::{Cause, Evidence, Stage};

/// The rise of one UDP counter, over IPv4 and IPv6 in total, and each part as evidence.
struct Both {
    total: u64,
    evidence: Vec<Evidence>,
}

fn both(examination: &mut Examination<'_>, name: &str) -> Both {
    let over_ipv6 = format!("Udp6{name}");
    let (total, evidence) =
        ip::sum(examination, &[(Table::Udp, name), (Table::Ipv6, over_ipv6.as_str())]);
    Both { total, evidence }
}

/// UDP errors that may also be counted as drops at sockets.
#[derive(Default)]
pub(crate) struct Errors {
    /// Datagrams that were dropped because a socket's buffer was full.
    pub(crate) overflowed: u64,
    /// Datagrams that a socket may have dropped for another reason: a filter, a checksum, lack of
    /// memory.
    pub(crate) others: u64,
    pub(crate) evidence: Vec<Evidence>,
}

/// `drops` is the rise of the drop counters of all sockets; `None` if no sockets were seen.
pub(crate) fn examine(examination: &mut Examination<'_>, drops: Option<u64>) -> Errors {
    for name in ["InDatagrams", "InErrors", "NoPorts", "RcvbufErrors"] {
        examination.needed_counter(Stage::Udp, Table::Udp, name);
    }
    no_socket(examination);
    let errors = both(examination, "InErrors");
    let overflowed = both(examination, "RcvbufErrors");
    let checksums = both(examination, "InCsumErrors");
    let memory = both(examination, "MemErrors");
    // Drops at sockets that neither a full buffer nor a lack of memory explains.
    let known = overflowed.total.saturating_add(memory.total);
    let at_sockets = drops.map(|drops| drops.saturating_sub(known));
    bad_checksum(examination, &checksums, &errors);
    out_of_memory(examination, &memory);
    let filtered = remainder(examination, at_sockets.map(|it| it.saturating_sub(checksums.total)));
    let others = checksums.total.saturating_add(memory.total).saturating_add(filtered);
    Errors { overflowed: overflowed.total, others, evidence: overflowed.evidence }
}

fn no_socket(examination: &mut Examination<'_>) {
    let Both { total, mut evidence } = both(examination, "NoPorts");
    // ICMP responses are rate-limited; the second counter shows whether there were any.
    let (answers, more) = ip::sum(
        examination,
        &[(Table::Icmp, "OutDestUnreachs"), (Table::Ipv6, "Icmp6OutDestUnreachs")],
    );
    evidence.extend(more);
    let reason = examination.reason("NO_SOCKET");
    let is_certain = answers > 0 || reason.as_ref().is_some_and(|it| covers(it.rise, total));
    evidence.extend(reason);
    examination.find(Stage::Udp, Cause::NoSocket, total, certain_if(is_certain), evidence);
}

fn bad_checksum(examination: &mut Examination<'_>, checksums: &Both, errors: &Both) {
    let mut all = checksums.evidence.clone();
    all.extend(errors.evidence.iter().cloned());
    all.extend(examination.reason("UDP_CSUM"));
    let certainty = certain_if(covers(errors.total, checksums.total));
    examination.find(Stage::Udp, Cause::BadChecksum, checksums.total, certainty, all);
}

fn out_of_memory(examination: &mut Examination<'_>, memory: &Both) {
    let mut all = memory.evidence.clone();
    let reason = examination.reason("PROTO_MEM");
    let by_reason = reason.as_ref().is_some_and(|it| agree(it.rise, memory.total));
    all.extend(reason);
    let mut seen = examination.span.snapshots.iter().filter_map(|it| it.memory.seen());
    // Above its middle limit, UDP denies memory to sockets that already hold some.
    let is_short = seen.any(|it| it.limits.is_some_and(|[_, pressure, _]| it.used >= pressure));
    let certainty = certain_if(by_reason || is_short);
    examination.find(Stage::Udp, Cause::UdpMemory, memory.total, certainty, all);
}

/// Records errors without a more specific counter: a drop by a socket filter, which the socket
/// counts, or a bad length, which the socket does not count. `at_sockets` is the number of socket
/// drops that nothing else explains. Returns the number of drops by filters.
fn remainder(examination: &mut Examination<'_>, at_sockets: Option<u64>) -> u64 {
    let mut lost = 0_u64;
    for (table, prefix) in [(Table::Udp, ""), (Table::Ipv6, "Udp6")] {
        // Each CPU counts an error first by its kind and then in the total, so the counters may
        // differ by one per CPU.
        match gap(&unexplained(examination, table, prefix), examination.span.cpus()) {
            Gap::Closed => {}
            Gap::Lost(by) => lost = lost.saturating_add(by),
            Gap::Unclear(by) => examination.blind_to(
                by,
                Stage::Udp,
                format!(
                    "{by} UDP errors were not yet attributed to a cause when the counters were read"
                ),
                Some("more snapshots".to_owned()),
            ),
        }
    }
    if lost == 0 {
        return 0;
    }
    let all = evidence("Udp: InErrors that no other counter explains", lost);
    let (filter, length) =
        (examination.reason("SOCKET_FILTER"), examination.reason("PKT_TOO_SMALL"));
    let by = |reason: &Option<Evidence>| reason.as_ref().map_or(0, |it| it.rise);
    let (by_filter, by_length) = (by(&filter), by(&length));
    let (filtered, rest) = match at_sockets {
        Some(at_sockets) => (at_sockets.min(lost), lost.saturating_sub(at_sockets)),
        None if by_filter > 0 || by_length > 0 => {
            let filtered = by_filter.min(lost);
            (filtered, lost.saturating_sub(filtered))
        }
        None => {
            examination.find(Stage::Udp, Cause::Other, lost, certain_if(false), vec![all]);
            return 0;
        }
    };
    // If almost all errors are of the same kind, the kernel only counted the few remaining ones
    // slightly later.
    let (filtered, rest) = match (agree(filtered, lost), agree(rest, lost)) {
        (true, _) => (lost, 0),
        (_, true) => (0, lost),
        _ => (filtered, rest),
    };
    let at_sockets = evidence("socket drops that no other counter explains", filtered);
    let mut evidence_of_filter = vec![all.clone(), at_sockets];
    evidence_of_filter.extend(filter);
    let certainty = certain_if(agree(by_filter, filtered));
    examination.find(Stage::Socket, Cause::SocketFilter, filtered, certainty, evidence_of_filter);
    let mut evidence_of_length = vec![all];
    evidence_of_length.extend(length);
    let certainty = certain_if(agree(by_length, rest));
    examination.find(Stage::Udp, Cause::BadLength, rest, certainty, evidence_of_length);
    filtered
}

/// Returns, for each snapshot, the number of UDP errors without a more specific counter.
fn unexplained(examination: &Examination<'_>, table: Table, prefix: &str) -> Vec<i128> {
    let of =
        |name: &str| above_first(&examination.span.protocol(table, &format!("{prefix}{name}")));
    let errors = of("InErrors");
    let kinds = [of("RcvbufErrors"), of("InCsumErrors"), of("MemErrors")];
    let at = |(place, errors): (usize, &Option<u64>)| {
        let known = |kind: &Vec<Option<u64>>| kind.get(place).copied().flatten().unwrap_or(0);
        let known = kinds.iter().map(known).fold(0, u64::saturating_add);
        errors.map(|errors| i128::from(errors).saturating_sub(i128::from(known)))
    };
    errors.iter().enumerate().filter_map(at).collect()
}
