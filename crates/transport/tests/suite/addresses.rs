//! Tests of address validation, and of packets that belong to no connection: Retry, NEW_TOKEN
//! tokens, Version Negotiation and stateless reset (RFC 9000 §6, §8.1, §10.3).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::ids::OfLength;
use crate::support::{
    CLIENT, Door, Pair, SERVER, address, delayed, large_tls, lossy, milliseconds, quiet, seconds,
    tls,
};
use clearway_network::Way;
use clearway_transport::{
    Arrival, ConnectionError, EcnCodepoint, EndpointTotals, Event, Received, ResetKey, Side,
    SocketIndex, TicketKeys,
};
use clearway_units::Random;
use clearway_wire::header::{HeaderKind, Invariant, ProtectedHeader, VersionNegotiation};
use clearway_wire::{TransportErrorCode, VarInt, Version, Writer};

/// Returns the tokens that the client received in NEW_TOKEN frames.
fn tokens(pair: &Pair) -> Vec<Vec<u8>> {
    let tokens = pair.client_events.iter().filter_map(|event| match event {
        Event::NewToken(token) => Some(token.to_vec()),
        _ => None,
    });
    tokens.collect()
}

#[test]
fn a_retry_lifts_the_anti_amplification_limit() {
    let mut pair = Pair::with_tls(delayed(50, 1), quiet(), quiet(), large_tls());
    pair.door = Door::Retry;
    let start = pair.now;
    pair.run_until(seconds(5), |pair| pair.client_events.contains(&Event::Connected));
    assert_eq!(pair.now.saturating_since(start), milliseconds(200));
}

#[test]
fn a_retry_survives_loss() {
    for seed in 0..20 {
        let mut pair = Pair::new(lossy(30.0, 10, seed));
        pair.door = Door::Retry;
        // The Retry token must stay valid for the duration of this handshake.
        let mut config = (*pair.server_config).clone();
        config.retry_token_lifetime = seconds(1000);
        pair.server.set_server(Some(config.into()));
        pair.establish_within(seconds(300));
    }
}

/// §7.2: the minimum of eight octets applies to the ID that the client chooses at random, not to
/// the one in a Retry packet, which may be as short as QUIC-LB allows.
#[test]
fn a_retry_with_a_short_connection_id_is_followed() {
    for length in [1, 6, 7, 8, 20] {
        let ids = [Arc::new(OfLength(length)) as _, Arc::new(OfLength(length)) as _];
        let mut pair = Pair::with_ids(delayed(10, 1), [quiet(), quiet()], tls(), ids);
        pair.door = Door::Retry;
        pair.establish();
        assert!(pair.now.saturating_since(clearway_units::Timestamp::ORIGIN) < milliseconds(1100));
    }
}

/// A Destination Connection ID of less than eight bytes requires a Retry token, which proves that
/// the server has chosen the ID.
#[test]
fn a_short_connection_id_with_another_token_is_discarded() {
    let ids = [Arc::new(OfLength(6)) as _, Arc::new(OfLength(6)) as _];
    let mut pair = Pair::with_ids(delayed(10, 1), [quiet(), quiet()], tls(), ids);
    let now = pair.now;
    let mut comes_in = |id_len: u8, token: &[u8]| {
        let mut initial = vec![0xc0, 0, 0, 0, 1, id_len];
        initial.extend(vec![7; usize::from(id_len)]);
        initial.extend([0, token.len() as u8]);
        initial.extend(token);
        initial.extend([0x44, 0]);
        initial.resize(1200, 7);
        let arrival = Arrival {
            remote: address(CLIENT),
            socket: SocketIndex::default(),
            local_ip: None,
            ecn: EcnCodepoint::NotEct,
        };
        matches!(pair.server.receive(now, arrival, &mut initial), Received::Incoming(_))
    };
    assert!(comes_in(8, b"") && comes_in(8, b"token"));
    assert!(!comes_in(6, b"") && !comes_in(6, b"token"));
}

