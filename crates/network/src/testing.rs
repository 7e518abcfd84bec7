//! Helpers for the tests of several modules.

use core::time::Duration;

use clearway_units::Timestamp;

use crate::{Conditions, Datagram, Delivery, Ecn, Link, LinkConfig, Probability, Way};

pub(crate) fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

pub(crate) fn at_ms(milliseconds: u64) -> Timestamp {
    Timestamp::from_origin(ms(milliseconds))
}

pub(crate) fn likely(value: f64) -> Probability {
    Probability::new(value).unwrap()
}

/// Returns a datagram of `length` bytes whose flow is `flow`.
pub(crate) fn datagram(flow: u32, length: usize) -> Datagram {
    Datagram { payload: vec![0; length], ecn: Ecn::Ect0, flow }
}

/// Creates a link with the given conditions towards the client and a perfect wire back.
pub(crate) fn link_to_client(to_client: Conditions) -> Link {
    Link::new(LinkConfig { to_client, seed: 1, ..LinkConfig::default() })
}

/// Returns all deliveries when the link is polled at each deadline.
///
/// Asserts that each delivery occurs exactly at its deadline, which is the case if all delays are
/// exact.
pub(crate) fn drain(link: &mut Link) -> Vec<Delivery> {
    let mut deliveries = Vec::new();
    while let Some(at) = link.deadline() {
        while let Some(delivery) = link.poll(at) {
            assert_eq!(delivery.at, at, "delivered at a time other than the deadline");
            deliveries.push(delivery);
        }
    }
    deliveries
}

/// Sends `count` datagrams of `length` bytes to the client, `interval` apart, with ascending flow
/// numbers from zero, and returns the deliveries.
pub(crate) fn stream(
    link: &mut Link,
    count: u32,
    length: usize,
    interval: Duration,
) -> Vec<Delivery> {
    for flow in 0..count {
        let now = Timestamp::from_origin(interval * flow);
        link.submit(now, Way::ToClient, datagram(flow, length));
    }
    drain(link)
}

/// Returns for each of `count` datagrams, one per millisecond, whether it passed.
pub(crate) fn passes(link: &mut Link, way: Way, count: u32) -> Vec<bool> {
    (0..count)
        .map(|flow| link.submit(at_ms(flow.into()), way, datagram(flow, 100)).has_entered())
        .collect()
}

pub(crate) fn flows(deliveries: &[Delivery]) -> Vec<u32> {
    deliveries.iter().map(|delivery| delivery.datagram.flow).collect()
}
