//! L5: each phase ends within a bound.

use clearway_units::Timestamp;

use crate::checker::properties::Property;
use crate::checker::records::{EndpointRecords, Report};
use crate::checker::rule::{Rule, Verdict};

#[derive(Debug, Default)]
pub(in crate::checker) struct PhaseExit {
    rounds: u64,
    /// The start of the current phase, or of the current series of clean rounds if that is later.
    since: Timestamp,
}

impl Rule for PhaseExit {
    const PROPERTY: Property = Property::L5;

    fn on_report(&mut self, records: &EndpointRecords, report: &Report<'_>) -> Verdict {
        let phase = report.after.congestion.phase;
        if phase != report.before.congestion.phase || report.change.is_cut {
            *self = Self { rounds: 0, since: records.now };
            return Ok(());
        }
        let Some(round) = &report.round else { return Ok(()) };
        if !round.is_clean_and_held() {
            *self = Self { rounds: 0, since: records.now };
            return Ok(());
        }
        self.rounds += 1;
        let time = records.now.saturating_since(self.since);
        match records.config.kind.phase_bound(phase) {
            Some(bound) if bound.is_exceeded(self.rounds, time) => Err(format!(
                "{} has lasted for {} clean rounds ({time:?})",
                phase.name(),
                self.rounds
            )),
            _ => Ok(()),
        }
    }

    fn on_path(&mut self, records: &EndpointRecords) {
        *self = Self { rounds: 0, since: records.now };
    }
}
