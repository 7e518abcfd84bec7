//! S29: nothing learned about one path is used on another path.

use clearway_transport::Metrics;

use crate::checker::properties::Property;
use crate::checker::records::{EndpointRecords, Report, Tally};
use crate::checker::rule::{Rule, Verdict};

#[derive(Debug, Default)]
pub(in crate::checker) struct NewPath {
    /// Whether the peer has moved to another IP address and the endpoint has not reported since
    /// then.
    is_awaited: bool,
}

impl Rule for NewPath {
    const PROPERTY: Property = Property::S29;

    fn on_moved(&mut self, records: &EndpointRecords) {
        self.is_awaited |= records.is_at_other_host;
    }

    fn on_report(&mut self, records: &EndpointRecords, report: &Report<'_>) -> Verdict {
        self.check(records, report.after, report.tally)
    }

    fn on_quiet(&mut self, records: &EndpointRecords, metrics: &Metrics) -> Verdict {
        self.check(records, metrics, &Tally::default())
    }
}

impl NewPath {
    /// Checks the first report on the new path: it must contain the initial values, and only
    /// changes that the same event may have made.
    fn check(&mut self, records: &EndpointRecords, metrics: &Metrics, tally: &Tally) -> Verdict {
        if !core::mem::take(&mut self.is_awaited) {
            return Ok(());
        }
        let (window, initial) = (metrics.congestion.window, records.config.initial_window);
        let is_congested = tally.lost > 0 || tally.ce_marks > 0;
        let least = if is_congested { 0 } else { initial };
        if !(least..=initial.saturating_add(tally.acked)).contains(&window) {
            return Err(format!(
                "the window is {window} bytes after the peer's IP address changed; a new path begins with {initial}"
            ));
        }
        let threshold = metrics.congestion.slow_start_threshold.filter(|_| !tally.has_event());
        if let Some(threshold) = threshold {
            return Err(format!(
                "the slow start threshold is {threshold} bytes after the peer's IP address changed; a new path begins \
                 without one"
            ));
        }
        match metrics.rtt.filter(|_| tally.rtt.is_none()) {
            Some(rtt) => Err(format!(
                "the round-trip time is {:?} after the peer's IP address changed; there was no sample on the new path",
                rtt.smoothed
            )),
            None => Ok(()),
        }
    }
}
