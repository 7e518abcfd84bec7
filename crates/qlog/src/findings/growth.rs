//! Detects a congestion window that does not grow.

use core::time::Duration;
use std::collections::BTreeMap;

use super::rounds::Round;
use super::state::State;
use super::{Detector, Finding, FindingId, text};
use crate::read::{CongestionState, Event};

/// A loss-based window must grow within this number of clean rounds with data waiting, and within
/// the time below. L1 requires half a datagram per round over four rounds, and one datagram in 2.72
/// s where CUBIC's curve is flat. The bounds are twice that.
const ROUNDS: u64 = 32;
const TIME: Duration = Duration::from_millis(5_500);
/// A window of at least this size may be at the configured maximum.
const LARGE_WINDOW: u64 = 1 << 20;

/// Detects a loss-based window that does not grow although nothing is lost and data is waiting (L1).
#[derive(Clone, Debug, Default)]
pub(super) struct NoGrowth {
    present: Option<Stretch>,
    worst: Option<Stretch>,
    total: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Stretch {
    begin: Duration,
    end: Duration,
    rounds: u64,
    window: u64,
}

impl Stretch {
    fn length(&self) -> Duration {
        self.end.saturating_sub(self.begin)
    }
}

impl NoGrowth {
    fn end_stretch(&mut self) {
        let is_too_long = |stretch: &Stretch| stretch.rounds >= ROUNDS && stretch.length() >= TIME;
        let Some(stretch) = self.present.take().filter(is_too_long) else { return };
        self.total = self.total.saturating_add(stretch.length());
        if self.worst.is_none_or(|worst| worst.length() < stretch.length()) {
            self.worst = Some(stretch);
        }
    }
}

/// Returns whether the window is, or may be, at its maximum.
fn is_at_maximum(state: &State, window: u64) -> bool {
    window >= LARGE_WINDOW || state.suppressors.iter().any(|(name, _)| &**name == "maximum_window")
}

impl Detector for NoGrowth {
    fn on_event(&mut self, _event: &Event, state: &State) {
        let Some(round) = &state.step.round else { return };
        let (Some(window), false) = (round.window_after, state.is_model_based) else {
            self.present = None;
            return;
        };
        let grew = self.present.is_some_and(|stretch| window > stretch.window);
        // A window at its floor has a separate finding.
        let is_judged = round.is_clean_and_held()
            && !is_at_maximum(state, window)
            && !state.holds_no_more_than_floor();
        if !is_judged || grew {
            self.end_stretch();
            return;
        }
        let stretch = self.present.get_or_insert(Stretch {
            begin: round.began,
            end: round.ended,
            rounds: 0,
            window,
        });
        stretch.rounds = stretch.rounds.saturating_add(1);
        stretch.end = round.ended;
        stretch.window = stretch.window.max(window);
    }

    fn finish(mut self: Box<Self>, _state: &State) -> Vec<Finding> {
        self.end_stretch();
        let Some(worst) = self.worst else { return Vec::new() };
        vec![Finding {
            id: FindingId::NoGrowth,
            severity: self.total.as_secs_f64() / 2.0,
            begin: worst.begin,
            end: worst.end,
            headline: format!(
                "Congestion window stuck at {} for {} without loss",
                text::bytes(worst.window),
                text::time(worst.length())
            ),
            metrics: vec![
                ("congestion window", text::bytes(worst.window)),
                ("duration", text::time(worst.length())),
                ("round trips", text::count(worst.rounds)),
                ("packets lost", text::count(0)),
            ],
        }]
    }
}

/// The number of clean rounds with data waiting within which a condition that suppresses window
/// growth must end (L8).
const SUPPRESSED_ROUNDS: u64 = 16;
/// The maximum number of clean rounds with data waiting for a condition that is part of a probe
/// cycle: it may last for one cycle that is interrupted once (twice 3 s and 63 rounds).
const CYCLE_ROUNDS: u64 = 128;
const CYCLE_TIME: Duration = Duration::from_secs(7);

/// The maximum number of distinct conditions; a trace may contain any number of names.
const MAX_SUPPRESSORS: usize = 32;

/// Detects a condition that suppresses window growth for too long.
#[derive(Clone, Debug, Default)]
pub(super) struct Suppressors {
    held: BTreeMap<Box<str>, Held>,
    worst: BTreeMap<Box<str>, Held>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    begin: Duration,
    end: Duration,
    rounds: u64,
    /// Whether the condition was active throughout the current round.
    is_whole: bool,
}

impl Suppressors {
    fn release(&mut self, name: &str) {
        let Some(held) = self.held.remove(name) else { return };
        let length = held.end.saturating_sub(held.begin);
        let belongs_to_a_cycle =
            !matches!(name, "recovery" | "not_limited" | "conservative_slow_start");
        let is_too_long = if belongs_to_a_cycle {
            held.rounds >= CYCLE_ROUNDS && length >= CYCLE_TIME
        } else {
            held.rounds >= SUPPRESSED_ROUNDS
        };
        let worst = self.worst.get(name).map(|worst| worst.end.saturating_sub(worst.begin));
        let has_room = worst.is_some() || self.worst.len() < MAX_SUPPRESSORS;
        if is_too_long && has_room && worst.is_none_or(|worst| worst < length) {
            self.worst.insert(name.into(), held);
        }
    }

