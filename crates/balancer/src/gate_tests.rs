use clearway_wire::header::LongHeader;
use clearway_wire::quic_lb::{ConfigId, IdCodec, ServerId};
use clearway_wire::{PacketNumber, Writer, header::set_length};

use super::*;
use crate::{Server, ServerState};

fn codec(number: u8, key: Option<[u8; 16]>) -> IdCodec {
    IdCodec::new(ConfigId::new(number).unwrap(), 4, 12, key).unwrap()
}

fn server_id() -> ServerId {
    ServerId::new(&[9; 4]).unwrap()
}

/// Returns a pool of one server, with encrypted connection IDs (configuration 0) and unencrypted
/// ones (configuration 1).
fn pool() -> Pool {
    let ids = [0, 1].map(|number| (ConfigId::new(number).unwrap(), server_id()));
    let server = Server {
        name: "a".to_owned(),
        address: ([192, 0, 2, 1], 443).into(),
        ids: ids.into(),
        id_len: None,
        weight: 1,
        state: ServerState::Active,
        has_preface: true,
    };
    Pool::new(vec![codec(0, Some([7; 16])), codec(1, None)], vec![server]).unwrap()
}

/// Returns a datagram of this size with a packet of this type, version, destination and token.
fn datagram(
    packet_type: LongPacketType,
    version: Version,
    destination: &[u8],
    token: &[u8],
    size: usize,
) -> Vec<u8> {
    let id = |octets: &[u8]| ConnectionId::new(octets).unwrap();
    let (destination, source) = (id(destination), id(&[8; 8]));
    let header = LongHeader { packet_type, version, destination, source, token };
    let mut buffer = vec![0; size];
    let mut writer = Writer::new(&mut buffer);
    let offsets = header.encode(&mut writer, PacketNumber::ZERO, 1).unwrap();
    set_length(&mut buffer, offsets.length, size - offsets.packet_number).unwrap();
    buffer
}

fn initial_with(token: &[u8]) -> Vec<u8> {
    datagram(LongPacketType::Initial, Version::V1, &[0xe7; 8], token, 1200)
}

/// In this test, the token states the result of checking it.
fn check(initial: &Initial<'_>) -> Token {
    match initial.token {
        b"valid" => Token::Valid,
        b"retry" => Token::InvalidRetry,
        _ => Token::Unknown,
    }
}

/// A gate with a limit of ten per second, and the current time.
struct Scene {
    gate: Gate,
    pool: Pool,
    now: Timestamp,
}

#[derive(PartialEq, Debug)]
enum Outcome {
    Passes,
    Retry,
    Both,
    Dropped,
}
use Outcome::*;

impl Scene {
    fn new() -> Self {
        Self { gate: Gate::new(Some(10)), pool: pool(), now: Timestamp::ORIGIN }
    }

    fn send(&mut self, datagram: &[u8]) -> Outcome {
        match self.gate.admit(self.now, &self.pool, datagram, check) {
            Admission::Pass => Passes,
            Admission::Retry(_) => Retry,
            Admission::RetryAndPass(_) => Both,
            Admission::Drop => Dropped,
        }
    }

    fn wait(&mut self, milliseconds: u64) {
        self.now += Duration::from_millis(milliseconds);
    }

    /// Returns a closed gate, after the transition period.
    fn closed() -> Self {
        let mut scene = Self::new();
        for _ in 0..10 {
            assert_eq!(scene.send(&initial_with(b"")), Passes);
        }
        assert_eq!(scene.send(&initial_with(b"")), Both);
        scene.wait(199);
        assert_eq!(scene.send(&initial_with(b"")), Both, "the client may be in a handshake");
        scene.wait(1);
        assert_eq!(scene.send(&initial_with(b"")), Retry);
        assert!(scene.gate.statistics().is_closed);
        scene
    }
}

#[test]
fn it_opens_after_a_second_with_no_more_than_permitted() {
    let mut scene = Scene::closed();
    for second in 0..5 {
        scene.wait(1000);
        for number in 0..=10 {
            assert_eq!(scene.send(&initial_with(b"")), Retry, "{number} in second {second}");
        }
    }
    scene.wait(1000);
    for _ in 0..10 {
        assert_eq!(scene.send(&initial_with(b"")), Retry);
    }
    scene.wait(1000);
    for _ in 0..10 {
        assert_eq!(scene.send(&initial_with(b"")), Passes);
    }
    assert!(!scene.gate.statistics().is_closed);
}

#[test]
fn it_opens_when_nobody_comes() {
    let mut scene = Scene::closed();
    scene.wait(2000);
    scene.gate.advance(scene.now);
    assert!(!scene.gate.statistics().is_closed);
    assert_eq!(scene.send(&initial_with(b"")), Passes);
}

