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

/// The complete configuration of a link. The default is a perfect wire in both directions.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LinkConfig {
    /// The conditions from the client to the server.
    pub to_server: Conditions,
    /// The conditions from the server to the client.
    pub to_client: Conditions,
    /// Flows with additional delay. If a flow is listed twice, the first entry applies.
    pub flows: Vec<FlowDelay>,
    /// Changes to the client's NAT mapping; `None` if it never changes.
    pub rebind: Option<Rebind>,
    /// One-time events on the link.
    pub disturbances: Vec<Disturbance>,
    /// The seed of all random values.
    pub seed: u64,
    /// Whether drops after entry are recorded for [`Link::next_drop`].
    pub record_drops: bool,
}

/// A simulated network path between a client and a server.
///
/// Submit datagrams with [`submit`](Self::submit), sleep until [`deadline`](Self::deadline), and
/// take datagrams out with [`poll`](Self::poll) until there are none left. Time never runs
/// backwards: a datagram submitted with a time before that of an earlier call enters at the time of
/// that call.
///
/// Deliveries and their times do not depend on how often and how late the link is polled, as long
/// as the link never reaches [`PIPE_LIMIT`](crate::PIPE_LIMIT).
#[derive(Debug)]
pub struct Link {
    directions: Ways<Direction>,
    inside: Inside,
    rebind: Option<Rebind>,
    disturbances: Disturbances,
    now: Timestamp,
    /// The time at which the first datagram entered.
    first: Option<Timestamp>,
    /// The number of datagrams that have entered.
    entered: u64,
}

impl Link {
    /// Creates a link without traffic.
    pub fn new(config: LinkConfig) -> Self {
        let mut random = Random::from_number(config.seed);
        let sources = [random.fork(), random.fork()];
        // Random times have their own random sources, so that other draws remain the same.
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

    /// Submits a datagram at `now`. A datagram to the client is addressed to the current NAT
    /// mapping; for another mapping, see [`submit_to_client`](Self::submit_to_client).
    pub fn submit(&mut self, now: Timestamp, way: Way, datagram: Datagram) -> Outcome {
        let now = self.begin(now, way);
        self.enter(now, way, self.binding(now), datagram)
    }

    /// Submits a datagram to the client at `now`, addressed to the NAT mapping `binding`.
    pub fn submit_to_client(
        &mut self,
        now: Timestamp,
        binding: u64,
        datagram: Datagram,
    ) -> Outcome {
        let now = self.begin(now, Way::ToClient);
        self.enter(now, Way::ToClient, binding, datagram)
    }

    /// Returns the generation of the NAT mapping at `now`: zero at first, incremented with each
    /// change.
    pub fn binding(&self, now: Timestamp) -> u64 {
        self.first.map_or(0, |first| self.generation(first, now))
    }

    /// Returns how many times the client's IP address had changed by the time that the NAT created
    /// the mapping `binding`.
    pub fn addresses(&self, binding: u64) -> u64 {
        let Some(first) = self.first else { return 0 };
        let regular = |at| self.rebind.map_or(0, |rebind| rebind.generation(first, at));
        // The first change by a disturbance creates the mapping that counts it and all earlier
        // changes.
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

    /// Returns the time at which the first datagram entered; `None` if none has entered.
    pub const fn first_entry(&self) -> Option<Timestamp> {
        self.first
    }

    /// Returns the time at which to poll next; `None` if no datagram will be delivered unless
    /// another one is submitted. No datagram is delivered before this time, and usually one is
    /// delivered exactly then.
    pub fn deadline(&self) -> Option<Timestamp> {
        let Ways { to_server, to_client } = &self.directions;
        let deadline = to_server.deadline().min(to_client.deadline());
        (deadline < Timestamp::FAR_FUTURE).then_some(deadline)
    }

    /// Returns the next datagram that is due at `now`, in order of the due times; `None` if there
    /// are no more.
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

    /// Returns the next datagram that was dropped after it had entered, in the order in which the
    /// link processed the drops: poll first. Always `None` without [`LinkConfig::record_drops`].
    pub fn next_drop(&mut self) -> Option<Dropped> {
        self.inside.drops.as_mut()?.pop_front()
    }

    /// Returns the link's counters.
    pub const fn counters(&self) -> &Counters {
        &self.inside.counters
    }

    /// Returns the counters of one flow; `None` if none of its datagrams entered.
    pub fn flow(&self, way: Way, flow: u32) -> Option<&FlowCounters> {
        self.directions.of(way).flows.get(flow)
    }

    /// Returns the counters of each flow, in order of the flow numbers.
    pub fn flows(&self, way: Way) -> impl Iterator<Item = (u32, &FlowCounters)> {
        self.directions.of(way).flows.iter()
    }

    /// Returns how many bytes were waiting for the bottleneck at the latest time passed to the
    /// link, including overhead but excluding the datagram on the wire.
    pub fn queue_bytes(&self, way: Way) -> u64 {
        self.directions.of(way).waiting().1
    }

    /// Returns how many datagrams were waiting for the bottleneck at the latest time passed to the
    /// link.
    pub fn queue_packets(&self, way: Way) -> usize {
        self.directions.of(way).waiting().0
    }

    /// Returns the travel time of a datagram of `flow` that leaves the bottleneck at `at`: the
    /// delay at that time plus the flow's additional delay, without jitter, reordering, freezes and
    /// ticks.
    pub fn base_delay(&self, way: Way, flow: u32, at: Timestamp) -> Duration {
        self.directions.of(way).base_delay(self.first.unwrap_or(at), flow, at)
    }

    /// Returns the bottleneck's rate at `at`; for a trace, returns the mean rate. `None` if
    /// transmission takes no time.
    pub fn rate(&self, way: Way, at: Timestamp) -> Option<Rate> {
        self.directions.of(way).rate(self.first.unwrap_or(at), at)
    }

    /// Returns an empty payload buffer, recycled if one is available.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.inside.buffer()
    }

    /// Recycles a payload buffer for [`buffer`](Self::buffer) and for copies. Buffers of dropped
    /// datagrams are recycled automatically.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        self.inside.recycle(buffer);
    }

    /// Returns the generation of the NAT mapping at `at`, given that the first datagram entered at
    /// `first`.
    fn generation(&self, first: Timestamp, at: Timestamp) -> u64 {
        let regular = self.rebind.map_or(0, |rebind| rebind.generation(first, at));
        regular.saturating_add(self.disturbances.rebinds(at))
    }

    /// Prepares for a datagram that enters at `now`, or at the link's current time if that is
    /// later; returns that time.
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