    fn on_round(&mut self, round: &Round, state: &State) {
        let has_grown = round.window_after > round.window_before;
        let names: Vec<Box<str>> = self.held.keys().cloned().collect();
        for name in names {
            let is_reset = !round.is_clean_and_held()
                || has_grown && &*name != "conservative_slow_start"
                || !state.suppressors.iter().any(|(active, _)| *active == name);
            if is_reset {
                self.release(&name);
            } else if let Some(held) = self.held.get_mut(&name) {
                if held.is_whole {
                    held.rounds = held.rounds.saturating_add(1);
                    held.end = round.ended;
                }
                held.is_whole = true;
            }
        }
    }
}

impl Detector for Suppressors {
    fn on_event(&mut self, _event: &Event, state: &State) {
        for (name, _) in &state.suppressors {
            // The configured maximum window may limit growth indefinitely.
            if &**name != "maximum_window"
                && !self.held.contains_key(name)
                && self.held.len() < MAX_SUPPRESSORS
            {
                let (begin, end) = (state.now, state.now);
                self.held.insert(name.clone(), Held { begin, end, rounds: 0, is_whole: false });
            }
        }
        if let Some(round) = &state.step.round {
            self.on_round(round, state);
        }
    }

    fn finish(mut self: Box<Self>, _state: &State) -> Vec<Finding> {
        let names: Vec<Box<str>> = self.held.keys().cloned().collect();
        names.iter().for_each(|name| self.release(name));
        let findings = self.worst.iter().map(|(name, held)| {
            let length = held.end.saturating_sub(held.begin);
            Finding {
                id: FindingId::SuppressorHeld,
                severity: length.as_secs_f64() / 2.0,
                begin: held.begin,
                end: held.end,
                headline: format!(
                    "Window growth suppressed for {} without loss: {}",
                    text::time(length),
                    name.replace('_', " ")
                ),
                metrics: vec![
                    ("suppressed by", name.replace('_', " ")),
                    ("duration", text::time(length)),
                    ("round trips", text::count(held.rounds)),
                    ("packets lost", text::count(0)),
                ],
            }
        });
        findings.collect()
    }
}

/// The minimum number of consecutive rounds for a finding.
const CLAIMED_ROUNDS: u64 = 16;

/// Detects a controller that regards the connection as application-limited although the window is full (L8).
#[derive(Clone, Debug, Default)]
pub(super) struct ApplicationLimitedClaim {
    /// Whether the controller, at some point in this round, did not regard the connection as
    /// application-limited.
    was_dropped: bool,
    present: Option<(Duration, Duration, u64)>,
    worst: Option<(Duration, Duration, u64)>,
}

impl ApplicationLimitedClaim {
    fn end_stretch(&mut self) {
        let length = |(begin, end, _): (Duration, Duration, u64)| end.saturating_sub(begin);
        let is_too_long = |(_, _, rounds): &(Duration, Duration, u64)| *rounds >= CLAIMED_ROUNDS;
        if let Some(stretch) = self.present.take().filter(is_too_long)
            && self.worst.is_none_or(|worst| length(worst) < length(stretch))
        {
            self.worst = Some(stretch);
        }
    }
}

impl Detector for ApplicationLimitedClaim {
    fn on_event(&mut self, _event: &Event, state: &State) {
        let is_claimed = state.metrics.is_application_limited == Some(true)
            || state.congestion_state == CongestionState::ApplicationLimited;
        self.was_dropped |= !is_claimed;
        let Some(round) = &state.step.round else { return };
        let was_dropped = core::mem::replace(&mut self.was_dropped, !is_claimed);
        let has_grown = round.window_after > round.window_before;
        if was_dropped || has_grown || !round.is_clean_and_held() {
            self.end_stretch();
            return;
        }
        let (_, end, rounds) = self.present.get_or_insert((round.began, round.ended, 0));
        *end = round.ended;
        *rounds = rounds.saturating_add(1);
    }

    fn finish(mut self: Box<Self>, _state: &State) -> Vec<Finding> {
        self.end_stretch();
        let Some((begin, end, rounds)) = self.worst else { return Vec::new() };
        let length = end.saturating_sub(begin);
        vec![Finding {
            id: FindingId::ApplicationLimitedClaim,
            severity: length.as_secs_f64() / 2.0,
            begin,
            end,
            headline: format!(
                "Treated as application-limited for {} despite a full congestion window",
                text::time(length)
            ),
            metrics: vec![("duration", text::time(length)), ("round trips", text::count(rounds))],
        }]
    }
}
