use proptest::prelude::*;

use super::*;
use crate::header::{LongHeader, set_length};
use crate::strategies::{bytes, connection_id, hex, packet_number};
use crate::{EncodeError, Writer};

fn id(text: &str) -> ConnectionId {
    ConnectionId::new(&hex(text)).unwrap()
}

/// Tests the example in RFC 9001 §A.2, which has 18 bytes up to the packet number and a Length of
/// 1182.
#[test]
fn client_initial_of_the_rfc() {
    let mut datagram = hex("c000000001088394c8f03e5157080000449e7b9aec34");
    datagram.resize(1200, 0x77);
    let header = ProtectedHeader::decode(&datagram, 8).unwrap();
    let kind = HeaderKind::Long {
        packet_type: LongPacketType::Initial,
        version: Version::V1,
        destination: id("8394c8f03e515708"),
        source: ConnectionId::default(),
        token: &[],
        packet_number_offset: 18,
    };
    let expected = ProtectedHeader { first_byte: 0xc0, fixed_bit: true, packet_len: 1200, kind };
    assert_eq!(header, expected);
    assert_eq!(header.packet_type(), Some((PacketType::Initial, 18)));
    assert_eq!(header.destination(), hex("8394c8f03e515708"));
    let cut = DecodeError::Truncated { field: "Packet Payload" };
    assert_eq!(ProtectedHeader::decode(&datagram[..1199], 8), Err(cut));
}

