//! Dependency rules: the modules in a folder have no cyclic dependencies, the parts of `transport`
//! do not use each other, and a crate uses only crates in lower layers, as drawn in
//! ARCHITECTURE.md.
//!
//! An arrow leads from one module of a folder to another if anything in the first module, at any
//! depth, refers to something that is defined in the second. Tests are ignored. The folder's own
//! file belongs to none of the modules: it may use them, and they may use it.

#[path = "arrows/tree.rs"]
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use tree::{Names, Tree};

/// For each module of a folder, the modules that it uses, and where.
type Arrows = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// A permitted arrow that violates a dependency rule.
struct Exception {
    /// The crate's folder.
    member: &'static str,
    /// The module that uses the other modules.
    from: &'static str,
    /// The modules that are used.
    to: &'static [&'static str],
    reason: &'static str,
}

/// The permitted exceptions. There may be at most five: more would mean that a rule is wrong.
const EXCEPTIONS: [Exception; 1] = [Exception {
    member: "crates/transport",
    from: "config",
    to: &["datagram", "path", "streams"],
    reason: "converts the application's settings to those of each part, so that each setting is defined once",
}];

/// The parts of `transport`, which must not use each other.
const PARTS: [&str; 8] =
    ["ack_frequency", "datagram", "handshake", "ids", "path", "recovery", "space", "streams"];
/// The modules of `transport` that combine the parts.
const USERS_OF_PARTS: [&str; 2] = ["connection", "endpoint"];
/// The modules that all parts of `transport` may use.
const COMMON: [&str; 14] = [
    "address",
    "config",
    "contents",
    "crypto",
    "drops",
    "ecn",
    "error",
    "event",
    "observer",
    "packable",
    "send_failure",
    "side",
    "space_id",
    "token",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace is the parent folder")
}

/// Returns the names of the folders in `crates/`.
fn crates() -> Vec<String> {
    let entries = fs::read_dir(root().join("crates")).expect("the folder can be read");
    let names = entries.map(|entry| entry.expect("the entry can be read").file_name());
    names.map(|name| name.into_string().expect("the name is in UTF-8")).collect()
}

/// Returns the root files of all crates in the workspace, each with its crate's folder.
fn roots() -> Vec<(String, PathBuf)> {
    let others = ["bench", "examples/apps", "interop", "interop/namespaces", "limits", "xtask"]
        .map(str::to_owned);
    let members = crates().into_iter().map(|name| format!("crates/{name}")).chain(others);
    let files = members.flat_map(|member| {
        let source = root().join(&member).join("src");
        let mut files = vec![source.join("lib.rs"), source.join("main.rs")];
        if let Ok(programs) = fs::read_dir(source.join("bin")) {
            files.extend(programs.map(|program| program.expect("it can be read").path()));
        }
        files.into_iter().filter(|file| file.is_file()).map(move |file| (member.clone(), file))
    });
    files.collect()
}

/// Returns the arrows inside each folder of a crate.
fn arrows(tree: &Tree) -> BTreeMap<Names, Arrows> {
    let mut folders: BTreeMap<Names, Arrows> = BTreeMap::new();
    for path in tree.0.keys() {
        if let Some((name, folder)) = path.split_last() {
            folders.entry(folder.to_vec()).or_default().entry(name.clone()).or_default();
        }
    }
    for (path, module) in &tree.0 {
        for used in &module.used {
            let target = tree.module_of(used);
            let common = path.iter().zip(&target).take_while(|(own, other)| own == other).count();
            // Otherwise, one of the modules contains the other.
            if let (Some(from), Some(to)) = (path.get(common), target.get(common)) {
                let folder = folders.entry(path[..common].to_vec()).or_default();
                let uses = folder.entry(from.clone()).or_default().entry(to.clone()).or_default();
                uses.insert(format!("{} uses {}", path.join("::"), used.join("::")));
            }
        }
    }
    folders
}

