use super::*;
use crate::qpack::Decoder;

/// Returns an encoder that may use a table of `capacity` bytes.
fn encoder(capacity: u64, max_blocked: u64) -> Encoder {
    let mut encoder = Encoder::default();
    encoder.allow(capacity, capacity, max_blocked);
    encoder
}

fn section(encoder: &mut Encoder, stream: u64, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut lines = FieldLines::default();
    for (name, value) in fields {
        lines.field(name.as_bytes(), value.as_bytes(), false);
    }
    let mut section = Vec::new();
    encoder.encode(stream, &lines, true, &mut section);
    section
}

/// Returns whether a section references the dynamic table.
fn refers(section: &[u8]) -> bool {
    section[0] != 0
}

/// No more streams than allowed are put at risk of blocking, and a stream that is already at risk
/// may be used again (RFC 9204 §2.1.2).
#[test]
fn section_2_1_2_streams_at_risk_are_limited() {
    let mut encoder = encoder(1000, 2);
    assert!(refers(&section(&mut encoder, 0, &[("a", "1")])));
    assert!(refers(&section(&mut encoder, 4, &[("a", "1")])));
    assert!(!refers(&section(&mut encoder, 8, &[("a", "1")])));
    assert!(refers(&section(&mut encoder, 4, &[("b", "1")])));
    assert_eq!(encoder.references.at_risk(), 2);
    // References to entries that the peer has do not put a stream at risk.
    encoder.receive(&[0x01]).unwrap();
    assert!(refers(&section(&mut encoder, 8, &[("a", "1")])));
    assert!(refers(&section(&mut encoder, 12, &[("b", "1")])));
    assert!(!refers(&section(&mut encoder, 8, &[("b", "1")])));
    // A canceled stream is no longer at risk.
    encoder.receive(&[0x44]).unwrap();
    assert!(refers(&section(&mut encoder, 8, &[("b", "1")])));
}

/// A name that is in the table is not sent again, whether or not its field is inserted (RFC 9204
/// §4.3.2, §4.5.4).
#[test]
fn a_name_in_the_table_is_referred_to() {
    let mut encoder = encoder(1000, 10);
    section(&mut encoder, 0, &[("x-rather-long", "1")]);
    encoder.instructions().clear();
    section(&mut encoder, 4, &[("x-rather-long", "2")]);
    assert_eq!(encoder.instructions()[..2], [0x80, 1], "the entry before, and a value of one byte");
    // The field is too large to be inserted.
    encoder.instructions().clear();
    let value = "v".repeat(600);
    let fields = section(&mut encoder, 8, &[("x-rather-long", &value)]);
    assert!(encoder.instructions().is_empty() && refers(&fields));
    assert_eq!(fields[2] & 0xf0, 0x40, "{:x?}", &fields[..4]);
}

/// If no blocked streams are allowed, entries are used once they are acknowledged.
#[test]
fn without_blocking_entries_are_used_after_their_acknowledgment() {
    let mut encoder = encoder(1000, 0);
    assert!(!refers(&section(&mut encoder, 0, &[("a", "1")])));
    assert!(!encoder.instructions().is_empty());
    let before = encoder.instructions().len();
    assert!(!refers(&section(&mut encoder, 4, &[("a", "1")])));
    assert_eq!(encoder.instructions().len(), before, "inserted once");
    encoder.receive(&[0x01]).unwrap();
    assert!(refers(&section(&mut encoder, 8, &[("a", "1")])));
}

/// Entries that are unacknowledged or referenced are not evicted (RFC 9204 §2.1.1). A peer that
/// never acknowledges references gets literals.
#[test]
fn section_2_1_1_references_prevent_eviction() {
    let value = "v".repeat(40);
    let mut encoder = encoder(160, 100);
    // Each entry has 73 bytes, so there is room for two.
    assert!(refers(&section(&mut encoder, 0, &[("a", &value)])));
    assert!(refers(&section(&mut encoder, 4, &[("b", &value)])));
    assert!(!refers(&section(&mut encoder, 8, &[("c", &value)])));
    // The entry was received, but is still referenced.
    encoder.receive(&[0x02]).unwrap();
    assert!(!refers(&section(&mut encoder, 8, &[("c", &value)])));
    assert_eq!(encoder.table.dropped(), 0);
    // The first section is acknowledged, which makes room.
    encoder.receive(&[0x80]).unwrap();
    assert!(refers(&section(&mut encoder, 8, &[("c", &value)])));
    assert_eq!(encoder.table.dropped(), 1);
    for stream in 3..100 {
        assert!(!refers(&section(&mut encoder, stream * 4, &[("d", &value)])));
    }
    assert_eq!(encoder.table.dropped(), 1);
}

/// The number of sections that a peer does not acknowledge is bounded.
#[test]
fn unacknowledged_sections_are_bounded() {
    let mut encoder = encoder(1000, 5);
    section(&mut encoder, 0, &[("a", "1")]);
    encoder.receive(&[0x01]).unwrap();
    for stream in 1..5000 {
        let is_remembered = stream < references::MAX_SECTIONS as u64;
        assert_eq!(refers(&section(&mut encoder, stream * 4, &[("a", "1")])), is_remembered);
    }
    // References resume when a section is acknowledged.
    encoder.receive(&[0x84]).unwrap();
    assert!(refers(&section(&mut encoder, 80_000, &[("a", "1")])));
}

