//! S24: in congestion avoidance, CUBIC's window follows W_cubic(t) and W_est (RFC 9438 §4.2 to §4.5).
//!
//! A stage begins when a recovery period ends, or when HyStart++ ends the first slow start. Its time is that in which
//! data waited for the window or the pacer (§4.2, §5.8). Two bounds advance with the acknowledged bytes; all windows are
//! in datagrams, as in the RFC:
//!
//! - from above: cwnd_epoch, the largest target W_cubic(t + RTT) so far, which is at most 1.5 windows, and W_est; the
//!   greatest of them counts. No acknowledgement may raise the window above its target.
//! - from below: a window that grows by (target - cwnd) / cwnd for each datagram acknowledged, and not at all for those
//!   that were acknowledged while data did not wait all the time; W_est where that is above W_cubic(t). The number of
//!   datagrams that one ACK frame acknowledges is left open: x windows close at least x / (1 + x) of the gap.
//!
//! Between the two lies the growth of about one round trip, by which a window that closes a gap follows its target. W_est
//! has two values as well: a window of a datagram and a half carries only one, so that dividing by whole datagrams is as
//! right as dividing by the window. Where the two leave the region of the window open, the lower bound does not advance.
//! In addition one datagram is permitted both ways, since a window may be kept in whole datagrams.
//!
//! Not judged: the time between a reduction that was undone, or persistent congestion, and the next reduction, since t and
//! cwnd_prior are not visible then; a window at its maximum. The path's datagrams have one size, and there is no ECN.

use core::time::Duration;

use clearway_congestion::Phase;

use crate::checker::books::{Books, Report};
use crate::checker::properties::Property;
use crate::checker::rule::{Rule, Verdict};

/// C (RFC 9438 §5), in datagrams per second cubed.
const C: f64 = 0.4;
/// beta_cubic (§4.6).
const BETA: f64 = 0.7;
/// alpha_cubic until W_est reaches cwnd_prior (§4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// What fast convergence leaves of W_max (§4.7).
const FAST_CONVERGENCE: f64 = (1.0 + BETA) / 2.0;
/// The target is at most so many windows (§4.2).
const TARGET: f64 = 1.5;
/// In datagrams.
const TOLERANCE: f64 = 1.0;
/// A stage counts as judged after so many rounds.
#[cfg(test)]
const ROUNDS: u64 = 8;

#[derive(Debug, Default)]
pub(in crate::checker) struct CubicCurve {
    /// W_max, in bytes; zero before the first reduction and after persistent congestion.
    w_max: f64,
    /// That before the last reduction.
    w_max_before: f64,
    stage: Option<Stage>,
    /// Stages that were judged for several rounds.
    #[cfg(test)]
    pub(in crate::checker) judged: u64,
}

/// A stage of congestion avoidance. Windows are in datagrams, times in seconds.
#[derive(Clone, Copy, Debug)]
struct Stage {
    w_max: f64,
    k: f64,
    /// cwnd_prior.
    prior: f64,
    time: f64,
    /// W_est, as small and as great as it may be.
    least_estimate: f64,
    greatest_estimate: f64,
    /// The window, as small as it may be.
    least: f64,
    /// The largest target so far, and cwnd_epoch.
    target: f64,
    #[cfg(test)]
    rounds: u64,
}

/// What an acknowledgement brought to a stage.
#[derive(Clone, Copy, Debug)]
struct Growth {
    /// The window before it, and the acknowledged datagrams that were sent after the last reduction.
    window: f64,
    acked: f64,
    round_trip: f64,
    /// Data waited for the window or the pacer all the time.
    is_due: bool,
    /// It did so in this round or the one before.
    is_permitted: bool,
}

impl Rule for CubicCurve {
    const PROPERTY: Property = Property::S24;

