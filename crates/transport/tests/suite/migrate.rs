//! A client that deliberately moves to another local address (RFC 9000 §9.2), and the server's
//! preferred address (§9.6).

use std::time::Duration;

use crate::support::{
    self, CLIENT, PREFERRED, Pair, Route, SECOND_SOCKET, SERVER, address, delayed, lossy,
    milliseconds, quiet, seconds,
};
use clearway_network::{LinkConfig, LossRule, Way};
use clearway_transport::{
    Event, IgnoredAddress, MigrationError, MigrationFailure, PreferredAddresses, Side, SocketIndex,
    TransportConfig,
};
use clearway_wire::Direction;

const PATH_CHALLENGE: u64 = 0x1a;
const RETIRE_CONNECTION_ID: u64 = 0x19;
const FIRST: SocketIndex = SocketIndex(0);
/// The client's second address: another IP address, or another port of the same one.
const OTHER_IP: &str = "10.0.7.1:50000";
const OTHER_PORT: &str = "10.0.0.1:51000";

/// Creates a pair whose client has a second socket at `client`, connected through `link`.
fn with_second_socket(client: &str, link: LinkConfig, first: LinkConfig) -> Pair {
    let mut pair = Pair::new(first);
    pair.routes.push(Route::second_socket(client, link));
    pair
}

fn migrate(pair: &mut Pair) -> Result<(), MigrationError> {
    let ip = pair.routes[0].client.ip();
    let now = pair.now;
    pair.client().migrate(now, SECOND_SOCKET, Some(ip))
}

fn migrated(pair: &Pair, socket: SocketIndex) -> bool {
    let is_it =
        |event: &Event| matches!(event, Event::Migrated { socket: to, .. } if *to == socket);
    pair.client_events.iter().any(is_it)
}

fn failures(pair: &Pair) -> Vec<MigrationFailure> {
    let failures = pair.client_events.iter().filter_map(|event| match event {
        Event::MigrationFailed { reason, .. } => Some(*reason),
        _ => None,
    });
    failures.collect()
}

/// Returns the Destination Connection IDs of the datagrams sent in one direction on a route.
fn ids_on(route: &Route, way: Way) -> Vec<Vec<u8>> {
    let datagrams = route.entered.iter().filter(|(_, of, _)| *of == way);
    let mut ids: Vec<_> = datagrams.map(|(_, _, datagram)| datagram[1..9].to_vec()).collect();
    ids.dedup();
    ids
}

/// §9.2, §9.5: the new path is validated with datagrams of 1200 bytes and a separate connection ID
/// while the old one is in use. Then all traffic moves to the new path, and the old path's
/// connection ID is retired.
#[test]
fn a_client_moves_to_another_socket() {
    for client in [OTHER_IP, OTHER_PORT] {
        let mut pair = with_second_socket(client, delayed(10, 2), delayed(10, 1));
        pair.establish();
        pair.run_for(seconds(1));
        migrate(&mut pair).unwrap();
        let took = pair.download(300_000, seconds(20)).expect("the download does not end");
        assert!(took < seconds(2), "{took:?}");
        pair.run_for(seconds(10));
        assert!(migrated(&pair, SECOND_SOCKET));
        assert_eq!(pair.server().remote_address(), address(client));
        let left = Event::PathLeft { socket: FIRST, remote: address(SERVER) };
        assert!(pair.client_events.contains(&left), "{:?}", pair.client_events);
        assert!(!pair.client().uses_socket(FIRST) && pair.client().uses_socket(SECOND_SOCKET));
        let route = &pair.routes[0];
        let challenge = &route.entered[0];
        assert_eq!((challenge.1, challenge.2.len()), (Way::ToServer, 1200));
        for way in [Way::ToServer, Way::ToClient] {
            assert_eq!(ids_on(route, way).len(), 1, "one connection ID, {way:?}");
        }
        let retired = pair.watch.sent(Side::Client);
        assert!(retired.iter().any(|packet| packet.has(RETIRE_CONNECTION_ID)));
    }
}

