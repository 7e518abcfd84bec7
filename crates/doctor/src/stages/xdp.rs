//! XDP: packets dropped by an XDP program, and packets dropped because an AF_XDP socket had no
//! room.

use std::collections::{BTreeMap, BTreeSet};

use super::driver::{self, Meaning};
use super::ip;
use crate::change::{agree, covers};
use crate::devices::{device, names, statistic};
use crate::examination::{Examination, certain_if, evidence, explain};
use crate::span::Table;
use crate::{Cause, Evidence, Missing, Reading, Snapshot, SocketKey, Stage, XdpSocket};

/// The counters of packets that an AF_XDP socket dropped.
const LOST: [&str; 3] = ["rx_dropped", "rx_invalid", "rx_full"];

/// Packets dropped by XDP.
#[derive(Default)]
pub(crate) struct Lost {
    /// Packets dropped by programs, as counted by the driver, by device name.
    programs: BTreeMap<String, u64>,
    evidence: Vec<Evidence>,
    /// Packets dropped by AF_XDP sockets, with the name of the device if it is known.
    sockets: Vec<OfSocket>,
}

struct OfSocket {
    device: Option<String>,
    lost: u64,
    evidence: Vec<Evidence>,
}

impl Lost {
    /// Returns the number of packets lost at a device: those dropped by its program, and those
    /// dropped by AF_XDP sockets.
    pub(crate) fn at(&self, device: &str) -> (u64, u64) {
        let of_sockets = self.sockets.iter().filter(|it| it.device.as_deref() == Some(device));
        let by_sockets = of_sockets.map(|it| it.lost).fold(0, u64::saturating_add);
        (self.programs.get(device).copied().unwrap_or(0), by_sockets)
    }
}

pub(crate) fn measure(examination: &mut Examination<'_>) -> Lost {
    let mut lost = Lost::default();
    for name in names(&examination.span.snapshots) {
        let rises = driver::rises(examination, &name, &mut Vec::new(), &mut lost.evidence);
        lost.programs.insert(name, rises.xdp);
    }
    measure_sockets(examination, &mut lost);
    lost
}

fn socket(snapshot: &Snapshot, key: SocketKey) -> Option<&XdpSocket> {
    snapshot.xdp_sockets.seen()?.get(&key)
}

fn measure_sockets(examination: &mut Examination<'_>, lost: &mut Lost) {
    let seen = examination.span.snapshots.iter().filter_map(|it| it.xdp_sockets.seen());
    let keys: BTreeSet<SocketKey> = seen.flat_map(|it| it.keys().copied()).collect();
    for key in keys {
        let find = |it: &&Snapshot| Some((socket(it, key)?.clone(), it.devices.seen()?.clone()));
        let Some((last, devices)) = examination.span.snapshots.iter().rev().find_map(find) else {
            continue;
        };
        let of_index = |(_, it): &(&String, &crate::Device)| Some(it.index) == last.device;
        let device = devices.iter().find(of_index).map(|(name, _)| name.clone());
        let name = described(&last, device.as_deref());
        if let Reading::Missing(missing) = &last.statistics {
            let (why, needed) = explain(&format!("losses of {name}"), missing);
            examination.blind(Stage::Xdp, why, needed);
        }
        let (mut sum, mut all) = (0_u64, Vec::new());
        for counter in LOST.into_iter().chain(["fill_ring_empty"]) {
            let readings = examination
                .span
                .values(|it| socket(it, key)?.statistics.seen()?.get(counter).copied());
            let label = format!("{name}: {counter}");
            let rise = examination.known_rise(&label, &readings).map_or(0, |rise| rise.total);
            all.push(evidence(label, rise));
            if LOST.contains(&counter) {
                sum = sum.saturating_add(rise);
            }
        }
        lost.sockets.push(OfSocket { device, lost: sum, evidence: all });
    }
}

/// Returns a human-readable description of an AF_XDP socket.
fn described(socket: &XdpSocket, device: Option<&str>) -> String {
    match (device, socket.queue) {
        (Some(device), Some(queue)) => format!("the AF_XDP socket at {device}, queue {queue}"),
        _ => format!("the AF_XDP socket with inode {}", socket.inode),
    }
}

/// Records the packets dropped by XDP.
pub(crate) fn examine(examination: &mut Examination<'_>, lost: Lost) {
    let Lost { programs, evidence, sockets } = lost;
    let reason = examination.reason("XDP");
    let by_reason = reason.as_ref().map_or(0, |it| it.rise);
    let by_programs = programs.values().copied().fold(0, u64::saturating_add);
    let by_sockets = sockets.iter().map(|it| it.lost).fold(0, u64::saturating_add);
    examine_sockets(examination, sockets, by_reason.saturating_sub(by_programs));
    // Packets dropped because an AF_XDP socket had no room have the same drop reason.
    let by_reason = by_reason.saturating_sub(by_sockets);
    examine_programs(examination, &programs, by_reason, evidence, reason);
}

