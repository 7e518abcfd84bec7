//! How connections end (RFC 9000 §10).

use std::time::Duration;

use crate::support::{
    CLIENT, Filter, Pair, SERVER, address, delayed, large_tls, milliseconds, quiet, seconds,
};
use bytes::Bytes;
use clearway_network::Way;
use clearway_transport::{
    Arrival, Connection, ConnectionError, EcnCodepoint, Event, ReadOutcome, Received, Side,
    SocketIndex, TransportConfig,
};
use clearway_wire::{Direction, TransportErrorCode, VarInt};

const CODE: VarInt = VarInt::from_u32(0x77);

fn closed(events: &[Event]) -> Option<&ConnectionError> {
    let mut errors = events.iter().filter_map(|event| match event {
        Event::Closed(error) => Some(error),
        _ => None,
    });
    let first = errors.next();
    assert!(errors.next().is_none(), "more than one Closed event");
    first
}

/// A datagram received from `remote`.
fn arrival(remote: &str) -> Arrival {
    Arrival {
        remote: address(remote),
        socket: SocketIndex::default(),
        local_ip: None,
        ecn: EcnCodepoint::NotEct,
    }
}

fn by_application() -> ConnectionError {
    ConnectionError::ApplicationClosed { error_code: CODE, reason: Bytes::from_static(b"bye") }
}

fn hidden_by_application_error() -> ConnectionError {
    ConnectionError::ConnectionClosed {
        error_code: TransportErrorCode::APPLICATION_ERROR,
        frame_type: 0,
        reason: Bytes::new(),
    }
}

#[test]
fn the_peer_receives_the_application_s_error_code_and_reason() {
    for side in [Side::Client, Side::Server] {
        let mut pair = Pair::new(delayed(10, 1));
        pair.establish();
        let now = pair.now;
        let closer = if side.is_client() { pair.client() } else { pair.server() };
        assert_eq!(closer.close_reason(), None);
        closer.close(now, CODE, b"bye");
        assert_eq!(closer.close_reason(), Some(&ConnectionError::LocallyClosed));
        pair.run_for(milliseconds(10));
        pair.settle();
        let (own, other) = if side.is_client() {
            (&pair.client_events, &pair.server_events)
        } else {
            (&pair.server_events, &pair.client_events)
        };
        assert_eq!(closed(own), Some(&ConnectionError::LocallyClosed));
        assert_eq!(closed(other), Some(&by_application()));
    }
}

/// §10.2.3: before the handshake is complete, anyone on the path can read the packets, so the
/// application's error code and reason are replaced by APPLICATION_ERROR. An ACK frame in the same
/// packet leaves room for CONNECTION_CLOSE, regardless of the number of ranges and the length of
/// the reason.
#[test]
fn a_close_acknowledges_what_arrived_and_fits() {
    let mut pair = Pair::new(delayed(10, 1));
    pair.establish();
    pair.run_until(seconds(1), |_| false);
    let mut arrived = 0;
    pair.filter = Some(Box::new(move |_, way, _| {
        arrived += usize::from(way == Way::ToClient);
        way == Way::ToClient && arrived % 2 == 0
    }));
    let stream = pair.server().open(Direction::Unidirectional).unwrap();
    pair.server().write(stream, Bytes::from_static(&[1; 200_000])).unwrap();
    pair.run_until(milliseconds(300), |_| false);
    let before = pair.server().statistics().bytes_in_flight;
    pair.filter = None;
    let now = pair.now;
    pair.client().close(now, CODE, &[b'x'; 512]);
    pair.run_until(milliseconds(30), |_| false);
    let reason = Bytes::from_static(&[b'x'; 512]);
    let expected = ConnectionError::ApplicationClosed { error_code: CODE, reason };
    assert_eq!(closed(&pair.server_events), Some(&expected));
    let after = pair.server().statistics().bytes_in_flight;
    assert!(before > 10_000 && after < before, "{before} {after}");
}

