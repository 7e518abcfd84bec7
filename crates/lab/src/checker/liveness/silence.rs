//! L11: a connection ends if its peer is silent for too long.

use core::time::Duration;

use crate::checker::properties::Property;
use crate::checker::records::EndpointRecords;
use crate::checker::rule::{Rule, Settled, Verdict};

const SLACK: Duration = Duration::from_millis(1);

#[derive(Debug, Default)]
pub(in crate::checker) struct Silence;

impl Rule for Silence {
    const PROPERTY: Property = Property::L11;

    fn on_settled(&mut self, records: &EndpointRecords, settled: &Settled) -> Verdict {
        let Some(timeout) = records.config.idle_timeout else { return Ok(()) };
        if records.stage.is_closed || !records.stage.is_confirmed {
            return Ok(());
        }
        let limit = timeout.max(3 * records.probe_timeout()) + SLACK;
        let silent = records.now.saturating_since(records.reception.silent_since);
        if silent > limit {
            return Err(format!(
                "nothing has arrived from the peer for {silent:?}; the limit is {limit:?}"
            ));
        }
        let deadline =
            settled.deadline.map(|at| at.saturating_since(records.reception.silent_since));
        if deadline.is_none_or(|after| after > limit) {
            return Err(format!(
                "no timer ends the connection within {limit:?} of the last packet from the peer"
            ));
        }
        Ok(())
    }
}
