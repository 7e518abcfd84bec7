//! The latency spin bit (RFC 9000 §17.4).

use clearway_units::Random;
use clearway_wire::{ConnectionId, PacketNumber};

/// The use of the latency spin bit, from which on-path observers can read the RTT (RFC 9000 §17.4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum SpinBit {
    /// Disabled: the value is random but constant for each connection ID.
    #[default]
    Random,
    /// Disabled, and always 0. This makes the endpoint distinguishable from other endpoints, so it
    /// is for simulations only.
    Zero,
    /// Enabled, except on one path in sixteen, which is chosen at random and treated as
    /// [`SpinBit::Random`].
    Enabled,
}

/// The bit is disabled on one path in this many, even if it is enabled in general.
const DISABLED_ONE_IN: u64 = 16;

/// The spin bit of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Spin {
    /// Whether the bit is enabled on this path; `None` until first needed.
    is_enabled: Option<bool>,
    /// The current Destination Connection ID.
    destination: Option<ConnectionId>,
    value: bool,
    /// The highest packet number of the peer on this path.
    highest: Option<PacketNumber>,
}

impl Spin {
    /// Returns the bit for a 1-RTT packet to `destination`.
    pub(super) fn sent(
        &mut self,
        configured: SpinBit,
        destination: ConnectionId,
        random: &mut Random,
    ) -> bool {
        if configured == SpinBit::Zero {
            return false;
        }
        if self.destination != Some(destination) {
            self.destination = Some(destination);
            let is_random = !self.is_enabled(configured, random);
            self.value = is_random && random.below(2) == 1;
        }
        self.value
    }

    /// Handles a 1-RTT packet with this number and bit: a server reflects the bit, a client inverts
    /// it.
    pub(super) fn received(
        &mut self,
        configured: SpinBit,
        number: PacketNumber,
        bit: bool,
        is_client: bool,
        random: &mut Random,
    ) {
        if configured == SpinBit::Enabled
            && self.is_enabled(configured, random)
            && self.highest.is_none_or(|highest| number > highest)
        {
            self.highest = Some(number);
            self.value = bit != is_client;
        }
    }

    fn is_enabled(&mut self, configured: SpinBit, random: &mut Random) -> bool {
        let decide = || configured == SpinBit::Enabled && random.below(DISABLED_ONE_IN) != 0;
        *self.is_enabled.get_or_insert_with(decide)
    }
}

#[cfg(test)]
#[path = "spin_tests.rs"]
mod tests;
