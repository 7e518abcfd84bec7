//! Tests that the program accepts every command line in the documents, the shipped files and the
//! help texts.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the documents that contain commands.
fn documents() -> Vec<PathBuf> {
    let folder = |path: &str| {
        let entries = fs::read_dir(root().join(path)).unwrap();
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file())
    };
    let crates = fs::read_dir(root().join("crates")).unwrap();
    let crates = crates.map(|entry| entry.unwrap().path().join("README.md"));
    let mut all: Vec<_> = folder("").chain(folder("docs")).chain(folder("docs/fleet")).collect();
    let book = ["", "library", "moving", "operating", "congestion"];
    all.extend(book.into_iter().flat_map(|part| folder(&format!("docs/book/src/{part}"))));
    all.extend(crates);
    all.extend(
        ["crates/lab/scenarios", "bench", "interop", "viewer", "gallery"]
            .map(|it| root().join(it).join("README.md")),
    );
    let is_text = |path: &PathBuf| {
        let kind = path.extension().and_then(|it| it.to_str());
        matches!(kind, Some("md" | "yaml" | "toml")) || path.ends_with("Dockerfile")
    };
    all.retain(|path| is_text(path) && path.exists() && !path.ends_with("CHANGELOG.md"));
    all.sort();
    all
}

/// Returns the words after `clearway` in the commands of a text: the lines of code blocks, with
/// continuation lines.
fn commands(text: &str) -> Vec<Vec<String>> {
    lines(text).filter(|line| !is_sketch(line)).map(|line| words(&line)).collect()
}

/// Like [`commands`], for commands that are not meant to be typed literally. Adds the arguments
/// that an ellipsis omits.
fn sketches(text: &str) -> Vec<Vec<String>> {
    let known = |line: String| {
        let mut known: Vec<String> = Vec::new();
        for word in words(&line) {
            let is_value = known.last().is_some_and(|before| before.starts_with("--"));
            if is_value || !is_sketch(&word) {
                known.push(word);
            }
        }
        known
    };
    lines(text).filter(|line| is_sketch(line)).map(known).collect()
}

fn is_sketch(text: &str) -> bool {
    text.contains('…') || text.contains("...")
}

fn lines(text: &str) -> impl Iterator<Item = String> {
    let joined = text.replace("\\\n", " ");
    joined.lines().filter_map(of_line).collect::<Vec<_>>().into_iter()
}

/// Returns the part of a line after `clearway`, if the line is a command.
fn of_line(line: &str) -> Option<String> {
    let is_code = line.starts_with("    ");
    let bare = line.trim_start().trim_start_matches("$ ").trim_start_matches("sudo ");
    let starts = [
        "clearway ",
        "cargo run --release -- ",
        "cargo run --profile dist -- ",
        "target/dist/clearway ",
        "target/release/clearway ",
    ];
    let rest = starts.iter().find_map(|start| bare.strip_prefix(start))?;
    if rest.starts_with("= ") {
        // The line is a dependency in `Cargo.toml`.
        return None;
    }
    let is_whole_line = is_code || bare.len() == line.len();
    is_whole_line.then(|| rest.to_owned())
}

/// Returns the options in a sentence such as: `clearway serve --hot-restart`.
fn mentions(text: &str) -> Vec<Vec<String>> {
    let joined = text.replace('\n', " ");
    let quoted = joined.split('`').skip(1).step_by(2);
    let commands = quoted.filter_map(|it| it.strip_prefix("clearway "));
    commands.filter(|it| !it.contains('…')).map(words).collect()
}

/// Returns the error in a command that a file mentions. Missing required options are permitted.
fn unknown(words: &[String]) -> Option<String> {
    use clap::error::ErrorKind::{InvalidSubcommand, UnknownArgument};
    let program = ["clearway".to_owned()];
    let error = Program::try_parse_from(program.iter().chain(words)).err()?;
    matches!(error.kind(), InvalidSubcommand | UnknownArgument).then(|| error.to_string())
}

