//! Negotiation of versions 1 and 2 (RFC 9368, RFC 9369).

use std::sync::Arc;

use crate::support::initial::Initial;
use crate::support::versions::{
    V1, V2, changing, client, closed, own_error, pair, settings, staying,
};
use crate::support::{
    CLIENT, Door, Pair, SERVER, Tls, address, delayed, long_hello_tls, lossy, milliseconds, quiet,
    seconds, tls,
};
use clearway_network::Way;
use clearway_transport::{
    ConnectionError, DropReason, EcnCodepoint, Event, Side, TransportConfig, TransportConfigBuilder,
};
use clearway_wire::header::{HeaderKind, Invariant, ProtectedHeader, VersionNegotiation};
use clearway_wire::{
    ConnectionId, LongPacketType, PacketType, TransportErrorCode, Version, Writer,
};

fn versions_of(pair: &mut Pair) -> (Version, Version) {
    (pair.client().statistics().version, pair.server().statistics().version)
}

/// Returns the version that both endpoints end up using; `None` if they have none in common.
fn expected(client: &TransportConfig, server: &TransportConfig) -> Option<Version> {
    let first = client.first_version();
    let common = |version: &&Version| server.versions().contains(version);
    if !server.versions().contains(&first) {
        return client.versions().iter().find(common).copied();
    }
    let preferred = server.versions().iter().find(|version| client.versions().contains(version));
    if server.prefers_own_version() { preferred.copied() } else { Some(first) }
}

/// Runs every client with every server, with and without Retry, loss, and a ClientHello in two
/// datagrams.
fn negotiate(door: Door, tls: &Tls, percent: f64, seed: u64) {
    let clients =
        [client(V1, &[V1]), client(V2, &[V2]), client(V1, &[V2, V1]), client(V2, &[V2, V1])];
    let servers = [
        staying(&[V1]),
        staying(&[V2]),
        staying(&[V2, V1]),
        changing(&[V1, V2]),
        changing(&[V2, V1]),
    ];
    for client in &clients {
        for server in &servers {
            let what = format!("{:?} {:?}", client.versions(), server.versions());
            let link = lossy(percent, 10, seed);
            let mut pair = Pair::with_tls(link, client.clone(), server.clone(), tls);
            let mut config = (*pair.server_config).clone();
            config.retry_token_lifetime = seconds(1000);
            pair.server.set_server(Some(config.into()));
            pair.door = door;
            let Some(version) = expected(client, server) else {
                pair.run_for(seconds(1000));
                let events = [Event::Closed(ConnectionError::VersionMismatch)];
                assert_eq!(pair.client_events, events, "{what}");
                continue;
            };
            assert!(pair.download(3000, seconds(1000)).is_some(), "{what}");
            assert_eq!(versions_of(&mut pair), (version, version), "{what}");
            assert_eq!(pair.watch.chosen(Side::Client).last(), Some(&Some(version)), "{what}");
            assert_eq!(pair.watch.chosen(Side::Server).last(), Some(&Some(version)), "{what}");
        }
    }
}

#[test]
fn every_client_comes_to_an_agreement_with_every_server() {
    for tls in [tls(), long_hello_tls()] {
        negotiate(Door::Accept, tls, 0.0, 1);
        negotiate(Door::Retry, tls, 0.0, 1);
    }
}

#[test]
fn they_agree_although_datagrams_are_lost() {
    for seed in 0..6 {
        let tls = if seed % 2 == 0 { tls() } else { long_hello_tls() };
        negotiate(Door::Accept, tls, 30.0, seed);
        negotiate(Door::Retry, tls, 30.0, seed);
    }
}

/// RFC 9368 §2.4: a change to a compatible version costs no round trip; RFC 9368 §2.1: a Version Negotiation packet
/// costs one.
#[test]
fn what_a_negotiation_costs() {
    let both = client(V1, &[V2, V1]);
    for (server, round_trips) in
        [(staying(&[V2, V1]), 1), (changing(&[V2, V1]), 1), (staying(&[V2]), 2)]
    {
        let mut pair = pair(&both, &server);
        let start = pair.now;
        pair.run_until(seconds(5), |pair| pair.client_events.contains(&Event::Connected));
        assert_eq!(pair.now.saturating_since(start), milliseconds(20 * round_trips));
    }
}

