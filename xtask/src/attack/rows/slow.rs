//! Clients that read slowly or not at all, and memory budgets shared by many connections.

use std::time::{Duration, Instant};

use clearway_wire::TransportParameters;

use super::{Bound, MIB, Row, Target, USUAL};
use crate::attack::encoding::{stream_frame, varint};
use crate::attack::endpoint::{Endpoint, Settings, generous};
use crate::attack::http3::{HEADERS, fields, frame, get, request, section};
use crate::attack::scene::{HANDSHAKE, LARGE, SMALL, Scene};
use crate::waiting::check_interrupt;

/// Duration for which slow readers continue.
const TIME: Duration = Duration::from_secs(12);

pub(super) fn rows() -> Vec<Row> {
    let row = |name, drive| Row {
        name,
        target: Target::Serve(&[]),
        is_quick: false,
        bound: USUAL,
        drive,
    };
    // Each client host may use a quarter of --content-memory and of --open-files.
    let content = Bound { memory: 200 * MIB, cpu: 6.0, descriptors: 96, ..USUAL };
    vec![
        Row { bound: content, ..row("slow-readers", |scene| slow_readers(scene, false)) },
        Row {
            target: Target::Serve(&["--http09"]),
            bound: content,
            ..row("slow-readers-http09", |scene| slow_readers(scene, true))
        },
        Row { bound: Bound { memory: 8 * MIB, ..content }, ..row("slow-readers-one", one_reader) },
        Row { bound: Bound { memory: 10 * MIB, ..USUAL }, ..row("slow-requests", slow_requests) },
        Row { bound: content, ..row("trickle-credit", trickle) },
        // The budget is 40 MiB, but if each connection kept 1 MiB, the total would be 200 MiB.
        Row {
            target: Target::Serve(&["--connection-memory", "32MiB"]),
            bound: Bound { memory: 48 * MIB, ..USUAL },
            ..row("sum-of-connections", sum)
        },
        Row { bound: Bound { memory: 30 * MIB, ..USUAL }, ..row("idle-connections", idle) },
    ]
}

/// Returns the transport parameters of a client that grants one byte of credit per stream.
fn stingy() -> TransportParameters {
    TransportParameters {
        initial_max_stream_data_bidi_local: varint(1),
        initial_max_data: varint(1 << 20),
        ..generous()
    }
}

fn connect(
    scene: &Scene<'_>,
    parameters: TransportParameters,
    is_old: bool,
) -> Result<Endpoint, String> {
    let settings = match is_old {
        true => scene.site.settings_for(&scene.counter, "hq-interop"),
        false => scene.site.settings(&scene.counter),
    };
    let mut endpoint =
        Endpoint::connect(scene.address, &Settings { parameters, ..settings }, HANDSHAKE)?;
    if !is_old {
        crate::attack::http3::open(&mut endpoint, &[]);
    }
    Ok(endpoint)
}

fn ask(endpoint: &mut Endpoint, is_old: bool) {
    match is_old {
        true => {
            let stream = endpoint.next_stream(false);
            endpoint.send_stream(stream, format!("GET {LARGE}\r\n").as_bytes(), true);
        }
        false => _ = request(endpoint, LARGE),
    }
}

/// Opens 120 connections from one address that request large files, grant no credit, and repeat the
/// request when a stream is reset.
fn slow_readers(scene: &mut Scene<'_>, is_old: bool) -> Result<(), String> {
    let mut kept = Vec::new();
    for _ in 0..120 {
        let Ok(mut endpoint) = connect(scene, stingy(), is_old) else { continue };
        for _ in 0..95 {
            ask(&mut endpoint, is_old);
        }
        endpoint.pump(Duration::from_millis(5))?;
        kept.push(endpoint);
        check_interrupt()?;
    }
    scene.notes.push(format!("{} connections", kept.len()));
    let began = Instant::now();
    while began.elapsed() < TIME {
        for endpoint in &mut kept {
            endpoint.pump(Duration::from_micros(300))?;
            let over = |(id, answer): (&u64, &crate::attack::incoming::Incoming)| {
                (answer.reset.is_some() || answer.is_complete()).then_some(*id)
            };
            let ended: Vec<u64> = endpoint.streams.iter().filter_map(over).collect();
            for stream in ended {
                endpoint.streams.remove(&stream);
                if endpoint.closed.is_none() {
                    ask(endpoint, is_old);
                }
            }
        }
        check_interrupt()?;
    }
    Ok(())
}

