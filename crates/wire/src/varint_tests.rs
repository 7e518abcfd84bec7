use proptest::prelude::*;

use super::*;
use crate::strategies::{bytes, hex, varint};

fn decode(encoded: &[u8]) -> Result<VarInt, DecodeError> {
    let mut reader = Reader::new(encoded);
    let value = VarInt::decode(&mut reader, "Field")?;
    assert!(reader.is_empty());
    Ok(value)
}

/// Tests the example in RFC 9000 §A.1.
#[test]
fn examples_of_the_rfc() {
    assert_eq!(decode(&hex("c2197c5eff14e88c")), Ok(VarInt::stored(151_288_809_941_952_652)));
    assert_eq!(decode(&hex("9d7f3e7d")), Ok(VarInt::stored(494_878_333)));
    assert_eq!(decode(&hex("7bbd")), Ok(VarInt::stored(15_293)));
    assert_eq!(decode(&hex("25")), Ok(VarInt::stored(37)));
    assert_eq!(decode(&hex("4025")), Ok(VarInt::stored(37)));
}

#[test]
fn each_length_ends_where_the_rfc_says() {
    let limits: [(u64, usize); 8] = [
        (0, 1),
        (63, 1),
        (64, 2),
        (16_383, 2),
        (16_384, 4),
        (1_073_741_823, 4),
        (1_073_741_824, 8),
        (4_611_686_018_427_387_903, 8),
    ];
    for (value, length) in limits {
        let value = VarInt::new(value).unwrap();
        let mut buffer = [0; 8];
        let mut writer = Writer::new(&mut buffer);
        value.encode(&mut writer).unwrap();
        assert_eq!((writer.written(), value.encoded_len()), (length, length));
        assert_eq!(decode(writer.filled()), Ok(value));
    }
    assert_eq!(VarInt::new(1 << 62), None);
    assert_eq!(VarInt::saturating(1 << 62), VarInt::MAX);
}

#[test]
fn conversions_from_integers() {
    assert_eq!(VarInt::from(u8::MAX), VarInt::stored(255));
    assert_eq!(VarInt::from(u16::MAX), VarInt::stored(65_535));
    assert_eq!(VarInt::from(u32::MAX), VarInt::stored(4_294_967_295));
    assert_eq!(VarInt::try_from(7_usize), Ok(VarInt::stored(7)));
    assert_eq!(VarInt::try_from(VarInt::MAX.get()), Ok(VarInt::MAX));
    for too_large in [1 << 62, u64::MAX] {
        assert_eq!(VarInt::try_from(too_large), Err(VarIntTooLarge));
    }
    assert_eq!(VarIntTooLarge.to_string(), "the value does not fit in 62 bits");
}

#[test]
fn a_varint_is_displayed_like_an_integer() {
    assert_eq!(VarInt::MAX.to_string(), "4611686018427387903");
    assert_eq!(format!("{:>4}{:04}", VarInt::stored(7), VarInt::stored(12)), "   70012");
}

proptest! {
    #[test]
    fn round_trip(value in varint()) {
        let mut buffer = [0; 8];
        let (space, _) = buffer.split_at_mut(value.encoded_len());
        let mut writer = Writer::new(space);
        value.encode(&mut writer).unwrap();
        prop_assert_eq!(writer.remaining(), 0);
        prop_assert_eq!(decode(writer.filled()), Ok(value));
        for end in 0..writer.written() {
            let cut = Err(DecodeError::Truncated { field: "Field" });
            prop_assert_eq!(decode(&writer.filled()[..end]), cut);
            prop_assert_eq!(value.encode(&mut Writer::new(&mut vec![0; end])), Err(EncodeError));
        }
    }

    #[test]
    fn any_bytes(encoded in bytes(12)) {
        let mut reader = Reader::new(&encoded);
        match VarInt::decode(&mut reader, "Field") {
            Ok(_) => prop_assert_eq!(encoded.len() - reader.remaining(), 1 << (encoded[0] >> 6)),
            Err(_) => prop_assert!(encoded.is_empty() || encoded.len() < 1 << (encoded[0] >> 6)),
        }
    }
}
