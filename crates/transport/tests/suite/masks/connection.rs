//! Operations of a connection: datagrams (RFC 9221), migration and rebinding (RFC 9000 §9), key
//! update (RFC 9001 §6), replacement of connection IDs (RFC 9000 §5.1.2) and closing after the last
//! stream (§10.2).

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clearway_network::{Rebind, Way};
use clearway_transport::{
    ConnectionError, DatagramOutcome, Event, RandomIds, ReadError, ReadOutcome, Side, SocketIndex,
    TransportConfig,
};
use clearway_wire::{Direction, StreamId, VarInt};

use super::{REMOTE_IDS, Sent, bound, every_mask, lose, quick_masks, with_masks};
use crate::support::ids::Rotating;
use crate::support::{
    CLIENT, Pair, Route, SECOND_SOCKET, address, delayed, milliseconds, pattern, quiet, seconds,
    tls,
};

const OTHER_IP: &str = "10.0.7.1:50000";
const OTHER_PORT: &str = "10.0.0.1:51000";

/// Both endpoints send an unreliable datagram: each endpoint learns once whether its datagram was
/// lost, and neither datagram is delivered twice (RFC 9221 §5.2).
fn datagrams(mask: u32) {
    let config = quiet()
        .to_builder()
        .max_datagram_frame_size(Some(65_535))
        .datagram_notices(true)
        .build()
        .unwrap();
    let mut pair = established(Pair::with(delayed(10, 1), config.clone(), config));
    lose(&mut pair, mask);
    let ids = [
        pair.client().send_datagram(Bytes::from_static(b"up")).unwrap(),
        pair.server().send_datagram(Bytes::from_static(b"down")).unwrap(),
    ];
    let outcomes = |pair: &Pair| {
        [(&pair.client_events, ids[0]), (&pair.server_events, ids[1])].map(|(events, sent)| {
            let outcomes = events.iter().filter_map(|event| match event {
                Event::DatagramSettled { id, outcome } if *id == sent => Some(*outcome),
                _ => None,
            });
            outcomes.collect::<Vec<_>>()
        })
    };
    let is_done = |pair: &mut Pair| outcomes(pair).iter().all(|outcomes| !outcomes.is_empty());
    assert!(pair.run_until(bound(mask), is_done), "{:?}", outcomes(&pair));
    pair.run_for(seconds(1) + bound(mask));
    let received = [
        std::iter::from_fn(|| pair.server().receive_datagram()).collect::<Vec<_>>(),
        std::iter::from_fn(|| pair.client().receive_datagram()).collect::<Vec<_>>(),
    ];
    for ((outcomes, received), text) in outcomes(&pair).iter().zip(&received).zip(["up", "down"]) {
        // A datagram may be late and may have been reported as lost before.
        let was_acknowledged = outcomes.contains(&DatagramOutcome::Acknowledged);
        assert!(outcomes.len() == 1 || was_acknowledged && outcomes.len() == 2, "{outcomes:?}");
        assert!(received.len() <= 1 && received.iter().all(|it| it == text), "{received:?}");
        assert!(!was_acknowledged || received.len() == 1, "{outcomes:?} {received:?}");
    }
    assert_idle(&mut pair);
}

/// Returns the pair once the handshake and everything that it triggers are complete.
fn established(mut pair: Pair) -> Pair {
    pair.establish();
    pair.run_for(seconds(1));
    pair.client_events.clear();
    pair.server_events.clear();
    pair
}

/// Checks that both endpoints are idle: nothing is in flight, everything has arrived, and each has
/// as many connection IDs as it keeps.
fn assert_idle(pair: &mut Pair) {
    let ends = [pair.client().statistics(), pair.server().statistics()];
    assert!(ends.iter().all(|statistics| statistics.bytes_in_flight == 0), "{ends:?}");
    assert!(!pair.client().is_closed() && !pair.server().is_closed());
    pair.watch.check_all_arrived();
    assert_eq!([Side::Client, Side::Server].map(|end| pair.watch.remote_ids(end)), [REMOTE_IDS; 2]);
}

