//! Tests every check on hand-crafted packets: a case that passes, and the smallest change that
//! makes it fail.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use super::{
    Evidence, Fault, Verdict, amplification, goodput_of, handshake, marks, paths, versions,
};
use crate::capture::{Connection, Frames, Kind, Opened, Packet, Sender, Trace, V1, V2};
use crate::catalogue::find;

const CLIENT: &str = "193.167.0.100:50000";
const MOVED: &str = "193.167.0.100:50001";
const SERVER: &str = "193.167.100.100:443";

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// Returns a decrypted packet in its own datagram, between the usual addresses.
fn packet(sender: Sender, kind: Kind) -> Packet {
    let (source, destination) = match sender {
        Sender::Client => (CLIENT, SERVER),
        Sender::Server => (SERVER, CLIENT),
    };
    Packet {
        at: Duration::ZERO,
        sender,
        source: address(source),
        destination: address(destination),
        ecn: 0,
        datagram: (0, 1200),
        kind,
        version: V1,
        destination_id: vec![1; 8],
        source_id: vec![2; 8],
        token: Vec::new(),
        protected_length: 100,
        opened: Some(Opened { number: 0, key_phase: false, frames: Frames::default() }),
    }
}

fn client(kind: Kind) -> Packet {
    packet(Sender::Client, kind)
}

fn server(kind: Kind) -> Packet {
    packet(Sender::Server, kind)
}

impl Packet {
    fn with_number(mut self, number: u64) -> Self {
        self.opened.as_mut().unwrap().number = number;
        self
    }

    fn with_frames(mut self, change: impl FnOnce(&mut Frames)) -> Self {
        change(&mut self.opened.as_mut().unwrap().frames);
        self
    }

    fn with_message(self) -> Self {
        self.with_frames(|frames| frames.crypto.push((0, vec![2; 100])))
    }
}

