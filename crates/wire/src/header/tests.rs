use super::*;

/// Unprotected first bytes of RFC 9001 §A.2, §A.3 and §A.5.
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
