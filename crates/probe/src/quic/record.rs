use core::time::Duration;

use serde::{Serialize, Serializer};

use super::frame::Frame;
use crate::Data;

/// Maximum number of recorded packets.
const MAX_PACKETS: usize = 20_000;
/// Maximum number of recorded frames of a packet.
pub(super) const MAX_FRAMES: usize = 1000;

/// The side that sent a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The probe sent the packet.
    Sent,
    /// The probe received the packet.
    Received,
}

/// The kind of a packet or datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PacketKind {
    /// An Initial packet.
    Initial,
    /// A 0-RTT packet.
    ZeroRtt,
    /// A Handshake packet.
    Handshake,
    /// A 1-RTT packet.
    OneRtt,
    /// A Retry packet.
    Retry,
    /// A Version Negotiation packet.
    VersionNegotiation,
    /// A stateless reset.
    StatelessReset,
    /// Arbitrary bytes.
    Raw,
    /// A packet that could not be decrypted or parsed.
    Undecipherable,
}

/// A packet that was sent or received.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PacketRecord {
    /// The time since the start of the connection, in milliseconds.
    #[serde(rename = "time_ms", serialize_with = "milliseconds")]
    pub time: Duration,
    /// The side that sent the packet.
    pub side: Side,
    /// The kind of the packet.
    pub kind: PacketKind,
    /// The packet number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// The version in a long header, or the list of versions in a Version Negotiation packet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<u32>,
    /// The Destination Connection ID.
    pub destination: Data,
    /// The Source Connection ID of a long header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Data>,
    /// The token of an Initial or Retry packet.
    #[serde(skip_serializing_if = "Data::is_empty")]
    pub token: Data,
    /// The key phase of a 1-RTT packet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_phase: Option<bool>,
    /// The size in bytes.
    pub size: usize,
    /// The path: 0 before the first migration.
    pub path: usize,
    /// The frames.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub frames: Vec<Frame>,
    /// A remark, such as the reason why a packet could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Writes a time in milliseconds.
pub(crate) fn milliseconds<S: Serializer>(
    time: &Duration,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((time.as_secs_f64() * 1e6).round() / 1e3)
}

/// Everything that was sent and received on a connection.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Record {
    /// The packets, in order.
    pub packets: Vec<PacketRecord>,
    /// The number of packets that were not recorded because the limit was reached.
    pub omitted: u64,
}

impl Record {
    pub(super) fn push(&mut self, packet: PacketRecord) {
        if self.packets.len() < MAX_PACKETS {
            self.packets.push(packet);
        } else {
            self.omitted = self.omitted.saturating_add(1);
        }
    }

    /// Returns the received packets.
    pub fn received(&self) -> impl Iterator<Item = &PacketRecord> {
        self.packets.iter().filter(|packet| packet.side == Side::Received)
    }

    /// Returns the frames of received packets.
    pub fn received_frames(&self) -> impl Iterator<Item = &Frame> {
        self.received().flat_map(|packet| &packet.frames)
    }
}