/// Applies a check to packets that both captures contain.
fn on(
    test: &str,
    packets: Vec<Packet>,
    connections: [&[u8]; 2],
    check: impl FnOnce(&Evidence<'_>) -> Verdict,
) -> Verdict {
    let trace = || {
        let mut packets = packets.clone();
        for (index, packet) in packets.iter_mut().enumerate() {
            packet.datagram.0 = index;
        }
        let with_data = connections.iter().filter(|data| !data.is_empty());
        let connections = with_data.map(|data| Connection::with_server_handshake(data)).collect();
        Trace { packets, connections }
    };
    let (client, server) = (trace(), trace());
    check(&evidence(test, &client, &server))
}

fn evidence<'a>(test: &str, client: &'a Trace, server: &'a Trace) -> Evidence<'a> {
    Evidence {
        test: find(test).unwrap(),
        root: Path::new("."),
        downloads: Path::new("."),
        client,
        server,
        has_keys: true,
    }
}

fn plain(packets: Vec<Packet>, check: impl FnOnce(&Evidence<'_>) -> Verdict) -> Verdict {
    on("transfer", packets, [&[], &[]], check)
}

/// Returns the reason for a failure.
fn reason(verdict: Verdict) -> String {
    match verdict {
        Err(Fault::Failed(why)) => why,
        other => panic!("not failed: {other:?}"),
    }
}

#[test]
fn handshakes_are_counted_by_the_servers_connection_ids() {
    let first = server(Kind::Initial).with_message();
    let second = Packet { source_id: vec![3; 8], ..first.clone() };
    let count = |test: &str, packets: Vec<Packet>, count| {
        on(test, packets, [&[], &[]], |it| {
            handshake::in_version_1(it, count).map(|()| String::new())
        })
    };
    assert!(count("transfer", vec![first.clone(), first.clone()], 1).is_ok());
    assert!(count("handshakeloss", vec![first.clone(), second.clone()], 2).is_ok());
    let why = reason(count("transfer", vec![first.clone(), second.clone()], 1));
    assert_eq!(why, "2 handshakes instead of 1");
    // Closing a connection that started with a corrupted packet is not a handshake.
    let close = server(Kind::Initial);
    let close = Packet { source_id: vec![4; 8], ..close };
    assert!(count("handshakecorruption", vec![first.clone(), close.clone()], 1).is_ok());
    assert!(count("handshakeloss", vec![first.clone(), close], 1).is_err());
    let other = Packet { version: V2, ..first };
    assert!(reason(count("transfer", vec![other], 1)).contains("0x6b3343cf"));
}

#[test]
fn a_retry_packet_is_seen_where_none_is_wanted() {
    assert!(plain(vec![server(Kind::Initial)], handshake::without_retry).is_ok());
    let why = reason(plain(vec![server(Kind::Retry)], handshake::without_retry));
    assert_eq!(why, "the server sent a Retry packet");
}

#[test]
fn a_client_hello_is_repeated_by_its_first_byte() {
    let hello = client(Kind::Initial).with_message();
    let rest = client(Kind::Initial).with_frames(|frames| frames.crypto.push((1000, vec![1])));
    assert!(plain(vec![hello.clone(), hello.clone()], handshake::repeats_client_hello).is_ok());
    let why = reason(plain(vec![hello, rest], handshake::repeats_client_hello));
    assert!(why.contains("sent 1 ClientHello"), "{why}");
}

#[test]
fn a_token_comes_back_with_a_higher_packet_number() {
    let token = vec![7; 20];
    let retry = Packet { token: token.clone(), opened: None, ..server(Kind::Retry) };
    let with_token = Packet { token, ..client(Kind::Initial) };
    let run = |packets| plain(packets, handshake::uses_retry_token);
    let first = client(Kind::Initial);
    let answer = with_token.clone().with_number(1);
    assert!(run(vec![first.clone(), retry.clone(), answer.clone()]).is_ok());
    let again = vec![first.clone(), retry.clone(), with_token];
    assert!(reason(run(again)).contains("not above"));
    assert!(reason(run(vec![first.clone(), answer.clone()])).contains("no Retry packet"));
    let other = Packet { token: vec![8; 20], ..answer };
    assert!(reason(run(vec![first, retry, other])).contains("no Initial packet has the token"));
}

#[test]
fn early_data_has_to_carry_half_of_the_requests() {
    let early = client(Kind::ZeroRtt);
    let late = |protected_length| Packet { protected_length, ..client(Kind::OneRtt) };
    let run = |packets| plain(packets, handshake::has_early_data);
    assert!(run(vec![early.clone(), late(5000)]).is_ok());
    assert!(reason(run(vec![early, late(5001)])).contains("5001 bytes in 1-RTT"));
    assert!(reason(run(vec![late(10)])).contains("no 0-RTT"));
}

#[test]
fn both_endpoints_have_to_change_their_keys() {
    let changed = |sender| {
        let mut packet = packet(sender, Kind::OneRtt);
        packet.opened.as_mut().unwrap().key_phase = true;
        packet
    };
    let (of_client, of_server) = (changed(Sender::Client), changed(Sender::Server));
    assert!(plain(vec![of_client.clone(), of_server], handshake::updates_keys).is_ok());
    let why = reason(plain(vec![of_client, server(Kind::OneRtt)], handshake::updates_keys));
    assert_eq!(why, "packets in key phase 1: 1 from the client, 0 from the server");
}

#[test]
fn marks_are_sent_and_acknowledged_on_both_sides() {
    let marked = |packet: Packet, ecn| {
        let packet = packet.with_frames(|frames| frames.acknowledges_ecn = true);
        Packet { ecn, ..packet }
    };
    let both = vec![marked(client(Kind::OneRtt), 0b10), marked(server(Kind::OneRtt), 0b01)];
    assert!(plain(both.clone(), marks::are_ect_and_acknowledged).is_ok());
    let mut congested = both.clone();
    congested.push(marked(server(Kind::OneRtt), 0b11));
    assert!(reason(plain(congested, marks::are_ect_and_acknowledged)).contains("marked CE"));
    let only_client = vec![both[0].clone(), server(Kind::OneRtt)];
    let why = reason(plain(only_client, marks::are_ect_and_acknowledged));
    assert!(why.contains("the server did not mark any packet"), "{why}");
    let unacknowledged = vec![both[0].clone(), Packet { ecn: 0b10, ..server(Kind::OneRtt) }];
    let why = reason(plain(unacknowledged, marks::are_ect_and_acknowledged));
    assert!(why.contains("the server did not send any ACK"), "{why}");
}

#[test]
fn a_server_keeps_within_its_credit_until_the_client_is_validated() {
    let long = vec![0; 7500];
    let run = |packets: Vec<Packet>, handshake: &[u8]| {
        on("amplificationlimit", packets, [handshake, &[]], amplification::is_limited)
    };
    let first = || client(Kind::Initial);
    let flight = |count: usize| vec![server(Kind::Initial); count];
    let with =
        |count: usize| [vec![first()], flight(count), vec![client(Kind::Handshake)]].concat();
    let found = run(with(3), &long).unwrap();
    assert_eq!(found, "3600 bytes sent and 1200 received before address validation");
    assert!(reason(run(with(4), &long)).contains("4800 bytes"));
    assert!(reason(run(with(3), &long[1..])).contains("7499 bytes"));
    // There is no limit after validation.
    let later = [with(3), flight(30)].concat();
    assert!(run(later, &long).is_ok());
    // A client that uses the server's connection ID must have received a packet from the server.
    let answer = Packet { destination_id: vec![2; 8], ..first() };
    assert!(run([vec![first()], flight(3), vec![answer], flight(30)].concat(), &long).is_ok());
    assert!(reason(run([vec![first()], flight(3)].concat(), &long)).contains("never validated"));
    let negotiation = vec![first(), server(Kind::VersionNegotiation)];
    assert!(reason(run(negotiation, &long)).contains("Version Negotiation"));
}

/// Returns a server's packet to the migrated client, with a PATH_CHALLENGE frame if `challenge` is
/// set.
fn to_moved(challenge: Option<[u8; 8]>) -> Packet {
    let packet = Packet { destination: address(MOVED), ..server(Kind::OneRtt) };
    packet.with_frames(|frames| frames.path_challenges.extend(challenge))
}

fn response(data: [u8; 8]) -> Packet {
    let packet = Packet { source: address(MOVED), ..client(Kind::OneRtt) };
    packet.with_frames(|frames| frames.path_responses.push(data))
}

#[test]
fn a_new_path_begins_with_a_challenge_that_is_answered() {
    let before = || vec![client(Kind::OneRtt), server(Kind::OneRtt)];
    let run = |rest: Vec<Packet>| plain([before(), rest].concat(), paths::are_validated);
    let found = run(vec![to_moved(Some([9; 8])), response([9; 8])]).unwrap();
    assert_eq!(found, "2 paths, 1 challenges answered");
    let late = vec![to_moved(None), to_moved(Some([9; 8])), response([9; 8])];
    assert!(reason(run(late)).contains("has no PATH_CHALLENGE"));
    let wrong = vec![to_moved(Some([9; 8])), response([8; 8])];
    assert!(reason(run(wrong)).contains("1 of 1 PATH_CHALLENGE frames were not answered"));
    assert!(reason(run(Vec::new())).contains("single path"));
}

#[test]
fn a_challenge_that_was_lost_is_not_answered() {
    let at_server = vec![server(Kind::OneRtt), to_moved(Some([9; 8])), to_moved(Some([8; 8]))];
    let run = |at_client: Vec<Packet>| {
        let client = Trace { packets: at_client, connections: Vec::new() };
        let mut packets = at_server.clone();
        (0..).zip(&mut packets).for_each(|(index, packet)| packet.datagram.0 = index);
        let server = Trace { packets, connections: Vec::new() };
        paths::are_validated(&evidence("rebind-port", &client, &server))
    };
    let found = run(vec![to_moved(Some([8; 8])), response([8; 8])]).unwrap();
    assert_eq!(found, "2 paths, 1 challenges answered, 1 lost in the network");
    assert!(reason(run(vec![server(Kind::OneRtt)])).contains("no PATH_CHALLENGE frame arrived"));
}

#[test]
fn a_new_address_is_more_than_a_new_port() {
    let packets = vec![server(Kind::OneRtt), to_moved(Some([9; 8])), response([9; 8])];
    let why = reason(plain(packets, paths::are_validated_at_new_addresses));
    assert_eq!(why, "the client had a single address");
}

#[test]
fn a_migrating_client_takes_a_new_connection_id() {
    let moved = |id: u8| Packet { destination_id: vec![id; 8], ..response([9; 8]) };
    let run = |packet| {
        let challenge = to_moved(Some([9; 8]));
        let packets = vec![client(Kind::OneRtt), server(Kind::OneRtt), challenge, packet];
        plain(packets, paths::are_migrated_to)
    };
    assert!(run(moved(5)).is_ok());
    assert!(reason(run(moved(1))).contains("reuses the old connection ID"));
}

#[test]
fn both_endpoints_go_on_in_version_2() {
    let in_2 = |packet| Packet { version: V2, ..packet };
    let run = |packets| plain(packets, versions::become_2);
    let handshakes = || [client(Kind::Handshake), server(Kind::Handshake)].map(in_2).to_vec();
    let changed = vec![client(Kind::Initial), in_2(server(Kind::Initial))];
    assert!(run([changed.clone(), handshakes()].concat()).is_ok());
    let unchanged = vec![client(Kind::Initial), server(Kind::Initial)];
    assert!(reason(run([unchanged, handshakes()].concat())).contains("the server's Initial"));
    let at_once = vec![in_2(client(Kind::Initial)), in_2(server(Kind::Initial))];
    assert!(reason(run([at_once, handshakes()].concat())).contains("the client's Initial"));
    let back = vec![in_2(client(Kind::Handshake)), server(Kind::Handshake)];
    assert!(reason(run([changed, back].concat())).contains("the server's Handshake"));
}

#[test]
fn goodput_is_the_size_by_the_time_of_the_servers_packets() {
    let at =
        |milliseconds| Packet { at: Duration::from_millis(milliseconds), ..server(Kind::OneRtt) };
    let packets = vec![at(1000), at(2000), at(11_000), client(Kind::OneRtt)];
    let mut measured = 0.0;
    let verdict = on("goodput", packets, [&[], &[]], |evidence| {
        measured = goodput_of(evidence)?;
        Ok(String::new())
    });
    assert!(verdict.is_ok());
    assert_eq!(measured, 8.0 * f64::from(10 << 20) / 10_000.0);
    let one = on("goodput", vec![at(1)], [&[], &[]], |it| goodput_of(it).map(|_| String::new()));
    assert!(reason(one).contains("fewer than two"));
}
