#[path = "scenario_tests/errors.rs"]
mod errors;
#[path = "scenario_tests/merging.rs"]
mod merging;
#[path = "scenario_tests/nearest.rs"]
mod nearest;
#[path = "scenario_tests/random.rs"]
mod random;
#[path = "scenario_tests/readme.rs"]
mod readme;
#[path = "scenario_tests/resolving.rs"]
mod resolving;
#[path = "scenario_tests/set.rs"]
mod set;

use std::path::Path;

use super::{Scenario, ScenarioError};

/// A flow for test files whose subject is something else.
const FLOW: &str = "[[flow]]\nname = \"download\"\ntraffic = { download = \"10MB\" }\n";

fn parse(text: &str) -> Result<Scenario, ScenarioError> {
    Scenario::parse("test", text, Path::new("."))
}

/// Parses a scenario that consists of `text` and a flow.
fn with_flow(text: &str) -> Scenario {
    let text = format!("summary = \"A test.\"\n{text}\n{FLOW}");
    parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}
