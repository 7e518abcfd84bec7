//! Floods of a single kind of frame on an established connection.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::time::Duration;

use clearway_wire::frame::{self, EcnCounts};
use clearway_wire::{ConnectionId, Direction, Frame, PacketNumber, ResetToken, StreamId, Writer};

use super::{Bound, MIB, Row, Target, USUAL};
use crate::attack::encoding::{encode, stream_frame, varint, varint_bytes};
use crate::attack::endpoint::{Endpoint, PAYLOAD};
use crate::attack::http3;
use crate::attack::scene::{LARGE, Scene};

/// Number of datagrams in a flood.
const MANY: u64 = 30_000;
/// Number of datagrams to send before reading received ones.
const BATCH: u64 = 32;
/// Pause after each batch. Without it, most of a flood would only fill the target's receive buffer.
const PAUSE: Duration = Duration::from_micros(500);
/// The error code PROTOCOL_VIOLATION (RFC 9000 §20.1).
const PROTOCOL_VIOLATION: u64 = 0x0a;
const CONNECTION_ID_LIMIT_ERROR: u64 = 0x09;
const CRYPTO_BUFFER_EXCEEDED: u64 = 0x0d;
/// Time to wait for the target's CONNECTION_CLOSE frame, which arrives after a round trip or never.
const CLOSING: Duration = Duration::from_secs(2);

pub(super) fn rows() -> Vec<Row> {
    let row = |name, drive| Row {
        name,
        target: Target::Serve(&[]),
        is_quick: false,
        bound: USUAL,
        drive,
    };
    let quick = |name, drive| Row { is_quick: true, ..row(name, drive) };
    // Data that was sent but not acknowledged, and its sent-packet records.
    let sending = Bound { memory: 10 * MIB, ..USUAL };
    // Each client host may use a quarter of --content-memory and of --open-files.
    let content = Bound { memory: 200 * MIB, descriptors: 96, ..USUAL };
    vec![
        quick("ping-flood", |scene| plain(scene, |_| vec![1; PAYLOAD])),
        Row {
            target: Target::Library,
            ..row("library-ping-flood", |scene| plain(scene, |_| vec![1; PAYLOAD]))
        },
        row("padding-flood", |scene| plain(scene, |_| vec![0; PAYLOAD])),
        row("immediate-ack-flood", |scene| plain(scene, |_| vec![0x1f; PAYLOAD])),
        row("ping-gaps", ping_gaps),
        row("ping-no-acks", ping_no_acks),
        quick("path-challenge-flood", path_challenges),
        row("path-challenge-addresses", path_challenge_addresses),
        row("path-response-flood", |scene| {
            plain(scene, |number| {
                fill(9, |place| {
                    Frame::PathResponse(frame::PathResponse {
                        data: (number * 128 + place).to_be_bytes(),
                    })
                })
            })
        }),
        row("max-data-flood", |scene| {
            plain(scene, |number| {
                fill(9, |place| {
                    Frame::MaxData(frame::MaxData {
                        maximum: varint((1 << 31) + number * 128 + place),
                    })
                })
            })
        }),
        row("max-stream-data-flood", max_stream_data),
        row("max-streams-flood", |scene| {
            plain(scene, |number| {
                fill(9, |place| {
                    Frame::MaxStreams(frame::MaxStreams {
                        direction: Direction::Unidirectional,
                        maximum: varint(1 + number * 128 + place),
                    })
                })
            })
        }),
        row("blocked-flood", |scene| {
            plain(scene, |number| {
                fill(9, |place| {
                    Frame::DataBlocked(frame::DataBlocked { limit: varint(number * 128 + place) })
                })
            })
        }),
        quick("empty-stream-flood", |scene| plain(scene, |_| [0x0a, 0, 0].repeat(PAYLOAD / 3))),
        quick("new-connection-id-storm", new_connection_ids),
        row("retire-connection-id-storm", retirements),
        quick("crypto-reorder", crypto),
        quick("stream-sparse", sparse),
        row("stream-overlap", overlap),
        Row { bound: sending, ..row("ack-range-storm", ack_ranges) },
        Row { bound: sending, ..row("ack-optimistic", optimistic) },
        Row { bound: sending, ..row("ack-ce-lies", ecn_lies) },
        row("key-update-flood", key_updates),
        row("reset-storm", resets),
        row("reset-stream-at-storm", resets_at),
        Row { bound: sending, ..row("migration-storm", migrations) },
        row("connection-churn", churn),
        Row { bound: content, ..row("ack-withheld", withheld) },
    ]
}

