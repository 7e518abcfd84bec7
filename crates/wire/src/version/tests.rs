use super::*;

#[test]
fn reserved_versions() {
    for version in [0x0a0a_0a0a, 0x1a2a_3a4a, 0xfafa_fafa] {
        assert!(Version(version).is_reserved());
    }
    for version in [0, 1, 0x0a0a_0a0b, 0x1a2a_3a40, 0x6b33_43cf] {
        assert!(!Version(version).is_reserved());
    }
}

#[test]
fn shown_in_hexadecimal() {
    assert_eq!(Version::V1.to_string(), "0x00000001");
    assert_eq!(format!("{:?}", Version::NEGOTIATION), "Version(0x00000000)");
}
