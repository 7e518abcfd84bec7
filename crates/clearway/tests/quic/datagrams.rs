//! Tests with more unreliable datagrams than fit into the send queue.

use std::time::{Duration, Instant};

use bytes::Bytes;
use clearway::{ConnectionError, TransportConfig, VarInt};

use crate::support::{Pair, run};

/// The peer acknowledges after ten seconds. A datagram that leaves the queue makes room
/// immediately, even though nothing arrives from the peer.
#[test]
fn room_for_datagrams_does_not_depend_on_acknowledgments() {
    run(async {
        let transport = TransportConfig::builder()
            .max_datagram_frame_size(Some(1200))
            .datagram_send_limit(4)
            .max_ack_delay(Duration::from_secs(10))
            .ack_eliciting_threshold(10_000)
            .ack_frequency(false)
            .build()
            .unwrap();
        let pair = Pair::with(transport, |server| server);
        let (client, server) = pair.connect().await;
        let began = Instant::now();
        for number in 0..40u8 {
            client.send_datagram_wait(Bytes::from(vec![number; 10])).await.unwrap();
        }
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        for number in 0..40u8 {
            assert_eq!(server.read_datagram().await.unwrap(), vec![number; 10]);
        }
    });
}

/// How a program ends a connection.
#[derive(Clone, Copy, Debug)]
enum Ending {
    Connection,
    Endpoint,
    /// The program closes the connection and exits.
    Halt,
}

/// Datagrams that are queued when a program closes its connection are sent before CONNECTION_CLOSE.
#[test]
fn datagrams_before_a_close_arrive() {
    for ending in [Ending::Connection, Ending::Endpoint, Ending::Halt] {
        for round in 0..20 {
            run(async {
                let transport =
                    TransportConfig::builder().max_datagram_frame_size(Some(1200)).build().unwrap();
                let pair = Pair::with(transport, |server| server);
                let (client, server) = pair.connect().await;
                // The handshake is confirmed: before that, CONNECTION_CLOSE is also sent in a
                // Handshake packet, which may overtake the datagrams in the server.
                server.send_datagram(Bytes::from_static(b"confirmed")).unwrap();
                client.read_datagram().await.unwrap();
                for number in 0..3u8 {
                    client.send_datagram(Bytes::from(vec![number; 10])).unwrap();
                }
                match ending {
                    Ending::Endpoint => pair.client.close(VarInt::from_u32(7), b"bye"),
                    _ => client.close(VarInt::from_u32(7), b"bye"),
                }
                if matches!(ending, Ending::Halt) {
                    pair.client.halt();
                }
                for number in 0..3u8 {
                    let datagram = server.read_datagram().await;
                    let datagram =
                        datagram.unwrap_or_else(|error| panic!("{ending:?} {round}: {error}"));
                    assert_eq!(datagram, vec![number; 10]);
                }
                let end = server.closed().await;
                assert!(matches!(end, ConnectionError::ApplicationClosed { .. }), "{end:?}");
            });
        }
    }
}
