//! `clearway lab list`.

use clap::Args;
use clearway_lab::scenario::Scenario;
use serde_json::json;

use super::library::Library;
use clearway_terminal::failure::Failure;
use clearway_terminal::output;

/// List the scenarios: a line for each, or the details of some.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ListCommand {
    /// Show controllers, seeds and variants of these scenarios (names or files).
    #[arg(value_name = "SCENARIO")]
    scenarios: Vec<String>,
    #[command(flatten)]
    library: Library,
    /// Print one JSON object per scenario, a line each.
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Examples:
  List the built-in scenarios:
    clearway lab list
  Show the variants of one of them:
    clearway lab list collapse";

/// Runs the command.
pub(super) fn run(command: &ListCommand) -> Result<(), Failure> {
    let named = &command.scenarios;
    let scenarios = match named.is_empty() {
        true => command.library.all()?,
        false => named.iter().map(|it| command.library.find(it)).collect::<Result<_, _>>()?,
    };
    let longest = scenarios.iter().map(|scenario| scenario.name.len()).max().unwrap_or(0);
    scenarios.iter().try_for_each(|scenario| {
        output::result(&match (command.json, named.is_empty()) {
            (true, _) => object(scenario),
            (false, true) => format!("{:longest$}  {}", scenario.name, scenario.summary),
            (false, false) => paragraph(scenario),
        })
    })
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
