//! S24: in congestion avoidance, CUBIC's congestion window follows W_cubic(t) and W_est (RFC 9438
//! §4.2 to §4.5).
//!
//! A phase (called stage here) begins when a recovery period ends, or when HyStart++ ends the first
//! slow start. Its time only counts periods in which data waited for the window or the pacer (§4.2,
//! §5.8). Two bounds advance with the acknowledged bytes; all windows are in datagrams, as in the
//! RFC:
//!
//! - the upper bound is the maximum of cwnd_epoch, of the largest target W_cubic(t + RTT) so far,
//!   which is at most 1.5 windows, and of W_est. No acknowledgment may raise the window above its
//!   target.
//! - the lower bound is a window that grows by (target - cwnd) / cwnd for each datagram
//!   acknowledged, except for datagrams acknowledged in rounds in which data was not waiting all
//!   the time; or W_est, if that is above W_cubic(t). The number of datagrams that one ACK frame
//!   acknowledges is unknown, so x acknowledged windows close at least x / (1 + x) of the gap.
//!
//! The bounds differ by about one round trip of growth, because a window that closes a gap lags its
//! target by that amount. W_est also has two bounds: a window of 1.5 datagrams allows only one
//! datagram in flight, so dividing by whole datagrams is as correct as dividing by the window. If
//! the window's region is unknown, the lower bound does not advance. A tolerance of one datagram is
//! added to both bounds, since a window may be kept in whole datagrams.
//!
//! The following is not checked: the period from an undone reduction, or from persistent
//! congestion, to the next reduction, because t and cwnd_prior are not visible then; windows at the
//! configured maximum; and phases in which the datagram size changes. ECN is not used.

use core::time::Duration;

use clearway_congestion::Phase;

use crate::checker::properties::Property;
use crate::checker::records::{EndpointRecords, Report};
use crate::checker::rule::{Rule, Verdict};

/// C (RFC 9438 §5), in datagrams per second cubed.
const C: f64 = 0.4;
/// beta_cubic (§4.6).
const BETA: f64 = 0.7;
/// alpha_cubic until W_est reaches cwnd_prior (§4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// The fraction of W_max that remains after fast convergence (§4.7).
const FAST_CONVERGENCE: f64 = (1.0 + BETA) / 2.0;
/// The largest target, as a multiple of the window (§4.2).
const TARGET: f64 = 1.5;
/// The tolerance in datagrams.
const TOLERANCE: f64 = 1.0;
/// The number of rounds after which a congestion avoidance phase counts as checked.
#[cfg(test)]
const ROUNDS: u64 = 8;

#[derive(Debug, Default)]
pub(in crate::checker) struct CubicCurve {
    /// W_max, in bytes; zero before the first reduction and after persistent congestion.
    w_max: f64,
    /// W_max before the last reduction.
    w_max_before: f64,
    stage: Option<Stage>,
    /// The number of congestion avoidance phases that were checked for several rounds.
    #[cfg(test)]
    pub(in crate::checker) judged: u64,
}

/// A congestion avoidance phase. Windows are in datagrams, and times in seconds.
#[derive(Clone, Copy, Debug)]
struct Stage {
    w_max: f64,
    k: f64,
    /// The value of cwnd_prior.
    prior: f64,
    time: f64,
    /// The lower and upper bounds of W_est.
    least_estimate: f64,
    greatest_estimate: f64,
    /// The lower bound of the window.
    least: f64,
    /// The largest target so far; at least cwnd_epoch.
    target: f64,
    #[cfg(test)]
    rounds: u64,
}

/// The effect of an acknowledgment in a congestion avoidance phase.
#[derive(Clone, Copy, Debug)]
struct Growth {
    /// The window before the acknowledgment, and the number of acknowledged datagrams that were
    /// sent after the last reduction.
    window: f64,
    acked: f64,
    round_trip: f64,
    /// Whether data was waiting for the window or the pacer during the whole round.
    is_due: bool,
    /// Whether data was waiting for the window or the pacer in this round or the previous one.
    is_permitted: bool,
}

impl Rule for CubicCurve {
    const PROPERTY: Property = Property::S24;

    fn on_report(&mut self, records: &EndpointRecords, report: &Report<'_>) -> Verdict {
        if !records.config.kind.follows_cubic_curve() {
            return Ok(());
        }
        if report.change.is_cut || report.change.is_undo {
            self.begin_after_reduction(records, report);
            return Ok(());
        }
        let (before, after) = (&report.before.congestion, &report.after.congestion);
        let was_slow_start =
            matches!(before.phase, Phase::SlowStart | Phase::ConservativeSlowStart);
        if was_slow_start && after.phase == Phase::CongestionAvoidance {
            self.begin_after_slow_start(records, report);
            return Ok(());
        }
        if after.window >= records.config.maximum_window {
            self.stage = None;
        }
        let Some(stage) = &mut self.stage else { return Ok(()) };
        if report.tally.acked > 0 || report.tally.lost > 0 {
            stage.advance(records, report);
        }
        if after.phase != Phase::CongestionAvoidance || report.tally.pending > 0 {
            return Ok(());
        }
        #[cfg(test)]
        if report.round.is_some() {
            stage.rounds += 1;
            self.judged += u64::from(stage.rounds == ROUNDS);
        }
        stage.check(after.window as f64 / records.datagram() as f64)
    }

    fn on_mtu(&mut self, _records: &EndpointRecords) {
        self.stage = None;
    }

