//! Helpers for the metrics tests of several commands.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::*;

/// Returns the text that a scrape returns.
pub(crate) fn text(registry: &Registry) -> String {
    let mut text = String::new();
    encode(&mut text, registry).unwrap();
    text
}

/// Returns the exported metrics with their types. The names are sample names without histogram
/// suffixes.
pub(crate) fn exported(registry: &Registry) -> BTreeMap<String, String> {
    let text = text(registry);
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let named = types.map(|line| {
        let (name, kind) = line.split_once(' ').unwrap();
        let name = match kind {
            "counter" => format!("{name}_total"),
            "info" => format!("{name}_info"),
            _ => name.to_owned(),
        };
        (name, kind.to_owned())
    });
    named.collect()
}

/// Reads a document of `docs/`.
pub(crate) fn read(document: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(document))
        .unwrap()
}

/// Returns all words in `text` that look like a metric's name.
pub(crate) fn names(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_part(c));
    words.filter(|word| word.starts_with("clearway_")).map(str::to_owned).collect()
}

/// Returns the name of a histogram for one of its samples; other names are unchanged.
pub(crate) fn without_suffix(name: &str, exported: &BTreeMap<String, String>) -> String {
    let stems = ["_bucket", "_sum", "_count"].map(|suffix| name.strip_suffix(suffix));
    let is_histogram = |stem: &&str| exported.get(*stem).is_some_and(|kind| kind == "histogram");
    stems.into_iter().flatten().find(is_histogram).unwrap_or(name).to_owned()
}

/// Asserts that `docs/metrics.md` has a row for each exported metric, with its type in the second
/// column, and no others. Names for which `is_meant` is false are ignored.
pub(crate) fn assert_documented(registry: &Registry, is_meant: impl Fn(&str) -> bool) {
    let document = read("metrics.md");
    let mut exported = exported(registry);
    exported.retain(|name, _| is_meant(name));
    let mut listed = BTreeMap::new();
    for row in document.lines().filter_map(|line| line.strip_prefix("| `clearway_")) {
        let mut cells = row.split('|').map(str::trim);
        let name = format!("clearway_{}", cells.next().unwrap().trim_matches('`'));
        if is_meant(&name) {
            assert!(listed.insert(name, cells.next().unwrap().to_owned()).is_none(), "{row}");
        }
    }
    assert_eq!(listed, exported);
    // The rest of the document must not name other metrics either.
    for name in names(&document).iter().filter(|name| is_meant(name)) {
        assert!(exported.contains_key(&without_suffix(name, &exported)), "{name}");
    }
}

/// Collects the names of metrics that the queries of a dashboard use.
fn queried(value: &serde_json::Value, into: &mut BTreeSet<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (key, value) in fields {
                match (key.as_str(), value) {
                    ("expr" | "query" | "definition", serde_json::Value::String(query)) => {
                        into.extend(names(query));
                    }
                    _ => queried(value, into),
                }
            }
        }
        serde_json::Value::Array(values) => values.iter().for_each(|value| queried(value, into)),
        _ => {}
    }
}

/// Asserts that `docs/grafana-dashboard.json` shows each exported metric, and no others. Names for
/// which `is_meant` is false are ignored.
pub(crate) fn assert_shown(registry: &Registry, is_meant: impl Fn(&str) -> bool) {
    let dashboard = serde_json::from_str(&read("grafana-dashboard.json")).unwrap();
    let (mut shown, mut exported) = (BTreeSet::new(), exported(registry));
    exported.retain(|name, _| is_meant(name));
    queried(&dashboard, &mut shown);
    shown.retain(|name| is_meant(name));
    let shown: BTreeSet<_> = shown.iter().map(|name| without_suffix(name, &exported)).collect();
    let exported: BTreeSet<_> = exported.into_keys().collect();
    assert_eq!(shown, exported);
}
