use clearway_balancer::ServerState;

use super::*;

fn server(name: &str) -> Server {
    Server {
        name: name.to_owned(),
        address: ([192, 0, 2, 1], 443).into(),
        ids: Vec::new(),
        id_len: None,
        weight: 1,
        state: ServerState::Active,
        has_preface: true,
    }
}

/// Server names come from sources, so the names of former servers are removed.
#[test]
fn checks_are_counted_for_each_server_while_it_exists() {
    let counts = FleetCounts::default();
    for (name, is_ok) in [("a", true), ("b", false), ("a", false), ("b", false), ("a", true)] {
        counts.checked(name, is_ok);
    }
    let of = |names: [&str; 3]| names.map(|name| counts.checks_of(name));
    assert_eq!(of(["a", "b", "c"]), [[2, 1], [0, 2], [0, 0]]);
    counts.retain(&[server("c"), server("b")]);
    assert_eq!(of(["a", "b", "c"]), [[0, 0], [0, 2], [0, 0]]);
}

#[test]
fn reloads_are_counted_by_outcome_and_skipped_entries_are_current() {
    let counts = FleetCounts::default();
    [true, false, true].into_iter().for_each(|is_ok| counts.reloaded(is_ok));
    assert_eq!(counts.reloads(), [2, 1]);
    for skipped in [3, 0, 1] {
        counts.skipped(skipped);
        assert_eq!(counts.skipped_now(), skipped as u64);
    }
}

/// All counters that a thread publishes are read back with the correct values.
#[test]
fn a_thread_is_read_as_it_has_counted() {
    let table = |first: u64| TableStatistics {
        entries: first as usize,
        evicted: first + 1,
        expired: first + 2,
        refused: first + 3,
    };
    let mut router = RouterStatistics::default();
    (router.flows, router.learned) = (table(10), table(20));
    (router.learned_ids, router.unpublished, router.contradicting) = (30, 31, 32);
    let gate = GateStatistics {
        retries: 40,
        valid_tokens: 41,
        invalid_tokens: 42,
        dropped: 43,
        is_closed: true,
    };
    let counts = ShardCounts::default();
    counts.publish(&router);
    counts.gate.publish(&gate);
    let read = counts.read();
    assert_eq!((read.flows, read.learned, read.gate), (table(10), table(20), gate));
    assert_eq!((read.learned_ids, read.unpublished, read.contradicting), (30, 31, 32));
}

#[test]
fn each_decision_has_its_counter() {
    let counts = ShardCounts::default();
    let (statistics, server) = (RouterStatistics::default(), ServerKey::of("a"));
    for (times, means) in (1..).zip(Means::ALL) {
        (0..times).for_each(|_| counts.count(Decision::Forward { server, means }, &statistics));
    }
    for (times, reason) in (1..).zip(DropReason::ALL) {
        (0..times).for_each(|_| counts.count(Decision::Drop(reason), &statistics));
    }
    let read = counts.read();
    assert!(read.means.into_iter().eq(1..=Means::ALL.len() as u64), "{read:?}");
    assert!(read.dropped.into_iter().eq(1..=DropReason::ALL.len() as u64), "{read:?}");
}
