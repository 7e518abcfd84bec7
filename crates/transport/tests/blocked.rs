//! A sender that the receiver's limits hold back, while what would raise them gets lost.

mod support;

use clearway_network::{QueueLimit, Way};
use clearway_transport::{Side, TransportConfig};
use clearway_units::{Random, Rate};
use clearway_wire::Direction;
use support::{Packet, Pair, delayed, milliseconds, pattern, quiet, seconds};

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

/// Half of what the client sends is lost, and its window is that of two round trips at the path's rate. It
/// says its limits with every eighth of it that is read: 1.4 s at the path's rate, and little more.
#[test]
fn lost_limits_do_not_hold_a_download_up() {
    let mut longest = milliseconds(0);
    for seed in 0..40 {
        let mut link = delayed(20, seed);
        link.to_client.rate = Some(Rate::from_bits_per_second(6_000_000));
        link.to_client.queue = QueueLimit { packets: Some(60), bytes: None };
        let mut pair = Pair::with(link, small_windows(), quiet());
        pair.establish();
        let mut random = Random::from_number(seed);
        // The request arrives: how long a client repeats one is another matter.
        let begin = pair.now + milliseconds(100);
        pair.filter = Some(Box::new(move |now, way, _| {
            way == Way::ToClient || now < begin || random.below(2) == 0
        }));
        let took = pair.download(1 << 20, seconds(60)).unwrap();
        longest = longest.max(took);
    }
    assert!(longest < milliseconds(1800), "{longest:?}");
}

/// A receiver that does not read is told less and less often that the sender waits, and once it reads all
/// goes on.
#[test]
fn a_receiver_that_does_not_read_is_told_now_and_then() {
    let mut pair = Pair::with(delayed(10, 1), small_windows(), quiet());
    pair.establish();
    let stream = pair.server().open(Direction::Unidirectional).unwrap();
    let mut rest = pattern(200_000);
    pair.write_rest(stream, &mut rest);
    pair.run_for(seconds(5));
    let begin = pair.now;
    pair.run_for(seconds(600));
    let sent = pair.watch.sent(Side::Server);
    let asks = |packet: &&Packet| packet.at > begin && packet.frames != [ACK];
    let said: Vec<_> = sent.iter().filter(asks).collect();
    assert!(said.iter().all(|packet| packet.has(STREAM_DATA_BLOCKED) && !packet.has(DATA_BLOCKED)));
    assert!((40..50).contains(&said.len()), "{}", said.len());
    assert!(pair.client().accept(Direction::Unidirectional).is_some());
    let mut received = Vec::new();
    pair.run_until(seconds(2), |pair| {
        pair.write_rest(stream, &mut rest);
        pair.read_all(stream, &mut received);
        received.len() == 200_000
    });
    assert_eq!(received.len(), 200_000);
}
