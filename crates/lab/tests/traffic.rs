//! Kinds of traffic that single scenarios are about: that what they are about really is on the wire.

mod support;

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
        // Of 240 messages, each end gives up half, with either frame half of those.
        for [resets, stops] in ends {
            assert!(resets.sum > 50 && stops.sum > 50, "{place}: {resets:?} {stops:?}");
        }
    }
}
