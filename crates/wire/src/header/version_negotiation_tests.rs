use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::header::{HeaderKind, ProtectedHeader};
use crate::strategies::{bytes, hex};

fn decode(datagram: &[u8]) -> Result<VersionNegotiation<'_>, DecodeError> {
    match ProtectedHeader::decode(datagram, 8)?.kind {
        HeaderKind::VersionNegotiation(packet) => Ok(packet),
        other => panic!("{other:?}"),
    }
}

#[test]
fn on_the_wire() {
    let mut buffer = [0; 100];
    let mut writer = Writer::new(&mut buffer);
    let versions = [Version::V1, Version(0x1a2a_3a4a)];
    VersionNegotiation::encode(&mut writer, 0, &[1, 2], &[3], &versions).unwrap();
    assert_eq!(writer.filled(), hex("c0 00000000 02 0102 01 03 00000001 1a2a3a4a"));
    let packet = decode(writer.filled()).unwrap();
    assert_eq!((packet.destination, packet.source), (&[1, 2][..], &[3][..]));
    assert!(packet.versions().eq(versions));
}

#[test]
fn lists_that_are_not_whole() {
    let cut = Err(DecodeError::Truncated { field: "Supported Version" });
    for list in ["", "000000", "0000000100"] {
        assert_eq!(decode(&hex(&format!("80 00000000 00 00 {list}"))), cut);
    }
    assert!(decode(&hex("80 00000000 00 00 00000001")).is_ok());
}

#[test]
fn what_has_no_encoding() {
    let mut buffer = [0; 1000];
    let mut writer = Writer::new(&mut buffer);
    let versions = [Version::V1];
    for result in [
        VersionNegotiation::encode(&mut writer, 0, &[0; 256], &[], &versions),
        VersionNegotiation::encode(&mut writer, 0, &[], &[0; 256], &versions),
        VersionNegotiation::encode(&mut writer, 0, &[], &[], &[]),
    ] {
        assert_eq!(result, Err(EncodeError));
    }
    assert_eq!(writer.written(), 0);
}

proptest! {
    #[test]
    fn round_trip(
        unused: u8,
        destination in bytes(256),
        source in bytes(256),
        versions in vec(any::<u32>().prop_map(Version), 1..20),
    ) {
        let length = 7 + destination.len() + source.len() + 4 * versions.len();
        let mut buffer = vec![0; length];
        let mut writer = Writer::new(&mut buffer[..length - 1]);
        let result =
            VersionNegotiation::encode(&mut writer, unused, &destination, &source, &versions);
        prop_assert_eq!((result, writer.written()), (Err(EncodeError), 0));
        let mut writer = Writer::new(&mut buffer);
        VersionNegotiation::encode(&mut writer, unused, &destination, &source, &versions).unwrap();
        prop_assert_eq!(writer.remaining(), 0);
        let packet = decode(&buffer).unwrap();
        prop_assert_eq!(packet.destination, destination);
        prop_assert_eq!(packet.source, source);
        prop_assert!(packet.versions().eq(versions));
    }

    #[test]
    fn any_bytes(payload in bytes(100)) {
        let datagram = [hex("80 00000000").as_slice(), &payload].concat();
        if let Ok(packet) = decode(&datagram) {
            prop_assert!(packet.versions().count() > 0);
        }
    }
}
