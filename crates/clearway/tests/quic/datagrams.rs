//! Tests with more unreliable datagrams than fit into the send queue.

use std::time::{Duration, Instant};

use bytes::Bytes;
use clearway::TransportConfig;

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