/// Opens one connection with as many streams as possible.
fn one_reader(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut endpoint = connect(scene, stingy(), false)?;
    for _ in 0..98 {
        ask(&mut endpoint, false);
    }
    endpoint.pump(Duration::from_secs(3))
}

/// Opens 20 connections whose requests arrive byte by byte.
fn slow_requests(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut all = Vec::new();
    for _ in 0..20 {
        let mut endpoint = scene.attacker()?;
        let streams: Vec<u64> = (0..95).map(|_| endpoint.next_stream(false)).collect();
        all.push((endpoint, streams));
    }
    for place in 0..20 {
        for (endpoint, streams) in &mut all {
            for stream in streams {
                endpoint.send(&stream_frame(
                    *stream,
                    place,
                    &get(SMALL)[place as usize..=place as usize],
                    false,
                ));
            }
            endpoint.pump(Duration::from_millis(1))?;
        }
        check_interrupt()?;
    }
    Ok(())
}

/// Runs readers that grant credit one byte at a time.
fn trickle(scene: &mut Scene<'_>) -> Result<(), String> {
    use clearway_wire::{Frame, StreamId, frame::MaxStreamData};
    let mut all = Vec::new();
    for _ in 0..20 {
        let mut endpoint = connect(scene, stingy(), false)?;
        for _ in 0..95 {
            ask(&mut endpoint, false);
        }
        all.push(endpoint);
    }
    for round in 2..200 {
        for endpoint in &mut all {
            let more = |stream: u64| {
                let stream_id = StreamId::from_varint(varint(stream * 4));
                Frame::MaxStreamData(MaxStreamData { stream_id, maximum: varint(round) })
            };
            endpoint.send_frames(&(0..95).map(more).collect::<Vec<_>>());
            endpoint.pump(Duration::from_micros(500))?;
        }
        check_interrupt()?;
    }
    Ok(())
}

/// Opens 200 connections that each fill their flow control windows, with the first byte missing.
fn sum(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut all = Vec::new();
    let mut refused = 0;
    for number in 0..200 {
        let mut settings = scene.site.settings(&scene.counter);
        settings.local = super::frames::elsewhere(1 + (number % 8) as u8);
        let Ok(mut endpoint) = Endpoint::connect(scene.address, &settings, Duration::from_secs(1))
        else {
            refused += 1;
            // A server that has reached its limit rejects the other connections as well.
            if refused > 20 {
                break;
            }
            continue;
        };
        leave_gaps(&mut endpoint)?;
        all.push(endpoint);
        check_interrupt()?;
    }
    scene.notes.push(format!("{} connections, {refused} refused", all.len()));
    Ok(())
}

/// Makes the server buffer almost 1 MiB by sending four requests without their first bytes.
pub(in crate::attack) fn leave_gaps(endpoint: &mut Endpoint) -> Result<(), String> {
    let head = frame(HEADERS, &section(&fields("POST", SMALL)));
    for stream in (0..4).map(|number| number * 4) {
        endpoint.send(&stream_frame(stream, 0, &head[..1], false));
        for place in 0..220 {
            endpoint.send(&stream_frame(stream, 1_000 + place * 1_100, &[0; 1_100], false));
            if place % 32 == 0 {
                endpoint.pump(Duration::from_millis(1))?;
            }
        }
    }
    Ok(())
}

/// Opens a thousand idle connections.
fn idle(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut all = Vec::new();
    for _ in 0..1_000 {
        match scene.attacker() {
            Ok(endpoint) => all.push(endpoint),
            Err(error) => {
                scene.notes.push(error);
                break;
            }
        }
        check_interrupt()?;
    }
    scene.notes.push(format!("{} connections", all.len()));
    Ok(())
}
