use arc_swap::ArcSwap;
use clearway_balancer::{Decision, GateStatistics, RouterStatistics, ServerKey};

use super::super::backends::Backends;
use super::*;
use crate::exporter::tests::{assert_documented, assert_shown, text};

/// Returns the metrics of two threads and two servers with some activity.
fn counted() -> Arc<Counted> {
    let file = "[[server]]\nname = \"a\"\naddress = \"192.0.2.1:1\"\nweight = 3\n\
                [[server]]\nname = \"say \\\"b\\\"\"\naddress = \"192.0.2.2:1\"\ndrain = true\n";
    let backends = Backends::parse(file).unwrap_or_else(|fault| panic!("{fault:?}"));
    let mut servers = backends.servers.clone();
    servers[0].weight = 3 * 4;
    let pool = backends.pool(servers).unwrap();
    let shards = vec![Arc::<ShardCounts>::default(), Arc::default()];
    let statistics = RouterStatistics::default();
    for shard in &shards {
        let counters = shard.counters_of(pool.servers().map(|(key, _)| key));
        let server = ServerKey::of("a");
        counters[&server].store(7, std::sync::atomic::Ordering::Relaxed);
        let decision = Decision::Forward { server, means: Means::Learned };
        shard.count(decision, &statistics);
    }
    shards[1].count(Decision::Drop(DropReason::NoServer), &statistics);
    let (retries, valid_tokens, invalid_tokens, dropped) = (20, 9, 8, 3);
    shards[1].gate.publish(&GateStatistics {
        retries,
        valid_tokens,
        invalid_tokens,
        dropped,
        is_closed: true,
    });
    let fleet = Arc::new(FleetCounts::default());
    fleet.reloaded(false);
    fleet.checked("a", true);
    fleet.checked("a", true);
    let mut forwarded = Statistics::default();
    forwarded.to_servers.datagrams_received = 8;
    forwarded.to_clients.bytes_sent = 1234;
    forwarded.to_clients.dropped_too_large = 5;
    forwarded.dropped_no_port = 2;
    Arc::new(Counted {
        forwarded: Box::new(move || vec![forwarded, Statistics::default()]),
        shards,
        fleet,
        pool: Arc::new(ArcSwap::new(pool)),
    })
}

#[test]
fn the_document_lists_what_is_exported() {
    assert_documented(&registry(counted(), Carried::default()), |name| {
        name.starts_with("clearway_balance_")
    });
}

#[test]
fn the_doctor_is_told_what_all_threads_did() {
    let application = application(&counted());
    assert_eq!((application.received, application.send_refused), (8, 0));
}

#[test]
fn the_dashboard_shows_what_is_exported() {
    assert_shown(&registry(counted(), Carried::default()), |name| {
        name.starts_with("clearway_balance_")
    });
}

#[test]
fn values_have_their_labels() {
    let text = text(&registry(counted(), Carried::default()));
    for sample in [
        "datagrams_received_total{shard=\"0\",direction=\"to_servers\"} 8.0",
        "sent_bytes_total{shard=\"0\",direction=\"to_clients\"} 1234.0",
        "sent_bytes_total{shard=\"1\",direction=\"to_clients\"} 0.0",
        "datagrams_dropped_total{shard=\"0\",direction=\"to_clients\",reason=\"too_large\"} 5.0",
        "datagrams_dropped_total{shard=\"0\",direction=\"to_servers\",reason=\"no_port\"} 2.0",
        "datagrams_dropped_total{shard=\"1\",direction=\"to_servers\",reason=\"no_server\"} 1.0",
        "datagrams_dropped_total{shard=\"1\",direction=\"to_servers\",reason=\"not_admitted\"} 3.0",
        "retries_total{shard=\"1\"} 20.0",
        "retry_active{shard=\"0\"} 0.0",
        "retry_active{shard=\"1\"} 1.0",
        "tokens_total{shard=\"1\",outcome=\"valid\"} 9.0",
        "routed_total{shard=\"1\",means=\"learned\"} 1.0",
        "table_entries{shard=\"0\",table=\"learned\"} 0.0",
        "server_datagrams_total{server=\"a\"} 14.0",
        "server_state{server=\"a\",state=\"active\"} 1.0",
        "server_state{server=\"say \\\"b\\\"\",state=\"draining\"} 1.0",
        "server_state{server=\"say \\\"b\\\"\",state=\"active\"} 0.0",
        "server_weight{server=\"a\"} 1.2",
        "server_checks_total{server=\"a\",outcome=\"ok\"} 2.0",
        "reloads_total{outcome=\"failed\"} 1.0",
    ] {
        assert!(text.contains(&format!("\nclearway_balance_{sample}\n")), "{sample}: {text}");
    }
}

