//! [`Settings`] as command-line options, for both directions and for each direction separately.

use clap::{Arg, ArgAction, ArgMatches, Command, Error};
use clearway_network::{Conditions, Way};

use super::settings::{SETTINGS, Setting, Settings};

/// The settings of both directions.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct DirectionArguments {
    to_server: Settings,
    to_client: Settings,
}

/// The directions that options apply to (`None` for both), and the prefix of the options' names.
const SCOPES: [(Option<Way>, &str); 3] =
    [(None, ""), (Some(Way::ToServer), "to-server-"), (Some(Way::ToClient), "to-client-")];

impl DirectionArguments {
    /// Returns the conditions of one direction.
    ///
    /// # Errors
    ///
    /// Returns an error if the options contradict each other.
    pub(super) fn conditions(&self, way: Way) -> Result<Conditions, String> {
        match way {
            Way::ToServer => self.to_server.conditions(),
            Way::ToClient => self.to_client.conditions(),
        }
    }
}

/// Creates the argument for one option in one scope.
fn argument(setting: &'static Setting, scope: Option<Way>, prefix: &str) -> Arg {
    let name = format!("{prefix}{}", setting.name);
    let argument = Arg::new(name.clone())
        .long(name)
        .value_name(setting.value)
        .help(setting.help.split("\n\n").next().unwrap_or_default())
        .long_help(setting.help)
        .help_heading("Network conditions")
        .hide(scope.is_some())
        .action(ArgAction::Set)
        // The value is parsed here, so that an error names the option. It is applied later.
        .value_parser(|value: &str| {
            (setting.set)(&mut Settings::default(), value).map(|()| value.to_owned())
        });
    match setting.default {
        None => argument,
        Some(default) => {
            argument.num_args(0..=1).require_equals(true).default_missing_value(default)
        }
    }
}

impl clap::Args for DirectionArguments {
    fn augment_args(mut command: Command) -> Command {
        for (scope, prefix) in SCOPES {
            for setting in SETTINGS {
                command = command.arg(argument(setting, scope, prefix));
            }
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for DirectionArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut arguments = Self::default();
        arguments.update_from_arg_matches(matches)?;
        Ok(arguments)
    }

    /// An option for one direction overrides the one for both.
    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        for (scope, prefix) in SCOPES {
            for setting in SETTINGS {
                let name = format!("{prefix}{}", setting.name);
                let Some(value) = matches.get_one::<String>(&name) else { continue };
                let directions = match scope {
                    None => [Some(&mut self.to_server), Some(&mut self.to_client)],
                    Some(Way::ToServer) => [Some(&mut self.to_server), None],
                    Some(Way::ToClient) => [Some(&mut self.to_client), None],
                };
                for direction in directions.into_iter().flatten() {
                    (setting.set)(direction, value).map_err(|error| {
                        Error::raw(clap::error::ErrorKind::ValueValidation, error)
                    })?;
                }
            }
        }
        Ok(())
    }
}
