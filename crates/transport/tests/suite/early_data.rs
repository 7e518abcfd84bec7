//! Session resumption and early data (RFC 9001 §4.5, §4.6).

use std::sync::{Arc, Mutex};

use crate::support::early::{ByteStore, early_tls, early_tls_with, long_early_tls};
use crate::support::versions::{V1, V2, changing, client, closed, own_error, settings, staying};
use crate::support::{
    self, CLIENT, Door, Pair, SERVER, address, delayed, lossy, milliseconds, pattern, quiet,
    seconds,
};
use clearway_network::Way;
use clearway_transport::{DropReason, EarlyData, Event, SavedSession, Side, TicketKeys};
use clearway_wire::header::{HeaderKind, ProtectedHeader};
use clearway_wire::{Direction, PacketType, TransportErrorCode};

fn is_early(packet: &support::Packet) -> bool {
    packet.packet_type == PacketType::ZeroRtt
}

fn early_sent(pair: &Pair) -> usize {
    pair.watch.sent(Side::Client).iter().filter(|packet| is_early(packet)).count()
}

fn early_received(pair: &Pair) -> usize {
    pair.watch.received(Side::Server).iter().filter(|packet| is_early(packet)).count()
}

/// A request in the first flight is answered after one round trip instead of two.
#[test]
fn early_data_saves_a_round_trip() {
    let mut pair = Pair::with_session(delayed(10, 1));
    let streams = pair.begin_early(1, 100);
    assert_eq!(pair.client().early_data(), EarlyData::Offered);
    let outcome = pair.answer_all(&streams, 100, 500, seconds(10));
    assert_eq!(outcome.served, Some(milliseconds(10)));
    assert_eq!(outcome.answered, Some(milliseconds(20)));
    assert_eq!((outcome.requests, outcome.early_requests), (1, 1));
    assert!(pair.is_accepted() && pair.server_events.contains(&Event::EarlyDataAccepted));
    assert_eq!(early_sent(&pair), early_received(&pair));
    pair.establish();
    assert_eq!(pair.client().early_data(), EarlyData::Accepted);
    assert_eq!(pair.server().early_data(), EarlyData::Accepted);
    assert!(pair.download_more(50_000, seconds(10)).is_some(), "the connection continues");
}

/// RFC 9001 §5.6: a client sends no 0-RTT packet after its first 1-RTT packet, and 0-RTT packets
/// have no ACK, CRYPTO or other frames that RFC 9000 §12.5 forbids. The server responds in 1-RTT
/// packets.
#[test]
fn zero_rtt_packets_come_first_and_have_no_forbidden_frames() {
    for seed in 0..20 {
        let mut pair = Pair::with_session(lossy(10.0, 10, seed));
        let first = pair.watch.sent(Side::Client).len();
        let streams = pair.begin_early(3, 3000);
        assert!(pair.answer_all(&streams, 3000, 2000, seconds(100)).answered.is_some());
        let sent = pair.watch.sent(Side::Client).split_off(first);
        let first_application =
            sent.iter().position(|packet| packet.packet_type == PacketType::OneRtt);
        let last_early = sent.iter().rposition(is_early);
        assert!(last_early.is_some(), "seed {seed}");
        // All data may have been acknowledged before a 1-RTT packet was sent.
        assert!(first_application.is_none_or(|first| last_early < Some(first)), "seed {seed}");
        for packet in sent.iter().filter(|packet| is_early(packet)) {
            for forbidden in [0x02, 0x06, 0x07, 0x19, 0x1b, 0x1e] {
                assert!(!packet.has(forbidden), "{packet:?}");
            }
        }
        assert!(pair.watch.sent(Side::Server).iter().all(|packet| !is_early(packet)));
    }
}

/// The first flight may be lost partly or completely, and so may the response: nothing is processed
/// twice, and everything arrives.
#[test]
fn early_data_arrives_although_datagrams_are_lost() {
    for seed in 0..40 {
        let mut pair = Pair::with_session(lossy(30.0, 10, seed));
        let streams = pair.begin_early(3, 5000);
        let outcome = pair.answer_all(&streams, 5000, 4000, seconds(200));
        assert!(outcome.answered.is_some(), "seed {seed}: {:?}", pair.client_events);
        assert_eq!(outcome.requests, 3, "seed {seed}");
    }
}

