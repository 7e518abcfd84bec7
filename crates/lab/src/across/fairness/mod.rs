//! Who gets what of a bottleneck. Each property judges the bytes that flows received in the same time;
//! the time in which they begin should not be part of it.

pub mod equal;
pub mod reno_friendly;
pub mod round_trips;
pub mod starvation;

/// What part of the whole each has.
fn shares(received: &[u64]) -> Vec<f64> {
    let all: f64 = received.iter().map(|bytes| *bytes as f64).sum();
    received.iter().map(|bytes| if all > 0.0 { *bytes as f64 / all } else { 0.0 }).collect()
}

fn percentages(received: &[u64]) -> String {
    let shares = shares(received).into_iter().map(|share| format!("{:.1} %", 100.0 * share));
    shares.collect::<Vec<_>>().join(", ")
}
