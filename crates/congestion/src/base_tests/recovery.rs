//! Recovery in Reno and CUBIC (RFC 9937).

use proptest::collection::vec;
use proptest::prelude::*;

use crate::testing::{Fate, LOSS_BASED, Report, SIZE, Sender, ms, parameters};
use crate::{Algorithm, ControllerFactory, Phase};

/// Sends a full flight, of which the first `lost` packets are lost. Each remaining packet is
/// acknowledged by a separate event, followed by a call of `after_each`. A packet's loss is
/// detected when the third packet after it arrives.
fn round_with_losses(sender: &mut Sender, lost: u64, mut after_each: impl FnMut(&mut Sender)) {
    sender.fill();
    let last = sender.next_index();
    let first = sender.flight[0].index.0;
    sender.wait(sender.rtt);
    for number in first + lost..last {
        sender.settle(Report::default(), |packet| {
            if packet.index.0 == number {
                Fate::Acked
            } else if packet.index.0 + 3 <= number && packet.index.0 < first + lost {
                Fate::Lost
            } else {
                Fate::Waits
            }
        });
        after_each(sender);
    }
}

fn beta(algorithm: Algorithm) -> f64 {
    if algorithm == Algorithm::Reno { 0.5 } else { 0.7 }
}

#[test]
fn the_reduction_is_spread_over_the_round_trip() {
    for algorithm in LOSS_BASED {
        let mut sender = Sender::avoiding(algorithm, 100, ms(50));
        let mut sent = vec![sender.next_index()];
        let mut windows = Vec::new();
        round_with_losses(&mut sender, 1, |sender| {
            sender.fill();
            sent.push(sender.next_index());
            windows.push(sender.window());
        });
        assert_eq!(sender.snapshot().phase, Phase::Recovery);
        // There are no pauses or bursts: the same amount is sent in each tenth of the round trip.
        let tenths: Vec<_> = sent[5..].chunks_exact(9).map(|nine| nine[8] - nine[0]).collect();
        let expected = 8.0 * beta(algorithm);
        assert!(tenths.iter().all(|&n| (n as f64 - expected).abs() <= 1.5), "{tenths:?}");
        assert!(windows[5..].windows(2).all(|pair| pair[0] + SIZE >= pair[1]), "{windows:?}");
        // Recovery also ends at the target of the window reduction.
        assert!(sender.in_flight().abs_diff(sender.target()) <= 2 * SIZE, "{algorithm}");
    }
}

#[test]
fn recovery_ends_with_the_threshold_as_the_window() {
    for algorithm in LOSS_BASED {
        for lost in [1, 5, 30, 90] {
            let mut sender = Sender::avoiding(algorithm, 100, ms(50));
            round_with_losses(&mut sender, lost, Sender::fill);
            let threshold = sender.snapshot().slow_start_threshold.unwrap();
            assert_eq!(sender.snapshot().phase, Phase::Recovery, "{algorithm} {lost}");
            sender.wait(ms(50));
            // Two packets may have been sent before the loss was known.
            for _ in 0..3 {
                if sender.snapshot().phase == Phase::Recovery {
                    sender.settle_one(Fate::Acked);
                }
            }
            assert_eq!(sender.snapshot().phase, Phase::CongestionAvoidance);
            // The packet that ended recovery already counts.
            assert!((threshold..threshold + SIZE).contains(&sender.window()), "{algorithm} {lost}");
        }
    }
}

#[test]
fn a_burst_loss_does_not_cause_a_burst() {
    for algorithm in LOSS_BASED {
        let mut sender = Sender::avoiding(algorithm, 100, ms(50));
        let mut before = None;
        round_with_losses(&mut sender, 80, |sender| {
            let next = sender.next_index();
            sender.fill();
            // At most two packets are sent per delivered packet.
            let sent = sender.next_index() - next;
            assert!(sent <= 2, "{algorithm}: {sent}");
            before = before.max(Some(sent));
        });
        assert_eq!(before, Some(2), "and the flight grows back towards the threshold");
        assert!(sender.in_flight() <= sender.target());
    }
}

#[test]
fn a_flight_lost_as_a_whole_is_followed_by_a_new_one() {
    // L1: the losses are detected by the loss timer, with nothing delivered.
    for algorithm in LOSS_BASED {
        for datagrams in [2, 3, 10, 100] {
            let mut sender = Sender::avoiding(algorithm, datagrams, ms(50));
            sender.fill();
            sender.wait(ms(50));
            sender.settle(Report::default(), |_| Fate::Lost);
            assert_eq!((sender.in_flight(), sender.window()), (0, 2 * SIZE));
            sender.fill();
            assert_eq!(sender.flight.len(), 2);
            sender.wait(ms(50));
            sender.acknowledge_all();
            assert_eq!(sender.snapshot().phase, Phase::CongestionAvoidance);
            assert!(sender.window() >= sender.snapshot().slow_start_threshold.unwrap());
        }
    }
}