/// A Retry does not reject early data: the 0-RTT packets are retransmitted (RFC 9000 §17.2.5.3).
#[test]
fn early_data_is_sent_again_after_a_retry() {
    let mut pair = Pair::with_session(delayed(10, 1));
    pair.door = Door::Retry;
    let streams = pair.begin_early(2, 3000);
    let outcome = pair.answer_all(&streams, 3000, 100, seconds(10));
    assert_eq!(outcome.answered, Some(milliseconds(40)), "one more round trip");
    assert!(pair.is_accepted());
    assert_eq!(outcome.early_requests, 2);
}

/// A Version Negotiation packet leads to another ClientHello, in a version for which there is no
/// session: everything is sent in 1-RTT packets.
#[test]
fn early_data_survives_a_version_negotiation() {
    let tls = early_tls();
    let both = client(V1, &[V2, V1]);
    let mut pair = Pair::with_session_of(delayed(10, 1), both, staying(&[V2, V1]), &tls);
    pair.change_server(staying(&[V2]));
    let streams = pair.begin_early(2, 3000);
    let outcome = pair.answer_all(&streams, 3000, 100, seconds(10));
    assert_eq!(outcome.answered, Some(milliseconds(60)));
    assert_eq!((outcome.requests, outcome.early_requests), (2, 0));
    assert_eq!(pair.client().early_data(), EarlyData::None);
}

/// A server that changes the version rejects early data, and the client sends it again (RFC 9369
/// §4.1).
#[test]
fn a_server_that_changes_the_version_rejects_early_data() {
    let tls = early_tls();
    let both = client(V1, &[V2, V1]);
    let mut pair = Pair::with_session_of(delayed(10, 1), both, staying(&[V2, V1]), &tls);
    pair.change_server(changing(&[V2, V1]));
    let streams = pair.begin_early(2, 3000);
    assert_eq!(pair.client().early_data(), EarlyData::Offered);
    let outcome = pair.answer_all(&streams, 3000, 100, seconds(10));
    assert_eq!(outcome.answered, Some(milliseconds(40)));
    assert!(pair.client_events.contains(&Event::EarlyDataRejected));
    assert_eq!((outcome.requests, outcome.early_requests), (2, 0));
    assert_eq!(pair.client().version(), V2);
}

/// A server that has forgotten the session, or no longer accepts early data, rejects it. Streams
/// are kept, and all their data is retransmitted within the limits of the new parameters, which may
/// be lower.
#[test]
fn rejected_early_data_is_sent_again_within_the_new_limits() {
    for seed in 0..10 {
        let link = if seed == 0 { delayed(10, 1) } else { lossy(20.0, 10, seed) };
        let mut pair = Pair::with_session(link);
        pair.change_server(settings(|it| {
            it.initial_stream_receive_window(1000)
                .initial_connection_receive_window(2500)
                .max_concurrent_bidirectional_streams(2)
        }));
        let streams = pair.begin_early(8, 4000);
        let outcome = pair.answer_all(&streams, 4000, 100, seconds(200));
        assert!(outcome.answered.is_some(), "seed {seed}: {:?}", pair.client_events);
        assert_eq!((outcome.requests, outcome.early_requests), (8, 0));
        let events = &pair.client_events;
        let rejected = events.iter().position(|event| *event == Event::EarlyDataRejected);
        assert!(
            rejected.is_some() && rejected < events.iter().position(|it| *it == Event::Connected)
        );
        assert_eq!(pair.client().early_data(), EarlyData::Rejected);
        assert_eq!(closed(&pair.server_events), None);
        assert!(early_received(&pair) == 0, "RFC 9001 §4.6.2: a server must not process them");
    }
}

/// Packets that the server could not decrypt are not a congestion signal, and do not fill the
/// window.
#[test]
fn rejected_early_data_is_not_in_flight_and_no_loss() {
    let keys = TicketKeys::new(&[5; 32]);
    let tls = early_tls_with(|server| server.ticket_keys(keys.clone()));
    let mut pair = Pair::with_session_of(delayed(10, 1), quiet(), quiet(), &tls);
    keys.rotate(&[6; 32]);
    keys.rotate(&[7; 32]);
    let streams = pair.begin_early(1, 8000);
    let window = pair.client().statistics().congestion_window;
    let outcome = pair.answer_all(&streams, 8000, 100, seconds(10));
    assert_eq!(outcome.answered, Some(milliseconds(40)));
    assert!(pair.client_events.contains(&Event::EarlyDataRejected));
    pair.run_for(seconds(1));
    let statistics = pair.client().statistics();
    assert_eq!((statistics.packets_lost, statistics.congestion_events), (0, 0));
    assert_eq!(statistics.bytes_in_flight, 0);
    assert!(statistics.congestion_window >= window);
}

