//! Devices: what they and their drivers dropped on receiving.

use std::collections::BTreeSet;

use crate::examination::{Examination, certain_if, evidence};
use crate::{Cause, Device, Driver, Evidence, Snapshot, Stage};

/// Errors that `rx_errors` is the sum of, in drivers that keep to the rules.
const ERRORS: [&str; 5] =
    ["rx_crc_errors", "rx_frame_errors", "rx_length_errors", "rx_over_errors", "rx_fifo_errors"];

/// Looks at all devices. `backlog` is how many packets the CPUs' backlogs dropped, which counts at a device, too.
/// Returns the sum of `rx_dropped`; `None` if no device was seen.
pub(crate) fn examine(examination: &mut Examination<'_>, backlog: u64) -> Option<u64> {
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
    // What a full backlog dropped is that stage's, as far as it goes.
    let mut of_backlog = backlog.min(dropped);
    let unhandled = examination.span.reason("UNHANDLED_PROTO").unwrap_or(0);
    for (name, losses) in found {
        let elsewhere = of_backlog.min(losses.dropped);
        of_backlog = of_backlog.saturating_sub(elsewhere);
        let mut own = losses.dropped.saturating_sub(elsewhere);
        if own > 0 && own <= unhandled {
            examination.unseen(
                Stage::Device,
                format!("{name} dropped {own} packets, as many as were of protocols that nobody takes (not IP)"),
                None,
            );
            own = 0;
        }
        let lost = losses.others.saturating_add(own).max(losses.driver);
        let is_double = losses.driver > 0 && losses.others.saturating_add(own) > 0;
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

/// The names of the devices, without repetition.
pub(crate) fn names(snapshots: &[&Snapshot]) -> BTreeSet<String> {
    let seen = snapshots.iter().filter_map(|it| it.devices.seen());
    seen.flat_map(|devices| devices.keys().cloned()).collect()
}

pub(crate) fn device<'a>(snapshot: &'a Snapshot, name: &str) -> Option<&'a Device> {
    snapshot.devices.seen()?.get(name)
}

/// A device of the same name with another index is another device, and of one that was not there all the time the rest
/// is not known.
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
        examination
            .odd(format!("device {name} was replaced by another of that name between snapshots"));
    }
    if first != last || first.is_none_or(|counters| counters.is_empty()) {
        let why = format!("device {name} or its statistics were not there all the time");
        examination.blind(Stage::Device, why, None);
    }
}

struct Losses {
    /// `rx_dropped`.
    dropped: u64,
    /// Missed packets and errors.
    others: u64,
    /// What the driver counts as dropped, other than by XDP.
    driver: u64,
    evidence: Vec<Evidence>,
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
    let driver = driver(examination, name, is_receive_drop, &mut all);
    Losses { dropped, others: missed.saturating_add(errors), driver, evidence: all }
}

/// How far a statistic of a device rose; 0 if the device does not have it.
pub(crate) fn statistic(examination: &mut Examination<'_>, name: &str, counter: &str) -> u64 {
    let readings = examination.span.values(|it| device(it, name)?.statistics.get(counter).copied());
    let rise = examination.known_rise(&format!("{name}: {counter}"), &readings);
    rise.map_or(0, |rise| rise.total)
}

/// How far the driver's statistics that `is_wanted` rose, in sum.
pub(crate) fn driver(
    examination: &mut Examination<'_>,
    name: &str,
    is_wanted: fn(&str) -> bool,
    into: &mut Vec<Evidence>,
) -> u64 {
    fn seen<'a>(it: &'a Snapshot, name: &str) -> Option<&'a Driver> {
        device(it, name)?.driver.seen()
    }
    let first = examination.span.snapshots.iter().find_map(|it| seen(it, name));
    let counters: Vec<String> = first
        .map(|driver| driver.statistics.keys().filter(|key| is_wanted(key)).cloned().collect())
        .unwrap_or_default();
    let mut sum = 0_u64;
    for counter in counters {
        let readings =
            examination.span.values(|it| seen(it, name)?.statistics.get(&counter).copied());
        let label = format!("{name}: {counter} of the driver");
        let rise = examination.known_rise(&label, &readings).map_or(0, |rise| rise.total);
        into.push(evidence(label, rise));
        sum = sum.saturating_add(rise);
    }
    sum
}

/// Whether a driver's statistic counts received packets that were dropped, other than by XDP. Each driver has names of
/// its own; these are parts that those of the common ones have.
fn is_receive_drop(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_loss = ["drop", "discard", "missed", "no_buf", "nobuf", "out_of_buffer", "no_desc"]
        .iter()
        .any(|part| name.contains(part));
    let is_of_other = name.contains("xdp") || name.contains("tx") || name.contains("xsk");
    is_loss && !is_of_other
}
