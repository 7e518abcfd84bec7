//! Attacks on HTTP/3 and QPACK.

use std::time::Duration;

use super::{Bound, MIB, Row, Target, USUAL};
use crate::attack::encoding::{encode, varint, varint_bytes};
use crate::attack::endpoint::{Endpoint, PAYLOAD};
use crate::attack::http3::{
    DATA, HEADERS, fields, frame, get, literal, prefixed, request, section, status,
};
use crate::attack::scene::{SMALL, Scene};
use crate::waiting::check_interrupt;
use clearway_wire::{Frame, StreamId, frame as quic};

const CLOSING: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_micros(500);
const EXCESSIVE_LOAD: u64 = 0x107;
const DECOMPRESSION_FAILED: u64 = 0x200;

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
        quick("cancel-storm", cancel),
        Row { target: Target::Library, ..row("library-cancel-storm", cancel) },
        row("stop-sending-storm", stop_sending),
        quick("qpack-bomb", bomb),
        row("qpack-blocked-streams", blocked),
        row("qpack-insert-flood", inserts),
        row("headers-too-large", headers_too_large),
        row("headers-endless", headers_endless),
        quick("unknown-frame-huge", unknown_frame),
        row("goaway-flood", |scene| {
            control_flood(scene, |number| frame(7, &varint_bytes((1 << 40) - number * 4)))
        }),
        row("max-push-id-flood", |scene| {
            control_flood(scene, |number| frame(0x0d, &varint_bytes(number)))
        }),
        quick("priority-update-flood", |scene| control_flood(scene, priority)),
        row("content-length-mismatch", content_length),
        row("malformed-requests", malformed),
        row("unknown-streams", unknown_streams),
        row("upload-flood", upload),
        row("connect-flood", connects),
        row("empty-data-frames", empty_data),
        row("foreign-authorities", authorities),
        Row {
            bound: Bound { memory: 27 * MIB, descriptors: 96, ..USUAL },
            ..row("request-flood", request_flood)
        },
    ]
}

/// Waits until the target closes the connection with one of these codes.
fn expect_close(
    scene: &mut Scene<'_>,
    mut attacker: Endpoint,
    codes: &[u64],
) -> Result<(), String> {
    attacker.until(CLOSING, |attacker| attacker.closed.is_some())?;
    let closed = attacker.closed.clone();
    let is_expected =
        closed.as_ref().is_some_and(|closed| closed.is_application && codes.contains(&closed.code));
    scene.check(is_expected, || format!("expected one of the codes {codes:x?}, not {closed:?}"));
    Ok(())
}

fn control_flood(scene: &mut Scene<'_>, make: impl Fn(u64) -> Vec<u8>) -> Result<(), String> {
    let mut attacker = scene.attacker()?;
    for number in 0..10_000 {
        let data: Vec<u8> = (0..20).flat_map(|place| make(number * 20 + place)).collect();
        attacker.send_stream(2, &data, false);
        if number % 16 == 0 {
            attacker.pump(PAUSE)?;
            check_interrupt()?;
        }
        if attacker.closed.is_some() {
            break;
        }
    }
    scene.note_end(&attacker);
    Ok(())
}

/// Encodes a PRIORITY_UPDATE frame for a request that has not arrived.
fn priority(number: u64) -> Vec<u8> {
    frame(0xf0700, &[varint_bytes(number % 100 * 4), b"u=1,i".to_vec()].concat())
}

fn cancel(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut attacker = scene.attacker()?;
    for number in 0..10_000 {
        let stream = attacker.next_stream(false);
        let headers = get(SMALL);
        attacker.send(&crate::attack::encoding::stream_frame(stream, 0, &headers, false));
        let stream_id = StreamId::from_varint(varint(stream));
        let (error_code, final_size) = (varint(0x10c), varint(headers.len() as u64));
        attacker.send_frames(&[
            Frame::ResetStream(quic::ResetStream { stream_id, error_code, final_size }),
            Frame::StopSending(quic::StopSending { stream_id, error_code }),
        ]);
        if number % 16 == 0 {
            attacker.pump(PAUSE)?;
        }
        // The attack respects the target's stream limit, so that the budget is what ends it.
        let next = stream / 4 + 1;
        attacker.until(CLOSING, |attacker| attacker.max_streams > next)?;
        if attacker.closed.is_some() {
            break;
        }
    }
    expect_close(scene, attacker, &[EXCESSIVE_LOAD])
}