/// Encodes as many frames of one kind as fit into a packet, assuming frames of `size` bytes.
fn fill<'a>(size: usize, frame: impl Fn(u64) -> Frame<'a>) -> Vec<u8> {
    let frames: Vec<Frame<'a>> = (0..(PAYLOAD / size).min(120) as u64).map(frame).collect();
    let mut payload = encode(&frames);
    payload.truncate(PAYLOAD + 40);
    payload
}

/// Sends datagrams with the payloads that `payload` returns, until the target closes the
/// connection.
pub(super) fn flood(
    endpoint: &mut Endpoint,
    count: u64,
    mut payload: impl FnMut(u64) -> Vec<u8>,
) -> Result<(), String> {
    for number in 0..count {
        endpoint.send(&payload(number));
        if number % BATCH == 0 {
            endpoint.pump(PAUSE)?;
            crate::waiting::check_interrupt()?;
        }
        if endpoint.closed.is_some() {
            break;
        }
    }
    Ok(())
}

/// Floods the target with valid frames: it may close the connection or tolerate them.
fn plain(scene: &mut Scene<'_>, payload: impl FnMut(u64) -> Vec<u8>) -> Result<(), String> {
    let mut attacker = scene.attacker()?;
    flood(&mut attacker, MANY, payload)?;
    scene.note_end(&attacker);
    Ok(())
}

fn encode_ack(first: u64, last: u64) -> Vec<u8> {
    acknowledgment(&[(first, last)], None)
}

/// Encodes an ACK frame with these ranges in descending order.
fn acknowledgment(ranges: &[(u64, u64)], ecn: Option<EcnCounts>) -> Vec<u8> {
    let mut bytes = [0; PAYLOAD];
    let mut writer = Writer::new(&mut bytes);
    let number = |number| PacketNumber::new(number).expect("a packet number");
    let ranges = ranges.iter().map(|(first, last)| number(*first)..=number(*last));
    // Invalid ranges produce an empty frame.
    let _ = frame::Ack::encode_ranges(&mut writer, varint(0), ranges, ecn);
    writer.filled().to_vec()
}

fn ping_gaps(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut attacker = scene.attacker()?;
    for _ in 0..MANY / BATCH {
        for _ in 0..BATCH {
            attacker.send(&[1]);
            attacker.skip_numbers(1);
        }
        attacker.pump(PAUSE)?;
    }
    Ok(())
}

fn ping_no_acks(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut attacker = scene.attacker()?;
    attacker.acknowledges = false;
    flood(&mut attacker, MANY, |_| vec![1])
}

fn path_challenges(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut attacker = scene.attacker()?;
    attacker.acknowledges = false;
    flood(&mut attacker, MANY, |number| {
        fill(9, |place| {
            let data = (number * 128 + place).to_be_bytes();
            Frame::PathChallenge(frame::PathChallenge { data })
        })
    })
}

/// Returns sockets bound to different addresses of this host.
pub(super) fn sockets(network: u8, count: u16) -> Result<Vec<UdpSocket>, String> {
    let socket = |number: u16| {
        let [high, low] = number.to_be_bytes();
        let address = Ipv4Addr::new(127, network, high, low.max(1));
        let socket =
            UdpSocket::bind((address, 0)).map_err(|error| format!("{address}: {error}"))?;
        socket.set_nonblocking(true).map_err(|error| error.to_string())?;
        Ok(socket)
    };
    (1..=count).map(socket).collect()
}

fn path_challenge_addresses(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut attacker = scene.attacker()?;
    let sockets = sockets(1, 250)?;
    for number in 0..MANY / 2 {
        let data = number.to_be_bytes();
        let mut payload = encode(&[Frame::PathChallenge(frame::PathChallenge { data })]);
        payload.resize(PAYLOAD, 0);
        let packet = attacker.packet(&payload);
        attacker.send_from(&sockets[number as usize % sockets.len()], &packet);
        if number % BATCH == 0 {
            attacker.pump(PAUSE)?;
        }
    }
    Ok(())
}

