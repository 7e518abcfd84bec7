use core::time::Duration;

use clearway_units::{Random, Rate, Timestamp};

use crate::direction::Direction;
use crate::inside::{Entry, Inside};
use crate::ways::Ways;
use crate::{
    Conditions, Counters, Datagram, Delivery, Dropped, FlowCounters, FlowDelay, Outcome, Rebind,
    Way,
};

/// A link's whole configuration. The default is a perfect wire in both directions.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LinkConfig {
    /// What happens on the way from the client to the server.
    pub to_server: Conditions,
    /// What happens on the way from the server to the client.
    pub to_client: Conditions,
    /// Flows with longer ways than the others. If one is named twice, the first counts.
    pub flows: Vec<FlowDelay>,
    /// When the client's NAT mapping changes; `None`: never.
    pub rebind: Option<Rebind>,
    /// Decides everything that is random.
    pub seed: u64,
    /// Whether drops after entry are kept for [`Link::next_drop`].
    pub record_drops: bool,
}

/// A wire between a client and a server that does to datagrams what a network does.
///
/// Hand datagrams in with [`submit`](Self::submit), sleep until [`deadline`](Self::deadline), take
/// datagrams out with [`poll`](Self::poll) until it has none. Nothing enters in the past: a datagram
/// that is submitted for an earlier time than one given before enters at that one.
///
/// What comes out, and when, does not depend on how often and how late the link is polled, as long as
/// it never holds [`PIPE_LIMIT`](crate::PIPE_LIMIT).
#[derive(Debug)]
pub struct Link {
    directions: Ways<Direction>,
    inside: Inside,
    rebind: Option<Rebind>,
    now: Timestamp,
    /// When the first datagram entered.
    first: Option<Timestamp>,
    /// How many have entered.
    entered: u64,
}

impl Link {
    /// A link on which nothing has happened yet.
    pub fn new(config: LinkConfig) -> Self {
        let mut random = Random::from_number(config.seed);
        let sources = [random.fork(), random.fork()];
        // What is drawn for times has sources of its own, so that the others draw what they drew.
        let schedules = [random.fork(), random.fork()];
        let delays = |delay: fn(&FlowDelay) -> Duration| {
            config.flows.iter().map(|flow| (flow.flow, delay(flow))).collect()
        };
        let [to_server, to_client] = sources;
        let [to_server, to_client] = [
            (config.to_server, delays(|flow| flow.to_server), to_server),
            (config.to_client, delays(|flow| flow.to_client), to_client),
        ];
        let [schedule_to_server, schedule_to_client] = schedules;
        let direction = |way, (conditions, delays, random), schedules| {
            Direction::new(way, conditions, delays, (random, schedules))
        };
        Self {
            directions: Ways {
                to_server: direction(Way::ToServer, to_server, schedule_to_server),
                to_client: direction(Way::ToClient, to_client, schedule_to_client),
            },
            inside: Inside::new(config.record_drops),
            rebind: config.rebind,
            now: Timestamp::ORIGIN,
            first: None,
            entered: 0,
        }
    }

    /// A datagram enters at `now`. One to the client is addressed to the current NAT mapping; see
    /// [`submit_to_client`](Self::submit_to_client) for another one.
    pub fn submit(&mut self, now: Timestamp, way: Way, datagram: Datagram) -> Outcome {
        let now = self.now.max(now);
        self.first.get_or_insert(now);
        self.enter(now, way, self.binding(now), datagram)
    }

    /// A datagram enters at `now` on its way to the client, addressed to the NAT mapping `binding`.
    pub fn submit_to_client(
        &mut self,
        now: Timestamp,
        binding: u64,
        datagram: Datagram,
    ) -> Outcome {
        self.enter(self.now.max(now), Way::ToClient, binding, datagram)
    }

    /// The generation of the NAT mapping at `now`: zero at first, one more with each change.
    pub fn binding(&self, now: Timestamp) -> u64 {
        match (&self.rebind, self.first) {
            (Some(rebind), Some(first)) => rebind.generation(first, now),
            _ => 0,
        }
    }

