//! S19: no acknowledgement is delayed for longer than max_ack_delay.

use clearway_transport::SpaceId;

use crate::checker::books::Books;
use crate::checker::properties::Property;
use crate::checker::rule::{Rule, Settled, Verdict};

#[derive(Debug, Default)]
pub(in crate::checker) struct Acknowledgement;

impl Rule for Acknowledgement {
    const PROPERTY: Property = Property::S19;

    fn on_settled(&mut self, books: &Books, _settled: &Settled) -> Verdict {
        let may_send = books.credit().is_none_or(|credit| credit >= books.datagram());
        if books.stage.is_closed || !may_send {
            return Ok(());
        }
        for space in SpaceId::ALL {
            let Some(since) = books.reception.ack_pending_since[space as usize] else { continue };
            let waited = books.now.saturating_since(since);
            if waited >= books.terms.max_ack_delay && !books.is_discarded(space) {
                return Err(format!(
                    "a packet in {space:?} has not been acknowledged for {waited:?}"
                ));
            }
        }
        Ok(())
    }
}
