//! Tests of the state that is kept for connections that have ended.

use clearway_wire::VarInt;
use rustls::crypto::aws_lc_rs::kx_group::X25519;

use super::pending_clients::tests::{Clients, Server};
use super::*;

/// After the client's CONNECTION_CLOSE, only the connection's index and its IDs are kept, until
/// late packets have had time to arrive (RFC 9000 §10.2).
#[test]
fn a_connection_that_its_peer_has_closed_is_given_back() {
    let (mut server, mut clients) = (Server::new(100), Clients::new(X25519));
    let mut now = Timestamp::ORIGIN;
    let mut sent = clients.begin(now);
    for _ in 0..10 {
        now += Duration::from_millis(10);
        server.receive(now, &sent);
        for (_, datagram) in server.rest_of_turn(now, false) {
            clients.receive(now, datagram);
        }
        sent = clients.send(now, 0);
    }
    let handle = server.0.slots[0].as_ref().expect("a connection").handle;
    assert!(server.0.endpoint.connection(handle).is_some_and(Connection::is_confirmed));
    let client = clients.all[0].0;
    let connection = clients.endpoint.connection_mut(client).expect("it was begun");
    connection.close(now, VarInt::from_u32(1), b"");
    let close = clients.send(now, 0);
    for _ in 0..2 {
        server.receive(now, &close);
        assert!(server.rest_of_turn(now, false).is_empty(), "nothing is sent while draining");
        assert!(server.0.endpoint.connection(handle).is_none());
        assert!(!server.0.is_empty(), "the slot is kept");
    }
    now = server.0.next_deadline().expect("a deadline to release the slot");
    assert!(server.rest_of_turn(now, false).is_empty());
    assert!(server.0.is_empty() && server.0.next_deadline().is_none());
    assert_eq!(server.0.endpoint.connection_count(), 0);
}
