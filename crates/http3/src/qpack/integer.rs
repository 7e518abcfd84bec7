//! Prefixed integers (RFC 9204 §4.1.1, RFC 7541 §5.1).

use clearway_wire::{Reader, VarInt};

/// Why there is no integer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IntegerError {
    /// The input ends inside it.
    Truncated,
    /// It has more than 62 bits, or more bytes than such an integer can need.
    TooLarge,
}

/// An integer that began in the low bits of an earlier byte, collected byte by byte. Zeros at the
/// end do not change it, so the number of bytes is bounded too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Continuation {
    value: u64,
    shift: u32,
}

impl Continuation {
    /// Looks at the first byte, of which the low `prefix` bits (1 to 8) count: the integer, or what
    /// to give the following bytes to.
    pub(crate) fn begin(first: u8, prefix: u32) -> Result<u64, Self> {
        let mask = 0xffu8.checked_shr(8u32.saturating_sub(prefix)).unwrap_or(0);
        let value = u64::from(first & mask);
        if first & mask == mask { Err(Self { value, shift: 0 }) } else { Ok(value) }
    }

    /// Adds the next byte: the integer if it is complete.
    pub(crate) fn push(&mut self, byte: u8) -> Result<Option<u64>, IntegerError> {
        if self.shift > 56 {
            return Err(IntegerError::TooLarge);
        }
        // At most 7 bits shifted by 56: no bit is lost.
        let addend = u64::from(byte & 0x7f).wrapping_shl(self.shift);
        self.value = self.value.checked_add(addend).ok_or(IntegerError::TooLarge)?;
        if self.value > VarInt::MAX.get() {
            return Err(IntegerError::TooLarge);
        }
        self.shift = self.shift.saturating_add(7);
        Ok((byte & 0x80 == 0).then_some(self.value))
    }
}

/// Reads an integer whose first byte, already read, has `prefix` bits of it.
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

/// Appends `value` with a `prefix`-bit prefix whose byte also holds the bits of `flags`.
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
mod tests;
