//! ACK frames as requested by the peer (draft-ietf-quic-ack-frequency §6).

use core::time::Duration;

use clearway_units::Timestamp;
use clearway_wire::{PacketNumber, TransportErrorCode, VarInt, Writer, frame};

use super::*;
use crate::contents::PacketContents;
use crate::ecn::EcnCodepoint;
use crate::space::ReceivedPackets;

const LEAST: Duration = Duration::from_millis(1);

fn at(milliseconds: u64) -> Timestamp {
    Timestamp::from_origin(Duration::from_millis(milliseconds))
}

fn number(value: u64) -> PacketNumber {
    PacketNumber::new(value).unwrap()
}

fn frequency(sequence: u32, threshold: u32, delay: u32, reordering: u32) -> frame::AckFrequency {
    frame::AckFrequency {
        sequence: VarInt::from_u32(sequence),
        ack_eliciting_threshold: VarInt::from_u32(threshold),
        max_ack_delay: VarInt::from_u32(delay * 1000),
        reordering_threshold: VarInt::from_u32(reordering),
    }
}

fn ask(space: &mut ReceivedPackets, frame: &frame::AckFrequency) {
    space.on_frequency(frame, AckPolicy::requested(frame, LEAST).unwrap());
}

fn received() -> ReceivedPackets {
    ReceivedPackets::new(AckPolicy::new(2, Duration::from_millis(25)), false)
}

/// Returns a space whose peer requested that ACKs be sent only because of reordering, marks or
/// IMMEDIATE_ACK.
fn patient(reordering: u32) -> ReceivedPackets {
    let mut space = received();
    ask(&mut space, &frequency(0, 1000, 16_000, reordering));
    space
}

/// Returns whether an ACK frame is due immediately for a packet; if so, writes it.
fn acknowledges(space: &mut ReceivedPackets, value: u64, ecn: EcnCodepoint) -> bool {
    space.on_packet(number(value), at(0), true, ecn);
    let is_due = space.is_due(at(0));
    if is_due {
        acknowledge(space);
    }
    is_due
}

fn acknowledge(space: &mut ReceivedPackets) {
    let mut buffer = [0; 1200];
    let mut writer = Writer::new(&mut buffer);
    assert!(space.write_ack(at(0), 3, &mut PacketContents::new(&mut writer, &mut Vec::new())));
}

/// Returns the packets of `list` that trigger an immediate acknowledgment.
fn acknowledged(space: &mut ReceivedPackets, list: &[u64]) -> Vec<u64> {
    list.iter().copied().filter(|value| acknowledges(space, *value, EcnCodepoint::NotEct)).collect()
}

/// Tests the examples in the tables of §6.2.1.
#[test]
fn the_drafts_examples_of_reordering() {
    assert_eq!(acknowledged(&mut patient(3), &[0, 1, 3, 4, 5, 8, 9, 10]), [5, 9, 10]);
    assert_eq!(acknowledged(&mut patient(5), &[0, 1, 3, 5, 6, 7, 8, 9]), [7, 9]);
}

#[test]
fn a_threshold_of_one_acknowledges_all_that_is_out_of_order() {
    assert_eq!(acknowledged(&mut patient(1), &[0, 1, 3, 2, 4]), [3, 2]);
}

#[test]
fn without_a_threshold_reordering_is_ignored() {
    assert_eq!(acknowledged(&mut patient(0), &[0, 100, 50, 1, 200]), Vec::<u64>::new());
}

#[test]
fn a_packet_that_the_peer_has_declared_lost_is_acknowledged_at_once() {
    let mut space = patient(3);
    assert_eq!(acknowledged(&mut space, &[0, 2, 3, 4]), [4], "1 can be declared lost");
    assert_eq!(acknowledged(&mut space, &[1]), [1], "which was wrong");
    assert_eq!(acknowledged(&mut space, &[6, 5, 7]), Vec::<u64>::new());
}

