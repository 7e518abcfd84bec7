//! S11: the queue that a model-based controller builds in front of a bottleneck that it has for itself.
//! What a loss-based one builds, the buffer bounds.

use core::time::Duration;

use clearway_units::Timestamp;

use crate::checker::books::{Books, Report};
use crate::checker::properties::Property;
use crate::checker::rule::{Rule, Verdict};

/// What is sent at once, however short the path is (BBR: send_quantum).
const QUANTUM: Duration = Duration::from_millis(1);
/// So many samples make a mean. It is the mean of all the time that it cruised: what a probe for bandwidth,
/// or one that ProbeRTT cut short, leaves behind is above it, what the rest of the cycle drains is below.
const SAMPLES: u32 = 400;

#[derive(Debug, Default)]
pub(in crate::checker) struct Queue {
    least: Option<Duration>,
    extra: Duration,
    samples: u32,
    /// Since when it cruises.
    since: Option<Timestamp>,
}

impl Rule for Queue {
    const PROPERTY: Property = Property::S11;

    fn on_report(&mut self, books: &Books, report: &Report<'_>) -> Verdict {
        let path = &books.terms.path;
        let Some(cruising) = books.terms.kind.cruising_phase() else { return Ok(()) };
        let applies =
            books.is_held() && path.is_alone && path.is_steady && path.bottleneck.is_some();
        let Some(one_way) = report.tally.one_way.filter(|_| applies) else { return Ok(()) };
        let least = self.least.map_or(one_way, |least| least.min(one_way));
        self.least = Some(least);
        if report.after.congestion.phase != cruising {
            self.since = None;
            return Ok(());
        }
        let since = *self.since.get_or_insert(books.now);
        // What was sent before it cruised found the queue of that time.
        if report.tally.rtt.is_none_or(|rtt| since + rtt > books.now) {
            return Ok(());
        }
        self.extra += one_way.saturating_sub(least);
        self.samples += 1;
        if self.samples < SAMPLES {
            return Ok(());
        }
        let mean = self.extra / self.samples;
        // Four packets are in flight at least, however short the path is.
        let floor = path.bottleneck.and_then(|rate| rate.time_for(books.floor()));
        let limit = (path.round_trip / 4).max(floor.unwrap_or_default() + QUANTUM);
        if mean > limit {
            return Err(format!(
                "packets wait for {mean:?} on average while cruising; {limit:?} is a quarter"
            ));
        }
        Ok(())
    }

    fn on_path(&mut self, _books: &Books) {
        *self = Self::default();
    }
}
