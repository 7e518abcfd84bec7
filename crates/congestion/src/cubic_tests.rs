use core::time::Duration;

use clearway_units::Random;

use super::Cubic;
use crate::testing::{Fate, Report, SIZE, Sender, ms, parameters};
use crate::{Algorithm, Controller, ControllerFactory, Phase, Quantity};

fn in_slow_start(window: u64) -> Sender {
    Sender::new(Algorithm::Cubic.build(&parameters(Some(window * SIZE))), ms(100))
}

/// Loses one packet of a full flight and acknowledges the others.
fn lose_one(sender: &mut Sender) {
    sender.fill();
    sender.wait(sender.rtt);
    sender.settle_one(Fate::Lost);
    sender.acknowledge_all();
}

/// Asserts that the window is `expected` datagrams, with a relative error below `tolerance`.
fn assert_window(sender: &Sender, expected: f64, tolerance: f64, when: &str) {
    let measured = sender.datagrams();
    assert!(
        (measured / expected - 1.0).abs() < tolerance,
        "the window {when} is {measured:.2} datagrams, expected {expected} within {} %",
        tolerance * 100.0
    );
}

#[test]
fn a_loss_leaves_seven_tenths() {
    let mut sender = in_slow_start(100);
    lose_one(&mut sender);
    assert_eq!(sender.window(), 70 * SIZE);
    assert_eq!(sender.snapshot().slow_start_threshold, Some(70 * SIZE));
    lose_one(&mut sender);
    assert_eq!(sender.window(), 49 * SIZE, "row 14: not 0.85 of that");
    for _ in 0..20 {
        lose_one(&mut sender);
    }
    assert_eq!(sender.window(), 2 * SIZE);
}

#[test]
fn metrics_contain_the_curve() {
    let mut sender = in_slow_start(100);
    assert!(!sender.metrics().contains_key("w_max"), "there is no curve before the first cut");
    lose_one(&mut sender);
    let metrics = sender.metrics();
    assert_eq!(metrics["w_max"], Quantity::Bytes(100 * SIZE));
    assert_eq!(metrics["w_est"], Quantity::Bytes(70 * SIZE));
    assert_eq!(metrics["t"], Quantity::Time(Duration::ZERO));
    // K is cbrt(30 / 0.4) s.
    let Quantity::Time(k) = metrics["k"] else { panic!("K is a time") };
    let expected = Duration::from_nanos(4_217_163_326);
    assert!(k.abs_diff(expected) < Duration::from_nanos(10), "K is {k:?}, expected {expected:?}");
    // Recovery ends with the first of these rounds; the others advance the curve's time.
    for _ in 0..3 {
        sender.clean_round(1);
    }
    let Quantity::Time(t) = sender.metrics()["t"] else { panic!("t is a time") };
    assert!(
        (ms(200)..=ms(300)).contains(&t),
        "t is {t:?} after two rounds, expected 200 to 300 ms"
    );
}

#[test]
fn a_loss_below_the_last_one_aims_lower() {
    // §4.7: fast convergence.
    let mut sender = Sender::avoiding(Algorithm::Cubic, 70, ms(100));
    lose_one(&mut sender);
    // From a window of 70 the target is 59.5, where the curve has its plateau: K is cbrt((59.5 -
    // 49) / 0.4) = 2.97 s.
    let mut windows = Vec::new();
    for _ in 0..31 {
        sender.clean_round(1);
        windows.push(sender.datagrams());
    }
    let at_k = windows[30];
    assert!((58.5..=67.0).contains(&at_k), "{windows:?}");
    let late_growth = windows[30] - windows[26];
    let early_growth = windows[5] - windows[1];
    assert!(late_growth < early_growth, "{windows:?}");
}

#[test]
fn the_window_is_back_where_it_was_after_k() {
    let mut sender = in_slow_start(1000);
    lose_one(&mut sender);
    sender.clean_round(1);
    let k = (300.0_f64 / 0.4).cbrt();
    let rounds = (k * 10.0) as u32;
    for _ in 0..rounds {
        sender.clean_round(20);
    }
    assert_window(&sender, 1000.0, 0.01, "after K");
    for _ in 0..100 {
        sender.clean_round(20);
    }
    // Ten seconds later, the window is 0.4 x 10^3 larger.
    assert_window(&sender, 1400.0, 0.05, "10 s after K");
}

