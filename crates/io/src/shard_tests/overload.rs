//! Tests of a shard with more clients than it can serve, real or forged.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use clearway_transport::{
    ClientConfig, ConnectionHandle, Endpoint, EndpointConfig, Event, ServerConfig, TlsClientConfig,
    TransportConfig,
};
use clearway_units::{Random, Timestamp};

use super::{
    Accepting, client, connect, endpoint_config, server_config, spawn, wait_for, wait_until,
};
use crate::acceptor::Admission;
use crate::{ServerSetup, ShardHandle};

/// Number of half-open connections above which the server in these tests sends Retry packets.
const RETRY_ABOVE: u64 = 6;
const FLOOD: u64 = 100;

fn server(handshake_timeout: Duration) -> ShardHandle {
    let transport = TransportConfig::builder().handshake_timeout(handshake_timeout).build();
    let transport = Arc::new(transport.unwrap());
    let config = Arc::new(ServerConfig { transport, ..server_config() });
    let setup = ServerSetup {
        config,
        acceptor: Box::new(Accepting),
        admission: Admission { retry_above: RETRY_ABOVE as usize, ..Admission::default() },
    };
    let max_connections = 1000;
    let endpoint = EndpointConfig { max_connections, ..endpoint_config() };
    spawn("127.0.0.1:0".parse().unwrap(), endpoint, Some(setup)).unwrap()
}

/// Sends the first datagrams of many clients that never respond, as an attacker with spoofed
/// addresses does.
fn flood(server: SocketAddr) {
    let tls = TlsClientConfig::dangerous_without_certificate_verification(&[b"test"]).unwrap();
    let client = ClientConfig {
        sessions: Arc::new(tls),
        transport: Arc::new(TransportConfig::default()),
        token: Vec::new(),
    };
    let now = Timestamp::from_origin(Duration::from_secs(1));
    let max_connections = FLOOD as usize;
    let config = EndpointConfig { max_connections, ..endpoint_config() };
    let mut endpoint = Endpoint::new(config, None, now, Random::from_seed([3; 32]));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut buffer = vec![0; 1500];
    for _ in 0..FLOOD {
        let handle: ConnectionHandle =
            endpoint.connect(now, &client, server, "localhost", None).unwrap();
        let first = endpoint.transmit(handle, now, &mut buffer, 1).unwrap();
        socket.send_to(&buffer[..first.size], server).unwrap();
    }
}

/// If clients do not respond, the server requires validated addresses: the cost is bounded, and
/// other clients are served. When the handshakes have timed out, address validation is no longer
/// required.
#[test]
fn half_open_connections_are_bounded() {
    let server = server(Duration::from_secs(3));
    flood(server.local_address());
    wait_until(&server, |counts| {
        counts.retries_sent == FLOOD - RETRY_ABOVE && counts.connections == RETRY_ABOVE
    });
    let during = server.statistics();
    assert_eq!((during.connections, during.connections_half_open), (RETRY_ABOVE, RETRY_ABOVE));

    let client = client();
    let served = connect(&client, server.local_address(), "localhost");
    wait_for(&served, |event| *event == Event::HandshakeConfirmed);
    // The client's ClientHello may take two datagrams.
    let sent = server.statistics().retries_sent;
    assert!(sent > FLOOD - RETRY_ABOVE, "{sent}");

    wait_until(&server, |counts| counts.connections_half_open == 0);
    let later = connect(&client, server.local_address(), "localhost");
    wait_for(&later, |event| *event == Event::HandshakeConfirmed);
    assert_eq!(server.statistics().retries_sent, sent);
    assert_eq!(server.statistics().connections, 2);
}