fn stop_sending(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut attacker = scene.attacker()?;
    for number in 0..5_000 {
        let stream = request(&mut attacker, crate::attack::scene::LARGE);
        let stream_id = StreamId::from_varint(varint(stream));
        let error_code = varint(0x10c);
        attacker.send_frames(&[Frame::StopSending(quic::StopSending { stream_id, error_code })]);
        if number % 16 == 0 {
            attacker.pump(PAUSE)?;
        }
        let next = stream / 4 + 1;
        attacker.until(CLOSING, |attacker| attacker.max_streams > next)?;
        if attacker.closed.is_some() {
            break;
        }
    }
    expect_close(scene, attacker, &[EXCESSIVE_LOAD])
}

/// Opens the encoder stream with a dynamic table of 4,000 bytes that contains one large entry.
fn encoder(attacker: &mut Endpoint) -> u64 {
    let stream = attacker.next_stream(true);
    let mut data = vec![2];
    data.extend(prefixed(0x20, 5, 4_000));
    data.extend(prefixed(0x40, 5, 1));
    data.push(b'x');
    data.extend(prefixed(0, 7, 3_900));
    data.extend([b'y'; 3_900]);
    attacker.send_stream(stream, &data, false);
    stream
}

/// Sends a field section that refers to a 4 kB entry ten thousand times.
fn bomb(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut attacker = scene.attacker()?;
    encoder(&mut attacker);
    attacker.pump(Duration::from_millis(100))?;
    for _ in 0..50 {
        // Required Insert Count 1 and Base 1, then relative index 0.
        let mut section = vec![2, 0];
        section.extend(fields("GET", "/").iter().flat_map(|(name, value)| literal(name, value)));
        section.extend([0x80; 10_000]);
        let stream = attacker.next_stream(false);
        attacker.send_stream(stream, &frame(HEADERS, &section), true);
        attacker.pump(Duration::from_millis(5))?;
        let answer = attacker.streams.get(&stream).and_then(status);
        scene
            .check(answer != Some(200), || "a decompression bomb was answered with 200".to_owned());
        if attacker.closed.is_some() {
            break;
        }
    }
    scene.note_end(&attacker);
    Ok(())
}

/// Sends field sections that are blocked on dynamic table entries that never arrive.
fn blocked(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut attacker = scene.attacker()?;
    encoder(&mut attacker);
    for _ in 0..50 {
        let mut section = vec![3, 0];
        section.extend(fields("GET", "/").iter().flat_map(|(name, value)| literal(name, value)));
        section.extend(literal("x-fill", &"x".repeat(60_000)));
        let stream = attacker.next_stream(false);
        attacker.send_stream(stream, &frame(HEADERS, &section), true);
        attacker.pump(PAUSE)?;
        if attacker.closed.is_some() {
            break;
        }
    }
    expect_close(scene, attacker, &[DECOMPRESSION_FAILED, EXCESSIVE_LOAD])
}

fn inserts(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut attacker = scene.attacker()?;
    let stream = encoder(&mut attacker);
    for number in 0..20_000_u64 {
        // Duplicate the newest entry, or set the capacity to 0 and back. Each insertion evicts an
        // entry.
        let mut data: Vec<u8> = (0..300).map(|_| 0).collect();
        if number % 2 == 1 {
            data = [prefixed(0x20, 5, 0), prefixed(0x20, 5, 4_000), vec![0x41, b'a', 1, b'b']]
                .concat();
        }
        attacker.send_stream(stream, &data, false);
        if number % 16 == 0 {
            attacker.pump(PAUSE)?;
            check_interrupt()?;
        }
        if attacker.closed.is_some() {
            break;
        }
    }
    scene.note_end(&attacker);
    Ok(())
}

/// Sends a field section above the limit. The server responds with 431 or not at all.
fn headers_too_large(scene: &mut Scene<'_>) -> Result<(), String> {
    for _ in 0..20 {
        let mut attacker = scene.attacker()?;
        let mut section = section(&fields("GET", SMALL));
        section.extend((0..3_000).flat_map(|_| literal("x", "y")));
        let stream = attacker.next_stream(false);
        attacker.send_stream(stream, &frame(HEADERS, &section), true);
        attacker.pump(Duration::from_millis(30))?;
        let answer = attacker.streams.get(&stream).and_then(status);
        scene.check(answer != Some(200), || "3,000 fields were accepted".to_owned());
    }
    Ok(())
}

/// Sends HEADERS frames that never end, on many request streams.
fn headers_endless(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut attacker = scene.attacker()?;
    for _ in 0..90 {
        let stream = attacker.next_stream(false);
        let head = [varint_bytes(HEADERS), varint_bytes(60_000), vec![0; 59_000]].concat();
        attacker.send_stream(stream, &head, false);
        attacker.pump(PAUSE)?;
        if attacker.closed.is_some() {
            break;
        }
    }
    expect_close(scene, attacker, &[EXCESSIVE_LOAD])
}

