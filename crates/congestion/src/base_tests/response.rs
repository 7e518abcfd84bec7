//! The tables of RFC 9438 §5.1: the average window in datagrams for each loss rate, to within a
//! tenth.
//!
//! The loss model is that of the RFC's computation (§5, appendix A): exactly 1/p packets between
//! consecutive losses. The controllers are the real ones, with fast convergence and PRR, which are
//! not in the model; many cycles are averaged. Reno's column is RFC 3649's: sqrt(1.5 / p).

use clearway_units::Random;

use crate::Algorithm;
use crate::testing::ms;
use crate::testing::response::average_window;

/// The values for p = 1e-2 to 1e-6.
const RENO: [f64; 5] = [12.0, 38.0, 120.0, 379.0, 1200.0];
const CUBIC_100_MS: [f64; 5] = [12.0, 38.0, 187.0, 1054.0, 5926.0];
/// On a path with a short round trip CUBIC behaves like Reno.
const CUBIC_10_MS: [f64; 5] = RENO;

/// Asserts that the average window has the expected size, both in datagrams, for an algorithm, a
/// round-trip time in milliseconds and a number of packets from one loss to the next.
fn assert_window(measured: f64, expected: f64, (algorithm, rtt, every): (Algorithm, u64, u64)) {
    assert!(
        (measured / expected - 1.0).abs() <= 0.1,
        "{algorithm}, {rtt} ms, one loss in {every} packets: the average window is {measured:.1} \
         datagrams, expected {expected} within 10 %"
    );
}

fn assert_column(algorithm: Algorithm, milliseconds: u64, column: [f64; 5]) {
    for (row, expected) in column.into_iter().enumerate() {
        let every = 100 * 10_u64.pow(row as u32);
        // The start is far below the model's window, which CUBIC first overshoots by far;
        // afterward, each cycle recovers a thousandth of what fast convergence takes away. The last
        // row starts close to its value.
        let (settling, losses) = if every < 1_000_000 { (100, 50) } else { (20, 20) };
        let measured = average_window(algorithm, ms(milliseconds), || every, settling, losses);
        assert_window(measured, expected, (algorithm, milliseconds, every));
    }
}

#[test]
fn reno_has_the_windows_of_the_table() {
    // The formula does not contain the round-trip time.
    assert_column(Algorithm::Reno, 100, RENO);
    let [short, long] =
        [1, 1000].map(|rtt| average_window(Algorithm::Reno, ms(rtt), || 1000, 20, 30));
    assert!(
        (short / long - 1.0).abs() < 0.01,
        "the average window is {short:.1} datagrams at 1 ms and {long:.1} at 1 s, expected the same"
    );
}

#[test]
fn cubic_has_the_windows_of_the_table_at_100_ms() {
    assert_column(Algorithm::Cubic, 100, CUBIC_100_MS);
}

#[test]
fn cubic_has_the_windows_of_the_table_at_10_ms() {
    assert_column(Algorithm::Cubic, 10, CUBIC_10_MS);
}

#[test]
fn irregular_losses_give_the_same_windows_while_cubic_behaves_like_reno() {
    // Distances between losses vary from 0.5 to 1.5 times the mean. Where CUBIC follows its own
    // curve, fast convergence then costs a seventh of the window.
    let mut random = Random::from_number(1);
    for (algorithm, rtt, every, expected) in [
        (Algorithm::Reno, 100, 100, 12.0),
        (Algorithm::Reno, 100, 1000, 38.0),
        (Algorithm::Reno, 100, 10_000, 120.0),
        (Algorithm::Cubic, 100, 100, 12.0),
        (Algorithm::Cubic, 100, 1000, 38.0),
        (Algorithm::Cubic, 10, 100, 12.0),
        (Algorithm::Cubic, 10, 1000, 38.0),
        (Algorithm::Cubic, 10, 10_000, 120.0),
    ] {
        let distance = || every / 2 + random.below(every);
        let measured = average_window(algorithm, ms(rtt), distance, 20, 100);
        assert_window(measured, expected, (algorithm, rtt, every));
    }
}
