//! Tests of scenarios about particular kinds of traffic: the relevant frames must actually be sent.

use clearway_lab::setup::Traffic;
use clearway_lab::world::Stop;
use clearway_wire::Frame;

use crate::support::{Measure, measured, scenario};

/// Each endpoint cancels messages with RESET_STREAM and STOP_SENDING, some of which are lost, and
/// the flow control and stream credit of canceled messages is returned. The scenario's windows are
/// smaller than the canceled content, and there are more requests than the stream limit allows at a
/// time.
#[test]
fn cancelled_messages_return_their_credit() {
    let is_reset: Measure = |frame| u64::from(matches!(frame, Frame::ResetStream(_)));
    let is_stop: Measure = |frame| u64::from(matches!(frame, Frame::StopSending(_)));
    for (variant, controller) in scenario("cancelled").variants.iter().zip(["cubic", "reno", "bbr"])
    {
        let (outcome, ends) = measured(&variant.setup, controller, [is_reset, is_stop]);
        let place = format!("{}, {controller}: {:?}", variant.name, outcome.violation);
        assert_eq!(outcome.stop, Stop::Finished, "{place}");
        // Each endpoint cancels half of the 240 messages, half of those with each frame, which
        // makes 60 frames of each type. A message that arrives completely before it is canceled
        // needs neither frame, for example after a silence in which its beginning was lost.
        for [resets, stops] in ends {
            assert!(resets.sum > 30 && stops.sum > 30, "{place}: {resets:?} {stops:?}");
        }
    }
}

/// The kinds of requests actually run concurrently: one after another, the same requests would take
/// longer. Both endpoints send content.
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

/// Packets arrive before and after more than 2^14 lost ones: the Gap field is a varint of four bytes (RFC 9000 §16,
/// §19.3.1).
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
    // The Gap field is one less than the number of missing packets, and two less than the difference measured here.
    assert!(client[0].most > (1 << 14) + 2, "{client:?}");
}
