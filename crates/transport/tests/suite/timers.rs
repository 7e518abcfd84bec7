//! Law 8: one table of timers determines both a connection's deadline and what observers see.

use crate::support::{self, Pair, delayed, milliseconds, pattern, quiet, seconds};
use clearway_network::{LinkConfig, QueueLimit, Rebind};
use clearway_transport::{Side, TimerKind};
use clearway_units::Rate;
use clearway_wire::{Direction, VarInt};

const KINDS: [TimerKind; 13] = [
    TimerKind::Closing,
    TimerKind::Idle,
    TimerKind::Handshake,
    TimerKind::KeepAlive,
    TimerKind::ResponsePing,
    TimerKind::Blocked,
    TimerKind::KeyDiscard,
    TimerKind::PathValidation,
    TimerKind::ProbeTimeout,
    TimerKind::Loss,
    TimerKind::Ack,
    TimerKind::Pacing,
    TimerKind::Compaction,
];

/// Checks that the timers reported to observers match the deadlines that the connections derive
/// from their state.
fn check(pair: &mut Pair) {
    let deadlines = [pair.client().deadline(), pair.server().deadline()];
    let reported = [Side::Client, Side::Server].map(|side| pair.watch.deadline(side));
    assert_eq!(deadlines, reported, "at {:?}", pair.now);
}

/// Advances time, checking after every step.
fn watch_for(pair: &mut Pair, milliseconds: u64) {
    pair.run_until(support::milliseconds(milliseconds), |pair| {
        pair.settle();
        check(pair);
        false
    });
}

/// Returns a client with keep-alive whose receive window the server fills. The path has a short
/// queue, and the client's port changes after two seconds.
fn pair() -> Pair {
    let mut link = delayed(20, 1);
    link.to_client.rate = Some(Rate::from_bits_per_second(6_000_000));
    link.to_client.queue = QueueLimit { packets: Some(20), bytes: None };
    let rebind = Rebind { first: seconds(2), every: None, address: false };
    let client = quiet()
        .to_builder()
        .max_idle_timeout(Some(seconds(30)))
        .keep_alive_interval(Some(seconds(5)))
        .initial_stream_receive_window(64 << 10)
        .max_stream_receive_window(64 << 10)
        .build()
        .unwrap();
    Pair::with(LinkConfig { rebind: Some(rebind), ..link }, client, quiet())
}

#[test]
fn every_kind_of_timer_is_set_and_reported() {
    let mut pair = pair();
    pair.establish();
    watch_for(&mut pair, 200);
    // The client waits for data; the server sends as much as the client's receive window allows.
    let stream = pair.client().open(Direction::Bidirectional).unwrap();
    pair.client().write_slice(stream, b"give").unwrap();
    watch_for(&mut pair, 200);
    assert_eq!(pair.server().accept(Direction::Bidirectional), Some(stream));
    pair.write_rest(stream, &mut pattern(400_000));
    watch_for(&mut pair, 3000);
    let now = pair.now;
    assert!(pair.client().update_keys(now));
    pair.client().ping();
    watch_for(&mut pair, 10_000);
    let mut received = Vec::new();
    pair.read_all(stream, &mut received);
    watch_for(&mut pair, 20_000);
    let now = pair.now;
    pair.client().close(now, VarInt::ZERO, b"done");
    pair.settle();
    check(&mut pair);
    for kind in KINDS {
        let is_set =
            [Side::Client, Side::Server].into_iter().any(|side| pair.watch.has_set(side, kind));
        assert!(is_set, "{kind:?} was never set");
    }
    // The only timer left is the one that ends the closing state.
    let end = pair.client().deadline().unwrap();
    assert!(end > now && end < now + milliseconds(1000));
}

/// On a busy host, the acknowledgment of a packet may still be in the socket buffer, so no probe is
/// sent until the buffer has been read.
#[test]
fn silence_counts_as_far_as_was_received() {
    let mut pair = Pair::with(delayed(20, 1), quiet(), quiet());
    pair.establish();
    pair.run_until(seconds(3), |_| false);
    pair.filter = Some(Box::new(|_, _, _| false));
    let stream = pair.client().open(Direction::Bidirectional).unwrap();
    pair.client().write_slice(stream, b"give").unwrap();
    pair.settle();
    let (now, due) = (pair.now, pair.client().deadline().unwrap());
    let late = due + milliseconds(5);
    let before = pair.client().statistics().probe_timeouts;
    let handle = pair.handle;
    pair.client.on_deadline(handle, late, now);
    assert_eq!(pair.client().statistics().probe_timeouts, before);
    assert_eq!(pair.client().deadline(), Some(due), "the timer has not been moved");
    pair.client.on_deadline(handle, late, due);
    assert_eq!(pair.client().statistics().probe_timeouts, before + 1);
}
