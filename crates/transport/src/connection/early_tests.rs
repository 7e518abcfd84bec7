//! 0-RTT packets of a client that violates the rules for them.

use clearway_wire::frame::{self, Frame};
use clearway_wire::{TransportErrorCode, VarInt};

use super::super::tests::{CLIENT, Wire, encoded, from};
use crate::handshake::EarlyData;

/// The server receives a 0-RTT packet with these frames: the error with which it closes the connection.
fn error_of(frames: &[u8]) -> Option<TransportErrorCode> {
    let mut wire = Wire::resumed();
    assert_eq!(wire.client().early_data(), EarlyData::Offered);
    assert_eq!(wire.server().early_data(), EarlyData::Accepted);
    let mut datagram = wire.forge(frames);
    assert_eq!(datagram[0] & 0xb0, 0x90, "the type is 0-RTT");
    let opened = wire.server().counters.packets_opened;
    wire.server.receive(wire.now, from(CLIENT), &mut datagram);
    assert_eq!(wire.server().counters.packets_opened, opened + 1);
    wire.server_error()
}

/// RFC 9000 §12.5: such a frame is a PROTOCOL_VIOLATION.
#[test]
fn frames_that_must_not_be_in_0_rtt_packets_end_the_connection() {
    let violation = Some(TransportErrorCode::PROTOCOL_VIOLATION);
    let forbidden = [
        Frame::Crypto(frame::Crypto { offset: VarInt::ZERO, data: b"x" }),
        Frame::HandshakeDone,
        Frame::NewToken(frame::NewToken { token: b"x" }),
        Frame::PathResponse(frame::PathResponse { data: [1; 8] }),
        Frame::RetireConnectionId(frame::RetireConnectionId { sequence: VarInt::ZERO }),
    ];
    for frame in forbidden {
        assert_eq!(error_of(&encoded(&[&frame])), violation, "{frame:?}");
    }
    assert_eq!(error_of(&[2, 0, 0, 0, 0]), violation, "ACK");
}

#[test]
fn frames_that_may_be_in_0_rtt_packets_are_processed() {
    let permitted = [
        Frame::Ping,
        Frame::MaxData(frame::MaxData { maximum: VarInt::from_u32(9) }),
        Frame::DataBlocked(frame::DataBlocked { limit: VarInt::from_u32(9) }),
    ];
    for frame in permitted {
        assert_eq!(error_of(&encoded(&[&frame])), None, "{frame:?}");
    }
}
