//! States that differ only in when they came about are one state.
//!
//! A state is told by its `Debug` text, in which every absolute number is made relative: times to now, send
//! indices to the next one, rounds to the current one, bytes delivered and lost to the sum so far. Times count
//! in milliseconds, sizes in quarters of a datagram. Counters that decide nothing are left out. Where that takes two
//! states for one that are not, the second is not looked into; what is reported is seen on real runs only.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::sender::{Origin, SIZE, Sender};

const MILLISECOND: u64 = 1_000_000;
/// Fields that decide nothing: counters, and growth that is less than a byte.
const LEFT_OUT: [&str; 5] =
    ["congestion_events", "undone_events", "carry", "seed", "maximum_window"];

/// What stands for all states that are the same but for the time.
pub(super) fn canonical(sender: &Sender) -> u64 {
    let mut hasher = DefaultHasher::new();
    hash(&sender.describe(), sender.origin(), &mut hasher);
    hasher.finish()
}

/// Hashes `text` with its numbers made relative to `origin`.
fn hash(text: &str, origin: Origin, hasher: &mut impl Hasher) {
    let mut rest = text;
    // The name of the field or type that the next number belongs to.
    let mut name = "";
    while let Some(first) = rest.chars().next() {
        if first.is_ascii_digit() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            let (number, after) = rest.split_at(digits);
            rest = after;
            // What follows a decimal point is finer than is told apart.
            if let Some(fraction) = rest.strip_prefix('.') {
                rest = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
            }
            // A number that is too large for this is as good as any other that is.
            relative(name, number.parse().unwrap_or(u64::MAX), origin).hash(hasher);
        } else if first.is_ascii_alphabetic() || first == '_' {
            let end = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
            let (word, after) = rest.split_at(rest.find(end).unwrap_or(rest.len()));
            rest = after;
            if rest.starts_with([':', '(']) {
                name = word;
            }
            word.hash(hasher);
        } else {
            rest = &rest[first.len_utf8()..];
        }
    }
}

fn relative(name: &str, number: u64, origin: Origin) -> i64 {
    let difference = |base: u64, unit: u64| (number as i64).wrapping_sub(base as i64) / unit as i64;
    match name {
        "Timestamp" | "ReleaseTime" => difference(origin.now.as_nanos(), MILLISECOND),
        "SendIndex" => difference(origin.next_index, 1),
        _ if LEFT_OUT.contains(&name) => 0,
        _ if name.contains("round") || name == "since" => difference(origin.round, 1),
        _ if name.contains("delivered") => difference(origin.delivered, SIZE),
        _ if name.contains("lost") => difference(origin.lost, SIZE),
        _ if number >= SIZE => (number / (SIZE / 4)) as i64,
        _ => number as i64,
    }
}

#[cfg(test)]
mod tests;
