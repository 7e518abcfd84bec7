//! Builds packets with any header and any protection (RFC 9000 §17, RFC 9001 §5).

use clearway_wire::{PacketNumber, Version};
use rustls::quic::{HeaderProtectionKey, PacketKey};
use serde::{Deserialize, Serialize};

use super::frame::{Frame, put_varint};
use super::record::PacketKind;
use crate::{Data, Quantity};

/// Length of the authentication tag of every AEAD of QUIC.
const TAG_LEN: usize = 16;
/// Length of the sample for header protection (RFC 9001 §5.4.2).
const SAMPLE_LEN: usize = 16;
/// Maximum size of the packets that are built.
const MAX_PACKET: usize = 65_000;

/// The encryption level of a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Initial packets.
    Initial,
    /// 0-RTT packets.
    ZeroRtt,
    /// Handshake packets.
    Handshake,
    /// 1-RTT packets.
    #[default]
    OneRtt,
}

impl Level {
    pub(super) const fn kind(self) -> PacketKind {
        match self {
            Self::Initial => PacketKind::Initial,
            Self::ZeroRtt => PacketKind::ZeroRtt,
            Self::Handshake => PacketKind::Handshake,
            Self::OneRtt => PacketKind::OneRtt,
        }
    }
}

/// The keys that protect a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sealing {
    /// The keys of the packet's level.
    #[default]
    Current,
    /// The keys of the next key phase, with the corresponding Key Phase bit.
    NextPhase,
    /// The keys of the previous key phase, with the corresponding Key Phase bit.
    PreviousPhase,
    /// The Initial keys, regardless of the level.
    Initial,
    /// The Handshake keys, regardless of the level.
    Handshake,
    /// The keys of the level, with a wrong authentication tag.
    BadTag,
}

/// A packet to be sent. Fields that are `None` or have their default value are sent with the values
/// that RFC 9000 requires.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Packet {
    /// The encryption level.
    pub level: Level,
    /// The frames; a packet without frames violates RFC 9000 §12.4.
    pub frames: Vec<Frame>,
    /// The version in a long header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// The Destination Connection ID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination: Option<Data>,
    /// The Source Connection ID of a long header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Data>,
    /// The token of an Initial packet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<Data>,
    /// The packet number. Packet numbers that are chosen automatically continue above it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<Quantity>,
    /// The length of the encoded packet number in bytes, 1 to 4.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number_length: Option<u8>,
    /// The Key Phase bit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_phase: Option<bool>,
    /// The two reserved bits, 0 to 3.
    #[serde(skip_serializing_if = "is_default")]
    pub reserved_bits: u8,
    /// Clears the fixed bit.
    #[serde(skip_serializing_if = "is_default")]
    pub clear_fixed_bit: bool,
    /// Sets the spin bit.
    #[serde(skip_serializing_if = "is_default")]
    pub spin: bool,
    /// The keys.
    #[serde(skip_serializing_if = "is_default")]
    pub sealing: Sealing,
    /// The value of the Length field of a long header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<u64>,
    /// The size in bytes up to which the packet is padded with PADDING frames.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pad_to: Option<usize>,
    /// Never retransmits the frames.
    #[serde(skip_serializing_if = "is_default")]
    pub once: bool,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Packet {
    /// Creates a 1-RTT packet with these frames.
    pub fn new(frames: Vec<Frame>) -> Self {
        Self { frames, ..Self::default() }
    }

    /// Creates a packet of `level` with these frames.
    pub fn at(level: Level, frames: Vec<Frame>) -> Self {
        Self { level, frames, ..Self::default() }
    }
}

/// The values in a packet's header, including defaults.
pub(super) struct Header<'a> {
    pub(super) level: Level,
    pub(super) version: Version,
    pub(super) destination: &'a [u8],
    pub(super) source: &'a [u8],
    pub(super) token: &'a [u8],
    pub(super) number: u64,
    pub(super) key_phase: bool,
}

