//! Examines sockets: which of them overflow, and why.

use std::collections::{BTreeMap, BTreeSet};

use crate::change::{above_first, agree, covers, rise};
use crate::devices;
use crate::examination::{Examination, certain_if, evidence, explain};
use crate::queue::{self, Measured, Sample, Why};
use crate::span::Table;
use crate::stages::reader;
use crate::stages::udp::Errors;
use crate::{
    Cause, Certainty, Evidence, Queue, Reading, Snapshot, Socket, SocketKey, Stage, Starvation,
};

/// Number of sockets to measure; sockets with fewer drops are only named.
const MEASURED: usize = 16;

/// Datagrams dropped at all sockets.
pub(crate) struct Drops {
    /// The sockets that dropped datagrams, with the number of drops.
    by_socket: BTreeMap<SocketKey, u64>,
    /// The total number of drops; `None` if no sockets were seen.
    pub(crate) total: Option<u64>,
}

fn socket(snapshot: &Snapshot, key: SocketKey) -> Option<&Socket> {
    snapshot.sockets.seen()?.get(&key)
}

pub(crate) fn measure(examination: &mut Examination<'_>) -> Drops {
    let mut drops = Drops { by_socket: BTreeMap::new(), total: None };
    if !examination.needs(Stage::Socket, "sockets", |it| &it.sockets) {
        return drops;
    }
    let seen = examination.span.snapshots.iter().filter_map(|it| it.sockets.seen());
    let keys: BTreeSet<SocketKey> = seen.flat_map(|it| it.keys().copied()).collect();
    let mut total = 0_u64;
    for key in keys {
        let readings = examination.span.values(|it| Some(socket(it, key)?.drops));
        // Drops of a socket that appeared or disappeared are also in the protocol counters, so no
        // losses are hidden here.
        let Some(rise) = rise(&readings) else { continue };
        if rise.went_back {
            let local = local(examination, key);
            examination.odd(format!(
                "the drop counter of {local} went backwards: another socket has the same \
                key"
            ));
        }
        if rise.total > 0 {
            drops.by_socket.insert(key, rise.total);
            total = total.saturating_add(rise.total);
        }
    }
    drops.total = Some(total);
    drops
}

fn local(examination: &Examination<'_>, key: SocketKey) -> String {
    let mut seen = examination.span.snapshots.iter().filter_map(|it| socket(it, key));
    seen.next_back().map_or_else(String::new, |it| it.local.clone())
}

/// Determines why each socket overflowed. `errors` are the errors that UDP counted.
pub(crate) fn examine(examination: &mut Examination<'_>, drops: &Drops, errors: &Errors) {
    if let Some(Reading::Missing(missing)) =
        examination.span.snapshots.last().map(|it| &it.processes)
    {
        let (why, needed) = explain("the processes that own the sockets", missing);
        examination.unseen(Stage::Socket, why, needed);
    }
    let total = drops.total.unwrap_or(0);
    let has_protocols = examination.span.snapshots.iter().any(|it| it.protocols.seen().is_some());
    let mut attributed = 0_u64;
    if errors.overflowed > 0 || !has_protocols {
        for (place, (key, lost)) in worst_first(drops).into_iter().enumerate() {
            let Some(lost) = overflowed(examination, drops, errors, (key, lost)) else { continue };
            match place < MEASURED {
                true => overflow(examination, drops, errors, (key, lost)),
                false => overflow_unmeasured(examination, key, lost),
            }
            attributed = attributed.saturating_add(lost);
        }
    }
    let unattributed = errors.overflowed.saturating_sub(attributed);
    if unattributed > 0 && !agree(errors.overflowed, attributed) {
        let queue = unmeasured("an unknown socket".to_owned());
        let mut all = errors.evidence.clone();
        all.extend(examination.reason("SOCKET_RCVBUFF"));
        let certainty = certain_if(false);
        examination.find(Stage::Socket, Cause::Overflow(queue), unattributed, certainty, all);
    }
    let explained = errors.overflowed.max(attributed).saturating_add(errors.others);
    let rest = total.saturating_sub(explained);
    if rest > 0 && !agree(total, explained) {
        unexplained(examination, drops, rest);
    }
}