fn max_stream_data(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut attacker = scene.attacker()?;
    let stream = attacker.next_stream(false);
    attacker.send(&stream_frame(stream, 0, b"\0", false));
    flood(&mut attacker, MANY, |number| {
        fill(12, |place| {
            let stream_id = StreamId::from_varint(varint(stream));
            let maximum = varint((1 << 31) + number * 128 + place);
            Frame::MaxStreamData(frame::MaxStreamData { stream_id, maximum })
        })
    })
}

fn new_connection_id(sequence: u64, retire_prior_to: u64) -> Frame<'static> {
    Frame::NewConnectionId(frame::NewConnectionId {
        sequence: varint(sequence),
        retire_prior_to: varint(retire_prior_to),
        id: ConnectionId::new(&sequence.to_be_bytes()).expect("an ID of 8 bytes"),
        reset_token: ResetToken::new([7; 16]),
    })
}

fn new_connection_ids(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut attacker = scene.attacker()?;
    // RETIRE_CONNECTION_ID frames are queued until the target may send them.
    attacker.acknowledges = false;
    flood(&mut attacker, MANY, |number| {
        let first = 1 + number * 30;
        let frames: Vec<Frame<'_>> =
            (first..first + 30).map(|sequence| new_connection_id(sequence, sequence)).collect();
        encode(&frames)
    })?;
    attacker.until(CLOSING, |attacker| attacker.closed.is_some())?;
    let closed = attacker.closed.clone();
    let is_expected =
        closed.as_ref().is_some_and(|closed| closed.code == CONNECTION_ID_LIMIT_ERROR);
    scene.check(is_expected, || {
        format!(
            "the target retires connection IDs without limit: \
        {closed:?}"
        )
    });
    Ok(())
}

/// Retires each connection ID as soon as the target issues it.
fn retirements(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut attacker = scene.attacker()?;
    let mut retired = 0;
    for round in 0..3_000 {
        while retired < attacker.issued {
            retired += 1;
            let sequence = varint(retired);
            attacker
                .send_frames(&[Frame::RetireConnectionId(frame::RetireConnectionId { sequence })]);
        }
        attacker.pump(PAUSE)?;
        if attacker.closed.is_some() || round > 100 && retired == 0 {
            break;
        }
    }
    scene.notes.push(format!("{retired} retired IDs"));
    scene.note_end(&attacker);
    Ok(())
}

fn crypto(scene: &mut Scene<'_>) -> Result<(), String> {
    for _ in 0..20 {
        let mut attacker = scene.attacker()?;
        flood(&mut attacker, 1_000, |number| {
            let frame = |place| {
                // Ranges in descending order, and never adjacent.
                let offset = varint(60_000 - (number * 30 + place) % 30_000 * 2);
                Frame::Crypto(frame::Crypto { offset, data: b"x" })
            };
            encode(&(0..30).map(frame).collect::<Vec<_>>())
        })?;
        let closed = attacker.closed.clone();
        let is_expected =
            closed.as_ref().is_some_and(|closed| closed.code == CRYPTO_BUFFER_EXCEEDED);
        scene.check(is_expected, || {
            format!(
                "the target buffers fragments without limit: \
            {closed:?}"
            )
        });
    }
    Ok(())
}

fn sparse(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut attacker = scene.attacker()?;
    let stream = attacker.next_stream(false);
    flood(&mut attacker, 3_000, |number| {
        let piece = |place| {
            let offset = 200_000 - (number * 100 + place) % 100_000 * 2;
            stream_frame(stream, offset, b"x", false)
        };
        (0..100).flat_map(piece).collect()
    })?;
    scene.note_end(&attacker);
    Ok(())
}

/// Sends the same bytes repeatedly, split differently each time.
fn overlap(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut attacker = scene.attacker()?;
    let stream = attacker.next_stream(false);
    let data = [b'x'; 1_100];
    flood(&mut attacker, MANY, |number| {
        let length = 1 + (number * 37 % 1_000) as usize;
        stream_frame(stream, 10 + number * 131 % 60_000, &data[..length], false)
    })
}

/// Sends ACK frames with as many ranges as fit, for packets that the target has sent.
fn ack_ranges(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut attacker = scene.attacker()?;
    attacker.acknowledges = false;
    http3::request(&mut attacker, LARGE);
    attacker.pump(Duration::from_millis(100))?;
    for _ in 0..MANY / 10 {
        let largest = attacker.largest_received().unwrap_or(1);
        let ranges: Vec<(u64, u64)> = (0..largest / 2)
            .take(300)
            .map(|place| (largest - 2 * place, largest - 2 * place))
            .collect();
        attacker.send(&acknowledgment(&ranges, None));
        attacker.pump(PAUSE)?;
    }
    scene.note_end(&attacker);
    Ok(())
}

