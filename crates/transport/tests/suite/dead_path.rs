//! A client that leaves a path that has died. The dead path's state limits neither the validation
//! of the new path nor the traffic after it (RFC 9000 §8.2.2, §9.4).

use std::time::Duration;

use crate::support::{Pair, Route, SECOND_SOCKET, address, both, lossy, milliseconds, seconds};
use bytes::Bytes;
use clearway_network::{Conditions, Link, LinkConfig};
use clearway_transport::{Event, ReadOutcome, SocketIndex};
use clearway_units::Rate;
use clearway_wire::{Direction, StreamId};

const OTHER_IP: &str = "10.0.7.1:50000";
const OTHER_PORT: &str = "10.0.0.1:51000";

/// The traffic at the time when the path dies.
#[derive(Clone, Copy, Debug)]
struct Traffic {
    downloads: bool,
    uploads: bool,
}

const TRAFFIC: [Traffic; 4] = [
    Traffic { downloads: true, uploads: false },
    Traffic { downloads: false, uploads: true },
    Traffic { downloads: true, uploads: true },
    Traffic { downloads: false, uploads: false },
];

/// Endless streams in the directions given by a [`Traffic`].
struct Streams {
    to_client: Option<StreamId>,
    to_server: Option<StreamId>,
    chunk: Bytes,
    received: usize,
}

impl Streams {
    fn open(pair: &mut Pair, traffic: Traffic) -> Self {
        let open = |connection: &mut clearway_transport::Connection, is_wanted: bool| {
            is_wanted.then(|| connection.open(Direction::Unidirectional).unwrap())
        };
        let to_client = open(pair.server(), traffic.downloads);
        let to_server = open(pair.client(), traffic.uploads);
        Self { to_client, to_server, chunk: vec![1; 1 << 16].into(), received: 0 }
    }

    /// Writes and reads as much as possible now.
    fn pump(&mut self, pair: &mut Pair) {
        let now = pair.now;
        if let Some(stream) = self.to_client {
            while pair.server().write(stream, self.chunk.clone()).unwrap() > 0 {}
        }
        if let Some(stream) = self.to_server {
            while pair.client().write(stream, self.chunk.clone()).unwrap() > 0 {}
        }
        let _ = (
            pair.client().accept(Direction::Unidirectional),
            pair.server().accept(Direction::Unidirectional),
        );
        for (stream, is_client) in [(self.to_client, true), (self.to_server, false)] {
            let Some(stream) = stream else { continue };
            let connection = if is_client { pair.client() } else { pair.server() };
            while let Ok(ReadOutcome::Data(data)) = connection.read(now, stream, usize::MAX) {
                self.received += data.len();
            }
        }
    }

    fn run_for(&mut self, pair: &mut Pair, duration: Duration) {
        pair.run_until(duration, |pair| {
            self.pump(pair);
            false
        });
    }
}

/// Returns a link with a delay of 10 ms each way and a rate of 4 Mbit/s.
fn narrow(seed: u64) -> LinkConfig {
    let rate = Some(Rate::from_bits_per_second(4_000_000));
    both(Conditions { delay: milliseconds(10), rate, ..Conditions::default() }, seed)
}

/// Migrates after the path has been dead for `after`. Returns how long the migration took, and how
/// many bytes arrived in the second after it.
fn leave_dead_path(client: &str, traffic: Traffic, after: Duration) -> (Option<Duration>, usize) {
    let mut pair = Pair::new(narrow(1));
    pair.routes.push(Route::second_socket(client, narrow(2)));
    pair.establish();
    let mut streams = Streams::open(&mut pair, traffic);
    streams.run_for(&mut pair, milliseconds(500));
    pair.link = Link::new(lossy(100.0, 10, 5));
    streams.run_for(&mut pair, after);
    let (now, before) = (pair.now, streams.received);
    let ip = address(client).ip();
    pair.client().migrate(now, SECOND_SOCKET, Some(ip)).unwrap();
    let is_there = |pair: &mut Pair| {
        let to = |event: &Event| matches!(event, Event::Migrated { socket: SocketIndex(1), .. });
        pair.client_events.iter().any(to) && pair.server().remote_address() == address(client)
    };
    let moved = pair.run_until(seconds(10), |pair| {
        streams.pump(pair);
        is_there(pair)
    });
    let took = moved.then(|| pair.now.saturating_since(now));
    streams.run_for(&mut pair, seconds(1));
    (took, streams.received - before)
}

/// The response to the challenge on the new path does not wait for the window, the pacer or the
/// probe timer of the dead path, regardless of the traffic and of how long the path has been dead.
#[test]
fn a_client_leaves_a_dead_path_in_any_transfer() {
    for client in [OTHER_IP, OTHER_PORT] {
        for traffic in TRAFFIC {
            for after in [milliseconds(1), milliseconds(500), seconds(4)] {
                let (took, bytes) = leave_dead_path(client, traffic, after);
                let case = format!("{client}, {traffic:?}, dead for {after:?}");
                let took = took.unwrap_or_else(|| panic!("{case}: not moved"));
                assert!(took <= milliseconds(100), "{case}: {took:?}");
                let is_idle = !traffic.downloads && !traffic.uploads;
                assert!(bytes > 100_000 || is_idle, "{case}: {bytes} bytes in the second after");
            }
        }
    }
}