/// Records socket drops that no UDP counter explains. Since version 6.18, the kernel has no other
/// counter for the case that UDP is out of memory while a socket has room in its own buffer.
fn unexplained(examination: &mut Examination<'_>, drops: &Drops, rest: u64) {
    let mut all = vec![evidence("socket drops that no UDP counter explains", rest)];
    let by_memory = examination.reason("PROTO_MEM");
    let is_known = by_memory.as_ref().is_some_and(|it| covers(it.rise, rest));
    let is_excluded = by_memory.as_ref().is_some_and(|it| it.rise == 0);
    let has_room = drops.by_socket.keys().any(|key| !is_almost_full(examination, *key));
    all.extend(by_memory);
    match is_known || (has_room && !is_excluded) {
        true => examination.find(Stage::Udp, Cause::UdpMemory, rest, certain_if(is_known), all),
        false => examination.find(Stage::Socket, Cause::Other, rest, certain_if(false), all),
    }
}

/// Returns whether a socket's queue was close to its limit at any time. A queue of equally sized
/// datagrams stops growing up to one datagram below the limit.
fn is_almost_full(examination: &Examination<'_>, key: SocketKey) -> bool {
    let mut seen = examination.span.snapshots.iter().filter_map(|it| socket(it, key));
    seen.any(|it| {
        it.receive_buffer
            .is_none_or(|size| it.receive_queue >= size.div_euclid(4).saturating_mul(3))
    })
}

/// Returns how many of the `lost` datagrams were dropped because the socket's buffer was full;
/// `None` if unknown.
fn overflowed(
    examination: &Examination<'_>,
    drops: &Drops,
    errors: &Errors,
    (key, lost): (SocketKey, u64),
) -> Option<u64> {
    match is_counted_by_protocol(drops, errors) {
        true => Some(errors.overflowed.min(lost)),
        // If sockets drop datagrams for several reasons, a full buffer is assumed for sockets whose
        // queue was seen long.
        false if errors.others > 0 && !agree(errors.overflowed, drops.total.unwrap_or(0)) => {
            was_half_full(examination, key).then_some(lost)
        }
        false => Some(lost),
    }
}

/// Returns whether a single socket drops datagrams for several reasons. UDP's counter then shows
/// how many of them were dropped because the buffer was full.
fn is_counted_by_protocol(drops: &Drops, errors: &Errors) -> bool {
    drops.by_socket.len() == 1 && errors.others > 0
}

/// Returns the sockets that dropped datagrams, most drops first.
fn worst_first(drops: &Drops) -> Vec<(SocketKey, u64)> {
    let mut worst: Vec<_> = drops.by_socket.iter().map(|(key, lost)| (*key, *lost)).collect();
    worst.sort_by_key(|(_, lost)| std::cmp::Reverse(*lost));
    worst
}

fn overflow_unmeasured(examination: &mut Examination<'_>, key: SocketKey, lost: u64) {
    let local = local(examination, key);
    let all = vec![evidence(format!("packets dropped by {local}"), lost)];
    let cause = Cause::Overflow(unmeasured(local));
    examination.find(Stage::Socket, cause, lost, certain_if(false), all);
}

fn unmeasured(local: String) -> Queue {
    Queue {
        local,
        process: None,
        arrival_rate: None,
        drain_rate: None,
        are_rates_exact: false,
        charge: None,
        buffer: None,
        buffer_seconds: None,
        sufficient_buffer: None,
    }
}

fn was_half_full(examination: &Examination<'_>, key: SocketKey) -> bool {
    let mut seen = examination.span.snapshots.iter().filter_map(|it| socket(it, key));
    seen.any(|it| it.receive_buffer.is_none_or(|size| it.receive_queue >= size.div_euclid(2)))
}

