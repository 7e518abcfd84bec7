//! Messages that violate a rule. Each is sent on its own connection, which must be closed with the
//! error code that the rule specifies.

mod http3;

use std::time::Duration;

use clearway_wire::{Frame, frame};

use super::{Row, Target, USUAL};
use crate::attack::encoding::{encode, stream_frame, varint_bytes};
use crate::attack::endpoint::{Closed, Endpoint, Forged, HANDSHAKE, INITIAL, Settings};
use crate::attack::http3::open;
use crate::attack::scene::{self, Scene};
use http3::{
    CLOSED_CRITICAL, STREAM_CREATION, control, ends, first_frames, request_streams, streams,
};

/// Time to wait for the target's CONNECTION_CLOSE frame, which arrives after a round trip or never.
const CLOSING: Duration = Duration::from_secs(2);

// Transport error codes (RFC 9000 §20.1).
const FLOW_CONTROL: u64 = 0x03;
const STREAM_LIMIT: u64 = 0x04;
const STREAM_STATE: u64 = 0x05;
const FINAL_SIZE: u64 = 0x06;
const FRAME_ENCODING: u64 = 0x07;
const TRANSPORT_PARAMETER: u64 = 0x08;
const VIOLATION: u64 = 0x0a;
const CRYPTO_BUFFER: u64 = 0x0d;
// CRYPTO_ERROR codes for the alerts unexpected_message, decode_error and no_application_protocol.
const UNEXPECTED_MESSAGE: u64 = 0x10a;
const DECODE_ERROR: u64 = 0x132;
const NO_PROTOCOL: u64 = 0x178;
/// A message: its description, its bytes, and the permitted error codes for closing the connection.
type Message = (String, Vec<u8>, &'static [u64]);

/// A message with a constant description.
type Known = (&'static str, Vec<u8>, &'static [u64]);

fn named(messages: Vec<Known>) -> Vec<Message> {
    messages.into_iter().map(|(what, bytes, codes)| (what.to_owned(), bytes, codes)).collect()
}

pub(super) fn rows() -> Vec<Row> {
    let row = |name, drive| Row {
        name,
        target: Target::Serve(&[]),
        is_quick: false,
        bound: USUAL,
        drive,
    };
    let quick = |name, drive| Row { is_quick: true, ..row(name, drive) };
    vec![
        quick("malformed-frames", |scene| on_established(scene, &frames())),
        row("malformed-reserved-bits", reserved_bits),
        quick("malformed-in-initial", |scene| in_handshake(scene, INITIAL)),
        row("malformed-in-handshake", |scene| in_handshake(scene, HANDSHAKE)),
        row("malformed-parameters", parameters),
        row("malformed-protocols", protocols),
        quick("malformed-control-stream", |scene| {
            on_http3(scene, named(control()), |attacker, bytes| {
                attacker.send_stream(2, bytes, false);
            })
        }),
        row("malformed-first-frame", |scene| {
            on_bare(scene, named(first_frames()), |attacker, bytes| {
                let stream = attacker.next_stream(true);
                attacker.send_stream(stream, &[&[0], bytes].concat(), false);
            })
        }),
        row("malformed-streams", |scene| {
            on_http3(scene, named(streams()), |attacker, bytes| {
                let stream = attacker.next_stream(true);
                attacker.send_stream(stream, bytes, false);
            })
        }),
        row("malformed-closed-streams", closed_streams),
        quick("malformed-request-stream", |scene| {
            on_http3(scene, named(request_streams()), |attacker, bytes| {
                let stream = attacker.next_stream(false);
                attacker.send_stream(stream, bytes, false);
            })
        }),
        row("malformed-ends", |scene| {
            on_http3(scene, named(ends()), |attacker, bytes| {
                let stream = attacker.next_stream(false);
                attacker.send_stream(stream, bytes, true);
            })
        }),
    ]
}

/// How a connection is expected to end.
struct Expected<'a> {
    what: &'a str,
    codes: &'a [u64],
    is_application: bool,
}