/// The client stays within the remembered limits in 0-RTT packets, although it learns higher limits
/// before the end of the handshake (RFC 9000 §7.4.1).
#[test]
fn early_data_keeps_to_the_remembered_limits() {
    let small = settings(|it| {
        it.initial_stream_receive_window(1500)
            .initial_connection_receive_window(4000)
            .max_concurrent_bidirectional_streams(4)
    });
    let mut pair = Pair::with_session_and(delayed(10, 1), quiet(), small);
    pair.change_server(quiet());
    pair.reconnect(Vec::new());
    let mut streams = Vec::new();
    while let Some(stream) = pair.client().open(Direction::Bidirectional) {
        pair.client().write(stream, pattern(3000)).unwrap();
        pair.client().finish(stream).unwrap();
        streams.push(stream);
    }
    assert_eq!(streams.len(), 4);
    pair.flush();
    assert_eq!(pair.client().streams_statistics().bytes_sent, 4000);
    let outcome = pair.answer_all(&streams, 3000, 100, seconds(10));
    assert!(outcome.answered.is_some() && pair.is_accepted());
}

/// RFC 9000 §7.4.1: a server that accepts early data must not lower a limit.
#[test]
fn a_server_that_lowers_a_limit_violates_the_protocol() {
    let tls = early_tls();
    let store = Arc::new(ByteStore::default());
    let mut pair = Pair::with_tls(delayed(10, 1), quiet(), quiet(), &tls);
    pair.store_sessions(&tls, &store);
    pair.reconnect(Vec::new());
    pair.download(1000, seconds(10)).unwrap();
    // The client remembers an initial_max_data of 256 MB more than the server had.
    for (_, bytes) in store.sessions.lock().unwrap().iter_mut() {
        let place = bytes.windows(6).position(|it| *it == [4, 4, 0x80, 0x10, 0, 0]).unwrap();
        bytes[place + 2] = 0x90;
    }
    let streams = pair.begin_early(1, 100);
    pair.answer_all(&streams, 100, 100, seconds(2));
    let error = own_error(&pair.client_events);
    assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
    assert!(error.to_string().contains("lowered a limit"), "{error}");
}

/// Sessions are serialized, as when passed between two processes.
#[test]
fn a_stored_session_is_resumed_with_early_data() {
    for (version, other) in [(V1, V2), (V2, V1)] {
        let tls = early_tls();
        let store = Arc::new(ByteStore::default());
        let settings = client(version, &[version, other]);
        let mut pair = Pair::with_tls(delayed(10, 1), settings, staying(&[V2, V1]), &tls);
        pair.store_sessions(&tls, &store);
        pair.reconnect(Vec::new());
        pair.download(1000, seconds(10)).unwrap();
        assert!(!store.sessions.lock().unwrap().is_empty());
        for round in 0..3 {
            // Another client with an empty session cache.
            pair.store_sessions(&tls, &store);
            let streams = pair.begin_early(1, 100);
            let outcome = pair.answer_all(&streams, 100, 100, seconds(10));
            assert_eq!(outcome.answered, Some(milliseconds(20)), "round {round}");
            assert!(pair.is_accepted());
            pair.run_for(milliseconds(100));
        }
    }
}

/// A session whose certificates the client does not accept is not resumed, nor is a session with
/// another server name.
#[test]
fn a_stored_session_is_verified_like_a_connection() {
    let (tls, stranger) = (early_tls(), early_tls());
    let store = Arc::new(ByteStore::default());
    let mut pair = Pair::with_tls(delayed(10, 1), quiet(), quiet(), &tls);
    pair.store_sessions(&tls, &store);
    pair.reconnect(Vec::new());
    pair.download(1000, seconds(10)).unwrap();
    pair.store_sessions(&stranger, &store);
    pair.reconnect(Vec::new());
    assert_eq!(pair.client().early_data(), EarlyData::None, "other roots");
    let mut sessions = std::mem::take(&mut *store.sessions.lock().unwrap());
    sessions.iter_mut().for_each(|(name, _)| *name = "other.example".into());
    *store.sessions.lock().unwrap() = sessions;
    pair.store_sessions(&tls, &store);
    pair.reconnect(Vec::new());
    assert_eq!(pair.client().early_data(), EarlyData::None, "no session with this server");
}

