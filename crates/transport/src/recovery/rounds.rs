use clearway_congestion::SendIndex;
use clearway_units::packed::Pack;

/// Counts packet-timed rounds: a round ends when a packet that was sent after it began is
/// acknowledged.
#[derive(Debug, Pack)]
pub(super) struct Rounds {
    current: u64,
    began_at: SendIndex,
}

impl Rounds {
    /// Creates the counter. The first round begins with the packet that has the index `next`.
    pub(super) fn new(next: SendIndex) -> Self {
        Self { current: 0, began_at: next }
    }

    /// Returns the number of the current round.
    pub(super) fn current(&self) -> u64 {
        self.current
    }

    /// Handles the acknowledgment of the packet with `index`; the next packet to be sent has the
    /// index `next`.
    pub(super) fn on_acknowledged(&mut self, index: SendIndex, next: SendIndex) {
        if index >= self.began_at {
            self.current = self.current.saturating_add(1);
            self.began_at = next;
        }
    }
}
