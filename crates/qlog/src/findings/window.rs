//! Detects a congestion window at or below its floor.

use core::time::Duration;

use super::state::{LEAST_DATAGRAM, State};
use super::{Detector, Finding, FindingId, keep_worst, text};
use crate::read::{CongestionState, Event, EventKind};

/// The number of clean rounds with data waiting after which a loss-based controller must have left
/// its floor. Recovery ends two round trips after the last loss (L5), and then the window grows by
/// half a datagram per round over four rounds (L1), which makes six. The bound is slightly more
/// than twice that, because a trace shows less than the lab's checker sees.
const ROUNDS: u64 = 16;
/// The bounds for BBR, whose window grows within one probe cycle (L1) of 63 rounds or 3 s. A cycle
/// that ProbeRTT interrupts starts over, so the bounds allow two cycles.
const MODEL_ROUNDS: u64 = 128;
const MODEL_TIME: Duration = Duration::from_secs(7);
/// The number of consecutive rounds without data waiting that end a stretch.
const IDLE_ROUNDS: u64 = 3;

/// A stretch in which the window allows no more datagrams than its floor, and nothing is lost.
#[derive(Clone, Copy, Debug, Default)]
struct Stretch {
    begin: Duration,
    end: Duration,
    rounds: u64,
    idle_rounds: u64,
    state_changes: u64,
    /// The number of times that the bytes in flight fell to zero.
    emptied: u64,
    /// The number of rounds that ended in recovery.
    in_recovery: u64,
    round_trips: Duration,
    /// The smallest and the largest window of the stretch.
    least: u64,
    most: u64,
}

/// The quantity that alternates while the window stays at its floor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Swing {
    /// The congestion state.
    State,
    /// The bytes in flight, during a recovery that does not end.
    Flight,
}

/// Returns whether two times are equal within the precision of a trace.
fn is_about(period: Duration, round_trip: Duration) -> bool {
    (0.85..=1.15).contains(&(period.as_secs_f64() / round_trip.as_secs_f64().max(1e-9)))
}

impl Stretch {
    /// Returns the quantity that alternates during the stretch, and its period.
    fn alternation(&self) -> Option<(Swing, Duration)> {
        let period = |swings: f64| self.length().div_f64(swings.max(1.0));
        if self.state_changes >= self.rounds {
            Some((Swing::State, period(self.state_changes as f64 / 2.0)))
        } else if self.emptied.min(self.in_recovery).saturating_mul(2) >= self.rounds {
            Some((Swing::Flight, period(self.emptied as f64)))
        } else {
            None
        }
    }

    /// Returns the alternation as a metric.
    fn swing_metric(&self, mean_rtt: Duration) -> Option<(&'static str, String)> {
        let (swing, period) = self.alternation()?;
        let equals = if is_about(period, mean_rtt) { " (one round trip)" } else { "" };
        let name = match swing {
            Swing::State => "enters and leaves recovery every",
            Swing::Flight => "bytes in flight fall to 0 every",
        };
        Some((name, format!("{}{equals}", text::time(period))))
    }

    fn length(&self) -> Duration {
        self.end.saturating_sub(self.begin)
    }
}

/// The total time exactly at the floor, with or without losses.
#[derive(Clone, Debug, Default)]
struct TimeAtFloor {
    total: Duration,
    since: Option<Duration>,
    first: Option<Duration>,
    /// The assumed floor, which may turn out to be lower.
    floor: u64,
}

impl TimeAtFloor {
    fn update(&mut self, state: &State) {
        if !state.is_at_floor() {
            self.leave(state.now);
            return;
        }
        let floor = state.floor().unwrap_or_default();
        if floor != self.floor {
            *self = Self { floor, ..Self::default() };
        }
        self.since.get_or_insert(state.now);
        self.first.get_or_insert(state.now);
    }

    fn leave(&mut self, now: Duration) {
        if let Some(since) = self.since.take() {
            self.total = self.total.saturating_add(now.saturating_sub(since));
        }
    }
}

