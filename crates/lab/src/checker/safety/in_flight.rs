//! S1: the ledger's identity. That each packet leaves once is the books' own rule.

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
            return Err(format!("the books do not balance: {:?}", books.ledger.totals()));
        }
        compare(books, report.after, report.tally.pending)
    }

    fn on_quiet(&mut self, books: &Books, metrics: &Metrics) -> Verdict {
        compare(books, metrics, books.tally.pending)
    }
}

/// The rest of a packet with several ACK frames is in the books already, while it is `pending`.
fn compare(books: &Books, metrics: &Metrics, pending: u32) -> Verdict {
    let (own, claimed) = (books.ledger.in_flight(), metrics.bytes_in_flight);
    if own != claimed && pending == 0 {
        return Err(format!("{claimed} bytes are said to be in flight; {own} are"));
    }
    Ok(())
}
