//! Connection migration (RFC 9000 §8.2, §9): NAT rebinding, path validation, spoofed addresses.

use crate::support::{self, Pair, address, delayed, milliseconds, probability, quiet, seconds};
use clearway_network::{LinkConfig, LossModel, LossRule, Rebind, Way, Window};
use clearway_transport::{ConnectionError, Event, Side, TransportConfig};
use clearway_units::Rate;
use clearway_wire::Direction;

const PATH_CHALLENGE: u64 = 0x1a;
const PATH_RESPONSE: u64 = 0x1b;

fn rebinding(first: u64, every: Option<u64>, address: bool, seed: u64) -> LinkConfig {
    let rebind = Rebind { first: milliseconds(first), every: every.map(milliseconds), address };
    let mut link = delayed(10, seed);
    for conditions in [&mut link.to_server, &mut link.to_client] {
        conditions.rate = Some(Rate::from_bits_per_second(10_000_000));
    }
    LinkConfig { rebind: Some(rebind), ..link }
}

fn keeping_alive() -> TransportConfig {
    quiet().to_builder().keep_alive_interval(Some(milliseconds(500))).build().unwrap()
}

fn migrations(pair: &Pair) -> usize {
    pair.server_events.iter().filter(|event| matches!(event, Event::PeerMigrated(_))).count()
}

/// The client's last handshake message is lost, and the NAT drops its mapping before the
/// retransmission: the server responds to the new address, although only handshake packets have
/// been sent so far.
#[test]
fn a_rebinding_during_the_handshake_is_followed() {
    for address in [false, true] {
        let mut link = rebinding(25, None, address, 5);
        let model = LossModel::List { numbers: vec![2, 3] };
        link.to_server.loss = vec![LossRule { model, window: Window::Always }];
        let mut pair = Pair::new(link);
        let start = pair.now;
        pair.establish();
        assert!(pair.now.saturating_since(start) < milliseconds(2000), "{address}");
        assert_eq!(pair.accepted.len(), 1);
    }
}

/// An upload continues after the NAT has assigned the client another port, or another address.
#[test]
fn an_upload_survives_a_rebinding() {
    for changes_ip in [false, true] {
        let mut pair = Pair::new(rebinding(200, None, changes_ip, 1));
        pair.establish();
        let stream = pair.client().open(Direction::Unidirectional).unwrap();
        let data = support::pattern(1 << 20);
        let start = pair.now;
        let mut received = 0;
        let mut written = 0;
        let mut remote = None;
        let done = pair.run_until(seconds(30), |pair| {
            let room = pair.client().write(stream, data.slice(written..));
            written += room.unwrap_or(0);
            let now = pair.now;
            remote = remote.or_else(|| pair.server().accept(Direction::Unidirectional));
            while let Some(remote) = remote
                && let Ok(clearway_transport::ReadOutcome::Data(data)) =
                    pair.server().read(now, remote, usize::MAX)
            {
                received += data.len();
            }
            received == data.len()
        });
        assert!(done, "{received}");
        assert!(pair.now.saturating_since(start) < seconds(3));
        assert_eq!(migrations(&pair), 1);
        let expected = pair.bindings[1];
        assert_eq!(pair.server().remote_address(), expected);
        assert_eq!(expected.ip() != pair.bindings[0].ip(), changes_ip);
    }
}

/// In a download the client only acknowledges, and after the rebinding it receives nothing: a
/// keep-alive PING reveals its new address to the server. The server has measured the path, so it
/// can then respond to that small packet, although three times its size is not much (§8.2.1).
#[test]
fn a_download_survives_rebindings() {
    for changes_ip in [false, true] {
        let link = rebinding(300, Some(2000), changes_ip, 2);
        let mut pair = Pair::with(link, keeping_alive(), quiet());
        let took = pair.download(3 << 20, seconds(60));
        assert!(took.is_some_and(|took| took < seconds(20)), "{took:?} {:?}", pair.now);
        assert!(migrations(&pair) >= 1);
    }
}