/// Detects a window that allows no more datagrams than its floor although nothing is lost and data is waiting.
#[derive(Clone, Debug, Default)]
pub(super) struct AtFloor {
    present: Option<Stretch>,
    worst: Option<Stretch>,
    /// The total duration and the number of stretches that are too long.
    total: Duration,
    count: u64,
    at_floor: TimeAtFloor,
    /// The latest known floor, and the size of full datagrams.
    floor: u64,
    datagram: u64,
    is_model_based: bool,
    /// Whether the window has been larger than the floor. If not, it may just be a small initial
    /// window, which says nothing about the controller.
    seen_larger: bool,
}

impl AtFloor {
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
        keep_worst(&mut self.worst, stretch, Stretch::length);
    }

    fn headline(&self, worst: &Stretch) -> String {
        let place = if worst.least > self.floor { "just above" } else { "at" };
        let datagrams = text::number(self.datagrams(worst.least));
        let length = text::time(worst.length());
        format!(
            "Congestion window pinned {place} its floor ({datagrams} datagrams) for {length} without loss"
        )
    }

    fn datagrams(&self, bytes: u64) -> f64 {
        bytes as f64 / self.datagram.max(1) as f64
    }

    /// Formats the smallest and the largest window.
    fn window(&self, worst: &Stretch) -> String {
        let size = |bytes| {
            let datagrams = text::number(self.datagrams(bytes));
            format!("{} ({datagrams} datagrams)", text::bytes(bytes))
        };
        match worst.most > worst.least {
            true => format!("{} to {}", size(worst.least), size(worst.most)),
            false => size(worst.least),
        }
    }

    fn metrics(&self, worst: &Stretch) -> Vec<(&'static str, String)> {
        let mean_rtt = worst.round_trips.div_f64(worst.rounds.max(1) as f64);
        let mut metrics = vec![
            ("congestion window", self.window(worst)),
            ("floor", text::bytes(self.floor)),
            ("duration", text::time(worst.length())),
            ("round trips", text::count(worst.rounds)),
            ("mean round-trip time", text::time(mean_rtt)),
            ("packets lost", text::count(0)),
        ];
        if worst.in_recovery > 0 {
            metrics.push(("round trips in recovery", text::count(worst.in_recovery)));
        }
        if worst.state_changes > 0 {
            metrics.push(("state changes", text::count(worst.state_changes)));
        }
        metrics.extend(worst.swing_metric(mean_rtt));
        if self.count > 1 {
            metrics.push(("number of such periods", text::count(self.count)));
            metrics.push(("total duration of such periods", text::time(self.total)));
        }
        if self.at_floor.first.is_some() {
            metrics.push(("total time exactly at the floor", text::time(self.at_floor.total)));
        }
        metrics
    }
}

impl Detector for AtFloor {
    fn on_event(&mut self, event: &Event, state: &State) {
        self.is_model_based |= state.is_model_based;
        if !state.holds_no_more_than_floor() {
            self.seen_larger |= state.metrics.congestion_window.is_some();
            self.at_floor.leave(state.now);
            self.end_stretch();
            return;
        }
        if !self.seen_larger {
            return;
        }
        self.at_floor.update(state);
        self.floor = state.floor().unwrap_or_default();
        self.datagram = state.datagram();
        if state.has_congestion() || state.is_closed {
            self.end_stretch();
            return;
        }
        let window = state.metrics.congestion_window.unwrap_or_default();
        let fresh = Stretch { begin: state.now, least: window, ..Stretch::default() };
        let stretch = self.present.get_or_insert(fresh);
        stretch.least = stretch.least.min(window);
        stretch.most = stretch.most.max(window);
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
        self.end_stretch();
        self.at_floor.leave(state.now);
        let Some(worst) = self.worst else { return Vec::new() };
        vec![Finding {
            id: FindingId::WindowAtFloor,
            severity: self.total.as_secs_f64(),
            begin: worst.begin,
            end: worst.end,
            headline: self.headline(&worst),
            metrics: self.metrics(&worst),
        }]
    }
}

/// Detects a window that is smaller than its minimum (S3).
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
        // The minimum is two datagrams (RFC 9002 §7.2) of at least 1200 bytes.
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
            headline: format!(
                "Congestion window below its minimum ({}) for {}",
                text::bytes(minimum),
                text::time(self.total)
            ),
            metrics: vec![
                ("smallest congestion window", text::bytes(least)),
                ("minimum", text::bytes(minimum)),
                ("total time below it", text::time(self.total)),
            ],
        }]
    }
}
