//! S13: no endpoint is called endlessly without time advancing.

use clearway_units::Timestamp;

use crate::checker::properties::Property;
use crate::checker::records::EndpointRecords;
use crate::checker::rule::{Rule, Settled, Verdict};

/// The maximum number of times that an endpoint may act at one point in time.
const TURNS: u32 = 64;

#[derive(Debug, Default)]
pub(in crate::checker) struct Spin {
    at: Timestamp,
    turns: u32,
}

impl Rule for Spin {
    const PROPERTY: Property = Property::S13;

    fn on_settled(&mut self, records: &EndpointRecords, settled: &Settled) -> Verdict {
        if records.now > self.at {
            *self = Self { at: records.now, turns: 0 };
        }
        self.turns += 1;
        if self.turns > TURNS {
            let deadline = settled.deadline.map(Timestamp::since_origin);
            return Err(format!(
                "the endpoint acted {TURNS} times without time advancing; the deadline is \
                 {deadline:?}"
            ));
        }
        Ok(())
    }
}