#[test]
fn a_loss_permits_one_packet_at_once() {
    for algorithm in LOSS_BASED {
        for datagrams in [2, 10, 100] {
            let mut sender = Sender::avoiding(algorithm, datagrams, ms(50));
            sender.fill();
            sender.wait(ms(50));
            let next = sender.next_index();
            sender.settle_one(Fate::Lost);
            sender.fill();
            assert!(sender.next_index() > next, "{algorithm} {datagrams}");
        }
    }
}

/// Packets sent before the queue has drained are also marked, and their marks count as new.
#[test]
fn after_a_mark_nothing_is_sent_beyond_the_reduced_window() {
    for algorithm in LOSS_BASED {
        let mut sender = Sender::avoiding(algorithm, 100, ms(50));
        sender.fill();
        sender.wait(ms(50));
        let (first, flight) = (sender.next_index(), sender.flight.len());
        for number in 0..flight {
            let oldest = sender.flight[0].index;
            let report = Report { ce_marked: u64::from(number == 0), ..Report::default() };
            sender.settle(report, |p| if p.index == oldest { Fate::Acked } else { Fate::Waits });
            assert_eq!(sender.window(), sender.target(), "{algorithm}");
            let next = sender.next_index();
            sender.fill();
            let has_sent = sender.next_index() > next;
            assert!(!has_sent || sender.in_flight() <= sender.target(), "{algorithm} {number}");
        }
        let sent = (sender.next_index() - first) as f64;
        let left = if algorithm == Algorithm::Reno { 0.8 } else { 0.85 };
        assert!((sent / flight as f64 - left).abs() < 0.03, "{algorithm}: {sent}");
    }
}

#[test]
fn a_mark_that_comes_with_a_loss_reduces_gradually() {
    for algorithm in LOSS_BASED {
        let mut sender = Sender::avoiding(algorithm, 100, ms(50));
        sender.fill();
        sender.wait(ms(50));
        let (lost, acked) = (sender.flight[0].index, sender.flight[1].index);
        let report = Report { ce_marked: 1, ..Report::default() };
        sender.settle(report, |packet| match packet.index {
            index if index == lost => Fate::Lost,
            index if index == acked => Fate::Acked,
            _ => Fate::Waits,
        });
        assert!(sender.window() > sender.target(), "{algorithm}");
        let next = sender.next_index();
        sender.fill();
        assert!(sender.next_index() > next, "{algorithm}: the retransmission is sent immediately");
    }
}

#[test]
fn persistent_congestion_ends_the_gradual_reduction() {
    for algorithm in LOSS_BASED {
        let mut sender = Sender::avoiding(algorithm, 100, ms(50));
        sender.fill();
        sender.wait(ms(50));
        sender.settle_one(Fate::Lost);
        assert!(sender.window() > sender.target());
        let report = Report { persistent_congestion: true, ..Report::default() };
        let mut left = 10;
        sender.settle(report, |_| {
            left -= 1;
            if left >= 0 { Fate::Lost } else { Fate::Waits }
        });
        assert_eq!((sender.window(), sender.snapshot().phase), (2 * SIZE, Phase::SlowStart));
        sender.acknowledge_first(1);
        assert!(sender.window() <= 3 * SIZE);
    }
}

#[test]
fn undo_ends_the_gradual_reduction() {
    for algorithm in LOSS_BASED {
        let mut sender = Sender::avoiding(algorithm, 100, ms(50));
        sender.fill();
        let before = sender.window();
        sender.wait(ms(50));
        sender.settle_one(Fate::Lost);
        for _ in 0..50 {
            sender.settle_one(Fate::Acked);
            sender.fill();
        }
        assert!(sender.window() < before);
        sender.arrives_late(*sender.lost.last().unwrap(), 0);
        assert_eq!(sender.window(), before);
        sender.settle_one(Fate::Acked);
        assert!(sender.window() >= before);
    }
}

