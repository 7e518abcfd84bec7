//! S15: idle time increases neither the window nor its growth. S8 checks whether the first round
//! after idle time is paced.

use clearway_congestion::Phase;
use clearway_units::Timestamp;

use crate::checker::properties::Property;
use crate::checker::records::{EndpointRecords, Report, Round};
use crate::checker::rule::{Rule, SentEvent, Verdict};

/// The number of rounds to check after idle time.
const ROUNDS: u32 = 3;

#[derive(Debug, Default)]
pub(in crate::checker) struct Idle {
    /// The window growth in the last whole round of congestion avoidance.
    growth: Option<u64>,
    /// When the bytes in flight fell to zero, if nothing is in flight.
    since: Option<Timestamp>,
    /// The number of rounds that remain to be checked.
    left: u32,
}

impl Rule for Idle {
    const PROPERTY: Property = Property::S15;

    fn on_sent(&mut self, records: &EndpointRecords, packet: &SentEvent) -> Verdict {
        if !packet.is_in_flight {
            return Ok(());
        }
        if let Some(since) = self.since.take() {
            let idle = records.now.saturating_since(since);
            if records.smoothed().is_some_and(|smoothed| idle > smoothed) {
                self.left = ROUNDS;
            }
        }
        Ok(())
    }

    fn on_report(&mut self, records: &EndpointRecords, report: &Report<'_>) -> Verdict {
        self.since = match records.ledger.in_flight() {
            0 => self.since.or(Some(records.now)),
            _ => None,
        };
        if report.change.is_cut || report.change.is_undo {
            (self.growth, self.left) = (None, 0);
        }
        match &report.round {
            Some(round) if records.config.kind.is_loss_based() => self.check_round(records, round),
            _ => Ok(()),
        }
    }

    fn on_path(&mut self, _records: &EndpointRecords) {
        *self = Self::default();
    }
}

impl Idle {
    fn check_round(&mut self, records: &EndpointRecords, round: &Round) -> Verdict {
        if !round.is_clean || !round.was_in(Phase::CongestionAvoidance) {
            return Ok(());
        }
        let grown = round.window_after.saturating_sub(round.window_before);
        if self.left > 0 {
            self.left -= 1;
            // The window may have been used only partly in the previous round.
            let limit = self.growth.map(|before| 2 * before + 2 * records.datagram());
            if let Some(limit) = limit.filter(|limit| grown > *limit) {
                return Err(format!(
                    "after idle time, the window grew by {grown} bytes in a round; the growth \
                     before the idle time allows at most {limit}"
                ));
            }
        } else if round.was_held {
            self.growth = Some(grown);
        }
        Ok(())
    }
}
