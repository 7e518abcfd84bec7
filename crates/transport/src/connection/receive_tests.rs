use core::time::Duration;
use std::sync::Arc;

use super::super::probing::MAX_HANDSHAKE_DONE_REPEATS;
use super::super::tests::{CLIENT, SERVER, Wire, datagrams, forge, from};
use super::*;
use crate::{ResetKey, TransportConfig};

const PING: u8 = 0x01;

/// Returns a PING with PADDING up to `size` bytes.
fn ping(size: usize) -> Vec<u8> {
    let mut frames = vec![0; size];
    frames[0] = PING;
    frames
}

fn received(connection: &Connection) -> u64 {
    connection.statistics().packets_received
}

#[test]
fn an_authentic_packet_is_an_answer() {
    let mut wire = Wire::begin(TransportConfig::default(), |_| {});
    let is_answered =
        |connection: &Connection| (connection.is_answered(), connection.is_unanswered());
    assert_eq!(is_answered(wire.client()), (false, true));
    assert_eq!(is_answered(wire.server()), (true, false));
    wire.exchange();
    assert_eq!(is_answered(wire.client()), (true, false));
}

/// RFC 9000 §14.1 applies even if a connection exists; the datagram's other packets are processed.
#[test]
fn a_server_discards_initial_packets_in_small_datagrams() {
    let mut wire = Wire::begin(TransportConfig::default(), |_| {});
    let now = wire.now;
    let before = received(wire.server());
    for (size, is_used) in [(20, false), (1000, false), (1190, true)] {
        let client = wire.client();
        let destination = client.remote_ids.current();
        let mut datagram = forge(client, now, SpaceId::Initial, destination, &[], &ping(size));
        assert_eq!(datagram.len() >= 1200, is_used);
        wire.server.receive(now, from(CLIENT), &mut datagram);
        assert_eq!(received(wire.server()) > before, is_used, "{size}");
    }
}

/// RFC 9000 §17.2.2: a server's Initial packets have no token.
#[test]
fn a_client_discards_initial_packets_with_a_token() {
    let mut wire = Wire::begin(TransportConfig::default(), |_| {});
    let now = wire.now;
    for (token, is_used) in [(&b"token"[..], false), (b"", true)] {
        let server = wire.server();
        let destination = server.remote_ids.current();
        let mut datagram = forge(server, now, SpaceId::Initial, destination, token, &ping(100));
        wire.client.receive(now, from(SERVER), &mut datagram);
        assert_eq!(received(wire.client()) > 0, is_used);
    }
}

/// RFC 9000 §10.3.1: a stateless reset is recognized by its last bytes, regardless of its first
/// bytes.
#[test]
fn a_stateless_reset_is_recognised_in_any_form() {
    let key = ResetKey::new(&[2; 32]);
    let long = |first: u8, version: u8, id: &[u8]| {
        [&[first, 0, 0, 0, version, id.len() as u8][..], id, &[0, 0x40, 100], &[7; 60]].concat()
    };
    for form in 0..5 {
        let mut wire = Wire::new();
        let now = wire.now;
        let token = key.token(&wire.server().local_ids().next().unwrap());
        let own = wire.client().local_ids().next().unwrap();
        let head = match form {
            0 => long(0xe3, 1, &[9; 8]),
            1 => long(0xc3, 77, &[9; 8]),
            2 => long(0xe3, 1, own.as_bytes()),
            3 => [&[0x41][..], own.as_bytes(), &[7; 30]].concat(),
            _ => vec![0x01; 40],
        };
        let mut without = [&head[..], &[7; 16]].concat();
        wire.client.receive(now, from(SERVER), &mut without);
        assert!(!wire.client().is_closed(), "{form}: not the token");
        let mut reset = [&head[..], token.as_bytes()].concat();
        wire.client.receive(now, from(SERVER), &mut reset);
        assert!(wire.client().is_closed(), "{form}");
    }
}

/// RFC 9287 §3: only an endpoint that has sent grease_quic_bit accepts packets without the fixed bit.
#[test]
fn packets_without_the_fixed_bit_are_dropped_unless_greasing_is_on() {
    for is_on in [true, false] {
        let mut wire =
            Wire::with(TransportConfig::builder().grease_quic_bit(is_on).build().unwrap());
        let server = wire.server();
        // This is the effect of the client sending the parameter.
        server.peer.parameters.grease_quic_bit = true;
        server.config = Arc::new(TransportConfig::default());
        for _ in 0..40 {
            wire.server().ping();
            wire.exchange();
            wire.now += Duration::from_secs(1);
        }
        let dropped = wire.client().statistics().packets_dropped;
        assert_eq!(dropped > 0, !is_on, "{dropped}");
        assert!(!wire.client().is_closed());
    }
}

