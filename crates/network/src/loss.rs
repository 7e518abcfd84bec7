use clearway_units::{Random, Timestamp};

use crate::window::WindowState;
use crate::{DropReason, Probability, Way, Window};

/// A loss rule, which determines which datagrams are lost, and when.
#[derive(Clone, PartialEq, Debug)]
pub struct LossRule {
    /// The model that selects the datagrams to drop.
    pub model: LossModel,
    /// The window during which the rule applies. Outside of the window, the rule draws no random
    /// values and its bursts do not progress.
    pub window: Window,
}

impl LossRule {
    /// Creates a rule that always drops each datagram with `probability`.
    pub const fn random(probability: Probability) -> Self {
        Self { model: LossModel::Random { probability }, window: Window::Always }
    }

    /// Creates a rule that drops all datagrams while `window` is open.
    pub const fn blackhole(window: Window) -> Self {
        Self { model: LossModel::Random { probability: Probability::ALWAYS }, window }
    }
}

/// A loss model, which selects the datagrams to drop.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum LossModel {
    /// Drops each datagram independently.
    Random {
        /// The probability that a datagram is lost.
        probability: Probability,
    },
    /// Drops each datagram independently, except that after `maximum_run` consecutive losses the
    /// next one passes. The public interoperability tests use this loss model.
    RandomCapped {
        /// The probability that a datagram is lost.
        probability: Probability,
        /// The maximum number of consecutive losses; with zero, no datagrams are dropped.
        maximum_run: u32,
    },
    /// Drops datagrams in bursts of random length.
    Burst {
        /// The probability that a datagram outside a burst starts one (and is lost).
        start: Probability,
        /// The maximum burst length; all lengths from one to this value are equally likely. With
        /// zero, no datagrams are dropped. Two bursts may be adjacent.
        maximum_run: u32,
    },
    /// The Gilbert-Elliott model, with a good and a bad state, each with its own loss probability.
    /// The direction starts in the good state. For each datagram, the current state's loss is
    /// applied first, and then the state may change.
    GilbertElliott {
        /// The probability of a transition from the good state to the bad state.
        good_to_bad: Probability,
        /// The probability of a transition from the bad state to the good state.
        bad_to_good: Probability,
        /// The probability that a datagram is lost in the good state.
        loss_in_good: Probability,
        /// The probability that a datagram is lost in the bad state.
        loss_in_bad: Probability,
    },
    /// Drops each large datagram independently; small datagrams pass.
    RandomLarge {
        /// The size in bytes above which a payload is large.
        larger_than: usize,
        /// The probability that a large datagram is lost.
        probability: Probability,
    },
    /// Drops exactly the listed datagrams.
    List {
        /// The numbers of the datagrams to drop, in any order. The first datagram that enters the
        /// direction is number 1.
        numbers: Vec<u64>,
    },
}

/// A loss rule and its state.
#[derive(Debug)]
pub(crate) struct LossState {
    model: LossModel,
    window: WindowState,
    random: Random,
    /// `RandomCapped`: consecutive losses so far. `Burst`: remaining losses in this burst.
    run: u32,
    is_bad: bool,
}

impl LossState {
    pub(crate) fn new(rule: LossRule, random: Random) -> Self {
        let mut model = rule.model;
        if let LossModel::List { numbers } = &mut model {
            numbers.sort_unstable();
        }
        Self { model, window: WindowState::new(rule.window), random, run: 0, is_bad: false }
    }

    /// Processes payload that has passed: `total` bytes so far in the direction `way`.
    pub(crate) fn on_passed(&mut self, now: Timestamp, way: Way, total: u64) {
        self.window.on_passed(now, way, total);
    }

    /// Returns the drop reason if this rule drops datagram `number`, which has `length` bytes;
    /// `None` otherwise.
    pub(crate) fn takes(
        &mut self,
        (now, first): (Timestamp, Timestamp),
        number: u64,
        length: usize,
    ) -> Option<DropReason> {
        if !self.window.is_open(now, first) {
            return None;
        }
        let random = &mut self.random;
        let (lost, reason) = match &self.model {
            LossModel::Random { probability } => (probability.happens(random), DropReason::Random),
            LossModel::RandomCapped { probability, maximum_run } => {
                (capped(*probability, *maximum_run, &mut self.run, random), DropReason::Random)
            }
            LossModel::Burst { start, maximum_run } => {
                (burst(*start, *maximum_run, &mut self.run, random), DropReason::Burst)
            }
            LossModel::GilbertElliott { good_to_bad, bad_to_good, loss_in_good, loss_in_bad } => {
                let (loss, change) = match self.is_bad {
                    true => (loss_in_bad, bad_to_good),
                    false => (loss_in_good, good_to_bad),
                };
                let lost = loss.happens(random);
                self.is_bad ^= change.happens(random);
                (lost, DropReason::Burst)
            }
            LossModel::RandomLarge { larger_than, probability } => {
                (length > *larger_than && probability.happens(random), DropReason::Random)
            }
            LossModel::List { numbers } => {
                (numbers.binary_search(&number).is_ok(), DropReason::Listed)
            }
        };
        lost.then_some(reason)
    }
}

/// Decides at random whether a datagram is lost, but never after `maximum_run` losses in a row. Also
/// used for corruption.
pub(crate) fn capped(
    probability: Probability,
    maximum_run: u32,
    run: &mut u32,
    random: &mut Random,
) -> bool {
    let hit = probability.happens(random) && *run < maximum_run;
    *run = if hit { run.saturating_add(1) } else { 0 };
    hit
}

fn burst(start: Probability, maximum_run: u32, left: &mut u32, random: &mut Random) -> bool {
    if *left > 0 {
        *left = left.saturating_sub(1);
        return true;
    }
    let starts = maximum_run > 0 && start.happens(random);
    if starts {
        *left = u32::try_from(random.below(u64::from(maximum_run))).unwrap_or(0);
    }
    starts
}

#[cfg(test)]
#[path = "loss_tests.rs"]
mod tests;
