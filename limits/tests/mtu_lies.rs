//! A peer that lies about path MTU probes (RFC 8899): it acknowledges packets that never arrived,
//! or does not acknowledge packets that did arrive.

use std::ops::RangeInclusive;
use std::time::Duration;

use clearway_limits::scene::{Application, Scene};
use clearway_transport::Side;
use clearway_wire::{Frame, PacketNumber, StreamId, VarInt, frame};

/// Interval between two acknowledgments from the peer.
const ROUND: Duration = Duration::from_millis(10);

fn varint(value: u64) -> VarInt {
    VarInt::new(value).expect("a small number")
}

/// Returns the ranges formed by these ascending numbers, with the last range first.
fn ranges(numbers: &[PacketNumber]) -> Vec<RangeInclusive<PacketNumber>> {
    let mut ranges: Vec<RangeInclusive<PacketNumber>> = Vec::new();
    for number in numbers.iter().rev().copied() {
        match ranges.last_mut() {
            Some(last) if last.start().get() == number.get() + 1 => *last = number..=*last.end(),
            _ => ranges.push(number..=number),
        }
    }
    ranges
}

/// The outcome of a peer's lie.
#[derive(Debug)]
struct Outcome {
    /// Number of datagrams that were larger than the MTU in use at the time.
    probes: usize,
    /// Number of bytes that the server sent.
    bytes: usize,
    /// Number of bytes that the peer has acknowledged.
    acknowledged: usize,
    datagram_size: usize,
}

/// A server sends as much data as it may for `time`. Its client acknowledges the packets for which
/// `admits` returns `true`; the arguments are the datagram's size, the MTU in use, and the number
/// of previous decisions.
fn lie(time: Duration, mut admits: impl FnMut(usize, usize, usize) -> bool) -> Outcome {
    let mut scene = Scene::new(Side::Server, Application::Writes);
    let id = StreamId::from_varint(VarInt::ZERO);
    let request = frame::Stream { stream_id: id, offset: VarInt::ZERO, data: b"x", fin: true };
    scene.sent = Some(Vec::new());
    let maximum = varint(1 << 40);
    scene.send(&[Frame::Stream(request)]);
    scene.send(&[
        Frame::MaxData(frame::MaxData { maximum }),
        Frame::MaxStreamData(frame::MaxStreamData { stream_id: id, maximum }),
    ]);
    let mut outcome = Outcome { probes: 0, bytes: 0, acknowledged: 0, datagram_size: 0 };
    let end = scene.now + time;
    let mut decided = 0;
    while scene.now < end {
        assert!(!scene.is_closed(), "{:?}", scene.closed);
        let in_use = scene.connection().datagram_size();
        let sent = std::mem::take(scene.sent.as_mut().expect("a record"));
        let mut admitted: Vec<PacketNumber> = Vec::new();
        for (number, size) in sent {
            outcome.bytes += size;
            outcome.probes += usize::from(size > in_use);
            if admits(size, in_use, decided) {
                outcome.acknowledged += size;
                admitted.push(number);
            }
            decided += 1;
        }
        scene.now += ROUND;
        match admitted.is_empty() {
            true => scene.turn(),
            // As many ranges as fit into an ACK frame; the packets in other ranges are lost.
            false => scene.acknowledge(ranges(&admitted).into_iter().take(200)),
        }
    }
    outcome.datagram_size = scene.connection().datagram_size();
    outcome
}

/// The peer receives larger datagrams than its path carries, which harms only the peer. The
/// driver's buffer limits the size.
#[test]
fn acknowledging_everything_yields_datagrams_of_at_most_the_buffer() {
    let outcome = lie(Duration::from_secs(10), |_, _, _| true);
    assert!((1200..=16 * 1200).contains(&outcome.datagram_size), "{outcome:?}");
    assert!(outcome.probes < 60, "{outcome:?}");
}

/// Each acknowledged probe raises the MTU, and then all data of that size is lost. The MTU falls,
/// and the search does not restart immediately.
#[test]
fn acknowledging_only_probes_does_not_search_for_ever() {
    let outcome = lie(Duration::from_secs(120), |size, in_use, _| size > in_use || size <= 1200);
    assert!(outcome.probes < 100, "{outcome:?}");
    assert!(outcome.datagram_size <= 16 * 1200, "{outcome:?}");
}

/// No probe succeeds, but all other packets do, as on a path that carries no larger datagrams.
#[test]
fn acknowledging_no_probe_costs_a_few_probes() {
    let outcome = lie(Duration::from_secs(120), |size, in_use, _| size <= in_use);
    assert!(outcome.probes < 100, "{outcome:?}");
    assert_eq!(outcome.datagram_size, 1200, "{outcome:?}");
}

/// The peer acknowledges every second packet regardless of its size, so that losses do not depend
/// on the size.
#[test]
fn acknowledging_every_second_packet_costs_a_few_probes() {
    let outcome = lie(Duration::from_secs(60), |_, _, decided| decided % 2 == 0);
    assert!(outcome.probes < 100, "{outcome:?}");
    assert!(outcome.acknowledged * 3 > outcome.bytes, "{outcome:?}");
}
