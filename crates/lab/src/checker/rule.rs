//! What a rule is: the check of one property at one end.

use clearway_transport::{Metrics, SpaceId};
use clearway_units::Timestamp;

use super::books::{Books, Lost, Report};
use super::properties::Property;

/// What is wrong, in words with figures.
pub(super) type Verdict = Result<(), String>;

/// A packet that was sent; the books count it already.
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
    /// Whether congestion control has to permit it.
    pub(super) fn is_gated(&self) -> bool {
        self.is_in_flight && !self.is_probe && !self.is_path_probe && !self.is_mtu_probe
    }
}

/// An end had its turn and did all that it could do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settled {
    /// When the stack is to be woken.
    pub(super) deadline: Option<Timestamp>,
}

/// The check of one property at one endpoint. A rule implements the methods for the events that concern it.
pub(super) trait Rule: Default {
    /// The property that it checks.
    const PROPERTY: Property;

    /// A packet was sent.
    fn on_sent(&mut self, _books: &Books, _packet: &SentEvent) -> Verdict {
        Ok(())
    }

    /// A packet was received. The records contain what it acknowledged.
    fn on_received(&mut self, _books: &Books, _is_ack_eliciting: bool) -> Verdict {
        Ok(())
    }

    /// A packet was declared lost. The records contain what was acknowledged before.
    fn on_lost(&mut self, _books: &Books, _lost: &Lost) -> Verdict {
        Ok(())
    }

    /// The stack reported its figures after an event. The books' recovery period is the one before it.
    fn on_report(&mut self, _books: &Books, _report: &Report<'_>) -> Verdict {
        Ok(())
    }

    /// The stack reported how much is in flight, and nothing else has changed.
    fn on_quiet(&mut self, _books: &Books, _metrics: &Metrics) -> Verdict {
        Ok(())
    }

    /// The pacer holds data back.
    fn on_paced(&mut self, _books: &Books, _until: Timestamp) -> Verdict {
        Ok(())
    }

    /// A probe timeout expired.
    fn on_probe_timeout(&mut self, _books: &Books) -> Verdict {
        Ok(())
    }

    /// The end had its turn.
    fn on_settled(&mut self, _books: &Books, _settled: &Settled) -> Verdict {
        Ok(())
    }

    /// Datagrams go to another address of the peer's from here on.
    fn on_moved(&mut self, _books: &Books) {}

    /// Full datagrams have another size from here on.
    fn on_mtu(&mut self, _books: &Books) {}

    /// What follows belongs to another path.
    fn on_path(&mut self, _books: &Books) {}
}
