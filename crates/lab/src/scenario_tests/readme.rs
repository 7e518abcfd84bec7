//! Tests that the documentation of scenario files is correct and complete.

use super::{FLOW, parse};

const README: &str = include_str!("../../scenarios/README.md");

/// Returns the keys that are allowed where `text` has the key `x`.
fn known(text: &str) -> Vec<String> {
    let error = parse(text).expect_err("x is not a key").to_string();
    let list = error.split_once("(known: ").and_then(|(_, list)| list.strip_suffix(')'));
    let list = list.unwrap_or_else(|| panic!("{error}"));
    list.split(", ").map(str::to_owned).collect()
}

#[test]
fn the_example_is_a_scenario() {
    let lines = README.lines().filter(|line| line.is_empty() || line.starts_with("    "));
    let example: Vec<_> = lines.map(str::trim).collect();
    let scenario = parse(&example.join("\n")).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(scenario.variants.len(), 2);
}

#[test]
fn every_key_is_explained() {
    let tables = [
        "x = 1",
        "network.x = 1",
        "network.to_client.x = 1",
        "network.policer.x = 1",
        "network.loss = [{ x = 1 }]",
        "network.loss = [{ random = 1, after = { x = 1 } }]",
        "network.loss = [{ capped = { x = 1 } }]",
        "network.loss = [{ burst = { x = 1 } }]",
        "network.loss = [{ large = { x = 1 } }]",
        "network.mtu_steps = [{ x = 1 }]",
        "network.ecn_steps = [{ x = 1 }]",
        "network.ecn = \"x\"",
        "network.loss = [{ gilbert_elliott = { x = 1 } }]",
        "network.queue.x = 1",
        "network.discipline = \"x\"",
        "network.reorder.x = 1",
        "network.corrupt.x = 1",
        "network.freezes.x = 1",
        "network.ack_filter.x = 1",
        "network.rate_steps = [{ x = 1 }]",
        "rebind.x = 1",
        "host.x = 1",
        "endpoint.x = 1",
        "endpoint.stack = \"x\"",
        "endpoint.spin_bit = \"x\"",
        "session = \"x\"",
        "tls.x = 1",
        "tls.key_exchange = \"x\"",
        "expect.x = 1",
        "expect.shares = [{ x = 1 }]",
        "properties_off = [{ x = 1 }]",
        "reference = [{ x = 1 }]",
        "variant = [{ x = 1 }]",
        "flow = [{ x = 1 }]",
        "flow = [{ name = \"a\", traffic.x = 1 }]",
        "flow = [{ name = \"a\", traffic.parallel.x = 1 }]",
        "flow = [{ name = \"a\", traffic.requests.x = 1 }]",
        "flow = [{ name = \"a\", traffic.paced.x = 1 }]",
        "flow = [{ name = \"a\", traffic.cancelled.x = 1 }]",
        "flow = [{ name = \"a\", traffic.bulk.x = 1 }]",
    ];
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let words: Vec<_> = README.split(|c| !is_word(c)).collect();
    for table in tables {
        let flow = if table.starts_with("flow") { "" } else { FLOW };
        for key in known(&format!("summary = \"A test.\"\n{table}\n{flow}")) {
            assert!(words.contains(&key.as_str()), "{key}, known in {table}");
        }
    }
}
