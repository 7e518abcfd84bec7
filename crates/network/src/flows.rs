use core::time::Duration;
use std::collections::BTreeMap;

use crate::counters::increment;

/// Additional delay of one flow, such as a longer path to its server. It applies after the
/// bottleneck, which all flows share.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlowDelay {
    /// The flow, as in [`Datagram::flow`](crate::Datagram::flow).
    pub flow: u32,
    /// The additional delay in the direction to the server.
    pub to_server: Duration,
    /// The additional delay in the direction to the client.
    pub to_client: Duration,
}

/// The counters of one flow in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlowCounters {
    /// Datagrams submitted to the link.
    pub received: u64,
    /// Payload bytes submitted to the link.
    pub received_bytes: u64,
    /// Datagrams that the link delivered, duplicates included.
    pub delivered: u64,
    /// Payload bytes that the link delivered.
    pub delivered_bytes: u64,
    /// Datagrams dropped, for any reason.
    pub dropped: u64,
    /// Datagrams that left the bottleneck for delivery; only these count for the queueing delays.
    pub queued: u64,
    /// The maximum queueing delay of datagrams at the bottleneck.
    pub queueing_delay_maximum: Duration,
    /// The sum of the datagrams' queueing delays at the bottleneck.
    pub queueing_delay_total: Duration,
}

impl FlowCounters {
    /// Returns the mean queueing delay at the bottleneck; `None` before the first datagram.
    pub fn queueing_delay_mean(&self) -> Option<Duration> {
        let mean = self.queueing_delay_total.as_nanos().checked_div(u128::from(self.queued))?;
        Some(Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX)))
    }

    pub(crate) fn on_queued(&mut self, waited: Duration) {
        increment(&mut self.queued);
        self.queueing_delay_maximum = self.queueing_delay_maximum.max(waited);
        self.queueing_delay_total = self.queueing_delay_total.saturating_add(waited);
    }
}

/// The maximum number of flows for which a direction keeps counters. Additional flows are counted
/// only in the direction's own counters.
pub const FLOW_LIMIT: usize = 65_536;

/// The flows of one direction.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    places: BTreeMap<u32, usize>,
    counters: Vec<FlowCounters>,
    /// The flow that was looked up last: the next lookup is usually for the same flow.
    last: Option<(u32, usize)>,
}

impl Flows {
    /// Returns the index of the flow's counters, or an invalid index if there are too many flows.
    pub(crate) fn place(&mut self, flow: u32) -> usize {
        if let Some((last, place)) = self.last
            && last == flow
        {
            return place;
        }
        let next = self.counters.len();
        let place = match self.places.get(&flow) {
            Some(place) => *place,
            None if next >= FLOW_LIMIT => return usize::MAX,
            None => {
                self.places.insert(flow, next);
                self.counters.push(FlowCounters::default());
                next
            }
        };
        self.last = Some((flow, place));
        place
    }

    pub(crate) fn at(&mut self, place: usize) -> Option<&mut FlowCounters> {
        self.counters.get_mut(place)
    }

    pub(crate) fn get(&self, flow: u32) -> Option<&FlowCounters> {
        self.counters.get(*self.places.get(&flow)?)
    }

    /// Returns the flows' counters, ordered by flow number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &FlowCounters)> {
        self.places.iter().filter_map(|(flow, place)| Some((*flow, self.counters.get(*place)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flow_has_its_place() {
        let mut flows = Flows::default();
        for flow in [9, 2, 9, 9, 7, 2] {
            let place = flows.place(flow);
            increment(&mut flows.at(place).unwrap().received);
        }
        let received: Vec<_> = flows.iter().map(|(flow, one)| (flow, one.received)).collect();
        assert_eq!(received, [(2, 2), (7, 1), (9, 3)]);
        assert_eq!(flows.get(7).map(|one| one.received), Some(1));
        assert_eq!(flows.get(8), None);
    }

    #[test]
    fn too_many_flows_have_no_place() {
        let mut flows = Flows::default();
        for flow in 0..u32::try_from(FLOW_LIMIT).unwrap() {
            flows.place(flow);
        }
        let place = flows.place(u32::MAX);
        assert!(flows.at(place).is_none());
        assert_eq!(flows.iter().count(), FLOW_LIMIT);
        assert!(flows.place(5) == 5);
    }

    #[test]
    fn the_mean_needs_a_datagram() {
        let mut counters = FlowCounters::default();
        assert_eq!(counters.queueing_delay_mean(), None);
        counters.on_queued(Duration::from_millis(1));
        counters.on_queued(Duration::from_millis(4));
        assert_eq!(counters.queueing_delay_mean(), Some(Duration::from_micros(2500)));
        assert_eq!(counters.queueing_delay_maximum, Duration::from_millis(4));
    }
}