/// An entry in use is duplicated before it would be evicted (RFC 9204 §2.1.1.1, §4.3.4).
#[test]
fn entries_in_use_are_duplicated() {
    let mut encoder = encoder(400, 10);
    let mut decoder = Decoder::new(400);
    let used = ("x-used", "all the time");
    let mut duplicates = 0;
    for round in 0..60u64 {
        let other = round.to_string();
        let section = section(&mut encoder, round * 4, &[used, ("x-other", &other)]);
        let instructions = core::mem::take(encoder.instructions());
        // 000 Index(5+)
        duplicates += usize::from(instructions.first().is_some_and(|first| first & 0xe0 == 0));
        decoder.receive(&instructions).unwrap();
        let mut fields = 0;
        decoder
            .decode(round * 4, &section, 1000, |_| {
                fields += 1;
                Ok::<_, ()>(())
            })
            .unwrap();
        assert_eq!(fields, 2);
        assert!(refers(&section) && section.len() < 8, "{section:x?}");
        encoder.receive(&core::mem::take(decoder.feedback())).unwrap();
    }
    assert!(duplicates > 3, "{duplicates}");
    assert!(encoder.is_settled());
}

/// The local configuration limits the peer's settings.
#[test]
fn an_enormous_table_is_not_used() {
    let mut encoder = Encoder::default();
    encoder.allow((1 << 62) - 1, 300, (1 << 62) - 1);
    let mut decoder = Decoder::new((1 << 62) - 1);
    for round in 0..1000u64 {
        let section = section(&mut encoder, round * 4, &[("x-round", &round.to_string())]);
        decoder.receive(&core::mem::take(encoder.instructions())).unwrap();
        decoder.decode(round * 4, &section, 1000, |_| Ok::<_, ()>(())).unwrap();
        encoder.receive(&core::mem::take(decoder.feedback())).unwrap();
        assert!(encoder.table.size() <= 300);
    }
}

#[test]
fn what_is_secret_or_different_each_time_is_not_inserted() {
    let mut encoder = encoder(1000, 10);
    for (name, value) in [
        ("authorization", "Bearer 0123456789abcdef"),
        ("cookie", "id=17"),
        (":path", "/some/where"),
        ("etag", "\"17\""),
        ("x-large", &"x".repeat(600)),
    ] {
        assert!(!refers(&section(&mut encoder, 0, &[(name, value)])), "{name}");
        assert!(encoder.instructions().is_empty(), "{name}");
    }
    let mut lines = FieldLines::default();
    lines.field(b"x-secret", b"0123456789", true);
    encoder.encode(0, &lines, true, &mut Vec::new());
    assert!(encoder.instructions().is_empty());
}

/// Tests the requirements of RFC 9204 §4.4.
#[test]
fn section_4_4_invalid_decoder_instructions() {
    let cases: &[(&[u8], QpackError)] = &[
        (&[0x00], QpackError::IncrementZero),
        (&[0x02], QpackError::IncrementTooLarge),
        (&[0x01, 0x01], QpackError::IncrementTooLarge),
        (&[0x3f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], QpackError::IncrementTooLarge),
        (&[0x88], QpackError::NothingToAcknowledge),
        (&[0x84, 0x84], QpackError::NothingToAcknowledge),
        (&[0x44, 0x84], QpackError::NothingToAcknowledge),
        // The Section Acknowledgment has already acknowledged the insertion.
        (&[0x84, 0x01], QpackError::IncrementTooLarge),
        (&[0xff; 12], QpackError::DecoderInteger),
    ];
    for (bytes, expected) in cases {
        for chunk in [1, 100] {
            let mut encoder = encoder(1000, 10);
            section(&mut encoder, 4, &[("a", "1")]);
            let error = bytes.chunks(chunk).find_map(|part| encoder.receive(part).err());
            assert_eq!(error, Some(*expected), "{bytes:x?}");
        }
    }
}

/// Fields whose names and values differ in only a few bits do not displace each other in the search
/// index: fields that are in the table are referenced, and not inserted again.
#[test]
fn similar_fields_are_all_found_in_the_table() {
    const COUNT: u8 = 100;
    let mut encoder = encoder(1 << 16, 1000);
    let fields: Vec<_> = (0..COUNT)
        .map(|number| {
            (format!("x-name-{}", number / 10), format!("a value with the number {number}"))
        })
        .collect();
    for (stream, (name, value)) in (0..).step_by(4).zip(&fields) {
        assert!(refers(&section(&mut encoder, stream, &[(name, value)])), "{name}: {value}");
    }
    // Insert Count Increment (RFC 9204 §4.4.3).
    encoder.receive(&[0x3f, COUNT - 0x3f]).unwrap();
    encoder.instructions().clear();
    for (stream, (name, value)) in (4 * u64::from(COUNT)..).step_by(4).zip(&fields) {
        assert!(refers(&section(&mut encoder, stream, &[(name, value)])), "{name}: {value}");
        assert!(encoder.instructions().is_empty(), "{name}: {value} is inserted again");
    }
}