/// §8.2.1, §8.2.2: PATH_CHALLENGE is answered with PATH_RESPONSE, and the datagrams that carry them
/// are expanded to 1200 bytes if the anti-amplification limit (§8.1) allows it.
#[test]
fn path_challenge_and_path_response_are_expanded() {
    let mut pair = Pair::new(rebinding(1000, None, true, 3));
    pair.establish();
    pair.run_for(seconds(2));
    let stream = pair.client().open(Direction::Bidirectional).unwrap();
    pair.client().write_slice(stream, &[0; 1000]).unwrap();
    pair.run_for(seconds(1));
    let challenges: Vec<_> = pair.watch.sent(Side::Server);
    let sizes: Vec<usize> =
        challenges.iter().filter(|packet| packet.has(PATH_CHALLENGE)).map(|p| p.size).collect();
    assert!(!sizes.is_empty() && sizes.iter().all(|size| *size >= 1200), "{sizes:?}");
    let responses = pair.watch.sent(Side::Client);
    let sizes: Vec<usize> =
        responses.iter().filter(|packet| packet.has(PATH_RESPONSE)).map(|p| p.size).collect();
    assert!(!sizes.is_empty() && sizes.iter().all(|size| *size >= 1200), "{sizes:?}");
    assert_eq!(migrations(&pair), 1);
}

/// §9.4: congestion control and the round-trip time estimate are reset for a new IP address. If
/// only the port changed, the path is most likely the same, and they are kept.
#[test]
fn a_new_ip_address_resets_congestion_control() {
    for changes_ip in [false, true] {
        let mut pair = Pair::new(rebinding(3000, None, changes_ip, 9));
        pair.download(500_000, seconds(2)).expect("not finished");
        pair.run_for(seconds(3));
        let before = pair.server().statistics();
        assert!(before.congestion_window > 12_000 && before.minimum_rtt.is_some());
        pair.client().ping();
        pair.run_until(seconds(1), |pair| migrations(pair) == 1);
        let after = pair.server().statistics();
        assert_eq!(after.congestion_window == 12_000, changes_ip, "{after:?}");
        assert_eq!(after.minimum_rtt.is_none(), changes_ip, "{after:?}");
    }
}

/// Returns a packet from the client that an on-path attacker could intercept and send from another
/// address.
fn stolen_packet(pair: &mut Pair, data: usize) -> Vec<u8> {
    let stream = pair.client().open(Direction::Bidirectional).unwrap();
    pair.client().write_slice(stream, &vec![0; data]).unwrap();
    let mut buffer = vec![0; 2000];
    let transmit = pair.client.transmit(pair.handle, pair.now, &mut buffer, 1).unwrap();
    pair.client.transmitted(pair.handle, pair.now);
    buffer[..transmit.size].to_vec()
}

/// §9.3.1, §9.3.2: the anti-amplification limit applies to an address that is not validated.
/// Without a PATH_RESPONSE, the server returns to the last validated path, regardless of how long
/// the real client is silent.
#[test]
fn the_server_returns_from_a_spoofed_address_to_the_validated_one() {
    let mut pair = Pair::new(delayed(10, 4));
    pair.establish();
    pair.run_for(seconds(1));
    let real_address = pair.bindings[0];
    let mut stolen = stolen_packet(&mut pair, 500);
    let spoofed = address("10.6.6.6:6666");
    pair.deliver(Way::ToServer, spoofed, &mut stolen);
    let silent_until = pair.now + seconds(4);
    pair.filter = Some(Box::new(move |now, way, _| way == Way::ToClient || now >= silent_until));
    // The server has a lot of data to send.
    let stream = pair.server().open(Direction::Unidirectional).unwrap();
    pair.server().write(stream, support::pattern(200_000)).unwrap();
    pair.run_for(milliseconds(5));
    assert_eq!(pair.server().remote_address(), spoofed);
    pair.run_for(milliseconds(3500));
    assert_eq!(pair.server().remote_address(), real_address);
    assert_eq!(migrations(&pair), 2, "there and back");
    let spoofed_bytes: usize = pair.sent_elsewhere.iter().map(|(_, size)| size).sum();
    assert!(spoofed_bytes > 0 && spoofed_bytes <= 3 * stolen.len(), "{spoofed_bytes}");
    let mut received = Vec::new();
    let accepted = pair.client().accept(Direction::Unidirectional).unwrap();
    pair.run_until(seconds(30), |pair| {
        pair.read_all(accepted, &mut received);
        received.len() == 200_000
    });
    assert_eq!(received.len(), 200_000);
}

