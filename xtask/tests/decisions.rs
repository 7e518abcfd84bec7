//! Checks the format of the decision records, and that their index lists them.

use std::path::{Path, PathBuf};

/// Maximum length of a decision record, in words.
const LONGEST: usize = 800;
/// Length in characters of the sentence that states the decision.
const SENTENCE: core::ops::RangeInclusive<usize> = 40..=200;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/decisions")
}

fn read(name: &str) -> String {
    let path = folder().join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the names of all decision records.
fn records() -> Vec<String> {
    let entries = std::fs::read_dir(folder()).expect("a folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string());
    let mut names: Vec<String> = names.map(|name| name.expect("a name in UTF-8")).collect();
    names.retain(|name| name != "README.md");
    names.sort();
    names
}

/// Returns the words of `text`, separated by single spaces.
fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns whether `text` is one sentence.
fn is_sentence(text: &str) -> bool {
    let starts = |rest: &str| rest.starts_with(|c: char| c.is_uppercase() || c == '`');
    text.ends_with('.')
        && SENTENCE.contains(&text.chars().count())
        && !text.starts_with("Status")
        && !text.split(". ").skip(1).any(starts)
}

/// Returns whether `status` is `accepted`, names the records that amend this one, or names the
/// record that replaces it.
fn is_status(status: &str, exists: impl Fn(&str) -> bool) -> bool {
    let Some(status) = status.strip_prefix("Status: ") else { return false };
    let links: Vec<&str> =
        status.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    let has_links = !links.is_empty() && links.iter().all(|link| exists(link));
    status == "accepted"
        || (status.starts_with("accepted; ") || status.starts_with("replaced by [")) && has_links
}

/// Returns a description of what is wrong with the record `name`, if anything is.
fn fault(name: &str, text: &str, exists: impl Fn(&str) -> bool) -> Option<&'static str> {
    let mut paragraphs = text.split("\n\n").map(joined);
    let mut next = || paragraphs.next().unwrap_or_default();
    let (title, sentence, status) = (next(), next(), next());
    let has_section = |section: &str| text.contains(&format!("\n## {section}\n"));
    match () {
        () if name.get(..4).is_none_or(|number| !title.starts_with(&format!("# {number}: "))) => {
            Some("the title does not begin with the number")
        }
        () if !is_sentence(&sentence) => {
            Some("the first paragraph is not one sentence of 40 to 200 characters")
        }
        () if !is_status(&status, exists) => {
            Some("the status is not 'accepted', 'accepted; …' with a link or 'replaced by' a link")
        }
        () if !has_section("Context") || !has_section("Decision") => {
            Some("the sections Context and Decision are missing")
        }
        () if text.split_whitespace().count() > LONGEST => Some("it has more than 800 words"),
        () => None,
    }
}

#[test]
fn every_record_begins_with_what_was_decided() {
    let records = records();
    assert!(records.len() > 50, "{records:?}");
    let exists = |link: &str| records.iter().any(|name| name == link);
    let faults = records.iter().filter_map(|name| {
        fault(name, &read(name), exists).map(|fault| format!("{name}: {fault}"))
    });
    let faults: Vec<String> = faults.collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The index lists the title of each record once, and says which records are replaced.
#[test]
fn every_record_is_in_their_index() {
    let index = joined(&read("README.md"));
    for name in records() {
        let text = read(&name);
        let (title, _) = text.split_once('\n').expect("a title");
        let entry = format!("- [{}]({name})", title.trim_start_matches("# "));
        assert_eq!(index.matches(&entry).count(), 1, "the index has no line {entry}");
        let status = text.split("\n\n").nth(2).map(joined).unwrap_or_default();
        if let Some((_, by)) = status.split_once("replaced by [") {
            let by = by.get(..4).expect("a number");
            let (_, after) = index.split_once(&entry).expect("the entry");
            let marks = [format!(" (partly replaced by {by})"), format!(" (replaced by {by})")];
            assert!(marks.iter().any(|mark| after.starts_with(mark)), "{entry}: by {by}");
        }
    }
}

#[test]
fn faults_of_records_are_found() {
    let good = "# 0001: A\n\nOne clock dates all samples, as RFC 9002 §5. requires it.\n\nStatus: accepted\n\n## Context\n\nA.\n\n\
        ## Decision\n\nB.\n";
    let exists = |link: &str| link == "0002-b.md";
    assert_eq!(fault("0001-a.md", good, exists), None);
    let replaced = good.replace("accepted", "replaced by [0002](0002-b.md)");
    assert_eq!(fault("0001-a.md", &replaced, exists), None);
    let long = format!("B {}", "word ".repeat(800));
    for (from, to) in [
        ("# 0001", "# 0003"),
        ("requires it.", "requires it. It is fast."),
        ("One clock dates all samples, as RFC 9002 §5. requires it.\n\n", ""),
        ("One clock dates all samples, as RFC 9002 §5. requires it.", "It."),
        ("accepted", "accepted; 0002 adds something"),
        ("accepted", "replaced by [0009](0009-c.md)"),
        ("## Decision", "## What"),
        ("B.", &long),
    ] {
        assert!(fault("0001-a.md", &good.replace(from, to), exists).is_some(), "{to}");
    }
}