/// The client moves to another socket. In the end, both endpoints use the new path, or the client
/// reports that it stays, and streams continue in both cases (RFC 9000 §9).
fn migration(client: &str, mask: u32) {
    let mut pair = Pair::new(delayed(10, 1));
    pair.routes.push(Route::second_socket(client, delayed(10, 2)));
    let mut pair = established(pair);
    lose(&mut pair, mask);
    let now = pair.now;
    pair.client().migrate(now, SECOND_SOCKET, Some(address(client).ip())).unwrap();
    // The probe timeout of a new path begins at one second (RFC 9002 §6.2.2); two of them expire in
    // succession, or three after many losses.
    let limit = bound(mask) + seconds(if mask.count_ones() < 5 { 3 } else { 7 });
    let has_moved = |pair: &Pair| {
        pair.client_events.iter().find_map(|event| match event {
            Event::Migrated { .. } => Some(true),
            Event::MigrationFailed { .. } => Some(false),
            _ => None,
        })
    };
    assert!(pair.run_until(limit, |pair| has_moved(pair).is_some()), "{:?}", pair.client_events);
    assert!(has_moved(&pair) == Some(true) || mask.count_ones() >= 4, "{:?}", pair.client_events);
    transfer(&mut pair, limit);
    let expected = if has_moved(&pair) == Some(true) { client } else { CLIENT };
    let moved = |pair: &mut Pair| pair.server().remote_address() == address(expected);
    assert!(moved(&mut pair), "the server is at {}", pair.server().remote_address());
    pair.filter = None;
    pair.run_for(seconds(10));
    let left = pair.client_events.iter().filter(|event| matches!(event, Event::PathLeft { .. }));
    assert_eq!(left.count(), usize::from(expected == client), "{:?}", pair.client_events);
    assert!(moved(&mut pair));
    assert_idle(&mut pair);
    // More migrations than there are connection IDs: each used ID is replaced (§9.5, §5.1.1).
    let mut is_second = expected == client;
    for _ in 0..=REMOTE_IDS {
        is_second = !is_second;
        let (socket, at) = match is_second {
            true => (SECOND_SOCKET, address(client)),
            false => (SocketIndex::default(), address(CLIENT)),
        };
        pair.client_events.clear();
        let now = pair.now;
        pair.client().migrate(now, socket, Some(at.ip())).unwrap();
        assert!(pair.run_until(seconds(1), |pair| has_moved(pair) == Some(true)));
        pair.run_for(seconds(5));
        assert_eq!(pair.server().remote_address(), at);
        assert_idle(&mut pair);
    }
}

/// A NAT assigns the client another port or address, which only the server notices (RFC 9000 §9.3).
fn rebinding(changes_address: bool, mask: u32) {
    let mut link = delayed(10, 1);
    link.rebind = Some(Rebind { first: milliseconds(2500), every: None, address: changes_address });
    let mut pair = established(Pair::new(link));
    let at = milliseconds(2600);
    pair.run_for(at);
    lose(&mut pair, mask);
    transfer(&mut pair, bound(mask) + seconds(1));
    let bindings = pair.bindings.len();
    assert_eq!(bindings, 2, "the NAT has changed the address");
    let last = pair.bindings[1];
    pair.filter = None;
    pair.run_for(seconds(10));
    assert_eq!(pair.server().remote_address(), last);
    assert_idle(&mut pair);
}

/// Transfers a stream from the client and its response, each a few datagrams long.
fn transfer(pair: &mut Pair, limit: Duration) {
    let took = pair.download_more(5000, limit);
    assert!(took.is_some(), "{:?} {:?}", pair.client_events, pair.server_events);
}

/// One or both endpoints update the keys: both have the new keys, no packet is undecryptable, and
/// another update is possible (RFC 9001 §6.1).
fn key_update(ends: [bool; 2], mask: u32) {
    let mut pair = established(Pair::new(delayed(10, 1)));
    lose(&mut pair, mask);
    for (updates, is_client) in ends.into_iter().zip([true, false]) {
        let now = pair.now;
        let end = if is_client { pair.client() } else { pair.server() };
        assert!(!updates || end.update_keys(now));
        end.ping();
    }
    transfer(&mut pair, bound(mask));
    pair.filter = None;
    pair.run_for(seconds(5));
    let [client, server] = [pair.client().statistics(), pair.server().statistics()];
    assert_eq!((client.key_updates, server.key_updates), (1, 1));
    assert_eq!((client.authentication_failures, server.authentication_failures), (0, 0));
    // §6.1: a packet in the new key phase has to be acknowledged before the next update.
    pair.client().ping();
    pair.run_for(seconds(1));
    let now = pair.now;
    assert!(pair.client().update_keys(now), "another update is possible");
    transfer(&mut pair, seconds(1));
    pair.run_for(seconds(1));
    assert_idle(&mut pair);
}

/// The server replaces its connection IDs: the client uses new ones and retires the old ones, and
/// no packet is unroutable (RFC 9000 §5.1.2).
fn rotation(mask: u32) {
    let ids = Rotating::new();
    let configs = [quiet(), quiet()];
    let pair = Pair::with_ids(delayed(10, 1), configs, tls(), [Arc::new(RandomIds), ids.clone()]);
    let mut pair = established(pair);
    lose(&mut pair, mask);
    ids.rotate();
    assert!(pair.server().replace_connection_ids());
    transfer(&mut pair, bound(mask));
    pair.run_for(bound(mask) + seconds(1));
    check_rotation(&mut pair, 1);
    // Another replacement is possible, since this one was acknowledged completely.
    pair.filter = None;
    ids.rotate();
    assert!(pair.server().replace_connection_ids());
    pair.run_for(seconds(1));
    check_rotation(&mut pair, 2);
}

/// Checks that the client's packets have IDs of this configuration, and that the server has no more
/// IDs to send.
fn check_rotation(pair: &mut Pair, configuration: u8) {
    let used = Rc::new(RefCell::new(Vec::new()));
    let record = used.clone();
    pair.filter = Some(Box::new(move |_, way, datagram| {
        if way == Way::ToServer {
            record.borrow_mut().push(datagram[1]);
        }
        true
    }));
    transfer(pair, seconds(1));
    assert!(used.borrow().iter().all(|used| *used == configuration), "{used:?}");
    assert!(!pair.server().replace_connection_ids(), "all replacements were acknowledged");
    assert_eq!(pair.unroutable, 0);
    pair.run_for(seconds(1));
    assert_idle(pair);
}

