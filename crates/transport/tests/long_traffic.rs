//! Constant use for many lifetimes: tokens, connection IDs, paths and keys that are renewed all the time.

mod support;

use clearway_transport::{Event, SocketIndex};
use clearway_wire::Direction;
use support::ids::Rotating;
use support::{
    Door, Pair, Route, SECOND_SOCKET, address, delayed, milliseconds, pattern, quiet, seconds, tls,
};

const DELAY: u64 = 10;

/// A client that returns nine times in each lifetime of a token always has one that is valid, and never needs a Retry.
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
        pair.client().close(now, clearway_wire::VarInt::ZERO, b"");
        pair.run_for(lifetime / 9);
        pair.reconnect(token.expect("a token"));
    }
}

/// The client moves to and fro, the server's connection IDs and both ends' keys are replaced, and data flows all the time.
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
