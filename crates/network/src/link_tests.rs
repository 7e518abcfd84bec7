use super::*;
use crate::testing::{at_ms, datagram, drain, flows, likely, ms, passes};
use crate::{Corrupt, Jitter, LossModel, LossRule, Reorder, Window};

/// Returns conditions with every kind of random impairment.
fn rough() -> Conditions {
    let model = LossModel::RandomCapped { probability: likely(0.2), maximum_run: 3 };
    Conditions {
        delay: ms(10),
        jitter: Jitter { range: ms(3), reorder_by_jitter: true },
        loss: vec![LossRule::random(likely(0.05)), LossRule { model, window: Window::Always }],
        reorder: Reorder { probability: likely(0.1), by: ms(7) },
        duplicate: likely(0.05),
        corrupt: Corrupt { probability: likely(0.1), ..Corrupt::default() },
        ..Conditions::default()
    }
}

/// Sends 500 datagrams in both directions, and returns the deliveries.
fn run(config: LinkConfig) -> Vec<Delivery> {
    let mut link = Link::new(config);
    for flow in 0..500 {
        let now = at_ms(flow.into());
        link.submit(now, Way::ToServer, datagram(flow, 100));
        link.submit(now, Way::ToClient, datagram(flow, 1200));
    }
    drain(&mut link)
}

fn only(way: Way, deliveries: &[Delivery]) -> Vec<Delivery> {
    deliveries.iter().filter(|delivery| delivery.way == way).cloned().collect()
}

#[test]
fn nothing_is_due_on_an_empty_link() {
    let mut link = Link::new(LinkConfig::default());
    assert_eq!((link.first_entry(), link.deadline()), (None, None));
    assert_eq!(link.poll(at_ms(1000)), None);
    assert_eq!(*link.counters(), Counters::default());
}

#[test]
fn deliveries_of_both_directions_come_in_time_order() {
    let to_server = Conditions { delay: ms(7), ..Conditions::default() };
    let to_client = Conditions { delay: ms(3), ..Conditions::default() };
    let mut link = Link::new(LinkConfig { to_server, to_client, ..LinkConfig::default() });
    for flow in 0..20 {
        let way = if flow % 2 == 0 { Way::ToServer } else { Way::ToClient };
        link.submit(at_ms(5 + u64::from(flow)), way, datagram(flow, 10));
    }
    assert_eq!(link.first_entry(), Some(at_ms(5)));
    // A driver that polls late gets the same order and the same times.
    let deliveries: Vec<_> = std::iter::from_fn(|| link.poll(at_ms(1000))).collect();
    assert_eq!(deliveries.len(), 20);
    assert!(deliveries.is_sorted_by_key(|delivery| delivery.at));
    for delivery in deliveries {
        let delay = if delivery.way == Way::ToServer { 7 } else { 3 };
        assert_eq!(delivery.at, at_ms(5 + u64::from(delivery.datagram.flow) + delay));
    }
}

#[test]
fn time_does_not_go_back() {
    let mut link = Link::new(LinkConfig::default());
    link.poll(at_ms(10));
    link.submit(at_ms(4), Way::ToServer, datagram(0, 10));
    assert_eq!(link.poll(at_ms(10)).map(|delivery| delivery.entered), Some(at_ms(10)));
}

#[test]
fn datagrams_that_never_come_out_have_no_deadline() {
    let to_server = Conditions { rate: Some(clearway_units::Rate::ZERO), ..Conditions::default() };
    let mut link = Link::new(LinkConfig { to_server, ..LinkConfig::default() });
    let outcome = link.submit(at_ms(0), Way::ToServer, datagram(0, 10));
    assert_eq!(outcome, Outcome::Entered { number: 0 });
    assert_eq!(link.deadline(), None);
    assert_eq!(link.poll(Timestamp::FAR_FUTURE), None);
    assert_eq!(link.counters().to_server.in_pipe, 1);
}

#[test]
fn the_same_seed_gives_the_same_deliveries() {
    let config =
        |seed| LinkConfig { to_server: rough(), to_client: rough(), seed, ..LinkConfig::default() };
    assert_eq!(run(config(1)), run(config(1)));
    assert_ne!(run(config(1)), run(config(2)));
}

