//! Checks that every path in a document exists.
//!
//! The test reads all Markdown files of the repository: link targets, code spans, and the words of
//! code blocks. A code span or a word is considered a path if it consists only of letters, digits
//! and `/ . _ - +`, and either ends in a known extension or in `/`, or begins with a folder in the
//! root. Therefore addresses, patterns with `*`, command lines and units (`bytes/s`) are not paths.
//! A path may start at the root, at the document's folder, or at a crate's `src`, with or without
//! the crate's name: `recovery/rtt.rs` and `transport/recovery/rtt.rs` are both
//! `crates/transport/src/recovery/rtt.rs`. A name without `/` matches any file with that name.
//! Paths in `target/` are accepted, since builds create them, and so are files that the document
//! itself creates, which a comment `<!-- file: NAME -->` lists. A link is relative to the
//! document's folder, and its fragment is a heading of its target.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The file extensions of the repository's own files. Certificates, traces and JSON files are
/// mostly written by commands.
const EXTENSIONS: [&str; 12] =
    ["rs", "md", "toml", "ts", "mjs", "sh", "py", "go", "svg", "png", "patch", "trace"];

struct Repository {
    files: BTreeSet<String>,
    folders: BTreeSet<String>,
}

impl Repository {
    fn new(files: BTreeSet<String>) -> Self {
        let mut folders = BTreeSet::new();
        for file in &files {
            folders.extend(file.match_indices('/').map(|(end, _)| file[..end].to_owned()));
        }
        Self { files, folders }
    }

    /// Returns all existing files that git does not ignore.
    fn here() -> Self {
        let mut git = Command::new("git");
        git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let output = git.current_dir(root()).output().expect("git can be run");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let names = String::from_utf8(output.stdout).expect("names are text");
        let names = names.split_terminator('\0').filter(|name| root().join(name).exists());
        Self::new(names.map(str::to_owned).collect())
    }

    fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        self.files.contains(path) || self.folders.contains(path) || path.starts_with("target/")
    }

    /// Returns whether `text` looks like a path.
    fn is_path(&self, text: &str) -> bool {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
        if text.starts_with(['/', '-']) || !text.chars().all(is_plain) {
            return false;
        }
        let (first, name) = (text.split('/').next(), text.rsplit('/').next());
        let extension = name.and_then(|name| name.rsplit_once('.'));
        extension.is_some_and(|(stem, end)| !stem.is_empty() && EXTENSIONS.contains(&end))
            || text.contains('/')
                && (text.ends_with('/') || first.is_some_and(|first| self.folders.contains(first)))
    }

    /// Returns whether `path`, as written by a document in `folder`, exists.
    fn resolves(&self, folder: &str, path: &str) -> bool {
        let crates = self.folders.iter().filter(|folder| folder.starts_with("crates/"));
        let sources = crates.filter(|folder| folder.ends_with("/src"));
        let after_its_name =
            path.split_once('/').map(|(name, rest)| format!("crates/{name}/src/{rest}"));
        self.has(&join("", path))
            || self.has(&join(folder, path))
            || after_its_name.is_some_and(|path| self.has(&path))
            || sources.into_iter().any(|source| self.has(&join(source, path)))
            || !path.contains('/')
                && self.files.iter().any(|file| file.ends_with(&format!("/{path}")))
    }

    /// Returns what is wrong with the link to `target` in `document`, if anything is.
    fn fault_of_link(&self, document: &str, target: &str) -> Option<&'static str> {
        let (path, fragment) = target.split_once('#').unwrap_or((target, ""));
        let place =
            if path.is_empty() { document.to_owned() } else { join(folder_of(document), path) };
        if !self.has(&place) {
            return Some("does not exist");
        }
        let is_checked = !fragment.is_empty() && place.ends_with(".md");
        (is_checked && !headings(&read(&place)).contains(fragment))
            .then_some("is not a heading of that document")
    }

    /// Returns a line for each path and link in `text`, the content of `document`, whose target
    /// does not exist.
    fn faults(&self, document: &str, text: &str) -> Vec<String> {
        let mut faults = Vec::new();
        let mut is_fenced = false;
        let created: BTreeSet<&str> = files_created_by(text).collect();
        for (number, line) in (1..).zip(text.lines()) {
            is_fenced ^= line.starts_with("```");
            let is_block = is_fenced || line.starts_with("    ");
            let names: Vec<&str> = if is_block {
                line.split_whitespace()
                    .map(|word| word.trim_matches([',', ';', ':', '(', ')']))
                    .collect()
            } else {
                line.split('`').skip(1).step_by(2).chain(texts_of_links(line)).collect()
            };
            let missing = names.into_iter().filter(|name| {
                self.is_path(name) && !created.contains(name.trim_start_matches("./"))
            });
            let missing = missing.filter(|name| !self.resolves(folder_of(document), name));
            faults
                .extend(missing.map(|name| format!("{document}:{number}: {name} does not exist")));
            let links = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            for link in links.filter(|link| !is_block && !link.contains(':')) {
                let fault = self.fault_of_link(document, link);
                faults.extend(fault.map(|fault| format!("{document}:{number}: {link} {fault}")));
            }
        }
        faults
    }
}