/// Returns the arrows that are part of a cycle: those from whose head other arrows lead back to the
/// tail.
fn cycles(arrows: &Arrows) -> Arrows {
    let leads_back = |from: &String, to: &String| {
        let (mut reached, mut left) = (BTreeSet::new(), vec![to]);
        while let Some(module) = left.pop() {
            if reached.insert(module) {
                left.extend(arrows.get(module).into_iter().flat_map(BTreeMap::keys));
            }
        }
        reached.contains(from)
    };
    let mut cycles = arrows.clone();
    for (from, uses) in &mut cycles {
        uses.retain(|to, _| leads_back(from, to));
    }
    cycles.retain(|_, uses| !uses.is_empty());
    cycles
}

/// Returns the arrows to parts of `transport` from modules that must not use the parts.
fn uses_of_parts(arrows: &Arrows) -> Arrows {
    let mut wrong = arrows.clone();
    wrong.retain(|from, _| !USERS_OF_PARTS.contains(&from.as_str()));
    wrong.values_mut().for_each(|uses| uses.retain(|to, _| PARTS.contains(&to.as_str())));
    wrong.retain(|_, uses| !uses.is_empty());
    wrong
}

/// Removes permitted arrows. The arrows that each exception permitted are added to `needed`.
fn without_exceptions(member: &str, arrows: &mut Arrows, needed: &mut BTreeSet<String>) {
    for exception in EXCEPTIONS.iter().filter(|it| it.member == member) {
        let Some(uses) = arrows.get_mut(exception.from) else { continue };
        for to in exception.to {
            if uses.remove(*to).is_some() {
                needed.insert(format!("{member} {} -> {to}", exception.from));
            }
        }
    }
    arrows.retain(|_, uses| !uses.is_empty());
}

#[test]
fn modules_of_a_folder_have_no_cycles() {
    let mut wrong = BTreeMap::new();
    for (member, file) in roots() {
        for (folder, arrows) in arrows(&Tree::read(&file)) {
            let mut cycles = cycles(&arrows);
            without_exceptions(&member, &mut cycles, &mut BTreeSet::new());
            if !cycles.is_empty() {
                wrong.insert(format!("{member} {}", folder.join("::")), cycles);
            }
        }
    }
    assert!(wrong.is_empty(), "these modules use each other in a cycle: {wrong:#?}");
}

#[test]
fn a_part_of_transport_uses_no_other() {
    let tree = Tree::read(&root().join("crates/transport/src/lib.rs"));
    let arrows = &arrows(&tree)[&Names::new()];
    let known: BTreeSet<&str> =
        [&PARTS[..], &USERS_OF_PARTS, &COMMON].concat().into_iter().collect();
    let modules: BTreeSet<&str> = arrows.keys().map(String::as_str).collect();
    assert_eq!(
        modules, known,
        "each module of transport is a part, uses the parts, or is common to them"
    );
    let (mut wrong, mut needed) = (uses_of_parts(arrows), BTreeSet::new());
    without_exceptions("crates/transport", &mut wrong, &mut needed);
    assert!(wrong.is_empty(), "only connection/ and endpoint/ use the parts: {wrong:#?}");
    let listed: BTreeSet<String> = EXCEPTIONS
        .iter()
        .flat_map(|it| it.to.iter().map(move |to| format!("{} {} -> {to}", it.member, it.from)))
        .collect();
    assert_eq!(needed, listed, "an exception that is not needed is removed");
}

#[test]
fn there_are_few_exceptions_and_each_has_a_reason() {
    assert!(EXCEPTIONS.len() <= 5);
    assert!(EXCEPTIONS.iter().all(|it| !it.reason.is_empty() && !it.to.is_empty()));
}

/// Rules of the checker may use the records and the definition of a rule, but not other rules or
/// the code that runs them.
#[test]
fn a_rule_uses_only_the_records_and_the_definition_of_a_rule() {
    let folders = arrows(&Tree::read(&root().join("crates/lab/src/lib.rs")));
    for rules in ["safety", "liveness"] {
        let used = folders[&names("checker")][rules].keys().map(String::as_str);
        assert_eq!(used.collect::<Vec<_>>(), ["properties", "records", "rule"], "{rules}");
    }
}

