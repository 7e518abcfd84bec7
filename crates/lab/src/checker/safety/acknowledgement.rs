//! S19: no acknowledgment is delayed for longer than max_ack_delay or the delay that the peer has
//! requested.

use clearway_transport::{SendLimit, SpaceId};

use crate::checker::properties::Property;
use crate::checker::records::EndpointRecords;
use crate::checker::rule::{Rule, Settled, Verdict};

#[derive(Debug, Default)]
pub(in crate::checker) struct Acknowledgement;

impl Rule for Acknowledgement {
    const PROPERTY: Property = Property::S19;

    fn on_settled(&mut self, records: &EndpointRecords, _settled: &Settled) -> Verdict {
        let may_send = records.credit().is_none_or(|credit| credit >= records.datagram());
        let is_held = records.limit == Some(SendLimit::Path);
        if records.stage.is_closed || !may_send || is_held {
            return Ok(());
        }
        for space in SpaceId::ALL {
            let Some(waiting) = records.reception.unacknowledged[space as usize] else { continue };
            if records.is_discarded(space) {
                continue;
            }
            if records.now >= waiting.due {
                let waited = records.now.saturating_since(waiting.since);
                return Err(format!(
                    "a packet in {space:?} has not been acknowledged for {waited:?}"
                ));
            }
            let threshold = records.reception.ack_requests.threshold;
            if space == SpaceId::Application
                && let Some(most) = threshold.filter(|most| waiting.packets > *most)
            {
                let packets = waiting.packets;
                return Err(format!(
                    "{packets} packets have not been acknowledged; the peer requested an ACK \
                     after {most}"
                ));
            }
            if waiting.is_requested {
                return Err("an IMMEDIATE_ACK frame was not acknowledged immediately".to_owned());
            }
        }
        Ok(())
    }
}