/// Returns the unencrypted parts of the packets in a datagram: the versions of the long headers,
/// with the packet types.
fn long_headers(datagram: &[u8]) -> Vec<(Version, LongPacketType)> {
    let (mut found, mut rest) = (Vec::new(), datagram);
    while let Ok(header) = ProtectedHeader::decode(rest, 8) {
        if let HeaderKind::Long { version, packet_type, .. } = header.kind {
            found.push((version, packet_type));
        }
        rest = &rest[header.packet_len..];
    }
    found
}

/// Returns where the first packet of this type begins in a datagram.
fn start_of(datagram: &[u8], wanted: LongPacketType) -> Option<usize> {
    let mut start = 0;
    while let Ok(header) = ProtectedHeader::decode(&datagram[start..], 8) {
        if matches!(header.kind, HeaderKind::Long { packet_type, .. } if packet_type == wanted) {
            return Some(start);
        }
        start += header.packet_len;
    }
    None
}

type Seen = Arc<std::sync::Mutex<Vec<(Way, Version, LongPacketType)>>>;

/// Records the long headers of all sent packets.
fn watch_headers(pair: &mut Pair) -> Seen {
    let seen = Seen::default();
    let noted = seen.clone();
    pair.filter = Some(Box::new(move |_, way, payload| {
        let headers = long_headers(payload).into_iter();
        noted.lock().unwrap().extend(headers.map(|(version, it)| (way, version, it)));
        true
    }));
    seen
}

/// RFC 9369 §4.1: before the server has the client's parameters, it responds in the original
/// version. CRYPTO frames and everything after them use the negotiated version, and so do the
/// client's packets once it has seen that version.
#[test]
fn the_version_changes_with_the_server_s_first_crypto_frame() {
    let link = delayed(10, 1);
    let (both, server) = (client(V1, &[V2, V1]), changing(&[V2, V1]));
    let mut pair = Pair::with_tls(link, both, server, long_hello_tls());
    let seen = watch_headers(&mut pair);
    // The second half of the ClientHello arrives late.
    let mut count = 0;
    let noting = pair.filter.take().unwrap();
    let mut noting = noting;
    pair.filter = Some(Box::new(move |now, way, payload| {
        count += u32::from(way == Way::ToServer);
        noting(now, way, payload) && !(way == Way::ToServer && count == 2)
    }));
    pair.establish();
    assert_eq!(versions_of(&mut pair), (V2, V2));
    let seen = seen.lock().unwrap();
    let versions = |way, packet_type| {
        let mut versions: Vec<Version> = seen
            .iter()
            .filter(|it| it.0 == way && it.2 == packet_type)
            .map(|(_, version, _)| *version)
            .collect();
        versions.dedup();
        versions
    };
    assert_eq!(versions(Way::ToServer, LongPacketType::Initial), [V1, V2]);
    assert_eq!(versions(Way::ToClient, LongPacketType::Initial), [V1, V2]);
    assert_eq!(versions(Way::ToServer, LongPacketType::Handshake), [V2]);
    assert_eq!(versions(Way::ToClient, LongPacketType::Handshake), [V2]);
}

/// Later key phases also use version 2's labels on a client whose TLS session began in version 1.
#[test]
fn keys_are_updated_in_the_negotiated_version() {
    for (first, server) in [(V1, changing(&[V2, V1])), (V2, changing(&[V1, V2]))] {
        let mut pair = pair(&client(first, &[V2, V1]), &server);
        pair.establish();
        assert_ne!(pair.client().version(), first);
        for round in 1..=4 {
            // Both must have acknowledged packets of the previous phase (RFC 9001 §6.1).
            pair.client().ping();
            pair.server().ping();
            pair.run_for(seconds(1));
            let now = pair.now;
            let end = if round % 2 == 0 { pair.client() } else { pair.server() };
            assert!(end.update_keys(now));
            end.ping();
            pair.run_for(seconds(1));
            let updates = [pair.client().statistics(), pair.server().statistics()];
            assert_eq!(updates.map(|statistics| statistics.key_updates), [round, round]);
        }
        assert_eq!(pair.watch.drops(Side::Client, DropReason::DecryptionFailure), 0);
    }
}