impl Expected<'_> {
    /// Records a failure unless the connection was closed as expected.
    fn compare(&self, scene: &mut Scene<'_>, closed: Option<&Closed>) {
        let Self { what, codes, is_application } = self;
        let is_right = closed.is_some_and(|closed| {
            closed.is_application == *is_application && codes.contains(&closed.code)
        });
        scene.check(is_right, || {
            let seen = closed.map_or("an open connection".to_owned(), |closed| {
                format!("{:#x} {:?} {}", closed.code, closed.is_application, closed.reason)
            });
            format!("{what}: expected one of {codes:x?}, not {seen}")
        });
    }
}

/// Sends each message in a 1-RTT packet on its own connection.
fn on_established(scene: &mut Scene<'_>, messages: &[Message]) -> Result<(), String> {
    for (what, bytes, codes) in messages {
        let mut attacker = scene.attacker()?;
        // PING frames come first: a payload that is too short would be padded with zeros, which
        // could be parsed as fields.
        attacker.send(&[&[1; 3], bytes.as_slice()].concat());
        attacker.until(CLOSING, |attacker| attacker.closed.is_some())?;
        let expected = Expected { what, codes, is_application: false };
        expected.compare(scene, attacker.closed.as_ref());
    }
    scene.notes.push(format!("{} messages", messages.len()));
    Ok(())
}

/// Sends each message with `send` on its own HTTP/3 connection.
fn on_http3(
    scene: &mut Scene<'_>,
    messages: Vec<Message>,
    send: fn(&mut Endpoint, &[u8]),
) -> Result<(), String> {
    on_bare(scene, messages, move |attacker, bytes| {
        open(attacker, &[]);
        send(attacker, bytes);
    })
}

/// Sends each message with `send` on its own connection without any stream.
fn on_bare(
    scene: &mut Scene<'_>,
    messages: Vec<Message>,
    send: impl Fn(&mut Endpoint, &[u8]),
) -> Result<(), String> {
    for (what, bytes, codes) in &messages {
        let mut attacker = scene.bare_attacker()?;
        send(&mut attacker, bytes);
        attacker.until(CLOSING, |attacker| attacker.closed.is_some())?;
        let expected = Expected { what, codes, is_application: true };
        expected.compare(scene, attacker.closed.as_ref());
    }
    scene.notes.push(format!("{} messages", messages.len()));
    Ok(())
}

/// Encodes a sequence of QUIC variable-length integers.
fn integers(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| varint_bytes(*value)).collect()
}

fn new_connection_id(sequence: u64, retire: u64, id: &[u8]) -> Vec<u8> {
    [vec![0x18], integers(&[sequence, retire]), vec![id.len() as u8], id.to_vec(), vec![7; 16]]
        .concat()
}

