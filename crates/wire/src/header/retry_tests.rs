use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::header::{HeaderKind, ProtectedHeader};
use crate::strategies::{bytes, connection_id, hex};

/// Tests the example in RFC 9001 §A.4.
#[test]
fn retry_of_the_rfc() {
    let mut buffer = [0; 36];
    let mut writer = Writer::new(&mut buffer);
    let source = ConnectionId::new(&hex("f067a5502a4262b5")).unwrap();
    let destination = ConnectionId::default();
    let version = Version::V1;
    Retry::encode_without_tag(&mut writer, 0x0f, version, destination, source, b"token").unwrap();
    assert_eq!(writer.filled(), hex("ff000000010008f067a5502a4262b5746f6b656e"));

    let original = ConnectionId::new(&hex("8394c8f03e515708")).unwrap();
    let pseudo_packet = retry_pseudo_packet(&original, writer.filled());
    let expected = "08 8394c8f03e515708 ff000000010008f067a5502a4262b5746f6b656e";
    assert_eq!(pseudo_packet, hex(expected));
}

/// Tests the example in RFC 9369 §A.4.
#[test]
fn retry_of_version_2() {
    let mut buffer = [0; 36];
    let mut writer = Writer::new(&mut buffer);
    let source = ConnectionId::new(&hex("f067a5502a4262b5")).unwrap();
    let destination = ConnectionId::default();
    let encode = Retry::encode_without_tag;
    encode(&mut writer, 0x0f, Version::V2, destination, source, b"token").unwrap();
    assert_eq!(writer.filled(), hex("cf6b3343cf0008f067a5502a4262b5746f6b656e"));
    let mut writer = Writer::new(&mut buffer);
    let unknown = encode(&mut writer, 0, Version(2), destination, source, b"token");
    assert_eq!((unknown, writer.written()), (Err(EncodeError), 0));
}

#[test]
fn an_empty_token() {
    let datagram = [hex("f0 00000001 00 00").as_slice(), &[0; 16]].concat();
    let empty = DecodeError::invalid("Retry Token", "is empty");
    assert_eq!(ProtectedHeader::decode(&datagram, 0), Err(empty));
    let cut = DecodeError::Truncated { field: "Retry Integrity Tag" };
    assert_eq!(ProtectedHeader::decode(&datagram[..22], 0), Err(cut));
    let mut buffer = [0; 100];
    let mut writer = Writer::new(&mut buffer);
    let id = ConnectionId::default();
    let result = Retry::encode_without_tag(&mut writer, 0, Version::V1, id, id, b"");
    assert_eq!((result, writer.written()), (Err(EncodeError), 0));
}

proptest! {
    #[test]
    fn round_trip(
        unused: u8,
        destination in connection_id(),
        source in connection_id(),
        token in vec(any::<u8>(), 1..200),
        tag: [u8; 16],
    ) {
        let mut buffer = [0; 300];
        let length = 7 + destination.len() + source.len() + token.len() + 16;
        let encode = |writer: &mut Writer<'_>| {
            Retry::encode_without_tag(writer, unused, Version::V1, destination, source, &token)
        };
        let mut writer = Writer::new(&mut buffer[..length - 1]);
        prop_assert_eq!((encode(&mut writer), writer.written()), (Err(EncodeError), 0));
        let mut writer = Writer::new(&mut buffer[..length]);
        encode(&mut writer).unwrap();
        let without_tag = writer.filled().to_vec();
        writer.bytes(&tag).unwrap();
        prop_assert_eq!(writer.remaining(), 0);
        let header = ProtectedHeader::decode(writer.filled(), 0).unwrap();
        let retry = Retry {
            version: Version::V1,
            destination,
            source,
            token: &token,
            without_tag: &without_tag,
            integrity_tag: tag,
        };
        prop_assert_eq!(header.kind, HeaderKind::Retry(retry));
    }

    #[test]
    fn any_bytes(payload in bytes(100)) {
        let datagram = [hex("f0 00000001").as_slice(), &payload].concat();
        if let Ok(header) = ProtectedHeader::decode(&datagram, 0) {
            let HeaderKind::Retry(retry) = header.kind else { panic!("{header:?}") };
            let whole = [retry.without_tag, &retry.integrity_tag].concat();
            prop_assert_eq!(whole, datagram.as_slice());
            prop_assert!(retry.without_tag.ends_with(retry.token));
        }
    }
}
