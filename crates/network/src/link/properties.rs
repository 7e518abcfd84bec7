//! Tests of properties that hold on every link.

use core::time::Duration;
use std::collections::BTreeMap;

use clearway_units::Rate;
use proptest::collection::vec;
use proptest::prelude::*;

use super::strategies::{conditions, config, way};
use super::*;
use crate::{Discipline, DropReason, Ecn, Reorder};

/// A driver action: how long it waits first, the direction in which it sends, the number of bytes,
/// and whether it polls afterwards.
type Action = (u64, Way, usize, bool);

fn actions() -> impl Strategy<Value = Vec<Action>> {
    vec((0..3_000_000u64, way(), 0..1500usize, any::<bool>()), 1..60)
}

/// Asserts the invariants that hold after each call.
fn check(link: &Link) {
    for way in [Way::ToServer, Way::ToClient] {
        let counters = link.counters().of(way);
        assert_eq!(
            counters.received + counters.duplicated,
            counters.delivered + counters.dropped() + counters.in_pipe,
            "{way:?}: {counters}"
        );
    }
}

/// Everything observable about a link.
#[derive(PartialEq, Debug, Default)]
struct Seen {
    outcomes: Vec<Outcome>,
    deliveries: Vec<Delivery>,
    drops: Vec<Dropped>,
    counters: Counters,
    flows: Vec<(Way, u32, FlowCounters)>,
}

impl Seen {
    fn take(&mut self, link: &mut Link, now: Timestamp) {
        while let Some(delivery) = link.poll(now) {
            assert!(delivery.at <= now && delivery.entered + delivery.queued <= delivery.at);
            self.deliveries.push(delivery);
            check(link);
        }
        self.drops.extend(core::iter::from_fn(|| link.next_drop()));
    }
}

fn run(config: LinkConfig, actions: &[Action], polls_late: bool) -> Seen {
    let mut link = Link::new(config);
    let mut seen = Seen::default();
    let mut now = Timestamp::ORIGIN;
    for (number, (wait, way, length, polls)) in (0u8..).zip(actions) {
        now += Duration::from_nanos(*wait);
        let (payload, ecn, flow) =
            (vec![0; *length], Ecn::from_bits(number / 3), u32::from(number % 5));
        let outcome = link.submit(now, *way, Datagram { payload, ecn, flow });
        assert_eq!(outcome.number(), u64::from(number));
        seen.outcomes.push(outcome);
        check(&link);
        if *polls && !polls_late {
            seen.take(&mut link, now);
        }
    }
    while let Some(at) = link.deadline() {
        seen.take(&mut link, at);
        check(&link);
        assert!(link.deadline().is_none_or(|next| next > at));
    }
    // Datagrams that are never delivered may still be dropped or copied inside the link.
    seen.take(&mut link, Timestamp::from_nanos(u64::MAX - 1));
    check(&link);
    for way in [Way::ToServer, Way::ToClient] {
        seen.flows.extend(link.flows(way).map(|(flow, counters)| (way, flow, *counters)));
    }
    seen.counters = link.counters().clone();
    seen
}

/// Counts how often each datagram was dropped, delivered and copied.
fn ledger(seen: &Seen) -> BTreeMap<u64, (usize, usize, usize)> {
    let mut ledger: BTreeMap<u64, (usize, usize, usize)> = BTreeMap::new();
    for outcome in &seen.outcomes {
        ledger.entry(outcome.number()).or_default().0 += usize::from(!outcome.has_entered());
    }
    let dropped = seen.drops.iter().map(|one| (one.number, one.is_copy, true));
    let delivered = seen.deliveries.iter().map(|one| (one.number, one.is_copy, false));
    for (number, is_copy, is_drop) in dropped.chain(delivered) {
        let entry = ledger.get_mut(&number).unwrap();
        match (is_copy, is_drop) {
            (true, _) => entry.2 += 1,
            (false, true) => entry.0 += 1,
            (false, false) => entry.1 += 1,
        }
    }
    ledger
}

