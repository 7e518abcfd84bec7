//! Detects a congestion state that alternates, and recovery without a loss.

use core::time::Duration;
use std::collections::VecDeque;

use super::state::State;
use super::{Detector, Finding, FindingId, keep_worst, text};
use crate::read::{CongestionState, Event, EventKind};

/// The minimum number of consecutive entries into recovery, without a loss between them, for a
/// finding. There should be none (S4, S16), but a few may be due to ECN-CE marks or losses that the
/// trace lacks.
const FLIPS: u64 = 16;

/// Detects that recovery is entered repeatedly although nothing is lost.
#[derive(Clone, Debug, Default)]
pub(super) struct Flapping {
    present: Option<Run>,
    worst: Option<Run>,
    total: Duration,
    count: u64,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    begin: Duration,
    end: Duration,
    entries: u64,
    rtt: Duration,
}

impl Run {
    fn length(&self) -> Duration {
        self.end.saturating_sub(self.begin)
    }

    fn period(&self) -> Duration {
        self.length().div_f64(self.entries.saturating_sub(1).max(1) as f64)
    }
}

impl Flapping {
    fn end_run(&mut self) {
        let Some(run) = self.present.take().filter(|run| run.entries >= FLIPS) else { return };
        self.total = self.total.saturating_add(run.length());
        self.count = self.count.saturating_add(1);
        keep_worst(&mut self.worst, run, Run::length);
    }
}

impl Detector for Flapping {
    fn on_event(&mut self, event: &Event, state: &State) {
        if state.has_congestion() {
            self.end_run();
        }
        if !matches!(event.kind, EventKind::CongestionState(CongestionState::Recovery)) {
            return;
        }
        let rtt = state.rtt().unwrap_or_default();
        // Entries into recovery that are far apart are not flapping.
        let patience = state.patience();
        if self.present.is_some_and(|run| state.now.saturating_sub(run.end) > patience) {
            self.end_run();
        }
        let run =
            self.present.get_or_insert(Run { begin: state.now, end: state.now, entries: 0, rtt });
        run.entries = run.entries.saturating_add(1);
        run.end = state.now;
        run.rtt = rtt;
    }

    fn finish(mut self: Box<Self>, _state: &State) -> Vec<Finding> {
        self.end_run();
        let Some(worst) = self.worst else { return Vec::new() };
        let period = worst.period();
        let ratio = period.as_secs_f64() / worst.rtt.as_secs_f64().max(1e-9);
        let equals = match ratio {
            0.85..=1.15 => " (one round trip)".to_owned(),
            ratio => format!(" ({ratio:.1} round trips)"),
        };
        let per_second = 2.0 / period.as_secs_f64().max(1e-9);
        vec![Finding {
            id: FindingId::StateFlapping,
            // Flapping costs time only through its effect on the window, for which there are
            // separate findings.
            severity: self.total.as_secs_f64() / 2.0,
            begin: worst.begin,
            end: worst.end,
            headline: format!(
                "Recovery entered {} times in {} without loss",
                text::count(worst.entries),
                text::time(worst.length())
            ),
            metrics: vec![
                ("entries into recovery", text::count(worst.entries)),
                ("packets lost in between", text::count(0)),
                ("duration", text::time(worst.length())),
                ("time between entries", format!("{}{equals}", text::time(period))),
                ("state changes per second", format!("{per_second:.0}")),
                ("smoothed RTT", text::time(worst.rtt)),
            ],
        }]
    }
}

/// The minimum number of entries for a finding.
const ENTRIES: u64 = 5;
/// The maximum number of entries into recovery that are remembered until their loss is known.
const MAX_WAITING: usize = 64;

/// Detects that recovery begins although no packet was lost or marked (S4, S16).
#[derive(Clone, Debug, Default)]
pub(super) struct RecoveryWithoutLoss {
    /// Entries into recovery without a known loss, each with the time until which a loss may
    /// explain it.
    waiting: VecDeque<(Duration, Duration)>,
    is_in_recovery: bool,
    entries: u64,
    without: u64,
    first: Option<Duration>,
    last: Duration,
    last_left: Option<Duration>,
    rtt: Duration,
}

impl RecoveryWithoutLoss {
    fn decide(&mut self, now: Duration) {
        while let Some((entered, _)) =
            self.waiting.front().copied().filter(|(_, until)| now > *until)
        {
            self.waiting.pop_front();
            self.without = self.without.saturating_add(1);
            self.first.get_or_insert(entered);
            self.last = entered;
        }
    }
}

impl Detector for RecoveryWithoutLoss {
    fn on_event(&mut self, event: &Event, state: &State) {
        self.decide(state.now);
        if state.has_congestion() {
            // A loss within a round trip of the entry explains it.
            self.waiting.clear();
        }
        let EventKind::CongestionState(new) = &event.kind else { return };
        let was_in_recovery =
            core::mem::replace(&mut self.is_in_recovery, *new == CongestionState::Recovery);
        if was_in_recovery && !self.is_in_recovery {
            self.last_left = Some(state.now);
        }
        if was_in_recovery || !self.is_in_recovery || !state.knows_losses {
            return;
        }
        self.entries = self.entries.saturating_add(1);
        let Some(rtt) = state.rtt() else { return };
        self.rtt = rtt;
        // A loss after the last recovery ended, or shortly before that, explains this entry.
        let since = self.last_left.unwrap_or_default();
        let explains = |at: &Duration| *at >= since || state.now.saturating_sub(*at) <= rtt;
        let is_explained =
            state.last_loss.filter(explains).is_some() || state.last_ce.filter(explains).is_some();
        if !is_explained && self.waiting.len() < MAX_WAITING {
            self.waiting.push_back((state.now, state.now.saturating_add(rtt)));
        }
    }

    fn finish(mut self: Box<Self>, state: &State) -> Vec<Finding> {
        self.decide(state.now);
        let Some(first) = self.first.filter(|_| self.without >= ENTRIES) else {
            return Vec::new();
        };
        vec![Finding {
            id: FindingId::RecoveryWithoutLoss,
            // Each entry into recovery costs the window growth of one round trip.
            severity: self.rtt.as_secs_f64() * self.without as f64 / 4.0,
            begin: first,
            end: self.last,
            headline: format!(
                "Recovery entered {} of {} times without loss or ECN-CE mark",
                text::count(self.without),
                text::count(self.entries)
            ),
            metrics: vec![
                ("entries into recovery", text::count(self.entries)),
                ("without loss or ECN-CE mark", text::count(self.without)),
            ],
        }]
    }
}
