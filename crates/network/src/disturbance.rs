//! What happens to a link once, at a moment that is chosen in advance.

use core::time::Duration;

use clearway_units::{Random, Timestamp};

use crate::impairments::{Change, change};
use crate::{Reorder, Way};

/// A single event on a link, in addition to its [`Conditions`](crate::Conditions), which always apply.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Disturbance {
    /// When it happens.
    pub moment: Moment,
    /// What happens.
    pub effect: Effect,
}

/// A moment in the life of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moment {
    /// When a datagram enters, which is the first to which it applies.
    Datagram {
        /// Its direction.
        way: Way,
        /// Its place among the datagrams of that direction; the first is number one.
        number: u64,
    },
    /// So long after the first datagram, in either direction.
    After(Duration),
}

/// What a [`Disturbance`] does. What is already inside the link passes, except to an old NAT mapping.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum Effect {
    /// The NAT in front of the client makes a new mapping, as by [`Rebind`](crate::Rebind).
    Rebind {
        /// Whether the client's IP address changes with its port.
        address: bool,
    },
    /// Nothing that enters passes for a while.
    Silence {
        /// The direction; `None` for both.
        way: Option<Way>,
        /// For how long.
        length: Duration,
    },
    /// The first datagram that enters in a direction fares differently.
    One {
        /// The direction.
        way: Way,
        /// How it fares.
        fate: Fate,
    },
    /// From then on datagrams are held back, in both directions.
    Reorder(Reorder),
}

/// What becomes of a single datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It is lost.
    Lost,
    /// It arrives twice.
    Doubled,
    /// It arrives with one byte changed.
    Corrupted {
        /// The changed byte is one of this many first bytes; `None` takes any byte.
        within: Option<usize>,
    },
    /// It arrives so much later, after others that entered later.
    Delayed(Duration),
}

/// What all disturbances together do to a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Verdict {
    pub(crate) is_lost: bool,
    pub(crate) is_doubled: bool,
    pub(crate) corruption: Option<Change>,
    pub(crate) held_back: Option<Duration>,
}

/// The disturbances of a link.
#[derive(Debug)]
pub(crate) struct Disturbances {
    list: Vec<Pending>,
    /// The source of what is drawn for each datagram.
    random: Random,
    /// What is drawn for one datagram follows from this and from its place.
    seed: u64,
}

#[derive(Debug)]
struct Pending {
    disturbance: Disturbance,
    /// When its moment comes, or came; not known of a datagram that has not entered.
    start: Option<Timestamp>,
    /// Whether its one datagram has entered.
    is_spent: bool,
}

impl Disturbances {
    pub(crate) fn new(list: Vec<Disturbance>, mut random: Random) -> Self {
        let pending = |disturbance| Pending { disturbance, start: None, is_spent: false };
        let seed = random.number();
        Self { list: list.into_iter().map(pending).collect(), random, seed }
    }

    /// The datagram `number` of the direction `way` is about to enter at `now`; the first of the link did
    /// at `first`.
    pub(crate) fn on_entry(&mut self, (now, first): (Timestamp, Timestamp), way: Way, number: u64) {
        for one in &mut self.list {
            let start = match one.disturbance.moment {
                Moment::After(after) => Some(first + after),
                moment if moment == (Moment::Datagram { way, number }) => Some(now),
                Moment::Datagram { .. } => None,
            };
            one.start = one.start.or(start);
        }
    }

    /// What becomes of the datagram `number` of `length` bytes that enters the direction `way` at `now`.
    pub(crate) fn judge(
        &mut self,
        now: Timestamp,
        way: Way,
        (number, length): (u64, usize),
    ) -> Verdict {
        let Self { list, random, seed } = self;
        let mut verdict = Verdict::default();
        for one in list {
            let Some(start) = one.start.filter(|start| *start <= now) else { continue };
            match one.disturbance.effect {
                Effect::Rebind { .. } => {}
                Effect::Silence { way: silent, length } => {
                    let is_silent = silent.is_none_or(|silent| silent == way);
                    verdict.is_lost |= is_silent && now < start + length;
                }
                Effect::One { way: its, fate } if its == way && !one.is_spent => {
                    one.is_spent = true;
                    let mut random = Random::from_number(seed.wrapping_add(number));
                    verdict.suffer(fate, length, &mut random);
                }
                Effect::One { .. } => {}
                Effect::Reorder(Reorder { probability, by }) => {
                    if probability.happens(random) {
                        verdict.hold_back(by);
                    }
                }
            }
        }
        verdict
    }

    /// How many times the NAT has rebound until `now`.
    pub(crate) fn rebinds(&self, now: Timestamp) -> u64 {
        let happened = self.changes().filter(|(start, _)| *start <= now).count();
        u64::try_from(happened).unwrap_or(u64::MAX)
    }

    /// When the NAT rebound, and whether the IP address changed.
    pub(crate) fn changes(&self) -> impl Iterator<Item = (Timestamp, bool)> {
        self.list.iter().filter_map(|one| match one.disturbance.effect {
            Effect::Rebind { address } => Some((one.start?, address)),
            _ => None,
        })
    }
}

impl Verdict {
    fn suffer(&mut self, fate: Fate, length: usize, random: &mut Random) {
        match fate {
            Fate::Lost => self.is_lost = true,
            Fate::Doubled => self.is_doubled = true,
            Fate::Corrupted { within } => self.corruption = Some(change(length, within, random)),
            Fate::Delayed(by) => self.hold_back(by),
        }
    }

    fn hold_back(&mut self, by: Duration) {
        self.held_back = Some(self.held_back.unwrap_or_default().saturating_add(by));
    }
}

#[cfg(test)]
#[path = "disturbance_tests.rs"]
mod tests;
