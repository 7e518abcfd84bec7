use core::cmp::Ordering;
use std::collections::BinaryHeap;

use clearway_units::{Random, Timestamp};

use crate::counters::increment;
use crate::direction::{Direction, Passing};
use crate::{Conditions, Counters, Datagram, Delivery, DropReason, Outcome, Rebind, Way};

/// A link's whole configuration. The default is a perfect wire in both directions.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LinkConfig {
    /// What happens on the way from the client to the server.
    pub to_server: Conditions,
    /// What happens on the way from the server to the client.
    pub to_client: Conditions,
    /// When the client's NAT mapping changes; `None`: never.
    pub rebind: Option<Rebind>,
    /// Decides everything that is random.
    pub seed: u64,
}

/// A wire between a client and a server that does to datagrams what a network does.
///
/// Hand datagrams in with [`submit`](Self::submit), sleep until [`deadline`](Self::deadline), take
/// datagrams out with [`poll`](Self::poll) until it has none. Nothing enters in the past: a datagram
/// that is submitted for an earlier time than one given before enters at that one.
///
/// Rules that begin or end at some time need no deadline: they act on datagrams, not on the clock.
#[derive(Debug)]
pub struct Link {
    to_server: Direction,
    to_client: Direction,
    rebind: Option<Rebind>,
    counters: Counters,
    now: Timestamp,
    /// When the first datagram entered.
    first: Option<Timestamp>,
    pipe: BinaryHeap<Scheduled>,
    scheduled: u64,
}

impl Link {
    /// A link on which nothing has happened yet.
    pub fn new(config: LinkConfig) -> Self {
        let mut random = Random::from_number(config.seed);
        Self {
            to_server: Direction::new(config.to_server, random.fork()),
            to_client: Direction::new(config.to_client, random.fork()),
            rebind: config.rebind,
            counters: Counters::default(),
            now: Timestamp::ORIGIN,
            first: None,
            pipe: BinaryHeap::new(),
            scheduled: 0,
        }
    }

    /// A datagram enters at `now`. One to the client is addressed to the current NAT mapping; see
    /// [`submit_to_client`](Self::submit_to_client) for another one.
    pub fn submit(&mut self, now: Timestamp, way: Way, datagram: Datagram) -> Outcome {
        self.advance(now);
        let binding = self.binding(self.now);
        self.enter(way, binding, datagram)
    }

    /// A datagram enters at `now` on its way to the client, addressed to the NAT mapping `binding`.
    pub fn submit_to_client(
        &mut self,
        now: Timestamp,
        binding: u64,
        datagram: Datagram,
    ) -> Outcome {
        self.advance(now);
        self.enter(Way::ToClient, binding, datagram)
    }

    /// The generation of the NAT mapping at `now`: zero at first, one more with each change.
    pub fn binding(&self, now: Timestamp) -> u64 {
        match (&self.rebind, self.first) {
            (Some(rebind), Some(first)) => rebind.generation(first, now),
            _ => 0,
        }
    }

    /// When the next datagram is due out; `None` while none is.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.pipe.peek().map(|next| next.at).filter(|at| *at < Timestamp::FAR_FUTURE)
    }

    /// The next datagram that is due out at `now`, in the order of their times; `None` if there is no
    /// more.
    pub fn poll(&mut self, now: Timestamp) -> Option<Delivery> {
        self.now = self.now.max(now);
        while self.deadline().is_some_and(|at| at <= now) {
            let Scheduled { at, number, way, binding, datagram, .. } = self.pipe.pop()?;
            let length = datagram.payload.len();
            let is_old = way == Way::ToClient && binding != self.binding(at);
            let direction = match way {
                Way::ToServer => &mut self.to_server,
                Way::ToClient => &mut self.to_client,
            };
            let counters = self.counters.of_mut(way);
            direction.release(length);
            counters.in_pipe = counters.in_pipe.saturating_sub(1);
            if is_old {
                counters.count_drop(DropReason::OldBinding);
                continue;
            }
            if direction.on_delivered(number) {
                increment(&mut counters.reordered);
            }
            increment(&mut counters.delivered);
            add_bytes(&mut counters.delivered_bytes, length);
            return Some(Delivery { way, datagram, at, binding });
        }
        None
    }

    /// What the link has done so far.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// A datagram enters at `now`.
    fn advance(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        self.first.get_or_insert(self.now);
    }

    fn enter(&mut self, way: Way, binding: u64, datagram: Datagram) -> Outcome {
        let now = self.now;
        let first = self.first.unwrap_or(now);
        let counters = self.counters.of_mut(way);
        increment(&mut counters.received);
        add_bytes(&mut counters.received_bytes, datagram.payload.len());
        let direction = match way {
            Way::ToServer => &mut self.to_server,
            Way::ToClient => &mut self.to_client,
        };
        let Passing { datagram, at, number, copy } =
            match direction.enter(now, first, datagram, counters) {
                Ok(passing) => passing,
                Err(reason) => {
                    counters.count_drop(reason);
                    return Outcome::Dropped(reason);
                }
            };
        let passed = direction.passed_bytes();
        self.to_server.on_passed(now, way, passed);
        self.to_client.on_passed(now, way, passed);
        for datagram in core::iter::once(datagram).chain(copy) {
            increment(&mut self.counters.of_mut(way).in_pipe);
            increment(&mut self.scheduled);
            let order = self.scheduled;
            self.pipe.push(Scheduled { at, order, number, way, binding, datagram });
        }
        Outcome::Passes(at)
    }
}

fn add_bytes(counter: &mut u64, length: usize) {
    *counter = counter.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
}

/// A datagram under way.
#[derive(Debug)]
struct Scheduled {
    at: Timestamp,
    /// Among those of one time, the first in is the first out.
    order: u64,
    number: u64,
    way: Way,
    binding: u64,
    datagram: Datagram,
}

impl Scheduled {
    const fn key(&self) -> (Timestamp, u64) {
        (self.at, self.order)
    }
}

impl Ord for Scheduled {
    /// The heap gives out the greatest: the one that is due first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Scheduled {}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