/// Each dropped datagram in a thread's counters has exactly one reason.
#[test]
fn drops_are_counted_once() {
    let counted = counted();
    let decided: Vec<_> = counted.shards.iter().map(|shard| shard.read()).collect();
    let sum: f64 = drops(&(counted.forwarded)(), &decided).iter().map(|(_, count)| count).sum();
    assert_eq!(sum, 5.0 + 2.0 + 1.0 + 3.0);
}

/// Each drop reason has its own counter, and only the balancer's own drops are passed to the
/// doctor.
#[test]
fn each_drop_has_its_reason_and_direction() {
    let mut forwarded = Statistics::default();
    for (direction, first) in [(&mut forwarded.to_servers, 10), (&mut forwarded.to_clients, 20)] {
        direction.datagrams_received = 1000 * first;
        direction.dropped_empty = first;
        direction.dropped_too_large = first + 1;
        direction.dropped_no_room = first + 2;
        direction.dropped_unreachable = first + 3;
        direction.dropped_not_permitted = first + 4;
        direction.dropped_failed = first + 5;
    }
    forwarded.dropped_no_port = 30;
    forwarded.dropped_like_preface = 31;
    forwarded.dropped_looped = 32;
    forwarded.dropped_unknown_sender = 33;
    forwarded.dropped_no_preface = 34;
    forwarded.replies_dropped = 35;
    let shared = counted();
    let (pool, fleet, shards) = (shared.pool.clone(), shared.fleet.clone(), shared.shards.clone());
    let threads = move || vec![forwarded, Statistics::default(), forwarded];
    let counted = Arc::new(Counted { forwarded: Box::new(threads), shards, fleet, pool });
    let application = application(&counted);
    assert_eq!(application.received, 2 * 30_000);
    assert_eq!(application.queue_full, 2 * 35);
    assert_eq!(application.send_refused, 2 * (12 + 15 + 22 + 25));
    let text = text(&registry(counted, Carried::default()));
    for (direction, first) in [("to_servers", 10), ("to_clients", 20)] {
        let reasons = ["empty", "too_large", "no_room", "unreachable", "not_permitted", "failed"];
        for (count, reason) in (first..).zip(reasons) {
            assert_dropped(&text, direction, reason, count);
        }
    }
    let to_servers = ["no_port", "like_preface", "looped"];
    let to_clients = ["unknown_sender", "no_preface", "too_many_replies"];
    let own = to_servers.map(|it| ("to_servers", it)).into_iter();
    let own = own.chain(to_clients.map(|it| ("to_clients", it)));
    for (count, (direction, reason)) in (30..).zip(own) {
        assert_dropped(&text, direction, reason, count);
    }
}

#[track_caller]
fn assert_dropped(text: &str, direction: &str, reason: &str, count: u64) {
    for (shard, count) in [(0, count), (1, 0), (2, count)] {
        let labels = format!("shard=\"{shard}\",direction=\"{direction}\",reason=\"{reason}\"");
        let sample = format!("\nclearway_balance_datagrams_dropped_total{{{labels}}} {count}.0\n");
        assert!(text.contains(&sample), "{sample}: {text}");
    }
}
