//! Variants override the base.

use core::time::Duration;

use clearway_network::LossModel;
use clearway_units::Rate;

use super::super::{Scenario, Variant};
use super::with_flow;

fn variant<'a>(scenario: &'a Scenario, name: &str) -> &'a Variant {
    scenario.variants.iter().find(|variant| variant.name == name).expect("it is there")
}

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_variant_inherits_every_setting_that_it_does_not_override() {
    let scenario = with_flow(
        r#"
        limit = "7s"
        network.delay = "5ms"
        network.rate = "10mbit"
        network.to_server.rate = "1mbit"
        endpoint.client.max_ack_delay = "1ms"

        [[variant]]
        name = "a"
        share = 0.25
        network.delay = "9ms"

        [[variant]]
        name = "b"
        limit = "8s"
        network.rate = "2mbit"
        endpoint.max_ack_delay = "2ms"
        "#,
    );
    let names: Vec<_> = scenario.variants.iter().map(|variant| variant.name.as_str()).collect();
    assert_eq!(names, ["base", "a", "b"]);
    let rate = |bits| Some(Rate::from_bits_per_second(bits));

    let a = variant(&scenario, "a");
    assert_eq!(a.share, 0.25);
    assert_eq!(a.setup.limit, 7000 * MS);
    assert_eq!(a.setup.network.to_client.delay, 9 * MS);
    assert_eq!(a.setup.network.to_client.rate, rate(10_000_000));
    assert_eq!(a.setup.network.to_server.rate, rate(1_000_000));
    assert_eq!(a.setup.flows[0].client.max_ack_delay, MS);
    assert_eq!(a.setup.flows[0].server.max_ack_delay, 25 * MS);

    // A variant's setting for both directions or endpoints overrides the base's setting for one of
    // them.
    let b = variant(&scenario, "b");
    assert_eq!(b.share, 1.0);
    assert_eq!(b.setup.limit, 8000 * MS);
    assert_eq!(b.setup.network.to_client.delay, 5 * MS);
    assert_eq!(b.setup.network.to_server.rate, rate(2_000_000));
    assert_eq!(b.setup.flows[0].client.max_ack_delay, 2 * MS);
    assert_eq!(b.setup.flows[0].server.max_ack_delay, 2 * MS);
}

#[test]
fn lists_are_replaced() {
    let scenario = with_flow(
        r#"
        network.loss = [{ random = "1%" }, { list = [3] }]

        [[variant]]
        name = "other losses"
        network.loss = [{ list = [4] }]

        [[variant]]
        name = "none to the server"
        network.to_server.loss = []

        [[variant]]
        name = "another flow"
        flow = [{ name = "up", traffic = { upload = "1MB" } }]
        "#,
    );
    let base = &scenario.variants[0].setup.network;
    assert_eq!(base.to_client.loss.len(), 2);
    assert_eq!(base.to_client.loss, base.to_server.loss);
    let other = &variant(&scenario, "other losses").setup.network;
    assert_eq!(other.to_server.loss.len(), 1);
    assert_eq!(other.to_server.loss[0].model, LossModel::List { numbers: vec![4] });
    let none = &variant(&scenario, "none to the server").setup.network;
    assert_eq!((none.to_client.loss.len(), none.to_server.loss.len()), (2, 0));
    let flows = &variant(&scenario, "another flow").setup.flows;
    assert_eq!(flows.iter().map(|flow| flow.name.as_str()).collect::<Vec<_>>(), ["up"]);
}

#[test]
fn a_variant_can_remove_a_value() {
    let scenario = with_flow(
        r#"
        network = { rate = "1mbit", tick = "1ms", mark_above = "1ms" }
        endpoint.idle_timeout = "5s"

        [[variant]]
        name = "none"
        network = { rate = "none", tick = "none", mark_above = "none" }
        endpoint.idle_timeout = "none"
        "#,
    );
    let none = &variant(&scenario, "none").setup;
    let conditions = &none.network.to_client;
    assert_eq!((conditions.rate, conditions.tick, conditions.mark_above), (None, None, None));
    assert_eq!(none.flows[0].client.max_idle_timeout, None);
}

#[test]
fn expectations_by_controller() {
    let scenario = with_flow(
        r#"
        controllers = ["reno", "bbr"]
        expect = { within = "4s", floor_reached = 0.9, bbr = { within = "3s" } }

        [[variant]]
        name = "slower"
        expect = { within = "8s", reno = { median_within = "5s" } }

        [[variant]]
        name = "its own"
        own_expectations = true
        expect.reno.within = "9s"
        "#,
    );
    let within = |name: &str, controller: &str| {
        let bounds = variant(&scenario, name).expect(controller);
        (bounds.within.map(|time| time.as_secs()), bounds.floor_reached, bounds.finished)
    };
    assert_eq!(within("base", "reno"), (Some(4), Some(0.9), true));
    assert_eq!(within("base", "bbr"), (Some(3), Some(0.9), true));
    // The variant's setting takes precedence even over a base setting for a single controller.
    assert_eq!(within("slower", "reno"), (Some(8), Some(0.9), true));
    assert_eq!(within("slower", "bbr"), (Some(8), Some(0.9), true));
    let median = |controller| variant(&scenario, "slower").expect(controller).median_within;
    assert_eq!((median("reno"), median("bbr")), (Some(Duration::from_secs(5)), None));
    assert_eq!(within("its own", "reno"), (Some(9), None, true));
    assert_eq!(within("its own", "bbr"), (None, None, true));
    // A controller that the scenario does not run is only expected to finish.
    assert_eq!(within("base", "cubic"), (None, None, true));
}

#[test]
fn a_base_that_is_not_a_variant() {
    let scenario = with_flow("base = false\n[[variant]]\nname = \"only\"\n");
    assert_eq!(scenario.variants.len(), 1);
    assert_eq!(scenario.variants[0].name, "only");
}

#[test]
fn shares_of_seeds_are_rounded_up() {
    let scenario = with_flow("[[variant]]\nname = \"a\"\nshare = 0.1\n");
    let variant = variant(&scenario, "a");
    let seeds = [0, 1, 20, 95, 1000].map(|seeds| variant.seeds(seeds));
    assert_eq!(seeds, [0, 1, 2, 10, 100]);
    assert_eq!(scenario.variants[0].seeds(20), 20);
}