/// Delivers `packet` to the client as if the server had sent it.
fn deliver(pair: &mut Pair, mut packet: Vec<u8>) {
    pair.deliver(Way::ToClient, address(SERVER), &mut packet);
}

/// Returns the client's first datagram, which does not reach the server.
fn first_datagram(pair: &mut Pair) -> Vec<u8> {
    let mut buffer = vec![0; 2000];
    let transmit = pair.client.transmit(pair.handle, pair.now, &mut buffer, 1).unwrap();
    pair.client.transmitted(pair.handle, pair.now);
    buffer.truncate(transmit.size);
    buffer
}

/// Returns the connection IDs of the client's first packet: destination and source.
fn first_ids(pair: &mut Pair) -> (ConnectionId, ConnectionId) {
    ids_of(&first_datagram(pair))
}

fn ids_of(datagram: &[u8]) -> (ConnectionId, ConnectionId) {
    match Invariant::decode(datagram, 8) {
        Ok(Invariant::Long { destination_connection_id, source_connection_id, .. }) => (
            ConnectionId::new(destination_connection_id).unwrap(),
            ConnectionId::new(source_connection_id).unwrap(),
        ),
        other => panic!("{other:?}"),
    }
}

/// Returns a Version Negotiation packet that lists `versions`, in response to a packet from
/// `source` to `destination`.
fn version_negotiation(
    (destination, source): (ConnectionId, ConnectionId),
    versions: &[Version],
) -> Vec<u8> {
    let mut packet = vec![0; 200];
    let mut writer = Writer::new(&mut packet);
    let (destination, source) = (destination.as_bytes(), source.as_bytes());
    VersionNegotiation::encode(&mut writer, 0, source, destination, versions).unwrap();
    let length = writer.written();
    packet.truncate(length);
    packet
}

/// RFC 9368 §4: an attacker makes the client use a version that it prefers less than another
/// version that both endpoints support.
#[test]
fn a_downgrade_by_a_forged_version_negotiation_packet_is_an_error() {
    for (first, preference, forged) in [(V2, [V2, V1], V1), (V1, [V1, V2], V2)] {
        for server in [staying(&[V1, V2]), staying(&[V2, V1])] {
            let mut pair = pair(&client(first, &preference), &server);
            let ids = first_ids(&mut pair);
            deliver(&mut pair, version_negotiation(ids, &[forged]));
            pair.run_for(seconds(2));
            let error = own_error(&pair.client_events);
            assert_eq!(error.code, TransportErrorCode::VERSION_NEGOTIATION_ERROR);
            assert!(error.reason().contains("Version Negotiation packet"), "{error}");
            assert!(!pair.client_events.contains(&Event::Connected));
            let Some(ConnectionError::ConnectionClosed { error_code, .. }) =
                closed(&pair.server_events)
            else {
                panic!("{:?}", pair.server_events)
            };
            assert_eq!(*error_code, TransportErrorCode::VERSION_NEGOTIATION_ERROR);
        }
    }
}

/// A forged packet that leads to the client's preferred version costs a round trip and does no
/// harm.
#[test]
fn an_upgrade_by_a_forged_version_negotiation_packet_is_accepted() {
    let mut pair = pair(&client(V1, &[V2, V1]), &staying(&[V1, V2]));
    let ids = first_ids(&mut pair);
    deliver(&mut pair, version_negotiation(ids, &[V2]));
    pair.establish();
    assert_eq!(versions_of(&mut pair), (V2, V2));
    assert_eq!(pair.watch.chosen(Side::Client), [Some(V1), Some(V2)]);
}

/// RFC 9368 §2.1, §4: packets are ignored if they list the version in use, arrive after a response,
/// or respond to a second attempt.
#[test]
fn version_negotiation_packets_that_are_ignored() {
    let both = client(V1, &[V2, V1]);
    let mut pair = pair(&both, &staying(&[V1, V2]));
    let ids = first_ids(&mut pair);
    deliver(&mut pair, version_negotiation(ids, &[V2, V1]));
    assert_eq!(pair.watch.chosen(Side::Client), [Some(V1)]);
    // The connection IDs do not match the client's packet.
    deliver(&mut pair, version_negotiation((ids.1, ids.0), &[V2]));
    assert_eq!(pair.watch.chosen(Side::Client), [Some(V1)]);
    // A second one, in response to the second attempt.
    deliver(&mut pair, version_negotiation(ids, &[V2]));
    assert_eq!(pair.watch.chosen(Side::Client), [Some(V1), Some(V2)]);
    let second = first_ids(&mut pair);
    assert_ne!(second.0, ids.0, "another connection ID for the second attempt");
    for versions in [&[V1][..], &[V2, V1], &[Version(7)]] {
        deliver(&mut pair, version_negotiation(second, versions));
        deliver(&mut pair, version_negotiation(ids, versions));
    }
    assert_eq!(pair.watch.chosen(Side::Client), [Some(V1), Some(V2)]);
    pair.establish();
    assert_eq!(versions_of(&mut pair), (V2, V2));
}

