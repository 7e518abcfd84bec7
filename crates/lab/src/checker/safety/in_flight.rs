//! S1: the bytes in flight that the sender reports match the records. The records themselves check
//! that each packet is removed exactly once.

use clearway_transport::Metrics;

use crate::checker::books::{Books, Report};
use crate::checker::properties::Property;
use crate::checker::rule::{Rule, Verdict};

#[derive(Debug, Default)]
pub(in crate::checker) struct InFlight;

impl Rule for InFlight {
    const PROPERTY: Property = Property::S1;

    fn on_report(&mut self, books: &Books, report: &Report<'_>) -> Verdict {
        if !books.ledger.is_balanced() {
            return Err(format!(
                "the packets sent and removed do not add up: {:?}",
                books.ledger.totals()
            ));
        }
        compare(books, report.after, report.tally.pending)
    }

    fn on_quiet(&mut self, books: &Books, metrics: &Metrics) -> Verdict {
        compare(books, metrics, books.tally.pending)
    }
}

/// Compares the bytes in flight. While `pending` is not zero, the records have already removed the
/// packets of further ACK frames in the same datagram.
fn compare(books: &Books, metrics: &Metrics, pending: u32) -> Verdict {
    let (own, claimed) = (books.ledger.in_flight(), metrics.bytes_in_flight);
    if own != claimed && pending == 0 {
        return Err(format!("{claimed} bytes are reported in flight; in fact {own} are"));
    }
    Ok(())
}
