use proptest::prelude::*;

use super::*;

#[path = "qpack_tests/browser.rs"]
mod browser;
#[path = "qpack_tests/delivery.rs"]
mod delivery;
#[path = "qpack_tests/dynamic.rs"]
mod dynamic;

type Owned = (Vec<u8>, Vec<u8>, bool);

fn decode(section: &[u8], limit: u64) -> Result<Vec<Owned>, DecodeFailure<()>> {
    let mut fields = Vec::new();
    Decoder::default().decode(0, section, limit, |field| {
        fields.push((field.name.to_vec(), field.value.to_vec(), field.sensitive));
        Ok(())
    })?;
    Ok(fields)
}

fn encode(fields: &[Owned]) -> (Vec<u8>, u64) {
    let lines = lines(fields);
    (encode_static(&lines), lines.size())
}

fn lines(fields: &[Owned]) -> FieldLines {
    let mut lines = FieldLines::default();
    for (name, value, sensitive) in fields {
        lines.field(name, value, *sensitive);
    }
    lines
}

fn owned(name: &str, value: &str, sensitive: bool) -> Owned {
    (name.into(), value.into(), sensitive)
}

fn is_invalid(section: &[u8]) -> bool {
    matches!(decode(section, 1000), Err(DecodeFailure::Invalid(_)))
}

/// Tests the example in RFC 9204 Appendix B.1.
#[test]
fn the_example_of_the_rfc() {
    let section = b"\x00\x00\x51\x0b/index.html";
    assert_eq!(decode(section, 1000).unwrap(), [owned(":path", "/index.html", false)]);
    // The same field takes fewer bytes with Huffman coding.
    let (section, size) = encode(&[owned(":path", "/index.html", false)]);
    assert_eq!(section[..3], [0, 0, 0x51]);
    assert_eq!(section[3], 0x80 | 8);
    assert_eq!(size, 5 + 11 + 32);
    assert_eq!(decode(&section, 1000).unwrap(), [owned(":path", "/index.html", false)]);
}

#[test]
fn each_representation_is_used_where_it_is_shortest() {
    let first = |name: &str, value: &str, sensitive| encode(&[owned(name, value, sensitive)]).0[2];
    assert_eq!(first(":method", "GET", false), 0b1100_0000 | 17);
    assert_eq!(first("x-xss-protection", "1; mode=block", false), 0b1100_0000 | 62);
    assert_eq!(first("authorization", "x", false), 0b0101_1111);
    assert_eq!(first("authorization", "x", true), 0b0111_1111);
    assert_eq!(first("~~", "x", false), 0b0010_0010);
    assert_eq!(first("~~", "x", true), 0b0011_0010);
    // A never-indexed field is a literal even if the table contains it (RFC 9204 §4.5.4).
    assert_eq!(first(":method", "GET", true), 0b0111_1111);
}

/// With a maximum capacity of zero, the Required Insert Count must be zero (RFC 9204 §4.5.1.1).
#[test]
fn a_required_insert_count_is_refused() {
    assert!(is_invalid(&[0x01, 0x00]));
    assert!(is_invalid(&[0xff, 0x00, 0x00]));
}

/// The Base must not be negative; any other value is allowed if it is not used (RFC 9204 §4.5.1.2).
#[test]
fn a_negative_base_is_refused() {
    assert!(is_invalid(&[0x00, 0x80]));
    assert!(is_invalid(&[0x00, 0x85]));
    assert_eq!(decode(&[0x00, 0x05], 1000).unwrap(), []);
}

/// References to dynamic or static entries that do not exist are rejected (RFC 9204 §2.2.3).
#[test]
fn references_to_missing_entries_are_refused() {
    assert!(is_invalid(&[0, 0, 0b1000_0000]));
    assert!(is_invalid(&[0, 0, 0b0001_0000]));
    assert!(is_invalid(&[0, 0, 0b0100_0000, 0]));
    assert!(is_invalid(&[0, 0, 0b0000_0000, 0]));
    assert!(is_invalid(&[0, 0, 0xff, 99 - 63]));
    assert!(!is_invalid(&[0, 0, 0xff, 98 - 63]));
    assert!(is_invalid(&[0, 0, 0b0101_1111, 99 - 15, 0]));
}

#[test]
fn truncated_sections_are_refused() {
    let (section, _) = encode(&[owned("~~", "~~", false)]);
    for length in 0..section.len() {
        assert_eq!(is_invalid(&section[..length]), length != 2, "{length}");
    }
}