/// Returns frames that a client must not send, or that cannot be decoded (RFC 9000 §19).
fn frames() -> Vec<Message> {
    let much = (1 << 62) - 1;
    let mut messages = named(vec![
        ("a long form of PING", vec![0x40, 0x01], &[VIOLATION, FRAME_ENCODING]),
        ("a longer form of PING", vec![0x80, 0, 0, 1], &[VIOLATION, FRAME_ENCODING]),
        ("truncated ACK", vec![0x02, 0x01, 0, 0xff], &[FRAME_ENCODING]),
        ("ACK below 0", vec![0x02, 3, 0, 0, 9], &[FRAME_ENCODING]),
        ("ACK with a gap below 0", vec![0x02, 3, 0, 1, 0, 60, 0], &[FRAME_ENCODING]),
        ("ACK of unsent packets", integers(&[0x02, 1 << 20, 0, 0, 0]), &[VIOLATION]),
        ("CRYPTO longer than its packet", integers(&[0x06, 0, 1 << 50]), &[FRAME_ENCODING]),
        (
            "CRYPTO at an excessive offset",
            [integers(&[0x06, 1 << 40, 1]), b"x".into()].concat(),
            &[CRYPTO_BUFFER],
        ),
        (
            "CRYPTO beyond 2^62",
            [integers(&[0x06, much, 1]), b"x".into()].concat(),
            &[FRAME_ENCODING, CRYPTO_BUFFER],
        ),
        ("TLS KeyUpdate", vec![0x06, 0, 5, 24, 0, 0, 1, 0], &[UNEXPECTED_MESSAGE]),
        (
            "TLS KeyUpdate that requests another KeyUpdate",
            vec![0x06, 0, 5, 24, 0, 0, 1, 1],
            &[UNEXPECTED_MESSAGE],
        ),
        ("EndOfEarlyData", vec![0x06, 0, 4, 5, 0, 0, 0], &[UNEXPECTED_MESSAGE]),
        (
            "NEW_TOKEN",
            encode(&[Frame::NewToken(frame::NewToken { token: b"token" })]),
            &[VIOLATION],
        ),
        ("NEW_TOKEN without a token", vec![0x07, 0], &[VIOLATION, FRAME_ENCODING]),
        (
            "NEW_TOKEN longer than its packet",
            integers(&[0x07, 1 << 50]),
            &[VIOLATION, FRAME_ENCODING],
        ),
        ("HANDSHAKE_DONE", vec![0x1e], &[VIOLATION]),
        ("DATAGRAM that was not negotiated", vec![0x31, 1, b'x'], &[VIOLATION]),
        (
            "DATAGRAM longer than its packet",
            integers(&[0x31, 1 << 50]),
            &[VIOLATION, FRAME_ENCODING],
        ),
        ("STREAM longer than its packet", integers(&[0x0e, 0, 0, 1 << 50]), &[FRAME_ENCODING]),
        ("STREAM beyond 2^62", stream_frame(0, much, b"x", false), &[FRAME_ENCODING, FLOW_CONTROL]),
        (
            "STREAM beyond the flow control limit",
            stream_frame(0, 1 << 30, b"x", false),
            &[FLOW_CONTROL],
        ),
        (
            "STREAM beyond the stream limit",
            stream_frame(4 * 100_000, 0, b"x", false),
            &[STREAM_LIMIT],
        ),
        (
            "unidirectional STREAM beyond the stream limit",
            stream_frame(4 * 100_000 + 2, 0, b"x", false),
            &[STREAM_LIMIT],
        ),
        ("STREAM on a stream that only the server can open", vec![0x08, 1], &[STREAM_STATE]),
        ("STREAM on a stream that only the server sends on", vec![0x08, 3], &[STREAM_STATE]),
        (
            "STREAM beyond the final size",
            [stream_frame(0, 0, b"x", true), stream_frame(0, 1, b"x", false)].concat(),
            &[FINAL_SIZE],
        ),
        (
            "STREAM with a final size below the bytes sent",
            [stream_frame(0, 0, b"xx", false), stream_frame(0, 0, b"x", true)].concat(),
            &[FINAL_SIZE],
        ),
        (
            "RESET_STREAM with a final size below the bytes sent",
            [stream_frame(0, 0, b"xx", false), integers(&[0x04, 0, 0, 1])].concat(),
            &[FINAL_SIZE],
        ),
        (
            "RESET_STREAM that changes the final size",
            [integers(&[0x04, 0, 0, 1]), integers(&[0x04, 0, 0, 2])].concat(),
            &[FINAL_SIZE],
        ),
        (
            "RESET_STREAM beyond the flow control limit",
            integers(&[0x04, 0, 0, 1 << 40]),
            &[FLOW_CONTROL],
        ),
        (
            "RESET_STREAM of a stream that only the server sends on",
            integers(&[0x04, 3, 0, 0]),
            &[STREAM_STATE],
        ),
        (
            "STOP_SENDING of a stream that only the client sends on",
            integers(&[0x05, 2, 0]),
            &[STREAM_STATE],
        ),
        ("STOP_SENDING of an unopened stream", integers(&[0x05, 403, 0]), &[STREAM_STATE]),
        (
            "MAX_STREAM_DATA of a stream that only the client sends on",
            vec![0x11, 2, 9],
            &[STREAM_STATE],
        ),
        ("MAX_STREAM_DATA of an unopened stream", integers(&[0x11, 403, 9]), &[STREAM_STATE]),
        (
            "STREAM_DATA_BLOCKED of a stream that only the server sends on",
            vec![0x15, 3, 0],
            &[STREAM_STATE],
        ),
        ("MAX_STREAMS beyond 2^60", integers(&[0x12, (1 << 60) + 1]), &[FRAME_ENCODING]),
        (
            "unidirectional MAX_STREAMS beyond 2^60",
            integers(&[0x13, (1 << 60) + 1]),
            &[FRAME_ENCODING],
        ),
        (
            "STREAMS_BLOCKED beyond 2^60",
            integers(&[0x16, (1 << 60) + 1]),
            &[FRAME_ENCODING, STREAM_LIMIT],
        ),
        (
            "unidirectional STREAMS_BLOCKED beyond 2^60",
            integers(&[0x17, (1 << 60) + 1]),
            &[FRAME_ENCODING, STREAM_LIMIT],
        ),
        ("NEW_CONNECTION_ID with an empty ID", new_connection_id(1, 0, &[]), &[FRAME_ENCODING]),
        ("NEW_CONNECTION_ID of 21 bytes", new_connection_id(1, 0, &[1; 21]), &[FRAME_ENCODING]),
        (
            "NEW_CONNECTION_ID that retires itself",
            new_connection_id(1, 2, &[1; 8]),
            &[FRAME_ENCODING],
        ),
        ("truncated NEW_CONNECTION_ID", vec![0x18, 1, 0, 8, 1, 2], &[FRAME_ENCODING]),
        (
            "two connection IDs with one sequence number",
            [new_connection_id(1, 0, &[1; 8]), new_connection_id(1, 0, &[2; 8])].concat(),
            &[VIOLATION],
        ),
        (
            "one connection ID with two sequence numbers",
            [new_connection_id(1, 0, &[1; 8]), new_connection_id(2, 0, &[1; 8])].concat(),
            &[VIOLATION],
        ),
        ("RETIRE_CONNECTION_ID of an unissued ID", integers(&[0x19, 1_000]), &[VIOLATION]),
        (
            "RESET_STREAM_AT with a reliable size above the final size",
            integers(&[0x24, 0, 0, 1, 2]),
            &[FRAME_ENCODING],
        ),
    ]);
    for kind in [0x21_u64, 0x40, 0x7f, 0x1234, 0x3fff_ffff] {
        messages.push((format!("frame type {kind:#x}"), varint_bytes(kind), &[FRAME_ENCODING]));
    }
    for kind in [
        0x02, 0x04, 0x05, 0x06, 0x0f, 0x10, 0x11, 0x12, 0x14, 0x15, 0x16, 0x18, 0x19, 0x1a, 0x1b,
        0x1c, 0x1d, 0x24,
    ] {
        messages.push((
            format!("frame {kind:#x} without its fields"),
            vec![kind],
            &[FRAME_ENCODING],
        ));
    }
    messages
}