/// Returns the files that a document's commands create, according to its comments.
fn files_created_by(text: &str) -> impl Iterator<Item = &str> {
    let comments = text.lines().filter_map(|line| line.trim().strip_prefix("<!-- file: "));
    comments.filter_map(|rest| rest.strip_suffix(" -->"))
}

/// Returns the link texts in a line.
fn texts_of_links(line: &str) -> impl Iterator<Item = &str> {
    let before = line.match_indices("](").map(|(at, _)| line.get(..at).unwrap_or_default());
    before.filter_map(|before| before.rsplit_once('[').map(|(_, text)| text))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the root")
}

fn read(document: &str) -> String {
    fs::read_to_string(root().join(document)).unwrap_or_else(|error| panic!("{document}: {error}"))
}

fn folder_of(document: &str) -> &str {
    document.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Resolves `path` relative to `folder`, without `.` and `..`.
fn join(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Returns the fragments that link to the headings of `text`.
fn headings(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter_map(|line| line.trim_start_matches('#').strip_prefix(' '));
    let kept = |c: &char| c.is_alphanumeric() || "-_ ".contains(*c);
    let slug =
        |heading: &str| heading.trim().to_lowercase().chars().filter(kept).collect::<String>();
    headings.map(|heading| slug(heading).replace(' ', "-")).collect()
}

#[test]
fn every_path_that_a_document_names_exists() {
    let repository = Repository::here();
    let documents: Vec<&String> =
        repository.files.iter().filter(|file| file.ends_with(".md")).collect();
    assert!(documents.len() > 10, "{documents:?}");
    let faults = documents.iter().flat_map(|document| repository.faults(document, &read(document)));
    let faults: Vec<String> = faults.collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn paths_are_distinguished_from_other_code_spans() {
    let files = ["docs/a.md", "crates/transport/src/recovery/rtt.rs", "xtask/src/main.rs"];
    let repository = Repository::new(files.map(str::to_owned).into());
    let good = "`docs/a.md` `a.md` `transport/recovery/rtt.rs` `recovery/rtt.rs` `recovery/` `../xtask/src` \
        `tests/*.rs` `https://example.org/a.md` `bytes/s` `cargo test a/b.rs` `section/9.rs:12` `0.3` `/zero/N` \
        `target/x.rs` `run.sqlog` `.toml` [b](https://example.org/b.md) [a](a.md)\n    view target/demo/x.rs main.rs\n\
        <!-- file: c.toml -->\n```sh\nlab run ./c.toml\n```\n";
    assert_eq!(repository.faults("docs/a.md", good), Vec::<String>::new());
    for bad in [
        "`recovery/limit.rs`",
        "`limit.rs`",
        "`docs/b`",
        "`nowhere/`",
        "[b](b.md)",
        "[docs/b.md](a.md)",
        "    from b/c.rs,",
    ] {
        assert_eq!(repository.faults("docs/a.md", bad).len(), 1, "{bad}");
    }
}
