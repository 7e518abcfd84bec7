//! S5: no stored time is in the future. A controller's times are visible only in its reports.

use core::time::Duration;

use clearway_transport::Metrics;
use clearway_units::Timestamp;

use crate::checker::properties::Property;
use crate::checker::records::{EndpointRecords, Report};
use crate::checker::rule::{Rule, Verdict};

/// The smallest RTT sample that is reported, on a path without delay.
const FINEST: Duration = Duration::from_micros(1);

#[derive(Debug, Default)]
pub(in crate::checker) struct Time {
    last: Timestamp,
}

impl Time {
    fn check_clock(&mut self, records: &EndpointRecords) -> Verdict {
        if records.now < self.last {
            return Err(format!("time went backwards from {:?}", self.last.since_origin()));
        }
        self.last = records.now;
        Ok(())
    }
}

impl Rule for Time {
    const PROPERTY: Property = Property::S5;

    fn on_quiet(&mut self, records: &EndpointRecords, _metrics: &Metrics) -> Verdict {
        self.check_clock(records)
    }

    fn on_report(&mut self, records: &EndpointRecords, report: &Report<'_>) -> Verdict {
        self.check_clock(records)?;
        let now = records.now;
        let round = records.rounds.number();
        for (suppressor, since) in report.after.congestion.suppressors.active() {
            if since > round {
                return Err(format!(
                    "{suppressor:?} is reported as set since round {since}; the current round is {round}"
                ));
            }
        }
        let age = now.since_origin().max(FINEST);
        if let Some(rtt) = report.after.rtt.filter(|rtt| rtt.latest > age || rtt.smoothed > age) {
            return Err(format!(
                "round-trip times of {:?} and {:?} were reported {age:?} after the start",
                rtt.latest, rtt.smoothed
            ));
        }
        Ok(())
    }
}