/// Checks that a reserved frame of 2^60 bytes is skipped without buffering, and that a HEADERS
/// frame of this length is rejected.
fn unknown_frame(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut attacker = scene.attacker()?;
    for _ in 0..20 {
        let stream = attacker.next_stream(false);
        let head = [varint_bytes(0x21), varint_bytes(1 << 60)].concat();
        attacker.send_stream(stream, &head, false);
        attacker.send_stream(stream, &[0; 100_000], false);
        attacker.pump(Duration::from_millis(2))?;
    }
    scene.note_end(&attacker);
    let mut attacker = scene.attacker()?;
    let stream = attacker.next_stream(false);
    attacker.send_stream(stream, &[varint_bytes(HEADERS), varint_bytes(1 << 60)].concat(), false);
    attacker.pump(Duration::from_millis(300))?;
    let answer = attacker.streams.get(&stream);
    let is_refused = attacker.closed.is_some()
        || answer.is_some_and(|answer| answer.reset.is_some() || !answer.data.is_empty());
    scene.check(is_refused, || "a HEADERS frame of 2^60 bytes was not rejected".to_owned());
    Ok(())
}

/// Sends requests whose content does not match the declared length.
fn content_length(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut accepted = 0;
    let mut attacker = scene.attacker()?;
    for (length, content) in
        [("10", ""), ("10", "12345"), ("3", "12345"), ("-1", ""), ("1, 2", "1"), ("x", "")]
    {
        let mut fields = fields("POST", SMALL);
        fields.push(("content-length", length));
        let mut data = frame(HEADERS, &section(&fields));
        if !content.is_empty() {
            data.extend(frame(DATA, content.as_bytes()));
        }
        let stream = attacker.next_stream(false);
        attacker.send_stream(stream, &data, true);
        attacker.pump(Duration::from_millis(50))?;
        accepted += usize::from(attacker.streams.get(&stream).and_then(status) == Some(200));
    }
    scene.check(accepted == 0, || {
        format!("{accepted} requests with a wrong content-length got 200")
    });
    Ok(())
}

/// Returns the field lists of malformed requests (RFC 9114 §4.1.2, §4.2, §4.3).
fn malformed_fields() -> Vec<Vec<(&'static str, &'static str)>> {
    let good = || fields("GET", SMALL);
    let without = |name| good().into_iter().filter(|(other, _)| *other != name).collect();
    let instead = |name, value| {
        let change = |(other, old)| if other == name { (other, value) } else { (other, old) };
        good().into_iter().map(change).collect()
    };
    let after = [
        (":method", "GET"),
        (":path", "/other.txt"),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":status", "200"),
        (":other", "x"),
        (":protocol", "websocket"),
        ("Upper", "x"),
        ("connection", "close"),
        ("keep-alive", "x"),
        ("proxy-connection", "x"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "h2c"),
        ("te", "gzip"),
        ("host", "other"),
        ("x", "a\r\nb: c"),
        ("x", "a\0"),
        ("x", " a"),
        ("x", "a "),
        ("x\0", "a"),
        ("x y", "a"),
        ("x:", "a"),
        ("", "a"),
    ];
    let mut all: Vec<Vec<_>> =
        after.into_iter().map(|field| [good(), vec![field]].concat()).collect();
    // A pseudo-header field that follows a regular field.
    all.push([vec![("x", "y")], good()].concat());
    all.extend([":method", ":scheme", ":path", ":authority"].map(without));
    all.extend([
        instead(":method", "GE T"),
        instead(":method", ""),
        instead(":path", ""),
        instead(":path", "small.txt"),
        instead(":path", "/a b"),
        instead(":path", "/a\r\n"),
        instead(":authority", ""),
        instead(":authority", "someone@localhost"),
        instead(":authority", "local host"),
        instead(":scheme", "h ttps"),
        vec![(":status", "200")],
        Vec::new(),
    ]);
    all
}

/// Sends malformed requests until the budget for them is exhausted.
fn malformed(scene: &mut Scene<'_>) -> Result<(), String> {
    let broken = malformed_fields();
    scene.notes.push(format!("{} requests", broken.len()));
    let mut accepted = Vec::new();
    let mut attacker = scene.attacker()?;
    for round in 0..200 {
        for fields in &broken {
            let stream = attacker.next_stream(false);
            attacker.send_stream(stream, &frame(HEADERS, &section(fields)), true);
            attacker.until(CLOSING, |attacker| {
                attacker.max_streams > stream / 4 + 1
                    && attacker
                        .streams
                        .get(&stream)
                        .is_some_and(|answer| answer.reset.is_some() || answer.is_complete())
            })?;
            if round == 0 && attacker.streams.get(&stream).and_then(status) == Some(200) {
                accepted.push(format!("{fields:?}"));
            }
            attacker.streams.remove(&stream);
        }
        if attacker.closed.is_some() {
            break;
        }
    }
    scene.check(accepted.is_empty(), || format!("accepted: {}", accepted.join(", ")));
    expect_close(scene, attacker, &[EXCESSIVE_LOAD])
}

