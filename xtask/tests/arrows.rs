//! The modules of a room use each other one way: no module uses, itself or through others, one that uses it.
//!
//! Looked at are the modules directly in a folder, each with all that lies below it but its tests. An arrow is a path
//! in the code that names another of these modules: `crate::path::…`, or `super::books::…` in a file directly in the
//! folder. A name that the folder's own file or `lib.rs` exports counts as the module that it comes from.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The rooms, each with the path of its modules in its crate.
const ROOMS: [(&str, &[&str]); 3] = [
    ("crates/transport/src", &[]),
    ("crates/lab/src", &[]),
    ("crates/lab/src/checker", &["checker"]),
];

/// Which modules a module uses, by name.
type Arrows = BTreeMap<String, BTreeSet<String>>;

/// The code of a file, without comments, texts, and what stands for tests only at its end.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let without_comment = |line: &str| line.split("//").next().unwrap_or_default().to_owned();
    text.lines().map(without_comment).collect::<Vec<_>>().join("\n")
}

/// Splits `text` at commas that are in no inner group.
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

/// What the group that `text` begins with holds, up to its end.
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

/// The names that follow `prefix` wherever it stands in `code` as a path of its own.
fn names_after(code: &str, prefix: &str) -> Vec<String> {
    let begins_here = |at: &usize| {
        let before = code[..*at].chars().next_back();
        before.is_none_or(|c| !c.is_ascii_alphanumeric() && c != '_' && c != ':')
    };
    let found = code.match_indices(prefix).map(|(at, _)| at).filter(begins_here);
    found.flat_map(|at| first_names(&code[at + prefix.len()..])).collect()
}

/// What a folder's own file exports of its modules: the name, and the module.
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

/// All Rust files in `folder` and below, but the tests.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("the folder is there") {
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
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace is above")
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

/// The modules that cannot be put into an order in which each uses only those before it.
fn circle(mut arrows: Arrows) -> Arrows {
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
fn modules_of_a_room_use_each_other_one_way() {
    for (room, path) in ROOMS {
        let arrows = arrows(&root().join(room), path);
        assert!(arrows.values().map(BTreeSet::len).sum::<usize>() > 20, "{room}: {arrows:#?}");
        assert_eq!(circle(arrows), Arrows::new(), "{room}: these use each other in a circle");
    }
}

/// The checker's rules need its books, and what a rule is; never another rule, or what asks them.
#[test]
fn a_rule_needs_its_books_and_nothing_else() {
    let arrows = arrows(&root().join("crates/lab/src/checker"), &["checker"]);
    for rules in ["safety", "liveness"] {
        assert_eq!(arrows.get(rules), Some(&set(&["books", "properties", "rule"])), "{rules}");
    }
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn paths_are_read() {
    let code = code("use crate::{a::B, c};\n// crate::d\nlet e = crate::e::F; not_crate::g::H;\n");
    assert_eq!(names_after(&code, "crate::"), ["a", "c", "e"]);
    let modules = set(&["a", "b"]);
    let exports = exports("mod a;\npub use a::{B, C as D};\npub(crate) use b::E;\n", &modules);
    let module = |name: &str| exports.get(name).map(String::as_str);
    assert_eq!([module("B"), module("D"), module("E")], [Some("a"), Some("a"), Some("b")]);
}

#[test]
fn a_circle_is_seen() {
    let mut arrows = Arrows::from([
        ("a".to_owned(), set(&["b"])),
        ("b".to_owned(), set(&["c"])),
        ("c".to_owned(), set(&[])),
    ]);
    assert_eq!(circle(arrows.clone()), Arrows::new());
    arrows.insert("c".to_owned(), set(&["a"]));
    assert_eq!(circle(arrows).len(), 3);
}
