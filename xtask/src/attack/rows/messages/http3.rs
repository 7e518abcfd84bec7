//! Messages that violate HTTP/3 or QPACK.

use super::{Known, integers};
use crate::attack::encoding::varint_bytes;
use crate::attack::http3::{
    DATA, HEADERS, fields, frame as http3_frame, get, literal, prefixed, section,
};
use crate::attack::scene::SMALL;

// Error codes of HTTP/3 (RFC 9114 §8.1) and QPACK (RFC 9204 §8.3).
pub(super) const STREAM_CREATION: u64 = 0x103;
pub(super) const CLOSED_CRITICAL: u64 = 0x104;
const UNEXPECTED: u64 = 0x105;
const FRAME_ERROR: u64 = 0x106;
const EXCESSIVE_LOAD: u64 = 0x107;
const ID_ERROR: u64 = 0x108;
const SETTINGS_ERROR: u64 = 0x109;
const MISSING_SETTINGS: u64 = 0x10a;
const DECOMPRESSION: u64 = 0x200;
const ENCODER: u64 = 0x201;
const DECODER: u64 = 0x202;

/// Returns frames to send on the client's control stream after the first frame (RFC 9114 §7.2).
pub(super) fn control() -> Vec<Known> {
    let id = |kind, id| http3_frame(kind, &varint_bytes(id));
    vec![
        ("a second SETTINGS", vec![4, 0], &[UNEXPECTED]),
        ("DATA", http3_frame(DATA, b"data"), &[UNEXPECTED]),
        ("HEADERS", get(SMALL), &[UNEXPECTED]),
        ("PUSH_PROMISE", http3_frame(5, &[0, 0, 0, 0xd1]), &[UNEXPECTED]),
        ("HTTP/2 PRIORITY", http3_frame(2, &[0; 5]), &[UNEXPECTED]),
        ("HTTP/2 PING", http3_frame(6, &[0; 8]), &[UNEXPECTED]),
        ("HTTP/2 WINDOW_UPDATE", http3_frame(8, &[0; 4]), &[UNEXPECTED]),
        ("HTTP/2 CONTINUATION", http3_frame(9, &[]), &[UNEXPECTED]),
        ("GOAWAY with an increasing ID", [id(7, 0), id(7, 8)].concat(), &[ID_ERROR]),
        ("empty GOAWAY", http3_frame(7, &[]), &[FRAME_ERROR]),
        ("GOAWAY with trailing bytes", http3_frame(7, &[0, 0]), &[FRAME_ERROR]),
        ("GOAWAY with a truncated ID", http3_frame(7, &[0x40]), &[FRAME_ERROR]),
        ("MAX_PUSH_ID that decreases", [id(0x0d, 9), id(0x0d, 8)].concat(), &[ID_ERROR]),
        ("empty MAX_PUSH_ID", http3_frame(0x0d, &[]), &[FRAME_ERROR]),
        ("MAX_PUSH_ID with trailing bytes", http3_frame(0x0d, &[0, 0]), &[FRAME_ERROR]),
        ("CANCEL_PUSH for an unknown push", id(3, 0), &[ID_ERROR]),
        ("empty CANCEL_PUSH", http3_frame(3, &[]), &[FRAME_ERROR, ID_ERROR]),
        ("empty PRIORITY_UPDATE", http3_frame(0xf0700, &[]), &[FRAME_ERROR]),
        ("PRIORITY_UPDATE for a unidirectional stream", id(0xf0700, 2), &[ID_ERROR]),
        ("PRIORITY_UPDATE for a push", id(0xf0701, 0), &[ID_ERROR]),
        (
            "PRIORITY_UPDATE of 2^30 bytes",
            [integers(&[0xf0700, 1 << 30]), vec![0; 100]].concat(),
            &[EXCESSIVE_LOAD],
        ),
    ]
}

