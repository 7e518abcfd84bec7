use proptest::prelude::*;

use super::*;
use crate::strategies::{bytes, hex};

#[test]
fn a_long_header_of_an_unknown_version() {
    let id = "ee".repeat(255);
    let datagram = hex(&format!("80 12345678 ff {id} 02 aabb 0102"));
    let header = Invariant::decode(&datagram, 8).unwrap();
    let expected = Invariant::Long {
        version: Version(0x1234_5678),
        destination_connection_id: &[0xee; 255],
        source_connection_id: &[0xaa, 0xbb],
        version_specific: &[1, 2],
    };
    assert_eq!(header, expected);
    assert_eq!(header.destination_connection_id(), [0xee; 255]);
}

#[test]
fn a_short_header() {
    let datagram = hex("00 aabbcc 01");
    let expected =
        Invariant::Short { destination_connection_id: &[0xaa, 0xbb, 0xcc], version_specific: &[1] };
    assert_eq!(Invariant::decode(&datagram, 3), Ok(expected));
    assert_eq!(expected.destination_connection_id(), [0xaa, 0xbb, 0xcc]);
    let cut = DecodeError::Truncated { field: "Destination Connection ID" };
    assert_eq!(Invariant::decode(&datagram, 5), Err(cut));
}

#[test]
fn a_datagram_cut_anywhere() {
    let datagram = hex("80 12345678 02 eeee 02 aabb");
    assert!(Invariant::decode(&datagram, 0).is_ok());
    for end in 0..datagram.len() {
        let result = Invariant::decode(&datagram[..end], 0);
        assert!(matches!(result, Err(DecodeError::Truncated { .. })), "{end}: {result:?}");
    }
}

proptest! {
    #[test]
    fn any_bytes(datagram in bytes(600), short_connection_id_len in 0_usize..40) {
        match Invariant::decode(&datagram, short_connection_id_len) {
            Ok(Invariant::Short { destination_connection_id, .. }) => {
                prop_assert_eq!(destination_connection_id.len(), short_connection_id_len);
            }
            Ok(Invariant::Long { .. }) => prop_assert!(is_long(datagram[0])),
            Err(_) => {}
        }
    }
}
