//! Path MTU discovery between two endpoints (RFC 8899, RFC 9000 §14): which MTU is found, and what
//! a black hole costs.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{self, Pair, both, milliseconds, probability, seconds};
use clearway_congestion::Algorithm;
use clearway_network::{
    Conditions, LinkConfig, LossModel, LossRule, QueueLimit, Rebind, Step, Window,
};
use clearway_transport::{Event, ReadOutcome, Side, TransportConfig};
use clearway_units::Rate;
use clearway_wire::Direction;

/// Returns a path with an RTT of 20 ms, a rate of 30 Mbit/s in each direction, and a queue of 40
/// ms. The largest payload is `mtu` and later changes according to `steps`.
fn path(mtu: usize, steps: &[(u64, usize)]) -> LinkConfig {
    let step =
        |(after, value): &(u64, usize)| Step { after: milliseconds(*after), value: Some(*value) };
    let conditions = Conditions {
        delay: milliseconds(10),
        rate: Some(Rate::from_bits_per_second(30_000_000)),
        overhead: 28,
        queue: QueueLimit { packets: None, bytes: Some(150_000) },
        mtu: Some(mtu),
        mtu_steps: steps.iter().map(step).collect(),
        ..Conditions::default()
    };
    both(conditions, 7)
}

fn quiet() -> TransportConfig {
    support::quiet().to_builder().discover_path_mtu(true).build().unwrap()
}

fn pair(link: LinkConfig) -> Pair {
    Pair::with(link, quiet(), quiet())
}

fn with(algorithm: Algorithm) -> TransportConfig {
    quiet().to_builder().controller(Arc::new(algorithm)).build().unwrap()
}

fn sizes(pair: &Pair, side: Side) -> Vec<usize> {
    pair.watch.sent(side).iter().map(|packet| packet.size).collect()
}

#[test]
fn the_usual_sizes_are_found_exactly_within_a_second() {
    for mtu in [1472, 8972] {
        let mut pair = self::pair(path(mtu, &[]));
        let start = pair.now;
        pair.download(3_000_000, seconds(20)).unwrap();
        let sent = pair.watch.sent(Side::Server);
        let first = sent.iter().filter(|packet| packet.size == mtu && packet.frames.len() > 1);
        let found = first.map(|packet| packet.at).min().or_else(|| {
            sent.iter().filter(|packet| packet.size == mtu).map(|packet| packet.at).min()
        });
        assert!(found.unwrap().saturating_since(start) < seconds(1), "{mtu}");
        assert_eq!(pair.server().datagram_size(), mtu);
        assert_eq!(pair.client().datagram_size(), 1200, "a client that only acknowledges");
    }
}

/// The cost of a black hole during a transfer, compared with a path whose MTU was that small from
/// the start.
#[test]
fn a_black_hole_costs_less_than_a_second() {
    for algorithm in Algorithm::ALL {
        let took = |link| {
            let mut pair = Pair::with(link, quiet(), with(algorithm));
            let took = pair.download(10_000_000, seconds(60)).unwrap();
            let size = pair.server().datagram_size();
            assert!((1284..=1300).contains(&size), "{algorithm}: {size}");
            took
        };
        let narrow = took(path(1300, &[]));
        let hole = took(path(1472, &[(500, 1300)]));
        let cost = hole.saturating_sub(narrow);
        assert!(cost < seconds(1), "{algorithm}: {narrow:?} became {hole:?}");
    }
}

/// The path carries jumbo frames, then only Ethernet frames, then only QUIC's minimum.
#[test]
fn a_path_that_shrinks_twice_is_followed() {
    let mut pair = self::pair(path(8972, &[(700, 1472), (2500, 1200)]));
    pair.download(20_000_000, seconds(60)).unwrap();
    assert_eq!(pair.server().datagram_size(), 1200);
    let sent = sizes(&pair, Side::Server);
    for size in [8972, 1472, 1200] {
        assert!(sent.iter().filter(|sent| **sent == size).count() > 100, "{size}");
    }
}

/// Large datagrams are lost at random: this is not a black hole, and the size found is kept.
#[test]
fn random_losses_of_large_datagrams_are_no_black_hole() {
    for seed in 0..10 {
        let mut link = path(1472, &[]);
        link.seed = seed;
        let model = LossModel::RandomLarge { larger_than: 1300, probability: probability(5.0) };
        link.to_client.loss = vec![LossRule { model, window: Window::Always }];
        let mut pair = self::pair(link);
        pair.download(5_000_000, seconds(60)).unwrap();
        assert_eq!(pair.server().datagram_size(), 1472, "seed {seed}");
    }
}

/// An upload continues on another path, whose MTU is unknown.
#[test]
fn on_another_path_the_search_begins_anew() {
    let rebind = Rebind { first: milliseconds(900), every: None, address: true };
    let link = LinkConfig { rebind: Some(rebind), ..path(1472, &[(900, 1252)]) };
    let keep_alive = quiet().to_builder().keep_alive_interval(Some(milliseconds(50))).build();
    let mut pair = Pair::with(link, keep_alive.unwrap(), quiet());
    pair.download(15_000_000, seconds(60)).unwrap();
    let moved = |event: &Event| matches!(event, Event::PeerMigrated(_));
    assert!(pair.server_events.iter().any(moved));
    assert_eq!(pair.server().datagram_size(), 1252);
}

