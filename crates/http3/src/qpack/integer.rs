//! Prefixed integers (RFC 9204 §4.1.1, RFC 7541 §5.1).

use clearway_wire::{Reader, VarInt};

/// The reason why an integer cannot be decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IntegerError {
    /// The input ends in the middle of the integer.
    Truncated,
    /// The integer has more than 62 bits, or more bytes than a 62-bit integer can need.
    TooLarge,
}

/// An integer that began in the low bits of an earlier byte, collected byte by byte. Trailing zeros
/// do not change the value, so the number of bytes is limited too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Continuation {
    value: u64,
    shift: u32,
}

impl Continuation {
    /// Parses the first byte, whose low `prefix` bits (1 to 8) belong to the integer. Returns the
    /// integer, or the continuation that processes the following bytes.
    pub(crate) fn begin(first: u8, prefix: u32) -> Result<u64, Self> {
        let mask = 0xffu8.checked_shr(8u32.saturating_sub(prefix)).unwrap_or(0);
        let value = u64::from(first & mask);
        if first & mask == mask { Err(Self { value, shift: 0 }) } else { Ok(value) }
    }

    /// Adds the next byte and returns the integer once it is complete.
    pub(crate) fn push(&mut self, byte: u8) -> Result<Option<u64>, IntegerError> {
        if self.shift > 56 {
            return Err(IntegerError::TooLarge);
        }
        // At most 7 bits are shifted by at most 56, so no bit is lost.
        let addend = u64::from(byte & 0x7f).wrapping_shl(self.shift);
        self.value = self.value.checked_add(addend).ok_or(IntegerError::TooLarge)?;
        if self.value > VarInt::MAX.get() {
            return Err(IntegerError::TooLarge);
        }
        self.shift = self.shift.saturating_add(7);
        Ok((byte & 0x80 == 0).then_some(self.value))
    }
}

/// Reads an integer that begins in the low `prefix` bits of `first`, which was already read.
pub(crate) fn decode(first: u8, prefix: u32, reader: &mut Reader<'_>) -> Result<u64, IntegerError> {
    let mut continuation = match Continuation::begin(first, prefix) {
        Ok(value) => return Ok(value),
        Err(continuation) => continuation,
    };
    loop {
        let byte = reader.u8("integer").map_err(|_| IntegerError::Truncated)?;
        if let Some(value) = continuation.push(byte)? {
            return Ok(value);
        }
    }
}

/// Appends `value` with a `prefix`-bit prefix; `flags` provides the other bits of the first byte.
pub(crate) fn encode(output: &mut Vec<u8>, flags: u8, prefix: u32, value: u64) {
    let mask = 0xffu8.checked_shr(8u32.saturating_sub(prefix)).unwrap_or(0);
    let Some(mut rest) = value.checked_sub(u64::from(mask)) else {
        output.push(flags | value as u8);
        return;
    };
    output.push(flags | mask);
    while rest >= 0x80 {
        output.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    output.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use clearway_wire::{Reader, VarInt};
    use proptest::prelude::*;

    use super::*;

    fn decode_all(bytes: &[u8], prefix: u32) -> Result<u64, IntegerError> {
        let mut reader = Reader::new(bytes);
        let first = reader.u8("first").unwrap();
        decode(first, prefix, &mut reader)
    }

    /// Tests the example in RFC 7541 Appendix C.1.
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

    /// Integers of up to 62 bits must be supported (RFC 9204 §4.1.1), and there must be a limit
    /// (§7.4).
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
}