/// The connection IDs of the first path do not appear on the second (§9.5).
#[test]
fn the_paths_have_no_connection_id_in_common() {
    let mut pair = with_second_socket(OTHER_IP, delayed(10, 2), delayed(10, 1));
    let first = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let seen = first.clone();
    pair.filter = Some(Box::new(move |_, way, datagram: &mut Vec<u8>| {
        if datagram[0] & 0x80 == 0 {
            seen.borrow_mut().push((way, datagram[1..9].to_vec()));
        }
        true
    }));
    pair.establish();
    pair.download(50_000, seconds(5)).unwrap();
    let before: Vec<_> = first.borrow().clone();
    migrate(&mut pair).unwrap();
    pair.download(50_000, seconds(5)).unwrap();
    assert!(migrated(&pair, SECOND_SOCKET));
    for way in [Way::ToServer, Way::ToClient] {
        for id in ids_on(&pair.routes[0], way) {
            assert!(!before.contains(&(way, id.clone())), "{way:?} {id:?}");
        }
    }
}

/// §9.4: on another IP address, congestion control and the round-trip time restart at both
/// endpoints. If only the port changes, they are kept.
#[test]
fn what_is_known_of_the_path_begins_anew() {
    for client in [OTHER_IP, OTHER_PORT] {
        let changes_ip = client == OTHER_IP;
        let mut pair = with_second_socket(client, delayed(200, 2), delayed(10, 1));
        pair.establish();
        pair.download(500_000, seconds(10)).unwrap();
        let server_window = pair.server().statistics().congestion_window;
        let before = pair.client().statistics();
        assert!(server_window > 12_000 && before.minimum_rtt.is_some());
        migrate(&mut pair).unwrap();
        pair.run_until(seconds(5), |pair| migrated(pair, SECOND_SOCKET));
        let after = pair.client().statistics();
        assert_eq!(after.minimum_rtt.is_none(), changes_ip, "{client}");
        let moved = |pair: &mut Pair| pair.server().remote_address() == address(client);
        assert!(pair.run_until(seconds(5), moved));
        let after = pair.server().statistics();
        assert_eq!(after.congestion_window <= 12_000, changes_ip, "{after:?}");
        pair.run_for(seconds(5));
        let rtt = pair.client().statistics().minimum_rtt.unwrap();
        assert_eq!(rtt >= milliseconds(400), changes_ip, "{rtt:?}");
    }
}

/// Nothing is received on the new path: the connection stays on the old path, which it never left.
#[test]
fn a_path_that_does_not_work_is_not_used() {
    let mut dead = delayed(10, 2);
    dead.to_server.loss = vec![LossRule::random(support::probability(100.0))];
    let mut pair = with_second_socket(OTHER_IP, dead, delayed(10, 1));
    pair.establish();
    migrate(&mut pair).unwrap();
    assert_eq!(migrate(&mut pair), Err(MigrationError::InProgress));
    let took = pair.download(300_000, seconds(20)).unwrap();
    assert!(took < seconds(2), "{took:?}");
    pair.run_for(seconds(10));
    assert_eq!(failures(&pair), [MigrationFailure::NotValidated]);
    assert!(!pair.client().uses_socket(SECOND_SOCKET));
    let challenges = pair.watch.sent(Side::Client);
    let count = challenges.iter().filter(|packet| packet.has(PATH_CHALLENGE)).count();
    assert_eq!(count, 6, "their intervals double, for three seconds");
    // Another attempt is possible, using another connection ID.
    migrate(&mut pair).unwrap();
}