/// Acknowledges packets before they arrive. The target must detect this, since it skips packet
/// numbers.
fn optimistic(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut attacker = scene.attacker()?;
    attacker.acknowledges = false;
    for _ in 0..5 {
        http3::request(&mut attacker, LARGE);
    }
    for _ in 0..2_000 {
        let largest = attacker.largest_received().unwrap_or_default();
        // All packet numbers, received or not.
        attacker.send(&encode_ack(0, largest));
        attacker.pump(PAUSE)?;
        if attacker.closed.is_some() {
            break;
        }
    }
    let closed = attacker.closed.clone();
    let is_expected = closed.as_ref().is_some_and(|closed| closed.code == PROTOCOL_VIOLATION);
    scene.check(is_expected, || {
        format!("an ACK of a skipped packet number did not cause PROTOCOL_VIOLATION: {closed:?}")
    });
    Ok(())
}

fn ecn_lies(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut attacker = scene.attacker()?;
    attacker.acknowledges = false;
    http3::request(&mut attacker, LARGE);
    for number in 0..2_000 {
        let largest = attacker.largest_received().unwrap_or_default();
        let ecn = EcnCounts { ce: varint(number * 1_000), ..EcnCounts::default() };
        attacker.send(&acknowledgment(&[(largest, largest)], Some(ecn)));
        attacker.pump(PAUSE)?;
    }
    scene.note_end(&attacker);
    Ok(())
}

fn key_updates(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut attacker = scene.attacker()?;
    for number in 0..5_000_u64 {
        attacker.update_keys();
        attacker.send(&[1]);
        if number % BATCH == 0 {
            attacker.pump(PAUSE)?;
        }
    }
    Ok(())
}

fn resets(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut attacker = scene.attacker()?;
    flood(&mut attacker, MANY / 3, |number| {
        let frame = |place| {
            let stream_id = StreamId::from_varint(varint((number * 50 + place) % 100 * 4));
            let (error_code, final_size) = (varint(0), varint(0));
            Frame::ResetStream(frame::ResetStream { stream_id, error_code, final_size })
        };
        encode(&(0..50).map(frame).collect::<Vec<_>>())
    })?;
    scene.note_end(&attacker);
    Ok(())
}

fn resets_at(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut attacker = scene.attacker()?;
    flood(&mut attacker, MANY / 3, |number| {
        // Sends RESET_STREAM_AT frames with a reliable size that is never reached and becomes
        // smaller each time, as the draft permits.
        let stream = number % 50 * 4;
        let size = 1_000 - number.min(1_000);
        let fields = [stream, 0, 1_000, size].into_iter().flat_map(varint_bytes);
        [vec![0x24], fields.collect()].concat()
    })?;
    scene.note_end(&attacker);
    Ok(())
}

fn migrations(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut attacker = scene.attacker()?;
    http3::request(&mut attacker, LARGE);
    let sockets = sockets(2, 250)?;
    for number in 0..MANY / 2 {
        let packet = attacker.packet(&[1; 40]);
        attacker.send_from(&sockets[number as usize % sockets.len()], &packet);
        if number % BATCH == 0 {
            attacker.pump(PAUSE)?;
        }
    }
    Ok(())
}

fn churn(scene: &mut Scene<'_>) -> Result<(), String> {
    for _ in 0..300 {
        let mut attacker = scene.attacker()?;
        attacker.close();
    }
    Ok(())
}

/// Requests large files and acknowledges nothing, on 20 connections from an address other than that
/// of the well-behaved client.
fn withheld(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut all = Vec::new();
    for _ in 0..20 {
        let mut attacker = scene.attacker()?;
        attacker.acknowledges = false;
        for _ in 0..50 {
            http3::request(&mut attacker, LARGE);
        }
        all.push(attacker);
    }
    for _ in 0..200 {
        for attacker in &mut all {
            attacker.pump(Duration::from_micros(200))?;
        }
        crate::waiting::check_interrupt()?;
    }
    Ok(())
}

/// Returns an address other than that of the well-behaved client.
pub(super) fn elsewhere(number: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(127, 3, 0, number))
}
