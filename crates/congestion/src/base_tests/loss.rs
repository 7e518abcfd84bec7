use crate::testing::{Fate, LOSS_BASED, Report, SIZE, Sender, ms, parameters};
use crate::{Algorithm, ControllerFactory, Phase, SentPacket, Suppressor};

const CE: Report = Report { ce_marked: 1, persistent_congestion: false };
const PERSISTENT: Report = Report { ce_marked: 0, persistent_congestion: true };

/// Loses the first `lost` packets of the flight and acknowledges the others.
fn lose_first(sender: &mut Sender, report: Report, lost: usize) {
    let mut left = lost;
    sender.settle(report, |_| match left {
        0 => Fate::Acked,
        _ => {
            left -= 1;
            Fate::Lost
        }
    });
}

/// A sender in congestion avoidance that has just reduced its window from about 40 datagrams
/// because of one lost packet.
fn just_cut(algorithm: Algorithm) -> (Sender, SentPacket) {
    let mut sender = Sender::avoiding(algorithm, 40, ms(50));
    sender.fill();
    sender.wait(ms(50));
    sender.settle_one(Fate::Lost);
    let lost = *sender.lost.last().unwrap();
    (sender, lost)
}

/// The published collapse (row 1): the window is two datagrams after heavy loss, every ACK empties
/// the flight, and the next flight is sent immediately.
#[test]
fn the_death_spiral_does_not_begin() {
    for algorithm in LOSS_BASED {
        for jitter in [0, 1, 100_000] {
            let mut sender = Sender::new(algorithm.build(&parameters(None)), ms(10));
            for _ in 0..40 {
                sender.fill();
                sender.wait(ms(10));
                lose_first(&mut sender, Report::default(), 1);
            }
            assert_eq!(sender.window(), 2 * SIZE);
            let cuts = sender.snapshot().congestion_events;
            let mut windows = vec![sender.datagrams()];
            for round in 0..40_u64 {
                sender.fill();
                sender.wait(ms(10) + core::time::Duration::from_nanos(jitter * (round % 3)));
                sender.acknowledge_all();
                assert!(sender.flight.is_empty());
                windows.push(sender.datagrams());
                assert_eq!(sender.snapshot().phase, Phase::CongestionAvoidance);
                assert_eq!(sender.snapshot().suppressors.since(Suppressor::Recovery), None);
            }
            // The first flight still belongs to the end of the previous recovery period.
            for five in windows[1..].windows(5) {
                assert!(five[4] - five[0] >= 4.0 * 0.5, "{algorithm}: {windows:?}");
            }
            assert_eq!(sender.snapshot().congestion_events, cuts);
            assert!(sender.datagrams() > 20.0, "{algorithm}: {windows:?}");
        }
    }
}

#[test]
fn every_window_grows_half_a_datagram_per_clean_round() {
    // L1 holds for any window and any earlier events.
    for algorithm in LOSS_BASED {
        for eighths in 16..160 {
            let initial = Some(eighths * SIZE / 8 * 10 / 7);
            let mut sender = Sender::new(algorithm.build(&parameters(initial)), ms(1));
            sender.fill();
            sender.wait(ms(1));
            lose_first(&mut sender, Report::default(), 1);
            sender.clean_round(usize::MAX);
            let mut windows = Vec::new();
            for _ in 0..30 {
                windows.push(sender.datagrams());
                sender.clean_round(usize::MAX);
            }
            for five in windows.windows(5) {
                assert!(five[4] - five[0] >= 2.0, "{algorithm} {eighths}: {windows:?}");
            }
        }
    }
}

#[test]
fn the_losses_of_one_flight_cut_once() {
    // Row 7: the losses are spread over many ACKs, with acknowledged packets between them.
    for algorithm in LOSS_BASED {
        let mut sender = Sender::avoiding(algorithm, 40, ms(50));
        sender.fill();
        sender.wait(ms(50));
        sender.settle_one(Fate::Lost);
        let after_cut = sender.target();
        let cuts = sender.snapshot().congestion_events;
        while !sender.flight.is_empty() {
            sender.settle_one(Fate::Lost);
            sender.settle_one(Fate::Acked);
            assert_eq!(sender.snapshot().phase, Phase::Recovery);
        }
        assert_eq!(sender.target(), after_cut, "no cut and no growth in recovery");
        assert_eq!(sender.snapshot().congestion_events, cuts);
    }
}

