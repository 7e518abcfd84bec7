//! Checks that the subjects of new commits have the form `area: imperative` and at most 72
//! characters.

use std::path::Path;
use std::process::Command;

/// The last commit before the rule was introduced.
const BEFORE: &str = "64478f99";
/// Maximum length of a subject in characters.
const LONGEST: usize = 72;

/// Returns a description of what is wrong with a subject, if anything is.
fn fault(subject: &str) -> Option<&'static str> {
    let Some((areas, what)) = subject.split_once(": ") else {
        return Some("no area before a colon");
    };
    let is_area = |area: &str| {
        !area.is_empty() && area.chars().all(|c| c.is_ascii_alphanumeric() || "-_/.".contains(c))
    };
    let first = what.split_whitespace().next().unwrap_or_default();
    match () {
        () if subject.chars().count() > LONGEST => Some("longer than 72 characters"),
        () if !areas.split(", ").all(is_area) => Some("an area is not a crate or folder"),
        () if !first.starts_with(|c: char| c.is_ascii_lowercase()) => {
            Some("the text after the area does not begin with a lower-case verb")
        }
        () if subject.ends_with('.') => Some("a full stop at the end"),
        () => None,
    }
}

#[test]
fn new_commits_have_an_area_and_a_short_subject() {
    let log = |range: &str| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut git = Command::new("git");
        let output = git.args(["log", "--no-merges", "--format=%s", range]).current_dir(root);
        let output = output.output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    };
    // A shallow clone contains only the last commit; an archive contains none.
    let subjects = log(&format!("{BEFORE}..HEAD")).or_else(|| log("HEAD^!")).unwrap_or_default();
    let faults: Vec<String> = subjects
        .lines()
        .filter_map(|subject| Some(format!("{subject}: {}", fault(subject)?)))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn subjects_without_an_area_or_too_long_are_noticed() {
    for good in ["io: batch datagrams of several connections", "xtask, interop: remove a flag"] {
        assert_eq!(fault(good), None, "{good}");
    }
    let long = format!("io: {}", "a".repeat(69));
    for bad in ["Batch datagrams", "io: Batch datagrams", "io: batch.", "I do this: add", &long] {
        assert!(fault(bad).is_some(), "{bad}");
    }
}
