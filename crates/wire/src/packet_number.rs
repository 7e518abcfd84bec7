use core::fmt;
use core::num::NonZeroU64;

/// A packet number: 0 to 2^62 - 1, never reused within its space (RFC 9000 §12.3).
///
/// The value is stored plus one, so that an `Option<PacketNumber>` has the same size.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PacketNumber(NonZeroU64);

impl PacketNumber {
    /// Packet number 0.
    pub const ZERO: Self = Self::stored(0);
    /// The largest packet number, 2^62 - 1.
    pub const MAX: Self = Self::stored((1 << 62) - 1);
    /// The length of the longest encoding in a packet header, in bytes (RFC 9000 §17.1).
    pub const MAX_ENCODED_LEN: usize = 4;

    const fn stored(value: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(value))
    }

    /// Returns `value` as a packet number if it fits in 62 bits.
    pub const fn new(value: u64) -> Option<Self> {
        if value <= Self::MAX.get() { Some(Self::stored(value)) } else { None }
    }

    /// Returns the value.
    pub const fn get(self) -> u64 {
        self.0.get().wrapping_sub(1)
    }

    /// Returns the next packet number; `None` after the largest one.
    pub const fn next(self) -> Option<Self> {
        match self.get().checked_add(1) {
            Some(value) => Self::new(value),
            None => None,
        }
    }

    /// Returns the length in bytes, 1 to 4, of the shortest encoding that the peer can expand (RFC
    /// 9000 §17.1, §A.2).
    ///
    /// `largest_acked` is the largest packet number that the peer has acknowledged. `overtaken_by`
    /// is the number of packets that are sent later and may arrive before this one. It matters
    /// because the peer expands a truncated number to the candidate nearest to the largest packet
    /// number that it has received.
    ///
    /// The encoding represents more than twice the larger of the two distances. For a distance of
    /// 2^31 or more, there is no such encoding, and 4 bytes are used.
    pub const fn encoded_len(self, largest_acked: Option<Self>, overtaken_by: u64) -> usize {
        let unacknowledged = match largest_acked {
            Some(largest_acked) => self.get().saturating_sub(largest_acked.get()),
            None => self.get().saturating_add(1),
        };
        // The peer counts from the number after the largest one that it has received.
        let behind = overtaken_by.saturating_add(1);
        match if behind > unacknowledged { behind } else { unacknowledged } {
            0..0x80 => 1,
            0x80..0x8000 => 2,
            0x8000..0x80_0000 => 3,
            _ => 4,
        }
    }

    /// Fills `space` (1 to 4 bytes) with the least significant bytes of the number.
    pub fn encode_truncated(self, space: &mut [u8]) {
        let mut rest = self.get();
        for byte in space.iter_mut().rev() {
            *byte = rest as u8;
            rest >>= 8;
        }
    }

    /// Expands a truncated packet number of `length` bytes (1 to 4) from a header. `largest` is the
    /// largest packet number received so far in the packet number space (RFC 9000 §A.3).
    pub fn decode(truncated: u64, length: usize, largest: Option<Self>) -> Self {
        let expected = match largest {
            // There is no packet number after the largest possible one, so expect that number
            // itself.
            Some(largest) => largest.next().unwrap_or(largest).get(),
            None => 0,
        };
        let bits = length.clamp(1, Self::MAX_ENCODED_LEN).saturating_mul(8);
        let window = 1_u64.checked_shl(bits as u32).unwrap_or(u64::MAX);
        let half_window = window / 2;
        let mask = window.saturating_sub(1);
        let candidate = (expected & !mask) | (truncated & mask);
        let value = if candidate.saturating_add(half_window) <= expected {
            // Use the candidate in the next window, unless it exceeds the largest packet number.
            candidate.checked_add(window).filter(|value| *value <= Self::MAX.get())
        } else if candidate > expected.saturating_add(half_window) {
            candidate.checked_sub(window)
        } else {
            None
        };
        Self::stored(value.unwrap_or(candidate))
    }

    /// Like [`Self::decode`], but takes the bytes in the header.
    pub fn decode_truncated(bytes: &[u8], largest: Option<Self>) -> Self {
        let truncated = bytes.iter().fold(0, |value: u64, byte| value << 8 | u64::from(*byte));
        Self::decode(truncated, bytes.len(), largest)
    }
}

impl Default for PacketNumber {
    fn default() -> Self {
        Self::ZERO
    }
}

impl fmt::Debug for PacketNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PacketNumber").field(&self.get()).finish()
    }
}

#[cfg(test)]
#[path = "packet_number_tests.rs"]
mod tests;
