//! The bounds that respond to losses immediately, until the next bandwidth probe (draft, "When not
//! Probing for Bandwidth").

use clearway_units::Rate;
use clearway_units::packed::Pack;

use super::Bbr;
use super::gain::Gain;
use crate::inspect::{Inspect, StateValue, Visit};

/// The short-term bounds; `None` is the draft's Infinity.
#[derive(Clone, Copy, Debug, Default, Pack)]
pub(super) struct ShortTerm {
    /// The bound on the rate (BBR.bw_shortterm).
    pub(super) rate: Option<Rate>,
    /// The bound on the bytes in flight (BBR.inflight_shortterm).
    pub(super) in_flight: Option<u64>,
}

impl ShortTerm {
    /// Removes both bounds (ResetShortTermModel).
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Returns `maximum`, limited by the bound (BBR.bw).
    pub(super) fn bounded_rate(&self, maximum: Rate) -> Rate {
        self.rate.map_or(maximum, |rate| rate.min(maximum))
    }

    /// Returns whether one of the bounds limits a sender whose model allows `maximum`.
    pub(super) fn is_bound(&self, maximum: Rate, window: u64) -> bool {
        self.bounded_rate(maximum) < maximum || self.in_flight.is_some_and(|it| it <= window)
    }
}

impl Bbr {
    /// Lowers the bounds after losses, once per loss round (AdaptLowerBoundsFromCongestion).
    pub(super) fn adapt_short_term_bounds(&mut self) {
        if self.state.is_accelerating() || !self.latest.has_loss {
            return;
        }
        let rate = self.short_term.rate.unwrap_or(self.bandwidth.maximum());
        let in_flight = self.short_term.in_flight.unwrap_or(self.window.bytes());
        self.short_term.rate = Some(Gain::BETA.of_rate(rate).max(self.latest.rate));
        self.short_term.in_flight = Some(Gain::BETA.of(in_flight).max(self.latest.in_flight));
    }
}

impl Inspect for ShortTerm {
    fn inspect(&self, visit: &mut Visit<'_>) {
        let Self { rate, in_flight } = *self;
        visit("bw_shortterm", StateValue::optional(rate, StateValue::Rate));
        visit("inflight_shortterm", StateValue::optional(in_flight, StateValue::Bytes));
    }
}