#[test]
fn application_error_and_reason_are_hidden_in_initial_packets() {
    let mut pair = Pair::new(delayed(10, 1));
    pair.run_for(milliseconds(5));
    let now = pair.now;
    pair.client().close(now, CODE, b"a secret reason");
    pair.filter = Some(Box::new(|_, _, payload| {
        assert!(payload.len() >= 1200, "a client expands datagrams with Initial packets");
        true
    }));
    pair.run_for(milliseconds(20));
    assert_eq!(closed(&pair.server_events), Some(&hidden_by_application_error()));
}

/// §10.2.3: a client whose handshake is complete cannot know whether the server's handshake is
/// complete, and retransmits its last messages together with the close. At most one datagram is
/// lost: the one with the Finished message, or the next one, which contains both.
#[test]
fn a_server_has_the_connection_of_a_client_that_closes_before_its_finished_message_arrives() {
    for closes_before_flush in [false, true] {
        for lost in 0..3 {
            let mut pair = Pair::new(delayed(10, 1));
            pair.run_until(seconds(1), |pair| pair.client_events.contains(&Event::Connected));
            let mut number = 0;
            pair.filter = Some(Box::new(move |_, way, _| {
                number += usize::from(way == Way::ToServer);
                way == Way::ToClient || number != lost
            }));
            if !closes_before_flush {
                pair.flush();
            }
            let now = pair.now;
            pair.client().close(now, CODE, b"bye");
            pair.run_for(seconds(10));
            let context = format!("closes before flush: {closes_before_flush}, lost: {lost}");
            assert!(pair.server_events.contains(&Event::Connected), "{context}");
            assert_eq!(closed(&pair.server_events), Some(&by_application()), "{context}");
        }
    }
}

/// Data received before a close is reported before it, even if both arrived in one batch.
#[test]
fn what_came_with_a_close_is_reported_before_it() {
    let mut pair = Pair::new(delayed(10, 1));
    pair.establish();
    pair.run_for(seconds(1));
    let (now, client, server) = (pair.now, pair.handle, pair.accepted[0]);
    let mut buffer = vec![0; 4000];
    let stream = pair.client().open(Direction::Unidirectional).unwrap();
    pair.client().write_slice(stream, b"message").unwrap();
    pair.client().finish(stream).unwrap();
    let transmit = pair.client.transmit(client, now, &mut buffer, 1).unwrap();
    pair.client.transmitted(client, now);
    let mut datagrams = vec![buffer[..transmit.size].to_vec()];
    pair.client().close(now, CODE, b"bye");
    let transmit = pair.client.transmit(client, now, &mut buffer, 1).unwrap();
    pair.client.transmitted(client, now);
    datagrams.push(buffer[..transmit.size].to_vec());
    for datagram in &mut datagrams {
        let _ = pair.server.receive(now, arrival(CLIENT), datagram);
    }
    let connection = pair.server.connection_mut(server).unwrap();
    let events: Vec<Event> = core::iter::from_fn(|| connection.next_event()).collect();
    assert_eq!(events.first(), Some(&Event::Opened(Direction::Unidirectional)), "{events:?}");
    assert_eq!(events.last(), Some(&Event::Closed(by_application())), "{events:?}");
    let accepted = connection.accept(Direction::Unidirectional).unwrap();
    let read = connection.read_ahead(accepted, usize::MAX).unwrap();
    assert_eq!(read, ReadOutcome::Data(Bytes::from_static(b"message")));
}

#[test]
fn a_close_right_after_the_handshake_keeps_its_code() {
    let mut pair = Pair::new(delayed(10, 1));
    pair.run_until(seconds(1), |pair| pair.client_events.contains(&Event::Connected));
    pair.flush();
    let now = pair.now;
    pair.client().close(now, CODE, b"bye");
    pair.run_for(seconds(1));
    assert_eq!(closed(&pair.server_events), Some(&by_application()));
}

