//! L6: the pacer allows at least one window per round trip.

use core::time::Duration;

use clearway_units::{Rate, Timestamp};

use crate::checker::properties::Property;
use crate::checker::records::{EndpointRecords, Report};
use crate::checker::rule::{Rule, Verdict};

/// The granularity of timers.
const GRANULARITY: Duration = Duration::from_millis(1);

#[derive(Debug, Default)]
pub(in crate::checker) struct Pacing;

impl Rule for Pacing {
    const PROPERTY: Property = Property::L6;

    fn on_report(&mut self, records: &EndpointRecords, report: &Report<'_>) -> Verdict {
        let (Some(rate), Some(rtt)) = (report.after.pacing_rate, report.after.rtt) else {
            return Ok(());
        };
        let kind = records.config.kind;
        let window = match kind.is_loss_based() {
            true => report.change.after,
            false => report.after.congestion.minimum_window,
        };
        let Some(least) = Rate::from_transfer(window, rtt.smoothed) else { return Ok(()) };
        let least = least.scaled(kind.pacing_floor_tenths(), 10);
        if rate < least {
            return Err(format!(
                "the pacing rate is {} bytes/s; sending a window of {window} bytes in {:?} requires \
                 {}",
                rate.bytes_per_second(),
                rtt.smoothed,
                least.bytes_per_second()
            ));
        }
        Ok(())
    }

    fn on_paced(&mut self, records: &EndpointRecords, until: Timestamp) -> Verdict {
        let wait = until.saturating_since(records.now);
        let Some(smoothed) = records.smoothed() else { return Ok(()) };
        if wait > smoothed + GRANULARITY {
            return Err(format!(
                "the pacer delays a packet for {wait:?}; the smoothed round-trip time is {smoothed:?}"
            ));
        }
        Ok(())
    }
}
