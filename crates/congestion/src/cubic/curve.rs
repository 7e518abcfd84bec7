//! The window's curve in one congestion avoidance stage (RFC 9438 §4.2 to §4.5).
//!
//! Windows are in datagrams and time in seconds, as in the RFC. Only addition, subtraction,
//! multiplication and division are used, so that every machine computes the same bits.

use core::time::Duration;

use clearway_units::packed::Pack;

use crate::inspect::{Inspect, StateValue, Visit};
use crate::{Metric, Quantity};

use super::{BETA_DENOMINATOR, BETA_NUMERATOR};

/// C (RFC 9438 §5), in datagrams per second cubed.
const C: f64 = 0.4;
/// alpha_cubic of §4.3: 3 (1 - beta) / (1 + beta).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// beta_cubic (§4.6).
const BETA: f64 = BETA_NUMERATOR as f64 / BETA_DENOMINATOR as f64;
/// §4.2: the target is at most one and a half windows. That bound moves with the window, so it
/// allows half a datagram of growth per acknowledged datagram.
const MAX_GROWTH: f64 = 0.5;
/// The largest window that is computed, in datagrams.
const LARGEST: f64 = 1e12;

#[derive(Clone, Copy, PartialEq, Debug, Pack)]
pub(super) struct Curve {
    datagram: f64,
    /// W_max, in datagrams.
    w_max: f64,
    /// K, in seconds.
    k: f64,
    /// The time on the curve: seconds in which the window or the pacer delayed data.
    time: f64,
    /// W_est, in datagrams: the window that Reno would have.
    estimate: f64,
    /// The fraction of a byte by which the window should have grown and has not yet (law 6).
    carry: f64,
}

impl Curve {
    /// Creates the curve of a stage that begins with `window` and aims at `w_max`, both in bytes.
    pub(super) fn new(window: u64, w_max: u64, max_datagram_size: u64) -> Self {
        let datagram = max_datagram_size.max(1) as f64;
        let start = window as f64 / datagram;
        let w_max = w_max as f64 / datagram;
        let k = cube_root((w_max - start).max(0.0) / C);
        Self { datagram, w_max, k, time: 0.0, estimate: start, carry: 0.0 }
    }

    /// Changes the datagram size. The curve continues from its current position in bytes.
    pub(super) fn set_max_datagram_size(&mut self, max_datagram_size: u64) {
        let datagram = max_datagram_size.max(1) as f64;
        let ratio = self.datagram / datagram;
        self.w_max *= ratio;
        self.estimate *= ratio;
        // C (t - K')^3 = ratio C (t - K)^3 at this t.
        self.k = self.time + cube_root(ratio) * (self.k - self.time);
        self.datagram = datagram;
    }

    /// Adds `limited`: time in which the window or the pacer delayed data.
    pub(super) fn advance(&mut self, limited: Duration) {
        self.time += limited.as_secs_f64();
    }

    /// Returns the bytes by which a window of `window` bytes grows because `acked` bytes were
    /// acknowledged. `prior` is cwnd_prior in bytes.
    pub(super) fn on_acked(
        &mut self,
        window: u64,
        prior: u64,
        acked: u64,
        smoothed_rtt: Duration,
    ) -> u64 {
        let cwnd = window as f64 / self.datagram;
        let segments = acked as f64 / self.datagram;
        // §4.3: once the estimate reaches the window before the cut, it grows as fast as Reno.
        // Until then, windows are counted in whole datagrams: no more of a window than that is ever
        // in flight, and small windows would otherwise grow visibly slower than alpha_cubic per
        // round trip.
        let growth = match self.estimate >= prior as f64 / self.datagram {
            true => segments / cwnd,
            false => ALPHA * segments / (window / self.datagram as u64).max(1) as f64,
        };
        self.estimate = (self.estimate + growth).min(LARGEST);
        let increase = if self.at(self.time) < self.estimate {
            // The estimate includes the fractions already.
            self.carry = 0.0;
            (self.estimate - cwnd).max(0.0)
        } else {
            let ahead = self.at(self.time + smoothed_rtt.as_secs_f64());
            let gap = (ahead - cwnd).max(0.0);
            (gap * share_of_gap(segments / cwnd)).min(MAX_GROWTH * segments)
        };
        self.take_whole_bytes(increase.min(segments), acked)
    }

    /// Reports W_max, K, t and W_est of §4.1, with windows in bytes.
    pub(super) fn metrics(&self, tell: &mut dyn FnMut(Metric)) {
        // The casts saturate.
        let bytes = |windows: f64| Quantity::Bytes((windows * self.datagram) as u64);
        let time = |seconds: f64| Quantity::Time(Duration::from_nanos((seconds * 1e9) as u64));
        for (name, quantity) in [
            ("w_max", bytes(self.w_max)),
            ("k", time(self.k)),
            ("t", time(self.time)),
            ("w_est", bytes(self.estimate)),
        ] {
            tell(Metric { name, quantity });
        }
    }

    /// Returns W_cubic(t), limited to the computed range.
    fn at(&self, time: f64) -> f64 {
        let t = time - self.k;
        (C * t * t * t + self.w_max).clamp(0.0, LARGEST)
    }

    /// Returns the growth in whole bytes and keeps the remainder for the next acknowledgment. Never
    /// exceeds what was acknowledged (S6).
    fn take_whole_bytes(&mut self, increase: f64, acked: u64) -> u64 {
        let bytes = increase * self.datagram + self.carry;
        // The cast saturates, and `bytes` is finite and not negative.
        let whole = (bytes as u64).min(acked);
        self.carry = (bytes - whole as f64).clamp(0.0, 1.0);
        whole
    }
}

/// Returns the part of the gap to the target that is closed when `windows` windows are
/// acknowledged. It equals the total that very many small acknowledgments would close, each
/// `(target - cwnd) / cwnd` per datagram (§4.4, §4.5), so the number of acknowledgments does not
/// matter (law 6, row 16).
///
/// This is 1 - exp(-x) as a rational function, accurate to 0.1 % for up to one window.
fn share_of_gap(windows: f64) -> f64 {
    let x = windows.min(2.0);
    x / (1.0 + x / 2.0 + x * x / 12.0)
}

/// Computes the cube root by Newton's method: the standard library's may differ between machines in
/// the last bit.
fn cube_root(value: f64) -> f64 {
    if value <= 0.0 {
        return 0.0;
    }
    // Scaled into [1, 8), where a starting value of 2 converges in a few steps.
    let (mut reduced, mut scale) = (value, 1.0);
    while reduced >= 8.0 {
        reduced /= 8.0;
        scale *= 2.0;
    }
    while reduced < 1.0 {
        reduced *= 8.0;
        scale /= 2.0;
    }
    let mut root = 1.5;
    for _ in 0..8 {
        root -= (root * root * root - reduced) / (3.0 * root * root);
    }
    root * scale
}

impl Inspect for Curve {
    fn inspect(&self, visit: &mut Visit<'_>) {
        let Self { datagram: _, w_max, k, time, estimate, carry } = *self;
        visit("curve_w_max", StateValue::Fraction(w_max));
        visit("curve_k", StateValue::Fraction(k));
        visit("curve_time", StateValue::Fraction(time));
        visit("w_est", StateValue::Fraction(estimate));
        visit("carry", StateValue::Fraction(carry));
    }
}

#[cfg(test)]
#[path = "curve_tests.rs"]
mod tests;