/// Records a socket that overflowed.
fn overflow(
    examination: &mut Examination<'_>,
    drops: &Drops,
    errors: &Errors,
    (key, lost): (SocketKey, u64),
) {
    let reader = reader::of(examination, key);
    let readings = match is_counted_by_protocol(drops, errors) {
        true => overflows(examination),
        false => examination.span.values(|it| Some(socket(it, key)?.drops)),
    };
    let samples = samples(examination, key, &reader, &above_first(&readings));
    let explained = errors.overflowed.saturating_add(errors.others);
    let is_agreed = agree(explained, drops.total.unwrap_or(0));
    let measured = queue::measure(&samples);
    let local = local(examination, key);
    let others_with_room = others_with_room(examination, drops, key, &reader);
    let queue = described(examination, &local, &reader, &measured);
    let cause = match measured.why {
        Why::Rate if others_with_room > 0 => Cause::HotSocket(queue),
        Why::Rate => Cause::Rate(queue),
        Why::Burst => Cause::Burst(queue),
        Why::Stopped => Cause::Starved(queue, Starvation::Stopped),
        Why::Blocked => Cause::Starved(queue, Starvation::Blocked),
        Why::CpuPressure(part) => Cause::Starved(queue, Starvation::CpuPressure(part)),
        Why::Throttled(part) => Cause::Starved(queue, Starvation::Throttled(part)),
        Why::Unknown => Cause::Overflow(queue),
    };
    let is_certain = measured.certainty == Certainty::Certain
        && is_agreed
        && match measured.why {
            Why::Stopped => true,
            // An excess of reads can only contradict that the reader was prevented from running; it
            // never proves it.
            Why::Rate | Why::Burst => reader.is_only_thread,
            _ => reader.is_only_thread && reader.are_reads_own,
        };
    let mut all = vec![evidence(format!("packets dropped by {local}"), lost)];
    all.extend(errors.evidence.iter().cloned());
    all.extend(examination.reason("SOCKET_RCVBUFF"));
    all.extend(observed(&measured, &reader, others_with_room));
    examination.find(Stage::Socket, cause, lost, certain_if(is_certain), all);
}

/// Returns evidence about the queue and its reader.
fn observed(measured: &Measured, reader: &reader::Readers, others: u64) -> Vec<Evidence> {
    let thread = reader.thread.as_deref().unwrap_or("its reader");
    let milliseconds = measured.off.map_or(0, |off| (off * 1e3) as u64);
    vec![
        evidence("snapshots between losses with the queue at least half full", measured.full),
        evidence("snapshots between losses with the queue less than half full", measured.not_full),
        evidence(
            format!("milliseconds during which {thread} was prevented from running"),
            milliseconds,
        ),
        evidence("other sockets on the same port with room in their buffers", others),
    ]
}

fn described(
    examination: &mut Examination<'_>,
    local: &str,
    reader: &reader::Readers,
    measured: &Measured,
) -> Queue {
    let datagrams = measured.charge.map(|charge| measured.buffer as f64 / charge);
    let surplus = measured.surplus.filter(|_| measured.why != Why::Burst);
    let sufficient_buffer = (measured.why == Why::Burst)
        .then(|| {
            let charge = measured.charge.or_else(|| largest_charge(examination))?;
            let held = measured.buffer as f64 + measured.longest_run as f64 * charge;
            // The kernel doubles the size passed to `SO_RCVBUF`.
            Some((held / 2.0).ceil() as u64)
        })
        .flatten();
    Queue {
        local: local.to_owned(),
        process: reader.process.clone(),
        arrival_rate: measured.arrival_rate,
        // Between bursts, the queue is empty for most of an interval, so it is unknown how fast it
        // was emptied before.
        drain_rate: measured.drain_rate.filter(|_| measured.why != Why::Burst),
        are_rates_exact: measured.arrival_rate.is_some() && reader.are_reads_own,
        charge: measured.charge,
        buffer: (measured.buffer > 0).then_some(measured.buffer),
        buffer_seconds: datagrams.zip(surplus).map(|(datagrams, surplus)| datagrams / surplus),
        sufficient_buffer,
    }
}

