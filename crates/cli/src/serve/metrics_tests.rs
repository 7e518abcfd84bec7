use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use clearway::ShardStatistics;

use super::*;

/// The text that a scrape of `shards` shards in which nothing happened gives.
fn text(shards: usize) -> String {
    let shards = Shards::new(move || vec![ShardStatistics::default(); shards]);
    let mut text = String::new();
    encode(&mut text, &registry(shards, &Requests::new())).unwrap();
    text
}

/// The metrics that are exported, with their types. The names are those of samples, but without what a histogram adds.
fn exported() -> BTreeMap<String, String> {
    let text = text(1);
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

fn read(document: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(document))
        .unwrap()
}

/// All words in `text` that look like a metric's name.
fn names(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_part(c));
    words.filter(|word| word.starts_with("clearway_")).map(str::to_owned).collect()
}

/// The names of metrics in the queries of a dashboard.
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

/// A table row for each metric, and the type in its second column.
#[test]
fn the_document_lists_what_is_exported() {
    let document = read("metrics.md");
    let mut listed = BTreeMap::new();
    for row in document.lines().filter_map(|line| line.strip_prefix("| `clearway_")) {
        let mut cells = row.split('|').map(str::trim);
        let name = format!("clearway_{}", cells.next().unwrap().trim_matches('`'));
        assert!(listed.insert(name, cells.next().unwrap().to_owned()).is_none(), "{row}");
    }
    assert_eq!(listed, exported());
    // What else the document says of metrics is of these, too.
    let exported = exported();
    for name in names(&document) {
        assert!(exported.contains_key(&without_suffix(&name, &exported)), "{name}");
    }
}

/// The name of a histogram for one of its samples; other names as they are.
fn without_suffix(name: &str, exported: &BTreeMap<String, String>) -> String {
    let stems = ["_bucket", "_sum", "_count"].map(|suffix| name.strip_suffix(suffix));
    let is_histogram = |stem: &&str| exported.get(*stem).is_some_and(|kind| kind == "histogram");
    stems.into_iter().flatten().find(is_histogram).unwrap_or(name).to_owned()
}

#[test]
fn the_dashboard_shows_what_is_exported() {
    let dashboard = serde_json::from_str(&read("grafana-dashboard.json")).unwrap();
    let (mut shown, exported) = (BTreeSet::new(), exported());
    queried(&dashboard, &mut shown);
    let shown: BTreeSet<_> = shown.iter().map(|name| without_suffix(name, &exported)).collect();
    let exported: BTreeSet<_> = exported.into_keys().collect();
    assert_eq!(shown, exported);
}

#[test]
fn every_shard_has_its_label_and_every_metric_its_help_and_unit() {
    let text = text(3);
    for shard in 0..3 {
        let sample = format!("\nclearway_quic_packets_lost_total{{shard=\"{shard}\"}} 0\n");
        assert!(text.contains(&sample), "{text}");
    }
    assert!(text.contains("\n# UNIT clearway_quic_received_bytes bytes\n"), "{text}");
    assert!(text.contains("\n# UNIT clearway_quic_turn_duration_seconds seconds\n"), "{text}");
    assert!(text.contains("\nclearway_http3_responses_total{class=\"5xx\"} 0\n"), "{text}");
    let count = |kind: &str| text.lines().filter(|line| line.starts_with(kind)).count();
    assert_eq!(count("# HELP "), count("# TYPE "));
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn the_buckets_of_a_histogram_are_cumulative() {
    let mut shard = ShardStatistics::default();
    shard.batches_by_size = [3, 0, 0, 0, 0, 2, 1];
    shard.datagrams_sent = 3 + 2 * 20 + 64;
    let mut text = String::new();
    let shards = Shards::new(move || vec![shard]);
    encode(&mut text, &registry(shards, &Requests::new())).unwrap();
    for (bound, count) in [("1.0", 3), ("16.0", 3), ("32.0", 5), ("64.0", 6), ("+Inf", 6)] {
        let name = "clearway_quic_batch_size_datagrams";
        let sample = format!("\n{name}_bucket{{le=\"{bound}\",shard=\"0\"}} {count}\n");
        assert!(text.contains(&sample), "{bound}: {text}");
    }
    assert!(text.contains("\nclearway_quic_batch_size_datagrams_count{shard=\"0\"} 6\n"), "{text}");
    let sum = "\nclearway_quic_batch_size_datagrams_sum{shard=\"0\"} 107.0\n";
    assert!(text.contains(sum), "{text}");
}