/// Returns invalid first frames of a control stream (RFC 9114 §6.2.1, §7.2.4).
pub(super) fn first_frames() -> Vec<Known> {
    let settings = |values: &[u64]| http3_frame(4, &integers(values));
    vec![
        ("DATA", http3_frame(DATA, b"data"), &[MISSING_SETTINGS, UNEXPECTED]),
        ("GOAWAY", http3_frame(7, &[0]), &[MISSING_SETTINGS]),
        ("MAX_PUSH_ID", http3_frame(0x0d, &[0]), &[MISSING_SETTINGS]),
        ("a reserved frame", http3_frame(0x21, &[]), &[MISSING_SETTINGS]),
        ("HTTP/2 ENABLE_PUSH", settings(&[2, 0]), &[SETTINGS_ERROR]),
        ("HTTP/2 MAX_CONCURRENT_STREAMS", settings(&[3, 9]), &[SETTINGS_ERROR]),
        ("HTTP/2 INITIAL_WINDOW_SIZE", settings(&[4, 9]), &[SETTINGS_ERROR]),
        ("HTTP/2 MAX_FRAME_SIZE", settings(&[5, 9]), &[SETTINGS_ERROR]),
        ("a duplicate setting", settings(&[1, 0, 1, 0]), &[SETTINGS_ERROR]),
        ("ENABLE_CONNECT_PROTOCOL of 2", settings(&[8, 2]), &[SETTINGS_ERROR]),
        ("H3_DATAGRAM of 2", settings(&[0x33, 2]), &[SETTINGS_ERROR]),
        ("a setting without a value", settings(&[1]), &[FRAME_ERROR, SETTINGS_ERROR]),
        ("a truncated setting", http3_frame(4, &[1, 0x40]), &[FRAME_ERROR, SETTINGS_ERROR]),
        (
            "3,000 settings",
            settings(&(0..3_000).flat_map(|number| [0x1000 + number, number]).collect::<Vec<_>>()),
            &[EXCESSIVE_LOAD],
        ),
    ]
}

/// Returns the content of unidirectional streams other than the control stream, including the
/// stream type (RFC 9114 §6.2, RFC 9204 §4).
pub(super) fn streams() -> Vec<Known> {
    let endless = [&[0x3f][..], &[0xff; 40]].concat();
    let encoder = |data: &[u8]| [&[2], data].concat();
    let decoder = |data: &[u8]| [&[3], data].concat();
    let capacity = prefixed(0x20, 5, 4_000);
    vec![
        ("a second control stream", vec![0, 4, 0], &[STREAM_CREATION]),
        ("a push stream opened by a client", vec![1, 0], &[STREAM_CREATION]),
        ("an endless integer on the decoder stream", encoder(&endless), &[ENCODER]),
        (
            "a dynamic table capacity that is too large",
            encoder(&prefixed(0x20, 5, 1 << 30)),
            &[ENCODER],
        ),
        ("an insertion without a dynamic table", encoder(&[0x41, b'a', 1, b'b']), &[ENCODER]),
        (
            "a name that is not in the static table",
            encoder(&[capacity.clone(), prefixed(0xc0, 6, 99), vec![1, b'x']].concat()),
            &[ENCODER],
        ),
        (
            "a name that is not in the dynamic table",
            encoder(&[capacity.clone(), prefixed(0x80, 6, 9), vec![1, b'x']].concat()),
            &[ENCODER],
        ),
        (
            "a duplicate of a missing entry",
            encoder(&[capacity.clone(), vec![9]].concat()),
            &[ENCODER],
        ),
        (
            "an entry larger than the table",
            encoder(
                &[
                    prefixed(0x20, 5, 40),
                    prefixed(0x40, 5, 1),
                    vec![b'x'],
                    prefixed(0, 7, 200),
                    vec![b'y'; 200],
                ]
                .concat(),
            ),
            &[ENCODER],
        ),
        ("an endless integer on the encoder stream", decoder(&endless), &[DECODER]),
        ("an acknowledgment without a section", decoder(&prefixed(0x80, 7, 400)), &[DECODER]),
        ("an Insert Count Increment of 0", decoder(&[0]), &[DECODER]),
        (
            "an Insert Count Increment beyond the inserted entries",
            decoder(&prefixed(0, 6, 4_000)),
            &[DECODER],
        ),
    ]
}

