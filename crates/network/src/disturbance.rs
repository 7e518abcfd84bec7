//! One-time events on a link, at points chosen in advance.

use core::time::Duration;

use clearway_units::{Random, Timestamp};

use crate::corruption::{BitChange, change};
use crate::{Reorder, Way};

/// A one-time event on a link, in addition to the permanent effects of its
/// [`Conditions`](crate::Conditions).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Disturbance {
    /// The point at which the event happens.
    pub moment: Moment,
    /// The effect of the event.
    pub effect: Effect,
}

/// A point in the lifetime of a link: a datagram or a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moment {
    /// The entry of a given datagram, the first one to be affected.
    Datagram {
        /// The datagram's direction.
        way: Way,
        /// The datagram's position among the datagrams of its direction, counted from one.
        number: u64,
    },
    /// This time after the first datagram in either direction.
    After(Duration),
}

/// The effect of a [`Disturbance`]. Datagrams already inside the link are not affected, unless they
/// are addressed to an old NAT mapping.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum Effect {
    /// The NAT in front of the client makes a new mapping, as with [`Rebind`](crate::Rebind).
    Rebind {
        /// Whether the client's IP address changes with its port.
        address: bool,
    },
    /// Datagrams that enter are dropped for some time.
    Silence {
        /// The affected direction; `None` for both.
        way: Option<Way>,
        /// The duration of the loss.
        length: Duration,
    },
    /// The next datagram that enters in a direction is lost, duplicated, corrupted or delayed.
    One {
        /// The affected direction.
        way: Way,
        /// The fate of the datagram.
        fate: Fate,
    },
    /// Datagrams in both directions may be delayed from then on, so that later ones overtake them.
    Reorder(Reorder),
}

/// The fate of a single datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// The datagram is lost.
    Lost,
    /// The datagram arrives twice.
    Doubled,
    /// The datagram arrives with one byte changed.
    Corrupted {
        /// Number of bytes at the start among which the changed byte is chosen; `None` for any
        /// byte.
        within: Option<usize>,
    },
    /// The datagram arrives this much later, after datagrams that entered later.
    Delayed(Duration),
}

/// The combined effect of all disturbances on a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct DatagramEffects {
    pub(crate) is_lost: bool,
    pub(crate) is_doubled: bool,
    pub(crate) corruption: Option<BitChange>,
    pub(crate) held_back: Option<Duration>,
}

/// The disturbances of a link.
#[derive(Debug)]
pub(crate) struct Disturbances {
    list: Vec<Pending>,
    /// The source of the random values drawn for each datagram.
    random: Random,
    /// The seed from which the random values for a datagram are derived, together with the
    /// datagram's position.
    seed: u64,
}

#[derive(Debug)]
struct Pending {
    disturbance: Disturbance,
    /// The time of the disturbance; unknown until the datagram that triggers it enters.
    start: Option<Timestamp>,
    /// Whether the affected datagram has entered.
    is_spent: bool,
}

impl Disturbances {
    pub(crate) fn new(list: Vec<Disturbance>, mut random: Random) -> Self {
        let pending = |disturbance| Pending { disturbance, start: None, is_spent: false };
        let seed = random.number();
        Self { list: list.into_iter().map(pending).collect(), random, seed }
    }

    /// Starts disturbances that are due as datagram `number` of the direction `way` enters at
    /// `now`; the link's first datagram entered at `first`.
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

    /// Returns the effect on datagram `number` of `length` bytes that enters in the direction `way`
    /// at `now`.
    pub(crate) fn judge(
        &mut self,
        now: Timestamp,
        way: Way,
        (number, length): (u64, usize),
    ) -> DatagramEffects {
        let Self { list, random, seed } = self;
        let mut effects = DatagramEffects::default();
        for one in list {
            let Some(start) = one.start.filter(|start| *start <= now) else { continue };
            match one.disturbance.effect {
                Effect::Rebind { .. } => {}
                Effect::Silence { way: silent, length } => {
                    let is_silent = silent.is_none_or(|silent| silent == way);
                    effects.is_lost |= is_silent && now < start + length;
                }
                Effect::One { way: its, fate } if its == way && !one.is_spent => {
                    one.is_spent = true;
                    let mut random = Random::from_number(seed.wrapping_add(number));
                    effects.suffer(fate, length, &mut random);
                }
                Effect::One { .. } => {}
                Effect::Reorder(Reorder { probability, by }) => {
                    if probability.happens(random) {
                        effects.hold_back(by);
                    }
                }
            }
        }
        effects
    }

    /// Returns how many mappings the NAT has discarded because of disturbances up to `now`.
    pub(crate) fn rebinds(&self, now: Timestamp) -> u64 {
        let happened = self.changes().filter(|(start, _)| *start <= now).count();
        u64::try_from(happened).unwrap_or(u64::MAX)
    }

    /// Returns the times at which mappings were discarded, and whether the IP address changed.
    pub(crate) fn changes(&self) -> impl Iterator<Item = (Timestamp, bool)> {
        self.list.iter().filter_map(|one| match one.disturbance.effect {
            Effect::Rebind { address } => Some((one.start?, address)),
            _ => None,
        })
    }
}

impl DatagramEffects {
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
