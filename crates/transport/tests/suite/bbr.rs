//! BBR in the real stack: the transport provides the measurements that the model needs.

use std::sync::Arc;

use crate::support::{Pair, both, milliseconds, quiet, seconds};
use clearway_congestion::Algorithm;
use clearway_network::{Conditions, QueueLimit};
use clearway_units::Rate;

/// Returns the goodput of a download of `size` bytes as a fraction of the rate of a bottleneck of
/// `megabits` Mbit/s.
fn share(megabits: u64, delay: u64, packets: usize, size: usize) -> f64 {
    let wire = Conditions {
        delay: milliseconds(delay),
        rate: Some(Rate::from_bits_per_second(megabits * 1_000_000)),
        queue: QueueLimit { packets: Some(packets), bytes: None },
        ..Conditions::default()
    };
    let server = quiet().to_builder().controller(Arc::new(Algorithm::Bbr)).build().unwrap();
    let mut pair = Pair::with(both(wire, 3), quiet(), server);
    pair.watch.keep_no_packets();
    let took = pair.download(size, seconds(60)).expect("not finished");
    let rate = 8.0 * size as f64 / took.as_secs_f64();
    rate / (megabits * 1_000_000) as f64
}

/// Uses the link of the interop runner, whose queue holds 0.8 bandwidth-delay products.
#[test]
fn bbr_fills_a_bottleneck_with_a_shallow_queue() {
    let share = share(10, 15, 25, 10 << 20);
    assert!(share > 0.93, "{share}");
}

#[test]
fn bbr_fills_a_bottleneck_with_a_deep_queue() {
    let share = share(20, 25, 400, 10 << 20);
    assert!(share > 0.9, "{share}");
}

#[test]
fn bbr_fills_a_fast_bottleneck_with_a_short_round_trip() {
    let share = share(1000, 1, 300, 20 << 20);
    assert!(share > 0.88, "{share}");
}
