use super::*;
use crate::testing::{at_ms, datagram, drain, likely, ms};
use crate::{Conditions, Delivery, DropReason, Link, LinkConfig, Outcome, Rebind};

fn link(disturbances: &[Disturbance]) -> Link {
    let wire = Conditions { delay: ms(5), ..Conditions::default() };
    Link::new(LinkConfig {
        to_server: wire.clone(),
        to_client: wire,
        disturbances: disturbances.to_vec(),
        seed: 1,
        ..LinkConfig::default()
    })
}

fn at_datagram(way: Way, number: u64, effect: Effect) -> Disturbance {
    Disturbance { moment: Moment::Datagram { way, number }, effect }
}

fn after(milliseconds: u64, effect: Effect) -> Disturbance {
    Disturbance { moment: Moment::After(ms(milliseconds)), effect }
}

/// Sends one datagram per millisecond in each direction, and returns all deliveries.
fn exchange(link: &mut Link, count: u64) -> Vec<Delivery> {
    let mut deliveries = Vec::new();
    for now in (0..count).map(at_ms) {
        deliveries.extend(core::iter::from_fn(|| link.poll(now)));
        link.submit(now, Way::ToServer, datagram(0, 100));
        link.submit(now, Way::ToClient, datagram(0, 100));
    }
    deliveries.extend(drain(link));
    deliveries
}

/// Returns the entry times of the delivered datagrams in the direction `way`, in order of delivery.
fn entered(deliveries: &[Delivery], way: Way) -> Vec<u64> {
    let of_way = deliveries.iter().filter(|one| one.way == way);
    of_way.map(|one| one.entered.as_nanos() / 1_000_000).collect()
}

#[test]
fn one_datagram_is_lost_doubled_corrupted_or_late() {
    let cases = [
        (Fate::Lost, vec![0, 1, 3, 4]),
        (Fate::Doubled, vec![0, 1, 2, 2, 3, 4]),
        (Fate::Corrupted { within: Some(4) }, vec![0, 1, 2, 3, 4]),
        (Fate::Delayed(ms(1)), vec![0, 1, 2, 3, 4]),
        (Fate::Delayed(ms(2)), vec![0, 1, 3, 2, 4]),
    ];
    for (fate, expected) in cases {
        let way = Way::ToClient;
        let mut link = link(&[at_datagram(way, 3, Effect::One { way, fate })]);
        let deliveries = exchange(&mut link, 5);
        assert_eq!(entered(&deliveries, way), expected, "{fate:?}");
        assert_eq!(entered(&deliveries, Way::ToServer), [0, 1, 2, 3, 4], "{fate:?}");
        let is_changed = |one: &&Delivery| one.datagram.payload[..4] != [0; 4];
        let changed = deliveries.iter().filter(is_changed).count();
        assert_eq!(changed, usize::from(matches!(fate, Fate::Corrupted { .. })));
        let counters = link.counters().to_client.clone();
        assert_eq!(counters.lost_disturbance, u64::from(fate == Fate::Lost));
        assert_eq!(counters.dropped(), u64::from(fate == Fate::Lost));
    }
}

#[test]
fn a_moment_in_time_applies_to_the_first_datagram_from_then_on() {
    let (way, fate) = (Way::ToServer, Fate::Lost);
    let mut link = link(&[after(3, Effect::One { way, fate })]);
    assert_eq!(entered(&exchange(&mut link, 6), way), [0, 1, 2, 4, 5]);
}

#[test]
fn silence_drops_datagrams_that_enter_while_it_lasts() {
    let effect = |way| Effect::Silence { way, length: ms(2) };
    let ways = [Some(Way::ToServer), Some(Way::ToClient), None];
    for silent in ways {
        let moments = [after(1, effect(silent)), at_datagram(Way::ToServer, 2, effect(silent))];
        for disturbance in moments {
            let deliveries = exchange(&mut link(&[disturbance]), 5);
            for way in [Way::ToServer, Way::ToClient] {
                let is_silent = silent.is_none_or(|silent| silent == way);
                let expected = if is_silent { vec![0, 3, 4] } else { vec![0, 1, 2, 3, 4] };
                assert_eq!(entered(&deliveries, way), expected, "{disturbance:?}");
            }
        }
    }
}

