use core::time::Duration;

use clearway_wire::{Frame, Reader, Writer};
use proptest::prelude::*;

use super::*;
use crate::token::Token;

fn at(milliseconds: u64) -> Timestamp {
    Timestamp::from_origin(Duration::from_millis(milliseconds))
}

fn number(value: u64) -> PacketNumber {
    PacketNumber::new(value).unwrap()
}

/// The state of the Application space.
fn received() -> ReceivedPackets {
    ReceivedPackets::new(AckPolicy::new(2, Duration::from_millis(25)), false)
}

fn receive(space: &mut ReceivedPackets, numbers: impl IntoIterator<Item = u64>) {
    for value in numbers {
        space.on_packet(number(value), at(0), false, EcnCodepoint::NotEct);
    }
}

/// A written ACK frame: its delay, its ranges in descending order, and its tokens.
type Written = (u64, Vec<(u64, u64)>, Vec<Token>);

fn write(space: &mut ReceivedPackets, now: Timestamp, room: usize) -> Option<Written> {
    let mut buffer = vec![0; room];
    let mut writer = Writer::new(&mut buffer);
    let mut tokens = Vec::new();
    let mut contents = PacketContents::new(&mut writer, &mut tokens);
    let was_written = space.write_ack(now, 3, &mut contents);
    assert!(!contents.is_ack_eliciting() && !contents.counts_in_flight());
    if !was_written {
        assert_eq!((writer.written(), tokens.len()), (0, 0));
        return None;
    }
    let Ok(Frame::Ack(ack)) = Frame::decode(&mut Reader::new(writer.filled())) else {
        panic!("an ACK was written")
    };
    let ranges = ack.ranges().map(|range| (range.start().get(), range.end().get())).collect();
    Some((ack.delay.get(), ranges, tokens))
}

fn ranges(space: &mut ReceivedPackets) -> Vec<(u64, u64)> {
    write(space, at(0), 1200).map_or(Vec::new(), |(_, ranges, _)| ranges)
}

#[test]
fn nothing_received_needs_no_ack() {
    let mut space = received();
    assert_eq!(space.largest(), None);
    assert_eq!(space.deadline(), None);
    assert!(!space.has_unacknowledged() && !space.is_due(Timestamp::FAR_FUTURE));
    assert_eq!(write(&mut space, at(0), 1200), None);
}

#[test]
fn ranges_join_and_descend() {
    let mut space = received();
    receive(&mut space, [0, 1, 2, 5, 6, 9, 8]);
    assert_eq!(ranges(&mut space), [(8, 9), (5, 6), (0, 2)]);
    receive(&mut space, [7]);
    assert_eq!(ranges(&mut space), [(5, 9), (0, 2)]);
    receive(&mut space, [4, 3]);
    assert_eq!(ranges(&mut space), [(0, 9)]);
    assert_eq!(space.largest(), Some(number(9)));
}

#[test]
fn every_packet_is_new_once() {
    let mut space = received();
    receive(&mut space, [3, 4, 9]);
    for (value, expected) in [(2, false), (3, true), (4, true), (5, false), (9, true), (10, false)]
    {
        assert_eq!(space.is_duplicate(number(value)), expected, "{value}");
    }
}

#[test]
fn a_duplicate_changes_nothing() {
    let mut space = received();
    space.on_packet(number(0), at(0), true, EcnCodepoint::NotEct);
    write(&mut space, at(0), 1200);
    space.on_packet(number(0), at(5), true, EcnCodepoint::Ce);
    assert_eq!(space.deadline(), None);
    assert!(!space.has_unacknowledged());
}

#[test]
fn one_packet_waits_for_most_of_the_delay_and_the_second_is_due() {
    let mut space = received();
    space.on_packet(number(0), at(10), true, EcnCodepoint::NotEct);
    assert_eq!(space.deadline(), Some(at(30)), "a late timer fires within the 25 ms");
    assert!(!space.is_due(at(29)) && space.is_due(at(30)));
    space.on_packet(number(1), at(12), true, EcnCodepoint::NotEct);
    assert!(space.is_due(at(12)));
    write(&mut space, at(12), 1200);
    assert_eq!(space.deadline(), None);
    assert!(!space.has_unacknowledged());
    // A later packet does not postpone the deadline.
    space.on_packet(number(2), at(20), true, EcnCodepoint::NotEct);
    space.on_packet(number(3), at(30), false, EcnCodepoint::NotEct);
    assert_eq!(space.deadline(), Some(at(40)));
}

#[test]
fn the_threshold_is_configurable() {
    let mut space = ReceivedPackets::new(AckPolicy::new(10, Duration::from_millis(25)), false);
    for value in 0..9 {
        space.on_packet(number(value), at(value), true, EcnCodepoint::NotEct);
        assert_eq!(space.deadline(), Some(at(20)), "the first packet's");
    }
    space.on_packet(number(9), at(9), true, EcnCodepoint::NotEct);
    assert!(space.is_due(at(9)));
}

