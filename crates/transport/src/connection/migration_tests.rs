use core::net::SocketAddr;
use std::collections::{BTreeMap, BTreeSet};

use clearway_wire::VarInt;
use clearway_wire::header::{HeaderKind, ProtectedHeader};

use super::super::tests::{CLIENT, SERVER, Wire, address, datagrams, encoded, forge, from};
use super::*;
use crate::TransportConfig;

const MOVED: u16 = 6666;

/// A datagram from the server: its destination address and connection ID.
struct Sent {
    to: SocketAddr,
    id: ConnectionId,
    datagram: Vec<u8>,
}

/// Returns everything that the server has to send now.
fn sent_by_server(wire: &mut Wire) -> Vec<Sent> {
    let mut buffer = vec![0; 1500];
    let mut sent = Vec::new();
    while let Some(transmit) = wire.server.transmit(wire.accepted, wire.now, &mut buffer, 1) {
        wire.server.transmitted(wire.accepted, wire.now);
        let datagram = buffer[..transmit.size].to_vec();
        let HeaderKind::Short { destination: id, .. } =
            ProtectedHeader::decode(&datagram, 8).unwrap().kind
        else {
            panic!("a 1-RTT packet")
        };
        sent.push(Sent { to: transmit.destination, id, datagram });
    }
    sent
}

/// Returns a full datagram with a PING.
fn ping() -> Vec<u8> {
    let mut frames = vec![0; 1170];
    frames[0] = 0x01;
    frames
}

/// Returns a full datagram with a PATH_CHALLENGE.
fn challenge(number: u64) -> Vec<u8> {
    let data = number.to_be_bytes();
    let mut frames = encoded(&[&Frame::PathChallenge(frame::PathChallenge { data })]);
    frames.resize(1170, 0);
    frames
}

/// Delivers the datagrams that the server sent to `to`, and lets the client respond from there.
fn answer_from(wire: &mut Wire, sent: Vec<Sent>, port: u16) {
    let now = wire.now;
    for mut sent in sent.into_iter().filter(|sent| sent.to == address(port)) {
        wire.client.receive(now, from(SERVER), &mut sent.datagram);
    }
    for mut datagram in datagrams(&mut wire.client, wire.handle, now) {
        wire.server.receive(now, from(port), &mut datagram);
    }
}

fn ids_of_client(wire: &mut Wire) -> BTreeSet<ConnectionId> {
    wire.client().local_ids().collect()
}

/// RFC 9000 §9.5: a client whose NAT has rebound keeps its Destination Connection ID, and so does
/// the server. No ID is retired before the new address is validated, because the client may be
/// unaware of the change, and its real address may be the old one.
#[test]
fn a_rebound_peer_s_connection_id_is_kept() {
    let mut wire = Wire::new();
    let kept = wire.server().remote_ids.current();
    let before = ids_of_client(&mut wire);
    let mut datagram = wire.forge(&ping());
    wire.server.receive(wire.now, from(MOVED), &mut datagram);
    let sent = sent_by_server(&mut wire);
    let went_to: BTreeSet<SocketAddr> = sent.iter().map(|sent| sent.to).collect();
    assert_eq!(went_to, BTreeSet::from([address(CLIENT), address(MOVED)]));
    for sent in &sent {
        assert_eq!(sent.id == kept, sent.to == address(MOVED), "one ID, one address");
    }
    answer_from(&mut wire, sent, MOVED);
    assert_eq!(ids_of_client(&mut wire), before, "nothing is retired before the PATH_RESPONSE");
    assert!(wire.server().paths.is_settled());
    assert_eq!(wire.server().remote_ids.current(), kept);
    let sent = sent_by_server(&mut wire);
    answer_from(&mut wire, sent, MOVED);
    let after = ids_of_client(&mut wire);
    assert!(after.contains(&kept) && after != before, "the old address' ID is retired");
}