#[test]
fn recovery_ends_with_the_first_packet_sent_after_the_cut() {
    for algorithm in LOSS_BASED {
        let (mut sender, _) = just_cut(algorithm);
        let first_after = sender.next_index();
        sender.acknowledge_first(30);
        sender.fill();
        sender.wait(ms(50));
        let round = sender.snapshot().suppressors.since(Suppressor::Recovery).unwrap();
        assert!(round <= sender.round);
        while sender.flight[0].index.0 < first_after {
            assert_eq!(sender.snapshot().phase, Phase::Recovery);
            sender.settle_one(Fate::Acked);
        }
        let before = sender.window();
        sender.settle_one(Fate::Acked);
        assert_eq!(sender.snapshot().phase, Phase::CongestionAvoidance);
        assert_eq!(sender.snapshot().suppressors.since(Suppressor::Recovery), None);
        // This packet is the first one that counts again; with it, a full window has been
        // acknowledged.
        for _ in 1..before.div_ceil(SIZE) {
            sender.fill();
            sender.settle_one(Fate::Acked);
        }
        assert!(sender.window() > before);
    }
}

#[test]
fn losses_from_before_the_cut_do_not_cut_again_after_recovery() {
    // Row 27: old packets are declared lost late.
    for algorithm in LOSS_BASED {
        let (mut sender, _) = just_cut(algorithm);
        sender.acknowledge_first(30);
        sender.fill();
        sender.wait(ms(50));
        // The newest packet is acknowledged, and the older ones are not.
        let newest = sender.flight.last().unwrap().index;
        sender.settle(
            Report::default(),
            |p| if p.index == newest { Fate::Acked } else { Fate::Waits },
        );
        assert_eq!(sender.snapshot().phase, Phase::CongestionAvoidance);
        let window = sender.window();
        sender.settle_one(Fate::Lost);
        assert_eq!(sender.window(), window);
        assert_eq!(sender.snapshot().congestion_events, 2);
    }
}

#[test]
fn one_event_may_end_an_episode_and_begin_the_next() {
    for algorithm in LOSS_BASED {
        let (mut sender, _) = just_cut(algorithm);
        sender.acknowledge_all();
        sender.wait(ms(50));
        sender.fill();
        sender.wait(ms(50));
        let window = sender.window();
        lose_first(&mut sender, Report::default(), 1);
        let snapshot = sender.snapshot();
        assert!(snapshot.window < window, "the bytes acknowledged with the loss do not count");
        assert_eq!(snapshot.phase, Phase::Recovery);
        assert_eq!(snapshot.suppressors.since(Suppressor::Recovery), Some(sender.round));
    }
}

#[test]
fn late_losses_of_an_earlier_episode_do_not_stop_growth() {
    for algorithm in LOSS_BASED {
        let (mut sender, _) = just_cut(algorithm);
        sender.acknowledge_first(30);
        sender.fill();
        sender.wait(ms(50));
        let (window, first_after) = (sender.window(), sender.flight.len() as u64);
        let old = sender.flight[0].index;
        assert!(first_after > 2);
        sender.settle(Report::default(), |p| if p.index == old { Fate::Lost } else { Fate::Acked });
        sender.fill();
        sender.wait(ms(50));
        sender.acknowledge_first(12);
        assert!(sender.window() > window, "{algorithm}");
    }
}

#[test]
fn marks_cut_once_per_round_trip() {
    for algorithm in LOSS_BASED {
        let mut sender = Sender::avoiding(algorithm, 40, ms(50));
        for _ in 0..3 {
            sender.fill();
            sender.wait(ms(50));
            let window = sender.window();
            let cuts = sender.snapshot().congestion_events;
            let flight = sender.flight.len();
            for acked in 0..flight {
                let mut first = true;
                sender.settle(CE, |_| match core::mem::take(&mut first) {
                    true => Fate::Acked,
                    false => Fate::Waits,
                });
                assert!(sender.target() < window, "{acked}");
            }
            assert_eq!(sender.snapshot().congestion_events, cuts + 1);
        }
    }
}

