//! S5: no stored point in time is in the future. Those of a controller are visible only in its reports.

use core::time::Duration;

use clearway_transport::Metrics;
use clearway_units::Timestamp;

use crate::checker::books::{Books, Report};
use crate::checker::properties::Property;
use crate::checker::rule::{Rule, Verdict};

/// A sample on a path without delay is reported as this long.
const FINEST: Duration = Duration::from_micros(1);

#[derive(Debug, Default)]
pub(in crate::checker) struct Time {
    last: Timestamp,
}

impl Time {
    fn check_clock(&mut self, books: &Books) -> Verdict {
        if books.now < self.last {
            return Err(format!("time went back from {:?}", self.last.since_origin()));
        }
        self.last = books.now;
        Ok(())
    }
}

impl Rule for Time {
    const PROPERTY: Property = Property::S5;

    fn on_quiet(&mut self, books: &Books, _metrics: &Metrics) -> Verdict {
        self.check_clock(books)
    }

    fn on_report(&mut self, books: &Books, report: &Report<'_>) -> Verdict {
        self.check_clock(books)?;
        let now = books.now;
        let round = books.rounds.number();
        for (suppressor, since) in report.after.congestion.suppressors.active() {
            if since > round {
                return Err(format!(
                    "{suppressor:?} is said to hold since round {since}; it is {round}"
                ));
            }
        }
        let age = now.since_origin().max(FINEST);
        if let Some(rtt) = report.after.rtt.filter(|rtt| rtt.latest > age || rtt.smoothed > age) {
            return Err(format!(
                "round-trip times of {:?} and {:?} after {age:?}",
                rtt.latest, rtt.smoothed
            ));
        }
        Ok(())
    }
}
