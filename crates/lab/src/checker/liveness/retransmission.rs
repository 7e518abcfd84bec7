//! L12: lost data is retransmitted.

use clearway_transport::SendLimit;

use crate::checker::books::Books;
use crate::checker::properties::Property;
use crate::checker::rule::{Rule, Settled, Verdict};

/// Checks RFC 9000 §13.3 for every kind of frame, except frames that were superseded or are no
/// longer needed.
#[derive(Debug, Default)]
pub(in crate::checker) struct Retransmission;

impl Rule for Retransmission {
    const PROPERTY: Property = Property::L12;

    fn on_settled(&mut self, books: &Books, _settled: &Settled) -> Verdict {
        if books.stage.is_closed {
            return Ok(());
        }
        let has_nothing_to_send = matches!(
            books.limit,
            Some(SendLimit::Application | SendLimit::FlowControl | SendLimit::Keys)
        );
        let owed =
            if has_nothing_to_send { books.delivery.owed() } else { books.delivery.neglected() };
        match owed {
            Some(what) => Err(format!(
                "{what}, was lost and not sent again; sending stopped for the reason {:?}",
                books.limit
            )),
            None => Ok(()),
        }
    }
}