    fn on_path(&mut self, _records: &EndpointRecords) {
        *self = Self::default();
    }
}

impl CubicCurve {
    /// Begins a congestion avoidance phase after the window was reduced (§4.6, §4.7), a reduction
    /// was undone (§4.9.2), or both.
    fn begin_after_reduction(&mut self, records: &EndpointRecords, report: &Report<'_>) {
        let change = &report.change;
        self.stage = None;
        let mut prior = change.before;
        if change.is_undo {
            self.w_max = self.w_max_before;
            prior = prior.max(records.episode.window_before);
        }
        if !change.is_cut {
            return;
        }
        if report.after.congestion.phase != Phase::Recovery {
            // Persistent congestion has occurred.
            self.w_max = 0.0;
            return;
        }
        self.w_max_before = self.w_max;
        let prior = prior as f64;
        // The window is kept in whole bytes and may stay at W_max, so a fraction of a byte in W_max
        // must not count as a difference.
        let is_lower = prior < self.w_max.floor();
        self.w_max = if is_lower { prior * FAST_CONVERGENCE } else { prior };
        let datagram = records.datagram() as f64;
        let epoch = change.after as f64 / datagram;
        self.stage = Some(Stage::new(epoch, self.w_max / datagram, prior / datagram));
    }

    /// Begins a congestion avoidance phase after slow start: K is zero, and W_max is the window
    /// (§4.10). The value of cwnd_prior, the window before the last reduction, is known only if
    /// there was no reduction; it then equals W_max.
    fn begin_after_slow_start(&mut self, records: &EndpointRecords, report: &Report<'_>) {
        let (before, after) = (&report.before.congestion, &report.after.congestion);
        let epoch = after.slow_start_threshold.unwrap_or(after.window);
        self.w_max = epoch as f64;
        self.stage = before.slow_start_threshold.is_none().then(|| {
            let datagram = records.datagram() as f64;
            let epoch = self.w_max / datagram;
            let mut stage = Stage::new(epoch, epoch, epoch);
            // The bytes acknowledged after slow start ended count for the congestion avoidance
            // phase.
            stage.greatest_estimate = after.window.max(1) as f64 / datagram;
            stage
        });
    }
}

impl Stage {
    /// Creates a congestion avoidance phase that begins with a window of `epoch` datagrams.
    fn new(epoch: f64, w_max: f64, prior: f64) -> Self {
        Self {
            w_max,
            k: ((w_max - epoch).max(0.0) / C).cbrt(),
            prior,
            time: 0.0,
            least_estimate: epoch,
            greatest_estimate: epoch,
            least: epoch,
            target: epoch,
            #[cfg(test)]
            rounds: 0,
        }
    }

    /// Returns W_cubic(t) (§4.2).
    fn curve(&self, time: f64) -> f64 {
        C * (time - self.k).powi(3) + self.w_max
    }

    /// Advances the congestion avoidance phase after packets were acknowledged or lost.
    fn advance(&mut self, records: &EndpointRecords, report: &Report<'_>) {
        let held = report.tally.held;
        // A congestion avoidance phase begins when recovery ends.
        if report.before.congestion.phase != Phase::Recovery {
            self.time += held.time.as_secs_f64();
        }
        let datagram = records.datagram() as f64;
        self.grow(Growth {
            window: report.change.before as f64 / datagram,
            acked: report.tally.growing as f64 / datagram,
            round_trip: records.rtt.estimate.map_or(Duration::ZERO, |it| it.smoothed).as_secs_f64(),
            is_due: held.was_throughout,
            is_permitted: records.rounds.was_limited() || held.time > Duration::ZERO,
        });
    }

    fn grow(&mut self, growth: Growth) {
        let Growth { window, acked, round_trip, is_due, is_permitted } = growth;
        let (now, ahead) = (self.curve(self.time), self.curve(self.time + round_trip));
        if is_permitted {
            let alpha = self.alpha(self.greatest_estimate);
            self.greatest_estimate += alpha * acked / window.floor().max(1.0);
            self.target = self.target.max(ahead.min(TARGET * window));
        }
        if !is_due {
            return;
        }
        self.least_estimate += self.alpha(self.least_estimate) * acked / window;
        if now < self.least_estimate {
            self.least = self.least.max(self.least_estimate.min(self.least + acked));
        } else if now >= self.greatest_estimate {
            let gap = (ahead.min(TARGET * self.least) - self.least).max(0.0);
            self.least += gap * acked / (self.least + acked);
        }
    }

    /// Returns the additive factor of §4.3 for a W_est of `estimate` datagrams.
    fn alpha(&self, estimate: f64) -> f64 {
        if estimate >= self.prior { 1.0 } else { ALPHA }
    }

    fn check(&self, window: f64) -> Verdict {
        let most = self.target.max(self.greatest_estimate);
        let what = if window + TOLERANCE < self.least {
            format!("at least {:.2} datagrams", self.least)
        } else if window > most + TOLERANCE {
            format!("at most {most:.2} datagrams")
        } else {
            return Ok(());
        };
        Err(format!(
            "the window is {window:.2} datagrams, and should be {what}: t is {:.3} s, K {:.3} s, W_max {:.2}, W_cubic(t) \
             {:.2}, W_est {:.2} to {:.2} and cwnd_prior {:.2} datagrams",
            self.time,
            self.k,
            self.w_max,
            self.curve(self.time),
            self.least_estimate,
            self.greatest_estimate,
            self.prior
        ))
    }
}
