//! Transport parameters, extension frames, and unreliable datagrams together with streams.

use core::time::Duration;

use clearway_wire::{Direction, TransportErrorCode, TransportParameters, VarInt};

use super::tests::{Wire, ack_frequency, datagrams};
use crate::TransportConfig;

/// Each endpoint receives the parameters that correspond to the other's settings (RFC 9000 §18.2);
/// here, none of them has its default value.
#[test]
fn the_peer_gets_the_parameters_that_are_set() {
    let settings = TransportConfig::builder()
        .max_idle_timeout(Some(Duration::from_millis(7001)))
        .initial_connection_receive_window(7002)
        .initial_stream_receive_window(7003)
        .max_concurrent_bidirectional_streams(7004)
        .max_concurrent_unidirectional_streams(7005)
        .max_ack_delay(Duration::from_millis(14))
        .allow_active_migration(false)
        .max_datagram_frame_size(Some(7006))
        .min_ack_delay(Some(Duration::from_micros(7007)));
    let expected = TransportParameters {
        max_idle_timeout: VarInt::from_u32(7001),
        initial_max_data: VarInt::from_u32(7002),
        initial_max_stream_data_bidi_local: VarInt::from_u32(7003),
        initial_max_stream_data_bidi_remote: VarInt::from_u32(7003),
        initial_max_stream_data_uni: VarInt::from_u32(7003),
        initial_max_streams_bidi: VarInt::from_u32(7004),
        initial_max_streams_uni: VarInt::from_u32(7005),
        max_ack_delay: VarInt::from_u32(14),
        disable_active_migration: true,
        max_datagram_frame_size: VarInt::from_u32(7006),
        min_ack_delay: Some(VarInt::from_u32(7007)),
        grease_quic_bit: true,
        reset_stream_at: true,
        active_connection_id_limit: VarInt::from_u32(4),
        ..TransportParameters::default()
    };
    let mut wire = Wire::with(settings.build().unwrap());
    let known =
        [wire.client().peer_parameters().cloned(), wire.server().peer_parameters().cloned()];
    for known in known {
        // These values depend on the connection.
        let known = TransportParameters {
            original_destination_connection_id: None,
            initial_source_connection_id: None,
            stateless_reset_token: None,
            version_information: None,
            ..known.unwrap()
        };
        assert_eq!(known, expected);
    }
}

/// Frames of extensions that this endpoint has not advertised (draft-ietf-quic-ack-frequency §3,
/// draft-ietf-quic-reliable-stream-reset §3).
#[test]
fn frames_of_extensions_that_were_not_negotiated_are_violations() {
    let settings = || TransportConfig::builder().min_ack_delay(None).reset_stream_at(false);
    for frames in [ack_frequency(1000), vec![0x1f], vec![0x24, 0, 7, 6, 6]] {
        let mut wire = Wire::with(settings().build().unwrap());
        wire.send(&frames);
        assert_eq!(wire.server_error(), Some(TransportErrorCode::PROTOCOL_VIOLATION));
        // An endpoint that has advertised the extensions accepts the frames.
        let mut wire = Wire::new();
        wire.send(&frames);
        assert_eq!(wire.server_error(), None);
    }
}

/// The probe of a silent peer requests an immediate acknowledgment, if the peer supports that.
#[test]
fn an_immediate_ack_is_answered_at_once() {
    let mut wire = Wire::new();
    let now = wire.now;
    wire.send(&[0x01]);
    let (server, accepted) = (&mut wire.server, wire.accepted);
    assert!(datagrams(server, accepted, now).is_empty(), "a PING may wait");
    wire.send(&[0x1f]);
    let (server, accepted) = (&mut wire.server, wire.accepted);
    assert_eq!(datagrams(server, accepted, now).len(), 1);
}

/// If datagrams and streams always have data, each gets half of the packets.
#[test]
fn datagrams_and_streams_share_congestion_control_evenly() {
    let settings = TransportConfig::builder().max_datagram_frame_size(Some(1200));
    let mut wire = Wire::with(settings.build().unwrap());
    let (now, handle) = (wire.now, wire.handle);
    let client = wire.client();
    let id = client.open(Direction::Bidirectional).unwrap();
    client.write_slice(id, &[0; 60_000]).unwrap();
    for _ in 0..60 {
        client.send_datagram(vec![0; 1000].into()).unwrap();
    }
    datagrams(&mut wire.client, handle, now);
    let client = wire.client();
    let datagrams = client.datagram_statistics().sent * 1000;
    let stream = client.streams_statistics().bytes_sent;
    assert!(datagrams >= 4000 && stream >= 4000, "{datagrams} and {stream} bytes");
    assert!(datagrams.abs_diff(stream) <= 1200, "{datagrams} and {stream} bytes");
}
