//! Whatever happens, in whatever order: S3 to S6, S14, S16 and the bounds of RFC 9937 hold at
//! every event (the sender of `testing` checks them), and two clean rounds with data waiting make the window grow (L1).

use proptest::collection::vec;
use proptest::prelude::*;

use crate::testing::{Fate, Report, Sender, ms, parameters};
use crate::{Algorithm, ControllerFactory, ControllerParameters};

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
        1 => prop_oneof![Just(1_u64), Just(20), Just(200)].prop_map(Step::Rtt),
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
        let algorithm = if cubic { Algorithm::Cubic } else { Algorithm::Reno };
        let maximum_window = 200 * 1200;
        let parameters =
            ControllerParameters { maximum_window, ..parameters(Some(initial * 1200)) };
        let mut sender = Sender::new(algorithm.build(&parameters), ms(20));
        sender.maximum_window = maximum_window;
        for step in history {
            play(&mut sender, step);
        }
        // Whatever was in flight is settled, and the last recovery ends.
        sender.acknowledge_all();
        sender.clean_round(8);
        for _ in 0..5 {
            let before = sender.window();
            sender.clean_round(8);
            sender.clean_round(8);
            prop_assert!(
                sender.window() > before || before == maximum_window,
                "{algorithm}: {:?}", sender.snapshot()
            );
        }
    }
}