/// §17.2.5.2: a Retry packet whose integrity tag does not verify is discarded.
#[test]
fn a_modified_retry_is_ignored() {
    let mut pair = Pair::new(delayed(10, 1));
    pair.door = Door::Retry;
    let mut is_first = true;
    pair.filter = Some(Box::new(move |_, way, payload| {
        if way == Way::ToClient && std::mem::replace(&mut is_first, false) {
            *payload.last_mut().unwrap() ^= 1;
        }
        true
    }));
    pair.establish();
    assert!(pair.now.saturating_since(clearway_units::Timestamp::ORIGIN) > milliseconds(1999));
}

/// §8.1.3: a token from a NEW_TOKEN frame makes Retry unnecessary for a later connection.
#[test]
fn a_token_of_an_earlier_connection_validates_the_address() {
    let mut pair = Pair::with_tls(delayed(50, 1), quiet(), quiet(), large_tls());
    pair.establish();
    pair.run_for(seconds(1));
    let tokens = tokens(&pair);
    assert_eq!(tokens.len(), 1);
    pair.reconnect(tokens[0].clone());
    pair.door = Door::Retry;
    let start = pair.now;
    pair.run_until(seconds(5), |pair| pair.client_events.contains(&Event::Connected));
    assert_eq!(
        pair.now.saturating_since(start),
        milliseconds(100),
        "neither a Retry nor the anti-amplification limit cost a round trip"
    );
}

#[test]
fn a_token_for_another_address_does_not_validate_the_address() {
    let mut pair = Pair::new(delayed(50, 1));
    pair.establish();
    pair.run_for(seconds(1));
    let token = tokens(&pair)[0].clone();
    pair.bindings[0] = address("10.9.9.9:1234");
    pair.reconnect(token);
    pair.door = Door::Retry;
    let start = pair.now;
    pair.run_until(seconds(5), |pair| pair.client_events.contains(&Event::Connected));
    assert_eq!(pair.now.saturating_since(start), milliseconds(200));
}

/// §8.1.3: an expired Retry token ends the connection attempt.
#[test]
fn a_retry_token_that_has_expired_is_refused_with_invalid_token() {
    let mut pair = Pair::new(delayed(10, 1));
    pair.door = Door::Retry;
    let mut config = (*pair.server_config).clone();
    config.retry_token_lifetime = milliseconds(10);
    pair.server.set_server(Some(config.into()));
    pair.run_for(seconds(1));
    let Some(Event::Closed(ConnectionError::ConnectionClosed { error_code, .. })) =
        pair.client_events.last()
    else {
        panic!("{:?}", pair.client_events)
    };
    assert_eq!(*error_code, TransportErrorCode::INVALID_TOKEN);
    assert_eq!(pair.server.connection_count(), 0);
}

/// Modifies the client's first datagram with `change` and returns the server's reply to it.
fn answer_to(change: impl FnOnce(&mut Vec<u8>)) -> Option<Vec<u8>> {
    let mut pair = Pair::new(delayed(10, 1));
    let mut buffer = vec![0; 2000];
    let transmit = pair.client.transmit(pair.handle, pair.now, &mut buffer, 1).unwrap();
    let mut datagram = buffer[..transmit.size].to_vec();
    change(&mut datagram);
    pair.deliver(Way::ToServer, address(CLIENT), &mut datagram);
    pair.server.next_reply().map(|(_, reply)| reply)
}

/// §6.1: an unknown version is answered with a Version Negotiation packet.
#[test]
fn an_unknown_version_is_answered_with_the_supported_versions() {
    let mut ids = None;
    let reply = answer_to(|datagram| {
        datagram[1..5].copy_from_slice(&0x5a5a_5a5a_u32.to_be_bytes());
        let Ok(Invariant::Long { destination_connection_id, source_connection_id, .. }) =
            Invariant::decode(datagram, 8)
        else {
            panic!("not a long header")
        };
        ids = Some((destination_connection_id.to_vec(), source_connection_id.to_vec()));
    });
    let reply = reply.expect("the server sent no reply");
    let HeaderKind::VersionNegotiation(packet) = ProtectedHeader::decode(&reply, 8).unwrap().kind
    else {
        panic!("not a Version Negotiation packet")
    };
    let (destination, source) = ids.unwrap();
    assert_eq!((packet.destination, packet.source), (&source[..], &destination[..]));
    assert!(packet.versions().any(|version| version == Version::V1));
}

