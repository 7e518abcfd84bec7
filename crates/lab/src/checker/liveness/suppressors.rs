//! L8: no condition suppresses window growth for longer than its limit.
//!
//! A [`Suppressor`] that is removed and set again in every round is as harmful as one that stays.
//! Therefore the rule counts the rounds at whose end the suppressor was set, and only growth or a
//! round without the suppressor restarts the count. For conservative slow start, the count restarts
//! whenever the suppressor is removed: S22 checks that the RTT was the reason (RFC 9406 §4.2).

use core::time::Duration;

use clearway_congestion::Suppressor;

use crate::checker::properties::Property;
use crate::checker::records::{EndpointRecords, Report};
use crate::checker::rule::{Rule, Verdict};

#[derive(Debug, Default)]
pub(in crate::checker) struct Suppression {
    held: [Held; Suppressor::ALL.len()],
}

/// How long one condition has suppressed window growth.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    rounds: u64,
    time: Duration,
    /// Whether, in this round, one report showed the suppressor as set and another did not.
    in_this_round: bool,
    let_go_in_this_round: bool,
}

/// Returns whether `suppressor` is part of a controller's probe cycle. Such suppressors are set and
/// removed by design, so only their removal is checked here. L1 checks that the cycle makes
/// progress.
fn belongs_to_a_cycle(suppressor: Suppressor) -> bool {
    ![
        Suppressor::Recovery,
        Suppressor::NotLimited,
        Suppressor::ConservativeSlowStart,
        Suppressor::MaximumWindow,
    ]
    .contains(&suppressor)
}

/// Returns whether `suppressor` may be set again soon after its removal, which restarts the count.
fn may_return_at_once(suppressor: Suppressor) -> bool {
    suppressor == Suppressor::ConservativeSlowStart || belongs_to_a_cycle(suppressor)
}

impl Rule for Suppression {
    const PROPERTY: Property = Property::L8;

    fn on_report(&mut self, records: &EndpointRecords, report: &Report<'_>) -> Verdict {
        let suppressors = &report.after.congestion.suppressors;
        for (suppressor, held) in Suppressor::ALL.into_iter().zip(&mut self.held) {
            let holds = suppressors.since(suppressor).is_some();
            held.in_this_round |= holds;
            held.let_go_in_this_round |= !holds;
        }
        let Some(round) = &report.round else { return Ok(()) };
        // Conservative slow start must end even if the window grows during it.
        let has_grown = round.window_after > round.window_before;
        for (suppressor, held) in Suppressor::ALL.into_iter().zip(&mut self.held) {
            let held_now = core::mem::take(&mut held.in_this_round);
            let let_go = core::mem::take(&mut held.let_go_in_this_round);
            let is_reset = has_grown && suppressor != Suppressor::ConservativeSlowStart
                || let_go && may_return_at_once(suppressor);
            if !held_now || is_reset || !round.is_clean_and_held() {
                *held = Held::default();
                continue;
            }
            held.rounds += 1;
            held.time += round.ended.saturating_since(round.began);
            let Some(bound) = records.config.kind.suppressor_bound(suppressor) else { continue };
            if bound.is_exceeded(held.rounds, held.time) {
                return Err(format!(
                    "{suppressor:?} has been set for {} clean rounds ({:?}) in which data waited",
                    held.rounds, held.time
                ));
            }
        }
        Ok(())
    }

    fn on_path(&mut self, _records: &EndpointRecords) {
        *self = Self::default();
    }
}
