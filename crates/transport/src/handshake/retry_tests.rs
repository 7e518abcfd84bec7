use clearway_wire::header::{HeaderKind, ProtectedHeader, without_fixed_bit};

use super::*;
use crate::handshake::tests::hex;

fn id(bytes: &[u8]) -> ConnectionId {
    ConnectionId::new(bytes).unwrap()
}

/// Tests the sample Retry packet of RFC 9001 §A.4.
#[test]
fn the_retry_of_the_rfc() {
    let original = id(&[0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08]);
    let source = id(&[0xf0, 0x67, 0xa5, 0x50, 0x2a, 0x42, 0x62, 0xb5]);
    let packet =
        build(Version::V1, ConnectionId::default(), source, original, b"token", 0x0f).unwrap();
    let expected = [
        0xff, 0x00, 0x00, 0x00, 0x01, 0x00, 0x08, 0xf0, 0x67, 0xa5, 0x50, 0x2a, 0x42, 0x62, 0xb5,
        0x74, 0x6f, 0x6b, 0x65, 0x6e, 0x04, 0xa2, 0x65, 0xba, 0x2e, 0xff, 0x4d, 0x82, 0x90, 0x58,
        0xfb, 0x3f, 0x0f, 0x24, 0x96, 0xba,
    ];
    assert_eq!(packet, expected);
}

#[test]
fn only_an_answer_to_our_initial_is_authentic() {
    let (original, source, client) = (id(&[1; 8]), id(&[2; 8]), id(&[3; 8]));
    let packet = build(Version::V2, client, source, original, &[7; 100], 0).unwrap();
    let is_authentic = |packet: &[u8], original| match ProtectedHeader::decode(packet, 8)
        .map(|header| header.kind)
    {
        Ok(HeaderKind::Retry(retry)) => is_authentic(&retry, original, false),
        _ => false,
    };
    assert!(is_authentic(&packet, original));
    assert!(!is_authentic(&packet, id(&[9; 8])));
    for position in 0..packet.len() {
        let mut changed = packet.clone();
        changed[position] ^= 1;
        assert!(!is_authentic(&changed, original), "byte {position}");
    }
}

#[test]
fn a_token_that_does_not_fit_makes_no_packet() {
    assert_eq!(build(Version::V1, id(&[1; 8]), id(&[2; 8]), id(&[3; 8]), &[0; 1200], 0), None);
}

/// Tests the sample Retry packet of RFC 9369 §A.4.
#[test]
fn the_retry_of_version_2() {
    let original = id(&[0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08]);
    let source = id(&[0xf0, 0x67, 0xa5, 0x50, 0x2a, 0x42, 0x62, 0xb5]);
    let client = ConnectionId::default();
    let packet = build(Version::V2, client, source, original, b"token", 0x0f).unwrap();
    let expected = "cf6b3343cf0008f067a5502a4262b5746f6b656ec8646ce8bfe33952d955543665dcc7b6";
    assert_eq!(packet, hex(expected));
}

/// RFC 9000 §17.2: Retry packets without the fixed bit have to be discarded, unless the receiver
/// has sent grease_quic_bit (RFC 9287 §3).
#[test]
fn a_retry_without_the_fixed_bit_is_not_authentic_although_its_tag_is_right() {
    let original = id(&[1; 8]);
    let mut packet = build(Version::V1, id(&[3; 8]), id(&[2; 8]), original, b"token", 0).unwrap();
    let is_authentic = |packet: &[u8], accepts_cleared_bit| {
        let Ok(HeaderKind::Retry(retry)) =
            ProtectedHeader::decode(packet, 8).map(|header| header.kind)
        else {
            panic!("a Retry was built")
        };
        is_authentic(&retry, original, accepts_cleared_bit)
    };
    assert!(is_authentic(&packet, false));
    packet[0] = without_fixed_bit(packet[0]);
    assert!(!is_authentic(&packet, true), "the tag covers the bit");
    let (content, tag) = packet.split_last_chunk_mut().unwrap();
    *tag = retry_integrity_tag(Version::V1, &original, content).unwrap();
    assert!(!is_authentic(&packet, false));
    assert!(is_authentic(&packet, true));
}
