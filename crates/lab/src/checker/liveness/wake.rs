//! L4: what unblocks a sender makes it try at once. After every turn of an end, what holds it back must
//! really hold.

use clearway_transport::SendLimit;
use clearway_units::Timestamp;

use crate::checker::books::Books;
use crate::checker::properties::Property;
use crate::checker::rule::{Rule, Settled, Verdict};

#[derive(Debug, Default)]
pub(in crate::checker) struct Wake;

impl Rule for Wake {
    const PROPERTY: Property = Property::L4;

    fn on_settled(&mut self, books: &Books, settled: &Settled) -> Verdict {
        if books.stage.is_closed {
            return Ok(());
        }
        let credit = books.credit();
        match books.limit {
            Some(SendLimit::Window) if has_room(books) => Err(blocked(books, "for the window")),
            Some(SendLimit::Pacer(_)) => check_pacer(books, settled),
            // A datagram with a damaged connection ID is delivered, but adds to no connection's credit.
            Some(SendLimit::Amplification)
                if credit.is_none_or(|c| c >= books.datagram() && !books.terms.path.corrupts) =>
            {
                Err(format!("sending waits for the peer's address; the credit is {credit:?}"))
            }
            Some(SendLimit::Application | SendLimit::FlowControl | SendLimit::Keys) => {
                check_backlog(books, credit)
            }
            _ => Ok(()),
        }
    }
}

fn has_room(books: &Books) -> bool {
    books.room() >= books.datagram()
}

fn blocked(books: &Books, what: &str) -> String {
    format!(
        "data waits {what}; of a window of {} bytes {} are in flight",
        books.window(),
        books.ledger.in_flight()
    )
}

fn check_pacer(books: &Books, settled: &Settled) -> Verdict {
    let Some(until) = books.paced_until else {
        return Err(blocked(books, "for the pacer, which has no deadline"));
    };
    if until <= books.now {
        return Err(blocked(books, "for the pacer, whose time has come"));
    }
    if settled.deadline.is_none_or(|deadline| deadline > until) {
        let deadline = settled.deadline.map(Timestamp::since_origin);
        return Err(format!(
            "the pacer lets data go at {:?}; the deadline is {deadline:?}",
            until.since_origin()
        ));
    }
    Ok(())
}

/// The stack reports that there is nothing to send, or nothing that is permitted.
fn check_backlog(books: &Books, credit: Option<u64>) -> Verdict {
    let may_send = books.stage.has_application_keys && credit.is_none_or(|c| c >= books.datagram());
    if may_send && books.has_backlog() && has_room(books) {
        return Err(format!(
            "{} bytes of content were handed over, {} are sent, flow control permits more, and sending \
             stopped because of {:?}",
            books.written,
            books.streams.kept(),
            books.limit
        ));
    }
    Ok(())
}
