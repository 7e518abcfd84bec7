//! Softnet: the backlog of each CPU.

use std::collections::{BTreeMap, BTreeSet};

use crate::change::agree;
use crate::examination::{Examination, certain_if, evidence};
use crate::{Cause, Evidence, SoftnetCpu, Stage};

/// Packets dropped at the CPUs' backlogs, on the whole host.
pub(crate) struct Backlogs {
    pub(crate) dropped: u64,
    evidence: Vec<Evidence>,
}

/// Adds up the CPUs' counters.
pub(crate) fn measure<'a>(examination: &mut Examination<'a>) -> Backlogs {
    let mut backlogs = Backlogs { dropped: 0, evidence: Vec::new() };
    if !examination.needs(Stage::Softnet, "the CPUs' backlogs", |it| &it.softnet) {
        return backlogs;
    }
    type ByCpu<'a> = BTreeMap<u32, &'a SoftnetCpu>;
    let by_cpu = |softnet: &'a Vec<SoftnetCpu>| -> ByCpu<'a> {
        softnet.iter().map(|it| (it.cpu, it)).collect()
    };
    let seen: Vec<Option<ByCpu<'a>>> = examination.span.values(|it| it.softnet.seen().map(by_cpu));
    let cpus: BTreeSet<u32> = seen.iter().flatten().flat_map(|it| it.keys().copied()).collect();
    type Get = fn(&SoftnetCpu) -> u64;
    let counters: [(&str, Get); 3] = [
        ("dropped", |it| it.dropped),
        ("flow_limit", |it| it.flow_limited),
        ("time_squeeze", |it| it.time_squeezed),
    ];
    for (name, get) in counters {
        let mut sum = 0_u64;
        for cpu in &cpus {
            let at = |softnet: &Option<ByCpu<'a>>| Some(get(softnet.as_ref()?.get(cpu)?));
            let readings: Vec<Option<u64>> = seen.iter().map(at).collect();
            let label = format!("softnet_stat: {name} of CPU {cpu}");
            let rise = examination.rise_of(Stage::Softnet, &label, &readings).unwrap_or(0);
            sum = sum.saturating_add(rise);
        }
        backlogs.evidence.push(evidence(format!("softnet_stat: {name}"), sum));
        if name == "dropped" {
            backlogs.dropped = sum;
        }
    }
    backlogs
}

/// Compares the backlog drops with the devices' `rx_dropped`, which also rises if a backlog is
/// full. The backlog counters cover the whole host; device counters cover only this namespace.
pub(crate) fn examine(
    examination: &mut Examination<'_>,
    backlogs: Backlogs,
    rx_dropped: Option<u64>,
) {
    let Backlogs { dropped, mut evidence } = backlogs;
    if dropped == 0 {
        return;
    }
    match rx_dropped {
        Some(0) => examination.blind_to(
            dropped,
            Stage::Softnet,
            format!(
                "CPUs' backlogs dropped {dropped} packets that no device of this namespace \
                counts: they probably belong to another namespace of this host"
            ),
            None,
        ),
        Some(rx_dropped) => {
            evidence.push(crate::examination::evidence("rx_dropped of all devices", rx_dropped));
            let lost = dropped.min(rx_dropped);
            let certainty = certain_if(agree(dropped, rx_dropped));
            examination.find(Stage::Softnet, Cause::BacklogFull, lost, certainty, evidence);
        }
        None => {
            let certainty = certain_if(false);
            examination.find(Stage::Softnet, Cause::BacklogFull, dropped, certainty, evidence);
        }
    }
}