/// Builds and protects a packet with this payload. Returns `None` if the packet would be too large.
pub(super) fn build(
    packet: &Packet,
    header: &Header<'_>,
    payload: &[u8],
    (header_key, packet_key): (&dyn HeaderProtectionKey, &dyn PacketKey),
) -> Option<Vec<u8>> {
    // With four bytes, even a packet without frames is long enough for header protection.
    let number_length = usize::from(packet.number_length.unwrap_or(4).clamp(1, 4));
    let mut payload = payload.to_vec();
    // A non-empty payload is padded to be long enough for the sample.
    let least = 4_usize.saturating_sub(number_length);
    if payload.len() < least {
        payload.resize(least, 0);
    }
    let mut output = start(packet, header, number_length);
    if let Some(size) = packet.pad_to {
        let length_field = if header.level == Level::OneRtt { 0 } else { 2 };
        let used = output.len().saturating_add(length_field).saturating_add(number_length);
        let used = used.saturating_add(TAG_LEN).saturating_add(payload.len());
        let missing = size.min(MAX_PACKET).saturating_sub(used);
        payload.resize(payload.len().saturating_add(missing), 0);
    }
    if payload.len() > MAX_PACKET {
        return None;
    }
    if header.level != Level::OneRtt {
        let length = number_length.saturating_add(payload.len()).saturating_add(TAG_LEN) as u64;
        put_length(&mut output, packet.length.unwrap_or(length));
    }
    let number_offset = output.len();
    let number = PacketNumber::new(header.number)?;
    let mut encoded = [0; 4];
    let encoded = encoded.get_mut(..number_length)?;
    number.encode_truncated(encoded);
    output.extend_from_slice(encoded);
    let tag = packet_key.encrypt_in_place(header.number, &output, &mut payload).ok()?;
    let payload_offset = output.len();
    output.extend_from_slice(&payload);
    output.extend_from_slice(tag.as_ref());
    if packet.sealing == Sealing::BadTag
        && let Some(last) = output.last_mut()
    {
        *last ^= 0xff;
    }
    debug_assert!(payload_offset > number_offset);
    protect(&mut output, number_offset, number_length, header_key)?;
    Some(output)
}

/// Writes the header up to the Length field.
fn start(packet: &Packet, header: &Header<'_>, number_length: usize) -> Vec<u8> {
    let fixed = if packet.clear_fixed_bit { 0 } else { 0x40 };
    let length_bits = number_length.saturating_sub(1) as u8;
    let mut output = Vec::with_capacity(1500);
    let type_bits = match header.level {
        Level::Initial => 0,
        Level::ZeroRtt => 1,
        Level::Handshake => 2,
        Level::OneRtt => {
            let spin = u8::from(packet.spin) << 5;
            let phase = u8::from(header.key_phase) << 2;
            let reserved = (packet.reserved_bits & 3) << 3;
            output.push(fixed | spin | reserved | phase | length_bits);
            output.extend_from_slice(header.destination);
            return output;
        }
    };
    output.push(
        0x80 | fixed
            | long_type(header.version, type_bits)
            | (packet.reserved_bits & 3) << 2
            | length_bits,
    );
    output.extend_from_slice(&header.version.0.to_be_bytes());
    output.push(header.destination.len() as u8);
    output.extend_from_slice(header.destination);
    output.push(header.source.len() as u8);
    output.extend_from_slice(header.source);
    if header.level == Level::Initial {
        put_varint(&mut output, header.token.len() as u64);
        output.extend_from_slice(header.token);
    }
    output
}

/// Returns the type bits of a long header; `kind` is the type of version 1 (RFC 9369 §3.2).
pub(super) const fn long_type(version: Version, kind: u8) -> u8 {
    let kind = if version.0 == Version::V2.0 { kind.wrapping_add(1) & 3 } else { kind };
    kind << 4
}

/// Writes a Length field in two bytes if it fits.
fn put_length(output: &mut Vec<u8>, length: u64) {
    match u16::try_from(length) {
        Ok(length) if length < 0x4000 => output.extend_from_slice(&(length | 0x4000).to_be_bytes()),
        _ => put_varint(output, length),
    }
}

/// Applies header protection (RFC 9001 §5.4).
fn protect(
    packet: &mut [u8],
    number_offset: usize,
    number_length: usize,
    key: &dyn HeaderProtectionKey,
) -> Option<()> {
    let (start, rest) = packet.split_at_mut_checked(number_offset)?;
    let (number, sample) = rest.split_at_mut_checked(4)?;
    let sample = sample.get(..SAMPLE_LEN)?;
    let number = number.get_mut(..number_length)?;
    key.encrypt_in_place(sample, start.first_mut()?, number).ok()
}