/// Returns the layer of each crate, as drawn in ARCHITECTURE.md with one line per layer and remarks
/// at the end of the line.
fn layers(drawing: &str, crates: &[String]) -> BTreeMap<String, u32> {
    let mut layers = BTreeMap::new();
    for line in drawing.lines() {
        let mut words = line.split_whitespace();
        if words.next() != Some("layer") {
            continue;
        }
        let Some(layer) = words.next().and_then(|word| word.parse::<u32>().ok()) else { continue };
        for name in words.map(str::to_owned).take_while(|word| crates.contains(word)) {
            assert_eq!(layers.insert(name.clone(), layer), None, "{name} is in two layers");
        }
    }
    layers
}

/// Returns the members of `crates` that a manifest depends on, except for tests, by folder name.
fn dependencies(manifest: &toml::Table, crates: &[String]) -> BTreeSet<String> {
    let tables = ["dependencies", "build-dependencies"];
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let targets = targets.into_iter().flat_map(|it| it.values()).filter_map(toml::Value::as_table);
    let all = std::iter::once(manifest).chain(targets);
    let all = all.flat_map(|it| tables.iter().filter_map(|table| it.get(*table)?.as_table()));
    let packages = all.flatten().map(|(key, value)| {
        value.get("package").and_then(toml::Value::as_str).unwrap_or(key).to_owned()
    });
    // `h3` and `tower` are also crates of others.
    let folder = |name: String| match name.strip_prefix("clearway-") {
        Some(folder) => Some(folder.to_owned()),
        None => (name == "clearway").then_some(name),
    };
    packages.filter_map(folder).filter(|name| crates.contains(name)).collect()
}

/// Returns the arrows between crates that do not lead to a lower layer.
fn upward(
    layers: &BTreeMap<String, u32>,
    uses: &BTreeMap<String, BTreeSet<String>>,
) -> Vec<String> {
    let all = uses.iter().flat_map(|(from, uses)| uses.iter().map(move |to| (from, to)));
    let wrong = all.filter(|(from, to)| layers.get(*from) <= layers.get(*to));
    wrong.map(|(from, to)| format!("{from} -> {to}")).collect()
}

#[test]
fn a_crate_uses_only_crates_in_lower_layers() {
    let crates = crates();
    let drawing = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("it can be read");
    let layers = layers(&drawing, &crates);
    let drawn: BTreeSet<&String> = layers.keys().collect();
    assert_eq!(drawn, crates.iter().collect(), "each crate is in a layer in ARCHITECTURE.md");
    let manifest = |name: &String| {
        let file = root().join("crates").join(name).join("Cargo.toml");
        let text = fs::read_to_string(file).expect("the manifest can be read");
        let manifest = text.parse::<toml::Table>().expect("the manifest is TOML");
        (name.clone(), dependencies(&manifest, &crates))
    };
    let uses: BTreeMap<_, _> = crates.iter().map(manifest).collect();
    assert!(uses["cli"].contains("clearway") && uses["transport"].contains("wire"), "{uses:?}");
    let upward = upward(&layers, &uses);
    assert!(upward.is_empty(), "these crates use one that is not in a lower layer: {upward:?}");
}