#[test]
fn damaged_sessions_are_not_decoded() {
    let tls = early_tls();
    let store = Arc::new(ByteStore::default());
    let mut pair = Pair::with_tls(delayed(10, 1), quiet(), quiet(), &tls);
    pair.store_sessions(&tls, &store);
    pair.reconnect(Vec::new());
    pair.download(1000, seconds(10)).unwrap();
    let (_, bytes) = store.sessions.lock().unwrap()[0].clone();
    let session = SavedSession::decode(&bytes).unwrap();
    assert_eq!(session.encode(), bytes);
    assert_eq!(SavedSession::decode(&bytes), Ok(session));
    for end in 0..bytes.len() {
        assert!(SavedSession::decode(&bytes[..end]).is_err(), "cut at {end}");
    }
    let mut other = bytes.clone();
    other[0] = 9;
    let error = SavedSession::decode(&other).unwrap_err();
    assert_eq!(error, clearway_transport::SavedSessionError::UnknownFormat);
    let oversized = [&bytes[..], &[0; 70_000]].concat();
    assert!(SavedSession::decode(&oversized).is_err());
}

/// Processes with the same keys accept each other's tickets; a process with other keys rejects
/// early data.
#[test]
fn sealed_tickets_are_accepted_by_every_server_with_the_key() {
    let keys = TicketKeys::new(&[5; 32]);
    let tls = early_tls_with(|server| server.ticket_keys(keys.clone()));
    let mut pair = Pair::with_session_of(delayed(10, 1), quiet(), quiet(), &tls);
    pair.restart_server();
    let streams = pair.begin_early(1, 100);
    let outcome = pair.answer_all(&streams, 100, 100, seconds(10));
    assert_eq!(outcome.answered, Some(milliseconds(20)));
    pair.run_for(seconds(1));
    keys.rotate(&[6; 32]);
    let streams = pair.begin_early(1, 100);
    assert!(pair.answer_all(&streams, 100, 100, seconds(10)).answered.is_some());
    pair.run_for(seconds(1));
    assert!(pair.is_accepted(), "the previous key is still accepted");
    keys.rotate(&[7; 32]);
    keys.rotate(&[8; 32]);
    let streams = pair.begin_early(1, 100);
    assert!(pair.answer_all(&streams, 100, 100, seconds(10)).answered.is_some());
    assert!(pair.client_events.contains(&Event::EarlyDataRejected), "the key is gone");
}

/// A first flight that is replayed to another process's endpoint, or later to the same one, results
/// in a full handshake: its early data is not processed, whether sessions are in a table or in
/// tickets.
#[test]
fn a_repeated_first_flight_is_not_processed() {
    let sealed = early_tls_with(|server| server.ticket_keys(TicketKeys::new(&[5; 32])));
    for tls in [early_tls(), sealed] {
        let mut pair = Pair::with_session_of(delayed(10, 1), quiet(), quiet(), &tls);
        let streams = pair.begin_early(1, 100);
        let flight: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
        let noted = flight.clone();
        pair.filter = Some(Box::new(move |_, way, payload| {
            if way == Way::ToServer {
                noted.lock().unwrap().push(payload.clone());
            }
            true
        }));
        assert!(pair.answer_all(&streams, 100, 100, seconds(10)).answered.is_some());
        let before = early_received(&pair);
        // The endpoint has lost the connection, as if another shard had received the packets.
        pair.restart_server();
        let from = address("10.9.9.9:4000");
        for mut datagram in flight.lock().unwrap().clone() {
            pair.deliver(Way::ToServer, from, &mut datagram);
        }
        assert_eq!(pair.accepted.len(), 1, "the ClientHello is answered");
        assert_eq!(early_received(&pair), before, "the early data is not");
        assert!(pair.watch.drops(Side::Server, DropReason::KeyUnavailable) > 0);
    }
}

/// A client whose entire first flight was lost repeats the early data together with the
/// ClientHello: the data that fits in its two probes is answered one round trip after the probe
/// timeout, which is a second without an RTT sample (RFC 9002 §6.2.2, §6.2.4).
#[test]
fn probes_repeat_early_data_with_the_client_hello() {
    for size in [100, 1400] {
        let mut pair = Pair::with_session(delayed(10, 1));
        let before = early_received(&pair);
        let start = pair.now;
        pair.filter = Some(Box::new(move |now, way, _| {
            way == Way::ToClient || now.saturating_since(start) > milliseconds(500)
        }));
        let streams = pair.begin_early(1, size);
        let outcome = pair.answer_all(&streams, size, 100, seconds(10));
        assert_eq!(outcome.served, Some(milliseconds(999 + 10)), "{size} bytes");
        assert_eq!(outcome.answered, Some(milliseconds(999 + 20)), "{size} bytes");
        assert!(pair.is_accepted() && outcome.early_requests == 1);
        assert_eq!(early_received(&pair) - before, 2, "one in each probe");
    }
}

