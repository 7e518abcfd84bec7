use core::time::Duration;

use proptest::prelude::*;

use super::{ALPHA, C, Curve, cube_root, share_of_gap};
use crate::testing::{SIZE, ms};

/// Creates a curve that starts at `start` datagrams and targets `w_max`.
fn curve(start: u64, w_max: u64) -> Curve {
    Curve::new(start * SIZE, w_max * SIZE, SIZE)
}

#[test]
fn the_cube_root_is_right_to_the_last_bits() {
    assert_eq!(cube_root(0.0), 0.0);
    assert_eq!(cube_root(-1.0), 0.0);
    let mut value = 1e-12;
    while value < 1e15 {
        let root = cube_root(value);
        assert!((root * root * root / value - 1.0).abs() < 1e-14, "{value}");
        value *= 1.37;
    }
    for whole in 1..200_u32 {
        let root = cube_root(f64::from(whole).powi(3));
        assert!((root - f64::from(whole)).abs() < 1e-12);
    }
}

proptest! {
    #[test]
    fn the_cube_root_is_the_librarys(mantissa in 1.0..2.0_f64, exponent in -60..120_i32) {
        // The standard library may be off in the last bit on some machines and is therefore not
        // used.
        let value = mantissa * 2.0_f64.powi(exponent);
        let (root, library) = (cube_root(value), value.cbrt());
        prop_assert!((root / library - 1.0).abs() < 1e-9, "{} {} {}", value, root, library);
        prop_assert_eq!(root.to_bits(), cube_root(value).to_bits());
    }
}

#[test]
fn the_share_of_the_gap_is_what_many_small_steps_close() {
    for windows in [0.001, 0.1, 0.5, 0.9, 1.0] {
        let exact = 1.0 - f64::exp(-windows);
        assert!((share_of_gap(windows) / exact - 1.0).abs() < 0.001, "{windows}");
    }
    let mut last = 0.0;
    for step in 1..500 {
        let share = share_of_gap(f64::from(step) / 50.0);
        assert!(share >= last && share < 1.0);
        last = share;
    }
}

#[test]
fn the_curve_starts_at_the_window_and_is_at_w_max_after_k() {
    let curve = curve(700, 1000);
    assert!((curve.k - (300.0 / C).cbrt()).abs() < 1e-9);
    assert!((curve.at(0.0) - 700.0).abs() < 1e-6);
    assert!((curve.at(curve.k) - 1000.0).abs() < 1e-9);
    // The curve is concave before K and convex after it.
    let k = curve.k;
    assert!(curve.at(k / 2.0) > 850.0);
    assert!((curve.at(k + 2.0) - 1003.2).abs() < 1e-6);
}

#[test]
fn a_curve_that_starts_at_w_max_has_zero_k() {
    assert_eq!(curve(50, 50).k, 0.0);
    assert_eq!(curve(50, 20).k, 0.0);
}

#[test]
fn the_window_follows_the_curve() {
    let mut curve = curve(700, 1000);
    let mut window = 700 * SIZE;
    let rtt = ms(100);
    for round in 1..=150_u32 {
        for tenth in 0..10 {
            curve.advance(rtt / 10);
            let growth = curve.on_acked(window, 1000 * SIZE, window / 10, rtt);
            assert!(growth <= window / 20 + 1, "{round} {tenth}");
            window += growth;
        }
        let (expected, actual) = (curve.at(curve.time), window as f64 / SIZE as f64);
        if round > 10 {
            assert!((actual / expected - 1.0).abs() < 0.02, "{round}: {actual} {expected}");
        }
    }
    assert!(window > 1070 * SIZE);
}

#[test]
fn a_target_below_the_window_does_not_shrink_it() {
    // Row 17.
    let mut curve = curve(70, 100);
    let growth = curve.on_acked(90 * SIZE, 100 * SIZE, SIZE, ms(0));
    assert_eq!(growth, 0);
}

#[test]
fn the_target_is_at_most_one_and_a_half_windows() {
    let mut curve = curve(100, 100);
    curve.advance(Duration::from_secs(1_000_000));
    for acked in [1, SIZE, 100 * SIZE] {
        let growth = curve.on_acked(100 * SIZE, 0, acked, ms(100));
        assert!(growth.abs_diff(acked / 2) <= 1, "{acked}: {growth}");
    }
}

#[test]
fn no_time_overflows() {
    for start in [1, 1000, u64::MAX / SIZE] {
        let mut curve = curve(start, u64::MAX / SIZE);
        curve.advance(Duration::MAX);
        for _ in 0..3 {
            let growth = curve.on_acked(start * SIZE, u64::MAX, SIZE, Duration::MAX);
            assert!(growth <= SIZE);
            curve.set_max_datagram_size(0);
        }
    }
}

#[test]
fn the_estimate_grows_by_alpha_until_the_window_before_the_cut_and_then_by_one() {
    let mut curve = curve(70, 100);
    let mut window = 70 * SIZE;
    let (mut slow, mut fast) = (0, 0);
    for _ in 0..150 {
        // No time passes, so the cubic term is never the larger one.
        let before = curve.estimate;
        window += curve.on_acked(window, 100 * SIZE, window, ms(0));
        let grown = curve.estimate - before;
        if before < 100.0 {
            assert!((ALPHA..ALPHA * 1.02).contains(&grown), "{grown}");
            slow += 1;
        } else {
            assert!((grown - 1.0).abs() < 1e-9, "{grown}");
            fast += 1;
        }
        // The window equals the estimate.
        assert!((window as f64 / SIZE as f64 - curve.estimate).abs() < 0.001);
    }
    assert!(slow > 50 && fast > 50);
}

#[test]
fn fractions_of_bytes_are_carried_over() {
    // Steps that each grow less than a byte add up to the same growth as one large step.
    for acked in [1, 7, 100, SIZE] {
        let mut small = curve(10_000, 11_000);
        small.advance(ms(100));
        let mut large = small;
        let (start, prior) = (10_000 * SIZE, 11_000 * SIZE);
        let (mut window, mut steps) = (start, 0);
        while steps * acked < 500 * SIZE {
            window += small.on_acked(window, prior, acked, ms(100));
            steps += 1;
        }
        let by_large = large.on_acked(start, prior, steps * acked, ms(100));
        assert!(by_large > 1000);
        assert!((window - start).abs_diff(by_large) <= by_large / 100, "{acked}: {by_large}");
    }
}

#[test]
fn a_new_datagram_size_does_not_move_the_curve() {
    let mut curve = curve(700, 1000);
    curve.advance(ms(3000));
    let bytes = |curve: &Curve, time: f64| curve.at(time) * curve.datagram;
    let (before, at_k) = (bytes(&curve, curve.time), curve.w_max * curve.datagram);
    let estimate = curve.estimate * curve.datagram;
    for size in [1452, 9000, 500] {
        curve.set_max_datagram_size(size);
        assert!((bytes(&curve, curve.time) / before - 1.0).abs() < 1e-9, "{size}");
        assert!((bytes(&curve, curve.k) / at_k - 1.0).abs() < 1e-9, "{size}");
        assert!((curve.estimate * curve.datagram / estimate - 1.0).abs() < 1e-9, "{size}");
    }
}
