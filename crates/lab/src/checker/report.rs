//! What a stack reports of itself after an event, beside what the books say of that event.

use core::time::Duration;

use clearway_congestion::Phase;
use clearway_transport::Metrics;

use super::books::{Held, Round};

/// What wire events brought since the last report.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    /// ACK frames received that have not been reported on yet.
    pub(super) pending: u32,
    /// Bytes in flight before the first of these events.
    pub(super) prior_in_flight: Option<u64>,
    /// Bytes on the current path newly acknowledged that had not been declared lost.
    pub(super) acked: u64,
    /// Of these, those sent after the last reduction.
    pub(super) growing: u64,
    /// The latest packet acknowledged, in the order of sending.
    pub(super) largest_acked: Option<u64>,
    /// The latest of those that had not been declared lost.
    pub(super) largest_delivered: Option<u64>,
    /// Packets lost that count for congestion control, and their bytes.
    pub(super) lost: u64,
    pub(super) lost_bytes: u64,
    /// The latest of them.
    pub(super) largest_lost: Option<u64>,
    /// Packets that had been declared lost and were acknowledged after all, and their bytes.
    pub(super) spurious: u64,
    pub(super) spurious_bytes: u64,
    /// Of those, how many were lost in the current recovery period.
    pub(super) returned: u64,
    /// The round-trip time of the latest ACK that gives a sample (RFC 9002 §5.1).
    pub(super) rtt: Option<Duration>,
    /// The one-way delay of the packet that it was measured with, if it is known.
    pub(super) one_way: Option<Duration>,
    /// A packet of this round was acknowledged.
    pub(super) ends_round: bool,
    /// What congestion control held back since packets were last acknowledged or lost.
    pub(super) held: Held,
}

impl Tally {
    /// Whether anything happened that a controller is told of.
    pub(super) fn has_event(&self) -> bool {
        self.acked > 0 || self.lost > 0 || self.spurious > 0
    }
}

/// What changed in a controller from one report to the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    /// The window that it reckons with: in recovery the one that recovery leads to, which is the slow
    /// start threshold (RFC 9937).
    pub(super) before: u64,
    pub(super) after: u64,
    /// It reduced its window in answer to congestion.
    pub(super) is_cut: bool,
    /// It took a reduction back.
    pub(super) is_undo: bool,
}

/// The window that a controller reckons with.
pub(super) fn reckoned_window(metrics: &Metrics) -> u64 {
    let congestion = &metrics.congestion;
    match (congestion.phase, congestion.slow_start_threshold) {
        (Phase::Recovery, Some(threshold)) => threshold,
        _ => congestion.window,
    }
}

impl Change {
    pub(super) fn between(before: &Metrics, after: &Metrics) -> Self {
        let (old, new) = (&before.congestion, &after.congestion);
        Self {
            before: reckoned_window(before),
            after: reckoned_window(after),
            is_cut: new.congestion_events > old.congestion_events,
            is_undo: new.undone_events > old.undone_events,
        }
    }
}

/// A report, seen beside the books.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report<'a> {
    pub(super) before: &'a Metrics,
    pub(super) after: &'a Metrics,
    pub(super) tally: &'a Tally,
    pub(super) change: Change,
    /// The round that this event ended.
    pub(super) round: Option<Round>,
}
