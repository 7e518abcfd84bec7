//! Tests that every setting in a file ends up in the correct field.

use core::time::Duration;

use clearway_network::{
    AckFilter, CoDel, Corrupt, Discipline, DualPi2, EcnTreatment, FlowDelay, Freezes, Host, Jitter,
    LossModel, Policer, Probability, QueueLimit, Rebind, Reorder, Step, Way, Window,
};
use clearway_units::Rate;

use super::{FLOW, parse, with_flow};
use crate::checker::{Place, Property};
use crate::setup::{
    EarlyDataSetup, EndSetup, KeyExchange, SessionKind, Setup, StackKind, TlsSetup, Traffic,
};

const MS: Duration = Duration::from_millis(1);

fn setup(text: &str) -> Setup {
    with_flow(text).variants.remove(0).setup
}

fn rate(bits: u64) -> Rate {
    Rate::from_bits_per_second(bits)
}

#[test]
fn defaults() {
    let scenario = with_flow("");
    assert_eq!((scenario.name.as_str(), scenario.summary.as_str()), ("test", "A test."));
    assert_eq!(
        (scenario.seeds, scenario.controllers),
        (20, vec!["reno".into(), "cubic".into(), "bbr".into()])
    );
    assert_eq!(scenario.variants.len(), 1);
    let setup = &scenario.variants[0].setup;
    assert_eq!(setup.limit, 60_000 * MS);
    assert_eq!(setup.network, Default::default());
    let [flow] = &setup.flows[..] else { panic!("one flow") };
    assert_eq!((flow.name.as_str(), flow.group.as_str()), ("download", "download"));
    assert_eq!((&flow.client, &flow.server), (&EndSetup::default(), &EndSetup::default()));
    assert_eq!(
        (flow.session, flow.start, flow.is_optional),
        (SessionKind::Null, Duration::ZERO, false)
    );
    assert_eq!(flow.traffic, Traffic::Download { size: 10_000_000 });
}

#[test]
fn directions() {
    let setup = setup(
        r#"
        [network]
        delay = "5ms"
        delay_steps = [{ at = "1s", value = "50ms" }]
        jitter = "1ms"
        jitter_reorders = true
        tick = "4ms"
        rate = "10mbit"
        rate_steps = [{ at = "2s", value = "0" }, { at = "3s", value = "none" }]
        overhead = 28
        mark_above = "2ms"
        reorder = { probability = "1%", by = "3ms" }
        duplicate = "2%"
        corrupt = { probability = "3%", longest = 3, within = 20, spare_version_negotiation = true }
        mtu = 1300
        mtu_steps = [{ at = "2s", value = 1200 }]
        loss = [{ large = { than = 1400, probability = "4%" } }]
        ecn = "cleared"
        ecn_steps = [{ at = "2s", value = "dropped" }]
        freezes = { start = "1s", period = "255ms", length = "250ms", count = 6, spread = "1ms" }
        policer = { rate = "5mbit", bucket = "12kB" }
        ack_filter = { keep_one_of = 8, smaller_than = 200 }
        to_client.discipline = "dualpi2"
        to_server.discipline = "codel-ecn"

        [rebind]
        first = "1s"
        every = "5s"
        "#,
    );
    let chance = |value| Probability::new(value).expect("a probability");
    let to_client = &setup.network.to_client;
    assert_eq!(to_client.delay, 5 * MS);
    assert_eq!(to_client.delay_steps, [Step { after: 1000 * MS, value: 50 * MS }]);
    assert_eq!(to_client.jitter, Jitter { range: MS, reorder_by_jitter: true });
    assert_eq!(to_client.tick, Some(4 * MS));
    assert_eq!(to_client.rate, Some(rate(10_000_000)));
    let steps = [(2000, Some(Rate::ZERO)), (3000, None)];
    assert_eq!(to_client.rate_steps, steps.map(|(at, value)| Step { after: at * MS, value }));
    assert_eq!((to_client.overhead, to_client.mtu), (28, Some(1300)));
    assert_eq!(to_client.ecn, EcnTreatment::Cleared);
    let steps = [Step { after: 2000 * MS, value: EcnTreatment::Dropped }];
    assert_eq!(to_client.ecn_steps, steps);
    assert_eq!(to_client.mtu_steps, [Step { after: 2000 * MS, value: Some(1200) }]);
    let large = LossModel::RandomLarge { larger_than: 1400, probability: chance(0.04) };
    assert_eq!(to_client.loss[0].model, large);
    assert_eq!(to_client.mark_above, Some(2 * MS));
    assert_eq!(to_client.reorder, Reorder { probability: chance(0.01), by: 3 * MS });
    assert_eq!(to_client.duplicate, chance(0.02));
    let corrupt = Corrupt {
        probability: chance(0.03),
        maximum_run: Some(3),
        within: Some(20),
        spare_version_negotiation: true,
    };
    assert_eq!(to_client.corrupt, corrupt);
    let freezes = Freezes {
        start: 1000 * MS,
        period: 255 * MS,
        length: 250 * MS,
        count: Some(6),
        spread: MS,
    };
    assert_eq!(to_client.freezes, Some(freezes));
    assert_eq!(to_client.policer, Some(Policer { rate: rate(5_000_000), bucket: 12_000 }));
    assert_eq!(to_client.ack_filter, Some(AckFilter { keep_one_of: 8, smaller_than: 200 }));
    assert_eq!(to_client.discipline, Discipline::DualPi2(DualPi2::default()));
    let codel = CoDel { ecn: true, ..CoDel::default() };
    assert_eq!(setup.network.to_server.discipline, Discipline::CoDel(codel));
    let rebind = Rebind { first: 1000 * MS, every: Some(5000 * MS), address: false };
    assert_eq!(setup.network.rebind, Some(rebind));
}

