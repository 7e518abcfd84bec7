use clearway::ShardStatistics;

use super::*;
use crate::exporter::tests::{self as exporter, assert_documented, assert_shown};

/// Returns the metrics of this many shards without any activity.
fn quiet(shards: usize) -> Registry {
    let shards = Shards::new(move || vec![ShardStatistics::default(); shards]);
    registry(shards, Memory::default(), &Requests::new(), Carried::default())
}

fn text(shards: usize) -> String {
    exporter::text(&quiet(shards))
}

/// Returns whether a metric does not belong to another command.
fn is_of_serve(name: &str) -> bool {
    let others = ["clearway_balance_", "clearway_dns_", "clearway_proxy_"];
    !others.iter().any(|prefix| name.starts_with(prefix))
}

#[test]
fn the_document_lists_what_is_exported() {
    assert_documented(&quiet(1), is_of_serve);
}

#[test]
fn the_dashboard_shows_what_is_exported() {
    assert_shown(&quiet(1), is_of_serve);
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

#[test]
fn requests_are_counted_from_their_beginning_to_their_end() {
    let requests = Requests::new();
    let shown = || {
        let shards = Shards::new(Vec::new);
        exporter::text(&registry(shards, Memory::default(), &requests, Carried::default()))
    };
    let assert_shows = |samples: &[(&str, u64)]| {
        let text = shown();
        for (name, value) in samples {
            let sample = format!("\nclearway_http3_{name} {value}\n");
            assert!(text.contains(&sample), "{sample}: {text}");
        }
    };
    let begun: Vec<_> = (0..6).map(|_| requests.begin()).collect();
    assert_shows(&[("requests_total", 6), ("requests_in_progress", 6)]);
    for (request, status) in begun.iter().zip([200, 299, 304, 421, 503, 599]) {
        request.answered(status);
    }
    // Other status codes do not belong to final responses.
    [100, 199, 600, 999].into_iter().for_each(|status| begun[0].answered(status));
    assert_shows(&[
        ("responses_total{class=\"2xx\"}", 2),
        ("responses_total{class=\"3xx\"}", 1),
        ("responses_total{class=\"4xx\"}", 1),
        ("responses_total{class=\"5xx\"}", 2),
        ("request_duration_seconds_count", 0),
    ]);
    drop(begun);
    assert_shows(&[
        ("requests_total", 6),
        ("requests_in_progress", 0),
        ("request_duration_seconds_count", 6),
    ]);
}

/// The doctor receives the sum over all shards, with each kind of loss in the correct field.
#[test]
fn the_doctor_gets_the_losses_of_all_shards() {
    let mut shard = ShardStatistics::default();
    shard.datagrams_received = 1_000;
    (shard.hand_over_dropped, shard.forward_dropped, shard.incoming_dropped) = (1, 20, 300);
    (shard.datagrams_unknown, shard.packets_dropped, shard.batches_failed) = (5, 6, 7);
    let told = application(&[shard, ShardStatistics::default(), shard]);
    assert_eq!((told.received, told.queue_full), (2_000, 642));
    assert_eq!((told.unknown_connections, told.undecryptable, told.send_refused), (10, 12, 14));
}

#[test]
fn both_kinds_of_memory_have_their_metrics() {
    let mut connections = clearway::MemoryBudget::new(100).statistics();
    connections.held = 11;
    (connections.windows_limited, connections.clients_refused) = (12, 13);
    connections.connections_closed = 14;
    let content = super::super::memory::ContentStatistics { limit: 200, held: 21, resets: 22 };
    let memory = Memory::new(move || (connections, content));
    let shards = Shards::new(Vec::new);
    let text = exporter::text(&registry(shards, memory, &Requests::new(), Carried::default()));
    for (name, value) in [
        ("connections_bytes", 11),
        ("connections_limit_bytes", 100),
        ("content_bytes", 21),
        ("content_limit_bytes", 200),
        ("windows_limited_total", 12),
        ("clients_refused_total", 13),
        ("connections_closed_total", 14),
        ("responses_reset_total", 22),
    ] {
        let sample = format!("\nclearway_memory_{name} {value}\n");
        assert!(text.contains(&sample), "{sample}: {text}");
    }
}