/// Returns a client that has Handshake keys but has not sent any Handshake packets.
fn halfway(scene: &Scene<'_>) -> Result<Endpoint, String> {
    let mut client = Endpoint::begin(scene.address, &scene.site.settings(&scene.counter))?;
    client.withholds_finished = true;
    client.flush()?;
    let has_keys = client.until(scene::HANDSHAKE, |client| client.has_keys(HANDSHAKE))?;
    match has_keys {
        true => Ok(client),
        false => Err("no response to a ClientHello".to_owned()),
    }
}

/// Sets reserved bits in the headers of all packet types (RFC 9000 §17.2, §17.3.1).
fn reserved_bits(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut established = scene.attacker()?;
    established.reserved = 0x18;
    established.send(&[1]);
    let mut ends = vec![("short header", established)];
    for (what, space) in [("Initial", INITIAL), ("Handshake", HANDSHAKE)] {
        let mut client = halfway(scene)?;
        client.reserved = 0x0c;
        client.send_in(space, &[1; 20]);
        ends.push((what, client));
    }
    for (what, mut client) in ends {
        client.until(CLOSING, |client| client.closed.is_some())?;
        let expected = Expected { what, codes: &[VIOLATION], is_application: false };
        expected.compare(scene, client.closed.as_ref());
    }
    Ok(())
}

