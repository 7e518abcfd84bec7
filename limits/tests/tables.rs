//! Checks that every field that can grow is listed in `tables.toml`, with the attack that fills it
//! or the reason why no peer can.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clearway_limits::attack;
use syn::{Field, Fields, Item, ItemMod, Type};

/// The crates that keep state between calls which a peer can change.
const CRATES: [&str; 14] = [
    "units",
    "balancer",
    "transport",
    "http3",
    "masque",
    "kernel",
    "udp",
    "io",
    "forward",
    "clearway",
    "dns",
    "h3",
    "tower",
    "webtransport",
];

/// Types that can hold any number of items.
const GROWING: [&str; 13] = [
    "Vec",
    "VecDeque",
    "BTreeMap",
    "BTreeSet",
    "HashMap",
    "HashSet",
    "BinaryHeap",
    "Slab",
    "StreamKeys",
    "BytesMut",
    "String",
    "Sender",
    "SyncSender",
];

/// The fields in each file as `Type.field`, each with an attack, a test or a reason.
type Tables = BTreeMap<String, BTreeMap<String, Entry>>;

#[derive(Debug)]
enum Entry {
    /// The attack that fills the field.
    Attack(String),
    /// The test that fills the field, as `file: name`, if an attack on the transport or HTTP/3 is
    /// not sufficient.
    Test(String),
    /// The reason why no peer can make the field grow without limit.
    Reason(String),
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Collects Rust files below `folder` that are not tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).expect("a folder of sources");
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        if stem == "tests" || stem == "testing" || stem.ends_with("_tests") {
            continue;
        }
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn grows(of: &Type) -> bool {
    let text = match of {
        Type::Reference(_) => return false,
        other => words(other),
    };
    text.iter().any(|word| GROWING.contains(&word.as_str()))
}

/// Returns all identifiers in a type.
fn words(of: &Type) -> Vec<String> {
    use syn::{GenericArgument, PathArguments};
    match of {
        Type::Path(path) => path
            .path
            .segments
            .iter()
            .flat_map(|segment| {
                let mut all = vec![segment.ident.to_string()];
                if let PathArguments::AngleBracketed(arguments) = &segment.arguments {
                    for argument in &arguments.args {
                        if let GenericArgument::Type(inner) = argument {
                            all.extend(words(inner));
                        }
                    }
                }
                all
            })
            .collect(),
        Type::Tuple(tuple) => tuple.elems.iter().flat_map(words).collect(),
        Type::Array(array) => words(&array.elem),
        _ => Vec::new(),
    }
}

fn note(owner: &str, fields: &Fields, found: &mut BTreeSet<String>) {
    for (place, Field { ident, ty, .. }) in fields.iter().enumerate() {
        if grows(ty) {
            let name = ident.as_ref().map_or_else(|| place.to_string(), ToString::to_string);
            found.insert(format!("{owner}.{name}"));
        }
    }
}

fn visit(items: &[Item], found: &mut BTreeSet<String>) {
    for item in items {
        match item {
            Item::Struct(item) => note(&item.ident.to_string(), &item.fields, found),
            Item::Enum(item) => {
                for variant in &item.variants {
                    let owner = format!("{}::{}", item.ident, variant.ident);
                    note(&owner, &variant.fields, found);
                }
            }
            Item::Mod(ItemMod { content: Some((_, items)), attrs, .. })
                if !attrs.iter().any(|attribute| attribute.path().is_ident("cfg")) =>
            {
                visit(items, found);
            }
            _ => {}
        }
    }
}

/// Returns the fields that can grow, by file.
fn growing() -> BTreeMap<String, BTreeSet<String>> {
    let mut all = BTreeMap::new();
    for name in CRATES {
        let folder = root().join("crates").join(name).join("src");
        let mut files = Vec::new();
        sources(&folder, &mut files);
        for file in files {
            let text = std::fs::read_to_string(&file).expect("a source");
            let parsed = syn::parse_file(&text).expect("Rust");
            let mut found = BTreeSet::new();
            visit(&parsed.items, &mut found);
            if !found.is_empty() {
                let place = file.strip_prefix(&folder).expect("a file below").display();
                all.insert(format!("{name}/{place}"), found);
            }
        }
    }
    all
}

fn listed() -> Tables {
    let text = std::fs::read_to_string(root().join("limits/tables.toml")).expect("tables.toml");
    let table: toml::Table = text.parse().expect("TOML");
    let entry = |value: &toml::Value| {
        let text = |key| value.get(key).and_then(toml::Value::as_str).map(str::to_owned);
        match (text("attack"), text("test"), text("reason")) {
            (Some(attack), None, None) => Entry::Attack(attack),
            (None, Some(test), None) => Entry::Test(test),
            (None, None, Some(reason)) => Entry::Reason(reason),
            _ => panic!("an entry needs exactly one of attack, test and reason: {value:?}"),
        }
    };
    let fields = |value: &toml::Value| {
        let fields = value.as_table().expect("a file's fields");
        fields.iter().map(|(name, value)| (name.clone(), entry(value))).collect()
    };
    table.iter().map(|(file, value)| (file.clone(), fields(value))).collect()
}

#[test]
fn every_field_that_can_grow_is_listed() {
    let (growing, listed) = (growing(), listed());
    let has = |file: &str, field: &str| listed.get(file).is_some_and(|all| all.contains_key(field));
    let mut missing = String::new();
    for (file, fields) in &growing {
        let fields: Vec<&String> = fields.iter().filter(|field| !has(file, field)).collect();
        if !fields.is_empty() {
            missing += &format!("\n[\"{file}\"]\n");
        }
        for field in fields {
            missing += &format!("\"{field}\" = {{ attack = \"…\" }} # or {{ reason = \"…\" }}\n");
        }
    }
    assert!(missing.is_empty(), "limits/tables.toml has no entries for these fields:\n{missing}");
    for (file, fields) in &listed {
        for field in fields.keys() {
            let exists = growing.get(file).is_some_and(|all| all.contains(field));
            assert!(exists, "limits/tables.toml lists {field} of {file}, which does not exist");
        }
    }
}

#[test]
fn every_listed_attack_and_test_exists() {
    let names: BTreeSet<&str> = attack::all().iter().map(|attack| attack.name).collect();
    for (file, fields) in listed() {
        for (field, entry) in fields {
            match entry {
                Entry::Attack(name) => {
                    assert!(
                        names.contains(name.as_str()),
                        "{file}, {field}: there is no attack {name:?}"
                    );
                }
                Entry::Test(test) => {
                    let (path, name) = test.split_once(": ").expect("a file and a test's name");
                    let text = std::fs::read_to_string(root().join(path)).unwrap_or_default();
                    assert!(
                        text.contains(&format!("fn {name}(")),
                        "{file}, {field}: there is no test {test}"
                    );
                }
                Entry::Reason(reason) => {
                    assert!(reason.len() > 10, "{file}, {field}: the reason is too short")
                }
            }
        }
    }
}
