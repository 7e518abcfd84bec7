//! L7: the estimate of a model-based controller follows the path's rate. The visible part of BBR's
//! model is its pacing rate in ProbeBW_CRUISE, which is its bandwidth estimate. L2 checks the same
//! for loss-based controllers.

use core::time::Duration;

use crate::checker::properties::Property;
use crate::checker::records::{EndpointRecords, Report};
use crate::checker::rule::{Rule, Verdict};

/// The duration of two ProbeBW cycles.
const TWO_CYCLES: Duration = Duration::from_millis(6_600);
const MORE_ROUNDS: u64 = 24;

#[derive(Debug, Default)]
pub(in crate::checker) struct Estimate {
    rounds: u64,
    time: Duration,
}

impl Rule for Estimate {
    const PROPERTY: Property = Property::L7;

    fn on_report(&mut self, records: &EndpointRecords, report: &Report<'_>) -> Verdict {
        let path = &records.config.path;
        let Some(cruising) = records.config.kind.cruising_phase() else { return Ok(()) };
        let applies = path.is_steady && path.is_alone && path.returns_at_once;
        let Some(bottleneck) = path.bottleneck.filter(|_| applies) else { return Ok(()) };
        if let Some(round) = &report.round {
            if round.is_clean_and_held() {
                self.rounds += 1;
                self.time += round.ended.saturating_since(round.began);
            } else {
                *self = Self::default();
            }
        }
        if self.time < TWO_CYCLES || self.rounds < MORE_ROUNDS {
            return Ok(());
        }
        let Some(rate) = report.after.pacing_rate else { return Ok(()) };
        let (least, most) = (bottleneck.scaled(8, 10), bottleneck.scaled(11, 10));
        let is_cruising = report.after.congestion.phase == cruising;
        if is_cruising && !(least..=most).contains(&rate) {
            return Err(format!(
                "after {:?} of clean rounds the pacing rate in ProbeBW_CRUISE is {} bytes/s; the bottleneck's rate is {}",
                self.time,
                rate.bytes_per_second(),
                bottleneck.bytes_per_second()
            ));
        }
        Ok(())
    }

    fn on_path(&mut self, _records: &EndpointRecords) {
        *self = Self::default();
    }
}
