//! A sender blocked by flow control while MAX_DATA and MAX_STREAM_DATA frames are lost.

use crate::support::{Packet, Pair, delayed, milliseconds, pattern, quiet, seconds};
use clearway_network::{QueueLimit, Way};
use clearway_transport::{Side, TransportConfig};
use clearway_units::{Random, Rate};
use clearway_wire::Direction;

const ACK: u64 = 0x02;
const DATA_BLOCKED: u64 = 0x14;
const STREAM_DATA_BLOCKED: u64 = 0x15;

fn small_windows() -> TransportConfig {
    quiet()
        .to_builder()
        .initial_stream_receive_window(64 << 10)
        .max_stream_receive_window(64 << 10)
        .initial_connection_receive_window(96 << 10)
        .max_connection_receive_window(96 << 10)
        .build()
        .unwrap()
}

/// Half of what the client sends is lost, and its receive window is two round trips at the path's
/// rate. The client updates its limits whenever another eighth of the window has been read. The
/// download takes 1.4 s at the path's rate, and must not take much longer.
#[test]
fn lost_flow_control_updates_do_not_delay_a_download() {
    let mut longest = milliseconds(0);
    for seed in 0..40 {
        let mut link = delayed(20, seed);
        link.to_client.rate = Some(Rate::from_bits_per_second(6_000_000));
        link.to_client.queue = QueueLimit { packets: Some(60), bytes: None };
        let mut pair = Pair::with(link, small_windows(), quiet());
        pair.establish();
        let mut random = Random::from_number(seed);
        // Losses begin after the request, because retransmissions of the request are not tested
        // here.
        let begin = pair.now + milliseconds(100);
        pair.filter = Some(Box::new(move |now, way, _| {
            way == Way::ToClient || now < begin || random.below(2) == 0
        }));
        let took = pair.download(1 << 20, seconds(60)).unwrap();
        longest = longest.max(took);
    }
    assert!(longest < milliseconds(1800), "{longest:?}");
}

/// A receiver whose application does not read gets STREAM_DATA_BLOCKED frames at growing intervals; once the
/// application reads, the transfer continues.
#[test]
fn blocked_frames_to_a_receiver_that_does_not_read_are_rare() {
    let mut pair = Pair::with(delayed(10, 1), small_windows(), quiet());
    pair.establish();
    let stream = pair.server().open(Direction::Unidirectional).unwrap();
    let mut rest = pattern(200_000);
    pair.write_rest(stream, &mut rest);
    pair.run_for(seconds(5));
    let begin = pair.now;
    pair.run_for(seconds(600));
    let sent = pair.watch.sent(Side::Server);
    let is_blocked_frame = |packet: &&Packet| packet.at > begin && packet.frames != [ACK];
    let blocked: Vec<_> = sent.iter().filter(is_blocked_frame).collect();
    assert!(
        blocked.iter().all(|packet| packet.has(STREAM_DATA_BLOCKED) && !packet.has(DATA_BLOCKED))
    );
    assert!((40..50).contains(&blocked.len()), "{}", blocked.len());
    assert!(pair.client().accept(Direction::Unidirectional).is_some());
    let mut received = Vec::new();
    pair.run_until(seconds(2), |pair| {
        pair.write_rest(stream, &mut rest);
        pair.read_all(stream, &mut received);
        received.len() == 200_000
    });
    assert_eq!(received.len(), 200_000);
}
