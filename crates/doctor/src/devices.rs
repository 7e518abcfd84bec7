//! Access to the devices in snapshots, by name.

use std::collections::BTreeSet;

use crate::examination::Examination;
use crate::{Device, Snapshot};

/// Returns the distinct names of the devices.
pub(crate) fn names(snapshots: &[&Snapshot]) -> BTreeSet<String> {
    let seen = snapshots.iter().filter_map(|it| it.devices.seen());
    seen.flat_map(|devices| devices.keys().cloned()).collect()
}

/// Returns the device with this name, if it is present.
pub(crate) fn device<'a>(snapshot: &'a Snapshot, name: &str) -> Option<&'a Device> {
    snapshot.devices.seen()?.get(name)
}

/// Returns the rise of a device's statistic; 0 if the device does not have it.
pub(crate) fn statistic(examination: &mut Examination<'_>, name: &str, counter: &str) -> u64 {
    let readings = examination.span.values(|it| device(it, name)?.statistics.get(counter).copied());
    let rise = examination.known_rise(&format!("{name}: {counter}"), &readings);
    rise.map_or(0, |rise| rise.total)
}