/// If an endpoint closes at any time during the handshake, the peer receives the close and does not
/// wait for a timeout.
#[test]
fn a_close_at_any_moment_of_the_handshake_reaches_the_peer() {
    for side in [Side::Client, Side::Server] {
        for at in 0..130 {
            let mut pair = Pair::with_tls(delayed(10, 1), quiet(), quiet(), large_tls());
            pair.run_for(milliseconds(at));
            if side.is_server() && pair.accepted.is_empty() {
                continue;
            }
            let now = pair.now;
            let closer = if side.is_client() { pair.client() } else { pair.server() };
            closer.close(now, CODE, b"bye");
            pair.run_for(seconds(15));
            let other = if side.is_client() { &pair.server_events } else { &pair.client_events };
            let error = closed(other);
            assert!(
                error == Some(&hidden_by_application_error()) || error == Some(&by_application()),
                "{side:?} at {at} ms: {error:?}"
            );
        }
    }
}

/// §10.2: the closing and draining states last three times the probe timeout; the connection state
/// is then discarded.
#[test]
fn closing_and_draining_last_three_probe_timeouts() {
    let mut pair = Pair::new(delayed(10, 1));
    pair.establish();
    let now = pair.now;
    let probe_timeout = |connection: &Connection| {
        let statistics = connection.statistics();
        let variation = (4 * statistics.rtt_variation.unwrap()).max(milliseconds(1));
        statistics.smoothed_rtt.unwrap() + variation + milliseconds(25)
    };
    let client = probe_timeout(pair.client());
    pair.client().close(now, CODE, b"bye");
    pair.settle();
    let closed = now + 3 * client;
    assert_eq!(pair.client().deadline(), Some(closed));
    pair.run_for(milliseconds(10));
    pair.settle();
    // The close acknowledges the end of the handshake, which yields another RTT sample.
    let drained = now + milliseconds(10) + 3 * probe_timeout(pair.server());
    assert!(pair.server().is_closed());
    assert_eq!(pair.server().deadline(), Some(drained), "draining");
    let nanosecond = Duration::from_nanos(1);
    let mut ends = [(closed, true), (drained, false)];
    ends.sort_unstable();
    for (end, is_client) in ends {
        pair.run_for(end.saturating_since(pair.now + nanosecond));
        let is_drained = |pair: &mut Pair| {
            if is_client { pair.client().is_drained() } else { pair.server().is_drained() }
        };
        assert!(!is_drained(&mut pair));
        pair.run_for(nanosecond);
        assert!(is_drained(&mut pair));
    }
    let (client, server) = (pair.handle, pair.accepted[0]);
    assert!(pair.client.release(client, pair.now).is_some() && pair.client.remove_released(client));
    assert!(pair.server.release(server, pair.now).is_some() && pair.server.remove_released(server));
    assert_eq!((pair.client.connection_count(), pair.server.connection_count()), (0, 0));
}

/// §10.2: a draining connection only has to keep its connection IDs, so that late packets do not
/// trigger a stateless reset.
#[test]
fn a_draining_connection_that_was_released_is_known_until_it_ends() {
    let mut pair = Pair::new(delayed(10, 1));
    pair.establish();
    let (client, server) = (pair.handle, pair.accepted[0]);
    assert!(pair.server.release(server, pair.now).is_none(), "it is in use");
    let mut buffer = vec![0; 4000];
    pair.client().ping();
    let transmit = pair.client.transmit(client, pair.now, &mut buffer, 1).unwrap();
    let late = &buffer[..transmit.size];
    pair.client.transmitted(client, pair.now);
    let now = pair.now;
    pair.client().close(now, CODE, b"bye");
    pair.run_for(milliseconds(10));
    let (until, statistics) = (pair.server().deadline().unwrap(), pair.server().statistics());

    let released = pair.server.release(server, pair.now).unwrap();
    assert_eq!(released.statistics(), statistics);
    assert!(pair.server.connection(server).is_none());
    assert!(pair.server.release(server, pair.now).is_none(), "once");
    let nanosecond = Duration::from_nanos(1);
    let arrival = arrival(CLIENT);
    for wait in [Duration::ZERO, until.saturating_since(pair.now) - nanosecond] {
        let now = pair.now + wait;
        assert_eq!(pair.server.deadlines(server, now).own, Some(until));
        pair.server.on_deadline(server, now, now);
        assert!(!pair.server.remove_released(server));
        assert!(matches!(pair.server.receive(now, arrival, &mut late.to_vec()), Received::Ended));
        assert!(pair.server.next_reply().is_none() && pair.server.totals().datagrams_unknown == 0);
    }
    pair.server.on_deadline(server, until, until);
    assert_eq!(pair.server.deadlines(server, until), Default::default());
    assert!(pair.server.remove_released(server));
    assert_eq!(pair.server.connection_count(), 0);
    assert!(matches!(pair.server.receive(until, arrival, &mut late.to_vec()), Received::Unknown));
    assert_eq!(pair.server.totals().datagrams_unknown, 1);
}

