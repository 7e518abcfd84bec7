use clearway::ShardStatistics;

use super::*;
use crate::exporter::tests::{self as exporter, assert_documented, assert_shown};

/// Returns the metrics of `shards` shards without activity.
fn quiet(shards: usize) -> Registry {
    let shards = Shards::new(move || vec![ShardStatistics::default(); shards]);
    registry(shards, Memory::default(), &Requests::new(), Carried::default())
}

fn text(shards: usize) -> String {
    exporter::text(&quiet(shards))
}

#[test]
fn the_document_lists_what_is_exported() {
    assert_documented(&quiet(1), |name| !name.starts_with("clearway_balance_"));
}

#[test]
fn the_dashboard_shows_what_is_exported() {
    assert_shown(&quiet(1), |name| !name.starts_with("clearway_balance_"));
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
    let shards = Shards::new(move || vec![shard]);
    let text =
        exporter::text(&registry(shards, Memory::default(), &Requests::new(), Carried::default()));
    for (bound, count) in [("1.0", 3), ("16.0", 3), ("32.0", 5), ("64.0", 6), ("+Inf", 6)] {
        let name = "clearway_quic_batch_size_datagrams";
        let sample = format!("\n{name}_bucket{{le=\"{bound}\",shard=\"0\"}} {count}\n");
        assert!(text.contains(&sample), "{bound}: {text}");
    }
    assert!(text.contains("\nclearway_quic_batch_size_datagrams_count{shard=\"0\"} 6\n"), "{text}");
    let sum = "\nclearway_quic_batch_size_datagrams_sum{shard=\"0\"} 107.0\n";
    assert!(text.contains(sum), "{text}");
}
