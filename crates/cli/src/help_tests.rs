use std::collections::BTreeSet;

use clap::CommandFactory;

use super::*;
use crate::Program;

/// Returns all commands of the program, with their full names.
fn all(width: usize) -> Vec<(String, Command)> {
    let mut program = arranged(Program::command(), Some(width));
    program.build();
    let mut left = vec![("clearway".to_owned(), program)];
    let mut all = Vec::new();
    while let Some((name, command)) = left.pop() {
        let inner = command.get_subcommands().filter(|it| it.get_name() != "help");
        left.extend(inner.map(|it| (format!("{name} {}", it.get_name()), it.clone())));
        all.push((name, command));
    }
    assert!(all.len() > 15, "{}", all.len());
    all
}

/// A summary is one line of at most 80 columns; text in brackets, such as a default, does not
/// count.
#[test]
fn summaries_of_options_are_short() {
    for (name, command) in all(80) {
        for argument in command.get_arguments().filter(|it| !it.is_hide_set()) {
            let Some(help) = argument.get_help().map(ToString::to_string) else {
                panic!("{name}: {} has no summary", argument.get_id());
            };
            let summary = help.split(" [").next().unwrap_or_default();
            assert!(!help.contains('\n'), "{name}: {help}");
            assert!(summary.chars().count() <= 80, "{name}: {summary}");
        }
    }
}

#[test]
fn paragraphs_are_wrapped_at_the_width_and_lose_no_word() {
    let text = |text: Option<&StyledStr>| text.map(ToString::to_string).unwrap_or_default();
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let mut longest = 0;
    for ((name, narrow), (_, wide)) in all(80).into_iter().zip(all(WIDTH)) {
        let about = text(narrow.get_long_about());
        assert!(about.lines().all(|line| line.chars().count() <= 80), "{name}: {about}");
        for (narrow, wide) in narrow.get_arguments().zip(wide.get_arguments()) {
            let (narrow, wide) = (text(narrow.get_long_help()), text(wide.get_long_help()));
            assert_eq!(words(&narrow), words(&wide), "{name}");
            let lines = narrow.lines().map(|line| line.chars().count());
            let length = lines.max().unwrap_or_default();
            assert!(length <= 80 - INDENTATION, "{name}: {narrow}");
            longest = longest.max(length);
        }
    }
    assert!(longest > 60, "{longest}");
}

#[test]
fn lines_are_broken_at_spaces() {
    let text = format!("{} {}\n\n  {}", "a".repeat(30), "b".repeat(30), "c ".repeat(40));
    let expected = format!("{}\n{}\n\n  {}", "a".repeat(30), "b".repeat(30), "c ".repeat(40));
    assert_eq!(wrap(&text, 50), expected);
    assert_eq!(wrap(&"d".repeat(90), 50), "d".repeat(90));
}

/// All options named in the tables exist, and only a few options have no heading.
#[test]
fn commands_with_many_options_have_headings() {
    for (name, command) in all(80) {
        let short = name.trim_start_matches("clearway ");
        let options: Vec<&Arg> =
            command.get_arguments().filter(|it| it.get_long().is_some()).collect();
        let known: BTreeSet<&str> = options.iter().filter_map(|it| it.get_long()).collect();
        for (_, _, names) in HEADINGS.iter().filter(|(of, ..)| *of == short) {
            let missing: Vec<_> = names.iter().filter(|it| !known.contains(**it)).collect();
            assert!(missing.is_empty(), "{name} has no {missing:?}");
        }
        let shown = options.iter().filter(|it| !it.is_hide_set());
        let general = shown.filter(|it| it.get_help_heading().is_none()).count();
        assert!(general <= 15, "{name} has {general} options without a heading");
    }
}