/// The old path is dead and its window is full. The challenge is sent nevertheless, and the upload
/// continues.
#[test]
fn a_client_moves_away_from_a_dead_path() {
    let mut pair = with_second_socket(OTHER_IP, delayed(10, 2), delayed(10, 1));
    pair.establish();
    pair.run_for(seconds(1));
    let stream = pair.client().open(Direction::Unidirectional).unwrap();
    let data = support::pattern(200_000);
    assert_eq!(pair.client().write(stream, data.clone()), Ok(data.len()));
    pair.client().finish(stream).unwrap();
    pair.run_for(milliseconds(5));
    // From this point on, nothing passes on the first path: the pair's link drops the datagrams
    // that its filter rejects.
    let start = pair.now;
    pair.link = clearway_network::Link::new(LinkConfig {
        to_server: clearway_network::Conditions {
            loss: vec![LossRule::random(support::probability(100.0))],
            ..Default::default()
        },
        ..delayed(10, 3)
    });
    migrate(&mut pair).unwrap();
    let finished = pair.run_until(seconds(10), |pair| {
        let now = pair.now;
        while let Some(stream) = pair.server().accept(Direction::Unidirectional) {
            pair.server_events.push(Event::Readable(stream));
        }
        let _ = pair.server().read(now, stream, usize::MAX);
        pair.client_events.contains(&Event::Finished(stream))
    });
    assert!(finished, "{:?}", pair.client().statistics());
    assert!(pair.now.saturating_since(start) < seconds(3));
}

#[test]
fn migration_is_refused_with_its_reason() {
    let mut pair = with_second_socket(OTHER_IP, delayed(10, 2), delayed(10, 1));
    assert_eq!(migrate(&mut pair), Err(MigrationError::HandshakeNotConfirmed));
    pair.establish();
    let now = pair.now;
    assert_eq!(pair.client().migrate(now, FIRST, None), Err(MigrationError::SameSocket));
    assert_eq!(pair.server().migrate(now, SECOND_SOCKET, None), Err(MigrationError::NotAClient));
    pair.client().close(now, 0_u32.into(), b"");
    assert_eq!(migrate(&mut pair), Err(MigrationError::Closed));

    let forbids = quiet().to_builder().allow_active_migration(false).build().unwrap();
    let mut pair = Pair::with(delayed(10, 1), quiet(), forbids);
    pair.routes.push(Route::second_socket(OTHER_IP, delayed(10, 2)));
    pair.establish();
    assert_eq!(migrate(&mut pair), Err(MigrationError::DisabledByPeer));
}

/// No NEW_CONNECTION_ID has arrived yet, so there is no connection ID for probing (§9.5).
#[test]
fn without_a_spare_connection_id_there_is_no_migration() {
    let mut pair = with_second_socket(OTHER_IP, delayed(10, 2), delayed(10, 1));
    pair.establish();
    let mut refused = false;
    for _ in 0..20 {
        // Each failed attempt uses up an ID, and the server's responses with new IDs are lost.
        pair.filter = Some(Box::new(|_, way, _| way == Way::ToServer));
        match migrate(&mut pair) {
            Ok(()) => {}
            Err(error) => {
                assert_eq!(error, MigrationError::NoSpareConnectionId);
                refused = true;
                break;
            }
        }
        pair.run_for(seconds(30));
    }
    assert!(refused);
    pair.filter = None;
    pair.run_for(seconds(200));
    migrate(&mut pair).unwrap();
    assert!(pair.run_until(seconds(10), |pair| migrated(pair, SECOND_SOCKET)));
}

/// The client moves from A to B and back to A; the second move is like the first.
#[test]
fn a_client_moves_back_again() {
    let mut pair = with_second_socket(OTHER_IP, delayed(10, 2), delayed(10, 1));
    pair.establish();
    pair.run_for(seconds(1));
    for round in 0..6 {
        let socket = if round % 2 == 0 { SECOND_SOCKET } else { FIRST };
        let now = pair.now;
        pair.client().migrate(now, socket, None).unwrap();
        pair.client_events.clear();
        let took = pair.download_more(100_000, seconds(20)).expect("the download does not end");
        assert!(took < seconds(2), "{took:?}");
        assert!(migrated(&pair, socket), "{round}");
    }
    assert_eq!(pair.server().remote_address(), address(CLIENT));
    assert!(!pair.client().is_closed() && !pair.server().is_closed());
}

