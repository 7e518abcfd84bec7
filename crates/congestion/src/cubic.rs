use core::time::Duration;

use clearway_units::Rate;

use crate::base::{Base, Growth};
use crate::episode::Episode;
use crate::{
    Acknowledgement, Controller, ControllerParameters, RttSnapshot, SentPacket, Snapshot,
    SpuriousLoss,
};

mod curve;

use curve::Curve;

/// beta_cubic (RFC 9438 §4.6).
const BETA_NUMERATOR: u64 = 7;
const BETA_DENOMINATOR: u64 = 10;
/// Fast convergence (§4.7): (1 + beta_cubic) / 2.
const FAST_CONVERGENCE_NUMERATOR: u64 = 17;
const FAST_CONVERGENCE_DENOMINATOR: u64 = 20;

/// CUBIC as in RFC 9438, with HyStart++ (RFC 9406) in the first slow start.
///
/// The epoch is no point in time but an accumulator of the time in which the window or the pacer held
/// data back (law 3): idle and application-limited periods are never in it (§4.2, §5.8), so there is
/// nothing to shift, and nothing that could be shifted wrongly.
#[derive(Debug)]
pub struct Cubic {
    base: Base,
    /// The window where the last cut was made, after fast convergence; bytes.
    w_max: u64,
    /// The window just before the last cut; bytes.
    prior: u64,
    /// The curve of the current congestion avoidance stage, once there is one.
    curve: Option<Curve>,
    before_cut: Option<BeforeCut>,
}

/// What a cut is taken back to if its losses were none (§4.9.2).
#[derive(Clone, Copy, Debug)]
struct BeforeCut {
    window: u64,
    slow_start_threshold: Option<u64>,
    episode: Episode,
    w_max: u64,
    prior: u64,
    curve: Option<Curve>,
}

impl Cubic {
    /// In slow start at the initial window.
    pub fn new(parameters: &ControllerParameters) -> Self {
        Self { base: Base::new(parameters), w_max: 0, prior: 0, curve: None, before_cut: None }
    }

    fn reduced(&self) -> u64 {
        scale(self.base.window, BETA_NUMERATOR, BETA_DENOMINATOR)
    }

    fn on_congestion(&mut self, event: &Acknowledgement<'_>) {
        let is_new = self.base.episode.is_new_congestion(event);
        if event.persistent_congestion {
            self.before_cut = None;
            let threshold = match is_new {
                true => self.reduced(),
                // The cut for these losses has been made; the threshold keeps what it said.
                false => self.base.slow_start_threshold.unwrap_or(self.base.window),
            };
            self.base.collapse(threshold, event);
            // §4.8: the first congestion avoidance after it starts a curve of its own.
            self.w_max = 0;
            self.prior = 0;
            self.curve = None;
        } else if is_new {
            self.before_cut = Some(BeforeCut {
                window: self.base.window,
                slow_start_threshold: self.base.slow_start_threshold,
                episode: self.base.episode,
                w_max: self.w_max,
                prior: self.prior,
                curve: self.curve,
            });
            self.prior = self.base.window;
            // §4.7, from the window before the cut (row 14).
            self.w_max = if self.base.window < self.w_max {
                scale(self.base.window, FAST_CONVERGENCE_NUMERATOR, FAST_CONVERGENCE_DENOMINATOR)
            } else {
                self.base.window
            };
            self.base.cut(self.reduced(), event);
            self.curve =
                Some(Curve::new(self.base.window, self.w_max, self.base.max_datagram_size));
        }
    }

    fn avoid_congestion(&mut self, event: &Acknowledgement<'_>, acked: u64) {
        let smoothed = event.rtt.map_or(Duration::ZERO, |rtt| rtt.smoothed);
        let window = self.base.window;
        let size = self.base.max_datagram_size;
        let curve = self.curve.get_or_insert_with(|| {
            // §4.8, §4.10: slow start ended without a cut: K is zero and W_max the window.
            self.w_max = window;
            self.prior = window;
            Curve::new(window, window, size)
        });
        let increase = curve.on_acked(window, self.prior, acked, event.limited_time, smoothed);
        self.base.set_window(window.saturating_add(increase));
    }
}

fn scale(value: u64, numerator: u64, denominator: u64) -> u64 {
    let product = u128::from(value).saturating_mul(u128::from(numerator));
    u64::try_from(product / u128::from(denominator)).unwrap_or(u64::MAX)
}

impl Controller for Cubic {
    fn name(&self) -> &'static str {
        "cubic"
    }

    fn on_sent(&mut self, _packet: &SentPacket, _bytes_in_flight: u64) {}

    fn on_acknowledgement(&mut self, event: &Acknowledgement<'_>) {
        if event.persistent_congestion || self.base.episode.is_new_congestion(event) {
            self.on_congestion(event);
            return;
        }
        match self.base.grow(event) {
            Growth::Avoidance(acked) => self.avoid_congestion(event, acked),
            // The curve begins with the first acknowledgement in congestion avoidance.
            Growth::LeftSlowStart => self.curve = None,
            Growth::Done => {}
        }
    }

    fn on_spurious_loss(&mut self, event: &SpuriousLoss) {
        if event.still_lost > 0 {
            return;
        }
        if let Some(before) = self.before_cut.take()
            && self.base.window < before.window
        {
            self.base.set_window(before.window);
            self.base.slow_start_threshold = before.slow_start_threshold;
            self.base.episode = before.episode;
            self.base.episode.close();
            self.base.undone_events = self.base.undone_events.saturating_add(1);
            self.w_max = before.w_max;
            self.prior = before.prior;
            self.curve = before.curve;
        }
    }

    fn on_max_datagram_size(&mut self, max_datagram_size: u64) {
        self.base.set_max_datagram_size(max_datagram_size);
        if let Some(curve) = &mut self.curve {
            curve.set_max_datagram_size(max_datagram_size);
        }
    }

    fn window(&self) -> u64 {
        self.base.window
    }

    fn pacing_rate(&self, rtt: Option<&RttSnapshot>) -> Option<Rate> {
        self.base.pacing_rate(rtt)
    }

    fn snapshot(&self) -> Snapshot {
        self.base.snapshot()
    }
}

#[cfg(test)]
mod tests;
