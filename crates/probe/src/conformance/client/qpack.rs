//! A server's use of QPACK (RFC 9204).

use super::super::{Check, Need::Http3};
use crate::http3::HEADERS;
use crate::script::{Condition, Script};

pub(super) const CHECKS: &[Check] = &[
    Check::new(
        "static-index-out-of-range",
        "RFC 9204 §3.1",
        Http3,
        "a response with the static index 99",
        || section(b"\0\0\xff\x24"),
    ),
    Check::new(
        "dynamic-index-without-table",
        "RFC 9204 §2.2.3",
        Http3,
        "a response with a reference to the empty dynamic table",
        || section(b"\0\0\x80"),
    ),
    Check::new(
        "negative-base",
        "RFC 9204 §4.5.1.2",
        Http3,
        "a response with a negative Base",
        || section(b"\0\x80\xd9"),
    ),
    Check::new(
        "section-cut",
        "RFC 9204 §4.5.6",
        Http3,
        "a response that ends in the middle of a field name",
        || section(b"\0\0\x27\x05ab"),
    ),
    Check::new(
        "huffman-end-of-string",
        "RFC 9204 §4.1.2",
        Http3,
        "a response with the EOS symbol in a Huffman-coded value",
        || section(b"\0\0\x54\x84\xff\xff\xff\xff"),
    ),
    Check::new(
        "table-capacity-too-large",
        "RFC 9204 §4.3.1",
        Http3,
        "a table capacity of 2^30",
        || instruction(7, b"\x3f\xe1\xff\xff\xff\x03", "QPACK_ENCODER_STREAM_ERROR"),
    ),
    Check::new(
        "encoder-duplicate-unknown",
        "RFC 9204 §2.2.3",
        Http3,
        "a Duplicate instruction that refers to the empty dynamic table",
        || instruction(7, b"\0", "QPACK_ENCODER_STREAM_ERROR"),
    ),
    Check::new(
        "insert-count-increment-zero",
        "RFC 9204 §4.4.3",
        Http3,
        "an Insert Count Increment of 0",
        || instruction(11, b"\0", "QPACK_DECODER_STREAM_ERROR"),
    ),
    Check::new(
        "insert-count-increment-too-large",
        "RFC 9204 §4.4.3",
        Http3,
        "an Insert Count Increment beyond what was inserted",
        || instruction(11, b"\x3f\x80\x7f", "QPACK_DECODER_STREAM_ERROR"),
    ),
    Check::new(
        "section-acknowledgment-unknown",
        "RFC 9204 §4.4.1",
        Http3,
        "a Section Acknowledgment for a stream without a section",
        || instruction(11, b"\xff\x10", "QPACK_DECODER_STREAM_ERROR"),
    ),
];

fn section(section: &[u8]) -> Script {
    Script::http3()
        .wait(Condition::Headers { stream: 0 })
        .frame(0, HEADERS, section, false)
        .expect(vec![Condition::application_close(&["QPACK_DECOMPRESSION_FAILED"])])
}

fn instruction(stream: u64, bytes: &[u8], code: &str) -> Script {
    Script::http3().stream(stream, bytes, false).expect(vec![Condition::application_close(&[code])])
}
