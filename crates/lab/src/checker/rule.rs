//! The definition of a rule: the check of one property at one endpoint.

use clearway_transport::{Metrics, SpaceId};
use clearway_units::Timestamp;

use super::properties::Property;
use super::records::{EndpointRecords, Lost, Report};

/// The result of a check; an error describes the violation, with figures.
pub(super) type Verdict = Result<(), String>;

/// A packet that was sent; the records already include it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentEvent {
    pub(super) space: SpaceId,
    pub(super) bytes: u64,
    pub(super) is_ack_eliciting: bool,
    pub(super) is_in_flight: bool,
    pub(super) is_probe: bool,
    pub(super) is_path_probe: bool,
    pub(super) is_mtu_probe: bool,
}

impl SentEvent {
    /// Returns whether the packet is subject to congestion control.
    pub(super) fn is_gated(&self) -> bool {
        self.is_in_flight && !self.is_probe && !self.is_path_probe && !self.is_mtu_probe
    }
}

/// The state after an endpoint has done everything that it can do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settled {
    /// The stack's next deadline.
    pub(super) deadline: Option<Timestamp>,
}

/// The check of one property at one endpoint. A rule implements the methods for the events that
/// concern it.
pub(super) trait Rule: Default {
    /// The property that the rule checks.
    const PROPERTY: Property;

    /// Processes a packet that was sent.
    fn on_sent(&mut self, _records: &EndpointRecords, _packet: &SentEvent) -> Verdict {
        Ok(())
    }

    /// Processes a received packet. The records already include its acknowledgments.
    fn on_received(&mut self, _records: &EndpointRecords, _is_ack_eliciting: bool) -> Verdict {
        Ok(())
    }

    /// Processes a packet that was declared lost. The records already include acknowledgments
    /// processed before.
    fn on_lost(&mut self, _records: &EndpointRecords, _lost: &Lost) -> Verdict {
        Ok(())
    }

    /// Processes the stack's report after an event. The records contain the recovery period before
    /// the event.
    fn on_report(&mut self, _records: &EndpointRecords, _report: &Report<'_>) -> Verdict {
        Ok(())
    }

    /// Processes a report of bytes in flight when nothing else has changed.
    fn on_quiet(&mut self, _records: &EndpointRecords, _metrics: &Metrics) -> Verdict {
        Ok(())
    }

    /// Processes a report that the pacer delays data.
    fn on_paced(&mut self, _records: &EndpointRecords, _until: Timestamp) -> Verdict {
        Ok(())
    }

    /// Processes an expired probe timeout.
    fn on_probe_timeout(&mut self, _records: &EndpointRecords) -> Verdict {
        Ok(())
    }

    /// Processes the end of an endpoint's turn.
    fn on_settled(&mut self, _records: &EndpointRecords, _settled: &Settled) -> Verdict {
        Ok(())
    }

    /// Processes a change of the destination to another peer address.
    fn on_moved(&mut self, _records: &EndpointRecords) {}

    /// Processes a change in the size of full datagrams.
    fn on_mtu(&mut self, _records: &EndpointRecords) {}

    /// Processes a change to another path.
    fn on_path(&mut self, _records: &EndpointRecords) {}
}