/// An attacker who does not see the client's first packet has to guess both connection IDs. Packets
/// with only one correct ID, with parts of the IDs or with neither have no effect, regardless of
/// the listed versions.
#[test]
fn an_attacker_off_the_path_cannot_change_the_version() {
    for (client, server) in [
        (client(V1, &[V2, V1]), staying(&[V1, V2])),
        (client(V2, &[V2, V1]), staying(&[V2, V1])),
        (client(V1, &[V1]), staying(&[V1])),
    ] {
        let mut pair = pair(&client, &server);
        let (destination, source) = first_ids(&mut pair);
        let chosen = pair.watch.chosen(Side::Client);
        let empty = ConnectionId::new(&[]).unwrap();
        let mut forged = vec![(empty, empty), (source, destination), (destination, destination)];
        for guessed in [destination, source] {
            for place in 0..guessed.as_bytes().len() {
                let mut wrong = guessed.as_bytes().to_vec();
                wrong[place] ^= 1;
                let shorter = &guessed.as_bytes()[..place];
                let longer = [guessed.as_bytes(), &[0]].concat();
                for wrong in [&wrong[..], shorter, &longer] {
                    let wrong = ConnectionId::new(wrong).unwrap();
                    forged.extend([(wrong, source), (destination, wrong), (wrong, wrong)]);
                }
            }
        }
        // The part that replaces a shorter ID may happen to be identical.
        forged.retain(|ids| *ids != (destination, source));
        assert!(destination.as_bytes().len() >= 8);
        for ids in forged {
            for versions in [&[V1][..], &[V2], &[Version(7)]] {
                deliver(&mut pair, version_negotiation(ids, versions));
            }
        }
        assert_eq!(pair.watch.chosen(Side::Client), chosen);
        assert!(closed(&pair.client_events).is_none());
        pair.establish();
    }
}

/// Before each datagram that reaches the client, an attacker who sees everything answers the
/// client's latest packet with a Version Negotiation packet. Such a packet has an effect only
/// before the first response.
#[test]
fn a_version_negotiation_packet_at_every_moment() {
    for server in [staying(&[V2, V1]), changing(&[V2, V1])] {
        for moment in 0..12 {
            let mut pair = Pair::with(delayed(10, 1), client(V1, &[V2, V1]), server.clone());
            let ids = Arc::new(std::sync::Mutex::new(None));
            let (noted, mut count) = (ids.clone(), 0);
            let forged = Arc::new(std::sync::Mutex::new(None));
            let forge = forged.clone();
            pair.filter = Some(Box::new(move |_, way, payload| {
                let mut ids = noted.lock().unwrap();
                match (way, Invariant::decode(payload, 8)) {
                    (
                        Way::ToServer,
                        Ok(Invariant::Long {
                            destination_connection_id: destination,
                            source_connection_id: source,
                            ..
                        }),
                    ) => {
                        let id = |bytes| ConnectionId::new(bytes).unwrap();
                        *ids = Some((id(destination), id(source)));
                    }
                    (Way::ToClient, _) => {
                        if count == moment {
                            *forge.lock().unwrap() = Some(version_negotiation(ids.unwrap(), &[V2]));
                        }
                        count += 1;
                    }
                    _ => {}
                }
                true
            }));
            let mut was_forged = false;
            pair.run_until(seconds(20), |pair| {
                if let Some(packet) = forged.lock().unwrap().take() {
                    was_forged = true;
                    deliver(pair, packet);
                }
                pair.client_events.contains(&Event::HandshakeConfirmed)
            });
            pair.establish();
            let (client, server) = versions_of(&mut pair);
            assert_eq!(client, server, "moment {moment}, {was_forged}");
            assert!(closed(&pair.client_events).is_none());
            let begun_again = pair.watch.chosen(Side::Client).len();
            assert!(moment == 0 || begun_again <= 2, "moment {moment}");
        }
    }
}

