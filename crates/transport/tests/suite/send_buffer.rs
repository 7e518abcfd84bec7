//! The size of the send buffer: bounded if the peer does not read, and large enough to fill a path.

use std::time::Duration;

use crate::support::{Pair, both, delayed, milliseconds, pattern, quiet, seconds};
use clearway_network::{Conditions, LinkConfig, QueueLimit};
use clearway_transport::Event;
use clearway_units::Rate;
use clearway_wire::Direction;

fn path(bits_per_second: u64, round_trip: Duration) -> LinkConfig {
    let window = bits_per_second as f64 / 8.0 * round_trip.as_secs_f64();
    let conditions = Conditions {
        delay: round_trip / 2,
        rate: Some(Rate::from_bits_per_second(bits_per_second)),
        queue: QueueLimit { packets: None, bytes: Some(window as u64) },
        ..Conditions::default()
    };
    both(conditions, 1)
}

fn took(bits_per_second: u64, round_trip: Duration, size: usize) -> Duration {
    let mut pair = Pair::new(path(bits_per_second, round_trip));
    pair.watch.keep_no_packets();
    pair.download(size, seconds(60)).expect("not finished")
}

/// The first path carries 32 MiB in 0.27 s and is full after nine doublings of the window, 0.45 s;
/// the second needs 27 ms, and seven doublings of 1 ms each. A larger send buffer makes no
/// difference: the times are the same with a buffer that always holds 16 MiB.
#[test]
fn fast_paths_are_filled() {
    let long = took(1_000_000_000, milliseconds(50), 32 << 20);
    assert!(long < milliseconds(950), "{long:?}");
    let short = took(10_000_000_000, milliseconds(1), 32 << 20);
    assert!(short < milliseconds(60), "{short:?}");
}

/// Creates a client that sends a request and does not read the response; the server writes as much
/// as it can.
fn stalled(send_buffer: u64) -> Pair {
    let server = quiet().to_builder().send_buffer(send_buffer).build().unwrap();
    let mut pair = Pair::with(delayed(10, 1), quiet(), server);
    pair.establish();
    let stream = pair.client().open(Direction::Bidirectional).unwrap();
    pair.client().write_slice(stream, b"give").unwrap();
    pair.client().finish(stream).unwrap();
    let mut rest = pattern(32 << 20);
    let mut is_requested = false;
    pair.run_until(seconds(10), |pair| {
        is_requested |= pair.server().accept(Direction::Bidirectional).is_some();
        if is_requested {
            pair.write_rest(stream, &mut rest);
        }
        false
    });
    pair
}

#[test]
fn the_buffer_for_a_client_that_does_not_read_follows_the_congestion_window() {
    for send_buffer in [16 << 20, 300_000] {
        let mut pair = stalled(send_buffer);
        let window = pair.server().statistics().congestion_window;
        let buffered = pair.server().streams_statistics().bytes_buffered;
        assert_eq!(buffered, (4 * window).max(256 << 10).min(send_buffer), "window {window}");
        assert!(buffered < 2 << 20, "{buffered}");
    }
}

/// Law 8: a writer that is waiting for space in the send buffer gets an event when the growing
/// congestion window enlarges it. The server writes once, and after that only on `Event::Writable`.
#[test]
fn a_blocked_writer_gets_an_event_when_the_buffer_grows() {
    let mut pair = Pair::new(path(100_000_000, milliseconds(40)));
    pair.watch.keep_no_packets();
    pair.establish();
    let stream = pair.client().open(Direction::Bidirectional).unwrap();
    pair.client().write_slice(stream, b"give").unwrap();
    let mut rest = pattern(8 << 20);
    let mut received = Vec::new();
    let mut largest = 0;
    let done = pair.run_until(seconds(5), |pair| {
        let is_requested = pair.server().accept(Direction::Bidirectional).is_some();
        let events = std::mem::take(&mut pair.server_events);
        if is_requested || events.contains(&Event::Writable(stream)) {
            pair.write_rest(stream, &mut rest);
        }
        largest = largest.max(pair.server().streams_statistics().bytes_buffered);
        pair.read_all(stream, &mut received)
    });
    assert!(done, "only {} bytes arrived", received.len());
    assert!(largest > 512 << 10, "the buffer did not grow: {largest}");
}