/// A path that never carries more than the initial size: the handshake's large datagrams are lost,
/// and the probes sent to the silent peer are small enough.
#[test]
fn an_initial_size_that_does_not_pass_is_given_up() {
    let large = quiet().to_builder().initial_datagram_size(1452).build().unwrap();
    let mut pair = Pair::with_tls(path(1252, &[]), large.clone(), large, support::large_tls());
    let took = pair.download(1_000_000, seconds(60)).unwrap();
    assert!(took < seconds(3), "{took:?}");
    assert_eq!(pair.server().datagram_size(), 1252);
}

/// The search does not delay the transfer: probes are sent alongside the data.
#[test]
fn the_search_costs_little() {
    let mut fixed = Pair::with(path(1472, &[]), quiet(), support::quiet());
    let without = fixed.download(2_000_000, seconds(20)).unwrap();
    let mut pair = self::pair(path(1472, &[]));
    let with = pair.download(2_000_000, seconds(20)).unwrap();
    assert!(with < without + Duration::from_millis(20), "{with:?} instead of {without:?}");
}

/// Sends `size` bytes from the client to the server, and returns how long it took.
fn upload(pair: &mut Pair, size: usize, limit: Duration) -> Option<Duration> {
    pair.establish();
    let start = pair.now;
    let stream = pair.client().open(Direction::Unidirectional).unwrap();
    let mut rest = support::pattern(size);
    let (mut accepted, mut received) = (None, 0);
    let done = pair.run_until(limit, |pair| {
        if !rest.is_empty() {
            let taken = pair.client().write(stream, rest.clone()).unwrap();
            rest = rest.slice(taken..);
            if rest.is_empty() {
                pair.client().finish(stream).unwrap();
            }
        }
        accepted = accepted.or_else(|| pair.server().accept(Direction::Unidirectional));
        let Some(stream) = accepted else { return false };
        let now = pair.now;
        while let ReadOutcome::Data(data) = pair.server().read(now, stream, usize::MAX).unwrap() {
            received += data.len();
        }
        received == size
    });
    done.then(|| pair.now.saturating_since(start))
}

/// The black hole begins at any point: during the handshake, between and during the probes, and in
/// or after slow start.
#[test]
fn a_black_hole_costs_less_than_a_second_at_any_moment_and_in_both_directions() {
    let transfers: [fn(&mut Pair) -> Option<Duration>; 2] =
        [|pair| pair.download(3_000_000, seconds(60)), |pair| upload(pair, 3_000_000, seconds(60))];
    for (way, transfer) in transfers.into_iter().enumerate() {
        for (index, algorithm) in Algorithm::ALL.into_iter().enumerate() {
            let took = |link| transfer(&mut Pair::with(link, with(algorithm), with(algorithm)));
            let narrow = took(path(1300, &[])).unwrap();
            // Each controller is tested at different times.
            for after in (1 + 11 * index as u64..500).step_by(33) {
                let hole = took(path(1472, &[(after, 1300)])).unwrap();
                assert!(
                    hole < narrow + seconds(1),
                    "{algorithm}, way {way}, {after} ms: {narrow:?} became {hole:?}"
                );
            }
        }
    }
}

/// The client's address changes, and the path becomes a black hole at the same time or soon after.
#[test]
fn a_black_hole_after_a_migration_costs_less_than_a_second() {
    let keep_alive = quiet().to_builder().keep_alive_interval(Some(milliseconds(50))).build();
    let keep_alive = keep_alive.unwrap();
    let rebind = Rebind { first: milliseconds(600), every: None, address: true };
    let took = |mtu, steps: &[(u64, usize)]| {
        let link = LinkConfig { rebind: Some(rebind), ..path(mtu, steps) };
        let mut pair = Pair::with(link, keep_alive.clone(), quiet());
        let took = pair.download(6_000_000, seconds(60)).unwrap();
        assert!(pair.server_events.iter().any(|event| matches!(event, Event::PeerMigrated(_))));
        took
    };
    let narrow = took(1300, &[]);
    for after in (580..1000).step_by(35) {
        let hole = took(1472, &[(after, 1300)]);
        assert!(hole < narrow + seconds(1), "{after} ms: {narrow:?} became {hole:?}");
    }
}

/// A path that drops every larger datagram from the start: the probes are lost silently. They use
/// some of the rate, but are neither a congestion signal nor evidence of persistent congestion (RFC
/// 9000 §14.4, RFC 8899 §3).
#[test]
fn probes_that_are_lost_cost_their_bytes_only() {
    for algorithm in Algorithm::ALL {
        let took = |discover: bool| {
            let sender = with(algorithm).to_builder().discover_path_mtu(discover).build().unwrap();
            // This is too little to fill the queue.
            let mut pair = Pair::with(path(1200, &[]), quiet(), sender);
            let took = pair.download(400_000, seconds(20)).unwrap();
            let sent = sizes(&pair, Side::Server);
            let probes: usize = sent.iter().filter(|size| **size > 1200).sum();
            let statistics = pair.server().statistics();
            assert_eq!(statistics.congestion_events, 0, "{algorithm}");
            assert_eq!(statistics.datagram_size, 1200);
            (took, probes)
        };
        let ((without, none), (with, probes)) = (took(false), took(true));
        assert_eq!(none, 0);
        assert!((3 * 1472..25_000).contains(&probes), "{probes} bytes of probes");
        let at_rate = Duration::from_secs_f64(probes as f64 / 3.75e6);
        assert!(
            with <= without + at_rate + milliseconds(5),
            "{algorithm}: {with:?}, not {without:?}, for {probes} bytes"
        );
    }
}
