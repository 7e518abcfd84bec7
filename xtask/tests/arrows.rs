//! The modules in a folder depend on each other without cycles: no module uses, directly or through others, a module
//! that uses it.
//!
//! The test looks at the modules directly in a folder, each with everything below it except its tests. An arrow is a
//! path in the code that names another of these modules: `crate::path::…`, or `super::books::…` in a file directly in
//! the folder. A name that the folder's own file or `lib.rs` exports counts as the module that it comes from.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The folders, each with the path of its modules in its crate.
const FOLDERS: [(&str, &[&str]); 3] = [
    ("crates/transport/src", &[]),
    ("crates/lab/src", &[]),
    ("crates/lab/src/checker", &["checker"]),
];

/// For each module, by name, the modules that it uses.
type Arrows = BTreeMap<String, BTreeSet<String>>;

/// The code of a file, without comments and without the test module at its end.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let without_comment = |line: &str| line.split("//").next().unwrap_or_default().to_owned();
    text.lines().map(without_comment).collect::<Vec<_>>().join("\n")
}

/// Splits `text` at the commas outside of inner groups.
fn members(text: &str) -> Vec<&str> {
    let (mut depth, mut begin, mut found) = (0_u32, 0, Vec::new());
    for (at, sign) in text.char_indices() {
        match sign {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                found.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    found.push(&text[begin..]);
    found
}

/// The content of the group in braces that `text` begins with.
fn group(text: &str) -> &str {
    let mut depth = 0_u32;
    for (at, sign) in text.char_indices() {
        match sign {
            '{' => depth += 1,
            '}' if depth == 1 => return &text[1..at],
            '}' => depth -= 1,
            _ => {}
        }
    }
    text
}

/// The first names of `text`, which follows a path's `::`: one, or those of a group.
fn first_names(text: &str) -> Vec<String> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let first =
        |text: &str| -> String { text.trim().chars().take_while(|c| is_of_name(*c)).collect() };
    match text.starts_with('{') {
        true => members(group(text)).into_iter().map(first).collect(),
        false => vec![first(text)],
    }
}

/// The names that follow `prefix` wherever a path in `code` begins with it.
fn names_after(code: &str, prefix: &str) -> Vec<String> {
    let begins_here = |at: &usize| {
        let before = code[..*at].chars().next_back();
        before.is_none_or(|c| !c.is_ascii_alphanumeric() && c != '_' && c != ':')
    };
    let found = code.match_indices(prefix).map(|(at, _)| at).filter(begins_here);
    found.flat_map(|at| first_names(&code[at + prefix.len()..])).collect()
}

/// The names that a folder's own file exports, each with the module that it comes from.
fn exports(code: &str, modules: &BTreeSet<String>) -> BTreeMap<String, String> {
    let mut exports = BTreeMap::new();
    for statement in code.split(';').filter_map(|it| it.split_once("use ")).map(|(_, it)| it) {
        let statement = statement.trim().trim_start_matches("self::");
        let Some((module, rest)) = statement.split_once("::") else { continue };
        if modules.contains(module) {
            let names = if rest.starts_with('{') { members(group(rest)) } else { vec![rest] };
            let last = |name: &&str| name.rsplit([' ', ':']).next().unwrap_or_default().to_owned();
            let names = names.iter().map(|name| name.trim()).collect::<Vec<_>>();
            exports.extend(names.iter().map(|name| (last(name), module.to_owned())));
        }
    }
    exports
}

fn is_of_tests(path: &Path) -> bool {
    let is_tests = |part: &str| {
        let name = part.strip_suffix(".rs").unwrap_or(part);
        name == "tests" || name == "testing" || name.ends_with("_tests")
    };
    path.iter().filter_map(|part| part.to_str()).any(is_tests)
}

/// All Rust files in `folder` and below, except tests.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("the folder exists") {
        let path = entry.expect("the folder can be read").path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.retain(|path| !is_of_tests(path.strip_prefix(root()).unwrap_or(path)));
    files
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace is the parent folder")
}

