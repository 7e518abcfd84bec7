use clearway_wire::{Reader, VarInt};
use proptest::prelude::*;

use super::*;

fn decode_all(bytes: &[u8], prefix: u32) -> Result<u64, IntegerError> {
    let mut reader = Reader::new(bytes);
    let first = reader.u8("first").unwrap();
    decode(first, prefix, &mut reader)
}

/// RFC 7541 Appendix C.1.
#[test]
fn the_examples_of_the_rfc() {
    for (value, prefix, bytes) in
        [(10, 5, &[0x0a][..]), (1337, 5, &[0x1f, 0x9a, 0x0a]), (42, 8, &[0x2a])]
    {
        let mut output = Vec::new();
        encode(&mut output, 0, prefix, value);
        assert_eq!(output, bytes);
        assert_eq!(decode_all(bytes, prefix), Ok(value));
    }
}

/// RFC 9204 §4.1.1: 62 bits must be possible; §7.4: and there must be a limit.
#[test]
fn integers_have_up_to_62_bits() {
    let mut bytes = Vec::new();
    encode(&mut bytes, 0, 3, VarInt::MAX.get());
    assert_eq!(decode_all(&bytes, 3), Ok(VarInt::MAX.get()));
    let mut bytes = Vec::new();
    encode(&mut bytes, 0, 3, VarInt::MAX.get() + 1);
    assert_eq!(decode_all(&bytes, 3), Err(IntegerError::TooLarge));
    assert_eq!(decode_all(&[0xff; 20], 8), Err(IntegerError::TooLarge));
}

#[test]
fn zeros_without_end_are_refused() {
    let mut bytes = vec![0x80; 1000];
    bytes.insert(0, 0xff);
    assert_eq!(decode_all(&bytes, 8), Err(IntegerError::TooLarge));
}

proptest! {
    #[test]
    fn what_is_encoded_decodes(value in 0..=VarInt::MAX.get(), prefix in 1u32..=8, small in 0u64..600) {
        for value in [value, small] {
            let flags = if prefix == 8 { 0 } else { 0xff << prefix };
            let mut bytes = Vec::new();
            encode(&mut bytes, flags, prefix, value);
            prop_assert_eq!(decode_all(&bytes, prefix), Ok(value));
            if bytes.len() > 1 {
                let cut = decode_all(&bytes[..bytes.len() - 1], prefix);
                prop_assert_eq!(cut, Err(IntegerError::Truncated));
            }
        }
    }
}