#[test]
fn a_small_datagram_of_an_unknown_version_is_not_answered() {
    let reply = answer_to(|datagram| {
        datagram[1..5].copy_from_slice(&0x5a5a_5a5a_u32.to_be_bytes());
        datagram.truncate(1199);
    });
    assert_eq!(reply, None);
}

#[test]
fn a_version_negotiation_packet_is_not_answered() {
    assert_eq!(answer_to(|datagram| datagram[1..5].fill(0)), None);
}

/// §14.1: a server discards an Initial packet in a datagram of less than 1200 bytes.
#[test]
fn a_small_initial_is_not_answered() {
    assert_eq!(answer_to(|datagram| datagram.truncate(1199)), None);
}

/// Returns a Version Negotiation packet in response to the client's first packet, listing
/// `versions`.
fn version_negotiation(pair: &mut Pair, versions: &[Version]) -> Vec<u8> {
    let mut buffer = vec![0; 2000];
    let transmit = pair.client.transmit(pair.handle, pair.now, &mut buffer, 1).unwrap();
    pair.client.transmitted(pair.handle, pair.now);
    let Ok(Invariant::Long { destination_connection_id, source_connection_id, .. }) =
        Invariant::decode(&buffer[..transmit.size], 8)
    else {
        panic!("not a long header")
    };
    let mut packet = vec![0; 200];
    let mut writer = Writer::new(&mut packet);
    let (destination, source) = (source_connection_id, destination_connection_id);
    VersionNegotiation::encode(&mut writer, 0, destination, source, versions).unwrap();
    let length = writer.written();
    packet.truncate(length);
    packet
}

const UNKNOWN: Version = Version(0x1234_5678);

/// §6.2: the client ends the attempt if its version is not offered.
#[test]
fn a_client_gives_up_when_its_version_is_not_offered() {
    let mut pair = Pair::new(delayed(10, 1));
    let mut packet = version_negotiation(&mut pair, &[UNKNOWN]);
    pair.deliver(Way::ToClient, address(SERVER), &mut packet);
    pair.settle();
    assert_eq!(pair.client_events, [Event::Closed(ConnectionError::VersionMismatch)]);
}

/// §6.2: "A client MUST discard a Version Negotiation packet that lists the QUIC version selected
/// by the client". It also discards one from another address or with other connection IDs.
#[test]
fn other_version_negotiation_packets_are_ignored() {
    let mut pair = Pair::new(delayed(10, 1));
    let mut lists_ours = version_negotiation(&mut pair, &[UNKNOWN, Version::V1]);
    pair.deliver(Way::ToClient, address(SERVER), &mut lists_ours);

    let mut pair_2 = Pair::new(delayed(10, 1));
    let packet = version_negotiation(&mut pair_2, &[UNKNOWN]);
    pair_2.deliver(Way::ToClient, address("10.6.6.6:443"), &mut packet.clone());
    let mut other_id = packet.clone();
    other_id[6 + 8 + 1] ^= 1;
    pair_2.deliver(Way::ToClient, address(SERVER), &mut other_id);

    for pair in [&mut pair, &mut pair_2] {
        assert!(!pair.client().is_closed());
        pair.establish();
    }
}

#[test]
fn a_version_negotiation_packet_after_a_packet_from_the_server_is_ignored() {
    let mut pair = Pair::new(delayed(10, 1));
    let mut is_late = false;
    pair.run_until(seconds(3), |pair| {
        if !is_late && !pair.watch.received(Side::Client).is_empty() {
            is_late = true;
            // The packet is forged by an attacker who has seen the server's packet.
            let client = pair.server().peer_parameters().unwrap().initial_source_connection_id;
            let server = pair.client().peer_parameters().unwrap().initial_source_connection_id;
            let (client, server) = (client.unwrap(), server.unwrap());
            let mut packet = [0; 200];
            let mut writer = Writer::new(&mut packet);
            let (destination, source) = (client.as_bytes(), server.as_bytes());
            VersionNegotiation::encode(&mut writer, 0, destination, source, &[UNKNOWN]).unwrap();
            let length = writer.written();
            pair.deliver(Way::ToClient, address(SERVER), &mut packet[..length]);
        }
        pair.client_events.contains(&Event::Connected)
    });
    assert!(is_late);
    pair.establish();
}