#[test]
fn initial_and_handshake_packets_are_acknowledged_at_once() {
    let mut space = ReceivedPackets::new(AckPolicy::new(2, Duration::from_millis(25)), true);
    space.on_packet(number(0), at(7), true, EcnCodepoint::NotEct);
    assert!(space.is_due(at(7)));
}

#[test]
fn packets_that_elicit_no_ack_get_none_of_their_own() {
    let mut space = received();
    receive(&mut space, [0, 1, 2, 3, 9, 7]);
    assert_eq!(space.deadline(), None);
    assert!(space.has_unacknowledged(), "but one that is sent anyway reports them");
}

#[test]
fn gaps_and_late_packets_are_acknowledged_at_once() {
    let mut space = received();
    space.on_packet(number(0), at(0), true, EcnCodepoint::NotEct);
    write(&mut space, at(0), 1200);
    space.on_packet(number(2), at(1), true, EcnCodepoint::NotEct);
    assert!(space.is_due(at(1)), "1 is missing");
    write(&mut space, at(1), 1200);
    space.on_packet(number(1), at(2), true, EcnCodepoint::NotEct);
    assert!(space.is_due(at(2)), "it is late");
    write(&mut space, at(2), 1200);
    space.on_packet(number(3), at(3), true, EcnCodepoint::NotEct);
    assert!(!space.is_due(at(3)), "all is in order again");
}

#[test]
fn a_packet_after_a_known_gap_waits_like_any_other() {
    let mut space = received();
    space.on_packet(number(0), at(0), true, EcnCodepoint::NotEct);
    space.on_packet(number(5), at(0), true, EcnCodepoint::NotEct);
    write(&mut space, at(0), 1200);
    space.on_packet(number(6), at(1), true, EcnCodepoint::NotEct);
    assert!(!space.is_due(at(1)));
    // A packet that is not ack-eliciting reveals the gap, and the next ack-eliciting packet
    // triggers the ACK.
    write(&mut space, at(1), 1200);
    space.on_packet(number(8), at(2), false, EcnCodepoint::NotEct);
    assert_eq!(space.deadline(), None);
    space.on_packet(number(9), at(3), true, EcnCodepoint::NotEct);
    assert!(space.is_due(at(3)));
}

#[test]
fn a_congestion_mark_is_acknowledged_at_once() {
    let mut space = received();
    space.on_packet(number(0), at(0), true, EcnCodepoint::Ce);
    assert!(space.is_due(at(0)));
}

#[test]
fn the_delay_is_that_of_the_largest_packet() {
    let mut space = received();
    space.on_packet(number(4), at(100), true, EcnCodepoint::NotEct);
    space.on_packet(number(3), at(110), true, EcnCodepoint::NotEct);
    let (delay, _, tokens) = write(&mut space, at(116), 1200).unwrap();
    assert_eq!(delay, 16_000 >> 3);
    assert_eq!(tokens, [Token::Ack { largest: number(4) }]);
}

#[test]
fn without_room_the_ack_stays_due() {
    let mut space = received();
    space.on_packet(number(0), at(0), true, EcnCodepoint::Ce);
    assert_eq!(write(&mut space, at(0), 3), None);
    assert!(space.is_due(at(0)) && space.has_unacknowledged());
}

#[test]
fn with_little_room_the_newest_ranges_are_written() {
    let mut space = received();
    receive(&mut space, (0..40).map(|value| value * 2));
    let (_, written, _) = write(&mut space, at(0), 20).unwrap();
    assert!(!written.is_empty() && written.len() < 40);
    assert_eq!(written[0], (78, 78));
}

#[test]
fn acknowledged_acks_let_ranges_be_forgotten() {
    let mut space = received();
    receive(&mut space, [0, 1, 2, 5, 6]);
    write(&mut space, at(0), 1200);
    receive(&mut space, [7]);
    space.on_packet(number(9), at(0), true, EcnCodepoint::NotEct);
    space.on_ack_acknowledged(number(6));
    assert_eq!(ranges(&mut space), [(9, 9), (7, 7)]);
    // Packets that need not be reported are still recognized as duplicates.
    let known = |space: &ReceivedPackets, value| space.is_duplicate(number(value));
    assert!([0, 1, 2, 5, 6].into_iter().all(|value| known(&space, value)));
    assert!([3, 4, 8].into_iter().all(|value| !known(&space, value)));
    space.on_ack_acknowledged(number(9));
    assert_eq!(space.largest(), Some(number(9)), "still needed to decode packet numbers");
    assert_eq!(write(&mut space, at(0), 1200), None);
    // Packets in order are still in order.
    space.on_packet(number(10), at(1), true, EcnCodepoint::NotEct);
    assert!(!space.is_due(at(1)));
}

