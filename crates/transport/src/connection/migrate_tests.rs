use clearway_wire::{ConnectionId, Frame, ResetToken, TransportErrorCode, frame};

use super::super::tests::{CLIENT, SERVER, Wire, address, encoded, forge, from};
use super::*;
use crate::address::Arrival;
use crate::event::ConnectionError;
use crate::ids::RemoteIds;
use crate::space_id::SpaceId;
use crate::{ConnectionHandle, Endpoint, ResetKey};

fn preferred(v4: Option<&str>, v6: Option<&str>) -> PreferredAddress {
    PreferredAddress {
        ipv4: v4.map(|text| text.parse().unwrap()),
        ipv6: v6.map(|text| text.parse().unwrap()),
        connection_id: clearway_wire::ConnectionId::new(&[1; 8]).unwrap(),
        stateless_reset_token: ResetToken::new([2; 16]),
    }
}

/// §9.6.1: the client chooses the address of the family over which it is connected, in its socket's
/// notation.
#[test]
fn the_address_of_the_same_family_is_chosen() {
    let both = preferred(Some("192.0.2.9:443"), Some("[2001:db8::9]:443"));
    for (current, expected) in [
        ("192.0.2.1:443", Ok("192.0.2.9:443")),
        ("[2001:db8::1]:443", Ok("[2001:db8::9]:443")),
        ("[::ffff:192.0.2.1]:443", Ok("[::ffff:192.0.2.9]:443")),
    ] {
        let expected = expected.map(|text| text.parse().unwrap());
        assert_eq!(choose_address(&both, current.parse().unwrap()), expected);
    }
    let v6 = preferred(None, Some("[2001:db8::9]:443"));
    let chosen = choose_address(&v6, "192.0.2.1:443".parse().unwrap());
    assert_eq!(chosen, Err(IgnoredAddress::OtherFamily));
}

/// A server on the client's own host may prefer another loopback address.
#[test]
fn loopback_is_for_servers_on_loopback() {
    let loopback = preferred(Some("127.0.0.2:443"), Some("[::1]:443"));
    let from = |current: &str| choose_address(&loopback, current.parse().unwrap());
    assert_eq!(from("127.0.0.1:4433"), Ok("127.0.0.2:443".parse().unwrap()));
    assert_eq!(from("192.0.2.1:443"), Err(IgnoredAddress::Loopback));
    assert_eq!(from("[2001:db8::1]:443"), Err(IgnoredAddress::Loopback));
}

/// An endpoint's second socket. On the client, its port is `OTHER_PORT`.
const OTHER: SocketIndex = SocketIndex(1);
const OTHER_PORT: u16 = 51_000;

/// Returns everything that an endpoint can send now, with the sending socket.
fn sent(
    endpoint: &mut Endpoint,
    handle: ConnectionHandle,
    now: Timestamp,
) -> Vec<(SocketIndex, Vec<u8>)> {
    let mut buffer = vec![0; 1500];
    let mut sent = Vec::new();
    while let Some(transmit) = endpoint.transmit(handle, now, &mut buffer, 1) {
        endpoint.transmitted(handle, now);
        sent.push((transmit.socket, buffer[..transmit.size].to_vec()));
    }
    sent
}

/// Lets the client start to migrate; the server's PATH_RESPONSE is on its way to the new address.
fn begun(wire: &mut Wire) -> Vec<Vec<u8>> {
    let now = wire.now;
    wire.client().migrate(now, OTHER, None).unwrap();
    for (socket, mut datagram) in sent(&mut wire.client, wire.handle, now) {
        let port = if socket == OTHER { OTHER_PORT } else { CLIENT };
        wire.server.receive(now, from(port), &mut datagram);
    }
    let responses = sent(&mut wire.server, wire.accepted, now);
    responses.into_iter().map(|(_, datagram)| datagram).collect()
}

/// Delivers a NEW_CONNECTION_ID frame to the client with this sequence number, which retires all
/// earlier IDs.
fn renew(wire: &mut Wire, sequence: u32) {
    let new = Frame::NewConnectionId(frame::NewConnectionId {
        sequence: sequence.into(),
        retire_prior_to: sequence.into(),
        id: ConnectionId::new(&[sequence as u8; 8]).unwrap(),
        reset_token: ResetToken::new([sequence as u8; 16]),
    });
    let now = wire.now;
    let server = wire.server();
    let destination = server.remote_ids.current();
    let mut datagram =
        forge(server, now, SpaceId::Application, destination, &[], &encoded(&[&new]));
    wire.client.receive(now, from(SERVER), &mut datagram);
}

