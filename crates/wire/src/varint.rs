use core::fmt;
use core::num::NonZeroU64;

use crate::{DecodeError, EncodeError, Reader, Writer};

/// A variable-length integer below 2^62 (RFC 9000 §16).
///
/// The value is stored plus one, so that an `Option<VarInt>` has the same size.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VarInt(NonZeroU64);

impl VarInt {
    /// The largest variable-length integer, 2^62 - 1.
    pub const MAX: Self = Self::stored((1 << 62) - 1);
    /// The integer 0.
    pub const ZERO: Self = Self::stored(0);

    const fn stored(value: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(value))
    }

    /// Returns `value` as a varint if it fits in 62 bits.
    pub const fn new(value: u64) -> Option<Self> {
        if value <= Self::MAX.get() { Some(Self::stored(value)) } else { None }
    }

    /// Returns `value`, or [`VarInt::MAX`] if it does not fit.
    pub const fn saturating(value: u64) -> Self {
        if value <= Self::MAX.get() { Self::stored(value) } else { Self::MAX }
    }

    /// Returns `value` as a varint; it always fits.
    pub const fn from_u32(value: u32) -> Self {
        Self::stored(value as u64)
    }

    /// Returns the value.
    pub const fn get(self) -> u64 {
        self.0.get().wrapping_sub(1)
    }

    /// Returns the length of the shortest encoding in bytes: 1, 2, 4 or 8.
    pub const fn encoded_len(self) -> usize {
        match self.get() {
            0..=0x3f => 1,
            0x40..=0x3fff => 2,
            0x4000..=0x3fff_ffff => 4,
            _ => 8,
        }
    }

    /// Reads a variable-length integer; errors refer to it as `field`.
    pub fn decode(reader: &mut Reader<'_>, field: &'static str) -> Result<Self, DecodeError> {
        let first = reader.peek().ok_or(DecodeError::Truncated { field })?;
        let value = match first >> 6 {
            0 => u64::from(reader.u8(field)?),
            1 => u64::from(u16::from_be_bytes(reader.array(field)?) & 0x3fff),
            2 => u64::from(u32::from_be_bytes(reader.array(field)?) & 0x3fff_ffff),
            _ => u64::from_be_bytes(reader.array(field)?) & Self::MAX.get(),
        };
        Ok(Self::stored(value))
    }

    /// Writes the shortest encoding.
    pub fn encode(self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        let value = self.get();
        match self.encoded_len() {
            1 => writer.u8(value as u8),
            2 => writer.bytes(&(value as u16 | 0x4000).to_be_bytes()),
            4 => writer.bytes(&(value as u32 | 0x8000_0000).to_be_bytes()),
            _ => writer.bytes(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
        }
    }
}

impl Default for VarInt {
    fn default() -> Self {
        Self::ZERO
    }
}

impl fmt::Debug for VarInt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("VarInt").field(&self.get()).finish()
    }
}

impl fmt::Display for VarInt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// The value does not fit in a variable-length integer, which has 62 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct VarIntTooLarge;

impl fmt::Display for VarIntTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the value does not fit in 62 bits")
    }
}

impl core::error::Error for VarIntTooLarge {}

impl From<u8> for VarInt {
    fn from(value: u8) -> Self {
        Self::from_u32(value.into())
    }
}

impl From<u16> for VarInt {
    fn from(value: u16) -> Self {
        Self::from_u32(value.into())
    }
}

impl From<u32> for VarInt {
    fn from(value: u32) -> Self {
        Self::from_u32(value)
    }
}

impl TryFrom<u64> for VarInt {
    type Error = VarIntTooLarge;

    fn try_from(value: u64) -> Result<Self, VarIntTooLarge> {
        Self::new(value).ok_or(VarIntTooLarge)
    }
}

impl TryFrom<usize> for VarInt {
    type Error = VarIntTooLarge;

    fn try_from(value: usize) -> Result<Self, VarIntTooLarge> {
        u64::try_from(value).ok().and_then(Self::new).ok_or(VarIntTooLarge)
    }
}

impl From<VarInt> for u64 {
    fn from(value: VarInt) -> Self {
        value.get()
    }
}

impl<'a> Reader<'a> {
    /// Reads a length and that many bytes.
    pub fn length_prefixed(&mut self, field: &'static str) -> Result<&'a [u8], DecodeError> {
        let length = VarInt::decode(self, field)?;
        let length = usize::try_from(length.get()).map_err(|_| DecodeError::Truncated { field })?;
        self.bytes(length, field)
    }
}

#[cfg(test)]
#[path = "varint_tests.rs"]
mod tests;