fn examine_sockets(examination: &mut Examination<'_>, sockets: Vec<OfSocket>, by_reason: u64) {
    let ends = [examination.span.snapshots.first(), examination.span.snapshots.last()];
    let missing = ends.into_iter().flatten().find_map(|it| match &it.xdp_sockets {
        Reading::Missing(missing) => Some(missing.clone()),
        Reading::Seen(_) => None,
    });
    match missing {
        // The snapshot was saved by an earlier version that did not read these sockets.
        Some(Missing::NotAsked) => {
            let (why, needed) = explain("AF_XDP sockets", &Missing::NotAsked);
            examination.unseen(Stage::Xdp, why, needed);
        }
        Some(Missing::Kernel) => {
            let why = "there are AF_XDP sockets, but this kernel does not report their drops to \
                other processes";
            let needed = "a kernel with XDP_SOCKETS_DIAG, or the program's own XDP_STATISTICS";
            examination.blind(Stage::Xdp, why.to_owned(), Some(needed.to_owned()));
        }
        Some(missing) => {
            let (why, needed) = explain("AF_XDP sockets", &missing);
            examination.blind(Stage::Xdp, why, needed);
        }
        None => {}
    }
    let all = sockets.iter().map(|it| it.lost).fold(0, u64::saturating_add);
    for socket in sockets {
        let is_certain = agree(by_reason, all);
        let certainty = certain_if(is_certain);
        examination.find(Stage::Xdp, Cause::XdpSocket, socket.lost, certainty, socket.evidence);
    }
}

/// Records packets dropped by XDP programs, as counted by the devices' drivers, or otherwise by the
/// kernel's drop reasons.
fn examine_programs(
    examination: &mut Examination<'_>,
    programs: &BTreeMap<String, u64>,
    mut by_reason: u64,
    mut evidence: Vec<Evidence>,
    reason: Option<Evidence>,
) {
    let lost = programs.values().copied().fold(0, u64::saturating_add);
    let names: BTreeSet<String> = programs.keys().cloned().collect();
    let hidden = hidden(examination, &names);
    let has_program = names.iter().any(|name| has_program(examination, name));
    evidence.extend(reason);
    if has_program && by_reason == 0 {
        by_reason = without_reason(examination, &names, &mut evidence);
    }
    // Additional drops with this reason belong to programs whose drops are not counted elsewhere.
    let rest = if agree(by_reason, lost) { 0 } else { by_reason.saturating_sub(lost) };
    // The driver attributes the drops to a program; they are certain only if another counter
    // agrees.
    let certainty = certain_if(covers(by_reason, lost));
    examination.find(Stage::Xdp, Cause::Xdp, lost, certainty, evidence.clone());
    if !hidden.is_empty() && rest > 0 {
        examination.find(Stage::Xdp, Cause::Xdp, rest, certain_if(false), evidence);
    } else {
        for (why, needed) in hidden {
            examination.blind(Stage::Xdp, why, needed);
        }
    }
}

/// Returns the devices with an XDP program whose drops are not counted, and why they are not.
fn hidden(
    examination: &Examination<'_>,
    names: &BTreeSet<String>,
) -> Vec<(String, Option<String>)> {
    let of = |name: &String| {
        let mut seen = examination.span.snapshots.iter().filter_map(|it| device(it, name));
        let device = seen.next_back().filter(|device| device.has_xdp)?;
        let is_counted = |name: &String| driver::meaning(name) == Meaning::Xdp;
        match &device.driver {
            _ if device.has_generic_xdp => {
                let why = "packets dropped by an XDP program in generic mode are visible only \
                     in the kernel's drop reasons";
                Some((format!("{name}: {why}"), None))
            }
            Reading::Seen(driver) if driver.statistics.keys().any(is_counted) => None,
            Reading::Seen(_) | Reading::Missing(Missing::Kernel) => {
                Some((format!("{name}: its driver does not count XDP drops"), None))
            }
            Reading::Missing(missing) => {
                Some(explain(&format!("{name}: packets dropped by its XDP program"), missing))
            }
        }
    };
    names.iter().filter_map(of).collect()
}

fn has_program(examination: &Examination<'_>, name: &str) -> bool {
    let mut seen = examination.span.snapshots.iter().rev();
    seen.find_map(|it| device(it, name)).is_some_and(|device| device.has_xdp)
}

/// Returns how many packets were received by a device with a program but not by IP, if the kernel
/// dropped as many without a reason. Drops by programs often have no reason, and packets that a
/// program redirects or passes to AF_XDP are not dropped.
fn without_reason(
    examination: &mut Examination<'_>,
    names: &BTreeSet<String>,
    evidence: &mut Vec<Evidence>,
) -> u64 {
    let received = [(Table::Ip, "InReceives"), (Table::Ipv6, "Ip6InReceives")];
    let (by_ip, _) = ip::sum(examination, &received);
    let with_program: Vec<&String> =
        names.iter().filter(|name| has_program(examination, name)).collect();
    let by_devices = with_program
        .iter()
        .map(|name| statistic(examination, name, "rx_packets"))
        .fold(0, u64::saturating_add);
    let missing = by_devices.saturating_sub(by_ip);
    let dropped = examination.reason("NOT_SPECIFIED");
    // Other devices of the host may have dropped some packets, too.
    let is_dropped = dropped.as_ref().is_some_and(|it| covers(it.rise, missing));
    if missing == 0 || !is_dropped {
        return 0;
    }
    evidence
        .push(crate::examination::evidence("packets received by devices but not by IP", missing));
    evidence.extend(dropped);
    missing
}

#[cfg(test)]
#[path = "xdp_tests.rs"]
mod tests;
