//! Tests that any text results in a scenario or in an error with a location in the text.

use std::path::Path;

use proptest::prelude::*;

use super::super::{Scenario, ScenarioError};
use super::{FLOW, parse};

/// A file that uses many keys, to be corrupted at random.
const COLLAPSE: &str = include_str!("../../scenarios/collapse.toml");

fn check(text: &str) {
    let lines = text.split('\n').count();
    match Scenario::parse("test", text, Path::new("no/such/folder")) {
        Ok(scenario) => assert!(!scenario.variants.is_empty()),
        Err(ScenarioError::Invalid { line, column, message, .. }) => {
            assert!((1..=lines).contains(&line) && column >= 1 && !message.is_empty());
        }
        Err(error @ ScenarioError::Unreadable { .. }) => panic!("{error}"),
    }
}

fn key() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "summary",
        "limit",
        "seeds",
        "controllers",
        "base",
        "network",
        "delay",
        "rate",
        "queue",
        "loss",
        "to_client",
        "host",
        "endpoint",
        "client",
        "flow",
        "variant",
        "name",
        "expect",
        "reno",
        "shares",
        "traffic",
        "copies",
        "reference",
        "rebind",
        "first",
        "properties_off",
        "random",
        "bdp",
        "for",
        "after",
        "trace",
        "x",
    ])
    .prop_map(str::to_owned)
}

fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        prop::sample::select(vec![
            "\"1s\"",
            "\"10mbit\"",
            "\"30%\"",
            "\"1MB\"",
            "\"none\"",
            "\"reno\"",
            "\"\"",
            "0",
            "1",
            "-1",
            "1.5",
            "nan",
            "inf",
            "1e308",
            "9223372036854775807",
            "true",
            "[]",
            "{}",
            "2026-01-01",
            "\"18446744073709551615s\"",
            "\"µ\"",
        ])
        .prop_map(str::to_owned),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3)
                .prop_map(|values| format!("[{}]", values.join(", "))),
            (key(), inner).prop_map(|(key, value)| format!("{{ {key} = {value} }}")),
        ]
    })
}

proptest! {
    #[test]
    fn any_text(text in any::<String>()) {
        check(&text);
    }

    #[test]
    fn any_keys_and_values(
        settings in prop::collection::vec((key(), prop::option::of(key()), value()), 0..8),
    ) {
        let lines: Vec<_> = settings
            .into_iter()
            .map(|(key, inner, value)| match inner {
                Some(inner) => format!("{key}.{inner} = {value}\n"),
                None => format!("{key} = {value}\n"),
            })
            .collect();
        check(&lines.concat());
        check(&format!("summary = \"A test.\"\n{}{FLOW}", lines.concat()));
    }

    #[test]
    fn damaged_files(
        at in 0..COLLAPSE.len(),
        length in 0..40usize,
        instead in "[ -~µ\n]{0,6}",
    ) {
        let boundary = |at: usize| (at..=COLLAPSE.len()).find(|at| COLLAPSE.is_char_boundary(*at));
        let start = boundary(at).expect("the end is one");
        let end = boundary((start + length).min(COLLAPSE.len())).expect("the end is one");
        check(&format!("{}{instead}{}", &COLLAPSE[..start], &COLLAPSE[end..]));
    }
}

#[test]
fn extreme_numbers() {
    for value in ["nan", "inf", "-inf", "1e308", "1e-308"] {
        let network = format!(
            "network = {{ rate = \"10mbit\", delay = \"1s\", queue = {{ bdp = {value} }} }}"
        );
        check(&format!("summary = \"A test.\"\n{network}\n{FLOW}"));
    }
    let text = format!("summary = \"A test.\"\nnetwork.delay = \"5000000h\"\n{FLOW}");
    assert!(parse(&text).is_ok());
}
