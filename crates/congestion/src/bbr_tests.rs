//! BBR over simulated paths: the example test cases of the draft's appendix, and liveness.

#[path = "bbr_tests/conditions.rs"]
mod conditions;
#[path = "bbr_tests/examples.rs"]
mod examples;
#[path = "bbr_tests/examples_adapting.rs"]
mod examples_adapting;
#[path = "bbr_tests/examples_probing.rs"]
mod examples_probing;
#[path = "bbr_tests/facts.rs"]
mod facts;
#[path = "bbr_tests/jitter.rs"]
mod jitter;
#[path = "bbr_tests/link.rs"]
mod link;
#[path = "bbr_tests/liveness.rs"]
mod liveness;
#[path = "bbr_tests/longer_path.rs"]
mod longer_path;
#[path = "bbr_tests/path.rs"]
mod path;

use core::time::Duration;

use clearway_units::{Rate, Timestamp};

use self::link::Link;
use self::path::Path;
use super::sample::Sample;
use super::state::BbrState;
use crate::testing::{SIZE, ms, parameters};
use crate::{
    Acknowledgement, Controller, ControllerParameters, DeliverySnapshot, SendIndex, SentPacket,
};

/// Returns a packet sent with `in_flight` bytes in flight, including itself.
pub(super) fn packet(index: u64, in_flight: u64) -> SentPacket {
    let delivery = DeliverySnapshot { in_flight, ..DeliverySnapshot::default() };
    SentPacket { index: SendIndex(index), bytes: SIZE, sent_at: Timestamp::ORIGIN, delivery }
}

/// Returns an event after 100 packets were sent.
pub(super) fn acknowledgement<'a>(
    acked: &'a [SentPacket],
    lost: &'a [SentPacket],
) -> Acknowledgement<'a> {
    let bytes = |packets: &[SentPacket]| {
        packets.iter().fold(0u64, |sum, packet| sum.saturating_add(packet.bytes))
    };
    Acknowledgement {
        now: Timestamp::from_origin(ms(100)),
        acked,
        lost,
        next_index: SendIndex(100),
        largest_acked: Some(SendIndex(99)),
        rtt: None,
        prior_in_flight: 0,
        bytes_in_flight: 0,
        persistent_congestion: false,
        newly_ce_marked: 0,
        rate_sample: None,
        total_delivered: bytes(acked),
        total_lost: bytes(lost),
        round: 1,
        was_limited: true,
        was_window_limited: true,
        limited_time: Duration::ZERO,
    }
}

/// Returns the sample from one packet's acknowledgment.
pub(super) fn sample() -> Sample {
    Sample::of(&acknowledgement(&[packet(1, SIZE)], &[])).unwrap()
}

pub(super) fn parameters_of(seed: u64) -> ControllerParameters {
    ControllerParameters { seed, ..parameters(None) }
}

fn megabits(megabits: u64) -> Rate {
    Rate::from_bits_per_second(megabits * 1_000_000)
}

/// A path with a bottleneck of `rate`, a round-trip time of `rtt`, and a buffer of `buffer` times
/// the bandwidth-delay product.
fn path_with(rate: Rate, rtt: Duration, buffer: f64, seed: u64) -> Path {
    let product = (rate.bytes_in(rtt) as f64 * buffer) as u64;
    Path::new(Link::new(Some(rate), rtt / 2, product.max(10 * SIZE), seed), seed)
}

/// Returns a path with 20 Mbit/s, 40 ms, and a buffer of twice the bandwidth-delay product.
fn path() -> Path {
    path_with(megabits(20), ms(40), 2.0, 1)
}

/// Checks that BBR.max_bw is within 2 % of `rate`.
fn assert_estimates(path: &Path, rate: Rate) {
    let (estimate, truth) = (path.bbr.bandwidth.maximum(), rate);
    let off = estimate.bytes_per_second() as f64 / truth.bytes_per_second() as f64;
    assert!((0.98..=1.02).contains(&off), "max_bw is {off} of the link: {:?}", path.bbr);
}