#[test]
fn queues() {
    let limit = |queue: &str| {
        let text = format!(
            "[network]\nrate = \"10mbit\"\ndelay = \"15ms\"\noverhead = 30\nqueue = {queue}"
        );
        setup(&text).network.to_client.queue
    };
    let bytes = |bytes| QueueLimit { packets: None, bytes: Some(bytes) };
    assert_eq!(limit("{ packets = 25 }"), QueueLimit { packets: Some(25), bytes: None });
    assert_eq!(limit("{ bytes = \"64KiB\" }"), bytes(65_536));
    // At 10 Mbit/s, 30 ms correspond to 37,500 bytes.
    assert_eq!(limit("{ bdp = 2 }"), bytes(75_000));
    assert_eq!(limit("{ time = \"20ms\" }"), bytes(25_000));
    // Every queue has room for one datagram.
    assert_eq!(limit("{ bdp = 0.001 }"), bytes(1530));
    assert_eq!(limit("{ bytes = \"1B\" }"), bytes(1530));
}

#[test]
fn losses() {
    let setup = setup(
        r#"
        [network]
        loss = [
            { random = 0.3, after = { to_client = "6kB" }, for = "2s" },
            { capped = { probability = "2%", longest = 3 }, after = { time = "1s" } },
            { burst = { start = "1%", longest = 8 }, for = "3s" },
            { gilbert_elliott = { good_to_bad = "1%", bad_to_good = "20%", loss_in_bad = "50%" } },
            { list = [2, 3], after = { to_server = "1kB" } },
        ]
        "#,
    );
    let chance = |value| Probability::new(value).expect("a probability");
    let rules = &setup.network.to_server.loss;
    assert_eq!(rules[0].model, LossModel::Random { probability: chance(0.3) });
    let window = Window::AfterBytes { way: Way::ToClient, bytes: 6000, length: Some(2000 * MS) };
    assert_eq!(rules[0].window, window);
    let capped = LossModel::RandomCapped { probability: chance(0.02), maximum_run: 3 };
    assert_eq!(rules[1].model, capped);
    assert_eq!(rules[1].window, Window::FromFirstDatagram { after: 1000 * MS, length: None });
    assert_eq!(rules[2].model, LossModel::Burst { start: chance(0.01), maximum_run: 8 });
    let window = Window::FromFirstDatagram { after: Duration::ZERO, length: Some(3000 * MS) };
    assert_eq!(rules[2].window, window);
    let states = LossModel::GilbertElliott {
        good_to_bad: chance(0.01),
        bad_to_good: chance(0.2),
        loss_in_good: Probability::NEVER,
        loss_in_bad: chance(0.5),
    };
    assert_eq!((&rules[3].model, rules[3].window), (&states, Window::Always));
    assert_eq!(rules[4].model, LossModel::List { numbers: vec![2, 3] });
    let window = Window::AfterBytes { way: Way::ToServer, bytes: 1000, length: None };
    assert_eq!(rules[4].window, window);
}