    fn on_report(&mut self, books: &Books, report: &Report<'_>) -> Verdict {
        if !books.terms.kind.follows_cubic_curve() {
            return Ok(());
        }
        if report.change.is_cut || report.change.is_undo {
            self.begin_after_reduction(books, report);
            return Ok(());
        }
        let (before, after) = (&report.before.congestion, &report.after.congestion);
        let was_slow_start =
            matches!(before.phase, Phase::SlowStart | Phase::ConservativeSlowStart);
        if was_slow_start && after.phase == Phase::CongestionAvoidance {
            self.begin_after_slow_start(books, report);
            return Ok(());
        }
        if after.window >= books.terms.maximum_window {
            self.stage = None;
        }
        let Some(stage) = &mut self.stage else { return Ok(()) };
        if report.tally.acked > 0 || report.tally.lost > 0 {
            stage.advance(books, report);
        }
        if after.phase != Phase::CongestionAvoidance || report.tally.pending > 0 {
            return Ok(());
        }
        #[cfg(test)]
        if report.round.is_some() {
            stage.rounds += 1;
            self.judged += u64::from(stage.rounds == ROUNDS);
        }
        stage.check(after.window as f64 / books.datagram() as f64)
    }

    fn on_path(&mut self, _books: &Books) {
        *self = Self::default();
    }
}

impl CubicCurve {
    /// The window was reduced (§4.6, §4.7), or a reduction was taken back (§4.9.2), or both.
    fn begin_after_reduction(&mut self, books: &Books, report: &Report<'_>) {
        let change = &report.change;
        self.stage = None;
        let mut prior = change.before;
        if change.is_undo {
            self.w_max = self.w_max_before;
            prior = prior.max(books.episode.window_before);
        }
        if !change.is_cut {
            return;
        }
        if report.after.congestion.phase != Phase::Recovery {
            // Persistent congestion.
            self.w_max = 0.0;
            return;
        }
        self.w_max_before = self.w_max;
        let prior = prior as f64;
        self.w_max = if prior < self.w_max { prior * FAST_CONVERGENCE } else { prior };
        let datagram = books.datagram() as f64;
        let epoch = change.after as f64 / datagram;
        self.stage = Some(Stage::new(epoch, self.w_max / datagram, prior / datagram));
    }

    /// Slow start reached its end: K is zero, and W_max the window (§4.10). That of the last reduction, cwnd_prior, is
    /// known to be the same only if there was none.
    fn begin_after_slow_start(&mut self, books: &Books, report: &Report<'_>) {
        let (before, after) = (&report.before.congestion, &report.after.congestion);
        let epoch = after.slow_start_threshold.unwrap_or(after.window);
        self.w_max = epoch as f64;
        self.stage = before.slow_start_threshold.is_none().then(|| {
            let datagram = books.datagram() as f64;
            let epoch = self.w_max / datagram;
            let mut stage = Stage::new(epoch, epoch, epoch);
            // The rest of the acknowledgement belongs to the stage.
            stage.greatest_estimate = after.window.max(1) as f64 / datagram;
            stage
        });
    }
}

impl Stage {
    /// A stage that begins with a window of `epoch` datagrams.
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

    /// W_cubic(t) (§4.2).
    fn curve(&self, time: f64) -> f64 {
        C * (time - self.k).powi(3) + self.w_max
    }

    /// Packets were acknowledged or lost.
    fn advance(&mut self, books: &Books, report: &Report<'_>) {
        let held = report.tally.held;
        // The stage begins when recovery ends.
        if report.before.congestion.phase != Phase::Recovery {
            self.time += held.time.as_secs_f64();
        }
        let datagram = books.datagram() as f64;
        self.grow(Growth {
            window: report.change.before as f64 / datagram,
            acked: report.tally.growing as f64 / datagram,
            round_trip: books.rtt.estimate.map_or(Duration::ZERO, |it| it.smoothed).as_secs_f64(),
            is_due: held.was_throughout,
            is_permitted: books.rounds.was_limited() || held.time > Duration::ZERO,
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

    /// The additive factor of §4.3, for an estimate of `estimate` datagrams.
    fn alpha(&self, estimate: f64) -> f64 {
        if estimate >= self.prior { 1.0 } else { ALPHA }
    }

    fn check(&self, window: f64) -> Verdict {
        let most = self.target.max(self.greatest_estimate);
        let what = if window + TOLERANCE < self.least {
            format!("{:.2} datagrams at least", self.least)
        } else if window > most + TOLERANCE {
            format!("{most:.2} datagrams at most")
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
