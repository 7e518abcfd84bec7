//! The window at its floor, and below.

use core::time::Duration;

use super::state::{LEAST_DATAGRAM, State};
use super::{Detector, Finding, FindingId, text};
use crate::read::{CongestionState, Event, EventKind};

/// Clean rounds with data waiting after which a loss-based controller must have left its floor. Recovery ends
/// two round trips after the last loss (L5), and then the window grows by half a datagram a round over four
/// rounds (L1): six. Twice that and a few, as a trace shows less than the lab's checker sees.
const ROUNDS: u64 = 16;
/// The same for BBR, whose budget grows within a probe cycle (L1): 63 rounds or 3 s, and one that ProbeRTT
/// interrupts is another.
const MODEL_ROUNDS: u64 = 128;
const MODEL_TIME: Duration = Duration::from_secs(7);
/// Rounds in a row without data waiting that end a stretch.
const IDLE_ROUNDS: u64 = 3;

/// A stretch at the floor in which nothing is lost.
#[derive(Clone, Copy, Debug, Default)]
struct Stretch {
    begin: Duration,
    end: Duration,
    rounds: u64,
    idle_rounds: u64,
    state_changes: u64,
    /// How often the last byte in flight was acknowledged.
    emptied: u64,
    /// Rounds that ended in recovery.
    in_recovery: u64,
    round_trips: Duration,
    window: u64,
}

impl Stretch {
    /// What goes to and fro meanwhile, how fast, and whether the round trip is its clock.
    fn flips(&self, mean_rtt: Duration) -> String {
        let period = |flips: f64| self.length().div_f64(flips.max(1.0));
        let is_round_trip = |period: Duration| {
            let ratio = period.as_secs_f64() / mean_rtt.as_secs_f64().max(1e-9);
            (0.85..=1.15).contains(&ratio)
        };
        if self.state_changes >= self.rounds {
            let period = period(self.state_changes as f64 / 2.0);
            let equals = match is_round_trip(period) {
                true => ", which is the round trip: each one puts the sender back into recovery",
                false => "",
            };
            let (changes, period) = (self.state_changes, text::time(period));
            format!(
                "; the congestion state changed {changes} times, a flip to and fro each {period}{equals}"
            )
        } else if self.emptied.min(self.in_recovery).saturating_mul(2) >= self.rounds {
            let period = period(self.emptied as f64);
            let equals = match is_round_trip(period) {
                true => ", which is the round trip: with each one the end of recovery moves on",
                false => "",
            };
            let period = text::time(period);
            format!(
                "; the controller did not leave recovery, and the flight fell to zero and back each {period}{equals}"
            )
        } else {
            String::new()
        }
    }

    fn length(&self) -> Duration {
        self.end.saturating_sub(self.begin)
    }
}

/// The window stays at its floor though nothing is lost and data waits.
#[derive(Clone, Debug, Default)]
pub(super) struct AtFloor {
    present: Option<Stretch>,
    worst: Option<Stretch>,
    /// Of all stretches that are too long.
    total: Duration,
    count: u64,
    /// All the time at the floor, lossy or not, since when it is there now, and its beginning and end.
    at_floor: Duration,
    since: Option<Duration>,
    first: Option<Duration>,
    last: Duration,
    /// What the floor was taken for: it may turn out to be lower.
    floor: u64,
    datagram: u64,
    is_model_based: bool,
    /// The path says nothing about the controller before the first loss: an initial window may be that small.
    seen_larger: bool,
}

impl AtFloor {
    fn leave(&mut self, now: Duration) {
        self.end_stretch();
        if let Some(since) = self.since.take() {
            self.at_floor = self.at_floor.saturating_add(now.saturating_sub(since));
            self.last = now;
        }
    }

    fn end_stretch(&mut self) {
        let Some(stretch) = self.present.take() else { return };
        let is_too_long = if self.is_model_based {
            stretch.rounds >= MODEL_ROUNDS && stretch.length() >= MODEL_TIME
        } else {
            stretch.rounds >= ROUNDS
        };
        if !is_too_long {
            return;
        }
        self.count = self.count.saturating_add(1);
        self.total = self.total.saturating_add(stretch.length());
        if self.worst.is_none_or(|worst| worst.length() < stretch.length()) {
            self.worst = Some(stretch);
        }
    }

