//! Floods that do not need a completed handshake.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use clearway_wire::header::{LongHeader, set_length};
use clearway_wire::{ConnectionId, Frame, LongPacketType, PacketNumber, Version, Writer, frame};

use super::frames::{elsewhere, sockets};
use super::{Bound, MIB, Row, Target, USUAL};
use crate::attack::encoding::{encode, varint};
use crate::attack::endpoint::{DATAGRAM, Endpoint, Settings};
use crate::attack::protection::{NUMBER_LEN, TAG_LEN, initial_keys, protect, random};
use crate::attack::scene::{HANDSHAKE, Scene};
use crate::waiting::check_interrupt;

/// Number of datagrams to send between pauses.
const BATCH: usize = 16;
const PAUSE: Duration = Duration::from_millis(1);

pub(super) fn rows() -> Vec<Row> {
    let row = |name, drive| Row {
        name,
        target: Target::Serve(&[]),
        is_quick: false,
        bound: USUAL,
        drive,
    };
    // 64 KiB for each of 1,000 half-open connections and 4 MiB for waiting clients, as documented
    // at `ServerConfig::retry_above`.
    let half_open = Bound { memory: 68 * MIB, ..USUAL };
    vec![
        Row { is_quick: true, bound: half_open, ..row("initial-flood", initials) },
        Row { bound: half_open, ..row("initial-junk", junk) },
        Row { bound: half_open, ..row("initial-coalesced-junk", coalesced) },
        Row { bound: half_open, ..row("initial-tokens", tokens) },
        Row { bound: half_open, ..row("initial-far-crypto", far_crypto) },
        Row { bound: half_open, ..row("initial-id-lengths", id_lengths) },
        Row { is_quick: true, ..row("short-header-flood", short_headers) },
        row("unknown-version-flood", unknown_versions),
        row("version-negotiation-flood", version_negotiation),
        row("empty-datagrams", |scene| blind(scene, 50_000, |_| Vec::new())),
        row("random-datagrams", |scene| {
            blind(scene, 30_000, |number| bytes(1 + number * 37 % 1_400))
        }),
        row("amplification", amplification),
        row("reset-oracle", resets),
        Row {
            target: Target::Serve(&["--retry"]),
            ..row("retry-token-elsewhere", retry_elsewhere)
        },
        row("new-token-elsewhere", new_token_elsewhere),
        Row { target: Target::Library, bound: half_open, ..row("library-initial-flood", initials) },
    ]
}

fn bytes(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    random(&mut bytes);
    bytes
}

/// Sends datagrams from 250 addresses without reading responses.
fn blind(
    scene: &mut Scene<'_>,
    count: usize,
    mut make: impl FnMut(usize) -> Vec<u8>,
) -> Result<(), String> {
    let sockets = sockets(1, 250)?;
    for number in 0..count {
        let datagram = make(number);
        scene.counter.add(datagram.len());
        // If the send buffer is full, the datagram is dropped, as it could be on a path.
        let _ = sockets[number % sockets.len()].send_to(&datagram, scene.address);
        if number % BATCH == 0 {
            std::thread::sleep(PAUSE);
            check_interrupt()?;
        }
    }
    Ok(())
}

/// Returns an Initial packet with this payload that fills a datagram.
fn initial(destination: &[u8], token: &[u8], payload: &[u8]) -> Vec<u8> {
    let destination = ConnectionId::new(destination).expect("an ID of at most 20 bytes");
    let source = ConnectionId::new(&[1; 8]).expect("an ID of 8 bytes");
    let packet_type = LongPacketType::Initial;
    let header = LongHeader { packet_type, version: Version::V1, destination, source, token };
    let mut datagram = vec![0; DATAGRAM];
    let mut writer = Writer::new(&mut datagram);
    let number = PacketNumber::new(0).expect("a packet number");
    let offsets = header.encode(&mut writer, number, NUMBER_LEN).expect("room for the header");
    datagram[offsets.payload..offsets.payload + payload.len()].copy_from_slice(payload);
    let length = DATAGRAM - offsets.packet_number;
    set_length(&mut datagram, offsets.length, length).expect("a length");
    let keys = initial_keys(&destination, true).local;
    protect(&keys, &mut datagram, offsets.packet_number, DATAGRAM - TAG_LEN, 0);
    datagram
}