/// 0-RTT packets may arrive before the ClientHello is complete: a few are buffered, and the others
/// are dropped and retransmitted.
#[test]
fn early_packets_wait_for_the_client_hello_up_to_a_limit() {
    let wide = settings(|it| it.initial_window(Some(60_000)));
    let tls = long_early_tls();
    let mut pair = Pair::with_session_of(delayed(10, 1), wide, quiet(), &tls);
    let mut seen = 0;
    pair.filter = Some(Box::new(move |_, way, _| {
        seen += usize::from(way == Way::ToServer);
        // This datagram contains the end of the ClientHello.
        way == Way::ToClient || seen != 2
    }));
    let streams = pair.begin_early(1, 25_000);
    pair.run_for(milliseconds(30));
    assert_eq!(early_received(&pair), 0);
    assert!(pair.watch.drops(Side::Server, DropReason::KeyUnavailable) > 0);
    let outcome = pair.answer_all(&streams, 25_000, 100, seconds(10));
    assert!(outcome.answered.is_some() && pair.is_accepted());
    assert_eq!(outcome.requests, 1);
    let at_once = pair.watch.received(Side::Server).into_iter().filter(is_early);
    let first = at_once.clone().map(|packet| packet.at).min();
    let held = at_once.filter(|packet| Some(packet.at) == first).count();
    assert!(held >= 10, "{held} packets were kept");
}

/// Returns a 0-RTT long header packet of this connection with random contents.
fn garbage(pair: &mut Pair, number: u32) -> Vec<u8> {
    let destination = pair.client().original_destination_id();
    let mut packet = vec![0xd3, 0, 0, 0, 1, destination.len() as u8];
    packet.extend_from_slice(destination.as_bytes());
    packet.extend_from_slice(&[8, 1, 2, 3, 4, 5, 6, 7, 8, 0x44, 0x4c]);
    packet.extend_from_slice(&number.to_be_bytes().repeat(275));
    packet
}

/// A flood of packets that look like 0-RTT packets is dropped, before and after the keys are
/// available, and does not end the connection.
#[test]
fn garbage_in_0_rtt_packets_is_dropped() {
    for tls in [early_tls(), long_early_tls()] {
        let mut pair = Pair::with_session_of(delayed(10, 1), quiet(), quiet(), &tls);
        let streams = pair.begin_early(1, 100);
        pair.run_for(milliseconds(11));
        assert_eq!(pair.accepted.len(), 1);
        for number in 0..1000 {
            let mut packet = garbage(&mut pair, number);
            pair.deliver(Way::ToServer, address(CLIENT), &mut packet);
        }
        let dropped = pair.watch.drops(Side::Server, DropReason::DecryptionFailure);
        assert_eq!(dropped, 1000);
        assert!(pair.answer_all(&streams, 100, 100, seconds(10)).answered.is_some());
        assert!(pair.is_accepted());
    }
}

/// RFC 9001 §5.6: clients must not receive 0-RTT packets.
#[test]
fn a_client_drops_0_rtt_packets() {
    let mut pair = Pair::with_session(delayed(10, 1));
    let streams = pair.begin_early(1, 100);
    let id = {
        let seen: Arc<Mutex<Option<Vec<u8>>>> = Arc::default();
        let noted = seen.clone();
        pair.filter = Some(Box::new(move |_, way, payload| {
            if way == Way::ToClient
                && let Ok(header) = ProtectedHeader::decode(payload, 8)
                && let HeaderKind::Long { destination, .. } = header.kind
            {
                noted.lock().unwrap().get_or_insert(destination.as_bytes().to_vec());
            }
            true
        }));
        assert!(pair.answer_all(&streams, 100, 100, seconds(10)).answered.is_some());
        seen.lock().unwrap().clone().unwrap()
    };
    let mut packet = vec![0xd3, 0, 0, 0, 1, id.len() as u8];
    packet.extend_from_slice(&id);
    packet.extend_from_slice(&[8, 1, 2, 3, 4, 5, 6, 7, 8, 0x40, 0x40]);
    packet.resize(packet.len() + 64, 7);
    pair.deliver(Way::ToClient, address(SERVER), &mut packet);
    assert_eq!(pair.watch.drops(Side::Client, DropReason::Unexpected), 1);
}