#[test]
fn a_packet_that_is_later_than_a_round_trip_is_used_and_acknowledged() {
    // RFC 9000 §12.3: the number below which all packets are discarded must allow for large
    // variations of the round-trip time. That the peer received an ACK does not matter for packets
    // that the ACK did not report.
    let mut space = received();
    receive(&mut space, [0, 1, 2, 5]);
    space.on_packet(number(6), at(0), true, EcnCodepoint::NotEct);
    write(&mut space, at(0), 1200);
    space.on_ack_acknowledged(number(6));
    assert!(!space.is_duplicate(number(3)));
    space.on_packet(number(3), at(1), true, EcnCodepoint::NotEct);
    assert!(space.is_due(at(1)), "it is late");
    assert_eq!(ranges(&mut space), [(5, 6), (3, 3)]);
    // The ACK is repeated until the peer has received it; then nothing is left to report.
    receive(&mut space, [7]);
    assert_eq!(ranges(&mut space), [(5, 7), (3, 3)]);
    space.on_ack_acknowledged(number(7));
    receive(&mut space, [8]);
    assert_eq!(ranges(&mut space), [(8, 8)]);
    assert!(space.is_duplicate(number(3)) && !space.is_duplicate(number(4)));
}

#[test]
fn what_came_after_the_acknowledged_ack_is_not_forgotten() {
    let mut space = received();
    receive(&mut space, [0, 1, 2, 3]);
    space.on_packet(number(9), at(0), true, EcnCodepoint::NotEct);
    write(&mut space, at(0), 1200);
    space.on_packet(number(5), at(1), true, EcnCodepoint::NotEct);
    space.on_ack_acknowledged(number(9));
    assert!(space.is_due(at(1)));
    assert_eq!(ranges(&mut space), [(9, 9), (5, 5)]);
    assert_eq!(space.deadline(), None);
}

#[test]
fn ranges_are_capped_and_the_oldest_go() {
    let mut space = received();
    receive(&mut space, (0..10_000).map(|value| value * 2 + 1));
    assert_eq!(space.ranges.len(), MAX_RANGES);
    assert!(space.is_duplicate(number(0)), "forgotten, so not accepted any more");
    assert!(space.is_duplicate(number(19_999)));
    assert!(!space.is_duplicate(number(19_998)));
    // A packet below all ranges, for which there is no room.
    space.on_packet(number(2), at(0), true, EcnCodepoint::NotEct);
    assert!(space.ranges.len() <= MAX_RANGES);
    assert_eq!(ranges(&mut space).len(), MAX_RANGES_WRITTEN);
}

#[test]
fn the_largest_number_of_all_is_no_trouble() {
    let mut space = received();
    space.on_packet(PacketNumber::MAX, at(0), true, EcnCodepoint::NotEct);
    assert!(space.is_duplicate(PacketNumber::MAX));
    assert_eq!(ranges(&mut space), [(PacketNumber::MAX.get(), PacketNumber::MAX.get())]);
    space.on_ack_acknowledged(PacketNumber::MAX);
    assert_eq!(write(&mut space, at(0), 1200), None);
}

proptest! {
    #[test]
    fn it_reports_exactly_what_came(numbers in prop::collection::vec(0..150_u64, 0..200)) {
        let mut space = received();
        let mut model = std::collections::BTreeSet::new();
        for value in numbers {
            prop_assert_eq!(space.is_duplicate(number(value)), !model.insert(value));
            space.on_packet(number(value), at(value), true, EcnCodepoint::NotEct);
            prop_assert!(space.deadline().is_some());
        }
        let written = write(&mut space, at(0), 4000).map(|(_, ranges, _)| ranges);
        let reported: Vec<u64> =
            written.iter().flatten().rev().flat_map(|(first, last)| *first..=*last).collect();
        prop_assert_eq!(reported, model.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn an_ack_that_is_due_can_always_be_written(
        operations in prop::collection::vec((0..600_u64, 0..4_u8), 0..400),
    ) {
        let mut space = received();
        let mut reported = Vec::new();
        for (value, what) in operations {
            match what {
                0 if space.has_unacknowledged() => {
                    reported.push(space.largest().unwrap());
                    prop_assert!(write(&mut space, at(0), 1200).is_some());
                    prop_assert_eq!(space.deadline(), None);
                }
                1 => {
                    if let Some(largest) = reported.pop() {
                        space.on_ack_acknowledged(largest);
                    }
                }
                _ => space.on_packet(number(value), at(0), what == 2, EcnCodepoint::NotEct),
            }
            prop_assert!(space.ranges.len() <= MAX_RANGES);
            prop_assert!(space.deadline().is_none() || space.has_unacknowledged());
        }
        if space.has_unacknowledged() {
            prop_assert!(write(&mut space, at(0), 1200).is_some());
        }
    }
}