#[test]
fn datagrams_sent_to_the_previous_mapping_are_dropped() {
    for disturbance in [
        after(3, Effect::Rebind { address: false }),
        at_datagram(Way::ToServer, 4, Effect::Rebind { address: true }),
    ] {
        let is_new_address = disturbance.effect == Effect::Rebind { address: true };
        let mut link = link(&[disturbance]);
        let deliveries = exchange(&mut link, 6);
        assert_eq!(entered(&deliveries, Way::ToServer), [0, 1, 2, 3, 4, 5]);
        assert_eq!(entered(&deliveries, Way::ToClient), [3, 4, 5], "{disturbance:?}");
        let bindings =
            |way| deliveries.iter().filter(move |one| one.way == way).map(|one| one.binding);
        assert!(bindings(Way::ToServer).eq([0, 0, 0, 1, 1, 1]));
        assert!(bindings(Way::ToClient).eq([1, 1, 1]));
        assert_eq!([link.addresses(0), link.addresses(1)], [0, u64::from(is_new_address)]);
        assert_eq!(link.counters().to_client.dropped_old_binding, 3);
    }
}

#[test]
fn mappings_by_a_rebind_and_by_disturbances_are_counted_together() {
    let rebind = Some(Rebind { first: ms(10), every: Some(ms(10)), address: false });
    let disturbances = vec![
        after(15, Effect::Rebind { address: true }),
        after(25, Effect::Rebind { address: true }),
    ];
    let mut link = Link::new(LinkConfig { rebind, disturbances, ..LinkConfig::default() });
    link.submit(at_ms(0), Way::ToServer, datagram(0, 1));
    let bindings = [5, 10, 15, 20, 25, 30].map(|at| link.binding(at_ms(at)));
    assert_eq!(bindings, [0, 1, 2, 3, 4, 5]);
    assert_eq!(bindings.map(|binding| link.addresses(binding)), [0, 0, 1, 1, 2, 2]);
}

#[test]
fn a_path_begins_to_reorder() {
    let reorder = Reorder { probability: likely(0.5), by: ms(3) };
    let mut link = link(&[after(50, Effect::Reorder(reorder))]);
    let order = entered(&exchange(&mut link, 100), Way::ToClient);
    assert_eq!(order.len(), 100);
    assert!(order[..50].iter().copied().eq(0..50) && !order[50..].is_sorted());
}

#[test]
fn disturbances_do_not_change_other_draws() {
    let run = |disturbances| {
        let rough = Conditions {
            delay: ms(5),
            reorder: Reorder { probability: likely(0.3), by: ms(4) },
            duplicate: likely(0.2),
            ..Conditions::default()
        };
        let config =
            LinkConfig { to_client: rough, seed: 9, disturbances, ..LinkConfig::default() };
        exchange(&mut Link::new(config), 200)
    };
    let lost = at_datagram(Way::ToClient, 7, Effect::One { way: Way::ToClient, fate: Fate::Lost });
    let (calm, disturbed) = (run(Vec::new()), run(vec![lost]));
    assert!(
        calm.iter()
            .filter(|one| one.way == Way::ToServer || one.entered != at_ms(6))
            .eq(&disturbed)
    );
}

#[test]
fn the_loss_is_reported_at_entry() {
    let way = Way::ToServer;
    let mut link = link(&[at_datagram(way, 1, Effect::One { way, fate: Fate::Lost })]);
    let outcome = link.submit(at_ms(0), way, datagram(0, 1));
    assert_eq!(outcome, Outcome::Dropped { number: 0, reason: DropReason::Disturbance });
}