/// RFC 9369 §4.1: the client ignores Retry packets with a different version.
#[test]
fn a_retry_of_another_version_is_ignored() {
    let mut pair = pair(&client(V1, &[V2, V1]), &staying(&[V1, V2]));
    // A server with version 2 creates the Retry, with a valid tag, for the client's connection ID.
    let mut other = Pair::with(delayed(10, 2), client(V2, &[V2]), staying(&[V2]));
    let ids = first_ids(&mut pair);
    let mut datagram = initial_of_version_2(ids);
    let arrival = clearway_transport::Arrival {
        remote: address(CLIENT),
        socket: clearway_transport::SocketIndex::default(),
        local_ip: None,
        ecn: EcnCodepoint::NotEct,
    };
    let received = other.server.receive(other.now, arrival, &mut datagram);
    let clearway_transport::Received::Incoming(incoming) = received else { panic!("{received:?}") };
    assert_eq!(incoming.version(), V2);
    other.server.retry(other.now, &incoming);
    let (_, retry) = other.server.next_reply().unwrap();
    deliver(&mut pair, retry);
    pair.establish();
    assert_eq!(versions_of(&mut pair), (V1, V1));
    let parameters = pair.client().peer_parameters().unwrap();
    assert_eq!(parameters.retry_source_connection_id, None);
}

/// Returns the header of an Initial packet of version 2, without anything that could be decrypted.
fn initial_of_version_2((destination, source): (ConnectionId, ConnectionId)) -> Vec<u8> {
    use clearway_wire::header::{LongHeader, set_length};
    let mut datagram = vec![0; 1200];
    let mut writer = Writer::new(&mut datagram);
    let packet_type = LongPacketType::Initial;
    let header = LongHeader { packet_type, version: V2, destination, source, token: &[] };
    let offsets = header.encode(&mut writer, clearway_wire::PacketNumber::ZERO, 4).unwrap();
    set_length(&mut datagram, offsets.length, 1200 - offsets.packet_number).unwrap();
    datagram
}

/// RFC 9369 §4.1: packets with a version other than the negotiated one are dropped.
#[test]
fn packets_of_other_versions_are_dropped() {
    for (to, way) in [(Side::Server, Way::ToServer), (Side::Client, Way::ToClient)] {
        let mut pair = pair(&client(V1, &[V2, V1]), &staying(&[V1, V2]));
        let mut changed = 0;
        let handshake = LongPacketType::Handshake;
        pair.filter = Some(Box::new(move |_, of, payload| {
            let start = start_of(payload, handshake);
            if let Some(start) = start.filter(|_| of == way && changed < 2) {
                changed += 1;
                payload[start] = payload[start] & 0xcf | 0x30;
                payload[start + 1..start + 5].copy_from_slice(&V2.0.to_be_bytes());
            }
            true
        }));
        pair.establish();
        assert!(pair.watch.drops(to, DropReason::UnsupportedVersion) > 0, "{to:?}");
        assert_eq!(versions_of(&mut pair), (V1, V1));
    }
}

/// A forged Initial packet, for which anyone on the path has the keys, makes the client expect
/// version 2, which the server does not support. The handshake fails, as it does after any forged
/// Initial packet; it does not complete in a wrong version.
#[test]
fn a_forged_change_of_the_version_does_not_complete_a_handshake() {
    let timeout = |it: TransportConfigBuilder| it.handshake_timeout(seconds(5));
    let both = timeout(client(V1, &[V2, V1]).to_builder()).build().unwrap();
    let mut pair = pair(&both, &staying(&[V1]));
    let mut first = first_datagram(&mut pair);
    deliver(&mut pair, forged_initial(ids_of(&first)));
    assert_eq!(pair.client().version(), V2);
    pair.deliver(Way::ToServer, address(CLIENT), &mut first);
    pair.run_for(seconds(20));
    assert!(!pair.client_events.contains(&Event::Connected));
    assert!(pair.watch.drops(Side::Client, DropReason::UnsupportedVersion) > 0);
}

