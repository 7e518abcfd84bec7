use core::time::Duration;

use clearway_units::Rate;

use crate::base::{self, Base, scale};
use crate::{
    Acknowledgement, CongestionResponse, Controller, ControllerParameters, Metric, RttSnapshot,
    SentPacket, Snapshot, SpuriousLoss, UnpackController,
};

mod curve;

use crate::inspect::{Inspect, StateValue, Visit};
use clearway_units::packed::{Pack, Packer};
use curve::Curve;

/// beta_cubic (RFC 9438 §4.6).
const BETA_NUMERATOR: u64 = 7;
const BETA_DENOMINATOR: u64 = 10;
/// beta_ecn for CUBIC (RFC 8511 §3.1).
const ECN_NUMERATOR: u64 = 17;
const ECN_DENOMINATOR: u64 = 20;
/// Fast convergence (§4.7): (1 + beta_cubic) / 2.
const FAST_CONVERGENCE_NUMERATOR: u64 = BETA_DENOMINATOR + BETA_NUMERATOR;
const FAST_CONVERGENCE_DENOMINATOR: u64 = 2 * BETA_DENOMINATOR;

/// CUBIC as in RFC 9438, with HyStart++ (RFC 9406) in the first slow start, PRR (RFC 9937) in
/// recovery, and Alternative Backoff with ECN (RFC 8511).
///
/// The epoch is not a point in time but the accumulated time in which the window or the pacer
/// delayed data (law 3): idle and application-limited periods are never part of it (§4.2, §5.8), so
/// the epoch never has to be shifted.
#[derive(Clone, Debug, Pack)]
pub struct Cubic {
    base: Base,
    anchor: Anchor,
    before_cut: Option<Box<BeforeCut>>,
}

/// The window before the last cut, and the curve that leads back to it.
#[derive(Clone, Copy, Debug, Default, Pack)]
struct Anchor {
    /// W_max: the window at the last cut, after fast convergence, in bytes. Zero before the first
    /// cut and after a collapse.
    w_max: u64,
    /// cwnd_prior: the window just before the slow start threshold was last set; bytes.
    prior: Option<u64>,
    /// The curve of the current congestion avoidance stage, if there is one.
    curve: Option<Curve>,
}

/// The state to restore if the losses that caused a cut were spurious (§4.9.2).
#[derive(Clone, Copy, Debug, Pack)]
struct BeforeCut {
    base: base::BeforeCut,
    anchor: Anchor,
}

impl Cubic {
    /// Creates a controller in slow start with the initial window.
    pub fn new(parameters: &ControllerParameters) -> Self {
        Self { base: Base::new(parameters), anchor: Anchor::default(), before_cut: None }
    }

    fn reduced(&self) -> u64 {
        scale(self.base.window(), BETA_NUMERATOR, BETA_DENOMINATOR)
    }

    /// Returns the window after a cut for `event`.
    fn cut_window(&self, event: &Acknowledgement<'_>) -> u64 {
        match self.base.is_marked_only(event) {
            true => scale(self.base.window(), ECN_NUMERATOR, ECN_DENOMINATOR),
            false => self.reduced(),
        }
    }

    /// Cuts the window as in §4.6 and §4.7.
    fn cut(&mut self, event: &Acknowledgement<'_>) {
        let window = self.base.window();
        self.before_cut = (event.newly_ce_marked == 0)
            .then(|| Box::new(BeforeCut { base: self.base.before_cut(), anchor: self.anchor }));
        // Both W_max and the cut are computed from the window before the cut (row 14).
        let w_max = if window < self.anchor.w_max {
            scale(window, FAST_CONVERGENCE_NUMERATOR, FAST_CONVERGENCE_DENOMINATOR)
        } else {
            window
        };
        self.base.cut(self.cut_window(event), event);
        let curve = Curve::new(self.base.window(), w_max, self.base.max_datagram_size());
        self.anchor = Anchor { w_max, prior: Some(window), curve: Some(curve) };
    }

    /// Collapses the window as in §4.8. The first congestion avoidance stage after that starts a
    /// new curve.
    fn collapse(&mut self, event: &Acknowledgement<'_>) {
        self.before_cut = None;
        if self.base.is_new_congestion(event) {
            self.anchor.prior = Some(self.base.window());
        }
        self.anchor.w_max = 0;
        self.anchor.curve = None;
        self.base.collapse(self.reduced(), event);
    }

