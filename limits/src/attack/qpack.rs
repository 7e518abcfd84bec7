//! Attacks on QPACK's dynamic tables, priorities and HTTP datagrams, i.e. on data that is stored
//! until something else arrives.

use bytes::{BufMut, Bytes, BytesMut};
use clearway_http3::Config;
use http::Response;

use super::http3::{GET, STREAMS, Server, frame};
use super::{Attack, KIB, MIB, Target};
use crate::scene::Scene;

/// The client's encoder and decoder streams: their stream IDs, and the stream types (RFC 9204
/// §4.2).
const ENCODER: (u64, u8) = (6, 2);
const DECODER: (u64, u8) = (10, 3);

pub(super) fn attacks() -> Vec<Attack> {
    let on =
        |name, drive, bound, because| Attack { name, target: Target::Own, drive, bound, because };
    vec![
        on(
            "short entries of the dynamic table",
            short_entries,
            128 * KIB,
            "128 entries, the capacity of 4 KiB divided by the overhead of each",
        ),
        on(
            "an encoder instruction that never ends",
            endless_instruction,
            256 * KIB,
            "a string that is too long for the table is rejected when its length is known",
        ),
        on(
            "field sections that wait for entries",
            blocked_sections,
            3 * MIB,
            "16 blocked streams of 64 KiB, and what arrives with them",
        ),
        on(
            "decoder instructions that are not taken",
            feedback,
            MIB,
            "16 KiB of instructions, in pieces of a byte or two",
        ),
        on(
            "field sections that are never acknowledged",
            unacknowledged_sections,
            MIB,
            "1,024 sections, after which none refers to the table",
        ),
        on(
            "priorities of requests that do not arrive",
            early_priorities,
            128 * KIB,
            "128 priorities",
        ),
        on("datagrams of requests that do not arrive", early_datagrams, 256 * KIB, "32 datagrams"),
    ]
}

/// Encodes a prefixed integer (RFC 7541 §5.1).
fn integer(bytes: &mut BytesMut, flags: u8, prefix: u32, value: u64) {
    let most = (1 << prefix) - 1;
    if value < most {
        bytes.put_u8(flags | value as u8);
        return;
    }
    bytes.put_u8(flags | most as u8);
    let mut rest = value - most;
    while rest >= 128 {
        bytes.put_u8(rest as u8 | 128);
        rest >>= 7;
    }
    bytes.put_u8(rest as u8);
}

/// Opens the client's encoder stream, and sets the dynamic table's capacity to its maximum.
fn with_table(mut server: Server) -> Server {
    let mut opening = BytesMut::new();
    opening.put_u8(ENCODER.1);
    integer(&mut opening, 0x20, 5, Config::default().qpack_max_table_capacity);
    server.open(ENCODER.0, opening.freeze());
    server
}

fn short_entries(_: &mut Scene) {
    let mut server = with_table(Server::new());
    for number in 0..20_000_u64 {
        // Insert with Literal Name (RFC 9204 §4.3.3) with a one-byte name and no value.
        let name = b'a' + (number % 26) as u8;
        server.send(ENCODER.0, Bytes::copy_from_slice(&[0x41, name, 0]));
    }
}

fn endless_instruction(_: &mut Scene) {
    let mut server = with_table(Server::new());
    let mut header = BytesMut::from(&[0x41, b'a'][..]);
    // The value is Huffman coded. Its length is the maximum for which the decoded text fits into
    // the table.
    integer(&mut header, 0x80, 7, 16_000);
    server.send(ENCODER.0, header.freeze());
    let piece = Bytes::from_static(&[0xff; 10]);
    for _ in 0..100_000 {
        server.send(ENCODER.0, piece.clone());
    }
}

/// Returns a field section with Required Insert Count 1. It refers to the first entry of the
/// dynamic table, which has not been received.
fn blocked_section(size: usize) -> Bytes {
    let mut section = vec![2, 0, 0x80];
    // Static table index 1: `:path: /`.
    section.resize(size, 0xc1);
    frame(1, &section)
}

fn blocked_sections(_: &mut Scene) {
    let mut server = with_table(Server::new());
    let section = blocked_section(60_000);
    for index in 0..STREAMS {
        server.open(4 * index, section.clone());
    }
    assert!(server.is_closed(), "more streams are blocked than were allowed");
}

fn feedback(_: &mut Scene) {
    let mut server = with_table(Server::new());
    server.takes_nothing();
    server.send(ENCODER.0, Bytes::from_static(&[0x41, b'a', 0]));
    let mut section = GET.to_vec();
    section.splice(..2, [2, 0, 0x80]);
    for index in 0..20_000 {
        server.open(4 * index, frame(1, &section));
        server.reset(4 * index);
    }
    assert!(server.is_closed(), "instructions are kept without bound");
}

fn unacknowledged_sections(_: &mut Scene) {
    let mut server = Server::new();
    let mut settings = BytesMut::new();
    // The settings SETTINGS_QPACK_MAX_TABLE_CAPACITY and SETTINGS_QPACK_BLOCKED_STREAMS (RFC 9204
    // §5).
    for (identifier, value) in [(1_u64, 4_096_u64), (7, 4_096)] {
        settings.put_u64(identifier | 3 << 62);
        settings.put_u64(value | 3 << 62);
    }
    server.open(2, Bytes::from_static(&[0]));
    server.send(2, frame(4, &settings));
    server.open(DECODER.0, Bytes::copy_from_slice(&[DECODER.1]));
    for index in 0..20_000 {
        server.request(4 * index, frame(1, GET));
        let response = Response::builder().header("x-same", "for all of them").body(()).unwrap();
        server.answer(4 * index, &response);
    }
}

fn early_priorities(_: &mut Scene) {
    let mut server = Server::new();
    server.open(2, Bytes::from_static(&[0, 4, 0]));
    for index in 0..20_000_u64 {
        let mut payload = BytesMut::new();
        payload.put_u64((4 * index) | (3 << 62));
        payload.put_slice(b"u=1");
        // A PRIORITY_UPDATE frame (RFC 9218 §7.2).
        server.send(2, frame(0xf_0700, &payload));
    }
}

fn early_datagrams(_: &mut Scene) {
    let mut server = Server::with(Config { datagrams: true, ..Config::default() });
    for index in 0..20_000_u64 {
        let mut datagram = BytesMut::with_capacity(1_200);
        // The Quarter Stream ID (RFC 9297 §2.1).
        datagram.put_u64(index | 3 << 62);
        datagram.resize(1_200, 0);
        server.datagram(datagram.freeze());
    }
}