/// Returns a PING from the server in an Initial packet of version 2.
fn forged_initial((destination, source): (ConnectionId, ConnectionId)) -> Vec<u8> {
    let initial = Initial {
        side: Side::Server,
        version: V2,
        began_with: destination.as_bytes(),
        destination: source.as_bytes(),
        source: &[9; 8],
        number: 0,
        frames: &[1],
    };
    initial.datagram(1200)
}

/// Returns a client's Initial packet of version 1 that acknowledges the server's first packet.
/// `ids` are the connection IDs of the client's first packet.
fn acknowledgment((destination, source): (ConnectionId, ConnectionId)) -> Vec<u8> {
    let initial = Initial {
        side: Side::Client,
        version: V1,
        began_with: destination.as_bytes(),
        destination: destination.as_bytes(),
        source: source.as_bytes(),
        // The client later sends a packet with this number, which is then a duplicate.
        number: 1,
        // The largest acknowledged number, the delay, the number of additional ranges, and the
        // first range.
        frames: &[2, 0, 0, 0, 0],
    };
    initial.datagram(1200)
}

/// picoquic's behavior: the client ignores the packet that changes the version, acknowledges its
/// number anyway, and repeats its ClientHello. The server repeats the ServerHello (RFC 9002
/// §6.2.3).
#[test]
fn a_client_that_skips_the_change_of_the_version_gets_the_server_hello_again() {
    let mut pair = pair(&client(V1, &[V2, V1]), &changing(&[V2, V1]));
    let mut first = first_datagram(&mut pair);
    let ids = ids_of(&first);
    let mut is_skipped = false;
    pair.filter = Some(Box::new(move |_, way, payload| {
        let changes = long_headers(payload).contains(&(V2, LongPacketType::Initial));
        let skips = way == Way::ToClient && changes && !is_skipped;
        is_skipped |= skips;
        !skips
    }));
    pair.deliver(Way::ToServer, address(CLIENT), &mut first);
    pair.flush();
    pair.deliver(Way::ToServer, address(CLIENT), &mut acknowledgment(ids));
    pair.run_until(seconds(20), |pair| pair.client_events.contains(&Event::Connected));
    pair.establish();
    assert_eq!(versions_of(&mut pair), (V2, V2));
}

/// RFC 9369 §5: a token from one version does not validate the address on a connection with the
/// other.
#[test]
fn a_token_belongs_to_the_version_of_its_connection() {
    let first_of = |first| Arc::new(client(first, &[V2, V1]));
    for (server, of_token, of_second, is_valid) in [
        (staying(&[V1, V2]), V1, V1, true),
        (staying(&[V1, V2]), V1, V2, false),
        (staying(&[V1, V2]), V2, V2, true),
        // The token belongs to the negotiated version, not to the version of the first flight.
        (changing(&[V2, V1]), V1, V2, true),
        (changing(&[V2, V1]), V1, V1, false),
    ] {
        let mut pair = pair(&first_of(of_token), &server);
        pair.establish();
        pair.run_for(seconds(1));
        let token = pair.client_events.iter().find_map(|event| match event {
            Event::NewToken(token) => Some(token.to_vec()),
            _ => None,
        });
        pair.client_config.transport = first_of(of_second);
        pair.reconnect(token.unwrap());
        pair.door = Door::Retry;
        pair.run_until(seconds(5), |pair| pair.client_events.contains(&Event::Connected));
        let parameters = pair.client().peer_parameters().unwrap();
        let was_retried = parameters.retry_source_connection_id.is_some();
        assert_eq!(was_retried, !is_valid, "{of_token} {of_second}");
    }
}

