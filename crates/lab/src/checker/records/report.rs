//! A stack's report after an event, together with the checker's own records of that event.

use clearway_congestion::Phase;
use clearway_transport::Metrics;

use super::{Round, Tally};

/// The changes in a controller from one report to the next.
#[derive(Clone, Copy, Debug)]
pub(in crate::checker) struct Change {
    /// The effective window of the controller: during recovery, the window that recovery leads to,
    /// which is the slow start threshold (RFC 9937).
    pub(in crate::checker) before: u64,
    pub(in crate::checker) after: u64,
    /// Whether the controller reduced its window in response to congestion.
    pub(in crate::checker) is_cut: bool,
    /// Whether the controller undid a reduction.
    pub(in crate::checker) is_undo: bool,
}

/// Returns a controller's effective window.
pub(in crate::checker) fn effective_window(metrics: &Metrics) -> u64 {
    let congestion = &metrics.congestion;
    match (congestion.phase, congestion.slow_start_threshold) {
        (Phase::Recovery, Some(threshold)) => threshold,
        _ => congestion.window,
    }
}

impl Change {
    pub(in crate::checker) fn between(before: &Metrics, after: &Metrics) -> Self {
        let (old, new) = (&before.congestion, &after.congestion);
        Self {
            before: effective_window(before),
            after: effective_window(after),
            is_cut: new.congestion_events > old.congestion_events,
            is_undo: new.undone_events > old.undone_events,
        }
    }
}

/// A report, together with the records that it is compared with.
#[derive(Clone, Copy, Debug)]
pub(in crate::checker) struct Report<'a> {
    pub(in crate::checker) before: &'a Metrics,
    pub(in crate::checker) after: &'a Metrics,
    pub(in crate::checker) tally: &'a Tally,
    pub(in crate::checker) change: Change,
    /// The round that ended with this event.
    pub(in crate::checker) round: Option<Round>,
}
