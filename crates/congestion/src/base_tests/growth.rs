use clearway_units::Rate;

use crate::testing::{Fate, LOSS_BASED, MAXIMUM_WINDOW, Report, SIZE, Sender, ms, parameters};
use crate::{Algorithm, ControllerFactory, ControllerParameters, Phase, Suppressor};

fn fresh(algorithm: Algorithm) -> Sender {
    Sender::new(algorithm.build(&parameters(None)), ms(50))
}

#[test]
fn the_initial_window_is_the_rfcs_and_can_be_set() {
    for (size, window) in [(1200, 12_000), (1472, 14_720), (1500, 14_720), (9000, 18_000)] {
        let parameters = ControllerParameters { max_datagram_size: size, ..parameters(None) };
        for algorithm in LOSS_BASED {
            assert_eq!(algorithm.build(&parameters).window(), window);
        }
    }
    for (wanted, window) in [(0, 2 * SIZE), (99_000, 99_000), (u64::MAX, MAXIMUM_WINDOW)] {
        assert_eq!(Algorithm::Reno.build(&parameters(Some(wanted))).window(), window);
    }
    // A maximum below the minimum has no effect: the minimum takes precedence.
    let narrow = ControllerParameters { maximum_window: 1, ..parameters(None) };
    assert_eq!(Algorithm::Cubic.build(&narrow).window(), 2 * SIZE);
}

#[test]
fn the_initial_window_follows_the_datagram_size_until_it_is_used() {
    for algorithm in LOSS_BASED {
        let mut sender = fresh(algorithm);
        sender.controller.on_max_datagram_size(1400);
        assert_eq!(sender.window(), 14_000);
        sender.controller.on_max_datagram_size(SIZE);
        assert_eq!(sender.window(), 12_000);
        sender.clean_round(1);
        assert_eq!(sender.window(), 24_000);
        sender.controller.on_max_datagram_size(1400);
        assert_eq!(sender.window(), 24_000, "a larger datagram keeps the window (RFC 9002 §7.2)");
        sender.controller.on_max_datagram_size(20_000);
        assert_eq!(sender.window(), 40_000, "the window stays within its bounds");
    }
}

#[test]
fn slow_start_doubles_each_round_however_acks_are_aggregated() {
    for algorithm in LOSS_BASED {
        for batch in [1, 2, 10, usize::MAX] {
            let mut sender = fresh(algorithm);
            for round in 1..=6 {
                sender.clean_round(batch);
                assert_eq!(sender.window(), 12_000 << round, "{algorithm} {batch}");
            }
        }
    }
}

#[test]
fn conservative_slow_start_loses_no_byte_to_rounding() {
    for algorithm in LOSS_BASED {
        let windows = [1, 3, usize::MAX].map(|batch| {
            let mut sender = fresh(algorithm);
            sender.clean_round(1);
            sender.rtt = ms(100);
            sender.clean_round(1);
            sender.clean_round(1);
            assert_eq!(sender.snapshot().phase, Phase::ConservativeSlowStart);
            // The flight is not divisible by four.
            sender.resize_flight(SIZE - 1);
            sender.clean_round(batch);
            sender.window()
        });
        assert_eq!(windows[0], windows[1]);
        assert_eq!(windows[0], windows[2]);
    }
}

#[test]
fn bytes_carried_in_conservative_slow_start_do_not_count_in_full_after_it() {
    // Up to three bytes are carried over, each worth a quarter. When the delay disappears, these
    // bytes must not count in full: growth must not exceed the acknowledged bytes (S6).
    for (algorithm, odd) in LOSS_BASED.into_iter().flat_map(|a| [1, 2, 3].map(|odd| (a, odd))) {
        let mut sender = fresh(algorithm);
        sender.clean_round(1);
        sender.rtt = ms(100);
        sender.clean_round(1);
        sender.clean_round(1);
        assert_eq!(sender.snapshot().phase, Phase::ConservativeSlowStart);
        sender.fill();
        sender.resize_flight(SIZE - odd);
        sender.wait(sender.rtt);
        sender.settle_one(Fate::Acked);
        sender.rtt = ms(50);
        while sender.in_flight() > 0 {
            let (window, in_flight) = (sender.window(), sender.in_flight());
            sender.settle_one(Fate::Acked);
            let (grown, acked) = (sender.window() - window, in_flight - sender.in_flight());
            assert!(grown <= acked, "{algorithm}: {grown} for {acked}");
        }
        assert_eq!(sender.snapshot().phase, Phase::SlowStart, "{algorithm}: the delay went away");
    }
}

#[test]
fn conservative_slow_start_grows_by_a_quarter() {
    // Row 31: no additional growth is added to the window, and the phase is not recovery.
    for algorithm in LOSS_BASED {
        let mut sender = fresh(algorithm);
        sender.clean_round(1);
        sender.rtt = ms(100);
        sender.clean_round(1);
        sender.clean_round(1);
        for _ in 0..3 {
            let snapshot = sender.snapshot();
            assert_eq!(snapshot.phase, Phase::ConservativeSlowStart);
            assert!(snapshot.suppressors.since(Suppressor::ConservativeSlowStart).is_some());
            assert_eq!(snapshot.suppressors.since(Suppressor::Recovery), None);
            sender.fill();
            let acked = sender.in_flight();
            sender.wait(ms(100));
            while sender.in_flight() > 0 {
                sender.settle_one(Fate::Acked);
            }
            assert_eq!(sender.window() - snapshot.window, acked / 4, "{algorithm}");
        }
    }
}

