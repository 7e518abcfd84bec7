//! Tests what a failed handshake reports about the packets that arrived.

use crate::support::versions::{V1, V2, closed};
use crate::support::{Door, Filter, Pair, SERVER, address, delayed, milliseconds, quiet, seconds};
use clearway_network::Way;
use clearway_transport::{
    ConnectionError, DropReason, HandshakePackets, Side, TransportConfigBuilder,
};
use clearway_wire::Version;

/// The position of the Destination Connection ID in these tests' packets.
const ID: usize = 6;

/// Returns the settings of a client that gives up after three seconds.
fn impatient() -> TransportConfigBuilder {
    quiet().to_builder().handshake_timeout(seconds(3))
}

fn pair(client: TransportConfigBuilder, filter: Filter) -> Pair {
    let server = quiet().to_builder().versions([V1]).build().unwrap();
    let mut pair = Pair::with(delayed(10, 1), client.build().unwrap(), server);
    pair.filter = Some(filter);
    pair
}

/// Runs until the client has given up. Checks that its counts equal its statistics, and that no
/// other packets are dropped.
fn give_up(pair: &mut Pair) -> HandshakePackets {
    assert!(pair.run_until(seconds(4), |pair| closed(&pair.client_events).is_some()));
    let error = closed(&pair.client_events).cloned().unwrap();
    let ConnectionError::HandshakeTimedOut(packets) = error else { panic!("{error:?}") };
    let text = error.to_string();
    assert_eq!(text, format!("the handshake did not complete in time: {packets}"));
    let statistics = pair.client().statistics();
    assert_eq!(statistics.handshake_packets, Some(packets));
    let waiting = packets.dropped.total() - statistics.packets_dropped;
    assert!(waiting <= 10, "{waiting} packets wait for their keys");
    packets
}

/// Returns what a client reports if `change` is applied to every datagram from the server.
fn with_changed(client: TransportConfigBuilder, change: fn(&mut Vec<u8>)) -> HandshakePackets {
    let mut pair = pair(
        client,
        Box::new(move |_, way, datagram| {
            if way == Way::ToClient {
                change(datagram);
            }
            true
        }),
    );
    give_up(&mut pair)
}

fn assert_all_dropped_for(packets: &HandshakePackets, reason: DropReason, text: &str) {
    let count = packets.dropped.get(reason);
    assert!(count > 1, "{packets}");
    assert_eq!((packets.processed, packets.dropped.total()), (0, count), "{packets}");
    assert_eq!(
        packets.to_string(),
        format!("{count} packets arrived and all were dropped: {count} {text}")
    );
}

#[test]
fn a_silent_path_is_called_that() {
    let mut pair = pair(impatient(), Box::new(|_, _, _| false));
    assert_eq!(give_up(&mut pair), HandshakePackets::default());
    assert_eq!(HandshakePackets::default().to_string(), "nothing arrived");
}

/// The path modifies a byte of the Initial packets. The Handshake packets after them wait for their
/// keys.
#[test]
fn packets_that_cannot_be_decrypted_are_counted() {
    let packets = with_changed(impatient(), |datagram| {
        datagram[60] ^= 1;
    });
    let broken = packets.dropped.get(DropReason::DecryptionFailure);
    let waiting = packets.dropped.get(DropReason::KeyUnavailable);
    assert!(broken > 1 && waiting > 0, "{packets}");
    assert_eq!((packets.processed, packets.arrived()), (0, broken + waiting));
    let text = packets.to_string();
    assert!(text.contains(&format!("{broken} could not be decrypted")), "{text}");
    assert!(text.contains("and all were dropped: "), "{text}");
}

#[test]
fn packets_of_another_version_are_counted() {
    // One of the versions does not exist, and the other is one that this client does not offer.
    let unknown = with_changed(impatient(), |datagram| {
        datagram[1..5].copy_from_slice(&0x1a2a_3a4a_u32.to_be_bytes());
    });
    let second = with_changed(impatient().versions([V1]), |datagram| {
        datagram[1..5].copy_from_slice(&Version::V2.0.to_be_bytes());
        // The same packet type in version 2 (RFC 9369 §3.2).
        let kind = (datagram[0] >> 4) & 3;
        datagram[0] = datagram[0] & 0xcf | ((kind + 1) & 3) << 4;
    });
    assert_all_dropped_for(&unknown, DropReason::UnsupportedVersion, "had an unknown version");
    assert!(second.dropped.get(DropReason::UnsupportedVersion) > 1, "{second}");
    assert_eq!(second.processed, 0);
}

/// Packets with an unknown connection ID are not delivered to any connection, but are counted
/// because they come from the server's address.
#[test]
fn packets_with_an_unknown_connection_id_are_counted() {
    let packets = with_changed(impatient(), |datagram| datagram[ID] ^= 1);
    let text = "had an unknown connection ID";
    assert_all_dropped_for(&packets, DropReason::ConnectionUnknown, text);
}

#[test]
fn what_is_not_quic_is_counted() {
    let packets = with_changed(impatient(), |datagram| *datagram = b"hi".to_vec());
    assert_all_dropped_for(&packets, DropReason::Invalid, "did not parse as QUIC");
}

