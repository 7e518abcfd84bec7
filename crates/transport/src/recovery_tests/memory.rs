//! The memory used for sent packets, and the number of lookups.

use core::sync::atomic::Ordering;
use core::time::Duration;

use clearway_congestion::SendLimit;
use clearway_wire::TransportErrorCode;

use crate::SpaceId;
use crate::recovery::sent_space::SentSpace;
use crate::recovery::testing::{Bench, SIZE, at, config, token};
use crate::recovery::{RecoveryConfig, StagedPacket};

fn space(bench: &Bench) -> &SentSpace {
    bench.recovery.ledger.space(SpaceId::Application)
}

#[test]
fn acks_that_are_never_acknowledged_are_forgotten() {
    // 8 MB of PINGs used to make a server keep 133,606 packets and then fail. One packet that the
    // peer has to acknowledge remains the oldest throughout.
    let mut bench = Bench::new();
    bench.send(at(0));
    for time in 0..140_000 {
        bench.send_ack_only(at(time / 10));
        assert!(space(&bench).packets().count() <= 4096);
        assert!(space(&bench).bytes_remembered() <= 1 << 20);
    }
    assert_eq!(bench.in_flight(), SIZE);
    // The newest packets are kept, and an acknowledgment of older ones is not an error.
    bench.acked();
    let outcome = bench.ack(at(15_000), &[(139_999, 140_000), (50_000, 50_001), (0, 0)]);
    assert!(outcome.newly_acked_any);
    assert_eq!(bench.acked(), [0, 139_999, 140_000]);
    assert_eq!(bench.in_flight(), 0);
    assert!(
        bench
            .try_ack(SpaceId::Application, at(15_000), Duration::ZERO, &[(140_001, 140_001)])
            .is_err()
    );
}

/// RFC 9002 §A.7: the largest acknowledged number is updated for any packet. If that packet's send
/// time is unknown, there is no RTT sample (§5.1).
#[test]
fn the_largest_that_is_acknowledged_counts_although_it_is_forgotten() {
    let mut bench = Bench::new();
    bench.send(at(0));
    let forgotten = bench.send_ack_only(at(0));
    for _ in 0..2000 {
        bench.send_ack_only(at(1));
    }
    let outcome = bench.ack(at(40), &[(0, forgotten)]);
    assert!(outcome.newly_acked_any && !outcome.has_rtt_sample);
    let largest = bench.recovery.largest_acknowledged(SpaceId::Application);
    assert_eq!(largest.map(|number| number.get()), Some(forgotten));
}

#[test]
fn packets_that_no_window_holds_back_have_a_cap_and_an_error() {
    // PATH_RESPONSE frames and probes are sent regardless of the window.
    let mut bench = Bench::new();
    let mut staged = 0_u64;
    let error = loop {
        let number = bench.recovery.next_packet_number(SpaceId::Application).unwrap();
        let packet = StagedPacket {
            number,
            bytes: 36,
            ack_eliciting: true,
            in_flight: true,
            is_probe_of_path: true,
            is_off_path: false,
            is_marked: false,
        };
        let mut tokens = vec![token(number.get())];
        if let Err(error) = bench.recovery.stage(SpaceId::Application, packet, &mut tokens) {
            break error;
        }
        bench.recovery.transmitted(at(0)).unwrap();
        staged += 1;
        assert!(staged <= 1 << 17);
    };
    assert_eq!(error.code, TransportErrorCode::INTERNAL_ERROR);
    assert_eq!(error.reason(), "too many sent packets are unacknowledged");
    assert!(space(&bench).bytes_remembered() <= (64 << 20) + 4096);
}

#[test]
fn what_the_window_governs_waits_while_too_much_is_remembered() {
    let mut bench = Bench::new();
    bench.set_window(1 << 40);
    let mut sent = 0_u64;
    while bench.recovery.may_send(at(0)).is_ok() {
        sent = bench.send(at(0)) + 1;
        assert!(sent < 1 << 17);
    }
    assert_eq!(bench.recovery.may_send(at(0)), Err(SendLimit::Window));
    // A probe may still be sent, and an acknowledgment makes room.
    bench.send(at(1));
    bench.ack(at(40), &[(0, sent)]);
    assert_eq!(bench.recovery.may_send(at(40)), Ok(()));
}

/// Acknowledged packets take up no memory: 70,000 packets in flight are 84 MB, and even more
/// packets between them are acknowledged.
#[test]
fn what_is_settled_does_not_make_the_window_wait() {
    const IN_FLIGHT: u64 = 70_000;
    let patient = RecoveryConfig { packet_threshold: 1 << 20, ..config() };
    let mut bench = Bench::with(patient);
    bench.set_window(1 << 40);
    for _ in 0..IN_FLIGHT {
        bench.send(at(0));
    }
    for number in 1..IN_FLIGHT {
        assert_eq!(bench.recovery.may_send(at(0)), Ok(()), "{number}");
        bench.send(at(0));
        bench.ack(at(0), &[(number, number)]);
    }
}

/// Returns the maximum number of packets that `act` looks up in one call, calling it for all of
/// `numbers`.
fn most_lookups(
    bench: &mut Bench,
    numbers: impl Iterator<Item = u64>,
    mut act: impl FnMut(&mut Bench, u64),
) -> u64 {
    let mut most = 0;
    for number in numbers {
        let before = space(bench).lookups.load(Ordering::Relaxed);
        act(bench, number);
        most = most.max(space(bench).lookups.load(Ordering::Relaxed) - before);
    }
    most
}

#[test]
fn an_ack_of_a_lost_packet_looks_at_no_other_lost_one() {
    const LOST: u64 = 16_000;
    let mut bench = Bench::new();
    for _ in 0..LOST + 3 {
        bench.send(at(0));
    }
    bench.ack(at(40), &[(LOST + 2, LOST + 2)]);
    assert_eq!(bench.lost().len() as u64, LOST);
    let most = most_lookups(&mut bench, (0..LOST).rev(), |bench, number| {
        let outcome = bench.ack(at(41), &[(LOST + 2, LOST + 2), (number, number)]);
        assert_eq!(outcome.spuriously_lost, 1);
    });
    assert!(most <= 16, "{most} packets were looked up for one ACK");
}

#[test]
fn an_ack_looks_only_at_what_it_acknowledges_anew() {
    // Packet 0 remains outstanding, and each ACK reports all later ones.
    const PACKETS: u64 = 10_000;
    let patient = RecoveryConfig { packet_threshold: 1 << 20, ..config() };
    let mut bench = Bench::with(patient);
    for _ in 0..=PACKETS {
        bench.send(at(0));
    }
    let most = most_lookups(&mut bench, 1..=PACKETS, |bench, number| {
        bench.ack(at(1), &[(1, number)]);
        assert!(bench.recovery.batch.numbers.len() <= 1);
    });
    assert!(most <= 16, "{most} packets were looked up for one ACK");
    assert_eq!(bench.in_flight(), SIZE);
    assert!(space(&bench).packets().count() <= 2048, "settled packets are removed, packet 0 stays");
    assert_eq!(bench.ack(at(2), &[(0, PACKETS)]).lost, 0);
    assert_eq!(bench.in_flight(), 0);
}