/// A client retransmits its Finished until it receives HANDSHAKE_DONE; s2n-quic sends nothing else.
/// The server has discarded its Handshake keys by then. It repeats HANDSHAKE_DONE before its probe
/// timer expires, but only a few times, and not after HANDSHAKE_DONE was acknowledged.
#[test]
fn a_late_handshake_packet_is_answered_with_handshake_done() {
    for missing in 1..=MAX_HANDSHAKE_DONE_REPEATS + 1 {
        let mut wire = Wire::begin(TransportConfig::default(), |_| {});
        let now = wire.now;
        for mut datagram in datagrams(&mut wire.server, wire.accepted, now) {
            wire.client.receive(now, from(SERVER), &mut datagram);
        }
        let finished = datagrams(&mut wire.client, wire.handle, now);
        let mut answers = Vec::new();
        for _ in 0..=missing {
            for datagram in &finished {
                wire.server.receive(now, from(CLIENT), &mut datagram.clone());
            }
            answers = datagrams(&mut wire.server, wire.accepted, now);
        }
        let is_answered = missing <= MAX_HANDSHAKE_DONE_REPEATS;
        assert_eq!(!answers.is_empty(), is_answered, "{missing}");
        for mut datagram in answers {
            wire.client.receive(now, from(SERVER), &mut datagram);
        }
        assert_eq!(wire.client().is_confirmed(), is_answered, "{missing}");
        if is_answered {
            wire.exchange();
            wire.server.receive(now, from(CLIENT), &mut finished[0].clone());
            assert!(datagrams(&mut wire.server, wire.accepted, now).is_empty(), "{missing}");
        }
    }
}

/// A ClientHello takes two datagrams, of which the first is lost. The ACK of the second may be lost
/// as well, and nothing would repeat it. A PING, however, is repeated when the probe timeout
/// expires, within the limit for an unvalidated address.
#[test]
fn a_server_asks_for_the_rest_of_a_client_hello() {
    let lose_first = |datagrams: &mut Vec<Vec<u8>>| drop(datagrams.remove(0));
    let mut wire = Wire::begin(TransportConfig::default(), lose_first);
    let mut sent = datagrams(&mut wire.server, wire.accepted, wire.now);
    assert_eq!(sent.iter().map(Vec::len).collect::<Vec<_>>(), [1200]);
    let now = wire.server().deadline().unwrap();
    wire.server().on_deadline(now);
    sent.extend(datagrams(&mut wire.server, wire.accepted, now));
    assert_eq!(sent.iter().map(Vec::len).collect::<Vec<_>>(), [1200; 3], "three for one datagram");
    // Any of these datagrams makes the client send the missing data.
    wire.client.receive(wire.now, from(SERVER), &mut sent.pop().unwrap());
    wire.exchange();
    let now = wire.client().deadline().unwrap();
    assert!(now < wire.now + Duration::from_millis(200), "{now:?}");
    wire.now = now;
    wire.client().on_deadline(now);
    wire.exchange();
    assert!(wire.client().is_confirmed() && wire.server().is_confirmed());
}

/// A ServerHello and the messages behind it are lost, and the server's first timer belongs to one
/// packet number space. When the timer expires, the server sends packets in both spaces, because
/// the client cannot continue with the ServerHello alone (RFC 9002 §6.2.4).
#[test]
fn one_timeout_repeats_what_was_lost_in_every_space_of_the_handshake() {
    let mut wire = Wire::begin(TransportConfig::default(), |_| {});
    let lost = datagrams(&mut wire.server, wire.accepted, wire.now);
    assert!(!lost.is_empty());
    wire.now = wire.server().deadline().unwrap();
    let now = wire.now;
    wire.server().on_deadline(now);
    for mut datagram in datagrams(&mut wire.server, wire.accepted, now) {
        wire.client.receive(now, from(SERVER), &mut datagram);
    }
    assert!(!wire.client().is_handshaking(), "the client has received the server's Finished");
}
