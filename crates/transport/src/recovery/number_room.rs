use core::time::Duration;

use clearway_wire::PacketNumber;

use super::Recovery;
use crate::SpaceId;

/// The inputs that determine the length of packet numbers (RFC 9000 §17.1).
///
/// If more packets have overtaken a late packet than its encoding allows, its number is decoded
/// incorrectly and the packet is dropped. The sender then never learns that the packet was only
/// late, and reduces its window. Therefore the encoding allows for all packets that may be sent
/// while this packet would still be useful: until it is declared lost, and for as long after that
/// as its acknowledgment reveals a spurious loss. Their number is derived from the number of
/// packets per round trip, which is the number that the window allows or the number of
/// unacknowledged packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NumberRoom {
    largest_acknowledged: Option<PacketNumber>,
    /// The number of packets that the window allows per round trip.
    window: u64,
    /// The time for which a late packet is useful, in round trips, rounded up.
    round_trips: u64,
}

impl NumberRoom {
    /// Returns the encoded length of packet number `number`, in bytes.
    pub(crate) fn encoded_len(&self, number: PacketNumber) -> usize {
        let acknowledged = self.largest_acknowledged.map_or(0, PacketNumber::get);
        let in_a_round_trip = number.get().saturating_sub(acknowledged).max(self.window);
        let overtaken_by = in_a_round_trip.saturating_mul(self.round_trips);
        number.encoded_len(self.largest_acknowledged, overtaken_by)
    }
}

impl Recovery {
    /// Returns the values that determine the length of the next packet numbers in `space`.
    pub(crate) fn number_room(&self, space: SpaceId) -> NumberRoom {
        let window = self.path.controller.window().checked_div(self.max_datagram_size);
        let is_filled = space == SpaceId::Application;
        let useful = self.loss_thresholds().time.saturating_add(self.lost_remembered());
        let round_trip = nanoseconds(self.path.rtt.smoothed_or_assumed()).max(1);
        NumberRoom {
            largest_acknowledged: self.largest_acknowledged(space),
            window: window.filter(|_| is_filled).unwrap_or(0),
            round_trips: nanoseconds(useful).div_ceil(round_trip),
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    let whole = time.as_secs().saturating_mul(1_000_000_000);
    whole.saturating_add(time.subsec_nanos().into())
}

#[cfg(test)]
#[path = "number_room_tests.rs"]
mod tests;
