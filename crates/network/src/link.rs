use core::time::Duration;

use clearway_units::{Random, Rate, Timestamp};

use crate::direction::Direction;
use crate::disturbance::Disturbances;
use crate::inside::{EnteringDatagram, Inside};
use crate::ways::Ways;
use crate::{
    Conditions, Counters, Datagram, Delivery, Disturbance, Dropped, FlowCounters, FlowDelay,
    Outcome, Rebind, Way,
};

/// A link's whole configuration. The default is a perfect wire in both directions.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LinkConfig {
    /// The conditions from the client to the server.
    pub to_server: Conditions,
    /// The conditions from the server to the client.
    pub to_client: Conditions,
    /// Flows with additional delay. If a flow is listed twice, the first entry counts.
    pub flows: Vec<FlowDelay>,
    /// When the client's NAT mapping changes; `None` for never.
    pub rebind: Option<Rebind>,
    /// Events that happen once.
    pub disturbances: Vec<Disturbance>,
    /// Determines all random values.
    pub seed: u64,
    /// Whether drops after entry are kept for [`Link::next_drop`].
    pub record_drops: bool,
}

/// A wire between a client and a server that treats datagrams as a network does.
///
/// Submit datagrams with [`submit`](Self::submit), sleep until [`deadline`](Self::deadline), take
/// datagrams out with [`poll`](Self::poll) until there are none left. Nothing enters in the past: a
/// datagram submitted with a time before that of a previous call enters at the time of that call.
///
/// What comes out, and when, does not depend on how often and how late the link is polled, as long
/// as it never holds [`PIPE_LIMIT`](crate::PIPE_LIMIT).
#[derive(Debug)]
pub struct Link {
    directions: Ways<Direction>,
    inside: Inside,
    rebind: Option<Rebind>,
    disturbances: Disturbances,
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
        // Times are drawn from sources of their own, so that the other draws stay the same.
        let schedules = [random.fork(), random.fork()];
        let disturbances = Disturbances::new(config.disturbances, random.fork());
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
            disturbances,
            now: Timestamp::ORIGIN,
            first: None,
            entered: 0,
        }
    }

    /// A datagram enters at `now`. One to the client is addressed to the current NAT mapping; for
    /// another mapping, see [`submit_to_client`](Self::submit_to_client).
    pub fn submit(&mut self, now: Timestamp, way: Way, datagram: Datagram) -> Outcome {
        let now = self.begin(now, way);
        self.enter(now, way, self.binding(now), datagram)
    }

    /// A datagram enters at `now` on its way to the client, addressed to the NAT mapping `binding`.
    pub fn submit_to_client(
        &mut self,
        now: Timestamp,
        binding: u64,
        datagram: Datagram,
    ) -> Outcome {
        let now = self.begin(now, Way::ToClient);
        self.enter(now, Way::ToClient, binding, datagram)
    }

    /// The generation of the NAT mapping at `now`: zero at first, incremented with each change.
    pub fn binding(&self, now: Timestamp) -> u64 {
        self.first.map_or(0, |first| self.generation(first, now))
    }

    /// How many times the client's IP address had changed when the NAT made the mapping `binding`.
    pub fn addresses(&self, binding: u64) -> u64 {
        let Some(first) = self.first else { return 0 };
        let regular = |at| self.rebind.map_or(0, |rebind| rebind.generation(first, at));
        // The first change by a disturbance makes the mapping that counts it and all earlier changes.
        let disturbed = (1..).zip(self.disturbances.changes());
        let made =
            disturbed.filter(|(count, (at, _))| regular(*at).saturating_add(*count) <= binding);
        let (changes, addresses) =
            made.fold((0_u64, 0_u64), |(changes, addresses), (_, (_, address))| {
                (changes.saturating_add(1), addresses.saturating_add(address.into()))
            });
        let is_regular = self.rebind.is_some_and(|rebind| rebind.address);
        let others = if is_regular { binding.saturating_sub(changes) } else { 0 };
        addresses.saturating_add(others)
    }

    /// When the first datagram entered; `None` if none has.
    pub const fn first_entry(&self) -> Option<Timestamp> {
        self.first
    }

    /// When to poll next; `None` if nothing will ever come out. Nothing comes out before this time;
    /// usually something comes out at it.
    pub fn deadline(&self) -> Option<Timestamp> {
        let Ways { to_server, to_client } = &self.directions;
        let deadline = to_server.deadline().min(to_client.deadline());
        (deadline < Timestamp::FAR_FUTURE).then_some(deadline)
    }

    /// The next datagram that is due at `now`, in the order of the due times; `None` if there are no more.
    pub fn poll(&mut self, now: Timestamp) -> Option<Delivery> {
        self.now = self.now.max(now);
        let first = self.first?;
        let Ways { to_server, to_client } = &mut self.directions;
        to_server.settle(self.now, first, &mut self.inside);
        to_client.settle(self.now, first, &mut self.inside);
        loop {
            let Ways { to_server, to_client } = &self.directions;
            let is_to_server = to_server.next() <= to_client.next();
            let way = if is_to_server { Way::ToServer } else { Way::ToClient };
            let at = self.directions.of(way).next().at;
            if at > now || at == Timestamp::FAR_FUTURE {
                return None;
            }
            let binding = self.generation(first, at);
            let delivery = self.directions.of_mut(way).step(binding, &mut self.inside);
            if delivery.is_some() {
                return delivery;
            }
        }
    }

    /// The next datagram that was dropped after it had entered, in the order in which the link
    /// processed the drops: poll first. Always `None` without [`LinkConfig::record_drops`].
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

    /// What the link has done with each known flow, in the order of their numbers.
    pub fn flows(&self, way: Way) -> impl Iterator<Item = (u32, &FlowCounters)> {
        self.directions.of(way).flows.iter()
    }

    /// How many bytes waited for the bottleneck at the latest time passed to the link, overhead
    /// included, without the datagram on the wire.
    pub fn queue_bytes(&self, way: Way) -> u64 {
        self.directions.of(way).waiting().1
    }

    /// How many datagrams waited for the bottleneck at that time.
    pub fn queue_packets(&self, way: Way) -> usize {
        self.directions.of(way).waiting().0
    }

    /// The travel time of a datagram of `flow` that leaves the bottleneck at `at`: the delay at
    /// that time plus the flow's own, without jitter and without anything that holds datagrams back.
    pub fn base_delay(&self, way: Way, flow: u32, at: Timestamp) -> Duration {
        self.directions.of(way).base_delay(self.first.unwrap_or(at), flow, at)
    }

    /// The rate of the bottleneck at `at`; for a trace, its mean. `None` if the bottleneck takes no time.
    pub fn rate(&self, way: Way, at: Timestamp) -> Option<Rate> {
        self.directions.of(way).rate(self.first.unwrap_or(at), at)
    }

    /// An empty buffer for a payload, recycled if one is available.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.inside.buffer()
    }

    /// Returns a payload's buffer, for reuse by [`buffer`](Self::buffer) and for copies. Buffers of
    /// dropped datagrams are recycled automatically.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        self.inside.recycle(buffer);
    }

    /// The generation of the NAT mapping at `at`, if the first datagram entered at `first`.
    fn generation(&self, first: Timestamp, at: Timestamp) -> u64 {
        let regular = self.rebind.map_or(0, |rebind| rebind.generation(first, at));
        regular.saturating_add(self.disturbances.rebinds(at))
    }

    /// A datagram is about to enter at `now`, or at the link's present time if that is later;
    /// returns that time.
    fn begin(&mut self, now: Timestamp, way: Way) -> Timestamp {
        let now = self.now.max(now);
        let first = *self.first.get_or_insert(now);
        let number = self.directions.of(way).entered().saturating_add(1);
        self.disturbances.on_entry((now, first), way, number);
        now
    }

    fn enter(&mut self, now: Timestamp, way: Way, binding: u64, datagram: Datagram) -> Outcome {
        self.now = now;
        let first = *self.first.get_or_insert(now);
        let number = self.entered;
        self.entered = number.saturating_add(1);
        let direction = self.directions.of_mut(way);
        direction.settle(now, first, &mut self.inside);
        let place = (direction.entered().saturating_add(1), datagram.payload.len());
        let effects = self.disturbances.judge(now, way, place);
        let entry = EnteringDatagram { number, binding, datagram };
        if let Err(reason) = direction.enter((now, first), entry, effects, &mut self.inside) {
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
#[path = "link_tests.rs"]
mod tests;
