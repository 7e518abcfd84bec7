//! The thread that reads a socket, and how many datagrams it read.

use std::collections::BTreeSet;

use crate::change::{above_first, rise};
use crate::examination::Examination;
use crate::queue::Reader;
use crate::span::Table;
use crate::{Family, Process, RunState, Snapshot, Socket, SocketKey, Thread};

/// The readers of a socket, as shown by each snapshot.
pub(crate) struct Readers {
    /// The ID and name of the process that reads the socket.
    pub(crate) process: Option<(u32, String)>,
    /// The name of the thread that is assumed to be the reader.
    pub(crate) thread: Option<String>,
    /// Whether no other thread of the socket's owners ran.
    pub(crate) is_only_thread: bool,
    /// Whether another thread of the owners has a similar name and ran less than half as long: it
    /// reads other sockets, and could read more.
    pub(crate) has_idle_sibling: bool,
    pub(crate) threads: Vec<Option<Reader>>,
    /// Number of datagrams read, relative to the first snapshot, as far as it is known.
    pub(crate) reads: Vec<Option<u64>>,
    /// Whether all of the counted reads are from this socket; otherwise other sockets may have read
    /// some of the datagrams.
    pub(crate) are_reads_own: bool,
}

/// Identity of a thread of a process; the start time distinguishes the process from another one
/// with the same ID.
type Place = (u32, u64, u32);

pub(crate) fn of(examination: &Examination<'_>, key: SocketKey) -> Readers {
    let snapshots = &examination.span.snapshots;
    let owners: BTreeSet<u32> = snapshots
        .iter()
        .filter_map(|it| it.sockets.seen()?.get(&key))
        .flat_map(|it| it.owners.iter().copied())
        .collect();
    let places = places(snapshots, &owners);
    // The thread that ran or waited for a CPU the longest.
    let time = |place: &Place| {
        let of = |get: fn(&Thread) -> u64| {
            let readings = examination.span.values(|it| thread(it, *place).map(get));
            rise(&readings).map_or(0, |rise| rise.total)
        };
        let counted = of(|it| it.ran).saturating_add(of(|it| it.waited));
        // A wait that has not yet ended is not yet counted.
        counted.max(runnable(snapshots, *place))
    };
    let times: Vec<(u64, Place)> = places.iter().map(|place| (time(place), *place)).collect();
    let chosen = times
        .iter()
        .max_by_key(|(time, (process, _, thread))| (*time, process == thread))
        .map(|(_, place)| *place);
    let awake = times.iter().filter(|(time, _)| *time > 0).count();
    let has_idle_sibling = chosen.is_some_and(|place| has_idle_sibling(snapshots, place, &times));
    let named = chosen.and_then(|place| {
        let mut seen = snapshots.iter().rev();
        seen.find_map(|it| {
            Some((process(it, place)?.name.clone(), thread(it, place)?.name.clone()))
        })
    });
    let (process, name) = named.unzip();
    let (reads, are_reads_own) = reads(examination, key);
    Readers {
        process: chosen.map(|(id, ..)| id).zip(process),
        thread: name,
        is_only_thread: chosen.is_some() && awake <= 1,
        has_idle_sibling,
        threads: chosen.map_or_else(Vec::new, |place| readers(examination, place)),
        reads,
        are_reads_own,
    }
}

/// `times` is how long each thread ran or waited for a CPU.
fn has_idle_sibling(snapshots: &[&Snapshot], reader: Place, times: &[(u64, Place)]) -> bool {
    // The names of threads that do the same job differ only by a number.
    let kind = |place: Place| {
        let name = snapshots.iter().rev().find_map(|it| Some(thread(it, place)?.name.as_str()));
        name.map(|name| name.trim_end_matches(|it: char| it.is_ascii_digit()))
    };
    let own = times.iter().find(|(_, place)| *place == reader).map_or(0, |(time, _)| *time);
    times.iter().any(|(time, place)| {
        let is_idle = *time > 0 && *time < own.div_euclid(2);
        *place != reader && is_idle && kind(*place) == kind(reader)
    })
}

