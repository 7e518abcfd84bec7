//! S20: packets are declared lost only when a loss threshold is reached.

use crate::checker::properties::Property;
use crate::checker::records::{EndpointRecords, Lost};
use crate::checker::rule::{Rule, Verdict};

/// Checks RFC 9002 §6.1: a packet is lost once an acknowledged packet was sent later by at least
/// the packet threshold or the time threshold. The thresholds may be greater than the recommended
/// ones, but not smaller.
#[derive(Debug, Default)]
pub(in crate::checker) struct LossDetection;

impl Rule for LossDetection {
    const PROPERTY: Property = Property::S20;

    fn on_lost(&mut self, records: &EndpointRecords, lost: &Lost) -> Verdict {
        // The fate of a packet that does not count as in flight has no effect. If one packet
        // contains several ACK frames, it is unknown which one caused the loss declaration.
        if !lost.packet.is_in_flight || records.tally.pending > 1 {
            return Ok(());
        }
        let waited = records.now.saturating_since(lost.packet.sent_at);
        let (threshold, least) = (records.config.packet_threshold, records.rtt.time_threshold());
        let is_overtaken = lost.overtaken_by > 0;
        if lost.overtaken_by >= threshold || is_overtaken && waited >= least {
            return Ok(());
        }
        Err(format!(
            "a packet was declared lost {waited:?} after it was sent, with {} later packets \
             acknowledged; this requires {threshold} packets, or one packet and {least:?}",
            lost.overtaken_by
        ))
    }
}