/// Sends frames that are not allowed in Initial and Handshake packets (RFC 9000 §12.4), and
/// messages that TLS does not allow there.
fn in_handshake(scene: &mut Scene<'_>, space: usize) -> Result<(), String> {
    let mut messages = named(vec![
        ("RESET_STREAM", integers(&[0x04, 0, 0, 0]), &[VIOLATION]),
        ("STOP_SENDING", integers(&[0x05, 0, 0]), &[VIOLATION]),
        ("NEW_TOKEN", vec![0x07, 1, 0], &[VIOLATION]),
        ("STREAM", stream_frame(0, 0, b"x", false), &[VIOLATION]),
        ("MAX_DATA", integers(&[0x10, 9]), &[VIOLATION]),
        ("MAX_STREAM_DATA", integers(&[0x11, 0, 9]), &[VIOLATION]),
        ("MAX_STREAMS", integers(&[0x12, 9]), &[VIOLATION]),
        ("DATA_BLOCKED", integers(&[0x14, 9]), &[VIOLATION]),
        ("STREAM_DATA_BLOCKED", integers(&[0x15, 0, 9]), &[VIOLATION]),
        ("STREAMS_BLOCKED", integers(&[0x16, 9]), &[VIOLATION]),
        ("NEW_CONNECTION_ID", new_connection_id(1, 0, &[1; 8]), &[VIOLATION]),
        ("RETIRE_CONNECTION_ID", integers(&[0x19, 0]), &[VIOLATION]),
        ("PATH_CHALLENGE", vec![0x1a; 9], &[VIOLATION]),
        ("PATH_RESPONSE", vec![0x1b; 9], &[VIOLATION]),
        ("application CONNECTION_CLOSE", vec![0x1d, 0, 0], &[VIOLATION]),
        ("HANDSHAKE_DONE", vec![0x1e], &[VIOLATION]),
        ("DATAGRAM", vec![0x31, 1, 0], &[VIOLATION]),
        ("an unknown frame", vec![0x21], &[FRAME_ENCODING, VIOLATION]),
        ("ACK of unsent packets", integers(&[0x02, 1 << 20, 0, 0, 0]), &[VIOLATION]),
        // In Initial packets, nothing may follow the ClientHello (RFC 9001 §4.1.3).
        (
            "CRYPTO at an excessive offset",
            [integers(&[0x06, 1 << 40, 1]), b"x".into()].concat(),
            &[CRYPTO_BUFFER, VIOLATION],
        ),
    ]);
    if space == HANDSHAKE {
        messages.extend(named(vec![
            ("TLS KeyUpdate", vec![0x06, 0, 5, 24, 0, 0, 1, 0], &[UNEXPECTED_MESSAGE]),
            ("EndOfEarlyData", vec![0x06, 0, 4, 5, 0, 0, 0], &[UNEXPECTED_MESSAGE]),
            (
                "a second ClientHello",
                vec![0x06, 0, 8, 1, 0, 0, 4, 3, 3, 0, 0],
                &[UNEXPECTED_MESSAGE, DECODE_ERROR],
            ),
            (
                "incorrect Finished",
                [vec![0x06, 0, 36, 20, 0, 0, 32], vec![9; 32]].concat(),
                &[0x133, DECODE_ERROR],
            ),
        ]));
    }
    for (what, bytes, codes) in &messages {
        let mut client = halfway(scene)?;
        client.send_in(space, bytes);
        client.until(CLOSING, |client| client.closed.is_some())?;
        let expected = Expected { what, codes, is_application: false };
        expected.compare(scene, client.closed.as_ref());
    }
    scene.notes.push(format!("{} messages", messages.len()));
    Ok(())
}

fn parameter(id: u64, value: &[u8]) -> Vec<u8> {
    [integers(&[id, value.len() as u64]), value.to_vec()].concat()
}

