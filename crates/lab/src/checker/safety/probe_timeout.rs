//! S21: no probe is sent before its probe timeout.

use core::time::Duration;

use crate::checker::properties::Property;
use crate::checker::records::EndpointRecords;
use crate::checker::rule::{Rule, Verdict};

/// An allowance for rounding.
const SLACK: Duration = Duration::from_micros(10);

/// Checks RFC 9002 §6.2.1: the timer of a space expires one probe timeout after the last
/// ack-eliciting packet, doubled for each previous timeout. If the peer shows that the path works,
/// one timeout may expire without doubling.
#[derive(Debug, Default)]
pub(in crate::checker) struct ProbeTimeout;

impl Rule for ProbeTimeout {
    const PROPERTY: Property = Property::S21;

    fn on_probe_timeout(&mut self, records: &EndpointRecords) -> Verdict {
        let earliest = records.earliest_expiry();
        if records.now + SLACK >= earliest.at {
            return Ok(());
        }
        let early = earliest.at.saturating_since(records.now);
        let space = earliest.space.map_or_else(
            || "nothing is outstanding".to_owned(),
            |space| format!("the earliest timer is that of {space:?}"),
        );
        Err(format!("a probe timeout expired {early:?} early ({space})"))
    }
}