/// §10.2.1: in the closing state an endpoint responds to fewer and fewer packets; §10.2.2: in the
/// draining state to none.
#[test]
fn a_closing_endpoint_responds_rarely_and_a_draining_one_never() {
    let mut pair = Pair::new(delayed(10, 1));
    pair.establish();
    let now = pair.now;
    // Packets from the server that the client has not received yet.
    let mut late = Vec::new();
    let mut buffer = vec![0; 4000];
    let server = pair.accepted[0];
    for _ in 0..64 {
        pair.server().ping();
        let transmit = pair.server.transmit(server, now, &mut buffer, 1).unwrap();
        pair.server.transmitted(server, now);
        late.push(buffer[..transmit.size].to_vec());
    }
    pair.client().close(now, CODE, b"bye");
    let before = pair.watch.sent(Side::Client).len();
    for datagram in &mut late {
        pair.deliver(Way::ToClient, address(SERVER), datagram);
        pair.flush();
    }
    let answers = pair.watch.sent(Side::Client).len() - before;
    assert_eq!(answers, 7, "to packets 1, 2, 4 … 64");

    pair.run_for(milliseconds(10));
    assert!(pair.server().is_closed());
    let before = pair.watch.sent(Side::Server).len();
    pair.server().ping();
    pair.settle();
    assert_eq!(pair.watch.sent(Side::Server).len(), before);
}

/// §10.2.1: the closing state only needs the last datagram, in order to repeat it.
#[test]
fn a_closing_connection_that_was_released_repeats_its_close() {
    let mut pair = Pair::new(delayed(10, 1));
    pair.establish();
    let (now, client, server) = (pair.now, pair.handle, pair.accepted[0]);
    let mut buffer = vec![0; 4000];
    let mut late = Vec::new();
    for _ in 0..64 {
        pair.server().ping();
        let transmit = pair.server.transmit(server, now, &mut buffer, 1).unwrap();
        pair.server.transmitted(server, now);
        late.push(buffer[..transmit.size].to_vec());
    }
    pair.client().close(now, CODE, b"bye");
    assert!(pair.client.release(client, now).is_none(), "the peer has to be notified first");
    let transmit = pair.client.transmit(client, now, &mut buffer, 1).unwrap();
    let close = buffer[..transmit.size].to_vec();
    pair.client.transmitted(client, now);
    let until = pair.client().deadline().unwrap();
    assert!(pair.client.release(client, now).is_some());
    let mut answers = 0;
    for datagram in &mut late {
        assert!(matches!(pair.client.receive(now, arrival(SERVER), datagram), Received::Ended));
        while let Some((to, answer)) = pair.client.next_reply() {
            assert_eq!((to, &answer), (transmit, &close));
            answers += 1;
        }
    }
    assert_eq!(answers, 7, "to packets 1, 2, 4 … 64");
    assert_eq!(pair.client.deadlines(client, now).own, Some(until));
    pair.client.on_deadline(client, until, until);
    assert!(pair.client.remove_released(client));
    assert_eq!(pair.client.connection_count(), 0);

    let received = pair.server.receive(now, arrival(CLIENT), &mut close.clone());
    assert!(matches!(received, Received::Connection { .. }));
    assert_eq!(pair.server().close_reason(), Some(&by_application()));
}