proptest! {
    #[test]
    fn each_datagram_is_delivered_or_dropped_or_inside(config in config(), actions in actions()) {
        let seen = run(config, &actions, false);
        let ledger = ledger(&seen);
        for (dropped, delivered, copies) in ledger.values() {
            prop_assert!(dropped + delivered <= 1 && *copies <= 1);
        }
        for way in [Way::ToServer, Way::ToClient] {
            let counters = seen.counters.of(way);
            let of_way = |number: &u64| actions[usize::try_from(*number).unwrap()].1 == way;
            let inside = ledger.iter().filter(|(number, (dropped, delivered, _))| {
                of_way(number) && dropped + delivered == 0
            });
            let copies = seen.drops.iter().filter(|one| one.way == way && one.is_copy).count()
                + seen.deliveries.iter().filter(|one| one.way == way && one.is_copy).count();
            let copies = u64::try_from(copies).unwrap();
            let inside = u64::try_from(inside.count()).unwrap();
            prop_assert_eq!(counters.in_pipe, inside + counters.duplicated - copies);
            let flows: Vec<_> =
                seen.flows.iter().filter(|flow| flow.0 == way).map(|flow| flow.2).collect();
            let sum = |field: fn(&FlowCounters) -> u64| flows.iter().map(field).sum::<u64>();
            prop_assert_eq!(sum(|flow| flow.received), counters.received);
            prop_assert_eq!(sum(|flow| flow.delivered), counters.delivered);
            prop_assert_eq!(sum(|flow| flow.delivered_bytes), counters.delivered_bytes);
            prop_assert_eq!(sum(|flow| flow.dropped), counters.dropped());
        }
        for one in &seen.drops {
            let is_late = matches!(one.reason, DropReason::QueueManagement
                | DropReason::AckFilter | DropReason::SocketBuffer | DropReason::OldBinding);
            prop_assert!(is_late && one.length == actions[usize::try_from(one.number).unwrap()].2);
        }
    }

    #[test]
    fn the_datagrams_that_come_out_are_those_that_entered(config in config(), actions in actions()) {
        let seen = run(config.clone(), &actions, false);
        prop_assert!(seen.deliveries.is_sorted_by_key(|delivery| delivery.at));
        for delivery in &seen.deliveries {
            let (_, way, length, _) = actions[usize::try_from(delivery.number).unwrap()];
            prop_assert_eq!((delivery.way, delivery.datagram.payload.len()), (way, length));
            let changed = delivery.datagram.payload.iter().filter(|byte| **byte != 0).count();
            prop_assert!(changed <= 1);
        }
        // The actions are run again unchanged, and with a driver that polls late.
        prop_assert_eq!(&run(config.clone(), &actions, false), &seen);
        let late = run(config, &actions, true);
        prop_assert_eq!(late.deliveries, seen.deliveries);
        prop_assert_eq!(late.counters, seen.counters);
    }

    #[test]
    fn order_is_preserved_unless_the_configuration_permits_reordering(
        mut conditions in conditions(),
        actions in actions(),
    ) {
        conditions.jitter.reorder_by_jitter = false;
        conditions.reorder = Reorder::default();
        if let Discipline::DualPi2(_) = conditions.discipline {
            conditions.discipline = Discipline::DropTail;
        }
        let config = LinkConfig {
            to_server: conditions.clone(),
            to_client: conditions,
            ..LinkConfig::default()
        };
        let seen = run(config, &actions, false);
        for way in [Way::ToServer, Way::ToClient] {
            let one = seen.deliveries.iter().filter(|delivery| delivery.way == way);
            prop_assert!(one.is_sorted_by_key(|delivery| delivery.number));
            prop_assert_eq!(seen.counters.of(way).reordered, 0);
        }
    }

    #[test]
    fn the_bottleneck_is_never_faster_than_its_rate(
        conditions in conditions(),
        actions in actions(),
        bytes_per_second in 1_000..10_000_000u64,
    ) {
        let rate = Rate::from_bytes_per_second(bytes_per_second);
        let Conditions { queue, discipline, policer, ack_filter, .. } = conditions;
        let to_client =
            Conditions { rate: Some(rate), queue, discipline, policer, ack_filter, ..Conditions::default() };
        let config = LinkConfig { to_client, ..LinkConfig::default() };
        let seen = run(config, &actions, false);
        let one: Vec<_> =
            seen.deliveries.iter().filter(|delivery| delivery.way == Way::ToClient).collect();
        for pair in one.windows(2) {
            let bytes = u64::try_from(pair[1].datagram.payload.len()).unwrap();
            let apart = pair[1].at.checked_since(pair[0].at).unwrap();
            prop_assert!(apart >= rate.time_for(bytes).unwrap());
            prop_assert!(pair[1].queued < pair[1].at.checked_since(pair[1].entered).unwrap() || bytes == 0);
        }
    }
}