#[test]
fn a_migration_under_loss_succeeds_or_the_old_path_stays() {
    for seed in 0..20 {
        let mut pair =
            with_second_socket(OTHER_IP, lossy(25.0, 10, seed), lossy(25.0, 10, seed + 50));
        pair.establish_within(seconds(100));
        migrate(&mut pair).unwrap();
        let took = pair.download_more(100_000, seconds(200));
        assert!(took.is_some(), "seed {seed}: {:?}", pair.client_events);
        pair.run_for(seconds(20));
        assert!(migrated(&pair, SECOND_SOCKET) || failures(&pair).len() == 1, "seed {seed}");
    }
}

/// A deliberate migration, a rebinding of the port or of the address, or both, before each datagram
/// of a small transfer: the transfer completes, at the cost of at most a few round trips and probe
/// timeouts.
#[test]
fn a_migration_at_any_moment_of_a_small_transfer_causes_no_stall() {
    for disturbance in 0..5 {
        for moment in 0..60 {
            let mut first = delayed(20, 7);
            if disturbance > 1 {
                first.rebind = Some(clearway_network::Rebind {
                    first: milliseconds(40 + 4 * moment),
                    every: None,
                    address: disturbance % 2 == 0,
                });
            }
            let keeps =
                quiet().to_builder().keep_alive_interval(Some(milliseconds(300))).build().unwrap();
            let mut pair = Pair::with(first, keeps, quiet());
            let client = if disturbance == 0 { OTHER_PORT } else { OTHER_IP };
            pair.routes.push(Route::second_socket(client, delayed(20, 8)));
            let at = pair.now + milliseconds(40 + 4 * moment);
            let mut has_moved = disturbance == 4;
            let took = pair.download_while(150_000, seconds(60), |pair| {
                if !has_moved && pair.now >= at {
                    has_moved = migrate(pair).is_ok();
                }
            });
            let took =
                took.unwrap_or_else(|| panic!("{disturbance} {moment}: {:?}", pair.client_events));
            assert!(took < seconds(4), "{disturbance} {moment}: {took:?}");
            pair.run_for(seconds(10));
            assert!(!pair.client().is_closed() && !pair.server().is_closed());
            if has_moved && disturbance < 4 {
                assert!(migrated(&pair, SECOND_SOCKET), "{disturbance} {moment}");
            }
        }
    }
}

fn preferring(text: &str, client: TransportConfig, server: TransportConfig) -> Pair {
    let addresses = match address(text) {
        std::net::SocketAddr::V4(v4) => PreferredAddresses { v4: Some(v4), v6: None },
        std::net::SocketAddr::V6(v6) => PreferredAddresses { v4: None, v6: Some(v6) },
    };
    let mut pair = Pair::with(delayed(10, 1), client, server);
    pair.prefer(addresses);
    pair.routes.push(Route::preferred(delayed(10, 2)));
    pair
}

/// §9.6: after the handshake, the client validates the server's preferred address, and both
/// endpoints move to it.
#[test]
fn a_client_moves_to_the_preferred_address() {
    let mut pair = preferring(PREFERRED, quiet(), quiet());
    let took = pair.download(300_000, seconds(20)).expect("the download does not end");
    assert!(took < seconds(1), "{took:?}");
    pair.run_for(seconds(10));
    assert_eq!(pair.client().remote_address(), address(PREFERRED));
    let moved = Event::Migrated { socket: SECOND_SOCKET, remote: address(CLIENT) };
    assert!(pair.server_events.contains(&moved), "{:?}", pair.server_events);
    let route = &pair.routes[0];
    for way in [Way::ToServer, Way::ToClient] {
        assert_eq!(ids_on(route, way).len(), 1, "one connection ID, {way:?}");
    }
    let data = route.entered.iter().filter(|(_, way, _)| *way == Way::ToClient).count();
    assert!(data > 200, "{data}");
}

