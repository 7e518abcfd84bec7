use std::sync::Arc;

use arc_swap::ArcSwap;
use clearway_balancer::{Decision, RouterStatistics, ServerKey};

use super::super::backends::Backends;
use super::super::counts::{FleetCounts, ShardCounts, increment};
use super::*;

/// Returns the counts of two threads with the same activity, except that only one has dropped
/// datagrams: each of its drop counters has a different power of ten.
fn counted(is_quiet: bool) -> Counted {
    let file = "[[server]]\nname = \"a\"\naddress = \"192.0.2.1:1\"\n\
                [[server]]\nname = \"b\"\naddress = \"192.0.2.2:1\"\n";
    let backends = Backends::parse(file).unwrap_or_else(|fault| panic!("{fault:?}"));
    let pool = backends.pool(backends.servers.clone()).unwrap();
    let shards = vec![Arc::<ShardCounts>::default(), Arc::default()];
    for shard in shards.iter().filter(|_| !is_quiet) {
        let counters = shard.counters_of(pool.servers().map(|(key, _)| key));
        let server = ServerKey::of("b");
        increment(&counters[&server]);
        for (times, means) in (1..).zip(Means::ALL) {
            let decision = Decision::Forward { server, means };
            (0..times).for_each(|_| shard.count(decision, &RouterStatistics::default()));
        }
    }
    let mut busy = Statistics::default();
    for (direction, sent) in [(&mut busy.to_servers, 7), (&mut busy.to_clients, 9)] {
        direction.datagrams_received = sent + 1;
        direction.bytes_received = 1000 * (sent + 1);
        direction.datagrams_sent = sent;
        direction.bytes_sent = 1000 * sent;
    }
    let mut dropping = busy;
    dropping.to_servers.dropped_empty = 1;
    dropping.to_servers.dropped_too_large = 10;
    dropping.to_servers.dropped_no_room = 100;
    dropping.to_servers.dropped_unreachable = 1_000;
    dropping.to_servers.dropped_not_permitted = 10_000;
    dropping.to_servers.dropped_failed = 100_000;
    dropping.dropped_not_routed = 1_000_000;
    dropping.dropped_no_port = 10_000_000;
    dropping.dropped_like_preface = 100_000_000;
    dropping.dropped_looped = 1_000_000_000;
    dropping.to_clients.dropped_empty = 2;
    dropping.dropped_unknown_sender = 20;
    dropping.dropped_no_preface = 200;
    dropping.replies_dropped = 2_000;
    let forwarded = match is_quiet {
        true => vec![Statistics::default(); 2],
        false => vec![busy, dropping],
    };
    Counted {
        forwarded: Box::new(move || forwarded.clone()),
        shards,
        fleet: Arc::<FleetCounts>::default(),
        pool: Arc::new(ArcSwap::new(pool)),
    }
}

#[test]
fn the_text_has_the_totals_of_all_threads() {
    let expected = "to servers: 14 datagrams (14.0 kB), dropped: 1111111111\n\
                    to clients: 18 datagrams (18.0 kB), dropped: 2222\n\
                    by server: a: 0, b: 2\n\
                    selected by server ID: 2, flow: 4, learned connection ID: 6, address: 8, \
                    hash: 10";
    assert_eq!(Summary::of(&counted(false)).text(), expected);
    // Without traffic, the summary does not list how servers were selected.
    let expected = "to servers: 0 datagrams (0 B), dropped: 0\n\
                    to clients: 0 datagrams (0 B), dropped: 0\n\
                    by server: a: 0, b: 0";
    assert_eq!(Summary::of(&counted(true)).text(), expected);
}

#[test]
fn the_json_has_the_totals_of_all_threads() {
    let expected = json!({
        "to_servers": {
            "received": 16,
            "received_bytes": 16_000,
            "sent": 14,
            "sent_bytes": 14_000,
            "dropped": 1_111_111_111,
        },
        "to_clients": {
            "received": 20,
            "received_bytes": 20_000,
            "sent": 18,
            "sent_bytes": 18_000,
            "dropped": 2_222,
        },
        "servers": { "a": 0, "b": 2 },
        "means": { "server_id": 2, "flow": 4, "learned": 6, "address": 8, "hash": 10 },
    });
    assert_eq!(Summary::of(&counted(false)).json(), expected);
}
