//! `clearway lab properties`.

use clap::Args;
use clearway_lab::checker::{Place, Property};
use serde_json::json;

use clearway_terminal::failure::Failure;
use clearway_terminal::output;

/// List the properties that are checked, and how.
///
/// IDs with S are safety properties, those with L liveness properties: they are checked at every
/// event of every run. Those with M compare a run with its counterpart in another network, those
/// with F compare flows: `lab across` and `lab run --all` check them.
#[derive(Args, Debug)]
pub(super) struct PropertiesCommand {
    /// Print one JSON object per property, a line each.
    ///
    /// The keys are property (its ID), meaning, method, and checked (run: in each run; across: by
    /// comparing runs; nowhere: not yet).
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(super) fn run(command: &PropertiesCommand) -> Result<(), Failure> {
    let text = if command.json { object } else { paragraph };
    Property::ALL.into_iter().try_for_each(|property| output::result(&text(property)))
}

fn object(property: Property) -> String {
    let checked = match property.place() {
        Place::Run => "run",
        Place::Across => "across",
        Place::Nowhere { .. } => "nowhere",
    };
    let (meaning, method) = (property.meaning(), method(property));
    json!({ "property": property.id(), "meaning": meaning, "method": method, "checked": checked })
        .to_string()
}

fn paragraph(property: Property) -> String {
    format!("{:3}  {}\n       {}", property.id(), property.meaning(), method(property))
}

fn method(property: Property) -> String {
    match property.place() {
        Place::Nowhere { reason } => format!("not checked yet: {reason}"),
        Place::Run | Place::Across => property.method().to_owned(),
    }
}
