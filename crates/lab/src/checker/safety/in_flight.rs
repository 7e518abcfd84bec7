//! S1: the ledger's identity. That each packet leaves once is the books' own rule.

use crate::checker::books::Books;
use crate::checker::properties::Property;
use crate::checker::report::Report;
use crate::checker::rule::{Rule, Verdict};

#[derive(Debug, Default)]
pub(in crate::checker) struct InFlight;

impl Rule for InFlight {
    const PROPERTY: Property = Property::S1;

    fn on_report(&mut self, books: &Books, report: &Report<'_>) -> Verdict {
        if !books.ledger.is_balanced() {
            return Err(format!("the books do not balance: {:?}", books.ledger.totals()));
        }
        // The rest of a packet with several ACK frames is in the books already.
        let (own, claimed) = (books.ledger.in_flight(), report.after.bytes_in_flight);
        if own != claimed && report.tally.pending == 0 {
            return Err(format!("{claimed} bytes are said to be in flight; {own} are"));
        }
        Ok(())
    }
}