fn unknown_streams(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut attacker = scene.attacker()?;
    // The control stream is one of the hundred streams.
    for _ in 0..90 {
        let stream = attacker.next_stream(true);
        attacker.send_stream(stream, &[varint_bytes(0x21), vec![0; 20_000]].concat(), false);
        attacker.pump(PAUSE)?;
    }
    scene.note_end(&attacker);
    Ok(())
}

/// Uploads content to a server that does not want any, as fast as its flow control windows allow.
fn upload(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut attacker = scene.attacker()?;
    for _ in 0..40 {
        let stream = attacker.next_stream(false);
        let mut data = frame(HEADERS, &section(&fields("POST", SMALL)));
        data.extend([varint_bytes(DATA), varint_bytes(1 << 40), vec![0; 20_000]].concat());
        attacker.send_stream(stream, &data, false);
        attacker.pump(Duration::from_millis(2))?;
        if attacker.closed.is_some() {
            break;
        }
    }
    scene.note_end(&attacker);
    Ok(())
}

/// Sends Extended CONNECT requests, which the server has not enabled.
fn connects(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut attacker = scene.attacker()?;
    let mut accepted = 0;
    for _ in 0..2_000 {
        let mut fields = fields("CONNECT", "/chat");
        fields.push((":protocol", "websocket"));
        let stream = attacker.next_stream(false);
        attacker.send_stream(stream, &frame(HEADERS, &section(&fields)), false);
        attacker.until(CLOSING, |attacker| attacker.max_streams > stream / 4 + 1)?;
        accepted +=
            usize::from(attacker.streams.remove(&stream).as_ref().and_then(status) == Some(200));
        if attacker.closed.is_some() {
            break;
        }
    }
    scene.check(accepted == 0, || format!("{accepted} tunnels were opened"));
    scene.note_end(&attacker);
    Ok(())
}

fn empty_data(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut attacker = scene.attacker()?;
    let stream = attacker.next_stream(false);
    attacker.send_stream(stream, &frame(HEADERS, &section(&fields("POST", SMALL))), false);
    for number in 0..1_000 {
        attacker.send_stream(stream, &[0, 0].repeat(PAYLOAD / 3), false);
        if number % 16 == 0 {
            attacker.pump(PAUSE)?;
        }
    }
    scene.note_end(&attacker);
    Ok(())
}

/// Checks that a server responds with 421 to an authority that its certificate does not cover (RFC
/// 9110 §15.5.20), however it is spelled.
fn authorities(scene: &mut Scene<'_>) -> Result<(), String> {
    let expected = [
        ("localhost", 200),
        ("LOCALHOST", 200),
        ("localhost.", 200),
        ("localhost:1", 200),
        ("127.0.0.1", 200),
        ("[::1]:443", 200),
        ("other.example", 421),
        ("other.example:443", 421),
        ("localhost.other.example", 421),
        ("xlocalhost", 421),
        ("*", 421),
        ("127.0.0.1.other.example", 421),
    ];
    let mut attacker = scene.attacker()?;
    for (authority, expected) in expected {
        let mut fields = fields("GET", SMALL);
        fields[2].1 = authority;
        let stream = attacker.next_stream(false);
        attacker.send_stream(stream, &frame(HEADERS, &section(&fields)), true);
        attacker.until(CLOSING, |attacker| {
            attacker.streams.get(&stream).is_some_and(|answer| answer.is_complete())
        })?;
        let answer = attacker.streams.get(&stream).and_then(status);
        scene.check(answer == Some(expected), || {
            format!("{authority}: the status is {answer:?}, not {expected}")
        });
    }
    Ok(())
}

/// Sends requests with small responses, as fast as the stream limit permits.
fn request_flood(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut attacker = scene.attacker()?;
    for number in 0..5_000 {
        let stream = request(&mut attacker, SMALL);
        if number % 8 == 0 {
            attacker.pump(PAUSE)?;
        }
        attacker.until(CLOSING, |attacker| attacker.max_streams > stream / 4 + 1)?;
        attacker.streams.retain(|_, answer| !answer.is_complete());
    }
    let padding = encode(&[Frame::Ping]);
    attacker.send(&padding);
    scene.note_end(&attacker);
    Ok(())
}