#[test]
fn a_valid_token_lets_in_and_counts_for_nothing() {
    let mut scene = Scene::closed();
    for _ in 0..100 {
        assert_eq!(scene.send(&initial_with(b"valid")), Passes);
    }
    assert_eq!(scene.send(&initial_with(b"other")), Retry);
    // The client would discard a second Retry.
    assert_eq!(scene.send(&initial_with(b"retry")), Dropped);
    let statistics = scene.gate.statistics();
    assert_eq!((statistics.valid_tokens, statistics.invalid_tokens), (100, 2));
    assert_eq!((statistics.retries, statistics.dropped), (4, 1));
}

/// A flood of packets with forged tokens closes the gate as well.
#[test]
fn invalid_tokens_count() {
    let mut scene = Scene::new();
    for _ in 0..10 {
        assert_eq!(scene.send(&initial_with(b"retry")), Passes);
    }
    assert_eq!(scene.send(&initial_with(b"retry")), Dropped);
}

#[test]
fn what_is_no_initial_packet_of_a_known_version_passes() {
    let mut scene = Scene::closed();
    for packet_type in [LongPacketType::ZeroRtt, LongPacketType::Handshake] {
        for version in Version::KNOWN {
            let other = datagram(packet_type, version, &[0xe7; 8], b"", 1200);
            assert_eq!(scene.send(&other), Passes);
        }
    }
    let of_v2 = datagram(LongPacketType::Initial, Version::V2, &[0xe7; 8], b"", 1200);
    assert_eq!(scene.send(&of_v2), Retry);
    let mut unknown = initial_with(b"");
    unknown[4] = 9;
    assert_eq!(scene.send(&unknown), Passes);
    assert_eq!(scene.send(&[0x40; 1200]), Passes);
    assert_eq!(scene.send(&[0xc0]), Passes, "the router drops it");
    assert_eq!(scene.send(&[]), Passes);
}

/// A Retry is never larger than the datagram that it responds to.
#[test]
fn what_version_1_does_not_permit_is_not_answered() {
    let mut scene = Scene::closed();
    let small = datagram(LongPacketType::Initial, Version::V1, &[0xe7; 8], b"", 1199);
    assert_eq!(scene.send(&small), Dropped);
    let short_id = datagram(LongPacketType::Initial, Version::V1, &[0xe7; 7], b"", 1200);
    assert_eq!(scene.send(&short_id), Dropped);
}

/// A client's handshake takes several Initial packets; those after the first are addressed to a
/// connection ID that the server has chosen.
#[test]
fn clients_in_their_handshake_are_not_counted_if_ids_are_encrypted() {
    let mut scene = Scene::new();
    let issued = |codec: IdCodec| {
        let id = codec.encode(&server_id(), &[3; 12], &[], 0).unwrap();
        datagram(LongPacketType::Initial, Version::V1, id.as_bytes(), b"", 1200)
    };
    for _ in 0..50 {
        assert_eq!(scene.send(&issued(codec(0, Some([7; 16])))), Passes);
    }
    // Without encryption, anyone can forge such an ID.
    for _ in 0..10 {
        assert_eq!(scene.send(&issued(codec(1, None))), Passes);
    }
    assert_eq!(scene.send(&issued(codec(1, None))), Both);
}

#[test]
fn without_a_limit_all_pass() {
    let mut scene = Scene::closed();
    scene.gate.set_limit(None);
    for _ in 0..100 {
        assert_eq!(scene.send(&initial_with(b"other")), Passes);
    }
    assert!(!scene.gate.statistics().is_closed);
}

#[test]
fn with_a_limit_of_0_everybody_needs_a_token() {
    let mut scene = Scene { gate: Gate::new(Some(0)), ..Scene::new() };
    scene.wait(10_000);
    for _ in 0..3 {
        assert_eq!(scene.send(&initial_with(b"")), Retry);
        assert_eq!(scene.send(&initial_with(b"valid")), Passes);
        scene.wait(10_000);
    }
    scene.gate.set_limit(Some(1));
    scene.wait(1000);
    assert_eq!(scene.send(&initial_with(b"")), Passes);
}

#[test]
fn a_first_flight_is_a_large_initial_packet_to_a_long_id() {
    use LongPacketType::{Handshake, Initial};
    let begins = |packet_type, id_len, size| {
        is_first_flight(&datagram(packet_type, Version::V1, &[1; 20][..id_len], b"", size))
    };
    assert!(begins(Initial, 8, 1200) && begins(Initial, 20, 1452));
    assert!(!begins(Initial, 8, 1199) && !begins(Initial, 7, 1200));
    assert!(!begins(Handshake, 8, 1200));
}
