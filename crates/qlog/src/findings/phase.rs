//! Detects congestion states that do not end (L5).

use core::time::Duration;

use super::rounds::Round;
use super::state::State;
use super::{Detector, Finding, FindingId, keep_worst, text};
use crate::read::{CongestionState, Event, EventKind};

/// Returns the maximum number of clean rounds with data waiting, and the maximum time, that a state
/// may last: the limits are four times the bounds of L5, because rounds and states do not begin at
/// the same packets.
fn bound(state: &CongestionState) -> Option<(u64, Duration)> {
    match state {
        // Recovery lasts until a packet sent in it is acknowledged (RFC 9002 §7.3.2); L5 allows two round trips.
        CongestionState::Recovery => Some((8, Duration::ZERO)),
        // Conservative slow start lasts five rounds (RFC 9406 §4.3).
        CongestionState::ConservativeSlowStart => Some((20, Duration::ZERO)),
        CongestionState::Drain => Some((20, Duration::ZERO)),
        // ProbeRTT takes the time to drain, 200 ms, and two rounds.
        CongestionState::ProbeRtt => Some((24, Duration::from_millis(800))),
        CongestionState::ProbeBandwidth(part) if part.ends_with("REFILL") => {
            Some((8, Duration::ZERO))
        }
        CongestionState::ProbeBandwidth(part) if part.ends_with("DOWN") => {
            Some((16, Duration::from_secs(12)))
        }
        _ => None,
    }
}

/// Checks how long each state lasts.
#[derive(Clone, Debug, Default)]
pub(super) struct Phases {
    begin: Duration,
    end: Duration,
    rounds: u64,
    state: CongestionState,
    worst: Option<(CongestionState, Duration, Duration, u64)>,
}

impl Phases {
    fn judge(&mut self) {
        let length = self.end.saturating_sub(self.begin);
        let Some((rounds, time)) = bound(&self.state) else { return };
        if self.rounds <= rounds || length <= time {
            return;
        }
        let phase = (self.state.clone(), self.begin, self.end, self.rounds);
        keep_worst(&mut self.worst, phase, |(_, begin, end, _)| end.saturating_sub(*begin));
    }

    /// Returns whether the growth of the window in this round matches the state. quiche does not
    /// log the transition from conservative slow start to congestion avoidance. If the window grows
    /// by less than a sixteenth in a round, a quarter of what RFC 9406 §4.2 allows, the state is no
    /// longer conservative slow start.
    fn is_as_named(&self, round: &Round) -> bool {
        let (CongestionState::ConservativeSlowStart, Some(before), Some(after)) =
            (&self.state, round.window_before, round.window_after)
        else {
            return true;
        };
        after.saturating_sub(before).saturating_mul(16) >= before
    }

    fn restart(&mut self, now: Duration) {
        self.judge();
        (self.begin, self.end, self.rounds) = (now, now, 0);
    }
}

impl Detector for Phases {
    fn on_event(&mut self, event: &Event, state: &State) {
        if matches!(event.kind, EventKind::CongestionState(_))
            && state.congestion_state != self.state
        {
            self.restart(state.now);
            self.state = state.congestion_state.clone();
        }
        let Some(round) = &state.step.round else { return };
        if round.is_clean_and_held() && self.is_as_named(round) {
            self.rounds = self.rounds.saturating_add(1);
            self.end = round.ended;
        } else {
            self.restart(state.now);
        }
    }

    fn finish(mut self: Box<Self>, _state: &State) -> Vec<Finding> {
        self.judge();
        let Some((state, begin, end, rounds)) = self.worst else { return Vec::new() };
        let length = end.saturating_sub(begin);
        vec![Finding {
            id: FindingId::PhaseWithoutEnd,
            severity: length.as_secs_f64() / 2.0,
            begin,
            end,
            headline: format!(
                "Controller stays in {} for {} ({rounds} round trips)",
                state.name(),
                text::time(length)
            ),
            metrics: vec![
                ("state", state.name().to_owned()),
                ("duration", text::time(length)),
                ("round trips", text::count(rounds)),
                ("packets lost", text::count(0)),
            ],
        }]
    }
}
