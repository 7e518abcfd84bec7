//! Refusal of a client before there is a connection (RFC 9000 §10.2.3).

use clearway_wire::frame::{CloseKind, ConnectionClose};
use clearway_wire::header::{LongHeader, set_length};
use clearway_wire::{
    ConnectionId, Frame, LongPacketType, PacketNumber, TransportErrorCode, VarInt, Version, Writer,
};

use crate::handshake::{Protection, initial_keys};
use crate::{Side, SpaceId};

const TAG_LEN: usize = 16;
const NUMBER_LEN: usize = 1;

/// Builds an Initial packet of `version` from `source` to `destination` with a CONNECTION_CLOSE of
/// `code`, in response to an Initial packet that was sent to `initial_id`.
pub(super) fn build(
    version: Version,
    initial_id: ConnectionId,
    destination: ConnectionId,
    source: ConnectionId,
    code: TransportErrorCode,
) -> Option<Vec<u8>> {
    let mut protection = Protection::new();
    protection.install(SpaceId::Initial, initial_keys(version, Side::Server, &initial_id).ok()?);
    let mut buffer = [0; 128];
    let mut writer = Writer::new(&mut buffer);
    let header = LongHeader {
        packet_type: LongPacketType::Initial,
        version,
        destination,
        source,
        token: &[],
    };
    let offsets = header.encode(&mut writer, PacketNumber::ZERO, NUMBER_LEN).ok()?;
    let close = ConnectionClose {
        error_code: code.0,
        kind: CloseKind::Transport { frame_type: VarInt::ZERO },
        reason: &[],
    };
    Frame::ConnectionClose(close).encode(&mut writer).ok()?;
    writer.zeros(TAG_LEN).ok()?;
    let length = writer.written().saturating_sub(offsets.packet_number);
    let packet = writer.filled_mut();
    set_length(packet, offsets.length, length).ok()?;
    let number = PacketNumber::ZERO;
    protection
        .seal(SpaceId::Initial, number, offsets.packet_number, offsets.payload, packet)
        .ok()?;
    Some(packet.to_vec())
}
