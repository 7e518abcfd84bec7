//! L4: when the reason that a sender waits no longer applies, it sends at once. After an endpoint
//! has sent what it can, the reason that it reports must apply.

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
        let (credit, least) = (books.credit(), books.least_credit());
        match books.limit {
            Some(SendLimit::Window) if has_room(books) => Err(blocked(books, "for the window")),
            Some(SendLimit::Pacer(_)) => check_pacer(books, settled),
            // A datagram with a corrupt connection ID is delivered, but does not count towards any
            // connection's anti-amplification limit.
            Some(SendLimit::Amplification)
                if least.is_none_or(|c| c >= books.datagram() && !books.terms.path.corrupts) =>
            {
                Err(format!(
                    "sending waits for the validation of the peer's address, although the anti-amplification limit permits {least:?} bytes"
                ))
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
        "data waits {what}; the window is {} bytes, of which {} are in flight",
        books.window(),
        books.ledger.in_flight()
    )
}

fn check_pacer(books: &Books, settled: &Settled) -> Verdict {
    let Some(until) = books.paced_until else {
        return Err(blocked(books, "for the pacer, which has set no timer"));
    };
    if until <= books.now {
        return Err(blocked(books, "for the pacer, whose timer has expired"));
    }
    if settled.deadline.is_none_or(|deadline| deadline > until) {
        let deadline = settled.deadline.map(Timestamp::since_origin);
        return Err(format!(
            "the pacer permits sending at {:?}; the deadline is {deadline:?}",
            until.since_origin()
        ));
    }
    Ok(())
}

/// Checks a stack that reports that it has nothing to send, or nothing that it may send.
fn check_backlog(books: &Books, credit: Option<u64>) -> Verdict {
    let may_send = books.stage.has_application_keys && credit.is_none_or(|c| c >= books.datagram());
    if may_send && books.has_backlog() && has_room(books) {
        return Err(format!(
            "{} bytes were written by the application, {} are sent, flow control permits more, and sending \
             stopped for the reason {:?}",
            books.written,
            books.streams.kept(),
            books.limit
        ));
    }
    Ok(())
}
