//! Checks that numbers in documents match the code that they describe, and the same numbers in
//! other documents.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Returns the number of times that `part` occurs in `file`.
fn occurrences(file: &str, part: &str) -> usize {
    read(file).matches(part).count()
}

/// Returns the text between `before` and `after` in `file`, without underscores.
fn value(file: &str, before: &str, after: char) -> String {
    let text = read(file);
    let rest = text.split_once(before).and_then(|(_, rest)| rest.split_once(after));
    let (value, _) = rest.unwrap_or_else(|| panic!("{file}: there is no {before:?}"));
    value.replace('_', "")
}

/// Returns `figure` with thousands separators, as in documents.
fn with_commas(figure: &str) -> String {
    let mut text = String::new();
    for (index, digit) in figure.chars().enumerate() {
        if index > 0 && (figure.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[test]
fn figures_in_documents_are_those_of_the_code() {
    let catalogue = "crates/lab/src/checker/properties/catalogue.rs";
    let of_one_run = occurrences(catalogue, "id: \"S") + occurrences(catalogue, "id: \"L");
    let runner = value("interop/src/catalogue.rs", "TESTS: [Test; ", ']');
    let measurements = 2;
    let runner = runner.parse::<usize>().expect("a number") - measurements;
    let without_patch = occurrences("gallery/rows.toml", "[[row]]");
    let fleet = "crates/lab-command/src/fleet.rs";
    let fleets = value(fleet, "value_name = \"COUNT\", default_value_t = ", ',');
    let rust = value("Cargo.toml", "rust-version = \"", '"');
    let storms = value("xtask/src/attack/storms.rs", "CONNECTIONS: u16 = ", ';');
    // A document, the phrase in it with `{}` in place of the number, and the number.
    for (document, phrase, figure) in [
        ("README.md", "{} safety and liveness properties", of_one_run.to_string()),
        ("README.md", "Linux, Rust {}", rust.clone()),
        ("CONTRIBUTING.md", "Rust {} or newer", rust.clone()),
        ("CONTRIBUTING.md", "public interop runner's {} tests", runner.to_string()),
        ("CONTRIBUTING.md", "{} connections while their server", with_commas(&storms)),
        ("CONTRIBUTING.md", "{} fleets of servers", with_commas(&fleets)),
        ("docs/fleet.md", "{} fleets of 200 servers", with_commas(&fleets)),
        ("interop/README.md", "runs the {} tests and the two measurements", runner.to_string()),
        ("gallery/README.md", "{} rows have no patch", without_patch.to_string()),
        ("fuzz/Cargo.toml", "rust-version = \"{}\"", rust.clone()),
        (".github/workflows/test.yml", "RUSTUP_TOOLCHAIN: \"{}\"", rust),
    ] {
        let text = read(document).split_whitespace().collect::<Vec<_>>().join(" ");
        let phrase = phrase.replace("{}", &figure);
        assert!(text.contains(&phrase), "{document} does not say {phrase:?}");
    }
}

/// Returns the first cells after the row's name, from the table row that begins with `name`.
fn cells(document: &str, name: &str, count: usize) -> Vec<String> {
    let text = read(document);
    let row = text.lines().find_map(|line| line.strip_prefix(name));
    let row = row.unwrap_or_else(|| panic!("{document} has no row {name:?}"));
    row.split('|').take(count).map(|cell| cell.trim().to_owned()).collect()
}

#[test]
fn figures_in_two_documents_agree() {
    let (readme, bench) = ("README.md", "bench/README.md");
    // A document and the beginning of a row in it, the same for the other document, and the number
    // of cells that must match.
    for (one, its, other, others, count) in [
        (
            readme,
            "| 1 connection, 1 at a time (busy polling) |",
            bench,
            "| requests, 1 connection, 1 at a time |",
            5,
        ),
        (readme, "| 1 connection, 100 at a time |", bench, "| 1 connection, 100 at a time |", 5),
        (readme, "| 64 connections, 1 at a time |", bench, "| 64 connections, 1 at a time |", 5),
    ] {
        assert_eq!(cells(one, its, count), cells(other, others, count), "{one} and {other}: {its}");
    }
}

/// All measured numbers in the README are from one commit, which bench/README.md states next to the
/// numbers.
#[test]
fn the_figures_of_the_readme_are_from_one_commit() {
    let commit = value("README.md", "at commit `", '`');
    let bench = read("bench/README.md").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(bench.contains(&format!("requests on those of an EPYC with AVX-512 at `{commit}`")));
    assert_eq!(occurrences("README.md", "at commit `"), 1);
}

/// The README has the same example as the crate's documentation, where it is compiled as a test.
#[test]
fn the_example_of_the_readme_is_that_of_the_library() {
    let readme = read("README.md");
    let (_, example) = readme.split_once("```rust\n").expect("an example");
    let (example, _) = example.split_once("```").expect("its end");
    let documented = |line: &str| format!("//! {line}").trim_end().to_owned();
    let example: Vec<String> = example.lines().map(documented).collect();
    let library = read("crates/clearway/src/lib.rs");
    let lines = library.lines().filter(|line| !line.starts_with("//! // "));
    let library: Vec<&str> = lines.collect();
    assert!(example.len() > 10, "{example:?}");
    assert!(library.windows(example.len()).any(|it| it == example), "{}", example.join("\n"));
}

#[test]
fn the_readme_has_at_most_700_words() {
    let words = read("README.md").split_whitespace().count();
    assert!(words <= 700, "{words} words");
}
