//! S1: the bytes in flight reported by the sender match the records. The records themselves check
//! that each packet is removed exactly once.

use clearway_transport::Metrics;

use crate::checker::properties::Property;
use crate::checker::records::{EndpointRecords, Report};
use crate::checker::rule::{Rule, Verdict};

#[derive(Debug, Default)]
pub(in crate::checker) struct InFlight;

impl Rule for InFlight {
    const PROPERTY: Property = Property::S1;

    fn on_report(&mut self, records: &EndpointRecords, report: &Report<'_>) -> Verdict {
        if !records.ledger.is_balanced() {
            return Err(format!(
                "the numbers of packets sent and removed do not add up: {:?}",
                records.ledger.totals()
            ));
        }
        compare(records, report.after, report.tally.pending)
    }

    fn on_quiet(&mut self, records: &EndpointRecords, metrics: &Metrics) -> Verdict {
        compare(records, metrics, records.tally.pending)
    }
}

/// Compares the bytes in flight. While `pending` is not zero, the records have already removed the
/// packets of later ACK frames in the same datagram.
fn compare(records: &EndpointRecords, metrics: &Metrics, pending: u32) -> Verdict {
    let (own, claimed) = (records.ledger.in_flight(), metrics.bytes_in_flight);
    if own != claimed && pending == 0 {
        return Err(format!(
            "{claimed} bytes are reported as in flight, but {own} bytes are in flight"
        ));
    }
    Ok(())
}