/// §9.6.2: until the client has moved, the server sends to it from the original address; it sends
/// only path validation from the preferred one.
#[test]
fn a_server_stays_at_the_original_address_until_the_client_moves() {
    let staying = quiet().to_builder().follow_preferred_address(false).build().unwrap();
    let mut pair = preferring(PREFERRED, staying, quiet());
    pair.download(100_000, seconds(20)).unwrap();
    pair.run_for(seconds(10));
    assert_eq!(pair.client().remote_address(), address(SERVER));
    assert!(pair.routes[0].entered.is_empty());
    // A packet that someone else sends to the preferred address does not move the server, because
    // the client does not respond to its challenge from that address (§9.6.2).
    let stream = pair.client().open(Direction::Unidirectional).unwrap();
    pair.client().write_slice(stream, &[0; 500]).unwrap();
    let (now, handle) = (pair.now, pair.handle);
    let mut buffer = vec![0; 2000];
    let transmit = pair.client.transmit(handle, now, &mut buffer, 1).unwrap();
    pair.client.transmitted(handle, now);
    pair.deliver_to_preferred(&mut buffer[..transmit.size]);
    pair.download_more(100_000, seconds(20)).unwrap();
    let is_small =
        |(_, way, datagram): &(_, Way, Vec<u8>)| *way == Way::ToClient && datagram.len() <= 1200;
    let route = &pair.routes[0];
    assert!(!route.entered.is_empty() && route.entered.len() <= 4, "{}", route.entered.len());
    assert!(route.entered.iter().all(is_small));
    assert!(!pair.server_events.iter().any(|event| matches!(event, Event::Migrated { .. })));
}

/// A server may keep sending from its original address, although it receives the client's datagrams
/// at the preferred one and answers the challenge: the client does not treat the address as a new
/// one (§9.6).
#[test]
fn a_server_that_sends_from_its_original_address_for_ever_is_understood() {
    let mut pair = preferring(PREFERRED, quiet(), quiet());
    pair.routes[0].source = address(SERVER);
    pair.download(300_000, seconds(20)).expect("the download does not end");
    assert_eq!(pair.client().remote_address(), address(PREFERRED));
    pair.run_for(seconds(10));
    let took = pair.download_more(300_000, seconds(20)).expect("the second download does not end");
    assert!(took < seconds(1), "{took:?}");
    // Another, unexpected address is still treated as a stranger's.
    pair.routes[0].source = address("10.0.0.4:4433");
    assert!(pair.download_more(100_000, seconds(20)).is_none());
}

#[test]
fn a_preferred_address_that_does_not_answer_is_not_used() {
    let mut pair = preferring(PREFERRED, quiet(), quiet());
    pair.routes.clear();
    let took = pair.download(300_000, seconds(20)).unwrap();
    assert!(took < seconds(1), "{took:?}");
    pair.run_for(seconds(20));
    assert_eq!(failures(&pair), [MigrationFailure::NotValidated]);
    assert_eq!(pair.client().remote_address(), address(SERVER));
    pair.download_more(100_000, seconds(20)).unwrap();
}

/// disable_active_migration forbids other local addresses only until the client uses the preferred
/// address (§18.2).
#[test]
fn migration_may_be_forbidden_at_the_original_address_only() {
    let forbids = quiet().to_builder().allow_active_migration(false).build().unwrap();
    let mut pair = preferring(PREFERRED, quiet(), forbids);
    pair.establish();
    pair.run_for(seconds(1));
    assert_eq!(pair.client().remote_address(), address(PREFERRED));
    let now = pair.now;
    pair.client().migrate(now, SECOND_SOCKET, None).unwrap();
}