fn failures(wire: &mut Wire) -> Vec<MigrationFailure> {
    let client = wire.client();
    let events = core::iter::from_fn(|| client.next_event());
    let failures = events.filter_map(|event| match event {
        Event::MigrationFailed { reason, .. } => Some(reason),
        _ => None,
    });
    failures.collect()
}

/// A server that retires the connection ID of the new path without issuing another cannot make the
/// client use that path, because the remaining ID belongs to the old path (§9.5).
#[test]
fn a_path_whose_connection_id_is_retired_is_not_used() {
    let mut wire = Wire::new();
    let responses = begun(&mut wire);
    renew(&mut wire, 100);
    for mut datagram in responses {
        let arrival = Arrival { socket: OTHER, ..from(SERVER) };
        let now = wire.now;
        wire.client.receive(now, arrival, &mut datagram);
    }
    assert_eq!(failures(&mut wire), [MigrationFailure::NoConnectionId]);
    assert!(!wire.client().is_closed() && !wire.client().uses_socket(OTHER));
}

/// A server that retires a client's IDs faster than it acknowledges their retirement is
/// disconnected, even while the client migrates.
#[test]
fn a_flood_of_connection_ids_during_a_migration_ends_the_connection() {
    let mut wire = Wire::new();
    begun(&mut wire);
    for sequence in 100..200 {
        renew(&mut wire, sequence);
    }
    let client = wire.client();
    let events = core::iter::from_fn(|| client.next_event());
    let closed = events.filter_map(|event| match event {
        Event::Closed(ConnectionError::TransportError(error)) => Some(error.code),
        _ => None,
    });
    let codes: Vec<_> = closed.collect();
    assert_eq!(codes, [TransportErrorCode::CONNECTION_ID_LIMIT_ERROR]);
}

/// A client whose peer uses zero-length connection IDs cannot migrate, because observers could link
/// its two paths.
#[test]
fn a_peer_without_connection_ids_is_not_left() {
    let mut wire = Wire::new();
    wire.client().remote_ids = RemoteIds::new(ConnectionId::default(), 2);
    let now = wire.now;
    let error = MigrationError::NoConnectionIdsOfPeer;
    assert_eq!(wire.client().migrate(now, OTHER, None), Err(error));
    assert_eq!(wire.client().may_migrate(), Err(error));
}

/// A client with zero-length connection IDs, which are common, may migrate to the server's
/// preferred address: its own address does not change.
#[test]
fn a_client_without_connection_ids_is_followed_to_the_preferred_address() {
    let mut wire = Wire::new();
    wire.server().remote_ids = RemoteIds::new(ConnectionId::default(), 2);
    let mut datagram = wire.forge(&encoded(&[&Frame::Ping]));
    let now = wire.now;
    wire.server.receive(now, Arrival { socket: OTHER, ..from(CLIENT) }, &mut datagram);
    let sent = sent(&mut wire.server, wire.accepted, now);
    assert!(sent.iter().any(|(socket, _)| *socket == OTHER), "no challenge from there");
}

/// §10.3.1: the stateless reset token of a connection ID that was never used has no effect.
#[test]
fn only_the_reset_token_of_the_id_in_use_counts() {
    for is_in_use in [false, true] {
        let mut wire = Wire::new();
        let current = wire.client().remote_ids.current();
        let ids: Vec<_> = wire.server().local_ids().collect();
        let id = ids.into_iter().find(|id| (*id == current) == is_in_use).unwrap();
        let mut datagram = vec![0x40; 100];
        datagram.extend_from_slice(ResetKey::new(&[2; 32]).token(&id).as_bytes());
        let now = wire.now;
        wire.client().receive(now, from(SERVER), &mut datagram);
        assert_eq!(wire.client().is_closed(), is_in_use);
    }
}

/// The port of an address that the peer probes.
const PROBED: u16 = 6666;

/// Only clients move on their own: a client retires the ID with which it has answered a server's
/// challenge, and a server keeps that of an address to which the client may have moved. A client
/// that kept such IDs could not migrate any more.
#[test]
fn only_a_server_keeps_the_connection_ids_of_probed_paths() {
    let mut wire = Wire::new();
    let now = wire.now;
    for is_client in [true, false] {
        let connection = if is_client { wire.client() } else { wire.server() };
        let number =
            connection.recovery.get_mut().next_packet_number(SpaceId::Application).unwrap();
        connection.paths.on_datagram_received(from(PROBED), 1200);
        connection.paths.on_probed(now, address(PROBED), number);
        let id = connection.remote_ids.id_elsewhere(address(PROBED).into()).unwrap();
        connection.release_connection_ids();
        let next = connection.remote_ids.id_elsewhere(address(PROBED).into()).unwrap();
        assert_eq!(next != id, is_client);
    }
}
