//! Checks that programs print only through `clearway_terminal`, which escapes untrusted text. All
//! other code that writes to standard output or standard error is listed here, with the reason why
//! its output need not be escaped.

use std::fs;
use std::path::{Path, PathBuf};

/// The folders with the source code of programs.
const FOLDERS: [&str; 7] = [
    "crates/cli/src",
    "crates/doctor/src",
    "crates/lab-command/src",
    "crates/terminal/src",
    "interop/namespaces/src",
    "interop/src",
    "xtask/src",
];

/// Expressions that print, or that refer to an output stream.
const SIGNS: [&str; 10] = [
    "print!(",
    "println!(",
    "io::stdout()",
    "io::stderr()",
    " stdout()",
    "(stdout()",
    "Stdout",
    "error.print()",
    "dbg!(",
    "/dev/tty",
];

/// The files in which expressions that print are allowed, and why.
const PERMITTED: [(&str, &str, &str); 21] = [
    ("crates/cli/src/demo/display.rs", "io::stderr()", "checks whether it is a terminal"),
    (
        "crates/cli/src/doctor/watch/terminal.rs",
        "io::stdout()",
        "draws cells, whose symbols are escaped",
    ),
    ("crates/cli/src/doctor/watch/terminal.rs", "Stdout", "draws cells, whose symbols are escaped"),
    ("crates/cli/src/lib.rs", "error.print()", "output::refusal has checked the text"),
    (
        "crates/cli/src/qlog/convert.rs",
        "io::stdout()",
        "JSON in which `clearway_qlog` has escaped all text",
    ),
    ("crates/cli/src/view/progress.rs", "io::stderr()", "checks whether it is a terminal"),
    ("crates/lab-command/src/main.rs", "error.print()", "output::refusal has checked the text"),
    ("crates/lab-command/src/progress.rs", "io::stderr()", "checks whether it is a terminal"),
    (
        "crates/terminal/src/bars.rs",
        "io::stderr()",
        "queries its size; output::frame draws the bars",
    ),
    ("crates/cli/src/system/unix.rs", "io::stdout()", "content that the user requested"),
    ("crates/cli/src/system/windows.rs", "io::stdout()", "content that the user requested"),
    ("crates/terminal/src/output.rs", "io::stderr()", "the sink"),
    ("crates/terminal/src/output.rs", "io::stdout()", "the sink"),
    ("crates/terminal/src/system/unix.rs", "io::stderr()", "queries its size"),
    ("crates/terminal/src/system/unix.rs", "io::stdout()", "queries its size"),
    ("interop/src/lib.rs", "error.print()", "output::refusal has checked the text"),
    ("xtask/src/book.rs", "io::stdout()", "JSON in which `serde_json` has escaped all text"),
    ("xtask/src/bench/stacks.rs", "io::stderr()", "inherited by a child process"),
    ("xtask/src/doctor/reader.rs", " stdout()", "flushes it"),
    ("xtask/src/main.rs", "error.print()", "output::refusal has checked the text"),
    ("xtask/src/measure.rs", "Stdout", "a child process's output, which is read"),
];

/// The programs that print with the macros of `clearway_terminal`, which have the same names as the
/// standard library's macros.
const WITH_MACROS: [(&str, &str); 2] = [("interop/src", "lib.rs"), ("xtask/src", "main.rs")];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).expect("a folder of sources");
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        let is_of_tests =
            path.file_stem().is_some_and(|name| name.to_string_lossy().ends_with("_tests"));
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !is_of_tests {
            found.push(path);
        }
    }
}

/// Returns the lines of a file without comments and without the test module at the end.
fn code(text: &str) -> impl Iterator<Item = &str> {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    code.lines().map(|line| line.split("//").next().unwrap_or_default())
}

#[test]
fn programs_print_only_what_is_escaped() {
    let mut seen = Vec::new();
    for folder in FOLDERS {
        let has_macros = WITH_MACROS.iter().any(|(of, _)| *of == folder);
        let mut files = Vec::new();
        sources(&root().join(folder), &mut files);
        assert!(!files.is_empty(), "{folder}");
        for file in files {
            let text = fs::read_to_string(&file).expect("a source");
            let name = file.strip_prefix(root()).expect("a path in the tree").display().to_string();
            for line in code(&text) {
                for sign in SIGNS.iter().filter(|sign| line.contains(**sign)) {
                    if has_macros && sign.ends_with("!(") && !line.contains("std::") {
                        continue;
                    }
                    seen.push((name.clone(), (*sign).to_owned()));
                }
            }
        }
    }
    let is_permitted = |(name, sign): &&(String, String)| {
        PERMITTED.iter().any(|(file, permitted, _)| file == name && permitted == sign)
    };
    let others: Vec<_> = seen.iter().filter(|it| !is_permitted(it)).collect();
    assert!(
        others.is_empty(),
        "print with clearway_terminal, or list the exception with its reason: {others:#?}"
    );
    for (file, sign, why) in PERMITTED {
        let is_there = seen.iter().any(|(name, seen)| name == file && seen == sign);
        assert!(is_there, "{file} has no {sign} any more ({why}): remove it from the list");
    }
}

/// Programs must import the macros that escape: otherwise the same names refer to the standard
/// library's macros, which escape nothing.
#[test]
fn the_macros_are_those_that_escape() {
    for (folder, file) in WITH_MACROS {
        let text = fs::read_to_string(root().join(folder).join(file)).expect("a source");
        assert!(text.contains("extern crate clearway_terminal;"), "{folder}/{file}");
        let imported = text.split("#[macro_use(").nth(1).and_then(|rest| rest.split(')').next());
        let imported: Vec<_> = imported.unwrap_or_default().split(", ").collect();
        let mut files = Vec::new();
        sources(&root().join(folder), &mut files);
        for source in files {
            let text = fs::read_to_string(&source).expect("a source");
            for name in ["eprint", "eprintln", "print", "println"] {
                let call = format!("{name}!(");
                let is_used = code(&text).any(|line| {
                    let mut uses = line.match_indices(&call).map(|(at, _)| at);
                    uses.any(|at| !line[..at].ends_with(|c: char| c.is_ascii_alphanumeric()))
                });
                assert!(!is_used || imported.contains(&name), "{}: {name}", source.display());
            }
        }
    }
}