/// Reads everything that the server has received on `stream` by the time the connection has ended.
fn read_at_last(pair: &mut Pair, stream: StreamId) -> Vec<u8> {
    let (now, mut received) = (pair.now, Vec::new());
    loop {
        match pair.server().read(now, stream, usize::MAX) {
            Ok(ReadOutcome::Data(data)) => received.extend_from_slice(&data),
            Ok(ReadOutcome::Finished | ReadOutcome::Blocked) | Err(ReadError::UnknownStream) => {
                return received;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// The idle timeout, which is longer than the probe timeouts of ten consecutive losses.
const IDLE: Duration = Duration::from_secs(120);

fn idle_config() -> TransportConfig {
    quiet().to_builder().max_idle_timeout(Some(IDLE)).build().unwrap()
}

fn closed(events: &[Event]) -> Option<&ConnectionError> {
    events.iter().find_map(|event| match event {
        Event::Closed(error) => Some(error),
        _ => None,
    })
}

/// The client closes when everything it sent is acknowledged. The server then has all the data, and
/// learns of the close unless every CONNECTION_CLOSE is lost, in which case its idle timeout ends
/// the connection (RFC 9000 §10.1, §10.2).
fn graceful_close(mask: u32) {
    let mut pair = established(Pair::with(delayed(10, 1), idle_config(), idle_config()));
    let sent = lose(&mut pair, mask);
    let stream = pair.client().open(Direction::Unidirectional).unwrap();
    pair.client().write(stream, pattern(2000)).unwrap();
    pair.client().finish(stream).unwrap();
    let finished = Event::Finished(stream);
    let is_finished = |pair: &mut Pair| pair.client_events.contains(&finished);
    assert!(pair.run_until(bound(mask), is_finished), "{:?}", pair.client_events);
    close(&mut pair, stream, &sent, mask);
}

/// The client closes immediately, without waiting for its data to be acknowledged.
fn abrupt_close(mask: u32) {
    let mut pair = established(Pair::with(delayed(10, 1), idle_config(), idle_config()));
    let sent = lose(&mut pair, mask);
    let stream = pair.server().open(Direction::Unidirectional).unwrap();
    pair.server().write(stream, pattern(5000)).unwrap();
    pair.server().finish(stream).unwrap();
    pair.run_for(milliseconds(1));
    close(&mut pair, stream, &sent, mask);
}

fn close(pair: &mut Pair, stream: StreamId, sent: &Sent, mask: u32) {
    let before = sent.to_server.get();
    let (now, code) = (pair.now, VarInt::from_u32(77));
    pair.client().close(now, code, b"done");
    pair.settle();
    assert_eq!(closed(&pair.client_events), Some(&ConnectionError::LocallyClosed));
    // The client's closing state lasts three probe timeouts, and it keeps its state until then.
    pair.run_for(milliseconds(60));
    assert!(!pair.client().is_drained());
    pair.run_for(milliseconds(400));
    assert!(pair.client.connection(pair.handle).is_none_or(|client| client.is_drained()));
    let limit = bound(mask) + IDLE;
    let is_closed = |pair: &mut Pair| closed(&pair.server_events).is_some();
    assert!(pair.run_until(limit, is_closed), "{:?}", pair.server_events);
    let expected = match sent.to_server.get() > before {
        true => ConnectionError::ApplicationClosed {
            error_code: code,
            reason: Bytes::from_static(b"done"),
        },
        false => ConnectionError::TimedOut,
    };
    assert_eq!(closed(&pair.server_events), Some(&expected));
    if pair.server().accept(Direction::Unidirectional) == Some(stream) {
        assert!(read_at_last(pair, stream) == pattern(2000), "what was acknowledged is readable");
    }
}

fn all(masks: &[u32]) {
    with_masks("datagrams", masks, datagrams);
    for client in [OTHER_IP, OTHER_PORT] {
        with_masks(&format!("migration to {client}"), masks, |mask| migration(client, mask));
    }
    for changes_address in [false, true] {
        with_masks(&format!("rebinding ({changes_address})"), masks, |mask| {
            rebinding(changes_address, mask);
        });
    }
    for ends in [[true, false], [false, true], [true, true]] {
        with_masks(&format!("key update {ends:?}"), masks, |mask| key_update(ends, mask));
    }
    with_masks("rotation", masks, rotation);
    with_masks("graceful close", masks, graceful_close);
    with_masks("abrupt close", masks, abrupt_close);
}

#[test]
fn an_operation_of_a_connection_survives_losses() {
    all(&quick_masks());
}

#[test]
#[ignore = "1,024 masks for each operation: cargo test --release -p clearway-transport --test suite masks -- --ignored"]
fn operations_of_a_connection_survive_every_loss() {
    all(&every_mask());
}
