use proptest::prelude::*;

use super::*;
use crate::header::{self, HeaderKind, ProtectedHeader};
use crate::strategies::{connection_id, hex, packet_number};

/// Tests the example in RFC 9001 §A.5.
#[test]
fn short_header_of_the_rfc() {
    let header =
        ShortHeader { destination: ConnectionId::default(), spin: false, key_phase: false };
    let mut buffer = [0; 4];
    let mut writer = Writer::new(&mut buffer);
    let packet_number = PacketNumber::new(654_360_564).unwrap();
    assert_eq!(header.encode(&mut writer, packet_number, 3), Ok(1));
    assert_eq!(writer.filled(), hex("4200bff4"));
}

#[test]
fn packet_numbers_of_forbidden_length() {
    let header = ShortHeader { destination: ConnectionId::default(), spin: true, key_phase: true };
    let mut buffer = [0; 40];
    let mut writer = Writer::new(&mut buffer);
    for length in [0, 5, usize::MAX] {
        assert_eq!(header.encode(&mut writer, PacketNumber::ZERO, length), Err(EncodeError));
    }
    assert_eq!(writer.written(), 0);
}

proptest! {
    #[test]
    fn round_trip(
        destination in connection_id(),
        spin: bool,
        key_phase: bool,
        packet_number in packet_number(),
        packet_number_len in 1_usize..=4,
    ) {
        let header = ShortHeader { destination, spin, key_phase };
        let mut buffer = vec![0; header.encoded_len(packet_number_len)];
        for space in 0..buffer.len() {
            let mut writer = Writer::new(&mut buffer[..space]);
            let result = header.encode(&mut writer, packet_number, packet_number_len);
            prop_assert_eq!(result, Err(EncodeError));
            prop_assert_eq!(writer.written(), 0);
        }
        let mut writer = Writer::new(&mut buffer);
        let packet_number_offset =
            header.encode(&mut writer, packet_number, packet_number_len).unwrap();
        prop_assert_eq!(writer.remaining(), 0);

        let decoded = ProtectedHeader::decode(&buffer, destination.len()).unwrap();
        let kind = HeaderKind::Short { destination, spin, packet_number_offset };
        prop_assert_eq!((decoded.kind, decoded.packet_len), (kind, buffer.len()));
        let first_byte = decoded.first_byte;
        prop_assert_eq!(header::key_phase(first_byte), key_phase);
        prop_assert_eq!(header::packet_number_len(first_byte), packet_number_len);
        prop_assert!(decoded.fixed_bit && header::reserved_bits_are_zero(first_byte));
        let mut expected = vec![0; packet_number_len];
        packet_number.encode_truncated(&mut expected);
        prop_assert_eq!(&buffer[packet_number_offset..], expected);
    }
}
