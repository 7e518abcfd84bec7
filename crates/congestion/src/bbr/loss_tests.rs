use super::*;
use crate::bbr::tests::{acknowledgement, packet, parameters_of};
use crate::testing::SIZE;
use crate::{Bbr, Controller, SendIndex};

#[test]
fn in_flight_at_loss_is_where_the_losses_passed_the_threshold() {
    let sample = |in_flight, lost, bytes| {
        LossSample { in_flight, lost, bytes, is_application_limited: false }.in_flight_at_loss()
    };
    // After 98,000 bytes without loss, a burst of 10,000 is lost. A loss of 2,000 bytes of the
    // burst would have been 2 %.
    assert_eq!(sample(108_000, 10_000, 10_000), 100_000);
    // 2 % of 49,000 were lost before the packet, so none of the packet is below the threshold.
    assert_eq!(sample(50_000, 1980, 1000), 49_000);
    // More than the threshold was lost earlier, so the threshold was crossed before this packet.
    assert_eq!(sample(50_000, 5000, 1000), 49_000 - 3081);
    assert_eq!(sample(1000, 1_000_000, 1000), 0);
    assert_eq!(sample(u64::MAX, u64::MAX, 1), 0);
}

fn probing() -> Bbr {
    let mut bbr = Bbr::new(&parameters_of(1));
    bbr.full_pipe.was_reached = true;
    bbr.cycle.is_probe_sample = true;
    bbr.state = BbrState::ProbeUp;
    bbr
}

#[test]
fn a_probe_is_responded_to_once() {
    let mut bbr = probing();
    let lost: Vec<_> = (10..16).map(|index| packet(index, 100 * SIZE)).collect();
    let event = acknowledgement(&[], &lost);
    bbr.on_acknowledgement(&event);
    assert_eq!(bbr.state, BbrState::ProbeDown);
    let bound = bbr.long_term.bound.unwrap();
    assert!((97 * SIZE..102 * SIZE).contains(&bound), "{}", bound / SIZE);
    let lost: Vec<_> = (20..30).map(|index| packet(index, 10 * SIZE)).collect();
    bbr.on_acknowledgement(&acknowledgement(&[], &lost));
    assert_eq!(bbr.long_term.bound, Some(bound));
}

#[test]
fn two_percent_may_be_lost() {
    let mut bbr = probing();
    let lost: Vec<_> = (10..12).map(|index| packet(index, 100 * SIZE)).collect();
    bbr.on_acknowledgement(&acknowledgement(&[], &lost));
    assert_eq!((bbr.state, bbr.long_term.bound), (BbrState::ProbeUp, None));
}

#[test]
fn the_state_is_saved_when_an_episode_begins_and_not_again_within_it() {
    let mut bbr = probing();
    let lost: Vec<_> = (10..20).map(|index| packet(index, 100 * SIZE)).collect();
    bbr.on_acknowledgement(&acknowledgement(&[], &lost));
    assert!(bbr.long_term.bound.is_some());
    assert_eq!(bbr.snapshot().congestion_events, 1);
    // More packets that were sent earlier are lost; they belong to the same loss episode.
    let lost = [packet(20, 100 * SIZE)];
    bbr.on_acknowledgement(&acknowledgement(&[], &lost));
    assert_eq!(bbr.snapshot().congestion_events, 1);
    let event = crate::SpuriousLoss {
        now: Default::default(),
        packet: lost[0],
        still_lost: 1,
        total_delivered: 0,
    };
    bbr.on_spurious_loss(&event);
    assert_eq!(bbr.state, BbrState::ProbeDown, "one packet is still lost (S14)");
    bbr.on_spurious_loss(&crate::SpuriousLoss { still_lost: 0, ..event });
    assert_eq!((bbr.state, bbr.long_term.bound), (BbrState::ProbeRefill, None));
    assert_eq!(bbr.snapshot().undone_events, 1);
    bbr.on_spurious_loss(&crate::SpuriousLoss { still_lost: 0, ..event });
    assert_eq!(bbr.snapshot().undone_events, 1, "a second undo has no effect");
}

#[test]
fn ce_marks_end_a_probe_and_are_never_undone() {
    let mut bbr = probing();
    let acked: Vec<_> = (10..14).map(|index| packet(index, 100 * SIZE)).collect();
    let event = acknowledgement(&acked, &[]);
    bbr.on_acknowledgement(&crate::Acknowledgement { newly_ce_marked: 3, ..event });
    assert!(bbr.cycle.was_too_high && bbr.long_term.bound.is_some());
    assert_eq!(bbr.snapshot().congestion_events, 1);
    assert!(bbr.undo.is_empty());
}

#[test]
fn persistent_congestion_keeps_the_model_and_shrinks_the_window() {
    let mut bbr = probing();
    bbr.window.set(200 * SIZE, 4 * SIZE, u64::MAX);
    bbr.rate = clearway_units::Rate::from_bytes_per_second(1_000_000);
    let lost: Vec<_> = (10..20).map(|index| packet(index, 200 * SIZE)).collect();
    let event = acknowledgement(&[], &lost);
    bbr.on_acknowledgement(&crate::Acknowledgement { persistent_congestion: true, ..event });
    assert_eq!(bbr.window(), 4 * SIZE);
    assert_eq!(bbr.rate, clearway_units::Rate::from_bytes_per_second(1_000_000));
    assert_eq!(bbr.snapshot().congestion_events, 1, "one event, one response (row 21)");
}

#[test]
fn an_episode_ends_with_a_packet_that_was_sent_after_it_began() {
    let mut episode = LossEpisode::default();
    episode.begin(SendIndex(30));
    let early = [packet(29, SIZE)];
    assert!(!episode.is_ended_by(&acknowledgement(&early, &[])));
    let late = [packet(30, SIZE)];
    assert!(episode.is_ended_by(&acknowledgement(&late, &[])));
    assert!(!episode.is_ended_by(&acknowledgement(&late, &[])));
}
