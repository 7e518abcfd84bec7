//! XDP: packets that a program dropped, and sockets of AF_XDP that were full.

use std::collections::BTreeSet;

use super::device::{device, driver, names, statistic};
use super::ip;
use crate::change::covers;
use crate::examination::{Examination, certain_if, explain};
use crate::span::Table;
use crate::{Cause, Evidence, Reading, Stage};

pub(crate) fn examine(examination: &mut Examination<'_>) {
    let names = names(&examination.span.snapshots);
    let (mut lost, mut evidence, mut hidden) = (0_u64, Vec::new(), Vec::new());
    for name in &names {
        lost = lost.saturating_add(driver(examination, name, is_drop, &mut evidence));
        let mut seen = examination.span.snapshots.iter().filter_map(|it| device(it, name));
        let last = seen.next_back().filter(|device| device.has_xdp);
        if let Some(device) = last {
            match &device.driver {
                Reading::Seen(driver) if driver.statistics.keys().any(|key| is_drop(key)) => {}
                Reading::Seen(_) => {
                    hidden.push((format!("{name}: its driver does not count what XDP drops"), None))
                }
                Reading::Missing(missing) => {
                    let part = format!("{name}: what its XDP program drops");
                    hidden.push(explain(&part, missing));
                }
            }
        }
    }
    let reason = examination.reason("XDP");
    let mut by_reason = reason.as_ref().map_or(0, |it| it.rise);
    let has_program = !hidden.is_empty();
    evidence.extend(reason);
    if has_program && by_reason == 0 {
        by_reason = without_reason(examination, &names, &mut evidence);
    }
    if lost > 0 {
        // That a program dropped it is what the driver says; that another counter says so, too, is needed to be certain.
        examination.find(
            Stage::Xdp,
            Cause::Xdp,
            lost,
            certain_if(covers(by_reason, lost)),
            evidence,
        );
    } else if has_program && by_reason > 0 {
        examination.find(Stage::Xdp, Cause::Xdp, by_reason, certain_if(false), evidence);
    } else {
        for (why, needed) in hidden {
            examination.blind(Stage::Xdp, why, needed);
        }
    }
}

/// What a device with a program received and IP did not, if the kernel dropped as many packets without saying why: a
/// program's drops often have no reason, and what a program sends on or gives to AF_XDP is not dropped.
fn without_reason(
    examination: &mut Examination<'_>,
    names: &BTreeSet<String>,
    evidence: &mut Vec<Evidence>,
) -> u64 {
    let received = [(Table::Ip, "InReceives"), (Table::Ipv6, "Ip6InReceives")];
    let (by_ip, _) = ip::sum(examination, &received);
    let has_program = |name: &&String| {
        let mut seen = examination.span.snapshots.iter().rev();
        seen.find_map(|it| device(it, name)).is_some_and(|device| device.has_xdp)
    };
    let with_program: Vec<String> = names.iter().filter(has_program).cloned().collect();
    let by_devices = with_program
        .iter()
        .map(|name| statistic(examination, name, "rx_packets"))
        .fold(0, u64::saturating_add);
    let missing = by_devices.saturating_sub(by_ip);
    let dropped = examination.reason("NOT_SPECIFIED");
    // Others of the host may have dropped some, too.
    let is_dropped = dropped.as_ref().is_some_and(|it| covers(it.rise, missing));
    if missing == 0 || !is_dropped {
        return 0;
    }
    evidence.push(crate::examination::evidence("received by devices and not by IP", missing));
    evidence.extend(dropped);
    missing
}

/// Whether a driver's statistic counts packets that XDP lost.
fn is_drop(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_of_xdp = name.contains("xdp") || name.contains("xsk");
    let is_loss = ["drop", "err", "full", "aborted", "invalid"].iter().any(|it| name.contains(it));
    is_of_xdp && is_loss
}
