//! Command-line parsing that the tasks share.

use clap::builder::RangedU64ValueParser;
use clap::{Args, Command};

/// Parses the options of one task.
pub(crate) fn parse<T: Args>(words: &[&str]) -> Result<T, clap::Error> {
    let command = T::augment_args(Command::new("xtask").no_binary_name(true));
    T::from_arg_matches(&command.try_get_matches_from(words)?)
}

/// Returns the default options of a task.
pub(crate) fn defaults<T: Args>() -> T {
    parse(&[]).unwrap_or_else(|error| error.exit())
}

/// Returns a parser for whole numbers above 0.
pub(crate) fn positive<T>() -> RangedU64ValueParser<T>
where
    T: TryFrom<u64, Error: std::error::Error + Send + Sync> + Clone + Send + Sync + 'static,
{
    RangedU64ValueParser::new().range(1..)
}