/// The name, the value and 32 bytes are counted before anything is stored (RFC 9114 §4.2.2).
#[test]
fn the_limit_counts_name_value_and_32() {
    let fields = [owned("~~", "~~~", false), owned(":method", "GET", false)];
    let (section, size) = encode(&fields);
    assert_eq!(size, 2 + 3 + 32 + 7 + 3 + 32);
    assert_eq!(decode(&section, size).unwrap(), fields);
    assert_eq!(decode(&section, size - 1), Err(DecodeFailure::TooLarge));
    assert_eq!(decode(&section, 40), Err(DecodeFailure::TooLarge));
}

#[test]
fn a_huge_string_length_is_refused_without_allocating() {
    assert!(is_invalid(&[0, 0, 0x51, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f]));
}

#[test]
fn a_long_value_is_refused_before_it_is_decoded_completely() {
    let (section, _) = encode(&[owned("a", &"0".repeat(100_000), false)]);
    let mut decoder = Decoder::default();
    let outcome = decoder.decode(0, &section, 1000, |_| Ok::<_, ()>(()));
    assert_eq!(outcome, Err(DecodeFailure::TooLarge));
}

/// With a maximum capacity of zero, only that capacity can be set (RFC 9204 §4.3.1, §3.2.3).
#[test]
fn encoder_instructions_can_only_set_capacity_zero() {
    assert_eq!(Decoder::default().receive(&[0x20, 0x20, 0x3f]), Ok(()));
    for (bytes, error) in [
        (&[0x21][..], QpackError::CapacityTooLarge),
        (&[0x20, 0x3f, 0x00], QpackError::CapacityTooLarge),
        (&[0xc0, 0], QpackError::EntryTooLarge),
        (&[0x40, 0], QpackError::EntryTooLarge),
        (&[0x00], QpackError::EncoderDynamicIndex),
    ] {
        assert_eq!(Decoder::default().receive(bytes), Err(error), "{bytes:x?}");
        assert_eq!(error.code(), crate::Code::QPACK_ENCODER_STREAM_ERROR);
    }
}

/// Without insertions, nothing can be acknowledged, but streams can be canceled (RFC 9204 §4.4).
#[test]
fn decoder_instructions_without_a_table_can_only_cancel_streams() {
    let mut encoder = Encoder::default();
    let mut stream = Vec::new();
    for id in [0, 62, 63, 64, 1000, (1 << 62) - 1] {
        integer::encode(&mut stream, 0x40, 6, id);
    }
    for part in stream.chunks(1) {
        encoder.receive(part).unwrap();
    }
    encoder.receive(&stream).unwrap();
    for (bytes, error) in [
        (&[0x00][..], QpackError::IncrementZero),
        (&[0x01], QpackError::IncrementTooLarge),
        (&[0x80], QpackError::NothingToAcknowledge),
        (&[0xff; 12], QpackError::DecoderInteger),
        (&[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], QpackError::DecoderInteger),
    ] {
        assert_eq!(Encoder::default().receive(bytes), Err(error), "{bytes:x?}");
        assert_eq!(error.code(), crate::Code::QPACK_DECODER_STREAM_ERROR);
    }
}

fn any_field() -> impl Strategy<Value = Owned> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..40);
    let known = (0u64..99, any::<bool>(), any::<bool>()).prop_map(|(index, exact, sensitive)| {
        let (name, value) = static_table::entry(index).unwrap();
        owned(name, if exact { value } else { "else" }, sensitive)
    });
    prop_oneof![(bytes(), bytes(), any::<bool>()).prop_map(|field| field), known]
}

proptest! {
    #[test]
    fn any_fields_survive(fields in proptest::collection::vec(any_field(), 0..20)) {
        let (section, size) = encode(&fields);
        prop_assert!(section.len() as u64 <= size + MAX_PREFIX);
        prop_assert_eq!(decode(&section, size).unwrap(), fields);
    }

    #[test]
    fn any_bytes_stay_within_the_limit(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        limit in 0u64..400,
    ) {
        let mut section = vec![0, 0];
        section.extend(bytes);
        if let Ok(fields) = decode(&section, limit) {
            let size: usize = fields.iter().map(|field| field.0.len() + field.1.len() + 32).sum();
            prop_assert!(size as u64 <= limit);
        }
        let _ = decode(&section[2..], limit);
    }
}
