//! Kinds of traffic that single scenarios are about: that what they are about really is on the wire.

mod support;

use clearway_lab::setup::Traffic;
use clearway_lab::world::Stop;
use clearway_wire::Frame;

use support::{Measure, measured, scenario};

/// Each end gives up messages with both frames, also where some of them are lost, and what flow control permits comes back:
/// the windows of the scenario are smaller than what was given up, and there are more requests than streams at a time.
#[test]
fn what_is_given_up_returns_its_credit() {
    let is_reset: Measure = |frame| u64::from(matches!(frame, Frame::ResetStream(_)));
    let is_stop: Measure = |frame| u64::from(matches!(frame, Frame::StopSending(_)));
    for (variant, controller) in scenario("cancelled").variants.iter().zip(["cubic", "reno", "bbr"])
    {
        let (outcome, ends) = measured(&variant.setup, controller, [is_reset, is_stop]);
        let place = format!("{}, {controller}: {:?}", variant.name, outcome.violation);
        assert_eq!(outcome.stop, Stop::Finished, "{place}");
        // Of 240 messages, each end gives up half, with either frame half of those: 60. A message needs none if it came
        // whole first, as after a silence in which its beginning was lost.
        for [resets, stops] in ends {
            assert!(resets.sum > 30 && stops.sum > 30, "{place}: {resets:?} {stops:?}");
        }
    }
}

/// The kinds really are at the same time: one after the other, the same requests take longer than what the path carries at
/// once; and both ends send content.
#[test]
fn requests_of_many_kinds_at_once_overlap() {
    let bytes: Measure = |frame| match frame {
        Frame::Stream(stream) => stream.data.len() as u64,
        _ => 0,
    };
    let mut setup = scenario("together").variants[0].setup.clone();
    let (together, [client, server]) = measured(&setup, "cubic", [bytes]);
    let Traffic::Together { kinds } = setup.flows[0].traffic.clone() else {
        panic!("the scenario is about kinds at the same time")
    };
    assert!(client[0].sum > 1_000_000 && server[0].sum > 2_500_000, "{client:?} {server:?}");
    setup.flows[0].traffic = Traffic::Sequence { parts: kinds };
    let (in_turn, _) = measured(&setup, "cubic", [bytes]);
    let [together, in_turn] = [together, in_turn].map(|outcome| outcome.took().unwrap());
    assert!(together * 3 < in_turn * 2, "{together:?} at once, {in_turn:?} in turn");
}

/// Packets arrive on both sides of more than 2^14 that are lost: the gap takes a varint of four bytes (RFC 9000 §16, §19.3.1).
#[test]
fn gaps_of_more_than_16384_packets_are_acknowledged() {
    let gap: Measure = |frame| match frame {
        Frame::Ack(ack) => {
            let ranges = ack.ranges().zip(ack.ranges().skip(1));
            ranges.map(|(above, below)| above.start().get() - below.end().get()).max().unwrap_or(0)
        }
        _ => 0,
    };
    let setup = &scenario("long-gaps").variants[0].setup;
    let (outcome, [client, _]) = measured(setup, "cubic", [gap]);
    assert_eq!(outcome.stop, Stop::Finished, "{:?}", outcome.violation);
    // Gap is the number of packets before the one that precedes the range, less one.
    assert!(client[0].most > (1 << 14) + 2, "{client:?}");
}
