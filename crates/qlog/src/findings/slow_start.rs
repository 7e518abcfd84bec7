//! Detects a slow start that ends although there is no congestion.

use core::time::Duration;

use super::state::State;
use super::{Detector, Finding, FindingId, text};
use crate::read::{CongestionState, Event, EventKind};

/// The number of clean rounds with data waiting, after the end of slow start, in which no queue may
/// grow. In four rounds, slow start would have grown the window sixteenfold.
const ROUNDS: u64 = 4;
/// The minimum time that ending slow start must have cost for a finding.
const COST: Duration = Duration::from_secs(2);

/// Detects that slow start ended without a loss, an ECN mark or a queue, although there was room
/// for a larger window.
#[derive(Clone, Debug, Default)]
pub(super) struct SlowStartLeft {
    place: Place,
}

#[derive(Clone, Copy, Debug, Default)]
enum Place {
    /// Slow start has not been logged yet.
    #[default]
    Before,
    InSlowStart,
    /// Slow start ended without a sign of congestion.
    After(End),
    /// Slow start ended for a valid reason, or a sign of congestion followed.
    Done(Option<End>),
}

#[derive(Clone, Copy, Debug)]
struct End {
    at: Duration,
    window: u64,
    rtt: Duration,
    minimum_rtt: Duration,
    /// The clean rounds since slow start ended, and the time at which the last one ended.
    rounds: u64,
    until: Duration,
}

/// Returns whether packets wait in a queue: the round-trip time exceeds the minimum by at least an
/// eighth (RFC 9406 §4.3) and 4 ms.
fn has_queue(rtt: Duration, least: Duration) -> bool {
    rtt > least.saturating_add(least.div_f64(8.0).max(Duration::from_millis(4)))
}

impl SlowStartLeft {
    fn on_state(&mut self, new: &CongestionState, state: &State) {
        let is_in_slow_start = matches!(self.place, Place::InSlowStart);
        self.place = match new {
            CongestionState::SlowStart | CongestionState::ConservativeSlowStart => {
                match self.place {
                    Place::Before | Place::InSlowStart if state.lost == 0 && state.ce == 0 => {
                        Place::InSlowStart
                    }
                    Place::Done(found) => Place::Done(found),
                    _ => Place::Done(None),
                }
            }
            CongestionState::CongestionAvoidance if is_in_slow_start => self.left(state),
            CongestionState::ApplicationLimited | CongestionState::CongestionAvoidance => {
                self.place
            }
            _ => self.done(),
        };
    }

    /// Returns the state after slow start ended.
    fn left(&self, state: &State) -> Place {
        let (Some(rtt), Some(least), Some(window)) =
            (state.metrics.latest_rtt, state.minimum_rtt(), state.metrics.congestion_window)
        else {
            return Place::Done(None);
        };
        if state.lost > 0 || state.ce > 0 || has_queue(rtt, least) {
            return Place::Done(None);
        }
        let (at, until) = (state.now, state.now);
        Place::After(End { at, window, rtt, minimum_rtt: least, rounds: 0, until })
    }

    const fn done(&self) -> Place {
        match self.place {
            Place::After(end) => Place::Done(Some(end)),
            Place::Done(found) => Place::Done(found),
            Place::Before | Place::InSlowStart => Place::Done(None),
        }
    }
}

impl Detector for SlowStartLeft {
    fn on_event(&mut self, event: &Event, state: &State) {
        if let EventKind::CongestionState(new) = &event.kind {
            self.on_state(new, state);
        }
        if state.has_congestion() || state.is_closed || state.is_model_based {
            self.place = self.done();
        }
        let Place::After(end) = &mut self.place else { return };
        let Some(round) = &state.step.round else { return };
        let least = state.minimum_rtt().unwrap_or_default();
        if state.metrics.latest_rtt.is_none_or(|rtt| has_queue(rtt, least)) {
            self.place = self.done();
        } else if round.is_clean_and_held() && round.began >= end.at {
            end.rounds = end.rounds.saturating_add(1);
            end.until = round.ended;
        }
    }

    fn finish(self: Box<Self>, _state: &State) -> Vec<Finding> {
        let (Place::After(end) | Place::Done(Some(end))) = self.place else { return Vec::new() };
        let cost = end.until.saturating_sub(end.at);
        if end.rounds < ROUNDS || cost < COST {
            return Vec::new();
        }
        vec![Finding {
            id: FindingId::SlowStartEndedEarly,
            severity: cost.as_secs_f64(),
            begin: end.at,
            end: end.until,
            headline: format!(
                "Slow start ended at {} without loss and without a queue",
                text::bytes(end.window)
            ),
            metrics: vec![
                ("congestion window", text::bytes(end.window)),
                ("round-trip time at the end of slow start", text::time(end.rtt)),
                ("minimum round-trip time", text::time(end.minimum_rtt)),
                ("subsequent round trips without loss or a queue", text::count(end.rounds)),
            ],
        }]
    }
}