#[test]
fn a_mark_cuts_less_than_a_loss_once_slow_start_has_ended() {
    // RFC 8511 §3: the factor for marks applies in congestion avoidance, but not if packets were
    // also lost.
    let left = |algorithm: Algorithm, is_avoiding: bool, report: Report, lost: usize| {
        let mut sender = match is_avoiding {
            true => Sender::avoiding(algorithm, 40, ms(50)),
            false => Sender::new(algorithm.build(&parameters(Some(40 * SIZE))), ms(50)),
        };
        sender.fill();
        sender.wait(ms(50));
        let before = sender.window() as f64;
        lose_first(&mut sender, report, lost);
        assert_eq!(sender.snapshot().phase, Phase::Recovery);
        (sender.target() as f64 / before * 100.0).round()
    };
    for (algorithm, on_loss, on_mark) in
        [(Algorithm::Reno, 50.0, 80.0), (Algorithm::Cubic, 70.0, 85.0)]
    {
        assert_eq!(left(algorithm, true, CE, 0), on_mark, "{algorithm}");
        assert_eq!(left(algorithm, true, Report::default(), 1), on_loss, "{algorithm}");
        assert_eq!(left(algorithm, true, CE, 1), on_loss, "{algorithm}: both");
        assert_eq!(left(algorithm, false, CE, 0), on_loss, "{algorithm}: slow start");
    }
}

#[test]
fn a_loss_in_the_recovery_of_a_mark_neither_cuts_nor_is_undone() {
    for algorithm in LOSS_BASED {
        let mut sender = Sender::avoiding(algorithm, 40, ms(50));
        sender.fill();
        sender.wait(ms(50));
        sender.settle(CE, {
            let mut first = true;
            move |_| if core::mem::take(&mut first) { Fate::Acked } else { Fate::Waits }
        });
        let (target, cuts) = (sender.target(), sender.snapshot().congestion_events);
        sender.settle_one(Fate::Lost);
        assert_eq!((sender.target(), sender.snapshot().congestion_events), (target, cuts));
        let lost = *sender.lost.last().unwrap();
        sender.arrives_late(lost, 0);
        assert_eq!(sender.snapshot().undone_events, 0, "{algorithm}");
        assert_eq!(sender.target(), target, "{algorithm}");
    }
}

#[test]
fn a_cut_whose_losses_all_arrived_is_undone() {
    for algorithm in LOSS_BASED {
        let mut sender = Sender::avoiding(algorithm, 40, ms(50));
        sender.fill();
        sender.wait(ms(50));
        let before = sender.snapshot();
        sender.settle_one(Fate::Lost);
        sender.settle_one(Fate::Lost);
        let lost = sender.lost.clone();
        sender.arrives_late(lost[1], 1);
        assert!(sender.target() < before.window, "one packet is still missing");
        sender.arrives_late(lost[2], 0);
        let after = sender.snapshot();
        assert_eq!(after.window, before.window);
        assert_eq!(after.slow_start_threshold, before.slow_start_threshold);
        assert_eq!((after.phase, after.undone_events), (Phase::CongestionAvoidance, 1));
        assert_eq!(after.suppressors.since(Suppressor::Recovery), None);
        // A second undo has no effect, and the next loss is responded to.
        sender.arrives_late(lost[2], 0);
        sender.settle_one(Fate::Lost);
        assert!(sender.target() < before.window);
    }
}

#[test]
fn undo_returns_to_the_first_slow_start_with_hystart() {
    for algorithm in LOSS_BASED {
        let mut sender = Sender::new(algorithm.build(&parameters(None)), ms(50));
        sender.clean_round(1);
        sender.fill();
        sender.wait(ms(50));
        sender.settle_one(Fate::Lost);
        assert!(sender.snapshot().slow_start_threshold.is_some());
        sender.arrives_late(sender.lost[0], 0);
        assert_eq!(sender.snapshot().slow_start_threshold, None);
        assert_eq!(sender.snapshot().phase, Phase::SlowStart);
        sender.clean_round(1);
        assert_eq!(sender.window(), 48_000);
        // HyStart++ is still active.
        sender.rtt = ms(100);
        sender.clean_round(1);
        sender.clean_round(1);
        assert_eq!(sender.snapshot().phase, Phase::ConservativeSlowStart);
    }
}

#[test]
fn undo_reaches_only_the_last_episode() {
    for algorithm in LOSS_BASED {
        let (mut sender, first) = just_cut(algorithm);
        sender.acknowledge_all();
        sender.fill();
        sender.wait(ms(50));
        let before_second = sender.window();
        sender.settle_one(Fate::Lost);
        let second = *sender.lost.last().unwrap();
        assert_ne!(first, second);
        sender.arrives_late(second, 0);
        assert_eq!(sender.window(), before_second);
        sender.arrives_late(first, 0);
        assert_eq!(sender.window(), before_second);
    }
}