/// The server forgets its tokens, as happens with two servers behind one address that do not share
/// their keys.
#[test]
fn a_server_that_repeats_retry_is_named() {
    let mut pair = pair(impatient(), Box::new(|_, _, _| true));
    pair.door = Door::Retry;
    // A new server has new keys.
    while closed(&pair.client_events).is_none() {
        pair.restart_server();
        pair.run_for(milliseconds(15));
    }
    let packets = give_up(&mut pair);
    let repeated = packets.dropped.get(DropReason::Retry);
    assert!(packets.followed_retry && packets.processed == 0 && repeated > 1, "{packets}");
    assert_eq!(packets.arrived(), 1 + repeated);
    assert!(packets.to_string().contains(", a Retry was accepted and "), "{packets}");
}

#[test]
fn a_version_negotiation_is_named() {
    let mut sent = 0;
    let client = impatient().versions([V2, V1]).first_version(V2);
    let mut pair = pair(
        client,
        Box::new(move |_, way, _| {
            sent += u32::from(way == Way::ToServer);
            sent == 1
        }),
    );
    let packets = give_up(&mut pair);
    assert!(packets.followed_version_negotiation, "{packets}");
    assert_eq!(packets.to_string(), "1 packet arrived, a Version Negotiation was accepted");
}

/// A Version Negotiation that lists the client's own version is ignored (RFC 9000 §6.2).
#[test]
fn a_version_negotiation_that_is_ignored_is_counted() {
    let packets = with_changed(impatient(), |datagram| {
        // Byte 0, version 0, both connection IDs unchanged, and version 1.
        let destination = usize::from(datagram[5]);
        let source = usize::from(datagram[ID + destination]);
        datagram.truncate(ID + destination + 1 + source);
        datagram[1..5].fill(0);
        datagram.extend_from_slice(&Version::V1.0.to_be_bytes());
    });
    let text = "contained an unacceptable Version Negotiation";
    assert_all_dropped_for(&packets, DropReason::VersionNegotiation, text);
}

/// The idle timeout may be shorter than the handshake timeout.
#[test]
fn an_idle_timeout_during_the_handshake_says_what_arrived() {
    let client = quiet().to_builder().max_idle_timeout(Some(milliseconds(500)));
    let packets = with_changed(client, |datagram| datagram[ID] ^= 1);
    let text = "had an unknown connection ID";
    assert_all_dropped_for(&packets, DropReason::ConnectionUnknown, text);
}

/// A server also reports what arrived: here the client's first packets, and no response to its own.
#[test]
fn a_server_says_what_arrived() {
    let server = quiet().to_builder().handshake_timeout(seconds(3)).build().unwrap();
    let mut pair = Pair::with(delayed(10, 1), quiet(), server);
    pair.filter = Some(Box::new(|_, way, _| way == Way::ToServer));
    assert!(pair.run_until(seconds(4), |pair| closed(&pair.server_events).is_some()));
    let error = closed(&pair.server_events).unwrap();
    let ConnectionError::HandshakeTimedOut(packets) = error else { panic!("{error:?}") };
    assert!(packets.processed > 1, "{packets}");
    assert_eq!(packets.to_string(), format!("{} packets arrived", packets.processed));
}

/// A completed handshake keeps no counts, and packets that belong to no connection are no longer
/// attributed to it.
#[test]
fn a_completed_handshake_keeps_no_counts() {
    let mut stray = vec![0x40; 100];
    let mut pair = pair(impatient(), Box::new(|_, _, _| true));
    pair.deliver(Way::ToClient, address(SERVER), &mut stray.clone());
    let unknown = DropReason::ConnectionUnknown;
    let packets = pair.client().statistics().handshake_packets.unwrap();
    assert_eq!((packets.arrived(), packets.dropped.get(unknown)), (1, 1));
    // A packet from another address could belong to any connection.
    pair.deliver(Way::ToClient, address("10.6.6.6:443"), &mut stray.clone());
    assert_eq!(pair.watch.drops(Side::Client, unknown), 1);
    pair.establish();
    pair.deliver(Way::ToClient, address(SERVER), &mut stray);
    assert_eq!(pair.watch.drops(Side::Client, unknown), 1);
    let statistics = pair.client().statistics();
    assert_eq!((statistics.handshake_packets, statistics.packets_dropped), (None, 1));
}

/// Concurrent handshakes with one server share the packets that cannot be attributed to one of
/// them.
#[test]
fn a_few_handshakes_with_one_server_share_the_counts() {
    let mut pair = pair(impatient(), Box::new(|_, _, _| false));
    let mut handles = vec![pair.handle];
    for _ in 0..20 {
        pair.reconnect(Vec::new());
        handles.push(pair.handle);
    }
    pair.deliver(Way::ToClient, address(SERVER), &mut [0x40; 100]);
    let counted = handles.iter().filter(|handle| {
        let connection = pair.client.connection(**handle).unwrap();
        connection.statistics().packets_dropped == 1
    });
    assert_eq!(counted.count(), 16);
}
