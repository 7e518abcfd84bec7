//! Tests of servers with several shards, on loopback.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::num::NonZeroUsize;

use crate::support::{Pair, code, identity, loopback, pattern, run};
use clearway::{
    ConfigError, Connection, Endpoint, EndpointError, MAX_SHARDS, PathEvent, ServerConfig,
    TransportConfig,
};

const LENGTH: usize = 20_000;
/// Number of clients: enough that a hash assigns at least one to each of three shards.
const CLIENTS: usize = 40;

fn shards(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).unwrap()
}

/// Sends the pattern from one end to the other.
async fn transfer(from: &Connection, to: &Connection) {
    let (sent, received) = tokio::join!(
        async {
            let mut stream = from.open_uni().await.unwrap();
            stream.write_all(&pattern(LENGTH)).await.unwrap();
            stream.finish().unwrap();
        },
        async { to.accept_uni().await.unwrap().read_to_end(LENGTH).await.unwrap() }
    );
    let () = sent;
    assert!(received == pattern(LENGTH), "the content differs");
}

/// Returns connections from many ports.
async fn connect(pair: &mut Pair) -> Vec<(Endpoint, Connection, Connection)> {
    let mut connections = Vec::new();
    for _ in 0..CLIENTS {
        pair.client = Endpoint::client(loopback()).unwrap();
        let (client, server) = pair.connect().await;
        connections.push((pair.client.clone(), client, server));
    }
    connections
}

#[test]
fn clients_of_all_shards_are_accepted_in_one_place() {
    run(async {
        let mut pair = Pair::with(TransportConfig::default(), |server| server.shards(shards(3)));
        assert!(pair.server.steering().is_some());
        assert_eq!(pair.client.steering(), None);
        let connections = connect(&mut pair).await;
        for (_, client, server) in &connections {
            transfer(client, server).await;
            transfer(server, client).await;
            // Migrate to another port, and continue on the same connection.
            client.migrate(loopback()).await.unwrap();
            transfer(client, server).await;
        }
        let each = pair.server.shard_statistics();
        assert_eq!(each.len(), 3);
        assert!(each.iter().all(|shard| shard.connections > 0), "{each:?}");
        assert_eq!(pair.server.statistics().connections, CLIENTS as u64);
        pair.server.close(code(7), b"the end");
        for (_, client, _) in &connections {
            client.closed().await;
        }
        drop(connections);
        pair.server.wait_idle().await;
    });
}

#[test]
fn clients_of_all_shards_move_to_the_preferred_address() {
    run(async {
        let preferred = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 3), 0);
        let mut pair = Pair::with(TransportConfig::default(), |server| {
            server.shards(shards(3)).preferred_address_v4(preferred)
        });
        let remote = pair.server.preferred_address_v4().unwrap().into();
        for (_, client, server) in connect(&mut pair).await {
            assert_eq!(client.path_event().await, Ok(PathEvent::Migrated { remote }));
            transfer(&server, &client).await;
            client.migrate(loopback()).await.unwrap();
            transfer(&client, &server).await;
        }
        let each = pair.server.shard_statistics();
        assert!(each.iter().all(|shard| shard.datagrams_sent > 0), "{each:?}");
    });
}

/// A server's shards can also initiate connections, whose responses arrive at the shard that
/// initiated them.
#[test]
fn a_server_with_shards_can_be_a_client() {
    run(async {
        let mut pair = Pair::new();
        let other = identity();
        let config = ServerConfig::new(vec![other.certificate], other.key)
            .application_protocols([crate::support::PROTOCOL]);
        pair.client = Endpoint::server(loopback(), config.shards(shards(3))).unwrap();
        for _ in 0..6 {
            let (client, server) = pair.connect().await;
            transfer(&client, &server).await;
            transfer(&server, &client).await;
        }
        let each = pair.client.shard_statistics().into_iter().map(|shard| shard.datagrams_sent);
        assert!(each.into_iter().all(|sent| sent > 0), "the shards take turns");
    });
}

#[test]
fn too_many_shards_are_refused() {
    let identity = identity();
    let config = ServerConfig::new(vec![identity.certificate], identity.key)
        .application_protocols(["test"])
        .shards(shards(MAX_SHARDS + 1));
    let error = Endpoint::server(loopback(), config).unwrap_err();
    let EndpointError::Config(error @ ConfigError::TooManyShards { limit: MAX_SHARDS }) = error
    else {
        panic!("{error:?}")
    };
    assert_eq!(error.to_string(), "a server cannot have more than 256 shards");
}
