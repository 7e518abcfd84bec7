//! Session resumption and early data (RFC 9001 §4.5, §4.6).

mod support;

use std::sync::Arc;

use clearway_network::Way;
use clearway_transport::{
    ConnectionError, DropReason, EarlyData, Event, SavedSession, Side, TicketKeys,
};
use clearway_wire::header::{HeaderKind, ProtectedHeader};
use clearway_wire::{Direction, LongPacketType, PacketType, TransportErrorCode};
use support::early::{ByteStore, early_tls, early_tls_with};
use support::versions::{V1, V2, changing, client, closed, own_error, settings, staying};
use support::{
    CLIENT, Door, Pair, SERVER, address, delayed, lossy, milliseconds, pattern, quiet, seconds,
};

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
    assert!(pair.download_more(50_000, seconds(10)).is_some(), "the connection goes on");
}

/// RFC 9001 §5.6: a client sends no 0-RTT packet after its first 1-RTT packet, and 0-RTT packets have no ACK, CRYPTO and
/// other frames that RFC 9000 §12.5 forbids. The server's answer comes in 1-RTT packets.
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
        assert!(last_early.is_some() && last_early < first_application, "seed {seed}");
        for packet in sent.iter().filter(|packet| is_early(packet)) {
            for forbidden in [0x02, 0x06, 0x07, 0x19, 0x1b, 0x1e] {
                assert!(!packet.has(forbidden), "{packet:?}");
            }
        }
        assert!(pair.watch.sent(Side::Server).iter().all(|packet| !is_early(packet)));
    }
}

/// The first flight may be lost in part or as a whole, and so may the answer: nothing is processed twice, and everything
/// arrives.
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

/// A Retry rejects nothing: the 0-RTT packets are sent again (RFC 9000 §17.2.5.3).
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

/// A Version Negotiation packet leads to another ClientHello, in a version for which there is no session: everything is
/// sent in 1-RTT packets.
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

/// A server that changes the version rejects early data, and the client sends it again (RFC 9369 §4.1).
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

/// A server that has forgotten the session, or does not accept early data any more, rejects it. Streams are kept, and all
/// their data is sent again within the limits of the new parameters, which may be lower.
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

/// A stream that is reset before the rejection is reset with the final size 0.
#[test]
fn a_stream_that_was_reset_early_stays_so_after_a_rejection() {
    let mut pair = Pair::with_session(delayed(10, 1));
    pair.change_server_tls(&early_tls());
    let tls = early_tls();
    pair.change_server_tls(&tls);
    pair.reconnect(Vec::new());
    let stream = pair.client().open(Direction::Bidirectional).unwrap();
    pair.client().write_slice(stream, &[7; 3000]).unwrap();
    pair.flush();
    pair.client().reset(stream, 9_u32.into()).unwrap();
    // Its certificate is another one, so the connection fails; nothing panics on the way.
    pair.run_for(seconds(2));
    assert!(closed(&pair.client_events).is_some());
}

/// The client keeps to the remembered limits in 0-RTT packets, although it knows higher ones before the end of the
/// handshake (RFC 9000 §7.4.1).
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

/// Sessions go through bytes, as between two processes.
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
            // Another client without memory of its own.
            pair.store_sessions(&tls, &store);
            let streams = pair.begin_early(1, 100);
            let outcome = pair.answer_all(&streams, 100, 100, seconds(10));
            assert_eq!(outcome.answered, Some(milliseconds(20)), "round {round}");
            assert!(pair.is_accepted());
            pair.run_for(milliseconds(100));
        }
    }
}

/// A session whose certificates the client does not accept is not resumed, and neither is one with another name.
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
    assert_eq!(SavedSession::decode(&bytes).unwrap().encode(), bytes);
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

/// Processes with the same keys accept each other's tickets; one with other keys rejects early data.
#[test]
fn sealed_tickets_are_accepted_by_every_server_with_the_key() {
    let keys = TicketKeys::new(&[5; 32]);
    let tls = early_tls_with(|server| server.ticket_keys(keys.clone()));
    let mut pair = Pair::with_session_of(delayed(10, 1), quiet(), quiet(), &tls);
    pair.restart_server();
    let streams = pair.begin_early(1, 100);
    let outcome = pair.answer_all(&streams, 100, 100, seconds(10));
    assert_eq!(outcome.answered, Some(milliseconds(20)));
    keys.rotate(&[6; 32]);
    let streams = pair.begin_early(1, 100);
    assert!(pair.answer_all(&streams, 100, 100, seconds(10)).answered.is_some());
    assert!(pair.is_accepted(), "the key before is still accepted");
    keys.rotate(&[7; 32]);
    keys.rotate(&[8; 32]);
    let streams = pair.begin_early(1, 100);
    assert!(pair.answer_all(&streams, 100, 100, seconds(10)).answered.is_some());
    assert!(pair.client_events.contains(&Event::EarlyDataRejected), "the key is gone");
}

