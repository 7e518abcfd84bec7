//! L12: lost data is retransmitted.

use clearway_transport::SendLimit;

use crate::checker::properties::Property;
use crate::checker::records::EndpointRecords;
use crate::checker::rule::{Rule, Settled, Verdict};

/// Checks RFC 9000 §13.3 for every kind of frame, except frames that were superseded or are no
/// longer needed.
#[derive(Debug, Default)]
pub(in crate::checker) struct Retransmission;

impl Rule for Retransmission {
    const PROPERTY: Property = Property::L12;

    fn on_settled(&mut self, records: &EndpointRecords, _settled: &Settled) -> Verdict {
        if records.stage.is_closed {
            return Ok(());
        }
        let has_nothing_to_send = matches!(
            records.limit,
            Some(SendLimit::Application | SendLimit::FlowControl | SendLimit::Keys)
        );
        let owed = if has_nothing_to_send {
            records.delivery.owed()
        } else {
            records.delivery.neglected()
        };
        match owed {
            Some(what) => Err(format!(
                "{what}, was lost and not retransmitted; sending stopped because of {:?}",
                records.limit
            )),
            None => Ok(()),
        }
    }
}
