//! `clearway lab list`.

use clap::Args;
use clearway_lab::scenario::Scenario;
use serde_json::json;

use super::library::Library;
use clearway_terminal::failure::Failure;
use clearway_terminal::output;

/// List the scenarios.
#[derive(Args, Debug)]
pub(super) struct ListCommand {
    #[command(flatten)]
    library: Library,
    /// Print one JSON object per scenario, a line each.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(super) fn run(command: &ListCommand) -> Result<(), Failure> {
    let text = if command.json { object } else { paragraph };
    command.library.all()?.iter().try_for_each(|scenario| output::result(&text(scenario)))
}

fn object(scenario: &Scenario) -> String {
    let variants: Vec<_> = scenario.variants.iter().map(|variant| &variant.name).collect();
    json!({
        "scenario": scenario.name,
        "summary": scenario.summary,
        "variants": variants,
        "controllers": scenario.controllers,
        "seeds": scenario.seeds,
    })
    .to_string()
}

fn paragraph(scenario: &Scenario) -> String {
    let mut lines = vec![
        scenario.name.clone(),
        format!("    {}", scenario.summary),
        format!("    controllers: {}; seeds: {}", scenario.controllers.join(", "), scenario.seeds),
    ];
    if let [_, _, ..] = scenario.variants.as_slice() {
        let names: Vec<_> = scenario.variants.iter().map(|it| it.name.as_str()).collect();
        lines.push(format!("    variants: {}", names.join(", ")));
    }
    lines.join("\n")
}
