//! Attacks by hostile servers on `clearway get`.

use std::net::UdpSocket;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clearway_wire::{ConnectionId, Direction, Frame, ResetToken, frame};

use super::{Bound, MIB, Row, Target, USUAL};
use crate::attack::encoding::{encode, varint, varint_bytes};
use crate::attack::endpoint::{Endpoint, PAYLOAD, generous};
use crate::attack::http3::{HEADERS, frame as http3_frame, literal, prefixed};
use crate::attack::scene::Scene;
use crate::attack::watch::Watch;
use crate::bounded::Server;
use crate::waiting::check_interrupt;

/// The --stall-timeout of `get`: the default would take too long.
const STALL: &str = "4s";
/// Time limit for `get` to give up on a hostile server.
const TIMEOUT: Duration = Duration::from_secs(8);
/// Duration of a flood.
const FLOOD: Duration = Duration::from_secs(4);

pub(super) fn rows() -> Vec<Row> {
    let bound = Bound { memory: 2 * MIB, cpu: 4.5, ..USUAL };
    let row = |name, drive| Row { name, target: Target::Alone, is_quick: false, bound, drive };
    vec![
        Row { bound: Bound { cpu: 0.5, ..bound }, ..row("get-only-pings", only_pings) },
        Row {
            is_quick: true,
            ..row("get-new-token-flood", |scene| {
                flooded(scene, |_| {
                    encode(&[Frame::NewToken(frame::NewToken { token: &[7; 1_000] })])
                })
            })
        },
        row("get-ping-flood", |scene| flooded(scene, |_| vec![1; PAYLOAD])),
        row("get-path-challenge-flood", |scene| flooded(scene, challenges)),
        row("get-new-connection-id-storm", |scene| flooded(scene, connection_ids)),
        row("get-crypto-flood", |scene| {
            flooded(scene, |number| {
                encode(&[Frame::Crypto(frame::Crypto {
                    offset: varint(number * 2 % 60_000 + 2_000),
                    data: b"x",
                })])
            })
        }),
        row("get-handshake-done-flood", |scene| flooded(scene, |_| vec![0x1e; PAYLOAD])),
        row("get-max-streams-flood", |scene| {
            flooded(scene, |number| {
                encode(&[Frame::MaxStreams(frame::MaxStreams {
                    direction: Direction::Bidirectional,
                    maximum: varint(100 + number),
                })])
            })
        }),
        row("get-interim-responses", |scene| {
            flooded_stream(scene, false, |_| http3_frame(HEADERS, &[0, 0, 0xd8]))
        }),
        row("get-headers-bomb", |scene| {
            flooded_stream(scene, false, |number| match number {
                0 => [varint_bytes(HEADERS), varint_bytes(1 << 40)].concat(),
                _ => vec![0; 10_000],
            })
        }),
        row("get-many-fields", |scene| {
            flooded_stream(scene, false, |_| {
                let mut section = vec![0, 0, 0xd9];
                section.extend((0..5_000).flat_map(|_| literal("x", "y")));
                http3_frame(HEADERS, &section)
            })
        }),
        row("get-unknown-frames", |scene| {
            flooded_stream(scene, false, |number| match number {
                0 => [varint_bytes(0x21), varint_bytes(1 << 60)].concat(),
                _ => vec![0; 10_000],
            })
        }),
        row("get-push-streams", |scene| {
            flooded_stream(scene, true, |_| [vec![1], varint_bytes(0)].concat())
        }),
        row("get-qpack-inserts", |scene| {
            flooded_stream(scene, true, |number| match number {
                0 => [vec![2], prefixed(0x20, 5, 4_000)].concat(),
                _ => [0x41, b'a', 1, b'b'].repeat(1_000),
            })
        }),
    ]
}

fn challenges(number: u64) -> Vec<u8> {
    let frame = |place: u64| {
        let data = (number * 100 + place).to_be_bytes();
        Frame::PathChallenge(frame::PathChallenge { data })
    };
    encode(&(0..100).map(frame).collect::<Vec<_>>())
}

fn connection_ids(number: u64) -> Vec<u8> {
    let frame = |place: u64| {
        let sequence = 1 + number * 30 + place;
        Frame::NewConnectionId(frame::NewConnectionId {
            sequence: varint(sequence),
            retire_prior_to: varint(sequence),
            id: ConnectionId::new(&sequence.to_be_bytes()).expect("an ID of 8 bytes"),
            reset_token: ResetToken::new([7; 16]),
        })
    };
    encode(&(0..30).map(frame).collect::<Vec<_>>())
}

