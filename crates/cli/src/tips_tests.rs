use clap::{CommandFactory, Parser};

use super::*;
use crate::Program;

/// Returns what the program prints for these arguments.
fn printed(words: &[&str]) -> String {
    let program = ["clearway"].iter().chain(words);
    let error = Program::try_parse_from(program).expect_err("an unknown name");
    add(error, words.first().copied().unwrap_or_default()).to_string()
}

#[test]
fn every_name_of_another_program_leads_to_ours() {
    for Tip { command, names, tip } in &TIPS {
        for name in *names {
            let words = [*command, name];
            let printed = printed(if command.is_empty() { &words[1..] } else { &words });
            assert!(printed.contains(&format!("tip: {tip}\n")), "{command} {name}: {printed}");
            assert_eq!(printed.matches("tip:").count(), 1, "{command} {name}: {printed}");
            assert!(!printed.contains("--resume"), "{command} {name}: {printed}");
        }
    }
}

#[test]
fn options_with_a_value_have_the_same_tip() {
    assert!(printed(&["serve", "--root=/srv"]).contains("clearway serve DIR"));
    assert!(printed(&["get", "-m5", "https://example.org"]).contains("--timeout DURATION"));
}

#[test]
fn names_of_ours_keep_the_suggestions_of_the_parser() {
    let printed = printed(&["get", "--quite"]);
    assert!(printed.contains("'--quiet'"), "{printed}");
    assert_eq!(find("get", "--quite"), None);
    assert_eq!(find("serve", "--resolve"), None);
}

/// The options and commands that are named in tips exist.
#[test]
fn tips_name_what_exists() {
    let mut program = Program::command();
    program.build();
    for Tip { command, tip, .. } in &TIPS {
        let words: Vec<&str> = tip.split([' ', ',', ';', ':']).collect();
        let named = words.windows(2).find(|pair| pair[0] == "clearway").map(|pair| pair[1]);
        let command = named.or((!command.is_empty()).then_some(command)).expect("a command");
        let command = program.find_subcommand(command).expect("the command exists");
        let options = words.iter().filter_map(|word| word.strip_prefix("--"));
        // A tip also repeats the other program's name of the option.
        for option in options.filter(|option| !tip.contains(&format!("'s --{option} "))) {
            let is_known = command.get_arguments().any(|it| it.get_long() == Some(option));
            assert!(is_known, "{tip}: --{option}");
        }
    }
}
