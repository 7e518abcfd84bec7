use crate::testing::{Fate, Report, SIZE, Sender, ms, parameters};
use crate::{Algorithm, ControllerFactory, Phase, Quantity};

#[test]
fn a_loss_halves_the_window_down_to_two_datagrams() {
    let mut sender = Sender::new(Algorithm::Reno.build(&parameters(Some(100 * SIZE))), ms(50));
    for expected in [50, 25] {
        sender.fill();
        sender.wait(ms(50));
        sender.settle_one(Fate::Lost);
        assert_eq!(sender.target(), expected * SIZE);
        assert_eq!(sender.snapshot().slow_start_threshold, Some(expected * SIZE));
        assert_eq!(sender.snapshot().phase, Phase::Recovery);
        sender.acknowledge_all();
    }
    for _ in 0..10 {
        sender.fill();
        sender.settle_one(Fate::Lost);
        sender.acknowledge_all();
    }
    assert_eq!(sender.window(), 2 * SIZE);
}

#[test]
fn metrics_contain_the_variables_of_slow_start_and_recovery() {
    let mut sender = Sender::new(Algorithm::Reno.build(&parameters(Some(100 * SIZE))), ms(50));
    assert!(sender.metrics().is_empty(), "nothing has been measured");
    for _ in 0..2 {
        sender.clean_round(10);
    }
    let rtt = Quantity::Time(ms(50));
    let told = sender.metrics();
    assert_eq!(
        told.into_iter().collect::<Vec<_>>(),
        [("current_round_min_rtt", rtt), ("last_round_min_rtt", rtt),]
    );
    sender.wait(ms(50));
    let in_flight = sender.in_flight();
    sender.settle_one(Fate::Lost);
    let told = sender.metrics();
    assert_eq!(
        told.into_iter().collect::<Vec<_>>(),
        [
            ("prr_delivered", Quantity::Bytes(0)),
            ("prr_out", Quantity::Bytes(0)),
            ("recover_fs", Quantity::Bytes(in_flight)),
        ]
    );
    sender.acknowledge_all();
    sender.clean_round(10);
    assert!(sender.metrics().is_empty(), "recovery is over");
}

#[test]
fn a_window_of_acknowledged_bytes_brings_one_datagram() {
    let mut sender = Sender::avoiding(Algorithm::Reno, 300, ms(50));
    let before = sender.window();
    // The result does not depend on the size of the steps, to the byte, except for the growth
    // within the round.
    for _ in 0..10 {
        sender.clean_round(1);
    }
    let grown = sender.datagrams() - before as f64 / SIZE as f64;
    assert!((9.9..=10.0).contains(&grown), "{grown}");
    let mut sender = Sender::avoiding(Algorithm::Reno, 300, ms(50));
    sender.fill();
    let (before, acked) = (sender.window(), sender.flight.len() as u64 * SIZE);
    sender.acknowledge_all();
    assert!((sender.window() - before).abs_diff(SIZE * acked / before) <= 1);
    assert!(sender.window() - before <= SIZE, "RFC 9002 §7.3.3");
}

#[test]
fn a_small_packet_does_not_bring_a_whole_datagram() {
    // S6: the growth of many small packets is spread over them.
    let mut sender = Sender::avoiding(Algorithm::Reno, 10, ms(50));
    for _ in 0..100 {
        sender.fill();
        sender.resize_flight(100);
        let before = sender.window();
        sender.settle_one(Fate::Acked);
        assert!(sender.window() - before <= 100);
        sender.settle(Report::default(), |_| Fate::Acked);
    }
}
