mod errors;
mod merging;
mod nearest;
mod random;
mod readme;
mod resolving;
mod set;

use std::path::Path;

use super::{Scenario, ScenarioError};

/// A flow, for files that are about something else.
const FLOW: &str = "[[flow]]\nname = \"download\"\ntraffic = { download = \"10MB\" }\n";

fn parse(text: &str) -> Result<Scenario, ScenarioError> {
    Scenario::parse("test", text, Path::new("."))
}

/// A scenario of `text` and a flow.
fn with_flow(text: &str) -> Scenario {
    let text = format!("summary = \"A test.\"\n{text}\n{FLOW}");
    parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}
