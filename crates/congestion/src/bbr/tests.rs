//! BBR over simulated paths: the example test cases of the draft's appendix, and liveness.

mod examples;
mod examples_adapting;
mod examples_probing;
mod link;
mod liveness;
mod path;

use core::time::Duration;

use clearway_units::Rate;

use self::link::Link;
use self::path::Path;
use super::state::State;
use crate::Controller;
use crate::testing::{SIZE, ms};

fn megabits(megabits: u64) -> Rate {
    Rate::from_bits_per_second(megabits * 1_000_000)
}

/// A path with a bottleneck of `rate`, a round-trip time of `rtt` and a buffer of `buffer` times the
/// bandwidth-delay product.
fn path_with(rate: Rate, rtt: Duration, buffer: f64, seed: u64) -> Path {
    let product = (rate.bytes_in(rtt) as f64 * buffer) as u64;
    Path::new(Link::new(Some(rate), rtt / 2, product.max(10 * SIZE), seed), seed)
}

/// 20 Mbit/s, 40 ms, twice the bandwidth-delay product as buffer.
fn path() -> Path {
    path_with(megabits(20), ms(40), 2.0, 1)
}

/// BBR.max_bw is within 2 % of `rate`.
fn assert_estimates(path: &Path, rate: Rate) {
    let (estimate, truth) = (path.bbr.bandwidth.maximum(), rate);
    let off = estimate.bytes_per_second() as f64 / truth.bytes_per_second() as f64;
    assert!((0.98..=1.02).contains(&off), "max_bw is {off} of the link: {:?}", path.bbr);
}