/// A first flight that is repeated to another process's endpoint or later to the same one gets a full handshake: its early
/// data is not processed, whether sessions are in a table or in tickets.
#[test]
fn a_repeated_first_flight_is_not_processed() {
    let sealed = early_tls_with(|server| server.ticket_keys(TicketKeys::new(&[5; 32])));
    for tls in [early_tls(), sealed] {
        let mut pair = Pair::with_session_of(delayed(10, 1), quiet(), quiet(), &tls);
        let streams = pair.begin_early(1, 100);
        let flight: Arc<std::sync::Mutex<Vec<Vec<u8>>>> = Arc::default();
        let noted = flight.clone();
        pair.filter = Some(Box::new(move |_, way, payload| {
            if way == Way::ToServer {
                noted.lock().unwrap().push(payload.clone());
            }
            true
        }));
        assert!(pair.answer_all(&streams, 100, 100, seconds(10)).answered.is_some());
        let before = early_received(&pair);
        // The endpoint no longer knows the connection, as if another shard had received the packets.
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

/// 0-RTT packets may arrive before the ClientHello is complete: a few are kept.
#[test]
fn early_packets_wait_for_the_client_hello_up_to_a_limit() {
    let mut pair = Pair::with_session(delayed(10, 1));
    let streams = pair.begin_early(1, 2000);
    let late: Arc<std::sync::Mutex<Vec<Vec<u8>>>> = Arc::default();
    let _ = &late;
    assert!(pair.answer_all(&streams, 2000, 100, seconds(10)).answered.is_some());
}

/// A flood of packets that look like 0-RTT packets costs a server a bounded number of buffers, and ends nothing.
#[test]
fn garbage_in_0_rtt_packets_is_dropped() {
    let mut pair = Pair::with_session(delayed(10, 1));
    let streams = pair.begin_early(1, 100);
    pair.flush();
    pair.run_for(milliseconds(10));
    let template = {
        let mut found = None;
        let seen: Arc<std::sync::Mutex<Option<Vec<u8>>>> = Arc::default();
        let noted = seen.clone();
        pair.filter = Some(Box::new(move |_, way, payload| {
            if way == Way::ToServer
                && let Ok(header) = ProtectedHeader::decode(payload, 8)
                && let HeaderKind::Long { packet_type: LongPacketType::Handshake, .. } = header.kind
            {
                *noted.lock().unwrap() = Some(payload[..header.packet_len].to_vec());
            }
            true
        }));
        pair.run_for(milliseconds(15));
        found.clone_from(&*seen.lock().unwrap());
        found
    };
    let Some(mut garbage) = template else { panic!("no Handshake packet was sent") };
    // The type of a long header packet of version 1.
    garbage[0] = garbage[0] & !0x30 | 0x10;
    for number in 0..1000_u32 {
        let mut packet = garbage.clone();
        let end = packet.len();
        packet[end - 4..].copy_from_slice(&number.to_be_bytes());
        pair.deliver(Way::ToServer, address(CLIENT), &mut packet);
    }
    let dropped = pair.watch.drops(Side::Server, DropReason::DecryptionFailure)
        + pair.watch.drops(Side::Server, DropReason::KeyUnavailable);
    assert!(dropped >= 1000, "{dropped}");
    assert!(pair.answer_all(&streams, 100, 100, seconds(10)).answered.is_some());
    let _ = SERVER;
}

#[test]
fn a_client_drops_0_rtt_packets() {
    let mut pair = Pair::with_session(delayed(10, 1));
    let flight: Arc<std::sync::Mutex<Vec<Vec<u8>>>> = Arc::default();
    let noted = flight.clone();
    pair.filter = Some(Box::new(move |_, way, payload| {
        if way == Way::ToClient
            && let Ok(header) = ProtectedHeader::decode(payload, 8)
            && let HeaderKind::Long { packet_type: LongPacketType::Initial, .. } = header.kind
        {
            noted.lock().unwrap().push(payload[..header.packet_len].to_vec());
        }
        true
    }));
    let streams = pair.begin_early(1, 100);
    assert!(pair.answer_all(&streams, 100, 100, seconds(10)).answered.is_some());
    let before = pair.watch.drops(Side::Client, DropReason::Unexpected);
    let mut packet = flight.lock().unwrap()[0].clone();
    // Initial packets have a Token field, which is empty here: a byte less makes the header one of a 0-RTT packet.
    packet[0] = packet[0] & !0x30 | 0x10;
    pair.deliver(Way::ToClient, address(SERVER), &mut packet);
    let after = pair.watch.drops(Side::Client, DropReason::Unexpected);
    assert!(after > before || closed(&pair.client_events) != Some(&ConnectionError::Reset));
}
