//! S25: no datagram except probes is larger than a size that is known to reach the peer.

use crate::checker::properties::Property;
use crate::checker::records::{EndpointRecords, Report};
use crate::checker::rule::{Rule, SentEvent, Verdict};

#[derive(Debug, Default)]
pub(in crate::checker) struct DatagramSize;

impl Rule for DatagramSize {
    const PROPERTY: Property = Property::S25;

    fn on_sent(&mut self, records: &EndpointRecords, packet: &SentEvent) -> Verdict {
        let mtu = &records.mtu;
        if packet.is_mtu_probe && mtu.outstanding > 1 {
            return Err(format!(
                "a path MTU probe ({} bytes) was sent while another one was outstanding",
                packet.bytes
            ));
        }
        if !packet.is_mtu_probe && packet.bytes > mtu.size {
            return Err(format!(
                "a packet of {} bytes was sent; the datagram size is {} bytes",
                packet.bytes, mtu.size
            ));
        }
        Ok(())
    }

    /// Checks the minimum window: it is a number of datagrams, so it reveals the datagram size that
    /// the controller uses.
    fn on_report(&mut self, records: &EndpointRecords, report: &Report<'_>) -> Verdict {
        let (minimum, known) = (report.after.congestion.minimum_window, records.floor());
        let is_known = records.config.kind.floor() > 1;
        if is_known && minimum > known {
            return Err(format!(
                "the controller's minimum window is {minimum} bytes; with datagrams of {} bytes \
                 it must be {known}",
                records.datagram()
            ));
        }
        Ok(())
    }
}
