//! All random values for a datagram, which are drawn when it enters.

use clearway_units::{Random, Timestamp};

use crate::corruption::{BitChange, change};
use crate::disturbance::DatagramEffects;
use crate::inside::Travel;
use crate::loss::{LossState, capped};
use crate::{Conditions, Corrupt, DropReason, Probability, Reorder, Way};

/// One random source per impairment; each loss rule has its own.
#[derive(Debug)]
pub(crate) struct Impairments {
    loss: Vec<LossState>,
    jitter_range: u64,
    reorder: Reorder,
    duplicate: Probability,
    corrupt: Corrupt,
    corrupt_run: u32,
    sources: Sources,
}

#[derive(Debug)]
struct Sources {
    jitter: Random,
    reorder: Random,
    duplicate: Random,
    corrupt: Random,
}

/// The values drawn for one datagram.
pub(crate) struct Draws {
    pub(crate) lost: Option<DropReason>,
    pub(crate) travel: Travel,
    pub(crate) corruption: Option<BitChange>,
}

impl Draws {
    /// Adds the effects of disturbances.
    pub(crate) fn disturb(&mut self, effects: DatagramEffects) {
        let DatagramEffects { is_lost, is_doubled, corruption, held_back } = effects;
        self.lost = self.lost.or(is_lost.then_some(DropReason::Disturbance));
        self.corruption = corruption.or(self.corruption);
        self.travel.is_duplicated |= is_doubled;
        if let Some(by) = held_back {
            let others = self.travel.held_back.unwrap_or_default();
            self.travel.held_back = Some(others.saturating_add(by));
        }
    }
}

impl Impairments {
    pub(crate) fn new(conditions: &mut Conditions, mut random: Random) -> Self {
        let sources = Sources {
            jitter: random.fork(),
            reorder: random.fork(),
            duplicate: random.fork(),
            corrupt: random.fork(),
        };
        let rules = core::mem::take(&mut conditions.loss);
        let range = conditions.jitter.range.as_nanos();
        Self {
            loss: rules.into_iter().map(|rule| LossState::new(rule, random.fork())).collect(),
            jitter_range: u64::try_from(range).unwrap_or(u64::MAX),
            reorder: conditions.reorder,
            duplicate: conditions.duplicate,
            corrupt: conditions.corrupt,
            corrupt_run: 0,
            sources,
        }
    }

    /// Draws all values for the datagram that enters as number `entered` in its direction, even
    /// values that turn out not to be used.
    pub(crate) fn draw(
        &mut self,
        (now, first): (Timestamp, Timestamp),
        entered: u64,
        length: usize,
    ) -> Draws {
        let mut lost = None;
        for rule in &mut self.loss {
            let reason = rule.takes((now, first), entered, length);
            lost = lost.or(reason);
        }
        let jitter = match self.jitter_range {
            0 => 0,
            range => self.sources.jitter.below(range.saturating_mul(2).saturating_add(1)),
        };
        let random = &mut self.sources.corrupt;
        let maximum_run = self.corrupt.maximum_run.unwrap_or(u32::MAX);
        let probability = self.corrupt.probability;
        let corruption = capped(probability, maximum_run, &mut self.corrupt_run, random)
            .then(|| change(length, self.corrupt.within, random));
        let travel = Travel {
            jitter,
            held_back: self
                .reorder
                .probability
                .happens(&mut self.sources.reorder)
                .then_some(self.reorder.by),
            is_duplicated: self.duplicate.happens(&mut self.sources.duplicate),
        };
        Draws { lost, travel, corruption }
    }

    /// Returns whether this payload is never corrupted.
    pub(crate) fn spares(&self, payload: &[u8]) -> bool {
        self.corrupt.spare_version_negotiation && is_version_negotiation(payload)
    }

    /// Notifies the windows of this direction of the bytes that have passed in the direction `way`.
    pub(crate) fn on_passed(&mut self, now: Timestamp, way: Way, total: u64) {
        for rule in &mut self.loss {
            rule.on_passed(now, way, total);
        }
    }
}

/// Returns whether this is a Version Negotiation packet: a long header with version 0 (RFC 8999
/// §6).
fn is_version_negotiation(payload: &[u8]) -> bool {
    matches!(payload, [first, 0, 0, 0, 0, ..] if first & 0x80 != 0)
}