#[test]
fn congestion_avoidance_works_without_a_round_trip_time() {
    // Row 19: before the first RTT sample there is no RTT to compute with, and no default is used.
    for algorithm in LOSS_BASED {
        let mut sender = Sender::avoiding(algorithm, 20, ms(50));
        sender.hides_rtt = true;
        for _ in 0..20 {
            let before = sender.datagrams();
            sender.clean_round(4);
            let grown = sender.datagrams() - before;
            assert!(
                (0.4..=1.6).contains(&grown),
                "{algorithm}: the window grew by {grown:.2} datagrams per round trip, expected \
                 0.4 to 1.6"
            );
        }
    }
}

#[test]
fn a_large_ack_does_not_carry_slow_start_past_the_threshold() {
    // Row 30.
    for algorithm in LOSS_BASED {
        let mut sender = Sender::new(algorithm.build(&parameters(Some(40 * SIZE))), ms(50));
        sender.fill();
        sender.wait(ms(2000));
        let report = Report { persistent_congestion: true, ..Report::default() };
        let mut left = 20;
        sender.settle(report, |_| {
            left -= 1;
            if left >= 0 { Fate::Lost } else { Fate::Acked }
        });
        let threshold = sender.snapshot().slow_start_threshold.unwrap();
        while sender.window() < threshold {
            sender.clean_round(usize::MAX);
        }
        assert!(sender.window() <= threshold + SIZE, "{algorithm}: {}", sender.window());
    }
}

#[test]
fn the_window_does_not_grow_while_application_limited() {
    for algorithm in LOSS_BASED {
        for mut sender in [fresh(algorithm), Sender::avoiding(algorithm, 20, ms(50))] {
            sender.send(0);
            sender.wait(ms(50));
            sender.acknowledge_all();
            // After two rounds, the last window-limited round no longer counts.
            for _ in 0..2 {
                sender.send(3);
                sender.wait(ms(50));
                sender.acknowledge_all();
            }
            let before = sender.window();
            for _ in 0..200 {
                sender.send(3);
                sender.wait(ms(50));
                sender.acknowledge_all();
            }
            assert_eq!(sender.window(), before, "{algorithm}");
            assert!(sender.snapshot().suppressors.since(Suppressor::NotLimited).is_some());
        }
    }
}

#[test]
fn growth_does_not_depend_on_how_acks_are_aggregated() {
    // M3, rows 15 and 16.
    for algorithm in LOSS_BASED {
        for datagrams in [2, 5, 10, 50, 200] {
            let grown = [1, 2, 10, usize::MAX].map(|batch| {
                let mut sender = Sender::avoiding(algorithm, datagrams, ms(100));
                let mut windows = Vec::new();
                for _ in 0..40 {
                    sender.clean_round(batch);
                    windows.push(sender.datagrams());
                }
                windows
            });
            let rates = grown.each_ref().map(|windows| (windows[39] - windows[0]) / 39.0);
            for rate in &rates {
                assert!((rate - rates[0]).abs() <= 1.0, "{algorithm} {datagrams}: {rates:?}");
                assert!((rate / rates[0] - 1.0).abs() <= 0.1, "{algorithm} {datagrams}: {rates:?}");
            }
        }
    }
}

#[test]
fn acks_at_one_instant_grow_the_window_like_a_single_ack() {
    for algorithm in LOSS_BASED {
        for datagrams in [10, 100, 1000] {
            let windows = [1, 7, usize::MAX].map(|batch| {
                let mut sender = Sender::avoiding(algorithm, datagrams, ms(100));
                sender.fill();
                // This is far along the curve, where the target is one and a half windows.
                sender.wait(ms(60_000));
                while !sender.flight.is_empty() {
                    sender.acknowledge_first(batch);
                }
                sender.datagrams()
            });
            let least = windows.iter().copied().fold(f64::MAX, f64::min);
            let most = windows.iter().copied().fold(0.0, f64::max);
            assert!(most - least <= (datagrams as f64 * 0.01).max(1.0), "{algorithm} {windows:?}");
        }
    }
}

#[test]
fn the_window_stops_at_its_maximum_and_reports_it() {
    for algorithm in LOSS_BASED {
        let parameters = ControllerParameters { maximum_window: 50 * SIZE + 7, ..parameters(None) };
        let mut sender = Sender::new(algorithm.build(&parameters), ms(20));
        for _ in 0..20 {
            sender.clean_round(4);
        }
        assert_eq!(sender.window(), 50 * SIZE + 7);
        assert!(sender.snapshot().suppressors.since(Suppressor::MaximumWindow).is_some());
        sender.fill();
        sender.settle_one(Fate::Lost);
        assert!(sender.target() < 50 * SIZE);
        for _ in 0..400 {
            sender.clean_round(4);
        }
        assert_eq!(sender.window(), 50 * SIZE + 7);
    }
}

#[test]
fn the_pacing_rate_is_twice_the_window_in_slow_start_and_a_quarter_more_later() {
    for algorithm in LOSS_BASED {
        let mut sender = fresh(algorithm);
        assert_eq!(sender.controller.pacing_rate(None), None);
        let rtt = sender.rtt_snapshot(true);
        let rate = |sender: &Sender| sender.controller.pacing_rate(Some(&rtt)).unwrap();
        assert_eq!(rate(&sender), Rate::from_bytes_per_second(2 * 12_000 * 20));
        sender.fill();
        sender.settle_one(Fate::Lost);
        let window = sender.target();
        assert_eq!(rate(&sender), Rate::from_bytes_per_second(window * 5 / 4 * 20));
        let mut endless = rtt;
        endless.smoothed = ms(u64::MAX);
        assert!(sender.controller.pacing_rate(Some(&endless)).unwrap() > Rate::ZERO);
        endless.smoothed = ms(0);
        assert_eq!(sender.controller.pacing_rate(Some(&endless)), None);
    }
}
