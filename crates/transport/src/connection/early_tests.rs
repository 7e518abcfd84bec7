//! 0-RTT packets from a client that violates the rules for them.

use clearway_wire::frame::{self, Frame};
use clearway_wire::{ResetToken, TransportErrorCode, TransportParameters, VarInt};

use super::super::tests::{CLIENT, Wire, encoded, from};
use crate::handshake::EarlyData;

/// Delivers a 0-RTT packet with these frames, and returns the error with which the server closes
/// the connection.
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

/// RFC 9000 §12.5: a frame that is not allowed in 0-RTT packets is a PROTOCOL_VIOLATION.
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

/// RFC 9000 §7.4.1: a client remembers all parameters of the server, except for those listed in
/// that section, and those of extensions that do not require it.
#[test]
fn all_parameters_are_remembered_that_may_be() {
    let server = TransportParameters {
        max_idle_timeout: VarInt::from_u32(1),
        stateless_reset_token: Some(ResetToken::new([2; 16])),
        max_udp_payload_size: VarInt::from_u32(1300),
        initial_max_data: VarInt::from_u32(4),
        initial_max_stream_data_bidi_local: VarInt::from_u32(5),
        initial_max_stream_data_bidi_remote: VarInt::from_u32(6),
        initial_max_stream_data_uni: VarInt::from_u32(7),
        initial_max_streams_bidi: VarInt::from_u32(8),
        initial_max_streams_uni: VarInt::from_u32(9),
        ack_delay_exponent: VarInt::from_u32(10),
        max_ack_delay: VarInt::from_u32(11),
        disable_active_migration: true,
        active_connection_id_limit: VarInt::from_u32(12),
        max_datagram_frame_size: VarInt::from_u32(13),
        grease_quic_bit: true,
        min_ack_delay: Some(VarInt::from_u32(14)),
        reset_stream_at: true,
        ..TransportParameters::default()
    };
    let absent = TransportParameters::default();
    let expected = TransportParameters {
        stateless_reset_token: absent.stateless_reset_token,
        ack_delay_exponent: absent.ack_delay_exponent,
        max_ack_delay: absent.max_ack_delay,
        // RFC 9287 §3.1.
        grease_quic_bit: absent.grease_quic_bit,
        min_ack_delay: absent.min_ack_delay,
        reset_stream_at: absent.reset_stream_at,
        ..server.clone()
    };
    assert_eq!(super::remembered(server), expected);
}
