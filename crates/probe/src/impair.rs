//! Loss, delay, duplication and corruption of selected datagrams in either direction.

use core::time::Duration;
use std::collections::BTreeMap;

use clearway_units::{Random, Timestamp};
use serde::{Deserialize, Serialize};

use crate::quic::Level;

/// Maximum number of datagrams in delay at the same time.
const MAX_DELAYED: usize = 10_000;

/// The direction of a datagram, from the probe's point of view.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the probe to the peer.
    Sent,
    /// From the peer to the probe.
    Received,
}

/// What happens to a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Impairment {
    /// The datagram is lost.
    Drop,
    /// The datagram is delivered later, and may be overtaken by others.
    Delay {
        /// The delay.
        milliseconds: u64,
    },
    /// The datagram is delivered twice.
    Duplicate,
    /// One byte in the middle of the datagram is changed.
    Corrupt,
}

/// A rule that selects datagrams and determines what happens to them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ImpairmentRule {
    /// The direction of the datagrams.
    pub direction: Direction,
    /// What happens to them.
    pub action: Impairment,
    /// The type of the first packet in the datagram; any type if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
    /// Number of matching datagrams that pass before the rule applies.
    #[serde(default)]
    pub skip: u64,
    /// Number of datagrams to which the rule applies; all if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The probability that the rule applies to a matching datagram, from 0 to 1.
    #[serde(default = "certain")]
    pub probability: f64,
}

const fn certain() -> f64 {
    1.0
}

impl ImpairmentRule {
    /// Creates a rule for all datagrams of a direction.
    pub const fn new(direction: Direction, action: Impairment) -> Self {
        Self { direction, action, level: None, skip: 0, count: None, probability: 1.0 }
    }
}

/// A datagram in transit, and the path that it belongs to.
pub(crate) type Carried = (usize, Vec<u8>);

/// Applies rules to datagrams.
#[derive(Debug)]
pub(crate) struct Impairments {
    rules: Vec<ImpairmentRule>,
    delayed: BTreeMap<(Timestamp, u64), (Direction, Carried)>,
    next: u64,
    random: Random,
    dropped: u64,
}

impl Impairments {
    pub(crate) fn new(random: Random) -> Self {
        Self { rules: Vec::new(), delayed: BTreeMap::new(), next: 0, random, dropped: 0 }
    }

    /// Replaces all rules.
    pub(crate) fn set(&mut self, rules: Vec<ImpairmentRule>) {
        self.rules = rules;
    }

    /// Returns the number of dropped datagrams.
    pub(crate) const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns the time at which the next delayed datagram is due.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        self.delayed.keys().next().map(|(at, _)| *at)
    }

    /// Returns the datagrams that arrive immediately as the result of sending or receiving one
    /// datagram: none, one or two.
    pub(crate) fn apply(
        &mut self,
        now: Timestamp,
        direction: Direction,
        (path, mut bytes): Carried,
    ) -> Vec<Carried> {
        let action = self.action(direction, &bytes);
        match action {
            None => vec![(path, bytes)],
            Some(Impairment::Drop) => {
                self.dropped = self.dropped.saturating_add(1);
                Vec::new()
            }
            Some(Impairment::Duplicate) => vec![(path, bytes.clone()), (path, bytes)],
            Some(Impairment::Corrupt) => {
                let middle = bytes.len() / 2;
                if let Some(byte) = bytes.get_mut(middle) {
                    *byte ^= 0x55;
                }
                vec![(path, bytes)]
            }
            Some(Impairment::Delay { milliseconds }) => {
                if self.delayed.len() < MAX_DELAYED {
                    self.next = self.next.saturating_add(1);
                    let at = now + Duration::from_millis(milliseconds);
                    self.delayed.insert((at, self.next), (direction, (path, bytes)));
                }
                Vec::new()
            }
        }
    }

    /// Returns the action of the first rule that applies.
    fn action(&mut self, direction: Direction, bytes: &[u8]) -> Option<Impairment> {
        let level = level_of(bytes);
        for rule in &mut self.rules {
            let matches =
                rule.direction == direction && rule.level.is_none_or(|it| Some(it) == level);
            if !matches || rule.count == Some(0) {
                continue;
            }
            if rule.skip > 0 {
                rule.skip = rule.skip.saturating_sub(1);
                continue;
            }
            if rule.probability < 1.0 && !self.random.chance(rule.probability) {
                continue;
            }
            rule.count = rule.count.map(|count| count.saturating_sub(1));
            return Some(rule.action);
        }
        None
    }

    /// Returns a delayed datagram that is due.
    pub(crate) fn due(&mut self, now: Timestamp) -> Option<(Direction, Carried)> {
        let entry = self.delayed.first_entry()?;
        (entry.key().0 <= now).then(|| entry.remove())
    }
}

/// Returns the type of the first packet in a QUIC version 1 datagram.
fn level_of(bytes: &[u8]) -> Option<Level> {
    let first = *bytes.first()?;
    if first & 0x80 == 0 {
        return Some(Level::OneRtt);
    }
    match first >> 4 & 3 {
        0 => Some(Level::Initial),
        1 => Some(Level::ZeroRtt),
        2 => Some(Level::Handshake),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_select_datagrams() {
        let mut all = Impairments::new(Random::from_number(1));
        let drop = ImpairmentRule {
            skip: 1,
            count: Some(1),
            level: Some(Level::Initial),
            ..ImpairmentRule::new(Direction::Sent, Impairment::Drop)
        };
        let delay = Impairment::Delay { milliseconds: 5 };
        all.set(vec![drop, ImpairmentRule::new(Direction::Received, delay)]);
        let now = Timestamp::ORIGIN;
        let initial = || (0, vec![0xc0, 1, 2, 3]);
        let counts: Vec<_> =
            (0..3).map(|_| all.apply(now, Direction::Sent, initial()).len()).collect();
        assert_eq!((counts, all.dropped()), (vec![1, 0, 1], 1));
        assert!(all.apply(now, Direction::Received, initial()).is_empty());
        assert!(all.due(now).is_none());
        let later = all.deadline().unwrap();
        assert_eq!(all.due(later), Some((Direction::Received, initial())));
    }

    #[test]
    fn duplicates_and_corruption() {
        let mut all = Impairments::new(Random::from_number(1));
        all.set(vec![ImpairmentRule::new(Direction::Sent, Impairment::Duplicate)]);
        assert_eq!(all.apply(Timestamp::ORIGIN, Direction::Sent, (0, vec![1])).len(), 2);
        all.set(vec![ImpairmentRule::new(Direction::Sent, Impairment::Corrupt)]);
        let corrupt = all.apply(Timestamp::ORIGIN, Direction::Sent, (0, vec![1, 2, 3]));
        assert_eq!(corrupt, [(0, vec![1, 2 ^ 0x55, 3])]);
    }
}
