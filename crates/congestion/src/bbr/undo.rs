//! Undoes the response to spurious losses (draft, "Updating the Model Upon Detecting a Spurious
//! Loss Recovery").

use super::Bbr;
use super::short_term::ShortTerm;
use super::state::BbrState;
use crate::SpuriousLoss;
use clearway_units::Rate;
use clearway_units::packed::Pack;

/// The state before a loss episode began.
#[derive(Clone, Debug, Default, Pack)]
pub(super) struct Undo {
    saved: Option<Saved>,
}

#[derive(Clone, Debug, Pack)]
struct Saved {
    /// The state that the losses ended, Startup or ProbeBW_UP (BBR.undo_state).
    left: Option<BbrState>,
    short_term: ShortTerm,
    long_term_bound: Option<u64>,
}

impl Undo {
    /// Records that the losses of this episode caused the transition out of `state`.
    pub(super) fn note_transition(&mut self, state: BbrState) {
        if let Some(saved) = &mut self.saved {
            saved.left = Some(state);
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.saved.is_none()
    }

    /// Discards the saved state, so that nothing can be undone.
    pub(super) fn forget(&mut self) {
        self.saved = None;
    }
}

impl Bbr {
    /// Saves the state at the start of a loss episode (SaveStateUponLoss).
    pub(super) fn save_state(&mut self) {
        self.window.save(self.episode.is_open || self.state == BbrState::ProbeRtt);
        self.undo.saved = Some(Saved {
            left: None,
            short_term: self.short_term,
            long_term_bound: self.long_term.bound,
        });
    }

    /// Undoes the response to losses that were spurious (HandleSpuriousLossDetection).
    pub(super) fn undo_losses(&mut self, event: &SpuriousLoss) {
        let Some(saved) = self.undo.saved.take() else { return };
        self.undone_events = self.undone_events.saturating_add(1);
        self.episode.close();
        self.window.restore();
        self.latest.has_loss = false;
        self.full_pipe.reset(Rate::ZERO);
        self.short_term.rate = greater(self.short_term.rate, saved.short_term.rate);
        self.short_term.in_flight = greater(self.short_term.in_flight, saved.short_term.in_flight);
        self.long_term.bound = greater(self.long_term.bound, saved.long_term_bound);
        match saved.left {
            Some(BbrState::Startup) if self.state != BbrState::Startup => {
                self.full_pipe.was_reached = false;
                if self.state != BbrState::ProbeRtt {
                    self.start_startup();
                }
            }
            Some(BbrState::ProbeUp)
                if !matches!(self.state, BbrState::ProbeUp | BbrState::ProbeRtt) =>
            {
                self.start_probe_refill(event.total_delivered);
            }
            _ => {}
        }
        self.rate = self.short_term.bounded_rate(self.bandwidth.maximum());
        self.bound_window();
    }
}

/// Returns the greater of two bounds, where `None` means unbounded.
fn greater<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    Some(one?.max(other?))
}

#[cfg(test)]
mod tests {
    use super::greater;

    #[test]
    fn no_bound_is_greater_than_any() {
        assert_eq!(greater(Some(1), Some(2)), Some(2));
        assert_eq!(greater(Some(2), Some(1)), Some(2));
        assert_eq!(greater(None, Some(1)), None);
        assert_eq!(greater(Some(1), None), None);
    }
}