#[test]
fn hosts() {
    let setup =
        setup("host.client = { socket_buffer = \"2MB\", service_time = \"20us\", batch = 8 }");
    let host = Host {
        buffer: QueueLimit { packets: None, bytes: Some(2_000_000) },
        service: Duration::from_micros(20),
        batch_service: Duration::ZERO,
        batch: 8,
    };
    // The client's host receives the datagrams to the client.
    assert_eq!(setup.network.to_client.host, Some(host));
    assert_eq!(setup.network.to_server.host, None);
}

#[test]
fn flows() {
    let text = r#"
        summary = "A test."
        session = "tls"
        endpoint.datagram_size = 1300

        [[flow]]
        name = "near"
        traffic = { requests = { count = 3, size = "1kB", every = "1s" } }

        [[flow]]
        name = "far"
        copies = 2
        start = "1s"
        apart = "100ms"
        controller = "reno"
        extra_delay = "45ms"
        session = "null"
        optional = true
        endpoint.client.datagram_size = 1400
        traffic = { paced = { rate = "2mbit", chunk = "25kB", size = "5MB" } }
        "#;
    let setup = parse(text).unwrap_or_else(|error| panic!("{error}")).variants.remove(0).setup;
    let [near, far, further] = &setup.flows[..] else { panic!("three flows") };
    assert_eq!(
        (near.session, near.controller.as_deref()),
        (SessionKind::Tls(TlsSetup::default()), None)
    );
    let every = Some(1000 * MS);
    assert_eq!(near.traffic, Traffic::Requests { count: 3, size: 1000, every });
    assert_eq!((near.client.max_datagram_size, near.server.max_datagram_size), (1300, 1300));
    assert_eq!((far.name.as_str(), further.name.as_str()), ("far-1", "far-2"));
    assert_eq!((far.group.as_str(), further.group.as_str()), ("far", "far"));
    assert_eq!((far.start, further.start), (1000 * MS, 1100 * MS));
    assert_eq!((far.session, far.controller.as_deref()), (SessionKind::Null, Some("reno")));
    assert_eq!((far.client.max_datagram_size, far.server.max_datagram_size), (1400, 1300));
    assert!(far.is_optional && !near.is_optional);
    assert_eq!((far.client.stack, far.traffic.bytes()), (StackKind::Clearway, Some(5_000_000)));
    let delay = |flow| FlowDelay { flow, to_server: 45 * MS, to_client: 45 * MS };
    assert_eq!(setup.network.flows, [delay(1), delay(2)]);
}

#[test]
fn what_the_size_of_a_tls_handshake_depends_on() {
    let session = |text: &str| setup(text).flows[0].session;
    let tls = |key_exchange, certificate_chain| {
        SessionKind::Tls(TlsSetup { key_exchange, certificate_chain, early_data: None })
    };
    assert_eq!(session("session = \"tls\""), tls(KeyExchange::X25519, None));
    let text = "session = \"tls\"\ntls = { key_exchange = \"x25519mlkem768\" }";
    assert_eq!(session(text), tls(KeyExchange::X25519MlKem768, None));
    let text = "session = \"tls\"\ntls = { certificate_chain = \"16kB\" }";
    assert_eq!(session(text), tls(KeyExchange::X25519, Some(16_000)));
    for (name, early_data) in
        [("accepted", EarlyDataSetup::Accepted), ("rejected", EarlyDataSetup::Rejected)]
    {
        let text = format!("session = \"tls\"\ntls = {{ early_data = \"{name}\" }}");
        let expected = TlsSetup { early_data: Some(early_data), ..TlsSetup::default() };
        assert_eq!(session(&text), SessionKind::Tls(expected));
    }
}

#[test]
fn every_property_of_a_run_can_be_turned_off() {
    for property in Property::ALL {
        let off = format!("properties_off = [{{ property = \"{property}\", because = \"x\" }}]");
        let parsed = parse(&format!("summary = \"A test.\"\n{off}\n{FLOW}"));
        assert_eq!(parsed.is_ok(), property.place() == Place::Run, "{property}: {parsed:?}");
    }
}
