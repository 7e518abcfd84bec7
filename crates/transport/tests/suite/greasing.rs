//! The greased fixed bit (RFC 9287) and the latency spin bit (RFC 9000 §17.4).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Pair, delayed, milliseconds, quiet, seconds};
use clearway_network::Way;
use clearway_transport::{Side, SpinBit, TransportConfig};
use clearway_units::Timestamp;
use clearway_wire::header::{has_fixed_bit, is_long, spin_bit};

type Seen = Arc<Mutex<Vec<(Timestamp, Way, u8)>>>;

/// Records the first byte of every datagram.
fn watch_first_bytes(pair: &mut Pair) -> Seen {
    let seen = Seen::default();
    let noted = seen.clone();
    pair.filter = Some(Box::new(move |now, way, payload| {
        noted.lock().unwrap().push((now, way, payload[0]));
        true
    }));
    seen
}

fn greasing(is_on: bool) -> TransportConfig {
    quiet().to_builder().grease_quic_bit(is_on).build().unwrap()
}

/// Runs a connection with many packets in both directions, and returns their first bytes.
fn first_bytes(
    client: TransportConfig,
    server: TransportConfig,
    seed: u64,
) -> Vec<(Timestamp, Way, u8)> {
    let mut pair = Pair::with(delayed(50, seed), client, server);
    let seen = watch_first_bytes(&mut pair);
    assert!(pair.download(300_000, seconds(60)).is_some());
    for side in [Side::Client, Side::Server] {
        assert_eq!(pair.watch.drops(side, clearway_transport::DropReason::Invalid), 0);
    }
    let seen = seen.lock().unwrap();
    seen.clone()
}

#[test]
fn the_fixed_bit_is_random_once_the_peer_accepts_that() {
    for (client, server) in [(true, true), (true, false), (false, true), (false, false)] {
        let seen = first_bytes(greasing(client), greasing(server), 1);
        for way in [Way::ToServer, Way::ToClient] {
            let own: Vec<u8> = seen.iter().filter(|it| it.1 == way).map(|it| it.2).collect();
            let cleared = own.iter().filter(|byte| !has_fixed_bit(**byte)).count();
            if client && server {
                let half = own.len() / 2;
                assert!(cleared.abs_diff(half) < own.len() / 5, "{cleared} of {}", own.len());
            } else {
                assert_eq!(cleared, 0, "{client} {server} {way:?}");
            }
        }
    }
}

/// RFC 9287 §3.1: a client must set the bit until it has received the server's transport
/// parameters.
#[test]
fn the_first_flight_has_the_fixed_bit() {
    for seed in 0..20 {
        let mut pair = Pair::with(delayed(10, seed), greasing(true), greasing(true));
        let seen = watch_first_bytes(&mut pair);
        pair.run_for(milliseconds(15));
        let seen = seen.lock().unwrap();
        let first: Vec<u8> =
            seen.iter().filter(|it| it.1 == Way::ToServer).map(|it| it.2).collect();
        assert!(!first.is_empty() && first.iter().all(|byte| has_fixed_bit(*byte)));
    }
}

fn spinning(spin_bit: SpinBit) -> TransportConfig {
    quiet().to_builder().grease_quic_bit(false).spin_bit(spin_bit).build().unwrap()
}

/// Returns the times at which the spin bit changed in the packets of one direction.
fn edges(seen: &[(Timestamp, Way, u8)], way: Way) -> Vec<Timestamp> {
    let short = seen.iter().filter(|it| it.1 == way && !is_long(it.2));
    let mut edges = Vec::new();
    let mut last = false;
    for (at, _, first_byte) in short {
        if spin_bit(*first_byte) != last {
            last = !last;
            edges.push(*at);
        }
    }
    edges
}

/// An on-path observer sees the bit change once per round trip.
#[test]
fn the_spin_bit_shows_the_round_trip_time() {
    let (mut spun, runs) = (0, 12);
    for seed in 0..runs {
        let on = spinning(SpinBit::Enabled);
        let seen = first_bytes(on.clone(), on, seed);
        let edges = edges(&seen, Way::ToClient);
        if edges.len() < 4 {
            // One path in eight has the spin bit disabled by one endpoint or the other.
            continue;
        }
        spun += 1;
        for pair in edges.windows(2) {
            let period = pair[1].saturating_since(pair[0]);
            assert!(period >= milliseconds(100) && period < milliseconds(200), "{period:?}");
        }
    }
    assert!(spun > runs / 2 && spun <= runs, "{spun} of {runs}");
}

#[test]
fn a_disabled_spin_bit_shows_nothing() {
    let mut values = [0_u32; 2];
    for seed in 0..12 {
        let seen = first_bytes(spinning(SpinBit::Random), spinning(SpinBit::Random), seed);
        for (way, values) in [Way::ToServer, Way::ToClient].into_iter().zip(&mut values) {
            let changes = edges(&seen, way);
            assert!(changes.len() <= 1, "it stays the same on a connection ID");
            *values += changes.len() as u32;
        }
    }
    assert!(values.iter().all(|set| (1..12).contains(set)), "{values:?}");
    let seen = first_bytes(spinning(SpinBit::Zero), spinning(SpinBit::Zero), 1);
    assert!(edges(&seen, Way::ToServer).is_empty() && edges(&seen, Way::ToClient).is_empty());
}

/// The random header bits come from a separate random source, so everything else is the same with
/// and without them.
#[test]
fn random_bits_change_nothing_else() {
    let times = |config: TransportConfig| -> Vec<(Duration, bool)> {
        let seen = first_bytes(config.clone(), config, 3);
        let origin = Timestamp::ORIGIN;
        seen.iter().map(|it| (it.0.saturating_since(origin), it.1 == Way::ToServer)).collect()
    };
    let off = times(spinning(SpinBit::Zero));
    assert_eq!(times(spinning(SpinBit::Random)), off);
    assert_eq!(times(spinning(SpinBit::Enabled)), off);
}