#[test]
fn idle_time_is_not_on_the_curve() {
    // M5, rows 3 to 6, S15: the pause lasts 5 seconds or an hour.
    let undisturbed = |pause: Option<Duration>| {
        let mut sender = in_slow_start(1000);
        lose_one(&mut sender);
        let mut windows = Vec::new();
        for round in 0..120 {
            if round == 40
                && let Some(pause) = pause
            {
                sender.send(0);
                sender.wait(ms(100));
                let before = sender.window();
                sender.acknowledge_all();
                assert!(sender.window() - before < 40 * SIZE);
                let before = sender.window();
                sender.wait(pause);
                assert_eq!(sender.window(), before);
            }
            sender.clean_round(20);
            windows.push(sender.datagrams());
        }
        windows
    };
    let without = undisturbed(None);
    for pause in [0, 5, 3600] {
        let with = undisturbed(Some(Duration::from_secs(pause)));
        // The pause absorbed one round's acknowledgments: the curve is one round behind.
        for round in 41..120 {
            let (least, most) = (without[round - 2] - 1.0, without[round] + 1.0);
            assert!((least..=most).contains(&with[round]), "{pause} {round}: {}", with[round]);
        }
    }
}

#[test]
fn many_short_pauses_do_not_hold_the_curve_back() {
    // Row 5: the window grows past the plateau although every fifth round is followed by a pause.
    // After 15 s of rounds the curve is at 200 + 0.4 (15 - 5.3)^3 = 565 datagrams; a curve that
    // restarts after each pause has only the slope of W_est, which leads to 340.
    let mut sender = in_slow_start(200);
    lose_one(&mut sender);
    for round in 0..150 {
        sender.clean_round(50);
        if round % 5 == 0 {
            sender.send(0);
            sender.wait(ms(130));
            sender.acknowledge_all();
            sender.wait(ms(170));
        }
    }
    assert!(sender.datagrams() > 500.0, "{}", sender.datagrams());
}

#[test]
fn time_counts_through_events_in_which_nothing_grows() {
    // Two senders; between its rounds, one of them detects a late loss in an episode to which it
    // has already responded.
    let run = |interrupted: bool| {
        let mut sender = in_slow_start(1000);
        sender.fill();
        sender.wait(ms(100));
        sender.settle_one(Fate::Lost);
        let straggler = sender.flight[0].index;
        let mut cubic_rounds = 0;
        while cubic_rounds < 60 {
            sender.fill();
            if interrupted {
                sender.wait(ms(50));
                sender.settle(Report::default(), |_| Fate::Waits);
                sender.wait(ms(50));
            } else {
                sender.wait(ms(100));
            }
            sender.settle(Report::default(), |packet| match packet.index == straggler {
                true => Fate::Waits,
                false => Fate::Acked,
            });
            cubic_rounds += 1;
        }
        sender.datagrams()
    };
    assert!((run(true) - run(false)).abs() < 0.1, "{} {}", run(true), run(false));
}

#[test]
fn leaving_slow_start_by_delay_starts_at_the_plateau() {
    // §4.10: K is zero, and W_max is the window.
    let mut sender = in_slow_start(100);
    sender.clean_round(1);
    sender.rtt = ms(150);
    while sender.snapshot().phase != Phase::CongestionAvoidance {
        sender.clean_round(1);
    }
    assert_eq!(sender.snapshot().congestion_events, 0);
    let start = sender.datagrams();
    // The rest of that round is already included in the window.
    let threshold = sender.snapshot().slow_start_threshold.unwrap() as f64 / SIZE as f64;
    assert!(threshold < start && start - threshold < 1.0);
    let mut windows = vec![start];
    for _ in 0..60 {
        sender.clean_round(4);
        windows.push(sender.datagrams());
    }
    // As fast as Reno at first (alpha is 1), and then with the cube of the time.
    assert!((windows[10] - start - 10.0).abs() < 1.0, "{windows:?}");
    let cube = 0.4 * (60.0_f64 * 0.15).powi(3);
    assert!(((windows[60] - start) / cube - 1.0).abs() < 0.1, "{windows:?}");
}

