//! The congestion window (draft, "Congestion Window").

use clearway_units::Rate;
use clearway_units::packed::Pack;

use super::Bbr;
use super::gain::Gain;
use super::state::BbrState;
use crate::inspect::{Inspect, StateValue, Visit};

/// The minimum window in datagrams (BBR.MinPipeCwnd).
const MINIMUM_DATAGRAMS: u64 = 4;

/// The congestion window (C.cwnd), and the last window before losses or ProbeRTT reduced it.
#[derive(Clone, Debug, Pack)]
pub(super) struct Window {
    bytes: u64,
    /// The saved window (BBR.prior_cwnd).
    saved: u64,
    is_touched: bool,
}

impl Window {
    pub(super) fn new(bytes: u64) -> Self {
        Self { bytes, saved: 0, is_touched: false }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns whether the window is no longer the initial one.
    pub(super) fn is_touched(&self) -> bool {
        self.is_touched
    }

    pub(super) fn set(&mut self, bytes: u64, minimum: u64, maximum: u64) {
        self.bytes = bytes.clamp(minimum, maximum);
    }

    /// Saves the window (SaveCwnd). `is_modulated`: losses or ProbeRTT influence the current
    /// window.
    pub(super) fn save(&mut self, is_modulated: bool) {
        self.saved = if is_modulated { self.saved.max(self.bytes) } else { self.bytes };
    }

    /// Restores the saved window if it is larger (RestoreCwnd).
    pub(super) fn restore(&mut self) {
        self.bytes = self.bytes.max(self.saved);
    }
}

impl Bbr {
    /// Returns the minimum window in bytes (BBR.MinPipeCwnd).
    pub(super) fn minimum_window(&self) -> u64 {
        self.size().saturating_mul(MINIMUM_DATAGRAMS)
    }

    pub(super) fn maximum_window(&self) -> u64 {
        self.parameters.maximum_window.max(self.minimum_window())
    }

    /// Returns the bandwidth-delay product at `rate` times `gain` (BDPMultiple), or the initial
    /// window if there is no round-trip time. Data delayed by reordering is in flight, too.
    fn multiple(&self, rate: Rate, gain: Gain) -> u64 {
        match self.minimum_rtt.minimum() {
            Some(minimum) => gain.of(rate.bytes_in(minimum.saturating_add(self.jitter.delay()))),
            None => self.parameters.initial_window(),
        }
    }

    /// Returns the bandwidth-delay product (BBR.bdp).
    pub(super) fn bandwidth_delay_product(&self) -> u64 {
        self.multiple(self.rate, Gain::ONE)
    }

    /// Returns the bandwidth-delay product, limited by the window (TargetInflight).
    pub(super) fn target_in_flight(&self) -> u64 {
        self.bandwidth_delay_product().min(self.window.bytes())
    }

    /// Adds the quantization budget (QuantizationBudget). The offload budget is the send quantum.
    fn quantized(&self, in_flight: u64) -> u64 {
        let least = self.pacing.send_quantum(self.size()).max(self.minimum_window());
        let more = if self.state == BbrState::ProbeUp { self.size().saturating_mul(2) } else { 0 };
        in_flight.max(least).saturating_add(more)
    }

    /// Returns the bytes in flight for `rate` and `gain` (Inflight).
    pub(super) fn in_flight_for(&self, rate: Rate, gain: Gain) -> u64 {
        self.quantized(self.multiple(rate, gain))
    }

    /// Returns the maximum bytes in flight that the model allows (BBR.max_inflight).
    fn maximum_in_flight(&self) -> u64 {
        let multiple = self.multiple(self.rate, self.state.window_gain());
        self.quantized(multiple.saturating_add(self.aggregation.maximum()))
    }

    /// Returns the window during ProbeRTT (ProbeRTTCwnd).
    pub(super) fn probe_rtt_window(&self) -> u64 {
        self.multiple(self.rate, BbrState::ProbeRtt.window_gain()).max(self.minimum_window())
    }

    /// Updates the window (SetCwnd). `growing` is the number of acknowledged bytes that may make it
    /// grow.
    pub(super) fn set_window(&mut self, growing: u64, total_delivered: u64) {
        self.window.is_touched = true;
        let maximum = self.maximum_in_flight();
        let grown = self.window.bytes.saturating_add(growing);
        if self.full_pipe.was_reached {
            self.window.bytes = grown.min(maximum);
        } else if self.window.bytes < maximum || total_delivered < self.parameters.initial_window()
        {
            self.window.bytes = grown;
        }
        if self.state == BbrState::ProbeRtt {
            self.window.bytes = self.window.bytes.min(self.probe_rtt_window());
        }
        self.bound_window();
    }

    /// Applies the model's bounds to the window (BoundCwndForModel).
    pub(super) fn bound_window(&mut self) {
        let long_term = match self.state {
            BbrState::Startup | BbrState::Drain => None,
            BbrState::ProbeCruise | BbrState::ProbeRtt => self.bound_with_headroom(),
            BbrState::ProbeDown | BbrState::ProbeRefill | BbrState::ProbeUp => self.long_term.bound,
        };
        let bound = |window: u64, limit: Option<u64>| limit.map_or(window, |it| it.min(window));
        let window = bound(bound(self.window.bytes, long_term), self.short_term.in_flight);
        self.window.set(window, self.minimum_window(), self.maximum_window());
    }

    /// Returns whether the long-term bound keeps the window below what the rest of the model
    /// allows.
    pub(super) fn is_long_term_bound(&self) -> bool {
        let is_in_force = !matches!(self.state, BbrState::Startup | BbrState::Drain);
        is_in_force && self.long_term.bound.is_some_and(|it| it < self.maximum_in_flight())
    }
}

impl Inspect for Window {
    fn inspect(&self, visit: &mut Visit<'_>) {
        let Self { bytes, saved, is_touched } = *self;
        visit("window", StateValue::Bytes(bytes));
        visit("prior_cwnd", StateValue::Bytes(saved));
        visit("is_touched", StateValue::Flag(is_touched));
    }
}