/// Returns the words of a shell command, up to a comment, a pipe or the next command.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut quote) = (String::new(), None);
    for letter in line.chars().chain([' ']) {
        match (letter, quote) {
            ('"' | '\'', None) => quote = Some(letter),
            (it, Some(open)) if it == open => quote = None,
            (' ', None) => {
                match word.as_str() {
                    "" => {}
                    "#" | "|" | "||" | "&" | "&&" | ">" | ";" => return words,
                    _ => words.push(word.clone()),
                }
                word.clear();
            }
            (it, _) => word.push(it),
        }
    }
    words
}

/// Returns the error in a command, if any.
fn refused(words: &[String]) -> Option<String> {
    let program = ["clearway".to_owned()];
    match Program::try_parse_from(program.iter().chain(words)) {
        Ok(_) => None,
        Err(error) if error.exit_code() == 0 => None,
        Err(error) => Some(error.to_string().lines().next().unwrap_or_default().to_owned()),
    }
}

#[test]
fn every_command_of_the_documents_is_taken() {
    let (mut count, mut wrong) = (0, Vec::new());
    for path in documents() {
        let text = fs::read_to_string(&path).unwrap();
        let commands = commands(&text).into_iter().map(|words| (refused(&words), words));
        let mentions = mentions(&text).into_iter().chain(sketches(&text));
        let mentions = mentions.map(|words| (unknown(&words), words));
        for (why, words) in commands.chain(mentions) {
            count += 1;
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            wrong.extend(why.map(|why| format!("{name}: clearway {}: {why}", words.join(" "))));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 80, "only {count} commands were found");
}

#[test]
fn every_command_of_the_help_texts_is_taken() {
    let (mut count, mut wrong) = (0, Vec::new());
    let mut program = Program::command();
    program.build();
    let mut all = vec![program];
    while let Some(command) = all.pop() {
        all.extend(command.get_subcommands().cloned());
        let texts =
            [command.get_after_help(), command.get_after_long_help(), command.get_long_about()];
        let text =
            texts.into_iter().flatten().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        let commands = commands(&text).into_iter().map(|words| (refused(&words), words));
        let sketches = sketches(&text).into_iter().map(|words| (unknown(&words), words));
        for (why, words) in commands.chain(sketches) {
            count += 1;
            wrong.extend(why.map(|why| format!("clearway {}: {why}", words.join(" "))));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 10, "only {count} commands were found");
}

/// The arguments of a container are either a list in one line, or one line for each argument.
#[test]
fn every_container_starts_with_arguments_that_are_taken() {
    let kubernetes = fs::read_to_string(root().join("docs/fleet/kubernetes.yaml")).unwrap();
    let mut found = Vec::new();
    let mut lines = kubernetes.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(rest) = line.trim().strip_prefix("args:") else { continue };
        let mut words: Vec<String> = Vec::new();
        if let Some(list) = rest.trim().strip_prefix('[') {
            words.extend(list.trim_end_matches(']').split(',').map(|it| it.trim().to_owned()));
        }
        let is_item = |line: &&str| line.trim().starts_with(['-', '#']);
        while let Some(item) = lines.next_if(is_item) {
            words.extend(item.trim().strip_prefix("- ").map(str::to_owned));
        }
        found.push(words);
    }
    assert_eq!(found.len(), 3, "{found:?}");
    let docker = fs::read_to_string(root().join("docs/fleet/Dockerfile")).unwrap();
    let command = docker.lines().find_map(|line| line.strip_prefix("CMD ")).unwrap();
    found.push(serde_json::from_str(command).unwrap());
    for words in found {
        assert_eq!(refused(&words), None, "{words:?}");
    }
}

#[test]
fn commands_are_found_where_they_are() {
    let text = "Text with `clearway serve`.\n\n    sudo clearway serve /srv \\\n        --listen 'a b'   # so\n\
                ```\nclearway get x | less\n```\n    clearway balance …\n";
    let expected = [vec!["serve", "/srv", "--listen", "a b"], vec!["get", "x"]];
    assert_eq!(commands(text), expected);
    assert_eq!(sketches(text), [vec!["balance"]]);
    assert_eq!(
        sketches("    clearway serve . --cert … --key …"),
        [["serve", ".", "--cert", "…", "--key", "…"]]
    );
}