#[test]
fn the_deliveries_of_a_seed_are_the_same_on_every_machine() {
    // The digest is FNV-1a over everything observable. If it changes, recorded seeds no longer
    // replay.
    let config =
        LinkConfig { to_server: rough(), to_client: rough(), seed: 42, ..LinkConfig::default() };
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    for delivery in run(config) {
        let head = [delivery.at.as_nanos(), u64::from(delivery.datagram.flow)];
        let bytes = head.iter().flat_map(|number| number.to_le_bytes());
        for byte in bytes.chain(delivery.datagram.payload) {
            digest = (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    assert_eq!(digest, 1_193_412_317_914_420_278);
}

#[test]
fn directions_are_independent() {
    let perfect = Conditions::default();
    let rough_back =
        LinkConfig { to_server: rough(), to_client: rough(), seed: 3, ..LinkConfig::default() };
    let perfect_back = LinkConfig { to_client: perfect, ..rough_back.clone() };
    let (rough_back, perfect_back) = (run(rough_back), run(perfect_back));
    assert_eq!(only(Way::ToServer, &rough_back), only(Way::ToServer, &perfect_back));
    assert_ne!(only(Way::ToClient, &rough_back), only(Way::ToClient, &perfect_back));
    // The same conditions in both directions still draw different values.
    let there = flows(&only(Way::ToServer, &rough_back));
    assert_ne!(there, flows(&only(Way::ToClient, &rough_back)));
}

#[test]
fn impairments_are_independent() {
    let run = |to_client| only(Way::ToClient, &run(LinkConfig { to_client, ..Default::default() }));
    let all = run(rough());
    let without_loss = run(Conditions { loss: Vec::new(), ..rough() });
    // Each of these datagrams is also delivered without the loss rules, at the same time and with
    // the same byte changed.
    assert!(all.len() < without_loss.len());
    assert!(all.iter().all(|delivery| without_loss.contains(delivery)));
    // The same datagrams are lost, regardless of the other impairments.
    let plain = run(Conditions { loss: rough().loss, ..Conditions::default() });
    let mut survivors = flows(&all);
    survivors.sort_unstable();
    survivors.dedup();
    assert_eq!(flows(&plain), survivors);
    // An additional rule at the end does not affect earlier rules.
    let further = LossRule::random(likely(0.1));
    let loss = rough().loss.into_iter().chain([further]).collect();
    let more = flows(&run(Conditions { loss, ..Conditions::default() }));
    assert!(more.len() < survivors.len());
    assert!(more.iter().all(|flow| survivors.contains(flow)));
}

fn rebinding(to_server: Conditions, to_client: Conditions) -> Link {
    let rebind = Some(Rebind { first: ms(100), every: Some(ms(50)), address: false });
    Link::new(LinkConfig { to_server, to_client, rebind, seed: 1, ..LinkConfig::default() })
}

#[test]
fn a_datagram_to_the_server_has_the_mapping_of_its_entry() {
    let slow = Conditions { delay: ms(30), ..Conditions::default() };
    let mut link = rebinding(slow, Conditions::default());
    for now in [0, 99, 100, 149, 150, 1000] {
        link.submit(at_ms(now), Way::ToServer, datagram(0, 10));
    }
    let bindings: Vec<_> = drain(&mut link).iter().map(|delivery| delivery.binding).collect();
    assert_eq!(bindings, [0, 0, 1, 1, 2, 19]);
    assert_eq!(link.binding(at_ms(1000)), 19);
}

#[test]
fn a_datagram_to_the_client_needs_the_mapping_current_at_its_arrival() {
    let slow = Conditions { delay: ms(30), ..Conditions::default() };
    let mut link = rebinding(Conditions::default(), slow);
    link.submit(at_ms(0), Way::ToServer, datagram(9, 10));
    // The datagrams are: sent in time, in flight during the change, sent to the old mapping, and
    // sent to the new one.
    for (flow, now, binding) in [(0, 69, 0), (1, 70, 0), (2, 105, 0), (3, 106, 1), (4, 107, 7)] {
        link.submit_to_client(at_ms(now), binding, datagram(flow, 10));
    }
    // If no mapping is given, the current one is used.
    link.submit(at_ms(110), Way::ToClient, datagram(5, 10));
    let deliveries = only(Way::ToClient, &drain(&mut link));
    assert_eq!(flows(&deliveries), [0, 3, 5]);
    let bindings: Vec<_> = deliveries.iter().map(|delivery| delivery.binding).collect();
    assert_eq!(bindings, [0, 1, 1]);
    let counters = &link.counters().to_client;
    assert_eq!((counters.dropped_old_binding, counters.delivered, counters.in_pipe), (3, 3, 0));
}

#[test]
fn polling_late_does_not_outdate_a_mapping() {
    let slow = Conditions { delay: ms(30), ..Conditions::default() };
    let mut link = rebinding(Conditions::default(), slow);
    link.submit(at_ms(0), Way::ToClient, datagram(0, 10));
    // The datagram was due at 30 ms, long before the change.
    assert_eq!(link.poll(at_ms(500)).map(|delivery| delivery.at), Some(at_ms(30)));
}

#[test]
fn an_immediate_change_affects_the_first_datagram() {
    let rebind = Some(Rebind { first: ms(0), every: None, address: true });
    let mut link = Link::new(LinkConfig { rebind, ..LinkConfig::default() });
    link.submit(at_ms(5), Way::ToServer, datagram(0, 10));
    link.submit(at_ms(5), Way::ToClient, datagram(1, 10));
    let bindings: Vec<_> = drain(&mut link).iter().map(|delivery| delivery.binding).collect();
    assert_eq!(bindings, [1, 1]);
}

#[test]
fn the_interoperability_runner_s_networks_can_be_expressed() {
    // The amplification limit: datagrams 2 to 7 to the server are dropped.
    let model = LossModel::List { numbers: (2..=7).collect() };
    let loss = vec![LossRule { model, window: Window::Always }];
    let to_server = Conditions { loss, ..Conditions::default() };
    let mut link = Link::new(LinkConfig { to_server, ..LinkConfig::default() });
    let mut expected = [false; 10];
    for number in [1, 8, 9, 10] {
        expected[number - 1] = true;
    }
    assert_eq!(passes(&mut link, Way::ToServer, 10), expected);
    assert_eq!(passes(&mut link, Way::ToClient, 10), [true; 10]);

    // The black hole: no datagrams in either direction from 5 s on for 2 s.
    let window = Window::FromFirstDatagram { after: ms(5000), length: Some(ms(2000)) };
    let dead = Conditions { loss: vec![LossRule::blackhole(window)], ..Conditions::default() };
    let config = LinkConfig { to_server: dead.clone(), to_client: dead, ..LinkConfig::default() };
    let mut link = Link::new(config);
    let passed = passes(&mut link, Way::ToServer, 8000);
    let lost: Vec<_> = (0..8000).filter(|number| !passed[*number]).collect();
    assert_eq!(lost, (5000..7000).collect::<Vec<_>>());
}