/// Starts handshakes whose clients never respond.
fn initials(scene: &mut Scene<'_>) -> Result<(), String> {
    let settings = scene.site.settings(&scene.counter);
    let hello = Endpoint::begin(scene.address, &settings)?.first_flight();
    blind(scene, 20_000, |_| {
        let frame = Frame::Crypto(frame::Crypto { offset: varint(0), data: &hello });
        initial(&bytes(8), &[], &encode(&[frame]))
    })
}

/// Sends valid packets that do not contain a ClientHello.
fn junk(scene: &mut Scene<'_>) -> Result<(), String> {
    blind(scene, 10_000, |_| {
        let data = bytes(1_000);
        initial(
            &bytes(8),
            &[],
            &encode(&[Frame::Crypto(frame::Crypto { offset: varint(0), data: &data })]),
        )
    })
}

/// Sends datagrams with many small packets that cannot be decrypted.
fn coalesced(scene: &mut Scene<'_>) -> Result<(), String> {
    blind(scene, 10_000, |_| {
        let mut datagram = Vec::new();
        let id = bytes(8);
        while datagram.len() + 48 <= DATAGRAM {
            datagram.extend(
                [&[0xe3, 0, 0, 0, 1, 8], id.as_slice(), &[8], &[1; 8], &[0x40, 20]].concat(),
            );
            datagram.extend(bytes(20));
        }
        datagram.resize(DATAGRAM, 0);
        datagram
    })
}

fn tokens(scene: &mut Scene<'_>) -> Result<(), String> {
    blind(scene, 10_000, |_| initial(&bytes(8), &bytes(100), &[1]))
}

/// Sends one byte of the ClientHello, at the highest offset that the limit allows.
fn far_crypto(scene: &mut Scene<'_>) -> Result<(), String> {
    blind(scene, 10_000, |_| {
        let frame = frame::Crypto { offset: varint(65_000), data: b"x" };
        initial(&bytes(8), &[], &encode(&[Frame::Crypto(frame)]))
    })
}

fn id_lengths(scene: &mut Scene<'_>) -> Result<(), String> {
    blind(scene, 5_000, |number| match number % 40 {
        length @ 0..=20 => initial(&bytes(length), &[], &[1]),
        // Longer than QUIC version 1 allows.
        length => {
            let head = [0xc3, 0, 0, 0, 1, length as u8 + 60];
            [&head, bytes(DATAGRAM - 6).as_slice()].concat()
        }
    })
}

fn short_headers(scene: &mut Scene<'_>) -> Result<(), String> {
    blind(scene, 50_000, |_| {
        let mut datagram = bytes(40);
        datagram[0] = 0x40 | datagram[0] & 0x3f;
        datagram
    })
}

fn unknown_versions(scene: &mut Scene<'_>) -> Result<(), String> {
    blind(scene, 20_000, |_| {
        let head = [0xc3, 0x1a, 0x2a, 0x3a, 0x4a, 8];
        [&head, bytes(DATAGRAM - 6).as_slice()].concat()
    })
}

fn version_negotiation(scene: &mut Scene<'_>) -> Result<(), String> {
    blind(scene, 20_000, |_| {
        let head = [0xc3, 0, 0, 0, 0, 8];
        [&head, bytes(8).as_slice(), &[8], &bytes(8), &[0, 0, 0, 1]].concat()
    })
}

/// Checks that a server sends at most three times the bytes it has received to a client whose
/// address is not validated.
fn amplification(scene: &mut Scene<'_>) -> Result<(), String> {
    let settings = scene.site.settings(&scene.counter);
    let hello = Endpoint::begin(scene.address, &settings)?.first_flight();
    let mut worst = 0.0_f64;
    for _ in 0..10 {
        let socket = socket()?;
        let frame = Frame::Crypto(frame::Crypto { offset: varint(0), data: &hello });
        let datagram = initial(&bytes(8), &[], &encode(&[frame]));
        scene.counter.add(datagram.len());
        let _ = socket.send_to(&datagram, scene.address);
        let received = receive(&socket, Duration::from_millis(300));
        worst = worst.max(received.0 as f64 / datagram.len() as f64);
    }
    scene.notes.push(format!("{worst:.2} times the received bytes"));
    scene.check(worst <= 3.0, || {
        format!("the server sent {worst:.2} times the bytes that it received")
    });
    scene.check(worst > 0.0, || "the server did not respond".to_owned());
    Ok(())
}

