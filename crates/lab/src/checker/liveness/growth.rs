//! L1: the window grows while congestion control limits sending and nothing is lost.
//!
//! A round counts only if, for its whole duration, no packet was lost, no timer expired, and data
//! was waiting for the window or the pacer whenever sending stopped. The required growth is:
//!
//! - in slow start: 0.9 of the acknowledged bytes (in conservative slow start, 0.9 of a quarter of
//!   them);
//! - Reno: 0.9 datagrams for each window acknowledged, over four rounds;
//! - CUBIC: half a datagram for each window acknowledged, from the beginning of the congestion
//!   avoidance phase: this is W_est (RFC 9438 §4.3), and the window is never below it. In every
//!   phase, including those whose beginning is unknown because a reduction was undone, one datagram
//!   per 2.72 s: in the flattest part of the curve with that length, around W_max, C t^3 / 4 yields
//!   two (RFC 9438 §4.2);
//! - other controllers, such as BBR: the window or the pacing rate grows within one probe cycle.
//!
//! Rounds in which the controller reports recovery, or remains in one phase, count as well, since
//! the published death spiral looks like that.

use core::time::Duration;

use clearway_congestion::Phase;
use clearway_units::Rate;

use crate::checker::properties::Property;
use crate::checker::records::{EndpointRecords, Report, Round};
use crate::checker::rule::{Rule, Verdict};

/// The number of rounds over which growth is averaged.
const ROUNDS: u64 = 4;
/// Rounds in addition to [`ROUNDS`]: the recovery period in which a congestion avoidance phase may
/// begin, and the round in which recovery ends.
const MORE_ROUNDS: u64 = 2;
/// The longest time for which CUBIC's window may grow by less than a datagram at its plateau.
const PLATEAU: Duration = Duration::from_millis(2720);

#[derive(Debug, Default)]
pub(in crate::checker) struct WindowGrowth {
    stage: Option<Stage>,
    cycle: Option<Cycle>,
}

/// A series of clean rounds in congestion avoidance.
#[derive(Clone, Copy, Debug)]
struct Stage {
    rounds: u64,
    /// The number of windows acknowledged, in thousandths.
    windows: u64,
    window_before: u64,
    /// Whether the phase began with a window reduction or with the end of slow start; only then is
    /// W_est known.
    is_whole: bool,
    /// The window when it last grew by a datagram, and how long congestion control has limited
    /// sending since then.
    mark: u64,
    since_mark: Duration,
    rounds_since_mark: u64,
}

/// Consecutive clean rounds of a controller with a probe cycle.
#[derive(Clone, Copy, Debug)]
struct Cycle {
    lowest: Budget,
    rounds: u64,
    time: Duration,
    /// Whether one of the rounds was in ProbeRTT.
    is_interrupted: bool,
}

#[derive(Clone, Copy, Debug)]
struct Budget {
    window: u64,
    rate: Rate,
}

impl Rule for WindowGrowth {
    const PROPERTY: Property = Property::L1;

    fn on_report(&mut self, records: &EndpointRecords, report: &Report<'_>) -> Verdict {
        let change = &report.change;
        if change.is_cut || change.is_undo {
            // A phase begins with the window after a reduction. After an undone reduction, its
            // beginning is unknown.
            self.stage = change.is_cut.then(|| Stage::new(change.after, true));
        }
        if !records.config.kind.is_loss_based() {
            return self.check_cycle(records, report);
        }
        match &report.round {
            Some(round) => self.check_round(records, round),
            None => Ok(()),
        }
    }

    /// Ends the congestion avoidance phase, because growth in datagrams is not comparable across
    /// two datagram sizes.
    fn on_mtu(&mut self, _records: &EndpointRecords) {
        self.stage = None;
    }

    fn on_path(&mut self, _records: &EndpointRecords) {
        *self = Self::default();
    }
}

impl Stage {
    fn new(window: u64, is_whole: bool) -> Self {
        Self {
            rounds: 0,
            windows: 0,
            window_before: window,
            is_whole,
            mark: window,
            since_mark: Duration::ZERO,
            rounds_since_mark: 0,
        }
    }

    fn add(&mut self, records: &EndpointRecords, round: &Round) {
        let window = match records.config.kind.counts_whole_datagrams() {
            true => round.window_after / records.datagram() * records.datagram(),
            false => round.window_after,
        };
        self.rounds += 1;
        self.windows += (round.acked * 1000 / window.max(1)).min(1000);
        self.rounds_since_mark += 1;
        self.since_mark += round.ended.saturating_since(round.began);
        if round.window_after >= self.mark + records.datagram() {
            self.mark = round.window_after;
            self.since_mark = Duration::ZERO;
            self.rounds_since_mark = 0;
        }
    }
}