/// Returns for how many nanoseconds a thread was runnable, as far as its states in consecutive
/// snapshots show.
fn runnable(snapshots: &[&Snapshot], place: Place) -> u64 {
    let is_runnable =
        |it: &Snapshot| thread(it, place).is_some_and(|it| it.state == RunState::Runnable);
    let pairs = snapshots.iter().zip(snapshots.iter().skip(1));
    let both = pairs.filter(|(from, to)| is_runnable(from) && is_runnable(to));
    both.map(|(from, to)| to.taken.saturating_sub(from.taken)).fold(0, u64::saturating_add)
}

fn places(snapshots: &[&Snapshot], owners: &BTreeSet<u32>) -> BTreeSet<Place> {
    let seen = snapshots.iter().filter_map(|it| it.processes.seen());
    let of_owners = seen.flat_map(|it| owners.iter().filter_map(|id| Some((*id, it.get(id)?))));
    let of_process = |(id, process): (u32, &Process)| {
        let (started, threads) = (process.started, process.threads.keys().copied());
        threads.map(|thread| (id, started, thread)).collect::<Vec<_>>()
    };
    of_owners.flat_map(of_process).collect()
}

fn process(it: &Snapshot, (id, started, _): Place) -> Option<&Process> {
    it.processes.seen()?.get(&id).filter(|process| process.started == started)
}

fn thread(it: &Snapshot, place: Place) -> Option<&Thread> {
    process(it, place)?.threads.get(&place.2)
}

fn readers(examination: &Examination<'_>, place: Place) -> Vec<Option<Reader>> {
    let span = &examination.span;
    let ran = above_first(&span.values(|it| Some(thread(it, place)?.ran)));
    let waited = above_first(&span.values(|it| Some(thread(it, place)?.waited)));
    let throttled = above_first(&span.values(|it| {
        let throttling = process(it, place)?.throttling.as_ref()?;
        Some(throttling.throttled_microseconds.saturating_mul(1_000))
    }));
    let states = span.values(|it| Some(thread(it, place)?.state));
    let at = |(place, state): (usize, &Option<_>)| {
        let of = |readings: &Vec<Option<u64>>| readings.get(place).copied().flatten();
        let throttled = of(&throttled).unwrap_or(0);
        Some(Reader { state: (*state)?, ran: of(&ran)?, waited: of(&waited)?, throttled })
    };
    states.iter().enumerate().map(at).collect()
}

/// Minimum CPU time that a thread needs to read a datagram, in nanoseconds: in measurements, the
/// system call alone took 300 to 430.
const LEAST_COST: u64 = 200;

/// Number of the namespace's counted datagrams that other sockets may have read.
enum Others {
    /// Other sockets read at most this many.
    AtMost(u64),
    /// Other sockets read at most this many, and datagrams were seen in their queues.
    Some(u64),
    /// Other sockets may have read any number; but no datagram was ever seen in their queues, so
    /// they may have read none.
    Unknown,
    /// Other sockets may have read any number, and probably read some.
    Many,
}