/// Returns the segments of a path.
fn names(path: &str) -> Names {
    path.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Returns the arrows in one folder of a crate as text.
fn drawn(text: &str, folder: &str) -> Vec<String> {
    let folders = arrows(&Tree::parse(text));
    let all = folders[&names(folder)].iter();
    all.flat_map(|(from, uses)| uses.keys().map(move |to| format!("{from} -> {to}"))).collect()
}

#[test]
fn a_cycle_is_found_with_what_makes_it() {
    let text = "mod a { use crate::b::B; } mod b { mod inner { type C = super::super::c::C; } } mod c { pub struct C; } mod d \
        { use crate::a; }";
    assert_eq!(drawn(text, ""), ["a -> b", "b -> c", "d -> a"]);
    assert_eq!(cycles(&arrows(&Tree::parse(text))[&Names::new()]), Arrows::new());
    let text = text.replace("struct C;", "struct C(crate::a::A);");
    let found = cycles(&arrows(&Tree::parse(&text))[&Names::new()]);
    // A module that only uses modules in a cycle is not part of the cycle.
    assert_eq!(found.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(found["b"]["c"].iter().collect::<Vec<_>>(), ["b::inner uses c::C"]);
}

#[test]
fn arrows_are_drawn_in_each_folder() {
    let text = "mod a { mod b { use super::c::{C, d::D as E}; } mod c { pub struct C; mod d { use super::C; } } } mod e { fn f() { \
        crate::a::g(); } }";
    assert_eq!(drawn(text, ""), ["e -> a"]);
    assert_eq!(drawn(text, "a"), ["b -> c"]);
    assert_eq!(drawn(text, "a::c"), Vec::<String>::new());
}

#[test]
fn a_name_leads_to_where_it_comes_from() {
    let text = "mod a { pub struct A; } mod b { pub use crate::a::A as B; pub use super::c::*; } mod c { pub struct C; } pub use b::B; \
        mod d { use crate::B; } mod e { use crate::b as f; fn g(_: f::C) {} } mod h { use super::*; fn i(_: B) {} }";
    assert_eq!(drawn(text, ""), ["b -> a", "b -> c", "d -> a", "e -> b", "e -> c", "h -> a"]);
}

#[test]
fn paths_in_macros_count_and_tests_do_not() {
    let text = "mod a { fn f() { println!(\"{}\", crate::b::NUMBER); } } mod b {} mod c { #[cfg(test)] mod tests { use crate::a; } #[test] \
        fn t() { crate::a::f(); } #[cfg(all(test, unix))] use crate::a; /** [it](crate::a) */ #[cfg(not(test))] use crate::b; \
        #[cfg(any(test, debug_assertions))] fn g() { crate::d::h(); } } mod d {}";
    assert_eq!(drawn(text, ""), ["a -> b", "c -> b", "c -> d"]);
}

#[test]
fn a_part_that_uses_another_is_found() {
    let text = "mod connection { use crate::path; use crate::ids; } mod path { use crate::token; use crate::ids::Id; } mod ids {} mod token \
        {} mod event { use crate::path::Path; }";
    let wrong = uses_of_parts(&arrows(&Tree::parse(text))[&Names::new()]);
    let wrong: Vec<_> = wrong.iter().map(|(from, uses)| (from.as_str(), uses.len())).collect();
    assert_eq!(wrong, [("event", 1), ("path", 1)]);
}

#[test]
fn an_arrow_upward_is_found() {
    let crates = ["a", "b", "c", "clearway", "d"].map(str::to_owned);
    let layers = layers(
        " layer 3   clearway  a   a: with b\n layer 2   b   c;\n layer 1   c\n layer 0   d\nlayer",
        &crates,
    );
    let expected = [("a", 3), ("b", 2), ("c", 1), ("clearway", 3), ("d", 0)];
    assert_eq!(layers, expected.map(|(name, layer)| (name.to_owned(), layer)).into());
    let manifest = "[dependencies]\nclearway-a = {}\nx = { package = \"clearway\" }\nserde = \"1\"\n[dev-dependencies]\nclearway-c = {}\n\
        [target.'cfg(unix)'.dependencies]\nclearway-b.workspace = true";
    let uses = dependencies(&manifest.parse().expect("this is TOML"), &crates);
    assert_eq!(uses.iter().collect::<Vec<_>>(), ["a", "b", "clearway"]);
    let uses =
        BTreeMap::from([("b".to_owned(), uses), ("clearway".to_owned(), ["c".to_owned()].into())]);
    assert_eq!(upward(&layers, &uses), ["b -> a", "b -> b", "b -> clearway"]);
}
