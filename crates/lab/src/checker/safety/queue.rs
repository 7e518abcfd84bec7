//! S11: limits the queue that a model-based controller builds at a bottleneck without other flows.
//! The queue of loss-based controllers is limited by the buffer.

use core::time::Duration;

use clearway_units::Timestamp;

use crate::checker::properties::Property;
use crate::checker::records::{EndpointRecords, Report};
use crate::checker::rule::{Rule, Verdict};

/// The period whose data, at the pacing rate, may be sent in one burst even on a short path (BBR:
/// send_quantum).
const QUANTUM: Duration = Duration::from_millis(1);
/// The number of samples for a mean. The mean covers all the time in ProbeBW_CRUISE. The queue is
/// longer than the mean after a bandwidth probe, even one that ProbeRTT interrupted, and shorter
/// once the rest of the cycle has drained it.
const SAMPLES: u32 = 400;

#[derive(Debug, Default)]
pub(in crate::checker) struct Queue {
    least: Option<Duration>,
    extra: Duration,
    samples: u32,
    /// When the controller entered ProbeBW_CRUISE, if it is in that phase.
    since: Option<Timestamp>,
}

impl Rule for Queue {
    const PROPERTY: Property = Property::S11;

    fn on_report(&mut self, records: &EndpointRecords, report: &Report<'_>) -> Verdict {
        let path = &records.config.path;
        let Some(cruising) = records.config.kind.cruising_phase() else { return Ok(()) };
        let applies =
            records.is_held() && path.is_alone && path.is_steady && path.bottleneck.is_some();
        let Some(one_way) = report.tally.one_way.filter(|_| applies) else { return Ok(()) };
        let least = self.least.map_or(one_way, |least| least.min(one_way));
        self.least = Some(least);
        if report.after.congestion.phase != cruising {
            self.since = None;
            return Ok(());
        }
        let since = *self.since.get_or_insert(records.now);
        // Packets sent earlier were delayed by the queue of an earlier phase.
        if report.tally.rtt.is_none_or(|rtt| since + rtt > records.now) {
            return Ok(());
        }
        self.extra += one_way.saturating_sub(least);
        self.samples += 1;
        if self.samples < SAMPLES {
            return Ok(());
        }
        let mean = self.extra / self.samples;
        // At least four packets are in flight even on a short path.
        let floor = path.bottleneck.and_then(|rate| rate.time_for(records.floor()));
        let limit = (path.round_trip / 4).max(floor.unwrap_or_default() + QUANTUM);
        if mean > limit {
            return Err(format!(
                "in ProbeBW_CRUISE the mean queueing delay is {mean:?}; a quarter of the round trip is {limit:?}"
            ));
        }
        Ok(())
    }

    fn on_path(&mut self, _records: &EndpointRecords) {
        *self = Self::default();
    }
}