/// §10.3.1: a stateless reset is recognized as belonging to the connection, released or not: it is
/// not an unknown datagram, and nothing more is sent.
#[test]
fn a_connection_that_was_released_knows_its_stateless_reset() {
    let mut pair = Pair::new(delayed(10, 1));
    pair.establish();
    pair.run_for(seconds(1));
    let (now, client) = (pair.now, pair.handle);
    let mut buffer = vec![0; 4000];
    pair.server().ping();
    let late = pair.server.transmit(pair.accepted[0], now, &mut buffer, 1).unwrap();
    let mut late = buffer[..late.size].to_vec();
    pair.restart_server();
    let stream = pair.client().open(Direction::Bidirectional).unwrap();
    pair.client().write_slice(stream, &[7; 100]).unwrap();
    let request = pair.client.transmit(client, now, &mut buffer, 1).unwrap();
    pair.client.transmitted(client, now);
    let _ = pair.server.receive(now, arrival(CLIENT), &mut buffer[..request.size]);
    let (_, reset) = pair.server.next_reply().unwrap();
    pair.client().close(now, CODE, b"bye");
    assert!(pair.client.transmit(client, now, &mut buffer, 1).is_some());
    pair.client.transmitted(client, now);
    let until = pair.client().deadline().unwrap();
    assert!(pair.client.release(client, now).is_some());

    for datagram in [&mut reset.clone(), &mut late] {
        assert!(matches!(pair.client.receive(now, arrival(SERVER), datagram), Received::Ended));
        assert!(pair.client.next_reply().is_none() && pair.client.totals().datagrams_unknown == 0);
    }
    pair.client.on_deadline(client, until, until);
    assert!(pair.client.remove_released(client));
    let _ = pair.client.receive(until, arrival(SERVER), &mut reset.clone());
    assert_eq!(pair.client.totals().datagrams_unknown, 1);
}

/// §8.1: until the new address of a migrated client is validated, each datagram sent to it counts
/// toward the limit.
#[test]
fn a_connection_to_an_address_that_is_not_validated_is_not_released() {
    for moves in [false, true] {
        let mut pair = Pair::new(delayed(10, 1));
        pair.establish();
        pair.run_for(seconds(1));
        let (now, client, server) = (pair.now, pair.handle, pair.accepted[0]);
        let mut buffer = vec![0; 4000];
        pair.client().ping();
        let ping = pair.client.transmit(client, now, &mut buffer, 1).unwrap();
        let from = if moves { "10.0.0.9:50000" } else { CLIENT };
        let _ = pair.server.receive(now, arrival(from), &mut buffer[..ping.size]);
        assert_eq!(pair.server().remote_address(), address(from));
        pair.server().close(now, CODE, b"bye");
        while pair.server.transmit(server, now, &mut buffer, 1).is_some() {
            pair.server.transmitted(server, now);
        }
        assert_eq!(pair.server.release(server, now).is_some(), !moves);
    }
}

/// Until the handshake is confirmed, CONNECTION_CLOSE is sent in a packet of each encryption level
/// for which the peer may have keys (§10.2.3).
#[test]
fn a_connection_that_is_closed_during_the_handshake_is_not_released() {
    let mut pair = Pair::new(delayed(10, 1));
    let (now, client) = (pair.now, pair.handle);
    pair.client().close(now, CODE, b"bye");
    pair.settle();
    assert!(pair.client().is_closed());
    assert!(pair.client.release(client, now).is_none());
}

fn idle(client: u64, server: u64) -> (TransportConfig, TransportConfig) {
    let timeout = |of: u64| (of > 0).then(|| seconds(of));
    let client = quiet().to_builder().max_idle_timeout(timeout(client)).build().unwrap();
    let server = quiet().to_builder().max_idle_timeout(timeout(server)).build().unwrap();
    (client, server)
}

