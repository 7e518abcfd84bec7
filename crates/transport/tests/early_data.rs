//! Session resumption and early data (RFC 9001 §4.5, §4.6).

mod support;

use clearway_transport::{EarlyData, Event, Side};
use clearway_wire::PacketType;
use support::{Pair, delayed, milliseconds, seconds};

fn early_packets(pair: &Pair, side: Side) -> usize {
    let is_early = |packet: &support::Packet| packet.packet_type == PacketType::ZeroRtt;
    let packets = match side {
        Side::Client => pair.watch.sent(side),
        Side::Server => pair.watch.received(side),
    };
    packets.into_iter().filter(is_early).count()
}

/// A request in the first flight is answered after one round trip instead of two.
#[test]
fn early_data_saves_a_round_trip() {
    let mut pair = Pair::with_session(delayed(10, 1));
    let streams = pair.begin_early(1, 100);
    assert_eq!(pair.client().early_data(), EarlyData::Offered);
    let outcome = pair.answer_all(&streams, 100, 500, seconds(10));
    assert_eq!(outcome.served, Some(milliseconds(10)));
    assert_eq!(outcome.answered, Some(milliseconds(20)));
    assert_eq!((outcome.requests, outcome.early_requests), (1, 1));
    assert!(pair.is_accepted() && pair.server_events.contains(&Event::EarlyDataAccepted));
    assert_eq!(early_packets(&pair, Side::Client), early_packets(&pair, Side::Server));
    pair.establish();
    assert_eq!(pair.client().early_data(), EarlyData::Accepted);
    assert_eq!(pair.server().early_data(), EarlyData::Accepted);
    assert!(pair.download_more(50_000, seconds(10)).is_some(), "the connection goes on");
}