#[test]
fn undo_never_lowers_a_window_that_has_outgrown_it() {
    for algorithm in LOSS_BASED {
        let (mut sender, lost) = just_cut(algorithm);
        for _ in 0..60 {
            sender.clean_round(4);
        }
        let window = sender.window();
        assert!(sender.datagrams() > 45.0);
        sender.arrives_late(lost, 0);
        assert_eq!((sender.window(), sender.snapshot().undone_events), (window, 0));
    }
}

#[test]
fn a_mark_is_never_spurious() {
    for algorithm in LOSS_BASED {
        // The CE mark arrives either with the loss or after it.
        for after in [false, true] {
            let mut sender = Sender::avoiding(algorithm, 40, ms(50));
            sender.fill();
            sender.wait(ms(50));
            lose_first(&mut sender, if after { Report::default() } else { CE }, 1);
            let lost = *sender.lost.last().unwrap();
            if after {
                sender.fill();
                sender.settle(CE, |_| Fate::Waits);
            }
            let window = sender.window();
            sender.arrives_late(lost, 0);
            assert_eq!(sender.window(), window, "{algorithm} {after}");
        }
    }
}

#[test]
fn persistent_congestion_leads_to_slow_start_up_to_the_normal_threshold() {
    // Rows 21 and 23.
    for algorithm in LOSS_BASED {
        let reduced = if algorithm == Algorithm::Reno { 0.5 } else { 0.7 };
        for cut_before in [false, true] {
            let mut sender = Sender::avoiding(algorithm, 40, ms(50));
            sender.fill();
            let before = sender.window() as f64;
            sender.wait(ms(3000));
            if cut_before {
                sender.settle_one(Fate::Lost);
            }
            lose_first(&mut sender, PERSISTENT, 20);
            let snapshot = sender.snapshot();
            assert_eq!((snapshot.window, snapshot.phase), (2 * SIZE, Phase::SlowStart));
            let threshold = snapshot.slow_start_threshold.unwrap() as f64;
            assert!((threshold / (before * reduced) - 1.0).abs() < 0.001, "{cut_before}");
            // The window grows immediately, and doubles.
            sender.clean_round(1);
            assert_eq!(sender.window(), 4 * SIZE);
            sender.clean_round(1);
            assert_eq!(sender.window(), 8 * SIZE);
            for _ in 0..3 {
                sender.clean_round(1);
            }
            assert_eq!(sender.snapshot().phase, Phase::CongestionAvoidance);
            let (window, before) = (sender.window(), sender.datagrams());
            assert!(window as f64 >= threshold);
            for _ in 0..4 {
                sender.clean_round(1);
            }
            assert!(sender.datagrams() - before >= 2.0, "{algorithm}");
        }
    }
}

#[test]
fn one_silence_collapses_the_window_once() {
    // Row 22: losses from the silent period are revealed by several ACKs.
    for algorithm in LOSS_BASED {
        let mut sender = Sender::avoiding(algorithm, 40, ms(50));
        sender.fill();
        sender.wait(ms(3000));
        let silence: Vec<_> = sender.flight.iter().map(|packet| packet.index).collect();
        let lose = |sender: &mut Sender, count: usize| {
            let lost = &silence[count * 8..count * 8 + 8];
            sender.settle(PERSISTENT, |p| match lost.contains(&p.index) {
                true => Fate::Lost,
                false if silence.contains(&p.index) => Fate::Waits,
                false => Fate::Acked,
            });
        };
        lose(&mut sender, 0);
        let cuts = sender.snapshot().congestion_events;
        for round in 1..4 {
            sender.flight.retain(|packet| silence.contains(&packet.index));
            let window = sender.window();
            // New packets are sent although the old ones are still unaccounted for: the test
            // simulates a sender whose ledger is updated late.
            let old = core::mem::take(&mut sender.flight);
            sender.settle(Report::default(), |_| Fate::Waits);
            sender.fill();
            sender.flight = [old, core::mem::take(&mut sender.flight)].concat();
            sender.wait(ms(50));
            lose(&mut sender, round);
            assert_eq!(sender.window(), 2 * window, "{algorithm}");
        }
        assert_eq!(sender.snapshot().congestion_events, cuts);
    }
}

#[test]
fn a_collapse_is_not_undone() {
    for algorithm in LOSS_BASED {
        let (mut sender, lost) = just_cut(algorithm);
        lose_first(&mut sender, PERSISTENT, 20);
        assert_eq!(sender.window(), 2 * SIZE);
        sender.arrives_late(lost, 0);
        assert_eq!(sender.window(), 2 * SIZE);
    }
}