/// Sends transport parameters that a client must not send (RFC 9000 §7.4, §18.2).
fn parameters(scene: &mut Scene<'_>) -> Result<(), String> {
    let integer = |id, value| parameter(id, &varint_bytes(value));
    let good = [integer(0x04, 1 << 20), integer(0x08, 100)].concat();
    let bad: Vec<(&str, Vec<u8>, bool)> = vec![
        ("original_destination_connection_id", parameter(0x00, &[1; 8]), true),
        ("stateless_reset_token", parameter(0x02, &[1; 16]), true),
        ("preferred_address", parameter(0x0d, &[1; 49]), true),
        ("retry_source_connection_id", parameter(0x10, &[1; 8]), true),
        ("max_udp_payload_size of 1,199", integer(0x03, 1_199), true),
        ("ack_delay_exponent of 21", integer(0x0a, 21), true),
        ("max_ack_delay of 2^14", integer(0x0b, 1 << 14), true),
        ("active_connection_id_limit of 1", integer(0x0e, 1), true),
        ("initial_max_streams_uni beyond 2^60", integer(0x09, (1 << 60) + 1), true),
        ("a duplicate parameter", [integer(0x01, 9), integer(0x01, 9)].concat(), true),
        ("a parameter longer than the extension", integers(&[0x01, 60]), true),
        ("an integer with trailing bytes", parameter(0x01, &[1, 2]), true),
        ("an empty integer", parameter(0x01, &[]), true),
        ("disable_active_migration with a value", parameter(0x0c, &[1]), true),
        ("version_information of 3 bytes", parameter(0x11, &[0, 0, 1]), true),
        ("no initial_source_connection_id", Vec::new(), false),
        ("a wrong initial_source_connection_id", parameter(0x0f, &[9; 8]), false),
        ("an initial_source_connection_id of 21 bytes", parameter(0x0f, &[9; 21]), false),
    ];
    let count = bad.len();
    for (what, more, has_source) in bad {
        let encoded = [good.clone(), more].concat();
        let closed = refused(scene, Some(Forged { encoded, has_source }), b"h3")?;
        let codes = &[TRANSPORT_PARAMETER];
        Expected { what, codes, is_application: false }.compare(scene, closed.as_ref());
    }
    // Valid parameters are accepted, and so is an unknown parameter.
    let encoded = [good, parameter(0x21, &[1; 100])].concat();
    let closed = refused(scene, Some(Forged { encoded, has_source: true }), b"h3")?;
    scene.check(closed.is_none(), || format!("an unknown parameter was rejected: {closed:?}"));
    scene.notes.push(format!("{count} messages"));
    Ok(())
}

/// Returns how a server rejected a handshake.
fn refused(
    scene: &Scene<'_>,
    forged: Option<Forged>,
    protocol: &[u8],
) -> Result<Option<Closed>, String> {
    let protocol = String::from_utf8_lossy(protocol);
    let mut settings = scene.site.settings_for(&scene.counter, &protocol);
    settings = Settings { forged, ..settings };
    if protocol.is_empty() {
        let mut tls = (*settings.tls).clone();
        tls.alpn_protocols.clear();
        settings.tls = tls.into();
    }
    let mut client = Endpoint::begin(scene.address, &settings)?;
    client.flush()?;
    client.until(CLOSING, |client| client.closed.is_some() || client.is_confirmed)?;
    Ok(client.closed.clone())
}

/// Offers no application protocol or an unknown one (RFC 9001 §8.1).
fn protocols(scene: &mut Scene<'_>) -> Result<(), String> {
    for protocol in [&b""[..], b"h2", b"h3-29", &[b'x'; 200]] {
        let closed = refused(scene, None, protocol)?;
        let what = &*String::from_utf8_lossy(protocol);
        let codes = &[NO_PROTOCOL];
        Expected { what, codes, is_application: false }.compare(scene, closed.as_ref());
    }
    Ok(())
}

/// Closes, resets, or opens twice each stream that must stay open (RFC 9114 §6.2.1, RFC 9204 §4.2).
fn closed_streams(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut outcomes: Vec<(String, Endpoint, u64)> = Vec::new();
    for (what, kind) in [("control", 0), ("encoder", 2), ("decoder", 3)] {
        for is_reset in [false, true] {
            let mut attacker = scene.attacker()?;
            let stream = if kind == 0 { 2 } else { attacker.next_stream(true) };
            if kind > 0 {
                attacker.send_stream(stream, &[kind], false);
            }
            attacker.pump(Duration::from_millis(20))?;
            match is_reset {
                true => attacker.send(&integers(&[0x04, stream, 0, if kind == 0 { 3 } else { 1 }])),
                false => attacker.send_stream(stream, b"", true),
            }
            outcomes.push((format!("{what}, reset: {is_reset}"), attacker, CLOSED_CRITICAL));
        }
        if kind > 0 {
            let mut attacker = scene.attacker()?;
            for _ in 0..2 {
                let stream = attacker.next_stream(true);
                attacker.send_stream(stream, &[kind], false);
            }
            outcomes.push((format!("a second {what}"), attacker, STREAM_CREATION));
        }
    }
    for (what, mut attacker, code) in outcomes {
        attacker.until(CLOSING, |attacker| attacker.closed.is_some())?;
        let expected = Expected { what: &what, codes: &[code], is_application: true };
        expected.compare(scene, attacker.closed.as_ref());
    }
    Ok(())
}
