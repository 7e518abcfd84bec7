//! `clearway completions`: shell completion scripts.

use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate};

use crate::failure::Failure;
use crate::{Program, output};

/// Print a shell completion script.
///
/// The Debian and Homebrew packages install these scripts. docs/installing.md lists the file for
/// each shell.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct CompletionsCommand {
    /// The shell.
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

const AFTER_HELP: &str = "\
Examples:
  Complete commands and options in the current bash or zsh session:
    source <(clearway completions bash)
    source <(clearway completions zsh)
  Install the script for bash:
    clearway completions bash > ~/.local/share/bash-completion/completions/clearway
  Install the script for fish:
    clearway completions fish > ~/.config/fish/completions/clearway.fish";

/// Runs the command.
///
/// # Errors
///
/// Returns an error if standard output cannot be written.
pub(crate) fn run(command: &CompletionsCommand) -> Result<(), Failure> {
    output::result(script(command.shell).trim_end())
}

/// Returns the script for `shell`.
fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    generate(shell, &mut Program::command(), "clearway", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn every_shell_gets_all_commands() {
        for shell in Shell::value_variants() {
            let script = script(*shell);
            for command in Program::command().get_subcommands() {
                assert!(script.contains(command.get_name()), "{shell}: {}", command.get_name());
            }
            let printed = clearway_units::foreign::escaped_lines(&script);
            assert_eq!(printed, script, "{shell}: the script is printed unchanged");
        }
    }
}
