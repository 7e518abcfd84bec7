//! The amount in flight above which more than 2 % is lost, as found by bandwidth probes (draft,
//! BBR.inflight_longterm).

use super::Bbr;
use super::gain::Gain;
use super::sample::Sample;
use super::state::BbrState;
use crate::inspect::{Inspect, StateValue, Visit};
use clearway_units::packed::Pack;

/// Log2 of the maximum growth per round, in datagrams.
const MAXIMUM_DOUBLINGS: u32 = 30;

#[derive(Clone, Debug, Default, Pack)]
pub(super) struct LongTerm {
    /// The bound in bytes (BBR.inflight_longterm); `None` is Infinity.
    pub(super) bound: Option<u64>,
    /// Log2 of the growth per round, in datagrams (BBR.bw_probe_up_rounds).
    rounds: u32,
    /// Bytes acknowledged since the last increase (BBR.bw_probe_up_acked).
    acked: u64,
    /// Acknowledged bytes per increase by one datagram (BBR.probe_up_acked_per_inc); `None` is
    /// Infinity.
    acked_per_increase: Option<u64>,
}

impl LongTerm {
    /// Begins a bandwidth probe: growth starts with one datagram per round.
    pub(super) fn begin_probe(&mut self) {
        self.rounds = 0;
        self.acked = 0;
    }

    /// Ends the probe.
    pub(super) fn end_probe(&mut self) {
        self.acked_per_increase = None;
    }

    /// Doubles the number of datagrams by which the bound grows per round, spread over the `window`
    /// acknowledged in it (RaiseInflightLongtermSlope).
    pub(super) fn raise_slope(&mut self, window: u64, size: u64) {
        let growth = 1 << self.rounds;
        self.rounds = (self.rounds + 1).min(MAXIMUM_DOUBLINGS);
        self.acked_per_increase = Some((window / growth).max(size));
    }

    /// Grows the bound after `newly_acked` bytes were acknowledged while the bound was fully used.
    fn grow(&mut self, newly_acked: u64, size: u64) {
        let (Some(bound), Some(step)) = (&mut self.bound, self.acked_per_increase) else { return };
        self.acked = self.acked.saturating_add(newly_acked);
        // Every complete step counts, and the remainder is kept (row 116).
        let increases = self.acked / step;
        self.acked %= step;
        *bound = bound.saturating_add(increases.saturating_mul(size));
    }
}

impl Bbr {
    /// Raises the bound after an ACK in a round with little loss, which shows what is safe (the
    /// second half of AdaptLongTermModel).
    pub(super) fn raise_long_term_bound(&mut self, sample: &Sample) {
        let Some(bound) = self.long_term.bound else { return };
        if is_too_high(sample.lost, sample.sent_in_flight()) {
            return;
        }
        self.long_term.bound = Some(bound.max(sample.sent_in_flight()));
        if self.state == BbrState::ProbeUp {
            self.probe_long_term_bound(sample);
        }
    }

    /// Raises the bound while a probe fully uses it (ProbeInflightLongtermUpward).
    fn probe_long_term_bound(&mut self, sample: &Sample) {
        if !self.is_at_long_term_bound(sample) {
            return;
        }
        let (window, size) = (self.window.bytes(), self.size());
        self.long_term.grow(sample.newly_acked, size);
        if self.rounds.is_start {
            self.long_term.raise_slope(window, size);
        }
    }

    /// Returns whether the window was fully used and limited only by the long-term bound.
    pub(super) fn is_at_long_term_bound(&self, sample: &Sample) -> bool {
        sample.is_window_limited
            && self.long_term.bound.is_some_and(|bound| self.window.bytes() >= bound)
    }

    /// Returns the bound minus the headroom for other flows (InflightWithHeadroom); `None` is
    /// Infinity.
    pub(super) fn bound_with_headroom(&self) -> Option<u64> {
        let bound = self.long_term.bound?;
        let headroom = Gain::HEADROOM.of(bound).max(self.size());
        Some(bound.saturating_sub(headroom).max(self.minimum_window()))
    }
}

/// Returns whether more than 2 % of the data in flight was lost (IsInflightTooHigh).
pub(super) fn is_too_high(lost: u64, in_flight: u64) -> bool {
    u128::from(lost) * 100 > u128::from(in_flight) * u128::from(Gain::LOSS_THRESHOLD.0)
}

impl Inspect for LongTerm {
    fn inspect(&self, visit: &mut Visit<'_>) {
        let Self { bound, rounds, acked, acked_per_increase } = *self;
        visit("inflight_longterm", StateValue::optional(bound, StateValue::Bytes));
        visit("bw_probe_up_rounds", StateValue::Count(u64::from(rounds)));
        visit("bw_probe_up_acked", StateValue::Bytes(acked));
        let increase = StateValue::optional(acked_per_increase, StateValue::Bytes);
        visit("probe_up_acked_per_inc", increase);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 1200;

    /// A probe in its third round: four datagrams per window of forty.
    fn probing() -> LongTerm {
        let mut long_term = LongTerm { bound: Some(40 * SIZE), ..LongTerm::default() };
        long_term.begin_probe();
        (0..3).for_each(|_| long_term.raise_slope(40 * SIZE, SIZE));
        long_term
    }

    #[test]
    fn growth_does_not_depend_on_how_acknowledgements_are_bundled() {
        // Row 116: an ACK worth several increases leaves only the remainder.
        for bundle in [1, 3, 10, 25, 40] {
            let mut long_term = probing();
            (0..200 / bundle).for_each(|_| long_term.grow(bundle * SIZE, SIZE));
            let acked = 200 / bundle * bundle;
            assert_eq!(long_term.bound, Some((40 + acked / 10) * SIZE), "{bundle} in one ACK");
        }
    }

    #[test]
    fn the_bound_does_not_grow_outside_a_probe() {
        let mut long_term = probing();
        long_term.end_probe();
        long_term.grow(1000 * SIZE, SIZE);
        assert_eq!(long_term.bound, Some(40 * SIZE));
    }
}
