//! Liveness: from every state on, with data waiting and without loss, the window has to grow.
//!
//! If it grows within some number of rounds, that is recorded. A history that reaches the same state with the same window
//! needs as many rounds more.

use std::collections::HashMap;

use clearway_congestion::{Controller, Inspect, Phase};

use super::canonical::canonical;
use super::hashing::{Folded, Plain};
use super::moves::Move;
use super::rules::{Books, Fault, Rules};
use super::sender::{SIZE, Sender, TICK};
use crate::checker::Property;

/// Who grows in so many rounds is not noted: most do, and walking is cheaper.
const EARLY_ROUNDS: u32 = 2;
/// C (RFC 9438 §5), in datagrams per second cubed.
const CURVE: f64 = 0.4;
/// The recovery that a curve waits for, and the round that its end falls into; and one in which the window follows.
const MORE_ROUNDS: u32 = 3;
/// A rhythm of so long round trips that a curve takes a few of them.
const SLOW: &[Move] = &[Move::Tick, Move::AckAll];
/// In which rhythm acknowledgements come in clean rounds.
const RHYTHMS: [&[Move]; 4] =
    [&[Move::AckAll], &[Move::AckHalf], SLOW, &[Move::AckHalf, Move::Tick, Move::AckAll]];

/// Within how many clean rounds the window grows, by state, window and rhythm.
pub(super) type Notes = HashMap<u64, u8, Plain>;

/// What is known of liveness.
pub(super) struct Liveness<'a> {
    rules: Rules,
    earlier: &'a Notes,
    /// What was found since.
    pub(super) found: Notes,
}

impl<'a> Liveness<'a> {
    pub(super) fn new(rules: Rules, earlier: &'a Notes) -> Self {
        Self { rules, earlier, found: Notes::default() }
    }

    /// Whether the window grows from `sender` on, whatever the rhythm.
    pub(super) fn check<C: Controller + Inspect + Clone>(
        &mut self,
        sender: &Sender<C>,
        books: &Books,
    ) -> Result<(), Fault> {
        for (number, rhythm) in RHYTHMS.into_iter().enumerate() {
            if self.rounds(sender, books, (number, rhythm)).is_none() {
                let explanation = format!(
                    "after {} clean rounds of {:?} the window is no larger than {}",
                    self.rules.clean_rounds,
                    rhythm,
                    budget(sender)
                );
                return Err((Property::L1, explanation));
            }
        }
        self.check_return(sender, books)
    }

    /// After how many rounds in `rhythm`, which has that number, the window grows, at most.
    fn rounds<C: Controller + Inspect + Clone>(
        &mut self,
        sender: &Sender<C>,
        books: &Books,
        (number, rhythm): (usize, &[Move]),
    ) -> Option<u32> {
        let begin = budget(sender);
        let mut sender = sender.clone();
        // States with the window as it was, each with the round after which it was so.
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
                let key = self.key(&sender, books, number);
                if let Some(known) = self.known(key) {
                    rounds = Some(round + known).filter(|sum| *sum <= self.rules.clean_rounds);
                    break;
                }
                trail.push((key, round));
            }
        }
        for (key, round) in trail {
            // There are no more than eighty.
            let more = rounds.and_then(|all| u8::try_from(all - round).ok());
            self.found.extend(more.map(|more| (key, more)));
        }
        rounds
    }

    /// CUBIC is back where it was before the last cut, or where fast convergence aims, when its curve is: after K
    /// (RFC 9438 §4.2), and not later than a few rounds.
    fn check_return<C: Controller + Inspect + Clone>(
        &self,
        sender: &Sender<C>,
        books: &Books,
    ) -> Result<(), Fault> {
        let Some(aim) = books.aim else { return Ok(()) };
        let gap = aim.gap as f64 / SIZE as f64;
        let begin = sender.now;
        let mut sender = sender.clone();
        while budget(&sender) < aim.window {
            let elapsed = sender.now.saturating_since(begin);
            let time = elapsed.saturating_sub(TICK * MORE_ROUNDS).as_secs_f64();
            // K is when this is the gap.
            if CURVE * time * time * time > gap {
                let explanation = format!(
                    "{elapsed:?} later, all of them clean rounds, the window is {}, and its curve should be back at {}",
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
        books: &Books,
        number: usize,
    ) -> u64 {
        let mut hash = Folded::new();
        hash.number(canonical(sender, books, self.rules.is_rated()));
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
            // The older half of a single packet.
            Move::AckHalf if !sender.permits(*step) => Move::AckAll,
            step => *step,
        };
        if sender.permits(step) {
            sender.make(step);
        }
    }
}

/// What has to grow: the window that recovery leads to, or the window.
pub(super) fn budget<C: Controller>(sender: &Sender<C>) -> u64 {
    let snapshot = sender.controller.snapshot();
    match (snapshot.phase, snapshot.slow_start_threshold) {
        (Phase::Recovery, Some(threshold)) => threshold,
        _ => snapshot.window,
    }
}