/// §10.1: the smaller of the two idle timeouts applies to both endpoints; each closes silently.
#[test]
fn the_smaller_idle_timeout_applies_to_both() {
    for (client, server, smaller) in [(5, 20, 5), (20, 5, 5), (0, 5, 5), (5, 0, 5)] {
        let (client, server) = idle(client, server);
        let mut pair = Pair::with(delayed(10, 1), client, server);
        pair.establish();
        pair.run_for(milliseconds(100));
        let sent = pair.watch.sent(Side::Client).len() + pair.watch.sent(Side::Server).len();
        let last = pair.watch.received(Side::Client).last().unwrap().at;
        let early = seconds(smaller).saturating_sub(milliseconds(100));
        pair.run_for((last + early).saturating_since(pair.now));
        assert_eq!((closed(&pair.client_events), closed(&pair.server_events)), (None, None));
        pair.run_for(milliseconds(200));
        assert_eq!(closed(&pair.client_events), Some(&ConnectionError::TimedOut));
        assert_eq!(closed(&pair.server_events), Some(&ConnectionError::TimedOut));
        let after = pair.watch.sent(Side::Client).len() + pair.watch.sent(Side::Server).len();
        assert_eq!(sent, after, "an idle timeout sends nothing");
    }
}

/// §10.1: the idle timeout restarts when a packet is received, and when the first ack-eliciting
/// packet after that is sent; later probes do not restart it.
#[test]
fn a_dead_peer_is_detected_within_the_idle_timeout() {
    let (client, server) = idle(30, 30);
    let mut pair = Pair::with(delayed(10, 1), client, server);
    pair.establish();
    pair.run_for(seconds(1));
    pair.filter = Some(Box::new(|_, _, _| false));
    let start = pair.now;
    pair.client().ping();
    pair.run_until(seconds(1000), |pair| pair.client().is_closed());
    assert_eq!(closed(&pair.client_events), Some(&ConnectionError::TimedOut));
    let took = pair.now.saturating_since(start);
    assert!(took >= seconds(30) && took < seconds(31), "{took:?}");
}

/// §10.1: the idle timeout is at least three times the probe timeout, so that a lost probe does not
/// end the connection.
#[test]
fn a_short_idle_timeout_leaves_room_for_probes() {
    let short = quiet().to_builder().max_idle_timeout(Some(milliseconds(10))).build().unwrap();
    let mut pair = Pair::with(delayed(100, 1), short.clone(), short);
    pair.establish();
    pair.client().ping();
    pair.run_for(milliseconds(300));
    assert_eq!(closed(&pair.client_events), None);
}

/// §10.1.2: keep-alive PINGs prevent the idle timeout at both endpoints.
#[test]
fn keep_alive_keeps_both_ends_alive() {
    let (client, server) = idle(10, 10);
    let client = client.to_builder().keep_alive_interval(Some(seconds(4))).build().unwrap();
    let mut pair = Pair::with(delayed(10, 1), client, server);
    pair.establish();
    let before = pair.watch.sent(Side::Client).len();
    pair.run_for(seconds(100));
    assert_eq!((closed(&pair.client_events), closed(&pair.server_events)), (None, None));
    let pings = pair.watch.sent(Side::Client).len() - before;
    assert!((20..40).contains(&pings), "{pings}");
}

#[test]
fn a_handshake_that_does_not_complete_times_out() {
    let config = quiet().to_builder().handshake_timeout(seconds(10)).build().unwrap();
    let mut pair = Pair::with(delayed(10, 1), config.clone(), config);
    let start = pair.now;
    pair.filter = Some(Box::new(|_, way, _| way == Way::ToServer));
    pair.run_until(seconds(100), |pair| pair.client().is_closed());
    assert_timed_out(&pair.client_events);
    assert_eq!(pair.now.saturating_since(start), seconds(10));
    pair.run_for(seconds(1));
    assert!(closed(&pair.server_events).is_some());
}

