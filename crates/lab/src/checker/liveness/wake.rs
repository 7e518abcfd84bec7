//! L4: a sender sends as soon as the reason for waiting no longer applies. After an endpoint has
//! sent as much as it can, the reason that it reports for stopping must be true.

use clearway_transport::SendLimit;
use clearway_units::Timestamp;

use crate::checker::properties::Property;
use crate::checker::records::EndpointRecords;
use crate::checker::rule::{Rule, Settled, Verdict};

#[derive(Debug, Default)]
pub(in crate::checker) struct Wake;

impl Rule for Wake {
    const PROPERTY: Property = Property::L4;

    fn on_settled(&mut self, records: &EndpointRecords, settled: &Settled) -> Verdict {
        if records.stage.is_closed {
            return Ok(());
        }
        let (credit, least) = (records.credit(), records.least_credit());
        match records.limit {
            Some(SendLimit::Window) if has_room(records) => Err(blocked(records, "for the window")),
            Some(SendLimit::Pacer(_)) => check_pacer(records, settled),
            // A datagram with a corrupt connection ID is delivered, but does not count towards any
            // connection's anti-amplification limit.
            Some(SendLimit::Amplification)
                if least
                    .is_none_or(|c| c >= records.datagram() && !records.config.path.corrupts) =>
            {
                Err(format!(
                    "sending waits for the validation of the peer's address, although the anti-amplification limit allows {least:?} bytes"
                ))
            }
            Some(SendLimit::Application | SendLimit::FlowControl | SendLimit::Keys) => {
                check_backlog(records, credit)
            }
            _ => Ok(()),
        }
    }
}

fn has_room(records: &EndpointRecords) -> bool {
    records.room() >= records.datagram()
}

fn blocked(records: &EndpointRecords, what: &str) -> String {
    format!(
        "data waits {what}; the window is {} bytes, and {} bytes are in flight",
        records.window(),
        records.ledger.in_flight()
    )
}

fn check_pacer(records: &EndpointRecords, settled: &Settled) -> Verdict {
    let Some(until) = records.paced_until else {
        return Err(blocked(records, "for the pacer, which has set no timer"));
    };
    if until <= records.now {
        return Err(blocked(records, "for the pacer, whose timer has expired"));
    }
    if settled.deadline.is_none_or(|deadline| deadline > until) {
        let deadline = settled.deadline.map(Timestamp::since_origin);
        return Err(format!(
            "the pacer allows sending at {:?}; the deadline is {deadline:?}",
            until.since_origin()
        ));
    }
    Ok(())
}

/// Checks a stack that reports that it has nothing to send, or nothing that it is allowed to send.
fn check_backlog(records: &EndpointRecords, credit: Option<u64>) -> Verdict {
    let may_send =
        records.stage.has_application_keys && credit.is_none_or(|c| c >= records.datagram());
    if may_send && records.has_backlog() && has_room(records) {
        return Err(format!(
            "the application wrote {} bytes, {} were sent, flow control allows more, and sending \
             stopped because of {:?}",
            records.written,
            records.streams.kept(),
            records.limit
        ));
    }
    Ok(())
}