#[test]
fn the_threshold_and_the_delay_are_those_asked_for() {
    let mut space = received();
    ask(&mut space, &frequency(0, 9, 5, 3));
    for value in 0..9 {
        space.on_packet(number(value), at(value), true, EcnCodepoint::NotEct);
        assert_eq!(space.deadline(), Some(at(4)), "and a fifth of the delay for a late timer");
    }
    space.on_packet(number(9), at(3), true, EcnCodepoint::NotEct);
    assert_eq!(space.deadline(), Some(at(3)), "the tenth");
    ask(&mut space, &frequency(1, 0, 5, 3));
    acknowledge(&mut space);
    assert_eq!(acknowledged(&mut space, &[10, 11]), [10, 11]);
}

#[test]
fn a_packet_that_waits_already_waits_no_longer_than_before() {
    let mut space = received();
    space.on_packet(number(0), at(10), true, EcnCodepoint::NotEct);
    assert_eq!(space.deadline(), Some(at(30)));
    ask(&mut space, &frequency(0, 9, 5, 3));
    assert_eq!(space.deadline(), Some(at(14)), "since it arrived");
    ask(&mut space, &frequency(1, 9, 100, 3));
    assert_eq!(space.deadline(), Some(at(14)));
    acknowledge(&mut space);
    ask(&mut space, &frequency(2, 9, 100, 3));
    assert_eq!(space.deadline(), None, "nothing waits");
}

#[test]
fn obsolete_frames_are_ignored() {
    let mut space = received();
    ask(&mut space, &frequency(7, 0, 5, 1));
    ask(&mut space, &frequency(7, 99, 5, 1));
    ask(&mut space, &frequency(3, 99, 5, 1));
    assert_eq!(acknowledged(&mut space, &[0, 1]), [0, 1]);
    ask(&mut space, &frequency(8, 99, 5, 1));
    assert_eq!(acknowledged(&mut space, &[2, 3]), Vec::<u64>::new());
}

#[test]
fn an_immediate_ack_concerns_its_own_packet() {
    let mut space = patient(0);
    space.on_immediate_ack();
    assert_eq!(acknowledged(&mut space, &[0, 1, 2]), [0]);
}

/// §6.3: only a mark that follows an unmarked packet triggers an immediate ACK.
#[test]
fn of_marks_in_a_row_the_first_is_acknowledged_at_once() {
    use EcnCodepoint::{Ce, Ect0};
    let mut space = patient(3);
    let due: Vec<bool> = [Ect0, Ce, Ce, Ect0, Ce]
        .into_iter()
        .zip(0..)
        .map(|(ecn, value)| acknowledges(&mut space, value, ecn))
        .collect();
    assert_eq!(due, [false, true, false, false, true]);
    // With the threshold of RFC 9000 §13.2.1 and §13.2.2, each mark is acknowledged immediately.
    ask(&mut space, &frequency(1, 1, 16_000, 3));
    assert!(acknowledges(&mut space, 5, Ce) && acknowledges(&mut space, 6, Ce));
}

#[test]
fn invalid_delays_are_protocol_violations() {
    let with = |microseconds: u64| frame::AckFrequency {
        max_ack_delay: VarInt::new(microseconds).unwrap(),
        ..frequency(0, 1, 0, 1)
    };
    let code =
        |microseconds| AckPolicy::requested(&with(microseconds), LEAST).map_err(|it| it.code);
    let violation = Err(TransportErrorCode::PROTOCOL_VIOLATION);
    assert_eq!(code(999), violation);
    assert!(code(1000).is_ok());
    assert!(code(16_383_999).is_ok());
    assert_eq!(code(16_384_000), violation);
    assert_eq!(code(VarInt::MAX.get()), violation);
}

#[test]
fn a_threshold_beyond_any_count_is_none() {
    let frame =
        frame::AckFrequency { ack_eliciting_threshold: VarInt::MAX, ..frequency(0, 1, 5, 1) };
    assert_eq!(AckPolicy::requested(&frame, LEAST).unwrap().ack_eliciting_threshold, u32::MAX);
}
