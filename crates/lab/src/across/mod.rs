//! Properties that one event cannot show: they hold between the flows of a run, or between a run and
//! its twin in another network.
//!
//! Each property has a module with a [`Property`] and two halves. One judges figures, wherever they come
//! from: a scenario's runner has the bytes that flows received, and asks that half. The other, where a
//! property compares runs, takes a [`Setup`](crate::setup::Setup), makes its twins, runs them, and judges
//! what came of it. Fairness is in [`fairness`], the rest compares runs.

pub mod acknowledgement_aggregation;
pub mod datagram_size;
pub mod deleted_losses;
pub mod fairness;
pub mod idle_time;
pub mod jitter;
mod median;
pub mod received;
pub mod round_trip_range;
pub mod start_order;
pub mod tap;
pub mod time_scale;
mod twin;
mod verdict;

pub use twin::NotComparable;
pub use verdict::{Property, Verdict};

/// All of them.
pub const PROPERTIES: [Property; 12] = [
    time_scale::PROPERTY,
    datagram_size::PROPERTY,
    acknowledgement_aggregation::PROPERTY,
    idle_time::PROPERTY,
    round_trip_range::PROPERTY,
    deleted_losses::PROPERTY,
    jitter::PROPERTY,
    start_order::PROPERTY,
    fairness::equal::PROPERTY,
    fairness::round_trips::PROPERTY,
    fairness::reno_friendly::PROPERTY,
    fairness::starvation::PROPERTY,
];
