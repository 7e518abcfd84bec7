//! Detects a pacer that delays data although the congestion window allows it (L6).

use core::time::Duration;

use super::state::State;
use super::{Detector, Finding, FindingId, keep_worst, text};
use crate::read::Event;

/// The minimum number of consecutive rounds with data waiting, for a finding.
const ROUNDS: u64 = 16;

/// Detects a pacing rate that is too low for the window.
#[derive(Clone, Debug, Default)]
pub(super) struct Pacer {
    present: Option<Slow>,
    worst: Option<Slow>,
}

#[derive(Clone, Copy, Debug)]
struct Slow {
    begin: Duration,
    end: Duration,
    rounds: u64,
    /// The bytes per round trip that the pacer allows, and the minimum that it should allow.
    paced: f64,
    wanted: f64,
}

impl Slow {
    fn length(&self) -> Duration {
        self.end.saturating_sub(self.begin)
    }
}

/// If the pacing rate is too low, returns the bytes per round trip that it allows, and the minimum
/// that it should allow.
fn shortfall(state: &State) -> Option<(f64, f64)> {
    let (rate, rtt) = (state.metrics.pacing_rate?, state.rtt()?);
    let window = state.metrics.congestion_window?;
    let paced = rate as f64 / 8.0 * rtt.as_secs_f64();
    let wanted = if state.is_model_based {
        // With its minimum window of four datagrams, BBR must send one per round trip, less the pacing margin.
        state.datagram() as f64 * 0.5
    } else {
        // RFC 9002 §7.7 paces at least one window per round trip. Less than half of that is a bug.
        window as f64 * 0.5
    };
    (paced < wanted).then_some((paced, wanted))
}

impl Pacer {
    fn end_stretch(&mut self) {
        if let Some(slow) = self.present.take().filter(|slow| slow.rounds >= ROUNDS) {
            keep_worst(&mut self.worst, slow, Slow::length);
        }
    }
}

impl Detector for Pacer {
    fn on_event(&mut self, _event: &Event, state: &State) {
        let Some(round) = &state.step.round else { return };
        let Some((paced, wanted)) = shortfall(state).filter(|_| round.is_clean_and_held()) else {
            self.end_stretch();
            return;
        };
        let slow = self.present.get_or_insert(Slow {
            begin: round.began,
            end: round.ended,
            rounds: 0,
            paced,
            wanted,
        });
        slow.rounds = slow.rounds.saturating_add(1);
        slow.end = round.ended;
        if paced < slow.paced {
            (slow.paced, slow.wanted) = (paced, wanted);
        }
    }

    fn finish(mut self: Box<Self>, _state: &State) -> Vec<Finding> {
        self.end_stretch();
        let Some(worst) = self.worst else { return Vec::new() };
        vec![Finding {
            id: FindingId::PacerStarves,
            severity: worst.length().as_secs_f64() / 2.0,
            begin: worst.begin,
            end: worst.end,
            headline: format!(
                "Pacing limits sending to {} per round trip for {}",
                text::bytes(worst.paced as u64),
                text::time(worst.length())
            ),
            metrics: vec![
                ("lowest pacing rate, per round trip", text::bytes(worst.paced as u64)),
                ("expected minimum", text::bytes(worst.wanted as u64)),
                ("duration", text::time(worst.length())),
                ("round trips", text::count(worst.rounds)),
            ],
        }]
    }
}