    /// Grows the window for `acked` bytes; `limited` is the additional time on the curve.
    fn avoid_congestion(&mut self, acked: u64, limited: Duration, smoothed: Duration) {
        let window = self.base.window();
        let size = self.base.max_datagram_size();
        let anchor = &mut self.anchor;
        let curve = match &mut anchor.curve {
            Some(curve) => {
                curve.advance(limited);
                curve
            }
            empty => {
                // §4.8, §4.10: slow start ended without a cut. K is zero and W_max is the current
                // window; the time that has passed belongs to slow start.
                anchor.w_max = window;
                anchor.prior = anchor.prior.or(Some(window));
                empty.insert(Curve::new(window, window, size))
            }
        };
        let prior = anchor.prior.unwrap_or(window);
        self.base.increase_window(curve.on_acked(window, prior, acked, smoothed));
    }
}

impl Controller for Cubic {
    fn name(&self) -> &'static str {
        "cubic"
    }

    fn on_sent(&mut self, packet: &SentPacket, _bytes_in_flight: u64) {
        self.base.on_sent(packet);
    }

    fn on_acknowledgement(&mut self, event: &Acknowledgement<'_>) -> CongestionResponse {
        if event.newly_ce_marked > 0 {
            // The network itself signaled congestion: the cut cannot be undone.
            self.before_cut = None;
        }
        if self.base.is_new_persistent_congestion(event) {
            self.collapse(event);
            CongestionResponse::Reduced
        } else if self.base.is_new_congestion(event) {
            self.cut(event);
            CongestionResponse::Reduced
        } else {
            // The congestion avoidance stage begins once the losses are repaired.
            let limited = match self.base.is_in_recovery() {
                true => Duration::ZERO,
                false => event.limited_time,
            };
            let acked = self.base.grow(event);
            if !self.base.is_in_slow_start() {
                let smoothed = event.rtt.map_or(Duration::ZERO, |rtt| rtt.smoothed);
                self.avoid_congestion(acked, limited, smoothed);
            }
            self.base.note_suppressors(event);
            CongestionResponse::None
        }
    }

    fn on_spurious_loss(&mut self, event: &SpuriousLoss) {
        if event.still_lost == 0
            && let Some(before) = self.before_cut.take()
            && self.base.undo(&before.base)
        {
            self.anchor = before.anchor;
        }
    }

    fn on_max_datagram_size(&mut self, max_datagram_size: u64) {
        self.base.set_max_datagram_size(max_datagram_size);
        for anchor in [Some(&mut self.anchor), self.before_cut.as_mut().map(|b| &mut b.anchor)] {
            if let Some(curve) = anchor.and_then(|anchor| anchor.curve.as_mut()) {
                curve.set_max_datagram_size(max_datagram_size);
            }
        }
    }

    fn window(&self) -> u64 {
        self.base.permitted_window()
    }

    fn pacing_rate(&self, rtt: Option<&RttSnapshot>) -> Option<Rate> {
        self.base.pacing_rate(rtt)
    }

    fn snapshot(&self) -> Snapshot {
        self.base.snapshot()
    }

    fn metrics(&self, tell: &mut dyn FnMut(Metric)) {
        self.base.metrics(tell);
        if let Some(curve) = &self.anchor.curve {
            curve.metrics(tell);
        }
    }

    fn pack(&self, into: &mut Packer) -> Option<UnpackController> {
        Pack::pack(self, into);
        Some(|from| Box::new(Self::unpack(from)))
    }
}

impl Inspect for Cubic {
    fn inspect(&self, visit: &mut Visit<'_>) {
        let Self { base, anchor, before_cut: _ } = self;
        let Anchor { w_max, prior, curve } = anchor;
        base.inspect(visit);
        visit("w_max", StateValue::Bytes(*w_max));
        visit("cwnd_prior", StateValue::optional(*prior, StateValue::Bytes));
        visit("has_curve", StateValue::Flag(curve.is_some()));
        if let Some(curve) = curve {
            curve.inspect(visit);
        }
    }
}

#[cfg(test)]
#[path = "cubic_tests.rs"]
mod tests;
