//! L5: phases end.

use core::time::Duration;

use crate::checker::books::Books;
use crate::checker::properties::Property;
use crate::checker::report::Report;
use crate::checker::rule::{Rule, Verdict};

#[derive(Debug, Default)]
pub(in crate::checker) struct PhaseExit {
    rounds: u64,
    time: Duration,
}

impl Rule for PhaseExit {
    const PROPERTY: Property = Property::L5;

    fn on_report(&mut self, books: &Books, report: &Report<'_>) -> Verdict {
        let phase = report.after.congestion.phase;
        if phase != report.before.congestion.phase || report.change.is_cut {
            *self = Self::default();
            return Ok(());
        }
        let Some(round) = &report.round else { return Ok(()) };
        if !round.is_clean_and_held() {
            *self = Self::default();
            return Ok(());
        }
        self.rounds += 1;
        self.time += round.ended.saturating_since(round.began);
        match books.terms.kind.phase_bound(phase) {
            Some(bound) if bound.is_exceeded(self.rounds, self.time) => Err(format!(
                "{} has lasted for {} clean rounds, {:?}",
                phase.name(),
                self.rounds,
                self.time
            )),
            _ => Ok(()),
        }
    }

    fn on_path(&mut self, _books: &Books) {
        *self = Self::default();
    }
}
