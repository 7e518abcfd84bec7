//! Checks that comments, documents, help texts and messages do not contain phrases that a native
//! engineer would not write.
//!
//! These patterns find only the mechanical cases. A hit that reads well is listed in
//! `prose/permitted.txt`, one per line: the file, a colon, and the phrase.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::{fs, str};

use fancy_regex::Regex;

/// Patterns of phrases to rewrite, with the reason for each.
const PATTERNS: [(&str, &str); 13] = [
    (
        "clause without its noun",
        "^(With|Of|For|To|By|From|In|At|On|After|Until) (which|whom|what) ",
    ),
    ("clause without its noun", r"^(That|Those|The one|The ones) (of|that|which|who|with|for)\b"),
    ("clause without its noun", r"^(Who|Whom|Whose|Whoever|Which)\b(?!.*\?)"),
    ("quantity without its noun", r"(?i)^So (many|much|long|often|large|far)\b"),
    (
        "of instead of a compound",
        r"(?i)\b(datagrams?|packets?|sockets?|connections?|streams?|frames?|headers?|multicast|checksums?|lengths?|versions?|requests?) of (UDP|QUIC|TCP|TLS|HTTP/3|HTTP|QPACK|QUIC-LB|AF_XDP|IPv6|IPv4|ICMP)\b",
    ),
    (
        "of instead of a compound",
        r"(?i)\b(is|are|was|were) of (QUIC-LB|version|the (client|server|peer|connection|shard|balancer)|no|one|another|others?)\b",
    ),
    (
        "dated or literary word",
        r"(?i)\b(anew|in vain|for good|but for|save for|to himself|thereof|whereof|hence|thus far|lest|wherever its|at last|by and by|of late|nought|aught|heritage|offshoots?)\b",
    ),
    ("somebody is told", r"(?i)\b(is|are|was|were|be|been) (told|asked|given to understand)\b"),
    (
        "personified program",
        r"(?i)\b(tells no|tells the time|knows nothing|knows of|goes on (as|to|with)|obeys?|takes care|is content|is glad|wishes|its own wish|believes?|forgets? (it|its|a|the) connection)\b",
    ),
    (
        "negation by 'no'",
        r"(?i)(?<!there )\b(is|are|was|were) (no|none of|nothing of) (?!longer|more|one\b|such)\w+",
    ),
    (
        "vague pronoun",
        r"(?i)\b(that|those) (from|of) (before|the (one|ones|former|latter|first|second))\b|\b(these|those) (are|have|do) (so|as many|it)\b",
    ),
    (
        "'lies' or 'stands' for 'is'",
        r"(?i)\b(lies?|stands?|lay|stood) (in|at|on|beside|under|there|here)\b",
    ),
    (
        "'as … permits' clause",
        r"(?i)\bas (much|many|large|short|long) as (\w+ ){0,4}(permits?|allows?)\b",
    ),
];

static COMPILED: LazyLock<Vec<(&str, Regex)>> = LazyLock::new(|| {
    PATTERNS.iter().map(|(fault, pattern)| (*fault, Regex::new(pattern).unwrap())).collect()
});

/// Extensions of files that contain text.
const EXTENSIONS: [&str; 6] = ["rs", "md", "ts", "toml", "sh", "yml"];

/// Files that are not checked: third-party files, generated files, and the patterns themselves.
const SKIPPED: [&str; 6] = [
    "interop/peers/",
    "fuzz/corpus/",
    "docs/surface/",
    "CHANGELOG.md",
    "Cargo.lock",
    "xtask/tests/prose",
];

const PERMITTED: &str = include_str!("prose/permitted.txt");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the parts of a line that people read: a comment, long strings, or a line of a document.
fn prose(extension: &str, line: &str) -> Option<String> {
    let line = line.trim();
    match extension {
        "md" => Some(line.trim_matches([' ', '-', '*', '|', '#', '>']).to_owned()),
        "toml" | "sh" | "yml" => {
            Some(line.strip_prefix('#')?.trim_start_matches(['#', '!', ' ']).to_owned())
        }
        _ => match line.strip_prefix("//").or_else(|| line.strip_prefix('*')) {
            Some(comment) => Some(comment.trim_start_matches(['/', '!']).trim().to_owned()),
            None => Some(strings(line).join(" ")).filter(|text| !text.is_empty()),
        },
    }
}

/// Returns the strings in a line that are long enough to be messages.
fn strings(line: &str) -> Vec<&str> {
    static STRING: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#""((?:[^"\\]|\\.){18,})""#).unwrap());
    let found = STRING.captures_iter(line).filter_map(Result::ok);
    found.filter_map(|found| Some(found.get(1)?.as_str())).collect()
}

/// Returns the offending phrase in a text, with the reason.
fn fault(text: &str) -> Option<(&'static str, &str)> {
    COMPILED.iter().find_map(|(fault, pattern)| {
        let hit = pattern.find(text).unwrap()?;
        Some((*fault, hit.as_str()))
    })
}

/// Returns the hits in all files of the repository: file, line, reason and phrase.
fn hits() -> Vec<(String, usize, &'static str, String)> {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output().unwrap();
    let names = str::from_utf8(&listed.stdout).unwrap().split_terminator('\0');
    let mut hits = Vec::new();
    for name in names {
        let Some((_, extension)) = name.rsplit_once('.') else { continue };
        let is_skipped = SKIPPED.iter().any(|skipped| name.starts_with(skipped));
        if is_skipped || !EXTENSIONS.contains(&extension) {
            continue;
        }
        // A file that was just deleted is still in the list.
        let Ok(text) = fs::read_to_string(root().join(name)) else { continue };
        for (number, line) in text.lines().enumerate() {
            if let Some(text) = prose(extension, line)
                && let Some((fault, phrase)) = fault(&text)
            {
                hits.push((name.to_owned(), number + 1, fault, phrase.to_owned()));
            }
        }
    }
    hits
}

#[test]
fn no_text_uses_a_phrase_to_rewrite() {
    let permitted: BTreeSet<&str> = PERMITTED.lines().filter(|line| !line.is_empty()).collect();
    let (mut used, mut faults) = (BTreeSet::new(), Vec::new());
    for (file, line, fault, phrase) in hits() {
        match permitted.get(format!("{file}: {phrase}").as_str()) {
            Some(entry) => {
                used.insert(*entry);
            }
            None => faults.push(format!("{file}:{line}: {fault}: \"{phrase}\"")),
        }
    }
    let unused = permitted.difference(&used);
    faults.extend(unused.map(|entry| format!("not found, remove it from the list: {entry}")));
    assert!(faults.is_empty(), "rewrite these:\n{}", faults.join("\n"));
}

#[test]
fn phrases_are_found_in_comments_documents_and_messages() {
    let phrase = |extension: &str, line: &str| {
        let text = prose(extension, line)?;
        fault(&text).map(|(_, phrase)| phrase.to_owned())
    };
    assert_eq!(phrase("rs", "    /// Those of one kind.").as_deref(), Some("Those of"));
    assert_eq!(phrase("md", "| a datagram of UDP |").as_deref(), Some("datagram of UDP"));
    assert_eq!(
        phrase("rs", r#"    say("the server is told to stop");"#).as_deref(),
        Some("is told")
    );
    assert_eq!(phrase("toml", "# A is no B").as_deref(), Some("is no B"));
    assert_eq!(phrase("rs", "// There is no B, and A is no longer C."), None);
    assert_eq!(phrase("rs", "let is_told = of_udp;"), None);
    assert_eq!(phrase("rs", r#"short("is told")"#), None);
}
