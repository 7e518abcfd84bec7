//! Packet headers: the invariants of all QUIC versions (RFC 8999), and the headers of version 1
//! (RFC 9000 §17) and version 2 (RFC 9369).
//!
//! A receiver calls [`ProtectedHeader::decode`] on the rest of a datagram, consumes the returned
//! number of bytes and, once header protection is removed, interprets the first byte with the
//! functions of this module. A sender calls [`LongHeader::encode`] or [`ShortHeader::encode`],
//! appends frames, and for a long header fills in the length with [`set_length`].

mod invariant;
mod long;
mod long_type;
mod protected;
mod retry;
mod short;
mod version_negotiation;

pub use invariant::Invariant;
pub use long::{LongHeader, LongHeaderOffsets, set_length};
pub use protected::{HeaderKind, ProtectedHeader};
pub use retry::{Retry, retry_pseudo_packet};
pub use short::ShortHeader;
pub use version_negotiation::{SupportedVersions, VersionNegotiation};

const LONG_FORM: u8 = 0x80;
const FIXED_BIT: u8 = 0x40;
const SPIN_BIT: u8 = 0x20;
const KEY_PHASE: u8 = 0x04;
const PACKET_NUMBER_LENGTH: u8 = 0x03;

/// Returns whether a packet with this first byte has a long header (RFC 8999 §5.1).
pub const fn is_long(first_byte: u8) -> bool {
    first_byte & LONG_FORM != 0
}

/// Returns whether the fixed bit is set, which RFC 9287 calls the QUIC bit. A packet without it
/// must be discarded (RFC 9000 §17.2), unless its receiver has sent grease_quic_bit.
pub const fn has_fixed_bit(first_byte: u8) -> bool {
    first_byte & FIXED_BIT != 0
}

/// Clears the fixed bit, for a packet to a peer that has sent grease_quic_bit (RFC 9287 §3.1).
/// Neither header protection nor the length of the header depends on the bit; packet protection
/// covers it.
pub const fn without_fixed_bit(first_byte: u8) -> u8 {
    first_byte & !FIXED_BIT
}

/// Returns the latency spin bit of a short header (RFC 9000 §17.4). It is not protected.
pub const fn spin_bit(first_byte: u8) -> bool {
    first_byte & SPIN_BIT != 0
}

/// Returns the key phase of a short header without header protection (RFC 9000 §17.3.1).
pub const fn key_phase(first_byte: u8) -> bool {
    first_byte & KEY_PHASE != 0
}

/// Returns the length of the packet number in bytes, 1 to 4, in a header without header protection
/// (RFC 9000 §17.2).
pub const fn packet_number_len(first_byte: u8) -> usize {
    ((first_byte & PACKET_NUMBER_LENGTH) as usize).saturating_add(1)
}

/// Returns whether the reserved bits of a header without header protection are zero. If they are
/// still nonzero after packet protection has been removed, the peer has committed a
/// PROTOCOL_VIOLATION (RFC 9000 §17.2, §17.3.1).
pub const fn reserved_bits_are_zero(first_byte: u8) -> bool {
    let reserved = if is_long(first_byte) { 0x0c } else { 0x18 };
    first_byte & reserved == 0
}

/// Returns the bits of the first byte that header protection covers (RFC 9001 §5.4.1).
pub const fn protected_bits(first_byte: u8) -> u8 {
    if is_long(first_byte) { 0x0f } else { 0x1f }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests the unprotected first bytes in RFC 9001 §A.2, §A.3 and §A.5.
    #[test]
    fn first_bytes_of_sample_packets() {
        assert!(is_long(0xc3) && has_fixed_bit(0xc3) && reserved_bits_are_zero(0xc3));
        assert_eq!(packet_number_len(0xc3), 4);
        assert!(is_long(0xc1) && reserved_bits_are_zero(0xc1));
        assert_eq!(packet_number_len(0xc1), 2);
        assert!(!is_long(0x42) && has_fixed_bit(0x42) && reserved_bits_are_zero(0x42));
        assert_eq!(packet_number_len(0x42), 3);
        assert!(!key_phase(0x42) && !spin_bit(0x42));
    }

    #[test]
    fn bits_of_a_short_header() {
        assert!(spin_bit(0x60) && key_phase(0x44) && !has_fixed_bit(0x3f));
        assert_eq!((without_fixed_bit(0xff), without_fixed_bit(0x3f)), (0xbf, 0x3f));
        assert_eq!(packet_number_len(0x40), 1);
        assert!(!reserved_bits_are_zero(0x48) && !reserved_bits_are_zero(0x50));
        assert!(reserved_bits_are_zero(0x67));
        assert_eq!(protected_bits(0x42), 0x1f);
    }

    #[test]
    fn bits_of_a_long_header() {
        assert!(!reserved_bits_are_zero(0xc4) && !reserved_bits_are_zero(0xc8));
        assert!(reserved_bits_are_zero(0xf3));
        assert_eq!(protected_bits(0xc3), 0x0f);
    }
}