/// RFC 9000 §9.5: when a client migrates intentionally, both the client and the server use another
/// connection ID, so that no ID is used with two addresses.
#[test]
fn a_connection_id_goes_to_one_address_only() {
    let mut wire = Wire::new();
    let old = wire.server().remote_ids.current();
    assert!(wire.client().remote_ids.follow(address(SERVER).into(), address(SERVER).into(), false));
    let mut went_to: BTreeMap<ConnectionId, BTreeSet<SocketAddr>> = BTreeMap::new();
    went_to.entry(old).or_default().insert(address(CLIENT));
    for _ in 0..4 {
        let mut datagram = wire.forge(&ping());
        wire.server.receive(wire.now, from(MOVED), &mut datagram);
        let sent = sent_by_server(&mut wire);
        for sent in &sent {
            went_to.entry(sent.id).or_default().insert(sent.to);
        }
        answer_from(&mut wire, sent, MOVED);
    }
    assert!(went_to.values().all(|addresses| addresses.len() == 1), "{went_to:?}");
    assert!(went_to.len() >= 2);
    assert!(!ids_of_client(&mut wire).contains(&old), "retired after validation");
    assert_eq!(wire.server_error(), None);
}

/// RFC 9000 §9.5: an endpoint that has used all of the peer's connection IDs cannot respond to
/// additional addresses until the peer has issued more.
#[test]
fn without_a_spare_connection_id_a_challenge_is_not_answered() {
    let mut wire = Wire::new();
    let now = wire.now;
    let destination = wire.client().remote_ids.id_elsewhere(address(1).into()).unwrap();
    let mut ids = BTreeSet::new();
    let mut answered = Vec::new();
    for port in 1..=6 {
        let frames = challenge(u64::from(port));
        let space = SpaceId::Application;
        let mut datagram = forge(wire.client(), now, space, destination, &[], &frames);
        wire.server.receive(now, from(port), &mut datagram);
        for mut sent in sent_by_server(&mut wire) {
            if sent.to == address(port) {
                assert!(ids.insert(sent.id));
                answered.push(port);
            }
            wire.client.receive(now, from(SERVER), &mut sent.datagram);
        }
        if port == 5 {
            // The first address is forgotten: its ID was retired, and is replaced.
            wire.exchange();
        }
    }
    assert_eq!(answered, [1, 2, 3, 6]);
    assert_eq!(wire.server_error(), None);
}

/// PATH_CHALLENGE frames come from more and more addresses, and the responses are not acknowledged:
/// bytes sent to other addresses count toward a window, which bounds memory.
#[test]
fn answers_to_challenges_from_many_addresses_keep_to_the_window() {
    let mut wire = Wire::new();
    let window = wire.server().statistics().congestion_window;
    let mut answers = 0;
    for number in 0..2000 {
        let mut datagram = wire.forge(&challenge(number));
        wire.server.receive(wire.now, from(1000 + number as u16), &mut datagram);
        let off_path = sent_by_server(&mut wire);
        let off_path = off_path.iter().filter(|sent| sent.to != address(CLIENT));
        answers += off_path.map(|sent| sent.datagram.len() as u64).sum::<u64>();
    }
    assert!(answers > 0 && answers <= window, "{answers} bytes, a window of {window}");
    assert!(wire.server().statistics().bytes_in_flight <= window);
    assert_eq!(wire.server_error(), None);
}

/// RFC 9000 §18.2: no datagram larger than the peer's max_udp_payload_size is sent.
#[test]
fn datagrams_are_no_larger_than_the_peer_takes() {
    let largest = |limit: u32| {
        let transport = TransportConfig::builder()
            .initial_datagram_size(1400)
            .discover_path_mtu(false)
            .build()
            .unwrap();
        let mut wire = Wire::with(transport);
        wire.server().paths.mtu_mut().set_peer_maximum(VarInt::from_u32(limit));
        let stream = wire.server().open(clearway_wire::Direction::Unidirectional).unwrap();
        wire.server().write_slice(stream, &[0; 10_000]).unwrap();
        let sent = sent_by_server(&mut wire);
        sent.iter().map(|sent| sent.datagram.len()).max()
    };
    assert_eq!((largest(65_527), largest(1300)), (Some(1400), Some(1300)));
}
