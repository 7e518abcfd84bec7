//! `clearway qlog`: tools for qlog files.

mod convert;

use clap::{Args, Subcommand};

use crate::failure::Failure;

/// Convert qlog files.
#[derive(Args, Debug)]
pub(crate) struct QlogCommand {
    #[command(subcommand)]
    command: QlogSubcommand,
}

#[derive(Subcommand, Debug)]
enum QlogSubcommand {
    Convert(convert::ConvertCommand),
}

/// Runs the command.
///
/// # Errors
///
/// Returns an error if a file cannot be read or written.
pub(crate) fn run(command: &QlogCommand) -> Result<(), Failure> {
    match &command.command {
        QlogSubcommand::Convert(command) => convert::run(command),
    }
}