/// Returns the maximum number of bytes charged for a datagram of mean size, for use if the charge
/// could not be measured. It consists of the kernel's two structures, and memory of twice the next
/// power of two for the frame.
fn largest_charge(examination: &mut Examination<'_>) -> Option<f64> {
    let names = devices::names(&examination.span.snapshots);
    let mut sum = |counter: &str| {
        let of = |name: &String| devices::statistic(examination, name, counter);
        names.iter().map(of).fold(0, u64::saturating_add)
    };
    let (bytes, packets) = (sum("rx_bytes"), sum("rx_packets"));
    let frame = bytes.checked_div(packets)?.min(1 << 16);
    Some(frame.next_power_of_two().saturating_mul(2).saturating_add(576) as f64)
}

/// Returns the number of datagrams that UDP dropped because sockets had no room, over IPv4 and
/// IPv6.
fn overflows(examination: &Examination<'_>) -> Vec<Option<u64>> {
    let of_ipv4 = examination.span.protocol(Table::Udp, "RcvbufErrors");
    let of_ipv6 = examination.span.protocol(Table::Ipv6, "Udp6RcvbufErrors");
    let sum =
        |(one, other): (&Option<u64>, &Option<u64>)| Some((*one)?.wrapping_add(other.unwrap_or(0)));
    of_ipv4.iter().zip(&of_ipv6).map(sum).collect()
}

/// Returns a sample of the socket for each snapshot that shows the socket and its counters.
fn samples(
    examination: &Examination<'_>,
    key: SocketKey,
    reader: &reader::Readers,
    drops: &[Option<u64>],
) -> Vec<Sample> {
    let span = &examination.span;
    let at = |(place, drops): (usize, &Option<u64>)| {
        let snapshot = span.snapshots.get(place)?;
        let socket = socket(snapshot, key)?;
        Some(Sample {
            at: snapshot.taken,
            queue: socket.receive_queue,
            buffer: socket.receive_buffer,
            drops: (*drops)?,
            reads: reader.reads.get(place).copied().flatten(),
            reader: reader.threads.get(place).copied().flatten(),
        })
    };
    drops.iter().enumerate().filter_map(at).collect()
}

/// Returns how many other unconnected sockets receive on the same port and always had room. Sockets
/// of the same process count only if it has an idle thread for them. Otherwise, the thread that is
/// too slow may also be their reader.
fn others_with_room(
    examination: &Examination<'_>,
    drops: &Drops,
    key: SocketKey,
    reader: &reader::Readers,
) -> u64 {
    let snapshots = &examination.span.snapshots;
    let Some(own) = snapshots.iter().find_map(|it| socket(it, key)) else { return 0 };
    let Some(last) = snapshots.iter().rev().find_map(|it| it.sockets.seen()) else { return 0 };
    let is_of_group = |(other, it): &(&SocketKey, &Socket)| {
        **other != key
            && it.remote.is_none()
            && own.remote.is_none()
            && it.local == own.local
            && it.family == own.family
            && (reader.has_idle_sibling || it.owners != own.owners)
    };
    let has_room = |(other, _): &(&SocketKey, &Socket)| {
        let mut seen = snapshots.iter().filter_map(|it| socket(it, **other));
        !drops.by_socket.contains_key(*other)
            && seen.all(|it| {
                let size = it.receive_buffer.or(own.receive_buffer);
                size.is_none_or(|size| it.receive_queue < size.div_euclid(2))
            })
    };
    let (mut with_room, mut without) = (0_u64, 0_u64);
    for other in last.iter().filter(is_of_group) {
        match has_room(&other) {
            true => with_room = with_room.saturating_add(1),
            false => without = without.saturating_add(1),
        }
    }
    // If most sockets of the group overflow, the group as a whole is too slow.
    if with_room >= without { with_room } else { 0 }
}