    /// When to poll next; `None` while nothing will ever come out. Nothing comes out before; mostly
    /// something comes out then.
    pub fn deadline(&self) -> Option<Timestamp> {
        let Ways { to_server, to_client } = &self.directions;
        let deadline = to_server.deadline().min(to_client.deadline());
        (deadline < Timestamp::FAR_FUTURE).then_some(deadline)
    }

    /// The next datagram that is due out at `now`, in the order of their times; `None` if there is no
    /// more.
    pub fn poll(&mut self, now: Timestamp) -> Option<Delivery> {
        self.now = self.now.max(now);
        let first = self.first?;
        let Ways { to_server, to_client } = &mut self.directions;
        to_server.settle(self.now, first, &mut self.inside);
        to_client.settle(self.now, first, &mut self.inside);
        loop {
            let Ways { to_server, to_client } = &mut self.directions;
            let is_to_server = to_server.next() <= to_client.next();
            let direction = if is_to_server { to_server } else { to_client };
            let at = direction.next().at;
            if at > now || at == Timestamp::FAR_FUTURE {
                return None;
            }
            let binding = self.rebind.map_or(0, |rebind| rebind.generation(first, at));
            let delivery = direction.step(binding, &mut self.inside);
            if delivery.is_some() {
                return delivery;
            }
        }
    }

    /// The next datagram that was dropped after it had entered, in the order in which the link found
    /// out: poll first. Always `None` without [`LinkConfig::record_drops`].
    pub fn next_drop(&mut self) -> Option<Dropped> {
        self.inside.drops.as_mut()?.pop_front()
    }

    /// What the link has done so far.
    pub const fn counters(&self) -> &Counters {
        &self.inside.counters
    }

    /// What the link has done with one flow; `None` if none of its datagrams entered.
    pub fn flow(&self, way: Way, flow: u32) -> Option<&FlowCounters> {
        self.directions.of(way).flows.get(flow)
    }

    /// What the link has done with each flow that it knows, in the order of their numbers.
    pub fn flows(&self, way: Way) -> impl Iterator<Item = (u32, &FlowCounters)> {
        self.directions.of(way).flows.iter()
    }

    /// How many bytes waited for the bottleneck at the time of the last call that gave one, overhead
    /// included, without the datagram on the wire.
    pub fn queue_bytes(&self, way: Way) -> u64 {
        self.directions.of(way).waiting().1
    }

    /// How many datagrams waited for the bottleneck then.
    pub fn queue_packets(&self, way: Way) -> usize {
        self.directions.of(way).waiting().0
    }

    /// How long a datagram of `flow` travels that leaves the bottleneck at `at`: the delay of that time
    /// and the flow's own, without jitter and without what only holds datagrams up.
    pub fn base_delay(&self, way: Way, flow: u32, at: Timestamp) -> Duration {
        self.directions.of(way).base_delay(self.first.unwrap_or(at), flow, at)
    }

    /// The rate of the bottleneck at `at`; of a trace, its mean. `None` if it takes no time.
    pub fn rate(&self, way: Way, at: Timestamp) -> Option<Rate> {
        self.directions.of(way).rate(self.first.unwrap_or(at), at)
    }

    /// An empty buffer for a payload: one that was recycled, if there is any.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.inside.buffer()
    }

    /// Gives back a payload's buffer, for [`buffer`](Self::buffer) and for copies. Those of dropped
    /// datagrams come back by themselves.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        self.inside.recycle(buffer);
    }

    fn enter(&mut self, now: Timestamp, way: Way, binding: u64, datagram: Datagram) -> Outcome {
        self.now = now;
        let first = *self.first.get_or_insert(now);
        let number = self.entered;
        self.entered = number.saturating_add(1);
        let direction = self.directions.of_mut(way);
        direction.settle(now, first, &mut self.inside);
        let entry = Entry { number, binding, datagram };
        if let Err(reason) = direction.enter((now, first), entry, &mut self.inside) {
            return Outcome::Dropped { number, reason };
        }
        let passed = direction.passed_bytes();
        self.directions.to_server.on_passed(now, way, passed);
        self.directions.to_client.on_passed(now, way, passed);
        Outcome::Entered { number }
    }
}

#[cfg(test)]
mod features;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod strategies;
#[cfg(test)]
mod tests;
