//! `clearway view`: what a trace shows.

mod arguments;
mod catalogue;
mod findings;
mod progress;

pub(crate) use arguments::ViewCommand;

use crate::failure::Failure;

/// Runs the command.
///
/// # Errors
///
/// If a file cannot be read, or something is wrong with a trace.
pub(crate) fn run(command: &ViewCommand) -> Result<(), Failure> {
    if command.catalogue { catalogue::print(command.json) } else { findings::print(command) }
}