    fn explain(&self, worst: &Stretch) -> String {
        let datagrams = worst.window as f64 / self.datagram.max(1) as f64;
        let mean_rtt = worst.round_trips.div_f64(worst.rounds.max(1) as f64);
        let mut said = format!(
            "the congestion window stayed at its floor of {} ({datagrams:.1} datagrams) for {} ({}), {} round \
             trips of {}, in which no packet was lost and data waited",
            text::bytes(worst.window),
            text::time(worst.length()),
            text::span(worst.begin, worst.end),
            worst.rounds,
            text::time(mean_rtt),
        );
        said.push_str(&worst.flips(mean_rtt));
        if self.count > 1 {
            said.push_str(&format!(
                "; this is the longest of {} such stretches, {} together",
                self.count,
                text::time(self.total)
            ));
        }
        said.push_str(&format!(
            "; in all the window was at its floor for {}",
            text::time(self.at_floor)
        ));
        if let Some(first) = self.first {
            said.push_str(&format!(", between {}", text::span(first, self.last)));
        }
        said
    }
}

impl Detector for AtFloor {
    fn on_event(&mut self, event: &Event, state: &State) {
        self.is_model_based |= state.is_model_based;
        if !state.is_at_floor() {
            self.seen_larger |= state.metrics.congestion_window.is_some();
            if self.since.is_some() {
                self.leave(state.now);
            }
            return;
        }
        if !self.seen_larger {
            return;
        }
        let floor = state.floor().unwrap_or_default();
        if floor != self.floor {
            self.floor = floor;
            (self.at_floor, self.since, self.first) = (Duration::ZERO, None, None);
        }
        self.since.get_or_insert(state.now);
        self.first.get_or_insert(state.now);
        self.datagram = state.datagram();
        if state.step.lost > 0 || state.is_closed {
            self.end_stretch();
            return;
        }
        let stretch =
            self.present.get_or_insert(Stretch { begin: state.now, ..Stretch::default() });
        stretch.window = state.metrics.congestion_window.unwrap_or_default();
        if matches!(event.kind, EventKind::CongestionState(_)) {
            stretch.state_changes = stretch.state_changes.saturating_add(1);
        }
        if matches!(&event.kind, EventKind::Metrics(metrics) if metrics.bytes_in_flight == Some(0))
        {
            stretch.emptied = stretch.emptied.saturating_add(1);
        }
        let Some(round) = &state.step.round else { return };
        if round.is_clean_and_held() {
            stretch.rounds = stretch.rounds.saturating_add(1);
            let is_in_recovery = state.congestion_state == CongestionState::Recovery;
            stretch.in_recovery = stretch.in_recovery.saturating_add(u64::from(is_in_recovery));
            stretch.round_trips = stretch.round_trips.saturating_add(round.length());
            stretch.idle_rounds = 0;
            stretch.end = state.now;
        } else {
            stretch.idle_rounds = stretch.idle_rounds.saturating_add(1);
            if stretch.idle_rounds >= IDLE_ROUNDS {
                self.end_stretch();
            }
        }
    }

    fn finish(mut self: Box<Self>, state: &State) -> Vec<Finding> {
        self.leave(state.now);
        let Some(worst) = self.worst else { return Vec::new() };
        vec![Finding {
            id: FindingId::WindowAtFloor,
            severity: self.total.as_secs_f64(),
            begin: worst.begin,
            end: worst.end,
            explanation: self.explain(&worst),
        }]
    }
}

/// The window is smaller than it may be (S3).
#[derive(Clone, Debug, Default)]
pub(super) struct BelowMinimum {
    since: Option<Duration>,
    first: Option<Duration>,
    last: Duration,
    total: Duration,
    least: Option<(u64, u64)>,
}

impl BelowMinimum {
    fn leave(&mut self, now: Duration) {
        if let Some(since) = self.since.take() {
            self.total = self.total.saturating_add(now.saturating_sub(since));
            self.last = now;
        }
    }
}

impl Detector for BelowMinimum {
    fn on_event(&mut self, _event: &Event, state: &State) {
        // RFC 9002 §7.2: two datagrams; none is smaller than 1200 bytes.
        let minimum = state.parameters.minimum_window.unwrap_or(LEAST_DATAGRAM.saturating_mul(2));
        let is_below = |window: &u64| *window < minimum && state.rtt().is_some();
        let Some(window) = state.metrics.congestion_window.filter(is_below) else {
            self.leave(state.now);
            return;
        };
        self.since.get_or_insert(state.now);
        self.first.get_or_insert(state.now);
        if self.least.is_none_or(|(least, _)| window < least) {
            self.least = Some((window, minimum));
        }
    }

    fn finish(mut self: Box<Self>, state: &State) -> Vec<Finding> {
        self.leave(state.now);
        let (Some((least, minimum)), Some(first)) = (self.least, self.first) else {
            return Vec::new();
        };
        vec![Finding {
            id: FindingId::WindowBelowMinimum,
            severity: self.total.as_secs_f64(),
            begin: first,
            end: self.last,
            explanation: format!(
                "the congestion window fell to {}, below the least of {}, and was below it for {} in all",
                text::bytes(least),
                text::bytes(minimum),
                text::time(self.total)
            ),
        }]
    }
}