/// §10.3: the server has lost its connections, but not its stateless reset key.
#[test]
fn a_server_that_lost_its_state_sends_a_stateless_reset() {
    let mut pair = Pair::new(delayed(10, 1));
    pair.establish();
    pair.run_for(seconds(1));
    assert_eq!(pair.server.totals(), EndpointTotals::default());
    pair.restart_server();
    let start = pair.now;
    // Large enough for the server to respond with a stateless reset (§10.3.3).
    let stream = pair.client().open(clearway_wire::Direction::Bidirectional).unwrap();
    pair.client().write_slice(stream, &[7; 100]).unwrap();
    pair.run_until(seconds(5), |pair| pair.client().is_closed());
    assert_eq!(pair.client_events.last(), Some(&Event::Closed(ConnectionError::Reset)));
    assert_eq!(pair.now.saturating_since(start), milliseconds(20));
    let totals = pair.server.totals();
    assert_eq!((totals.datagrams_unknown, totals.stateless_resets_sent), (1, 1));
    // §10.3.1: the client enters the draining state and sends nothing more.
    let sent = pair.watch.sent(Side::Client).len();
    pair.run_for(seconds(10));
    assert_eq!(pair.watch.sent(Side::Client).len(), sent);
}

/// Returns the keys of a restarted server that are derived from these ticket secrets: the current
/// one and the previous one.
fn keys_of(current: u8, previous: Option<u8>, identity: &str) -> ResetKey {
    let keys = TicketKeys::new(&[current; 32]);
    if let Some(previous) = previous {
        keys.accept_previous(&[previous; 32]);
    }
    ResetKey::from_ticket_keys(keys, identity.as_bytes())
}

/// Returns how long a client keeps its connection to a server that has the first key and restarts
/// with the second; `None` if the connection does not end with a stateless reset. The client sends
/// `length` bytes of stream data.
fn reset_after(before: ResetKey, after: ResetKey, length: usize) -> Option<Duration> {
    let mut pair = Pair::new(delayed(10, 1));
    pair.restart_server_with(before);
    pair.establish();
    pair.run_for(seconds(1));
    pair.restart_server_with(after);
    let start = pair.now;
    let stream = pair.client().open(clearway_wire::Direction::Bidirectional).unwrap();
    pair.client().write_slice(stream, &vec![7; length]).unwrap();
    pair.run_until(seconds(5), |pair| pair.client().is_closed());
    let is_reset = pair.client_events.last() == Some(&Event::Closed(ConnectionError::Reset));
    is_reset.then(|| pair.now.saturating_since(start))
}

/// §10.3.2: a restarted server derives its own key from its ticket keys again, and no other
/// server's (§21.11).
#[test]
fn a_server_that_restarts_with_its_ticket_keys_sends_stateless_resets() {
    let own = || keys_of(1, None, "a");
    assert_eq!(reset_after(own(), own(), 100), Some(milliseconds(20)));
    assert_eq!(reset_after(own(), keys_of(1, None, "b"), 100), None);
    assert_eq!(reset_after(own(), keys_of(2, None, "a"), 100), None);
    // The key that was in use when the connections began is now the previous one.
    assert_eq!(reset_after(own(), keys_of(2, Some(1), "a"), 100), Some(milliseconds(20)));
    assert_eq!(reset_after(own(), keys_of(1, Some(2), "a"), 100), Some(milliseconds(20)));
    // A response has room for the reset of only one key (§10.3.3); the client's probe then gets the
    // other one.
    let after_all = reset_after(own(), keys_of(2, Some(1), "a"), 1);
    assert!(after_all.is_some_and(|after| after < milliseconds(500)), "{after_all:?}");
}

