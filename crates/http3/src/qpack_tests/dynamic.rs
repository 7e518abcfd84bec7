//! Tests of the dynamic table: the examples in RFC 9204 Appendix B, and every error that a peer can
//! make.

use super::*;
use crate::qpack::table::Table;

/// Decodes a line of hexadecimal digits.
fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(pair).collect()
}

fn decode_with(decoder: &mut Decoder, stream: u64, section: &[u8]) -> Result<Vec<Owned>, Decoded> {
    let mut fields = Vec::new();
    let decoded = decoder.decode(stream, section, 10_000, |field| {
        fields.push((field.name.to_vec(), field.value.to_vec(), field.sensitive));
        Ok::<_, ()>(())
    });
    match decoded.unwrap() {
        Decoded::Whole => Ok(fields),
        blocked => Err(blocked),
    }
}

fn failure(decoder: &mut Decoder, section: &[u8]) -> QpackError {
    match decoder.decode(0, section, 10_000, |_| Ok::<_, ()>(())) {
        Err(DecodeFailure::Invalid(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// Returns a decoder with these entries, each inserted with a literal name.
fn decoder(capacity: u64, entries: &[(&str, &str)]) -> Decoder {
    let mut decoder = Decoder::new(4096);
    let mut instructions = Vec::new();
    integer::encode(&mut instructions, 0x20, 5, capacity);
    for (name, value) in entries {
        text::write(&mut instructions, 0x40, 5, name.as_bytes());
        text::write(&mut instructions, 0, 7, value.as_bytes());
    }
    decoder.receive(&instructions).unwrap();
    decoder
}

/// Tests the examples in RFC 9204 Appendix B.2 to B.5 with the decoder.
#[test]
fn appendix_b_decoder() {
    let mut decoder = Decoder::new(220);
    // Example B.2, with the section arriving before the entries.
    let section = hex("0381 10 11");
    assert_eq!(decode_with(&mut decoder, 4, &section), Err(Decoded::Blocked { required: 2 }));
    let instructions =
        hex("3fbd01 c00f 7777 772e 6578 616d 706c 652e 636f 6d c10c 2f73 616d 706c 652f 7061 7468");
    decoder.receive(&instructions).unwrap();
    assert_eq!(decoder.inserted(), 2);
    let authority = owned(":authority", "www.example.com", false);
    assert_eq!(
        decode_with(&mut decoder, 4, &section),
        Ok(vec![authority.clone(), owned(":path", "/sample/path", false),])
    );
    // The Section Acknowledgment also acknowledges the insertions.
    decoder.acknowledge_insertions();
    assert_eq!(core::mem::take(decoder.feedback()), hex("84"));
    // B.3
    decoder.receive(&hex("4a63 7573 746f 6d2d 6b65 790c 6375 7374 6f6d 2d76 616c 7565")).unwrap();
    decoder.acknowledge_insertions();
    assert_eq!(core::mem::take(decoder.feedback()), hex("01"));
    // Example B.4, again with the section arriving before the entry; the stream is canceled.
    let section = hex("0500 80 c1 81");
    assert_eq!(decode_with(&mut decoder, 8, &section), Err(Decoded::Blocked { required: 4 }));
    decoder.cancel(8);
    assert_eq!(core::mem::take(decoder.feedback()), hex("48"));
    decoder.receive(&hex("02")).unwrap();
    assert_eq!(
        decode_with(&mut decoder, 12, &section),
        Ok(
            vec![authority, owned(":path", "/", false), owned("custom-key", "custom-value", false),]
        )
    );
    // B.5
    decoder.receive(&hex("810d 6375 7374 6f6d 2d76 616c 7565 32")).unwrap();
    assert_eq!(decoder.inserted(), 5);
    let newest = hex("0600 80");
    assert_eq!(
        decode_with(&mut decoder, 16, &newest),
        Ok(vec![owned("custom-key", "custom-value2", false),])
    );
    // The first entry is gone.
    assert_eq!(failure(&mut decoder, &hex("0600 84")), QpackError::ReferenceEvicted);
}

/// Tests that the encoder writes the example in RFC 9204 Appendix B.2, except for Huffman coding.
#[test]
fn appendix_b_encoder() {
    let mut encoder = Encoder::default();
    encoder.allow(220, 4096, 1);
    let mut section = Vec::new();
    let fields = lines(&[
        owned(":authority", "www.example.com", false),
        owned("custom-key", "custom-value", false),
    ]);
    encoder.encode(4, &fields, true, &mut section);
    // Both entries are inserted for this section: their indices are beyond the Base.
    assert_eq!(section, hex("0381 10 11"));
    let instructions = core::mem::take(encoder.instructions());
    assert_eq!(instructions[..4], hex("3fbd01 c0"));
    let mut decoder = Decoder::new(220);
    decoder.receive(&instructions).unwrap();
    let decoded = decode_with(&mut decoder, 4, &section).unwrap();
    assert_eq!(decoded[0], owned(":authority", "www.example.com", false));
    // Once they are acknowledged, the same fields need no instruction and put no second stream at
    // risk.
    encoder.receive(decoder.feedback()).unwrap();
    section.clear();
    encoder.encode(8, &fields, true, &mut section);
    assert_eq!(section, hex("0300 81 80"));
    assert!(encoder.instructions().is_empty());
}

/// Tests the example in RFC 9204 §4.5.1.1, and counts that an encoder cannot produce.
#[test]
fn section_4_5_1_1_required_insert_count() {
    // A table of 100 bytes has 3 entries, so the count wraps at 6. With 10 insertions, 4 means 9.
    let entries = [("", ""); 10];
    let mut decoder = Decoder::new(100);
    let mut instructions = hex("3f45");
    for _ in entries {
        instructions.extend([0x40, 0x00]);
    }
    decoder.receive(&instructions).unwrap();
    assert_eq!(decoder.inserted(), 10);
    let base = |encoded: u8| [encoded, 0x00, 0x80];
    assert!(decode_with(&mut decoder, 0, &base(4)).is_ok());
    assert!(decode_with(&mut decoder, 0, &base(5)).is_ok());
    assert!(decode_with(&mut decoder, 0, &base(3)).is_ok());
    // The next values are 11 to 13; a higher count is impossible, since an encoder cannot be ahead
    // by more than the size of the table.
    for (encoded, required) in [(6, 11), (1, 12), (2, 13)] {
        let blocked = decode_with(&mut decoder, 0, &base(encoded));
        assert_eq!(blocked, Err(Decoded::Blocked { required }), "{encoded}");
    }
    assert_eq!(failure(&mut decoder, &[3, 0x00, 0x81]), QpackError::ReferenceEvicted);
    assert_eq!(failure(&mut decoder, &base(7)), QpackError::RequiredInsertCount);
    assert_eq!(failure(&mut decoder, &[0xff, 0xff, 0x01, 0]), QpackError::RequiredInsertCount);
    // Without insertions it cannot be 0 or negative: 1 means 0 or 6, and 6 is out of range.
    let mut fresh = Decoder::new(100);
    for encoded in [1, 5, 6] {
        assert_eq!(failure(&mut fresh, &base(encoded)), QpackError::RequiredInsertCount);
    }
    assert_eq!(decode_with(&mut fresh, 0, &base(4)), Err(Decoded::Blocked { required: 3 }));
    let mut none = Decoder::new(0);
    assert_eq!(failure(&mut none, &base(1)), QpackError::RequiredInsertCount);
}

/// Sections are decoded correctly wherever the count wraps (RFC 9204 §4.5.1.1).
#[test]
fn the_required_insert_count_wraps() {
    let mut encoder = Encoder::default();
    encoder.allow(200, 200, 10);
    let mut decoder = Decoder::new(200);
    for round in 0..100 {
        let fields = [owned("x-round", &round.to_string(), false)];
        let mut section = Vec::new();
        encoder.encode(round * 4, &lines(&fields), true, &mut section);
        decoder.receive(&core::mem::take(encoder.instructions())).unwrap();
        assert_eq!(decode_with(&mut decoder, round * 4, &section).unwrap(), fields);
        assert_ne!(section[0], 0, "the table is used");
        encoder.receive(&core::mem::take(decoder.feedback())).unwrap();
    }
    assert_eq!(decoder.inserted(), 100);
}

/// Tests the requirements of RFC 9204 §4.5.1.2, §2.2.3.
#[test]
fn section_2_2_3_invalid_references() {
    let mut decoder = decoder(200, &[("a", "1"), ("b", "2"), ("c", "3")]);
    let mut error = |section: &[u8]| failure(&mut decoder, section);
    assert_eq!(error(&[0x02, 0x81]), QpackError::NegativeBase);
    // The Base is 1, and entries 1 and 2 are referenced although the Required Insert Count is one.
    assert_eq!(error(&[0x02, 0x00, 0x10]), QpackError::ReferenceNotCovered);
    assert_eq!(error(&[0x02, 0x01, 0x80]), QpackError::ReferenceNotCovered);
    assert_eq!(error(&[0x02, 0x01, 0x40, 0x00]), QpackError::ReferenceNotCovered);
    assert_eq!(error(&[0x02, 0x00, 0x00, 0x00]), QpackError::ReferenceNotCovered);
    // The reference is to an index before the first entry.
    assert_eq!(error(&[0x02, 0x00, 0x81]), QpackError::ReferenceEvicted);
    assert_eq!(error(&[0x02, 0x00, 0x41, 0x00]), QpackError::ReferenceEvicted);
    // The Required Insert Count is zero.
    assert_eq!(error(&[0x00, 0x03, 0x80]), QpackError::ReferenceNotCovered);
    assert_eq!(error(&[0x02, 0x00, 0xff, 0x40]), QpackError::SectionStaticIndex);
    assert_eq!(error(&[0x02, 0x00, 0x9f]), QpackError::ReferenceEvicted);
    assert_eq!(error(&[0x02, 0x00, 0x51, 0x05, 0x31]), QpackError::SectionTruncated);
    assert_eq!(error(&[0x02]), QpackError::SectionTruncated);
    assert_eq!(error(&[0x02, 0x00, 0x51, 0x81, 0x00]), QpackError::SectionHuffman);
    let long = [&[0x02, 0x7f][..], &[0xff; 12]].concat();
    assert_eq!(error(&long), QpackError::SectionInteger);
}

/// Tests every kind of reference (RFC 9204 §4.5.2 to §4.5.5).
#[test]
fn all_references_are_decoded() {
    let mut decoder = decoder(400, &[("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")]);
    // The Required Insert Count is 4, and the Base is 2.
    let section = [
        0x05, 0x81, // prefix
        0x80, 0x81, // b: 2, a: 1
        0x10, 0x11, // c: 3, d: 4
        0x40, 0x01, b'x', // b: x
        0x61, 0x01, b'y', // a: y, sensitive
        0x00, 0x01, b'z', // c: z
        0x09, 0x00, // d: "", sensitive
    ];
    assert_eq!(
        decode_with(&mut decoder, 0, &section).unwrap(),
        [
            owned("b", "2", false),
            owned("a", "1", false),
            owned("c", "3", false),
            owned("d", "4", false),
            owned("b", "x", false),
            owned("a", "y", true),
            owned("c", "z", false),
            owned("d", "", true),
        ]
    );
}

/// A table that shrinks while in use evicts only its oldest entries (RFC 9204 §3.2.2, §4.3.1).
#[test]
fn a_table_shrinks_in_use() {
    let mut decoder = decoder(200, &[("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")]);
    assert!(decode_with(&mut decoder, 0, &[0x05, 0x00, 0x83]).is_ok());
    // There is room for two entries of 34 bytes.
    decoder.receive(&hex("3f32")).unwrap();
    assert_eq!(
        decode_with(&mut decoder, 0, &[0x05, 0x00, 0x81]).unwrap(),
        [owned("c", "3", false),]
    );
    assert_eq!(failure(&mut decoder, &[0x05, 0x00, 0x82]), QpackError::ReferenceEvicted);
    // The capacity is set to zero and back (§3.2.2): the insert count continues.
    decoder.receive(&hex("20 3f32")).unwrap();
    assert_eq!(failure(&mut decoder, &[0x05, 0x00, 0x80]), QpackError::ReferenceEvicted);
    decoder.receive(&[0x41, b'e', 0x00]).unwrap();
    assert_eq!(decode_with(&mut decoder, 0, &[0x06, 0x00, 0x80]).unwrap(), [owned("e", "", false)]);
}

/// Tests the requirements of RFC 9204 §2.2.3, §3.1, §3.2.2, §4.3.
#[test]
fn section_4_3_invalid_encoder_instructions() {
    let cases: &[(&[u8], QpackError)] = &[
        (&[0x3f, 0xe2, 0x1f], QpackError::CapacityTooLarge),
        // The static table ends at 98.
        (&[0xff, 99 - 63, 0x00], QpackError::EncoderStaticIndex),
        (&[0x82, 0x00], QpackError::EncoderDynamicIndex),
        (&[0x02], QpackError::EncoderDynamicIndex),
        (&[0x41, 0x00, 0x81, 0x00], QpackError::EncoderHuffman),
        // A value of 100 bytes is larger than the table; a value of 1 GiB is rejected before it
        // arrives.
        (&[0x41, 0x00, 0x7f, 0xad, 0x02], QpackError::EntryTooLarge),
        (&[0xc0, 0x7f, 0xff, 0xff, 0xff, 0xff, 0x03], QpackError::EntryTooLarge),
        (&[0x5f, 0xff, 0xff, 0xff, 0xff, 0x03], QpackError::EntryTooLarge),
        (&[0x1f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], QpackError::EncoderInteger),
    ];
    for (bytes, expected) in cases {
        for chunk in [1, 100] {
            let mut decoder = decoder(100, &[("a", "1"), ("b", "2")]);
            let error = bytes.chunks(chunk).find_map(|part| decoder.receive(part).err());
            assert_eq!(error, Some(*expected), "{bytes:x?}");
        }
    }
    // An entry of exactly the table's capacity fits; an entry with one more byte does not.
    for (length, is_ok) in [(67, true), (68, false)] {
        let mut decoder = decoder(100, &[]);
        let bytes = [&[0x41, b'a', length][..], &vec![b'!'; usize::from(length)]].concat();
        assert_eq!(decoder.receive(&bytes).is_ok(), is_ok, "{length}");
    }
}

/// An entry can take its name from an entry that it displaces, and a duplicate can displace its
/// original (RFC 9204 §3.2.2).
#[test]
fn an_entry_may_displace_what_it_refers_to() {
    let mut decoder = decoder(70, &[("name", "old"), ("other", "")]);
    let displacing = [&[0x80, 30][..], &[b'v'; 30]].concat();
    decoder.receive(&displacing).unwrap();
    let expected = owned("other", &"v".repeat(30), false);
    assert_eq!(
        decode_with(&mut decoder, 0, &[0x04, 0x00, 0x80]).unwrap(),
        std::slice::from_ref(&expected)
    );
    decoder.receive(&[0x00]).unwrap();
    assert_eq!(decode_with(&mut decoder, 0, &[0x05, 0x00, 0x80]).unwrap(), [expected]);
}

/// Unlimited insertions use no more memory than the capacity.
#[test]
fn insertions_without_end_are_bounded() {
    let mut decoder = decoder(1000, &[]);
    for round in 0..10_000u32 {
        let name = round.to_string();
        let mut instruction = Vec::new();
        text::write(&mut instruction, 0x40, 5, name.as_bytes());
        text::write(&mut instruction, 0, 7, b"value");
        decoder.receive(&instruction).unwrap();
    }
    assert_eq!(decoder.inserted(), 10_000);
    decoder.acknowledge_insertions();
    // One instruction acknowledges all insertions.
    assert_eq!(decoder.feedback().len(), 3);
}

#[test]
fn the_table_never_exceeds_its_capacity() {
    let mut table = Table::default();
    table.set_capacity(100);
    for length in [0, 10, 68, 69, 30, 36] {
        let entry = table::Entry { name: vec![b'n'; length].into(), value: Default::default() };
        assert_eq!(table.insert(entry), length <= 68);
        assert!(table.size() <= 100, "{}", table.size());
    }
    assert_eq!(table.dropped() + 1, table.inserted());
}
