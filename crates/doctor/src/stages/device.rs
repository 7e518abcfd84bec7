//! Devices: drops by devices and their drivers on the receive path.

use std::collections::BTreeSet;

use super::driver;
use super::xdp::Lost;
use crate::change::agree;
use crate::devices::{device, names, statistic};
use crate::examination::{Examination, certain_if, evidence};
use crate::{Cause, Evidence, Snapshot, Stage};

/// Error counters whose sum is `rx_errors`, in drivers that follow the kernel's rules.
const ERRORS: [&str; 5] =
    ["rx_crc_errors", "rx_frame_errors", "rx_length_errors", "rx_over_errors", "rx_fifo_errors"];

/// Examines all devices. `backlog` is the number of packets that the CPUs' backlogs dropped, and
/// `xdp` has the packets dropped by XDP, which some drivers also count as dropped by the device.
/// Returns the sum of `rx_dropped`; `None` if no device was seen.
pub(crate) fn examine(examination: &mut Examination<'_>, backlog: u64, xdp: &Lost) -> Option<u64> {
    if !examination.needs(Stage::Device, "devices", |it| &it.devices) {
        return None;
    }
    let names = names(&examination.span.snapshots);
    let (mut dropped, mut found) = (0_u64, Vec::new());
    for name in &names {
        note_absence(examination, name);
        let losses = losses(examination, name);
        dropped = dropped.saturating_add(losses.dropped);
        found.push((name, losses));
    }
    // Attributes as many drops as possible to a full backlog, which is another stage.
    let mut of_backlog = backlog.min(dropped);
    // A drop that is explained at one device does not explain another device's drops.
    let mut unhandled = examination.span.reason("UNHANDLED_PROTO").unwrap_or(0);
    for (name, losses) in found {
        let elsewhere = of_backlog.min(losses.dropped);
        of_backlog = of_backlog.saturating_sub(elsewhere);
        let mut own = without_xdp(losses.dropped.saturating_sub(elsewhere), xdp.at(name));
        let driver = without_xdp(losses.driver, xdp.at(name));
        if own > 0 && own <= unhandled {
            examination.unseen(
                Stage::Device,
                format!(
                    "{name} dropped {own} packets, as many as there were packets of unhandled \
                    protocols (not IP)"
                ),
                None,
            );
            unhandled = unhandled.saturating_sub(own);
            own = 0;
        }
        let lost = losses.others.saturating_add(own).max(driver);
        let is_double = driver > 0 && losses.others.saturating_add(own) > 0;
        examination.find(
            Stage::Device,
            Cause::DeviceReceive,
            lost,
            certain_if(is_double),
            losses.evidence,
        );
    }
    Some(dropped)
}

/// A device with the same name but a different index is a different device. If a device was not
/// present all the time, its remaining losses are unknown.
fn note_absence(examination: &mut Examination<'_>, name: &str) {
    let snapshots = &examination.span.snapshots;
    let indexes: BTreeSet<u32> =
        snapshots.iter().filter_map(|it| Some(device(it, name)?.index)).collect();
    let counters = |it: Option<&&Snapshot>| {
        let statistics = &device(it?, name)?.statistics;
        Some(statistics.keys().cloned().collect::<Vec<_>>())
    };
    let (first, last) = (counters(snapshots.first()), counters(snapshots.last()));
    if indexes.len() > 1 {
        examination.odd(format!(
            "device {name} was replaced by another one with that name between \
                snapshots"
        ));
    }
    if first != last || first.is_none_or(|counters| counters.is_empty()) {
        let why = format!("device {name} or its statistics were not present in all snapshots");
        examination.blind(Stage::Device, why, None);
    }
}

struct Losses {
    /// `rx_dropped`.
    dropped: u64,
    /// Missed packets and receive errors.
    others: u64,
    /// Frames that the driver counts as dropped, except by XDP.
    driver: u64,
    evidence: Vec<Evidence>,
}

/// Subtracts the drops by XDP (by the program and by AF_XDP sockets) from a count of dropped
/// frames. Drivers differ in whether they include these drops.
fn without_xdp(count: u64, (by_program, by_sockets): (u64, u64)) -> u64 {
    let both = by_program.saturating_add(by_sockets);
    match [by_program, by_sockets, both].into_iter().any(|part| agree(count, part)) {
        true => 0,
        false => count.saturating_sub(by_sockets),
    }
}

fn losses(examination: &mut Examination<'_>, name: &str) -> Losses {
    let mut all = Vec::new();
    let mut of = |examination: &mut Examination<'_>, counter: &str| {
        let rise = statistic(examination, name, counter);
        all.push(evidence(format!("{name}: {counter}"), rise));
        rise
    };
    let dropped = of(examination, "rx_dropped");
    let missed = of(examination, "rx_missed_errors");
    let errors = of(examination, "rx_errors");
    let parts = ERRORS.map(|counter| of(examination, counter));
    let errors = errors.max(parts.into_iter().fold(0, u64::saturating_add));
    let driver = driver::rises(examination, name, &mut all, &mut Vec::new());
    for Evidence { counter, rise } in driver.suspects {
        let why = format!("{counter} rose by {rise}; it is unknown whether these are losses");
        examination.blind_to(rise, Stage::Device, why, None);
    }
    Losses { dropped, others: missed.saturating_add(errors), driver: driver.dropped, evidence: all }
}