impl WindowGrowth {
    fn check_round(&mut self, records: &EndpointRecords, round: &Round) -> Verdict {
        if round.window_after >= records.config.maximum_window {
            self.stage = None;
            return Ok(());
        }
        if round.was_in(Phase::SlowStart) || round.was_in(Phase::ConservativeSlowStart) {
            self.stage = None;
            return if round.is_clean_and_held() {
                check_slow_start(records, round)
            } else {
                Ok(())
            };
        }
        if !round.is_clean_and_held() {
            // A round with a loss belongs to the congestion avoidance phase that the loss ends or
            // begins.
            if records.config.kind.grows_by_acknowledgements_only() {
                self.stage = None;
            } else if let Some(stage) = &mut self.stage {
                (stage.since_mark, stage.rounds_since_mark) = (Duration::ZERO, 0);
            }
            return Ok(());
        }
        let came_from_slow_start = is_slow_start(round.phase_before);
        let fresh = Stage::new(round.window_before, came_from_slow_start);
        let stage = self.stage.get_or_insert(fresh);
        if came_from_slow_start {
            // Part of the round was slow start: the congestion avoidance phase begins with the
            // window at the end of the round.
            *stage = Stage::new(round.window_after, true);
            return Ok(());
        }
        stage.add(records, round);
        let verdict = check_stage(records, stage, round);
        let is_averaged = stage.rounds >= ROUNDS + MORE_ROUNDS;
        if records.config.kind.grows_by_acknowledgements_only() && is_averaged {
            self.stage = Some(Stage::new(round.window_after, false));
        }
        verdict
    }

    /// Checks that the pacing budget grows within a probe cycle.
    fn check_cycle(&mut self, records: &EndpointRecords, report: &Report<'_>) -> Verdict {
        let budget = Budget {
            window: report.after.congestion.window,
            rate: report.after.pacing_rate.unwrap_or(Rate::ZERO),
        };
        let Some(cycle) = &mut self.cycle else {
            self.cycle = Some(Cycle {
                lowest: budget,
                rounds: 0,
                time: Duration::ZERO,
                is_interrupted: false,
            });
            return Ok(());
        };
        let phase = report.after.congestion.phase;
        cycle.is_interrupted |= records.config.kind.interrupts_probe(phase);
        let lowest = &mut cycle.lowest;
        let has_grown = budget.window > lowest.window || budget.rate > lowest.rate.scaled(23, 20);
        lowest.window = lowest.window.min(budget.window);
        lowest.rate = lowest.rate.min(budget.rate);
        let is_at_maximum = budget.window >= records.config.maximum_window;
        let is_spoilt = report.round.is_some_and(|round| !round.is_clean_and_held());
        if has_grown || is_at_maximum || is_spoilt || report.change.is_cut {
            self.cycle = None;
            return Ok(());
        }
        let Some(round) = &report.round else { return Ok(()) };
        cycle.rounds += 1;
        cycle.time += round.ended.saturating_since(round.began);
        let bound = records.config.kind.growth_bound(cycle.is_interrupted);
        if bound.is_exceeded(cycle.rounds, cycle.time) {
            return Err(format!(
                "in {} clean rounds ({:?}) in which data waited, neither the window (now {}) nor \
                 the pacing rate (now {} bytes/s) grew",
                cycle.rounds,
                cycle.time,
                budget.window,
                budget.rate.bytes_per_second()
            ));
        }
        Ok(())
    }
}

fn is_slow_start(phase: Phase) -> bool {
    matches!(phase, Phase::SlowStart | Phase::ConservativeSlowStart)
}

fn check_slow_start(records: &EndpointRecords, round: &Round) -> Verdict {
    let divisor = if round.was_in(Phase::SlowStart) { 1 } else { 4 };
    let due = (round.growing * 9 / 10 / divisor).saturating_sub(records.datagram() / divisor);
    let grown = round.window_after.saturating_sub(round.window_before);
    if grown < due {
        return Err(format!(
            "in a clean round of slow start in which data waited, {} bytes were acknowledged and \
             the window grew by only {grown}, from {}",
            round.growing, round.window_before
        ));
    }
    Ok(())
}

fn check_stage(records: &EndpointRecords, stage: &Stage, round: &Round) -> Verdict {
    let datagram = records.datagram();
    let grown = round.window_after.saturating_sub(stage.window_before);
    let growth = records.config.kind.stage_growth();
    let is_due = stage.is_whole || !growth.needs_beginning;
    // No growth is required in the recovery period in which a congestion avoidance phase may begin.
    let counted = stage.windows.saturating_sub(1000 * MORE_ROUNDS);
    let due = counted * growth.tenths / 10 * datagram / 1000;
    if is_due && stage.rounds >= ROUNDS + MORE_ROUNDS && grown < due {
        return Err(format!(
            "in {} clean rounds in which data waited, the window grew by {grown} bytes, from {} \
             to {}; at least {due} is required",
            stage.rounds, stage.window_before, round.window_after
        ));
    }
    if stage.since_mark > PLATEAU && stage.rounds_since_mark > ROUNDS + MORE_ROUNDS {
        return Err(format!(
            "in {} clean rounds ({:?}) in which data waited, the window grew by less than a \
             datagram, from {} to {}",
            stage.rounds_since_mark, stage.since_mark, stage.mark, round.window_after
        ));
    }
    Ok(())
}