/// §9.3.2: a packet from the real client moves the connection back to its address immediately.
#[test]
fn a_packet_from_the_real_address_migrates_back() {
    let mut pair = Pair::new(delayed(10, 5));
    pair.establish();
    pair.run_for(seconds(1));
    let mut stolen = stolen_packet(&mut pair, 500);
    pair.deliver(Way::ToServer, address("10.6.6.6:6666"), &mut stolen);
    pair.client().ping();
    pair.run_for(milliseconds(15));
    let real_address = pair.bindings[0];
    assert_eq!(pair.server().remote_address(), real_address);
    // On the validated path the anti-amplification limit does not apply, and the server sends
    // immediately.
    let stream = pair.server().open(Direction::Unidirectional).unwrap();
    pair.server().write(stream, support::pattern(10_000)).unwrap();
    pair.run_for(milliseconds(100));
    let accepted = pair.client().accept(Direction::Unidirectional).unwrap();
    let mut received = Vec::new();
    pair.read_all(accepted, &mut received);
    assert_eq!(received.len(), 10_000);
}

/// §9.3: only the packet with the highest packet number migrates the connection.
#[test]
fn an_old_packet_from_elsewhere_moves_nothing() {
    let mut pair = Pair::new(delayed(10, 6));
    pair.establish();
    let mut stolen = stolen_packet(&mut pair, 500);
    pair.client().ping();
    pair.run_for(milliseconds(11));
    pair.deliver(Way::ToServer, address("10.6.6.6:6666"), &mut stolen);
    pair.run_for(seconds(1));
    assert_eq!(migrations(&pair), 0);
    assert!(pair.sent_elsewhere.is_empty());
}

/// §9: a client discards packets from addresses other than the server's.
#[test]
fn a_client_drops_packets_from_another_address() {
    let mut pair = Pair::new(delayed(10, 7));
    pair.establish();
    pair.server().ping();
    let mut buffer = vec![0; 2000];
    let server = pair.accepted[0];
    let transmit = pair.server.transmit(server, pair.now, &mut buffer, 1).unwrap();
    pair.server.transmitted(server, pair.now);
    let received = pair.watch.received(Side::Client).len();
    pair.deliver(Way::ToClient, address("10.6.6.6:443"), &mut buffer[..transmit.size]);
    assert_eq!(pair.watch.received(Side::Client).len(), received);
}

/// Under loss, the server sends more PATH_CHALLENGE frames (§8.2.1) until the path is validated.
#[test]
fn a_rebinding_under_loss_is_survived_on_every_seed() {
    for seed in 0..10 {
        let mut link = rebinding(500, Some(20_000), seed % 2 == 0, seed);
        let loss = vec![LossRule::random(probability(20.0))];
        link.to_server.loss = loss.clone();
        link.to_client.loss = loss;
        let mut pair = Pair::with(link, keeping_alive(), quiet());
        let took = pair.download(300_000, seconds(120));
        assert!(took.is_some(), "seed {seed}: {:?}", pair.server().statistics());
        pair.run_for(seconds(30));
        assert!(!pair.server().is_closed() && !pair.client().is_closed());
    }
}

/// The client disappears right after it has migrated. The server closes because of its idle
/// timeout, not with another error.
#[test]
fn a_peer_that_disappears_after_migration_times_out() {
    let config = quiet().to_builder().max_idle_timeout(Some(seconds(10))).build().unwrap();
    let mut pair = Pair::with(delayed(10, 8), config.clone(), config);
    pair.establish();
    pair.run_for(seconds(1));
    let mut stolen = stolen_packet(&mut pair, 100);
    pair.filter = Some(Box::new(|_, _, _| false));
    pair.deliver(Way::ToServer, address("10.6.6.6:6666"), &mut stolen);
    pair.run_for(seconds(60));
    let last = pair.server_events.last();
    assert_eq!(last, Some(&Event::Closed(ConnectionError::TimedOut)));
}
