//! Tests of continuous use over many lifetimes: tokens, connection IDs, paths and keys are
//! constantly renewed.

use crate::support::ids::Rotating;
use crate::support::{
    CLIENT, Door, Pair, Route, SECOND_SOCKET, address, delayed, milliseconds, pattern, quiet,
    seconds, tls,
};
use clearway_transport::{ConnectionHandle, Event, SocketIndex};
use clearway_units::Timestamp;
use clearway_wire::{Direction, VarInt};

const DELAY: u64 = 10;

/// A client that returns nine times per token lifetime always has a valid token, and never needs a
/// Retry.
#[test]
fn a_regular_client_always_has_a_valid_token() {
    let mut pair = Pair::with(delayed(DELAY, 1), quiet(), quiet());
    pair.door = Door::Retry;
    let lifetime = pair.server_config.new_token_lifetime;
    let mut first = None;
    for visit in 0..=90 {
        let began = pair.now;
        pair.establish();
        let took = pair.now.saturating_since(began);
        let with_retry = *first.get_or_insert(took);
        if visit > 0 {
            assert_eq!(took, with_retry - milliseconds(2 * DELAY), "visit {visit}");
        }
        pair.run_for(seconds(1));
        let token = pair.client_events.iter().rev().find_map(|event| match event {
            Event::NewToken(token) => Some(token.to_vec()),
            _ => None,
        });
        let now = pair.now;
        pair.client().close(now, VarInt::ZERO, b"");
        pair.run_for(lifetime / 9);
        pair.reconnect(token.expect("a token"));
    }
}

/// A connection that has ended, on the client and on the server.
struct Ended {
    handles: [ConnectionHandle; 2],
    /// How long each endpoint keeps the state of the connection; `None` if no state is kept.
    until: [Option<Timestamp>; 2],
    /// A late packet from the client of the ended connection.
    late: Vec<u8>,
}

/// Ends the current connection, at one of the endpoints first.
fn end(pair: &mut Pair, server_closes: bool) -> Ended {
    pair.client().ping();
    let (now, mut buffer) = (pair.now, vec![0; 2000]);
    let late = pair.client.transmit(pair.handle, now, &mut buffer, 1).expect("a PING");
    pair.client.transmitted(pair.handle, now);
    let closing = if server_closes { pair.server() } else { pair.client() };
    closing.close(now, VarInt::ZERO, b"");
    pair.run_for(milliseconds(DELAY));
    let [server] = pair.accepted[..] else { panic!("one connection at a time") };
    let (now, handles) = (pair.now, [pair.handle, server]);
    let until =
        [(&mut pair.client, handles[0]), (&mut pair.server, handles[1])].map(|(end, of)| {
            assert!(end.release(of, now).is_some());
            end.deadlines(of, now).own
        });
    Ended { handles, until, late: buffer[..late.size].to_vec() }
}

/// Checks that each endpoint drops its state of the connection when the connection's lifetime ends.
fn expire(pair: &mut Pair, ended: &mut Ended) {
    let ends = [&mut pair.client, &mut pair.server].into_iter();
    for ((end, handle), until) in ends.zip(ended.handles).zip(&mut ended.until) {
        if until.take_if(|until| *until <= pair.now).is_some() {
            end.on_deadline(handle, pair.now, pair.now);
            assert!(end.remove_released(handle), "the state is never dropped");
        }
    }
}

/// Connections constantly begin and end. The state kept for ended connections recognizes their
/// packets, is bounded by the number that ended within its lifetime, and is empty at the end.
#[test]
fn connections_that_have_ended_are_forgotten_under_constant_traffic() {
    const VISITS: usize = 300;
    let mut pair = Pair::with(delayed(DELAY, 1), quiet(), quiet());
    let (mut all, mut most) = (Vec::<Ended>::new(), 0);
    for visit in 0..VISITS {
        pair.establish();
        let ended = end(&mut pair, visit % 2 == 0);
        let lifetime = ended.until[1].expect("late packets may come").saturating_since(pair.now);
        assert!(lifetime < milliseconds(500), "visit {visit}: {lifetime:?}");
        all.push(ended);
        all.iter_mut().for_each(|ended| expire(&mut pair, ended));
        for (number, ended) in all.iter().enumerate() {
            let known = pair.server.connection_for(address(CLIENT), &ended.late);
            let expected = ended.until[1].is_some().then_some(ended.handles[1]);
            assert_eq!(known, expected, "visit {visit}: that of {number}");
        }
        let kept = [0, 1].map(|end| all.iter().filter(|it| it.until[end].is_some()).count());
        assert_eq!([pair.client.connection_count(), pair.server.connection_count()], kept);
        most = most.max(kept[1]);
        if visit + 1 < VISITS {
            pair.reconnect(Vec::new());
        }
    }
    // A visit takes at least 50 ms, which bounds the number of ended connections.
    assert!((2..=10).contains(&most), "{most} are kept at a time");
    pair.now += seconds(1);
    all.iter_mut().for_each(|ended| expire(&mut pair, ended));
    assert_eq!([pair.client.connection_count(), pair.server.connection_count()], [0, 0]);
}

/// The client moves back and forth, the server's connection IDs and both endpoints' keys are
/// replaced, and data flows all the time.
#[test]
fn paths_ids_and_keys_are_renewed_under_traffic() {
    let ids = Rotating::new();
    let generators = [Rotating::new() as _, ids.clone() as _];
    let mut pair = Pair::with_ids(delayed(DELAY, 1), [quiet(), quiet()], tls(), generators);
    pair.routes.push(Route::second_socket("10.0.7.1:50000", delayed(DELAY, 2)));
    pair.establish();
    pair.run_for(seconds(1));
    let [first, second] = [pair.local_ip, address("10.0.7.1:50000").ip()];
    let stream = pair.client().open(Direction::Bidirectional).unwrap();
    pair.client().write_slice(stream, b"give").unwrap();
    pair.run_for(seconds(1));
    pair.server().accept(Direction::Bidirectional).unwrap();
    let whole = pattern(40 * 3 * 5000);
    let (mut written, mut received) = (0, Vec::new());
    for round in 0..40 {
        pair.client_events.clear();
        let (socket, ip) = match round % 2 {
            0 => (SECOND_SOCKET, second),
            _ => (SocketIndex::default(), first),
        };
        let now = pair.now;
        pair.client().migrate(now, socket, Some(ip)).unwrap_or_else(|error| {
            panic!("round {round}: {error}");
        });
        ids.rotate();
        pair.server().replace_connection_ids();
        assert!(pair.client().update_keys(now), "round {round}");
        for _ in 0..3 {
            let part = whole.slice(written..written + 5000);
            written += pair.server().write(stream, part).unwrap();
            pair.run_for(seconds(2));
            pair.read_all(stream, &mut received);
        }
        assert_eq!(received, whole[..written], "round {round}");
        let is_there =
            |event: &Event| matches!(event, Event::Migrated { socket: to, .. } if *to == socket);
        assert!(pair.client_events.iter().any(is_there), "round {round}: {:?}", pair.client_events);
    }
    assert_eq!(written, whole.len());
    let statistics = pair.client().statistics();
    assert_eq!(statistics.probe_timeouts, 0, "{statistics:?}");
}
