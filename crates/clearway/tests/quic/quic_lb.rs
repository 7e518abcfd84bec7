//! Tests of QUIC-LB connection IDs.

use std::num::NonZeroUsize;

use clearway::wire::quic_lb::{ConfigError, ConfigId, ServerId};
use clearway::{Connection, QuicLb, RotateQuicLbError, TransportConfig};

use crate::support::{Pair, loopback, pattern, run};

const LENGTH: usize = 20_000;

fn config(number: u8, nonce_len: usize) -> QuicLb {
    let server_id = ServerId::new(&[number, 0xaa]).unwrap();
    QuicLb::new(ConfigId::new(number).unwrap(), server_id, nonce_len, Some([number; 16])).unwrap()
}

async fn transfer(from: &Connection, to: &Connection) {
    let (_, received) = tokio::join!(
        async {
            let mut stream = from.open_uni().await.unwrap();
            stream.write_all(&pattern(LENGTH)).await.unwrap();
            stream.finish().unwrap();
        },
        async { to.accept_uni().await.unwrap().read_to_end(LENGTH).await.unwrap() }
    );
    assert!(received == pattern(LENGTH), "the content differs");
}

/// Connections continue and migrate before, during and after a configuration change.
#[test]
fn connections_go_on_when_the_configuration_changes() {
    run(async {
        for shards in [1, 3] {
            let shards = NonZeroUsize::new(shards).unwrap();
            let pair = Pair::with(TransportConfig::default(), |server| {
                server.shards(shards).quic_lb(config(0, 6))
            });
            let (client, server) = pair.connect().await;
            transfer(&client, &server).await;
            for number in 1..7 {
                pair.server.rotate_quic_lb(config(number, 6)).unwrap();
                transfer(&server, &client).await;
                client.migrate(loopback()).await.unwrap();
                transfer(&client, &server).await;
                let (another, its_server) = pair.connect().await;
                transfer(&another, &its_server).await;
            }
        }
    });
}

#[test]
fn a_configuration_that_cannot_follow_is_refused() {
    run(async {
        let pair = Pair::with(TransportConfig::default(), |server| server.quic_lb(config(0, 6)));
        let error = pair.server.rotate_quic_lb(config(1, 7)).unwrap_err();
        assert!(matches!(error, RotateQuicLbError::IdLength { .. }), "{error}");
        let error = Pair::new().server.rotate_quic_lb(config(1, 6)).unwrap_err();
        assert!(matches!(error, RotateQuicLbError::NotConfigured), "{error}");
        let server_id = ServerId::new(&[1]).unwrap();
        let error = QuicLb::new(ConfigId::new(0).unwrap(), server_id, 3, None).unwrap_err();
        assert_eq!(error, ConfigError::NonceLength(3));
    });
}