#[test]
fn addresses_that_no_other_host_has_are_ignored() {
    for (text, expected) in [
        ("0.0.0.0:4433", IgnoredAddress::Unspecified),
        ("10.0.0.3:0", IgnoredAddress::NoPort),
        ("224.0.0.251:5353", IgnoredAddress::Multicast),
        ("255.255.255.255:4433", IgnoredAddress::Multicast),
        ("127.0.0.1:4433", IgnoredAddress::Loopback),
        ("[2001:db8::1]:4433", IgnoredAddress::OtherFamily),
    ] {
        let mut pair = preferring(text, quiet(), quiet());
        pair.download(10_000, seconds(5)).unwrap();
        let ignored = Event::PreferredAddressIgnored(expected);
        assert!(pair.client_events.contains(&ignored), "{text}: {:?}", pair.client_events);
        assert_eq!(pair.client().remote_address(), address(SERVER));
    }
}

#[test]
fn a_preferred_address_under_loss_causes_no_stall() {
    for seed in 0..20 {
        let mut pair = preferring(PREFERRED, quiet(), quiet());
        pair.link = clearway_network::Link::new(lossy(20.0, 10, seed));
        pair.routes[0].link = clearway_network::Link::new(lossy(20.0, 10, seed + 99));
        pair.establish_within(seconds(100));
        let took: Option<Duration> = pair.download_more(100_000, seconds(200));
        assert!(took.is_some(), "seed {seed}: {:?}", pair.client_events);
    }
}

/// Consecutive moves, each of which begins as soon as the previous one has ended, with nothing else
/// to send. The server finds the client again, and the peers issue connection IDs for all moves,
/// regardless of what is late or lost. (Under heavy loss, this takes until a PATH_CHALLENGE and its
/// response arrive, with doubling probe timeouts.)
#[test]
fn moves_in_a_row_do_not_lose_the_peer() {
    const MOVES: u32 = 24;
    for (percent, seeds, limit) in [(0.0, 20, 1), (10.0, 60, 300)] {
        for microseconds in [20, 200, 2_000, 20_000] {
            for seed in 0..seeds {
                let waited = longest_wait_in_a_row(MOVES, microseconds, percent, seed);
                assert!(waited <= seconds(limit), "{percent} {microseconds} {seed}: {waited:?}");
            }
        }
    }
}

/// Returns the longest time for which no migration could begin, over `moves` migrations. Paths have
/// one to four times the one-way delay, so that packets of several paths overtake each other. The
/// client sends a PING frame every three seconds, since a server that could not validate its path
/// has to hear from it.
fn longest_wait_in_a_row(moves: u32, microseconds: u64, percent: f64, seed: u64) -> Duration {
    let link = |number: u64| {
        let factor = 1 + (seed * 31 + number * 17) % 7 % 4;
        let delay = Duration::from_micros(microseconds * factor);
        let loss = vec![LossRule::random(support::probability(percent))];
        let conditions = clearway_network::Conditions { delay, loss, ..Default::default() };
        support::both(conditions, seed * 100 + number)
    };
    let mut pair = Pair::new(delayed(1, seed));
    for number in 1..=moves {
        let client = format!("10.0.0.1:{}", 51_000 + number);
        let socket = SocketIndex(number);
        let route = Route::second_socket(&client, link(u64::from(number)));
        pair.routes.push(Route { client_socket: socket, ..route });
    }
    pair.establish();
    let mut longest = Duration::ZERO;
    for number in 1..=moves {
        let start = pair.now;
        while !pair.run_until(seconds(3), |pair| pair.client().may_migrate().is_ok()) {
            let refused = pair.client().may_migrate();
            assert_eq!(refused, Err(MigrationError::NoSpareConnectionId), "{percent} {seed}");
            pair.client().ping();
        }
        longest = longest.max(pair.now.saturating_since(start));
        let (now, socket) = (pair.now, SocketIndex(number));
        let ip = pair.routes[0].client.ip();
        pair.client().migrate(now, socket, Some(ip)).unwrap();
        let ended =
            |pair: &mut Pair| pair.client().may_migrate() != Err(MigrationError::InProgress);
        assert!(pair.run_until(seconds(60), ended));
    }
    longest
}