/// Returns frames on a request stream that must close the connection (RFC 9114 §4.1, §7.2, RFC 9204
/// §2.2).
pub(super) fn request_streams() -> Vec<Known> {
    let id = |kind| http3_frame(kind, &[0]);
    let after = |frame: Vec<u8>| [get(SMALL), frame].concat();
    let lines = |bytes: &[u8]| http3_frame(HEADERS, bytes);
    let trailers = || lines(&section(&[("x", "y")]));
    let post = lines(&section(&fields("POST", SMALL)));
    let with = |more: &[Vec<u8>]| [post.clone(), more.concat()].concat();
    vec![
        ("DATA before HEADERS", http3_frame(DATA, b"data"), &[UNEXPECTED]),
        ("SETTINGS", http3_frame(4, &[]), &[UNEXPECTED]),
        ("GOAWAY", id(7), &[UNEXPECTED]),
        ("MAX_PUSH_ID", id(0x0d), &[UNEXPECTED]),
        ("CANCEL_PUSH", id(3), &[UNEXPECTED]),
        ("PUSH_PROMISE", http3_frame(5, &[0, 0, 0, 0xd1]), &[UNEXPECTED]),
        ("PRIORITY_UPDATE", http3_frame(0xf0700, &[0]), &[UNEXPECTED]),
        ("HTTP/2 PING", http3_frame(6, &[0; 8]), &[UNEXPECTED]),
        ("SETTINGS after HEADERS", after(http3_frame(4, &[])), &[UNEXPECTED]),
        ("DATA after trailers", with(&[trailers(), http3_frame(DATA, b"x")]), &[UNEXPECTED]),
        ("HEADERS after trailers", with(&[trailers(), trailers()]), &[UNEXPECTED]),
        ("an entry that is not in the static table", lines(&[0, 0, 0xff, 0x24]), &[DECOMPRESSION]),
        ("an endless index", lines(&[0, 0, 0xff]), &[DECOMPRESSION]),
        ("an index that is too large", lines(&[0, 0, 0xff, 0xff, 0x7f]), &[DECOMPRESSION]),
        ("an entry of an empty dynamic table", lines(&[0, 0, 0x80]), &[DECOMPRESSION]),
        ("an entry after the base of an empty table", lines(&[0, 0, 0x10]), &[DECOMPRESSION]),
        (
            "a required insert count that the table cannot reach",
            lines(&[0xff, 0xff, 0x7f, 0, 0x80]),
            &[DECOMPRESSION],
        ),
        ("a base below 0", lines(&[0, 0x85, 0xd1]), &[DECOMPRESSION]),
        ("a field section without a prefix", lines(&[0]), &[DECOMPRESSION]),
        ("a truncated name", lines(&[0, 0, 0x27, 60, b'x']), &[DECOMPRESSION]),
        ("a truncated value", lines(&[0, 0, 0x51, 100, b'x']), &[DECOMPRESSION]),
        (
            "a Huffman string with EOS",
            lines(&[0, 0, 0x51, 0x84, 0xff, 0xff, 0xff, 0xff]),
            &[DECOMPRESSION],
        ),
        ("a Huffman string padded with zeros", lines(&[0, 0, 0x51, 0x81, 0]), &[DECOMPRESSION]),
        (
            "an empty section with an endless integer",
            lines(&[&[0xff][..], &[0xff; 40]].concat()),
            &[DECOMPRESSION],
        ),
        (
            "a truncated section",
            lines(&[&[0, 0][..], &literal("x", "y")[..2]].concat()),
            &[DECOMPRESSION],
        ),
    ]
}

/// Returns request streams that end in the middle of a frame (RFC 9114 §7.1).
pub(super) fn ends() -> Vec<Known> {
    let whole = get(SMALL);
    let half = whole[..whole.len() / 2].to_vec();
    vec![
        ("a truncated HEADERS frame", half, &[FRAME_ERROR]),
        ("a frame type without a length", vec![1], &[FRAME_ERROR]),
        ("a truncated frame length", vec![1, 0x40], &[FRAME_ERROR]),
        ("a truncated DATA frame", [whole.clone(), vec![0, 9, 1]].concat(), &[FRAME_ERROR]),
        ("a truncated unknown frame", [whole, vec![0x21, 9, 1]].concat(), &[FRAME_ERROR]),
    ]
}