/// Tests the complete packet in RFC 9001 §A.3, with another packet coalesced after it.
#[test]
fn server_initial_of_the_rfc() {
    let packet = hex("cf000000010008f067a5502a4262b500 4075c0d95a482cd0991cd25b0aac406a
         5816b6394100f37a1c69797554780bb3 8cc5a99f5ede4cf73c3ec2493a1839b3
         dbcba3f6ea46c5b7684df3548e7ddeb9 c3bf9c73cc3f3bded74b562bfb19fb84
         022f8ef4cdd93795d77d06edbb7aaf2f 58891850abbdca3d20398c276456cbc4
         2158407dd074ee");
    assert_eq!(packet.len(), 135);
    let datagram = [packet.as_slice(), b"another"].concat();
    let header = ProtectedHeader::decode(&datagram, 0).unwrap();
    assert_eq!((header.first_byte, header.packet_len), (0xcf, 135));
    let kind = HeaderKind::Long {
        packet_type: LongPacketType::Initial,
        version: Version::V1,
        destination: ConnectionId::default(),
        source: id("f067a5502a4262b5"),
        token: &[],
        packet_number_offset: 18,
    };
    assert_eq!(header.kind, kind);
}

/// Tests the example in RFC 9001 §A.4.
#[test]
fn retry_of_the_rfc() {
    let datagram = hex("ff000000010008f067a5502a4262b574 6f6b656e04a265ba2eff4d829058fb3f
         0f2496ba");
    let header = ProtectedHeader::decode(&datagram, 0).unwrap();
    assert_eq!((header.packet_len, header.packet_type()), (36, None));
    let HeaderKind::Retry(retry) = header.kind else { panic!("{header:?}") };
    assert_eq!((retry.version, retry.token), (Version::V1, &b"token"[..]));
    assert_eq!(retry.source, id("f067a5502a4262b5"));
    assert_eq!(retry.integrity_tag.to_vec(), hex("04a265ba2eff4d829058fb3f0f2496ba"));
    assert_eq!(retry.without_tag, &datagram[..20]);
}

/// Tests the example in RFC 9369 §A.2 to §A.4.
#[test]
fn packets_of_version_2() {
    let mut datagram = hex("d76b3343cf088394c8f03e5157080000449ea0c95e82");
    datagram.resize(1200, 0x77);
    let header = ProtectedHeader::decode(&datagram, 8).unwrap();
    let kind = HeaderKind::Long {
        packet_type: LongPacketType::Initial,
        version: Version::V2,
        destination: id("8394c8f03e515708"),
        source: ConnectionId::default(),
        token: &[],
        packet_number_offset: 18,
    };
    assert_eq!((header.kind, header.packet_len), (kind, 1200));

    let datagram = hex("cf6b3343cf0008f067a5502a4262b574 6f6b656ec8646ce8bfe33952d9555436
         65dcc7b6");
    let header = ProtectedHeader::decode(&datagram, 0).unwrap();
    let HeaderKind::Retry(retry) = header.kind else { panic!("{header:?}") };
    assert_eq!((retry.version, retry.token), (Version::V2, &b"token"[..]));
    assert_eq!(retry.integrity_tag.to_vec(), hex("c8646ce8bfe33952d955543665dcc7b6"));
    for (first_byte, packet_type) in [("e0", PacketType::ZeroRtt), ("f0", PacketType::Handshake)] {
        let datagram = hex(&format!("{first_byte} 6b3343cf 00 00 01 77"));
        let header = ProtectedHeader::decode(&datagram, 0).unwrap();
        assert_eq!(header.packet_type(), Some((packet_type, 8)));
    }
}

/// Tests the example in RFC 9001 §A.5.
#[test]
fn short_header_packet_of_the_rfc() {
    let datagram = hex("4cfe4189655e5cd55c41f69080575d7999c25a5bfb");
    let header = ProtectedHeader::decode(&datagram, 0).unwrap();
    let kind = HeaderKind::Short {
        destination: ConnectionId::default(),
        spin: false,
        packet_number_offset: 1,
    };
    let expected = ProtectedHeader { first_byte: 0x4c, fixed_bit: true, packet_len: 21, kind };
    assert_eq!(header, expected);
    assert_eq!(header.packet_type(), Some((PacketType::OneRtt, 1)));
}

#[test]
fn the_fixed_bit_is_reported() {
    let header = ProtectedHeader::decode(&[0x20, 1, 2, 3], 2).unwrap();
    assert!(!header.fixed_bit);
    assert!(matches!(header.kind, HeaderKind::Short { spin: true, packet_number_offset: 3, .. }));
    let datagram = hex("a0 00000001 00 00 01 77");
    let header = ProtectedHeader::decode(&datagram, 2).unwrap();
    assert!(!header.fixed_bit);
    assert_eq!(header.packet_type(), Some((PacketType::Handshake, 8)));
}

#[test]
fn connection_ids_of_twenty_one_bytes() {
    let long = "ee".repeat(21);
    let invalid = DecodeError::invalid("Connection ID Length", "exceeds 20");
    let v1 = hex(&format!("e0 00000001 15 {long} 00 01 77"));
    assert_eq!(ProtectedHeader::decode(&v1, 0), Err(invalid));
    let v1 = hex(&format!("e0 00000001 00 15 {long} 01 77"));
    assert_eq!(ProtectedHeader::decode(&v1, 0), Err(invalid));
    // Version Negotiation must be possible for versions with longer connection IDs.
    let other = hex(&format!("e0 00000002 15 {long} 01 aa 0177"));
    let header = ProtectedHeader::decode(&other, 0).unwrap();
    let kind = HeaderKind::UnknownVersion {
        version: Version(2),
        destination: &[0xee; 21],
        source: &[0xaa],
    };
    assert_eq!((header.kind, header.packet_len), (kind, other.len()));
}

#[test]
fn a_token_longer_than_the_packet() {
    let cut = Err(DecodeError::Truncated { field: "Token" });
    assert_eq!(ProtectedHeader::decode(&hex("c0 00000001 00 00 05 01020304"), 0), cut);
    let endless = hex("c0 00000001 00 00 ffffffffffffffff 0102");
    assert_eq!(ProtectedHeader::decode(&endless, 0), cut);
}

#[test]
fn a_length_beyond_any_memory() {
    let cut = Err(DecodeError::Truncated { field: "Packet Payload" });
    let datagram = hex("e0 00000001 00 00 ffffffffffffffff 0102");
    assert_eq!(ProtectedHeader::decode(&datagram, 0), cut);
}

fn long_packet_type() -> impl Strategy<Value = LongPacketType> {
    prop_oneof![
        Just(LongPacketType::Initial),
        Just(LongPacketType::ZeroRtt),
        Just(LongPacketType::Handshake)
    ]
}

proptest! {
    #[test]
    fn long_round_trip(
        packet_type in long_packet_type(),
        is_version_2: bool,
        destination in connection_id(),
        source in connection_id(),
        mut token in bytes(100),
        packet_number in packet_number(),
        packet_number_len in 1_usize..=4,
        payload in bytes(100),
    ) {
        if packet_type != LongPacketType::Initial {
            token.clear();
        }
        let version = if is_version_2 { Version::V2 } else { Version::V1 };
        let header = LongHeader { packet_type, version, destination, source, token: &token };
        let length = header.encoded_len(packet_number_len);
        for space in 0..length {
            let mut small = vec![0; space];
            let mut writer = Writer::new(&mut small);
            let result = header.encode(&mut writer, packet_number, packet_number_len);
            prop_assert_eq!(result, Err(EncodeError));
            prop_assert_eq!(writer.written(), 0);
        }
        // The packet is the second in its datagram: offsets are relative to its own start.
        let mut buffer = vec![0; 5 + length + payload.len()];
        let mut writer = Writer::new(&mut buffer);
        writer.zeros(5).unwrap();
        let offsets = header.encode(&mut writer, packet_number, packet_number_len).unwrap();
        prop_assert_eq!((writer.written(), offsets.payload), (5 + length, length));
        writer.bytes(&payload).unwrap();
        let packet = &mut writer.filled_mut()[5..];
        set_length(packet, offsets.length, packet_number_len + payload.len()).unwrap();

        let decoded = ProtectedHeader::decode(packet, 3).unwrap();
        let packet_number_offset = offsets.packet_number;
        let kind = HeaderKind::Long {
            packet_type, version, destination, source, token: &token, packet_number_offset,
        };
        prop_assert_eq!(decoded.kind, kind);
        prop_assert_eq!(decoded.packet_len, packet.len());
        let encoded_number = &packet[offsets.packet_number..offsets.payload];
        let mut expected = vec![0; packet_number_len];
        packet_number.encode_truncated(&mut expected);
        prop_assert_eq!(encoded_number, expected);
        for end in 0..packet.len() {
            prop_assert!(ProtectedHeader::decode(&packet[..end], 3).is_err());
        }
    }

    #[test]
    fn any_bytes(datagram in bytes(300), version in 0_u8..3, short_len in 0_usize..25) {
        let mut datagram = datagram;
        for round in 0..2 {
            // The datagram is decoded once unchanged, and once with a known version, so that more
            // of the header is decoded.
            if round == 1 && datagram.len() > 5 {
                let version = [Version::NEGOTIATION, Version::V1, Version::V2][usize::from(version)];
                datagram[1..5].copy_from_slice(&version.0.to_be_bytes());
            }
            if let Ok(header) = ProtectedHeader::decode(&datagram, short_len) {
                prop_assert!(header.packet_len > 0 && header.packet_len <= datagram.len());
                if let Some((_, offset)) = header.packet_type() {
                    prop_assert!(offset <= header.packet_len);
                }
            }
        }
    }
}