fn socket() -> Result<UdpSocket, String> {
    let socket = UdpSocket::bind((elsewhere(1), 0)).map_err(|error| error.to_string())?;
    let limit = Some(Duration::from_millis(20));
    socket.set_read_timeout(limit).map_err(|error| error.to_string())?;
    Ok(socket)
}

/// Returns the number of bytes and datagrams received.
fn receive(socket: &UdpSocket, time: Duration) -> (usize, usize) {
    let (began, mut sums, mut buffer) = (Instant::now(), (0, 0), [0; 2_048]);
    while began.elapsed() < time {
        if let Ok(length) = socket.recv(&mut buffer) {
            sums = (sums.0 + length, sums.1 + 1);
        }
    }
    sums
}

/// Stateless resets are rate-limited, smaller than the packets that trigger them, and never repeat
/// a token.
fn resets(scene: &mut Scene<'_>) -> Result<(), String> {
    let socket = socket()?;
    let (mut tokens, mut buffer, mut larger, began) = (Vec::new(), [0; 2_048], 0, Instant::now());
    for number in 0..5_000 {
        let mut datagram = bytes(100);
        datagram[0] = 0x40 | datagram[0] & 0x3f;
        scene.counter.add(datagram.len());
        let _ = socket.send_to(&datagram, scene.address);
        if number % BATCH == 0 {
            std::thread::sleep(PAUSE);
        }
    }
    let time = began.elapsed() + Duration::from_millis(300);
    while began.elapsed() < time {
        if let Ok(length) = socket.recv(&mut buffer) {
            larger += usize::from(length >= 100);
            tokens.push(buffer[length.saturating_sub(16)..length].to_vec());
        }
    }
    let count = tokens.len();
    tokens.sort_unstable();
    tokens.dedup();
    // 200 resets per second and shard, counting the second that has started.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let most = 200 * cores * (2 + began.elapsed().as_secs() as usize);
    scene.notes.push(format!("{count} resets for 5000 datagrams"));
    scene.check(count <= most, || format!("{count} stateless resets; at most {most} are allowed"));
    scene.check(larger == 0, || {
        format!("{larger} stateless resets are not smaller than the packets that trigger them")
    });
    scene.check(tokens.len() == count, || "a reset token was used twice".to_owned());
    Ok(())
}

/// A Retry token must not be accepted from another address.
fn retry_elsewhere(scene: &mut Scene<'_>) -> Result<(), String> {
    let settings = scene.site.settings(&scene.counter);
    let mut client = Endpoint::begin(scene.address, &settings)?;
    // The next flight, which carries the token, must be sent from another address.
    client.stops_at_retry = true;
    client.flush()?;
    let has_token = client.until(HANDSHAKE, |client| !client.token.is_empty())?;
    scene.check(has_token, || "no Retry packet".to_owned());
    client.move_to(elsewhere(2))?;
    client.stops_at_retry = false;
    let is_confirmed = client.until(Duration::from_secs(1), |client| client.is_confirmed)?;
    scene.check(!is_confirmed, || "a Retry token was accepted from another address".to_owned());
    Ok(())
}

/// A NEW_TOKEN token used from another address validates nothing, so the server may send at most
/// three times the received bytes.
fn new_token_elsewhere(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut attacker = scene.attacker()?;
    attacker.until(HANDSHAKE, |attacker| !attacker.new_tokens.is_empty())?;
    let token = attacker.new_tokens.first().cloned().unwrap_or_default();
    scene.check(!token.is_empty(), || "no NEW_TOKEN frame".to_owned());
    let settings = Settings { local: elsewhere(3), ..scene.site.settings(&scene.counter) };
    let hello = Endpoint::begin(scene.address, &settings)?.first_flight();
    let socket = socket()?;
    let frame = Frame::Crypto(frame::Crypto { offset: varint(0), data: &hello });
    let datagram = initial(&bytes(8), &token, &encode(&[frame]));
    scene.counter.add(datagram.len());
    let _ = socket.send_to(&datagram, scene.address);
    let (received, _) = receive(&socket, Duration::from_millis(700));
    let factor = received as f64 / datagram.len() as f64;
    scene.check(factor <= 3.0, || {
        format!(
            "the server sent {factor:.2} times the bytes that it received, with \
        another client's token"
        )
    });
    Ok(())
}
