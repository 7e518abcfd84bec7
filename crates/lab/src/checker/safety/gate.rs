//! S2: nothing is sent beyond the congestion window.

use crate::checker::properties::Property;
use crate::checker::records::EndpointRecords;
use crate::checker::rule::{Rule, SentEvent, Verdict};
use clearway_transport::SpaceId;

/// The number of probes for each expired timer (RFC 9002 §6.2.4).
const PROBES_PER_EXPIRY: u64 = 2;

/// Checks that nothing is sent beyond the congestion window, except for a limited number of probes.
#[derive(Debug, Default)]
pub(in crate::checker) struct Gate {
    /// The number of probes that may be sent: for expired timers, for packets received from the
    /// peer while the timer was backed off, and for new peer addresses.
    credit: u64,
}

impl Rule for Gate {
    const PROPERTY: Property = Property::S2;

    fn on_probe_timeout(&mut self, _records: &EndpointRecords) -> Verdict {
        // Probes that were allowed for an earlier timeout but not sent do not accumulate.
        self.credit = PROBES_PER_EXPIRY;
        Ok(())
    }

    fn on_received(&mut self, records: &EndpointRecords, is_ack_eliciting: bool) -> Verdict {
        // While the timer is backed off, an endpoint may respond to a packet from the peer with a
        // probe, because the packet shows that the path works (allowed by RFC 9002 §6.2.4).
        if is_ack_eliciting && records.metrics.is_some_and(|metrics| metrics.pto_count > 0) {
            self.credit = self.credit.max(1);
        }
        Ok(())
    }

    fn on_moved(&mut self, _records: &EndpointRecords) {
        // The packets that fill the window were sent to the peer's former address, and the new
        // address has to be validated.
        self.credit = self.credit.max(1);
    }

    fn on_sent(&mut self, records: &EndpointRecords, packet: &SentEvent) -> Verdict {
        let (in_flight, window) = (records.ledger.in_flight(), records.window());
        if packet.is_gated() && packet.is_ack_eliciting && in_flight > window {
            return Err(format!(
                "after a packet of {} bytes, {in_flight} are in flight; the window is {window}",
                packet.bytes
            ));
        }
        // Handshake packets may be probed early, and in several spaces at once (RFC 9002 §6.2.3).
        if packet.is_probe && packet.space == SpaceId::Application {
            let Some(left) = self.credit.checked_sub(1) else {
                return Err("a probe was sent although no timer had expired".to_owned());
            };
            self.credit = left;
        }
        Ok(())
    }
}