/// The module that a file of `folder` belongs to; `None` for the crate's own file.
fn module_of(folder: &Path, file: &Path) -> Option<String> {
    let first = file.strip_prefix(folder).ok()?.iter().next()?.to_str()?;
    let name = first.strip_suffix(".rs").unwrap_or(first);
    (!["lib", "main"].contains(&name)).then(|| name.to_owned())
}

fn arrows(folder: &Path, path: &[&str]) -> Arrows {
    let files = files(folder);
    let modules: BTreeSet<String> =
        files.iter().filter_map(|file| module_of(folder, file)).collect();
    let read = |file: &Path| code(&fs::read_to_string(file).expect("the file can be read"));
    let own = folder.with_extension("rs");
    let own = if own.is_file() { own } else { folder.join("lib.rs") };
    let exports = exports(&read(&own), &modules);
    let absolute = path.iter().fold("crate::".to_owned(), |sum, part| format!("{sum}{part}::"));
    let mut arrows: Arrows = modules.iter().map(|it| (it.clone(), BTreeSet::new())).collect();
    for file in &files {
        let Some(module) = module_of(folder, file) else { continue };
        let code = read(file);
        let mut names = names_after(&code, &absolute);
        let depth = file.strip_prefix(folder).map_or(0, |file| file.iter().count());
        names.extend(names_after(&code, &"super::".repeat(depth)));
        let used = names.into_iter().filter_map(|name| match modules.contains(&name) {
            true => Some(name),
            false => exports.get(&name).cloned(),
        });
        let used: Vec<String> = used.filter(|used| *used != module).collect();
        arrows.entry(module).or_default().extend(used);
    }
    arrows
}

/// The modules that cannot be put into an order in which each uses only those before it: a cycle, and what uses it.
fn cycle(mut arrows: Arrows) -> Arrows {
    loop {
        let is_free = |used: &BTreeSet<String>| used.is_empty();
        let free: Vec<String> =
            arrows.iter().filter(|(_, used)| is_free(used)).map(|(it, _)| it.clone()).collect();
        if free.is_empty() {
            return arrows;
        }
        for module in free {
            arrows.remove(&module);
            for used in arrows.values_mut() {
                used.remove(&module);
            }
        }
    }
}

#[test]
fn modules_of_a_folder_have_no_cycles() {
    for (folder, path) in FOLDERS {
        let arrows = arrows(&root().join(folder), path);
        assert!(arrows.values().map(BTreeSet::len).sum::<usize>() > 20, "{folder}: {arrows:#?}");
        assert_eq!(
            cycle(arrows),
            Arrows::new(),
            "{folder}: these modules use each other in a cycle"
        );
    }
}

/// The checker's rules may use its books and the definition of a rule, but not other rules or the code that runs them.
#[test]
fn a_rule_uses_only_the_books_and_the_definition_of_a_rule() {
    let arrows = arrows(&root().join("crates/lab/src/checker"), &["checker"]);
    for rules in ["safety", "liveness"] {
        assert_eq!(arrows.get(rules), Some(&set(&["books", "properties", "rule"])), "{rules}");
    }
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn paths_and_exports_are_parsed() {
    let code = code("use crate::{a::B, c};\n// crate::d\nlet e = crate::e::F; not_crate::g::H;\n");
    assert_eq!(names_after(&code, "crate::"), ["a", "c", "e"]);
    let modules = set(&["a", "b"]);
    let exports = exports("mod a;\npub use a::{B, C as D};\npub(crate) use b::E;\n", &modules);
    let module = |name: &str| exports.get(name).map(String::as_str);
    assert_eq!([module("B"), module("D"), module("E")], [Some("a"), Some("a"), Some("b")]);
}

#[test]
fn a_cycle_is_detected() {
    let mut arrows = Arrows::from([
        ("a".to_owned(), set(&["b"])),
        ("b".to_owned(), set(&["c"])),
        ("c".to_owned(), set(&[])),
    ]);
    assert_eq!(cycle(arrows.clone()), Arrows::new());
    arrows.insert("c".to_owned(), set(&["a"]));
    assert_eq!(cycle(arrows).len(), 3);
}