#[test]
fn an_application_limited_recovery_ends_at_the_threshold_too() {
    for algorithm in LOSS_BASED {
        let mut sender = Sender::avoiding(algorithm, 100, ms(50));
        round_with_losses(&mut sender, 1, |sender| {
            if sender.next_index() % 7 == 0 {
                sender.send(1);
            } else {
                sender.send(0);
            }
        });
        let threshold = sender.snapshot().slow_start_threshold.unwrap();
        // Unused allowance is available when data arrives, up to the threshold.
        assert!(sender.window() <= threshold.max(sender.in_flight() + SIZE));
        sender.fill();
        sender.wait(ms(50));
        sender.acknowledge_all();
        assert!((threshold..threshold + 2 * SIZE).contains(&sender.window()));
    }
}

#[test]
fn a_larger_datagram_raises_the_minimum_window_at_the_end_of_recovery() {
    for algorithm in LOSS_BASED {
        let mut sender = Sender::avoiding(algorithm, 3, ms(50));
        sender.fill();
        sender.wait(ms(50));
        sender.settle_one(Fate::Lost);
        sender.controller.on_max_datagram_size(9000);
        let snapshot = sender.snapshot();
        assert_eq!(snapshot.phase, Phase::Recovery);
        assert_eq!(snapshot.slow_start_threshold, Some(18_000));
        assert_eq!(snapshot.window, 18_000);
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Ack(usize),
    Lose(usize),
    Deadline(usize),
    Mark,
    Fill,
    Send(u64),
    Probe,
}

fn events() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (1..6_usize).prop_map(Event::Ack),
        2 => (1..20_usize).prop_map(Event::Lose),
        1 => (1..20_usize).prop_map(Event::Deadline),
        1 => Just(Event::Mark),
        6 => Just(Event::Fill),
        1 => (0..3_u64).prop_map(Event::Send),
        1 => Just(Event::Probe),
    ]
}

/// Decides the outcome of packets that were sent before the window was reduced, that is, before the
/// send index `cut`.
fn play(sender: &mut Sender, cut: u64, event: Event) {
    let mark = Report { ce_marked: 1, ..Report::default() };
    // The number of oldest packets affected, their outcome, and the outcome of the last packet.
    let (report, mut left, fate, last) = match event {
        Event::Ack(count) => (Report::default(), count, Fate::Acked, Fate::Acked),
        Event::Lose(count) => (Report::default(), count, Fate::Lost, Fate::Acked),
        Event::Deadline(count) => (Report::default(), count, Fate::Lost, Fate::Lost),
        Event::Mark => (mark, 1, Fate::Acked, Fate::Acked),
        Event::Fill => return sender.fill(),
        Event::Send(count) => return sender.send(count),
        Event::Probe => return sender.probe(),
    };
    sender.settle(report, |packet| {
        if packet.index.0 >= cut || left == 0 {
            return Fate::Waits;
        }
        left -= 1;
        if left == 0 { last } else { fate }
    });
}

proptest! {
    /// One round of random events: packets in flight at the window reduction are acknowledged and
    /// lost in any order. The sender in `testing` checks every event against the RFC's bounds. At
    /// the end the window equals the threshold, and the sender always had something in flight or
    /// was allowed to send.
    #[test]
    fn in_any_recovery_the_bounds_hold_and_it_ends_at_the_threshold(
        cubic in any::<bool>(),
        datagrams in 2..60_u64,
        history in vec(events(), 0..80),
    ) {
        let algorithm = if cubic { Algorithm::Cubic } else { Algorithm::Reno };
        let mut sender = Sender::new(algorithm.build(&parameters(Some(datagrams * SIZE))), ms(50));
        sender.fill();
        sender.wait(ms(50));
        sender.settle_one(Fate::Lost);
        let cut = sender.next_index();
        let threshold = sender.snapshot().slow_start_threshold;
        for event in history {
            play(&mut sender, cut, event);
            prop_assert_eq!(sender.snapshot().phase, Phase::Recovery);
            prop_assert!(sender.in_flight() > 0 || sender.window() >= 2 * SIZE);
        }
        prop_assert_eq!(sender.snapshot().slow_start_threshold, threshold);
        sender.probe();
        sender.wait(ms(200));
        let sent = (sender.next_index() - cut) * SIZE;
        sender.settle(Report::default(), |packet| match packet.index.0 < cut {
            true => Fate::Lost,
            false => Fate::Acked,
        });
        prop_assert_eq!(sender.snapshot().phase, Phase::CongestionAvoidance);
        // Packets sent in the recovery episode already contribute to window growth, as in
        // congestion avoidance.
        let (window, threshold) = (sender.window(), threshold.unwrap());
        let most = threshold + SIZE * sent / threshold;
        prop_assert!((threshold..=most).contains(&window), "{} {}", threshold, window);
    }
}