/// RFC 9369 §4.1: the client must not change the version after a Retry, and a server drops packets
/// that do.
#[test]
fn a_retry_token_in_another_version_is_dropped() {
    use clearway_transport::{Arrival, Received};
    let mut pair = pair(&client(V1, &[V1]), &staying(&[V1, V2]));
    let arrival = Arrival {
        remote: address(CLIENT),
        socket: clearway_transport::SocketIndex::default(),
        local_ip: None,
        ecn: EcnCodepoint::NotEct,
    };
    let mut buffer = vec![0; 2000];
    let transmit = pair.client.transmit(pair.handle, pair.now, &mut buffer, 1).unwrap();
    let received = pair.server.receive(pair.now, arrival, &mut buffer[..transmit.size]);
    let Received::Incoming(incoming) = received else { panic!("{received:?}") };
    pair.server.retry(pair.now, &incoming);
    let (_, retry) = pair.server.next_reply().unwrap();
    let HeaderKind::Retry(retry) = ProtectedHeader::decode(&retry, 8).unwrap().kind else {
        panic!("no Retry")
    };
    for (version, is_answered) in [(V2, false), (V1, true)] {
        use clearway_wire::header::{LongHeader, set_length};
        let mut datagram = vec![0; 1200];
        let mut writer = Writer::new(&mut datagram);
        let header = LongHeader {
            packet_type: LongPacketType::Initial,
            version,
            destination: retry.source,
            source: retry.destination,
            token: retry.token,
        };
        let offsets = header.encode(&mut writer, clearway_wire::PacketNumber::ZERO, 4).unwrap();
        set_length(&mut datagram, offsets.length, 1200 - offsets.packet_number).unwrap();
        let received = pair.server.receive(pair.now, arrival, &mut datagram);
        assert_eq!(matches!(received, Received::Incoming(_)), is_answered, "{version}");
    }
}

/// A server answers other versions with all versions that it supports, and a reserved one.
#[test]
fn a_version_negotiation_packet_lists_what_the_server_speaks() {
    for versions in [&[V1][..], &[V2], &[V2, V1]] {
        let mut pair = pair(&client(V1, &[V1]), &staying(versions));
        let mut datagram = vec![0x5a; 1200];
        datagram[..7].copy_from_slice(&[0xc0, 0x5a, 0x5a, 0x5a, 0x5a, 0, 0]);
        pair.deliver(Way::ToServer, address(CLIENT), &mut datagram);
        let (_, reply) = pair.server.next_reply().unwrap();
        let HeaderKind::VersionNegotiation(packet) =
            ProtectedHeader::decode(&reply, 8).unwrap().kind
        else {
            panic!("no Version Negotiation packet")
        };
        let listed: Vec<Version> = packet.versions().collect();
        assert_eq!(listed[..versions.len()], *versions);
        assert!(listed.len() == versions.len() + 1 && listed.last().unwrap().is_reserved());
    }
}

/// The default client begins in version 1 and offers both; the default server stays with version 1.
#[test]
fn the_defaults_speak_version_1_and_offer_version_2() {
    let mut pair = pair(&quiet(), &quiet());
    pair.establish();
    assert_eq!(versions_of(&mut pair), (V1, V1));
    let of_client = pair.server().peer_parameters().unwrap().version_information.clone().unwrap();
    assert_eq!((of_client.chosen, of_client.available), (V1, vec![V2, V1]));
    let of_server = pair.client().peer_parameters().unwrap().version_information.clone().unwrap();
    assert_eq!((of_server.chosen, of_server.available), (V1, vec![V2, V1]));
}

#[test]
fn without_version_information_nothing_is_negotiated() {
    let silent = settings(|it| it.version_information(false));
    for server in [staying(&[V1, V2]), changing(&[V2, V1])] {
        let mut pair = pair(&silent, &server);
        pair.establish();
        assert_eq!(versions_of(&mut pair), (V1, V1));
        assert_eq!(pair.server().peer_parameters().unwrap().version_information, None);
    }
    let mut pair = pair(&silent, &staying(&[V2]));
    pair.run_for(seconds(1));
    assert_eq!(closed(&pair.client_events), Some(&ConnectionError::VersionMismatch));
}

/// A server refuses a version 2 client using version 2.
#[test]
fn a_refusal_has_the_client_s_version() {
    let mut pair = pair(&client(V2, &[V2]), &staying(&[V1, V2]));
    pair.door = Door::Refuse;
    pair.run_for(seconds(1));
    let Some(ConnectionError::ConnectionClosed { error_code, .. }) = closed(&pair.client_events)
    else {
        panic!("{:?}", pair.client_events)
    };
    assert_eq!(*error_code, TransportErrorCode::CONNECTION_REFUSED);
    assert!(
        pair.watch.received(Side::Client).iter().all(|it| it.packet_type == PacketType::Initial)
    );
}