#[test]
fn after_a_collapse_congestion_avoidance_starts_at_the_plateau() {
    // §4.8.
    let mut sender = Sender::avoiding(Algorithm::Cubic, 100, ms(100));
    sender.fill();
    sender.wait(ms(5000));
    let mut left = 50;
    sender.settle(Report { persistent_congestion: true, ce_marked: 0 }, |_| {
        left -= 1;
        if left >= 0 { Fate::Lost } else { Fate::Acked }
    });
    while sender.snapshot().phase != Phase::CongestionAvoidance {
        sender.clean_round(1);
    }
    let start = sender.datagrams();
    assert!((69.0..75.0).contains(&start), "{start}");
    for _ in 0..10 {
        sender.clean_round(1);
    }
    // The previous window was 100, so the estimate grows by alpha_cubic; time spent in slow start
    // or during the silence does not count for the curve.
    let grown = sender.datagrams() - start;
    assert!((4.5..6.5).contains(&grown), "{grown}");
}

#[test]
fn undo_resumes_the_curve_before_the_cut() {
    // §4.9.2: an undo restores everything.
    let run = |spurious: bool| {
        let mut sender = in_slow_start(1000);
        lose_one(&mut sender);
        for round in 0..100 {
            if spurious && round == 50 {
                sender.fill();
                sender.settle_one(Fate::Lost);
                let lost = *sender.lost.last().unwrap();
                assert!(sender.target() < 800 * SIZE);
                sender.arrives_late(lost, 0);
            }
            sender.clean_round(10);
        }
        sender.datagrams()
    };
    let (with, without) = (run(true), run(false));
    assert!((with - without).abs() < 2.0, "{with} {without}");
}

#[test]
fn one_cycle_matches_the_model_of_the_rfc() {
    // RFC 9438 §5.1, C = 0.4, RTT 0.1 s. The RFC's model excludes fast convergence, which does not
    // occur within one cycle: from the model's window at a loss to the next loss, 1/p packets
    // later.
    for (every, average) in [(10_000, 187.0), (100_000, 1054.0), (1_000_000, 5926.0)] {
        // Appendix A: the average is W_max (3 + beta) / 4.
        let at_loss = average * 4.0 / 3.7;
        let mut sender = in_slow_start(at_loss as u64);
        lose_one(&mut sender);
        let (mut sent, mut rounds) = (0, 0);
        while sent < every {
            sender.fill();
            sender.wait(ms(100));
            sent += sender.flight.len();
            rounds += 1;
            sender.acknowledge_all();
        }
        let measured = sent as f64 / f64::from(rounds);
        assert!((measured / average - 1.0).abs() <= 0.05, "1/{every}: {measured}");
        let end = sender.datagrams();
        assert!((end / at_loss - 1.0).abs() <= 0.05, "1/{every}: {at_loss} {end}");
    }
}

#[test]
fn the_same_events_give_the_same_bytes() {
    let run = || {
        let mut random = Random::from_number(9);
        let mut sender = Sender::avoiding(Algorithm::Cubic, 50, ms(37));
        for _ in 0..300 {
            sender.fill();
            sender.wait(Duration::from_nanos(random.below(90_000_000)));
            sender.settle(Report::default(), |_| match random.below(500) {
                0 => Fate::Lost,
                1..400 => Fate::Acked,
                _ => Fate::Waits,
            });
        }
        sender.window()
    };
    assert_eq!(run(), run());
}

#[test]
fn a_larger_datagram_size_grows_the_window_by_larger_datagrams() {
    let mut cubic = Cubic::new(&parameters(None));
    cubic.on_max_datagram_size(0);
    assert!(cubic.window() > 0, "the window is positive even with a meaningless datagram size");
}
