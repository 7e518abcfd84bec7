//! `clearway manual`: manual pages, one for each command.

use std::fs;
use std::io;
use std::path::PathBuf;

use clap::{Args, Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::failure::Failure;
use crate::whole_file::unwritten;
use crate::{Program, help, output};

/// Write the manual pages.
///
/// There is one page for each command: clearway.1, clearway-serve.1, clearway-lab-run.1 and so on.
/// The Debian and Homebrew packages install them.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ManualCommand {
    /// The folder to write to; it is created if it does not exist.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

const AFTER_HELP: &str = "\
Example:
  Install the pages for this user, and read one:
    clearway manual ~/.local/share/man/man1
    man clearway-serve";

/// Runs the command.
///
/// # Errors
///
/// Returns an error if a page cannot be written.
pub(crate) fn run(command: &ManualCommand) -> Result<(), Failure> {
    let folder = &command.folder;
    fs::create_dir_all(folder).map_err(|error| unwritten(folder, &error, "DIR"))?;
    let pages = pages();
    for (name, page) in &pages {
        let path = folder.join(name);
        fs::write(&path, page).map_err(|error| unwritten(&path, &error, "DIR"))?;
    }
    output::result(&format!("wrote {} pages to {}", pages.len(), folder.display()))
}

/// Returns all pages with their file names.
fn pages() -> Vec<(String, Vec<u8>)> {
    // The pages of the `help` subcommands would only repeat the other pages.
    let mut program = help::grouped(Program::command()).disable_help_subcommand(true);
    program.build();
    let mut all = vec![program];
    let mut pages = Vec::new();
    while let Some(command) = all.pop() {
        all.extend(command.get_subcommands().filter(|it| !it.is_hide_set()).cloned());
        pages.extend(page(command));
    }
    pages.sort();
    pages
}

/// Renders the page of a command. Writing to memory cannot fail.
fn page(command: Command) -> Option<(String, Vec<u8>)> {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim().to_owned();
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let has_subcommands = command.has_subcommands();
    // The version replaces the date, which would be the date of the build.
    let version = concat!("version ", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.override_usage(usage)).date(version);
    let man = man.source("Clearway").manual("Clearway manual");
    let mut page = Vec::new();
    render(&man, has_subcommands, &after, &mut page).ok()?;
    Some((man.get_filename(), page))
}

fn render(man: &Man, has_subcommands: bool, after: &str, page: &mut Vec<u8>) -> io::Result<()> {
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    if has_subcommands {
        man.render_subcommands_section(page)?;
    }
    let (notes, examples) = split(after);
    section("NOTES", notes, page)?;
    section("EXAMPLES", examples, page)
}

/// Indentation of commands in the examples.
const COMMAND: &str = "    ";

/// Splits the text that follows the options in a command's help into notes and examples.
fn split(after: &str) -> (&str, &str) {
    for heading in ["Examples:\n", "Example:\n"] {
        if let Some((notes, examples)) = after.split_once(heading) {
            return (notes.trim_end(), examples);
        }
    }
    (after.trim_end(), "")
}

/// Renders a section, unless it is empty: sentences that introduce a command are paragraphs, and
/// everything else keeps its line breaks.
fn section(name: &str, text: &str, page: &mut Vec<u8>) -> io::Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    let mut roff = Roff::new();
    roff.control("SH", [name]);
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let introduces = lines.peek().is_some_and(|next| next.starts_with(COMMAND));
        if introduces && !line.starts_with(COMMAND) {
            roff.control("PP", []).text([roman(line.trim())]);
            continue;
        }
        roff.control("PP", []).control("nf", []).text([roman(line)]);
        while let Some(line) = lines.next_if(|next| is_literal(line, next)) {
            roff.text([roman(line)]);
        }
        roff.control("fi", []);
    }
    roff.to_writer(page)
}

/// Returns whether `next` continues the literal text that `line` is a part of.
fn is_literal(line: &str, next: &str) -> bool {
    !line.starts_with(COMMAND) || next.starts_with(COMMAND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_with_its_examples() {
        let pages = pages();
        let text = |name: &str| {
            let page = pages.iter().find(|(it, _)| it == name);
            String::from_utf8(page.unwrap_or_else(|| panic!("{name}")).1.clone()).unwrap()
        };
        for name in ["clearway.1", "clearway-qlog-convert.1", "clearway-lab-run.1"] {
            assert!(text(name).contains(".SH NAME"), "{name}");
        }
        let serve = text("clearway-serve.1");
        assert!(serve.contains(".SH EXAMPLES\n.PP\nServe the current folder"), "{serve}");
        assert!(serve.contains("\\fBclearway serve\\fR [OPTIONS] [DIR]"), "{serve}");
        assert!(serve.contains(".SH LIMITS\n") || serve.contains(".SH \"LIMITS\""), "{serve}");
        assert!(!serve.contains("Examples:") && !serve.contains("SUBCOMMANDS"), "{serve}");
        assert!(text("clearway-lab.1").contains("clearway\\-lab\\-run(1)"));
        assert!(text("clearway-demo.1").contains(".SH NOTES\n.PP\n.nf\nWhy ticks"));
        assert!(pages.iter().all(|(name, _)| !name.contains("help")));
    }

    #[test]
    fn notes_and_examples_are_separated() {
        assert_eq!(split("Note.\n\nExamples:\n  a\n"), ("Note.", "  a\n"));
        assert_eq!(split("Example:\n  a"), ("", "  a"));
        assert_eq!(split("Note.\n"), ("Note.", ""));
    }
}