/// Returns the number of datagrams read from this socket, per snapshot, and whether at least 90 %
/// of them were certainly read from this socket.
fn reads(examination: &Examination<'_>, key: SocketKey) -> (Vec<Option<u64>>, bool) {
    let span = &examination.span;
    let Some(socket) = span.snapshots.iter().find_map(|it| it.sockets.seen()?.get(&key)) else {
        return (Vec::new(), false);
    };
    let of_namespace = reads_of_namespace(examination, socket.family);
    let total = of_namespace.iter().flatten().max().copied().unwrap_or(0);
    let others = others(examination, key, socket);
    match others {
        Others::AtMost(count) | Others::Some(count) if count <= total.div_euclid(10) => {
            return (of_namespace, true);
        }
        Others::AtMost(_) | Others::Some(_) | Others::Unknown | Others::Many => {}
    }
    let mut owners = socket.owners.iter();
    match (owners.next(), owners.next()) {
        (Some(owner), None) if has_one_socket(examination, *owner) => {
            let told = |it: &Snapshot| {
                let applications = it.applications.seen()?;
                let own = applications.values().find(|it| it.process == *owner);
                own.map(|it| it.received)
            };
            let told = above_first(&span.values(told));
            if told.iter().any(Option::is_some) {
                return (told, true);
            }
        }
        _ => {}
    }
    match others {
        Others::Many | Others::Some(_) => (Vec::new(), false),
        Others::AtMost(_) | Others::Unknown => (of_namespace, false),
    }
}

fn reads_of_namespace(examination: &Examination<'_>, family: Family) -> Vec<Option<u64>> {
    let of_ipv4 = above_first(&examination.span.protocol(Table::Udp, "InDatagrams"));
    let of_ipv6 = above_first(&examination.span.protocol(Table::Ipv6, "Udp6InDatagrams"));
    let sum = |(reads, more): (&Option<u64>, &Option<u64>)| match family {
        Family::V4 => *reads,
        Family::V6 => Some((*reads)?.saturating_add((*more)?)),
    };
    of_ipv4.iter().zip(&of_ipv6).map(sum).collect()
}

fn has_one_socket(examination: &Examination<'_>, owner: u32) -> bool {
    let sockets = |it: &&Snapshot| {
        let sockets = it.sockets.seen()?;
        Some(sockets.values().filter(|it| it.owners.contains(&owner)).count())
    };
    examination.span.snapshots.iter().filter_map(sockets).all(|count| count <= 1)
}

/// A process that ran only for a short time can have read only a few datagrams.
fn others(examination: &Examination<'_>, key: SocketKey, own: &Socket) -> Others {
    let snapshots = &examination.span.snapshots;
    let (mut owners, mut has_unknown, mut are_used) = (BTreeSet::new(), false, false);
    let seen = snapshots.iter().filter_map(|it| it.sockets.seen());
    for (_, socket) in seen.flatten().filter(|(other, _)| **other != key) {
        let is_of_group = socket.local == own.local;
        let is_of_reader = socket.owners.iter().any(|owner| own.owners.contains(owner));
        let is_used = socket.receive_queue > 0;
        // If the owner is known, its run time limits how many datagrams it read.
        if is_of_group || is_of_reader || (is_used && socket.owners.is_empty()) {
            return Others::Many;
        }
        are_used |= is_used;
        has_unknown |= socket.owners.is_empty();
        owners.extend(socket.owners.iter().copied());
    }
    let mut most = 0_u64;
    for owner in owners {
        match ran(examination, owner) {
            Some(nanoseconds) => most = most.saturating_add(nanoseconds.div_euclid(LEAST_COST)),
            None => has_unknown = true,
        }
    }
    match (has_unknown, are_used) {
        (false, false) => Others::AtMost(most),
        (false, true) => Others::Some(most),
        (true, false) => Others::Unknown,
        (true, true) => Others::Many,
    }
}

/// Returns for how many nanoseconds a process ran between the first and the last snapshot; `None`
/// if it was not present all the time.
fn ran(examination: &Examination<'_>, id: u32) -> Option<u64> {
    let of = |it: &Snapshot| {
        let process = it.processes.seen()?.get(&id)?;
        let ran = process.threads.values().fold(0_u64, |sum, it| sum.saturating_add(it.ran));
        Some((process.started, process.threads.keys().copied().collect::<Vec<_>>(), ran))
    };
    let snapshots = &examination.span.snapshots;
    let (started, threads, from) = of(snapshots.first()?)?;
    let (same_start, same_threads, to) = of(snapshots.last()?)?;
    (started == same_start && threads == same_threads).then(|| to.checked_sub(from))?
}