/// §10.1, §10.2.3: an endpoint that abandons a handshake before the idle timeout notifies its peer,
/// in the packet number spaces for which the peer has keys. If `of_client`, the client gives up
/// first.
fn giving_up(of_client: bool, filter: Filter) -> Pair {
    let config = |is_first: bool| {
        let timeout = seconds(if is_first { 3 } else { 60 });
        let config = quiet().to_builder().max_idle_timeout(Some(seconds(60)));
        config.handshake_timeout(timeout).build().unwrap()
    };
    let mut pair = Pair::with(delayed(10, 1), config(of_client), config(!of_client));
    let start = pair.now;
    pair.filter = Some(filter);
    pair.run_until(seconds(100), |pair| {
        let events = if of_client { &pair.client_events } else { &pair.server_events };
        closed(events).is_some()
    });
    let took = pair.now.saturating_since(start);
    assert!(took >= seconds(3) && took <= milliseconds(3100), "{took:?}");
    pair.filter = None;
    pair
}

fn assert_timed_out(events: &[Event]) {
    let error = closed(events);
    assert!(matches!(error, Some(ConnectionError::HandshakeTimedOut(_))), "{error:?}");
}

fn told_of_timeout(events: &[Event]) {
    let told = closed(events);
    let Some(ConnectionError::ConnectionClosed { error_code, reason, .. }) = told else {
        panic!("the peer is not notified: {told:?}")
    };
    assert_eq!(*error_code, TransportErrorCode::NO_ERROR);
    assert_eq!(&reason[..], b"the handshake did not complete in time");
}

/// A client without Handshake keys uses an Initial packet.
#[test]
fn a_client_that_gives_up_its_handshake_tells_the_server() {
    let mut pair = giving_up(true, Box::new(|_, way, _| way == Way::ToServer));
    assert_timed_out(&pair.client_events);
    pair.run_for(milliseconds(20));
    told_of_timeout(&pair.server_events);
}

/// The client has Handshake keys, because only the first datagram of the server's first flight
/// arrives.
#[test]
fn a_client_with_handshake_keys_that_gives_up_tells_the_server() {
    let config = |timeout: u64| {
        let config = quiet().to_builder().max_idle_timeout(Some(seconds(60)));
        config.handshake_timeout(seconds(timeout)).build().unwrap()
    };
    let mut pair = Pair::with_tls(delayed(10, 1), config(3), config(60), large_tls());
    let mut sent = [0, 0];
    pair.filter = Some(Box::new(move |_, way, _| {
        let sent = &mut sent[usize::from(way == Way::ToClient)];
        *sent += 1;
        *sent == 1
    }));
    pair.run_until(seconds(4), |pair| pair.client().is_closed());
    assert_timed_out(&pair.client_events);
    pair.filter = None;
    pair.run_for(milliseconds(20));
    told_of_timeout(&pair.server_events);
}

/// The client repeats its first packets, so the server may still send (§8.1).
#[test]
fn a_server_that_gives_up_a_handshake_tells_the_client() {
    let mut pair = giving_up(false, Box::new(|_, way, _| way == Way::ToServer));
    assert_timed_out(&pair.server_events);
    pair.run_for(seconds(10));
    told_of_timeout(&pair.client_events);
}

/// A client that has received no response from any server sends its CONNECTION_CLOSE, padded like
/// every Initial datagram (§14.1), and ends immediately, because no packets in transit could
/// require a response.
#[test]
fn an_attempt_that_nobody_answered_ends_at_once() {
    let mut pair = giving_up(true, Box::new(|_, _, _| false));
    let sent = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let sizes = sent.clone();
    pair.filter = Some(Box::new(move |_, _, datagram| {
        sizes.borrow_mut().push(datagram.len());
        false
    }));
    pair.run_for(milliseconds(10));
    assert_eq!(*sent.borrow(), [1200]);
    assert!(pair.client.connection(pair.handle).is_none_or(Connection::is_drained));
}

/// The closing state ends even if nothing reaches the peer.
#[test]
fn a_close_on_a_dead_path_still_ends() {
    let mut pair = Pair::new(delayed(10, 1));
    pair.establish();
    pair.filter = Some(Box::new(|_, _, _| false));
    let now = pair.now;
    pair.client().close(now, CODE, &[b'x'; 5000]);
    pair.run_for(Duration::from_secs(2));
    assert!(pair.client().is_drained());
}