/// A `get` process that has begun a handshake with a hostile server, and the server's completed
/// connection.
struct Get {
    program: Server,
    endpoint: Endpoint,
    watch: Watch,
}

impl Get {
    fn start(scene: &Scene<'_>) -> Result<Self, String> {
        let failed = |error: std::io::Error| error.to_string();
        let socket = UdpSocket::bind("127.0.0.1:0").map_err(failed)?;
        let port = socket.local_addr().map_err(failed)?.port();
        let mut command = Command::new(&scene.site.program);
        let output = scene.folder.join("output").display().to_string();
        let sessions = scene.folder.join("sessions").display().to_string();
        command.args(["get", "--quiet", "--ca", &scene.site.path("cert.pem"), "--output", &output]);
        command.args(["--sessions", &sessions, &format!("https://localhost:{port}/file")]);
        command.args(["--stall-timeout", STALL, "--connect", &format!("127.0.0.1:{port}")]);
        let program = Server::start(command, &scene.log)?;
        socket.set_read_timeout(Some(Duration::from_secs(10))).map_err(failed)?;
        let mut first = [0; 2_048];
        let (length, client) = socket.recv_from(&mut first).map_err(|error| {
            format!(
                "get did not send anything: \
                {error}"
            )
        })?;
        socket.set_nonblocking(true).map_err(failed)?;
        let tls = (&scene.site.server, &generous());
        let counter = scene.counter.clone();
        let mut endpoint =
            Endpoint::accept((Arc::new(socket), client), &mut first[..length], tls, counter)?;
        let is_confirmed =
            endpoint.until(Duration::from_secs(5), |endpoint| endpoint.is_confirmed)?;
        if !is_confirmed {
            return Err(format!("get did not complete a handshake: {}", program.log()));
        }
        let watch = Watch::start(program.id(), &scene.folder);
        Ok(Self { program, endpoint, watch })
    }

    /// Returns whether `get` has exited or has closed the connection.
    fn is_over(&mut self) -> bool {
        self.endpoint.closed.is_some() || !self.program.is_running()
    }

    fn end(self, scene: &mut Scene<'_>) {
        scene.measured = Some(self.watch.stop());
        scene.note_end(&self.endpoint);
        let log = self.program.log();
        scene.check(!log.contains("panicked"), || "get panicked".to_owned());
        let output = scene.folder.join("output");
        scene.check(!output.exists(), || "an incomplete download was kept".to_owned());
    }
}

/// Runs a server that keeps the connection alive and answers no request.
fn only_pings(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut get = Get::start(scene)?;
    let began = Instant::now();
    while began.elapsed() < TIMEOUT && !get.is_over() {
        get.endpoint.send(&[1]);
        get.endpoint.pump(Duration::from_millis(500))?;
        check_interrupt()?;
    }
    let is_over = get.is_over();
    scene.notes.push(format!("{} s", began.elapsed().as_secs()));
    scene.check(is_over, || format!("get is still waiting after {} s", TIMEOUT.as_secs()));
    get.end(scene);
    Ok(())
}

fn flooded(scene: &mut Scene<'_>, payload: impl Fn(u64) -> Vec<u8>) -> Result<(), String> {
    let mut get = Get::start(scene)?;
    let (began, mut number) = (Instant::now(), 0);
    while began.elapsed() < FLOOD && !get.is_over() {
        for _ in 0..32 {
            get.endpoint.send(&payload(number));
            number += 1;
        }
        get.endpoint.pump(Duration::from_millis(1))?;
        check_interrupt()?;
    }
    get.end(scene);
    Ok(())
}

/// Floods the client on the request stream, or on a stream that the server opens.
fn flooded_stream(
    scene: &mut Scene<'_>,
    is_new: bool,
    data: impl Fn(u64) -> Vec<u8>,
) -> Result<(), String> {
    let mut get = Get::start(scene)?;
    crate::attack::http3::open(&mut get.endpoint, &[]);
    get.endpoint.until(Duration::from_secs(2), |endpoint| endpoint.streams.contains_key(&0))?;
    let stream = if is_new { get.endpoint.next_stream(true) } else { 0 };
    let (began, mut number) = (Instant::now(), 0);
    let mut sent = 0;
    // The client's initial flow control windows.
    while began.elapsed() < FLOOD && !get.is_over() && sent < 240_000 {
        let data = data(number);
        sent += data.len();
        get.endpoint.send_stream(stream, &data, false);
        number += 1;
        get.endpoint.pump(Duration::from_millis(2))?;
        check_interrupt()?;
    }
    get.endpoint.pump(Duration::from_millis(500))?;
    get.end(scene);
    Ok(())
}
