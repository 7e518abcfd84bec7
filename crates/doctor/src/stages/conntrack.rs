//! Connection tracking: packets that it dropped because its table was full or two packets of one
//! flow collided.

use crate::examination::{Examination, certain_if, evidence};
use crate::{Cause, Evidence, Missing, Reading, Stage};

/// Packets dropped by connection tracking.
#[derive(Default)]
pub(crate) struct Tracked {
    /// Packets dropped because the connection tracking table was full.
    pub(crate) dropped: u64,
    /// Packets dropped because another packet had created the same entry first.
    pub(crate) collided: u64,
    early_drops: u64,
    /// Whether a snapshot showed the table full.
    is_full: bool,
}

pub(crate) fn measure(examination: &mut Examination<'_>) -> Tracked {
    let last = examination.span.snapshots.last().map(|it| &it.conntrack);
    if let Some(Reading::Missing(missing)) = last {
        // Drops by connection tracking also appear as a gap between IP's counters, so no loss is
        // hidden here.
        if !matches!(missing, Missing::Kernel) {
            let (why, needed) = crate::examination::explain("connection tracking", missing);
            examination.unseen(Stage::Conntrack, why, needed);
        }
    }
    let mut of = |name: &str| {
        let readings =
            examination.span.values(|it| it.conntrack.seen()?.counters.get(name).copied());
        examination.rise_of(Stage::Conntrack, &format!("conntrack: {name}"), &readings).unwrap_or(0)
    };
    let (dropped, collided) = (of("drop"), of("insert_failed"));
    let early_drops = of("early_drop");
    let mut seen = examination.span.snapshots.iter().filter_map(|it| it.conntrack.seen());
    // When the table is about to overflow, the kernel searches it for entries to evict, so it may
    // have room again when it is read.
    let is_full = seen.any(|it| {
        it.max.is_some_and(|max| max > 0 && it.count >= max.saturating_sub(max.div_ceil(20)))
    });
    Tracked { dropped, collided, early_drops, is_full }
}

/// `missing` is the number of packets that IP received and did not deliver, and that no other
/// counter explains.
pub(crate) fn examine(examination: &mut Examination<'_>, tracked: &Tracked, missing: u64) {
    let evidence = |name: &str, rise| -> Evidence { evidence(format!("conntrack: {name}"), rise) };
    examination.find(
        Stage::Conntrack,
        Cause::ConntrackFull,
        tracked.dropped,
        certain_if(tracked.is_full || missing >= tracked.dropped),
        vec![
            evidence("drop", tracked.dropped),
            evidence("early_drop", tracked.early_drops),
            crate::examination::evidence("Ip: packets received but not delivered", missing),
        ],
    );
    examination.find(
        Stage::Conntrack,
        Cause::Other,
        tracked.collided,
        certain_if(false),
        vec![evidence("insert_failed", tracked.collided)],
    );
}
