//! Liveness: from every state, with data waiting and without loss, the window must grow.
//!
//! Records the number of rounds within which the window grows. Another sequence that reaches the
//! same state with the same window needs that many additional rounds.

use std::collections::HashMap;

use clearway_congestion::{Controller, Inspect, Phase};

use super::canonical::canonical;
use super::hashing::{Folded, Plain};
use super::moves::Move;
use super::rules::{Fault, LastReduction, Rules};
use super::sender::{SIZE, Sender, TICK};
use crate::checker::Property;

/// States that grow within this many rounds are not memoized: most do, and recomputing them is
/// cheaper.
const EARLY_ROUNDS: u32 = 2;
/// C (RFC 9438 §5), in datagrams per second cubed.
const CURVE: f64 = 0.4;
/// The additional rounds: the recovery period before the curve begins, the round in which recovery
/// ends, and a round in which the window follows the curve.
const MORE_ROUNDS: u32 = 3;
/// A pattern with such long round trips that a CUBIC curve takes only a few of them.
const SLOW: &[Move] = &[Move::Tick, Move::AckAll];
/// The patterns in which acknowledgments arrive in clean rounds.
const RHYTHMS: [&[Move]; 4] =
    [&[Move::AckAll], &[Move::AckHalf], SLOW, &[Move::AckHalf, Move::Tick, Move::AckAll]];

/// The number of clean rounds within which the window grows, by state, window and pattern.
pub(super) type Notes = HashMap<u64, u8, Plain>;

/// The liveness results so far.
pub(super) struct Liveness<'a> {
    rules: Rules,
    earlier: &'a Notes,
    /// The results added since the last merge.
    pub(super) found: Notes,
}

impl<'a> Liveness<'a> {
    pub(super) fn new(rules: Rules, earlier: &'a Notes) -> Self {
        Self { rules, earlier, found: Notes::default() }
    }

    /// Checks that the window grows from the state of `sender`, whatever the ACK pattern.
    pub(super) fn check<C: Controller + Inspect + Clone>(
        &mut self,
        sender: &Sender<C>,
        reduction: &LastReduction,
    ) -> Result<(), Fault> {
        for (number, rhythm) in RHYTHMS.into_iter().enumerate() {
            if self.rounds(sender, reduction, (number, rhythm)).is_none() {
                let explanation = format!(
                    "after {} clean rounds of {:?} the window has not grown beyond {}",
                    self.rules.clean_rounds,
                    rhythm,
                    budget(sender)
                );
                return Err((Property::L1, explanation));
            }
        }
        self.check_return(sender, reduction)
    }

    /// Returns the number of rounds of the pattern `rhythm` within which the window grows.
    fn rounds<C: Controller + Inspect + Clone>(
        &mut self,
        sender: &Sender<C>,
        reduction: &LastReduction,
        (number, rhythm): (usize, &[Move]),
    ) -> Option<u32> {
        let begin = budget(sender);
        let mut sender = sender.clone();
        // States in which the window was unchanged, each with the number of its round.
        let mut trail: Vec<(u64, u32)> = Vec::new();
        let mut rounds = None;
        for round in 1..=self.rules.clean_rounds {
            clean_round(&mut sender, rhythm);
            let now = budget(&sender);
            if now > begin {
                rounds = Some(round);
                break;
            }
            if now == begin && round > EARLY_ROUNDS {
                let key = self.key(&sender, reduction, number);
                if let Some(known) = self.known(key) {
                    rounds = Some(round + known).filter(|sum| *sum <= self.rules.clean_rounds);
                    break;
                }
                trail.push((key, round));
            }
        }
        for (key, round) in trail {
            // There are no more than eighty rounds.
            let more = rounds.and_then(|all| u8::try_from(all - round).ok());
            self.found.extend(more.map(|more| (key, more)));
        }
        rounds
    }

    /// Checks that CUBIC's window has returned to its value before the last reduction, or to the
    /// target of fast convergence, when its curve has: after K (RFC 9438 §4.2), and at most a few
    /// rounds later.
    fn check_return<C: Controller + Inspect + Clone>(
        &self,
        sender: &Sender<C>,
        reduction: &LastReduction,
    ) -> Result<(), Fault> {
        let Some(aim) = reduction.aim else { return Ok(()) };
        let gap = aim.gap as f64 / SIZE as f64;
        let begin = sender.now;
        let mut sender = sender.clone();
        while budget(&sender) < aim.window {
            let elapsed = sender.now.saturating_since(begin);
            let time = elapsed.saturating_sub(TICK * MORE_ROUNDS).as_secs_f64();
            // K is the time at which the curve has risen by this gap.
            if CURVE * time * time * time > gap {
                let explanation = format!(
                    "after {elapsed:?} of clean rounds, the window is {}, but the curve should \
                     have returned to {}",
                    budget(&sender),
                    aim.window
                );
                return Err((Property::L1, explanation));
            }
            clean_round(&mut sender, SLOW);
        }
        Ok(())
    }

    fn key<C: Controller + Inspect>(
        &self,
        sender: &Sender<C>,
        reduction: &LastReduction,
        number: usize,
    ) -> u64 {
        let mut hash = Folded::new();
        hash.number(canonical(sender, reduction, self.rules.is_rated()));
        hash.number(number as u64);
        hash.number(budget(sender));
        hash.finish()
    }

    fn known(&self, key: u64) -> Option<u32> {
        self.earlier.get(&key).or_else(|| self.found.get(&key)).map(|rounds| u32::from(*rounds))
    }
}

fn clean_round<C: Controller>(sender: &mut Sender<C>, rhythm: &[Move]) {
    sender.make(Move::SendBurst);
    for step in rhythm {
        sender.wait_for_pacer();
        let step = match step {
            // With a single outstanding packet, the older half is the whole flight.
            Move::AckHalf if !sender.permits(*step) => Move::AckAll,
            step => *step,
        };
        if sender.permits(step) {
            sender.make(step);
        }
    }
}

/// Returns the quantity that must grow: in recovery the window that recovery leads to, otherwise
/// the current window.
pub(super) fn budget<C: Controller>(sender: &Sender<C>) -> u64 {
    let snapshot = sender.controller.snapshot();
    match (snapshot.phase, snapshot.slow_start_threshold) {
        (Phase::Recovery, Some(threshold)) => threshold,
        _ => snapshot.window,
    }
}
