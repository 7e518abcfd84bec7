/// The kinds of packets that carry frames (RFC 9000 §12.4).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PacketType {
    /// An Initial packet (RFC 9000 §17.2.2).
    Initial,
    /// A 0-RTT packet (RFC 9000 §17.2.3).
    ZeroRtt,
    /// A Handshake packet (RFC 9000 §17.2.4).
    Handshake,
    /// A 1-RTT packet (RFC 9000 §17.3.1).
    OneRtt,
}

/// The types of packets that have a long header and carry frames.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LongPacketType {
    /// An Initial packet (RFC 9000 §17.2.2).
    Initial,
    /// A 0-RTT packet (RFC 9000 §17.2.3).
    ZeroRtt,
    /// A Handshake packet (RFC 9000 §17.2.4).
    Handshake,
}

impl From<LongPacketType> for PacketType {
    fn from(packet_type: LongPacketType) -> Self {
        match packet_type {
            LongPacketType::Initial => Self::Initial,
            LongPacketType::ZeroRtt => Self::ZeroRtt,
            LongPacketType::Handshake => Self::Handshake,
        }
    }
}
