//! For any sequence of events, S3 to S6, S14, S16 and the bounds of RFC 9937 hold at every event
//! (the sender in `testing` checks them), and two clean rounds with data waiting make the window
//! grow (L1).

use proptest::collection::vec;
use proptest::prelude::*;

use crate::testing::{Fate, Report, Sender, ms, parameters};
use crate::{Algorithm, ControllerFactory, ControllerParameters};

const MAXIMUM_WINDOW: u64 = 200 * 1200;
/// The longest RTT, in milliseconds.
const LONGEST_ROUND_TRIP: u64 = 200;

#[derive(Clone, Copy, Debug)]
enum Step {
    Fill,
    Send(u64),
    AckAll,
    AckHalf,
    AckNewest,
    LoseOldest,
    LoseHalf,
    Mark,
    Persistent,
    ArrivesLate,
    Probe,
    Tick,
    RoundTrip,
    Idle,
    Resize(u64),
    Rtt(u64),
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Fill),
        1 => (1..8_u64).prop_map(Step::Send),
        3 => Just(Step::AckAll),
        2 => Just(Step::AckHalf),
        1 => Just(Step::AckNewest),
        2 => Just(Step::LoseOldest),
        1 => Just(Step::LoseHalf),
        1 => Just(Step::Mark),
        1 => Just(Step::Persistent),
        1 => Just(Step::ArrivesLate),
        1 => Just(Step::Probe),
        1 => Just(Step::Tick),
        4 => Just(Step::RoundTrip),
        1 => Just(Step::Idle),
        1 => prop_oneof![Just(1200_u64), Just(1000), Just(1452)].prop_map(Step::Resize),
        1 => prop_oneof![Just(1_u64), Just(20), Just(LONGEST_ROUND_TRIP)].prop_map(Step::Rtt),
    ]
}

fn play(sender: &mut Sender, step: Step) {
    let half = sender.flight.len() / 2;
    let mut count = 0;
    match step {
        Step::Fill => sender.fill(),
        Step::Send(datagrams) => sender.send(datagrams),
        Step::AckAll => sender.acknowledge_all(),
        Step::AckHalf => sender.acknowledge_first(half),
        Step::AckNewest => {
            let newest = sender.flight.last().map(|packet| packet.index);
            sender.settle(Report::default(), |p| match Some(p.index) == newest {
                true => Fate::Acked,
                false => Fate::Waits,
            });
        }
        Step::LoseOldest => sender.settle_one(Fate::Lost),
        Step::LoseHalf => sender.settle(Report::default(), |_| {
            count += 1;
            if count <= half { Fate::Lost } else { Fate::Acked }
        }),
        Step::Mark => {
            let report = Report { ce_marked: 1, ..Report::default() };
            sender.settle(report, |_| Fate::Acked);
        }
        Step::Persistent => {
            let report = Report { persistent_congestion: half > 0, ..Report::default() };
            sender.settle(report, |_| {
                count += 1;
                if count <= half { Fate::Lost } else { Fate::Acked }
            });
        }
        Step::ArrivesLate => {
            if let Some(packet) = sender.lost.pop() {
                sender.arrives_late(packet, sender.lost.len().min(1) as u64);
            }
        }
        Step::Probe => sender.probe(),
        Step::Tick => sender.wait(core::time::Duration::from_nanos(1)),
        Step::RoundTrip => sender.wait(sender.rtt),
        Step::Idle => {
            sender.send(0);
            sender.wait(ms(3_600_000));
        }
        Step::Resize(size) => sender.controller.on_max_datagram_size(size),
        Step::Rtt(milliseconds) => sender.rtt = ms(milliseconds),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn no_history_breaks_safety_or_stops_growth(
        cubic in any::<bool>(),
        initial in 2..64_u64,
        history in vec(steps(), 0..120),
    ) {
        let (algorithm, mut sender) = sender(cubic, initial);
        for step in history {
            play(&mut sender, step);
        }
        if let Err(stuck) = grows(&mut sender) {
            prop_assert!(false, "{algorithm}: {stuck}");
        }
    }
}

/// Checks that clean rounds with data waiting make the window grow.
fn grows(sender: &mut Sender) -> Result<(), String> {
    // All packets in flight are acknowledged or lost, and the last recovery period ends.
    sender.acknowledge_all();
    sender.clean_round(8);
    // CUBIC looks one round trip ahead (RFC 9438 §4.4). If the RTT was longer before, the curve
    // reaches the target that was computed with it only after that much time.
    sender.fill();
    sender.wait(ms(LONGEST_ROUND_TRIP));
    sender.acknowledge_all();
    for _ in 0..5 {
        let before = sender.window();
        sender.clean_round(8);
        sender.clean_round(8);
        if sender.window() <= before && before != MAXIMUM_WINDOW {
            return Err(format!("{:?}", sender.snapshot()));
        }
    }
    Ok(())
}

fn sender(cubic: bool, initial: u64) -> (Algorithm, Sender) {
    let algorithm = if cubic { Algorithm::Cubic } else { Algorithm::Reno };
    let parameters =
        ControllerParameters { maximum_window: MAXIMUM_WINDOW, ..parameters(Some(initial * 1200)) };
    let mut sender = Sender::new(algorithm.build(&parameters), ms(20));
    sender.maximum_window = MAXIMUM_WINDOW;
    (algorithm, sender)
}

/// A sequence of events that the random search found.
#[test]
fn the_curve_comes_to_what_was_seen_from_a_longer_round_trip() {
    let (_, mut sender) = sender(true, 43);
    let history = [
        Step::Rtt(200),
        Step::Fill,
        Step::LoseHalf,
        Step::Fill,
        Step::AckHalf,
        Step::RoundTrip,
        Step::AckAll,
        Step::Fill,
        Step::AckAll,
        Step::Rtt(1),
    ];
    history.into_iter().for_each(|step| play(&mut sender, step));
    assert_eq!(grows(&mut sender), Ok(()));
}
