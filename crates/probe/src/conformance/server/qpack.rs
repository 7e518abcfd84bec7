//! QPACK (RFC 9204).

use super::super::allowed::or_alive;
use super::super::{Check, Need::Http3};
use super::http3_control::answered;
use crate::http3::HEADERS;
use crate::script::{Condition, Script};

/// The client's QPACK encoder stream.
const ENCODER: u64 = 6;
/// The client's QPACK decoder stream.
const DECODER: u64 = 10;

pub(super) const CHECKS: &[Check] = &[
    Check::new(
        "static-index-out-of-range",
        "RFC 9204 §3.1",
        Http3,
        "an indexed field line with the static index 99",
        || section(b"\0\0\xff\x24"),
    )
    .h3spec(),
    Check::new(
        "static-name-out-of-range",
        "RFC 9204 §3.1",
        Http3,
        "a literal field line with a name reference to static index 99",
        || section(b"\0\0\x5f\x54\x01x"),
    ),
    Check::new(
        "dynamic-index-without-table",
        "RFC 9204 §2.2.3",
        Http3,
        "a reference to the dynamic table with a Required Insert Count of 0",
        || section(b"\0\0\x80"),
    ),
    Check::new(
        "post-base-index-without-table",
        "RFC 9204 §2.2.3",
        Http3,
        "a post-Base reference with a Required Insert Count of 0",
        || section(b"\0\0\x10"),
    ),
    Check::new("negative-base", "RFC 9204 §4.5.1.2", Http3, "a negative Base", || {
        section(b"\0\x80\xd1")
    }),
    Check::new(
        "required-insert-count-too-large",
        "RFC 9204 §4.5.1.1",
        Http3,
        "a Required Insert Count that no table can have",
        || section(b"\xff\xff\xff\xff\x7f\0\x80"),
    ),
    Check::new(
        "section-empty",
        "RFC 9204 §4.5.1",
        Http3,
        "a field section without a prefix",
        || section(b""),
    ),
    Check::new(
        "section-prefix-cut",
        "RFC 9204 §4.5.1",
        Http3,
        "a field section that ends in the middle of its prefix",
        || section(b"\0"),
    ),
    Check::new(
        "literal-cut",
        "RFC 9204 §4.5.6",
        Http3,
        "a literal field line that ends in the middle of its name",
        || section(b"\0\0\x27\x05ab"),
    ),
    Check::new(
        "value-cut",
        "RFC 9204 §4.5.4",
        Http3,
        "a literal field line that ends in the middle of its value",
        || section(b"\0\0\x51\x05ab"),
    ),
    Check::new(
        "huffman-end-of-string",
        "RFC 9204 §4.1.2",
        Http3,
        "a Huffman-coded value with the EOS symbol",
        || section(b"\0\0\x51\x84\xff\xff\xff\xff"),
    ),
    Check::new(
        "huffman-long-padding",
        "RFC 9204 §4.1.2",
        Http3,
        "a Huffman-coded value with more than seven bits of padding",
        || section(b"\0\0\x51\x82\x1f\xff"),
    ),
    Check::new(
        "huffman-zero-padding",
        "RFC 9204 §4.1.2",
        Http3,
        "a Huffman-coded value whose padding is not all ones",
        || section(b"\0\0\x51\x81\x18"),
    ),
    Check::new(
        "integer-overflow",
        "RFC 9204 §4.1.1",
        Http3,
        "an index of more than 62 bits",
        || section(b"\0\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"),
    ),
    Check::new(
        "table-capacity-too-large",
        "RFC 9204 §4.3.1",
        Http3,
        "a table capacity of 2^30",
        || encoder(b"\x3f\xe1\xff\xff\xff\x03"),
    )
    .h3spec(),
    Check::new(
        "encoder-static-name-out-of-range",
        "RFC 9204 §3.1",
        Http3,
        "an Insert with Name Reference to static index 99",
        || encoder(b"\x3f\x21\xff\x24\x01x"),
    ),
    Check::new(
        "encoder-dynamic-name-unknown",
        "RFC 9204 §2.2.3",
        Http3,
        "an Insert with Name Reference to the empty dynamic table",
        || encoder(b"\x3f\x21\x80\x01x"),
    ),
    Check::new(
        "encoder-duplicate-unknown",
        "RFC 9204 §2.2.3",
        Http3,
        "a Duplicate instruction that refers to the empty dynamic table",
        || encoder(b"\x3f\x21\0"),
    ),
    Check::new(
        "encoder-insert-without-capacity",
        "RFC 9204 §3.2.2",
        Http3,
        "an insertion while the capacity is 0",
        || encoder(b"\x41a\x01b"),
    ),
    Check::new(
        "encoder-integer-overflow",
        "RFC 9204 §4.1.1",
        Http3,
        "a capacity of more than 62 bits",
        || encoder(b"\x3f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"),
    ),
    Check::new(
        "encoder-huffman-end-of-string",
        "RFC 9204 §4.1.2",
        Http3,
        "an insertion whose name contains the EOS symbol",
        || encoder(b"\x3f\x21\x64\xff\xff\xff\xff\x01x"),
    ),
    Check::new(
        "insert-count-increment-zero",
        "RFC 9204 §4.4.3",
        Http3,
        "an Insert Count Increment of 0",
        || decoder(b"\0"),
    )
    .h3spec(),
    Check::new(
        "insert-count-increment-too-large",
        "RFC 9204 §4.4.3",
        Http3,
        "an Insert Count Increment beyond what was inserted",
        || decoder(b"\x3f\x80\x7f"),
    ),
    Check::new(
        "section-acknowledgment-unknown",
        "RFC 9204 §4.4.1",
        Http3,
        "a Section Acknowledgment for a stream without a section",
        || decoder(b"\xff\x10"),
    ),
    Check::new(
        "decoder-integer-overflow",
        "RFC 9204 §4.1.1",
        Http3,
        "an Insert Count Increment of more than 62 bits",
        || decoder(b"\x3f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"),
    ),
    Check::new(
        "stream-cancellation-unknown",
        "RFC 9204 §4.4.2",
        Http3,
        "a Stream Cancellation for a stream without a section, which is allowed",
        || Script::http3().stream(DECODER, b"\x44", false).get(0, "/").expect(answered()),
    ),
    Check::new(
        "capacity-zero",
        "RFC 9204 §4.3.1",
        Http3,
        "a table capacity of 0, which is allowed",
        || Script::http3().stream(ENCODER, b"\x20", false).get(0, "/").expect(answered()),
    ),
    Check::new(
        "blocked-stream",
        "RFC 9204 §2.1.2",
        Http3,
        "a field section that refers to an entry that does not arrive",
        || {
            let mut allowed = failed("QPACK_DECOMPRESSION_FAILED");
            allowed = or_alive(allowed);
            Script::http3().frame(0, HEADERS, b"\x02\0\x80", true).expect(allowed)
        },
    ),
];

fn section(section: &[u8]) -> Script {
    Script::http3().frame(0, HEADERS, section, true).expect(failed("QPACK_DECOMPRESSION_FAILED"))
}

fn encoder(instructions: &[u8]) -> Script {
    Script::http3()
        .stream(ENCODER, instructions, false)
        .expect(failed("QPACK_ENCODER_STREAM_ERROR"))
}

fn decoder(instructions: &[u8]) -> Script {
    Script::http3()
        .stream(DECODER, instructions, false)
        .expect(failed("QPACK_DECODER_STREAM_ERROR"))
}

fn failed(code: &str) -> Vec<Condition> {
    vec![Condition::application_close(&[code])]
}
