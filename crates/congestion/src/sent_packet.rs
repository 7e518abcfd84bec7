use clearway_units::Timestamp;
use clearway_units::packed::Pack;

/// A packet's position in the path's send order.
///
/// QUIC has three packet number spaces, and packet numbers of different spaces cannot be compared.
/// The transport's ledger therefore gives every packet a send index; a recovery boundary is a send
/// index (law 3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Pack)]
pub struct SendIndex(pub u64);

/// A packet in flight, as in the transport's ledger.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pack)]
pub struct SentPacket {
    /// The packet's position in send order.
    pub index: SendIndex,
    /// The packet's size in bytes, as counted in flight.
    pub bytes: u64,
    /// When the packet was handed to the network.
    pub sent_at: Timestamp,
    /// The state of the delivery-rate sampler when the packet was sent.
    pub delivery: DeliverySnapshot,
}

/// The state that the sampler records when a packet is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pack)]
pub struct DeliverySnapshot {
    /// Bytes delivered so far.
    pub delivered: u64,
    /// When the most recent delivery became known.
    pub delivered_at: Timestamp,
    /// When the first packet of this flight was sent.
    pub first_sent_at: Timestamp,
    /// Bytes in flight, including this packet.
    pub in_flight: u64,
    /// Bytes declared lost so far.
    pub lost: u64,
    /// Whether the sender was application-limited.
    pub is_application_limited: bool,
}