/// The keys change while the server is running, and it restarts with the current and the previous
/// ones.
#[test]
fn connections_from_before_a_change_of_ticket_keys_are_reset() {
    let keys = TicketKeys::new(&[1; 32]);
    let reset_key = ResetKey::from_ticket_keys(keys.clone(), b"a");
    let mut pair = Pair::new(delayed(10, 1));
    pair.restart_server_with(reset_key);
    pair.establish();
    keys.rotate(&[2; 32]);
    pair.run_for(seconds(1));
    assert!(!pair.client().is_closed());
    pair.restart_server_with(keys_of(2, Some(1), "a"));
    for _ in 0..3 {
        pair.client().ping();
        pair.run_for(seconds(1));
    }
    assert_eq!(pair.client_events.last(), Some(&Event::Closed(ConnectionError::Reset)));
}

/// §10.3.3: two endpoints that have both lost the connection do not send resets to each other
/// endlessly.
#[test]
fn stateless_resets_do_not_loop() {
    let mut pair = Pair::new(delayed(10, 1));
    let mut random = Random::from_number(4);
    let mut datagram: Vec<u8> = random.array::<60>().to_vec();
    datagram[0] = 0x40;
    let mut rounds = 0;
    loop {
        pair.deliver(Way::ToServer, address(CLIENT), &mut datagram);
        let Some((_, reply)) = pair.server.next_reply() else { break };
        assert!(reply.len() < datagram.len());
        datagram = reply;
        rounds += 1;
    }
    assert!(rounds > 0 && rounds < 60, "{rounds}");
}

/// §10.3: an endpoint that only starts connections has not lost any state. Late packets for a
/// connection that has ended, and responses from another server, are dropped. An endpoint that was
/// a server may have lost a connection.
#[test]
fn an_endpoint_that_only_begins_connections_sends_no_stateless_resets() {
    let mut pair = Pair::new(delayed(10, 1));
    pair.establish();
    let now = pair.now;
    pair.client().close(now, VarInt::ZERO, b"");
    pair.run_for(seconds(10));
    let mut late = [0x40; 1200];
    pair.deliver(Way::ToClient, address(SERVER), &mut late);
    assert!(pair.client.next_reply().is_none());
    let totals = pair.client.totals();
    assert_eq!((totals.datagrams_unknown, totals.stateless_resets_sent), (1, 0));

    pair.server.set_server(None);
    pair.deliver(Way::ToServer, address(CLIENT), &mut late);
    assert!(pair.server.next_reply().is_some());
}

/// RFC 9287 §3.1: the QUIC bit is only cleared toward a peer that has sent grease_quic_bit. A
/// server may forbid it because its load balancer uses the first octet to distinguish its own
/// packets from the packets that it forwards.
#[test]
fn a_client_that_may_not_grease_sets_the_quic_bit() {
    for (door, may_clear) in [(Door::Accept, true), (Door::AcceptWithoutGreasing, false)] {
        let mut pair = Pair::new(delayed(10, 1));
        pair.door = door;
        let cleared = Arc::new(AtomicUsize::new(0));
        let count = cleared.clone();
        pair.filter = Some(Box::new(move |_, way, datagram| {
            let is_cleared =
                way == Way::ToServer && !clearway_wire::header::has_fixed_bit(datagram[0]);
            count.fetch_add(usize::from(is_cleared), Ordering::Relaxed);
            true
        }));
        pair.establish();
        let stream = pair.client().open(clearway_wire::Direction::Bidirectional).unwrap();
        pair.client().write_slice(stream, &[7; 20_000]).unwrap();
        pair.run_for(seconds(5));
        assert_eq!(pair.client().peer_parameters().unwrap().grease_quic_bit, may_clear);
        assert_eq!(cleared.load(Ordering::Relaxed) > 0, may_clear);
    }
}

/// A reset whose token belongs to another connection, or to an unused connection ID, has no effect.
#[test]
fn a_forged_stateless_reset_is_ignored() {
    let mut pair = Pair::new(delayed(10, 1));
    pair.establish();
    let mut random = Random::from_number(4);
    for _ in 0..100 {
        let mut datagram: Vec<u8> = random.array::<43>().to_vec();
        datagram[0] = 0x41;
        pair.deliver(Way::ToClient, address(SERVER), &mut datagram);
    }
    pair.run_for(seconds(1));
    assert!(!pair.client().is_closed());
}
