//! S20: packets are declared lost only when they are late enough.

use crate::checker::books::{Books, Lost};
use crate::checker::properties::Property;
use crate::checker::rule::{Rule, Verdict};

/// RFC 9002 §6.1: a packet is lost once enough packets sent after it, or enough time, lie between it and an
/// acknowledgement. Thresholds may be greater than the recommended ones, never smaller.
#[derive(Debug, Default)]
pub(in crate::checker) struct LossDetection;

impl Rule for LossDetection {
    const PROPERTY: Property = Property::S20;

    fn on_lost(&mut self, books: &Books, lost: &Lost) -> Verdict {
        // Nothing depends on the fate of a packet that does not count in flight. With several ACK frames in one
        // packet it is not known which of them this follows.
        if !lost.packet.is_in_flight || books.tally.pending > 1 {
            return Ok(());
        }
        let waited = books.now.saturating_since(lost.packet.sent_at);
        let (threshold, least) = (books.terms.packet_threshold, books.rtt.time_threshold());
        let is_overtaken = lost.overtaken_by > 0;
        if lost.overtaken_by >= threshold || is_overtaken && waited >= least {
            return Ok(());
        }
        Err(format!(
            "a packet was declared lost {waited:?} after it was sent, overtaken by {} acknowledged or older than \
             one that is; {threshold} packets, or one and {least:?}, are needed",
            lost.overtaken_by
        ))
    }
}
