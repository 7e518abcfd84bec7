use core::time::Duration;

use clearway_congestion::SendIndex;
use clearway_units::Timestamp;
use clearway_wire::VarInt;
use clearway_wire::frame::EcnCounts;

use super::{Ecn, Feedback, MARKED_ROUNDS, TEST_PACKETS};
use crate::SpaceId;
use crate::ecn::{EcnCodepoint, EcnFailure, EcnState};

const SPACE: SpaceId = SpaceId::Application;
const TIMEOUT: Duration = Duration::from_millis(100);

/// A sender of packets 0, 1, 2 …, each in its own datagram.
struct Path {
    ecn: Ecn,
    now: Timestamp,
    next: u64,
    /// Whether each packet was marked.
    marked: Vec<bool>,
    round: u64,
    largest: Option<u64>,
}

impl Path {
    fn new() -> Self {
        Self {
            ecn: Ecn::new(true),
            now: Timestamp::from_origin(Duration::from_secs(1)),
            next: 0,
            marked: Vec::new(),
            round: 0,
            largest: None,
        }
    }

    /// A path validated by the first packet.
    fn capable() -> Self {
        let mut path = Self::new();
        path.send();
        path.acknowledge(0..1, Some([1, 0, 0]));
        assert_eq!(path.ecn.state(), EcnState::Capable);
        path
    }

    fn send_as(&mut self, is_probe: bool) -> EcnCodepoint {
        let codepoint = self.ecn.codepoint(self.now, is_probe, TIMEOUT);
        let is_marked = codepoint == EcnCodepoint::Ect0;
        if is_marked {
            self.ecn.on_staged();
            self.ecn.on_sent(SPACE, SendIndex(self.next), self.now, true);
        }
        self.marked.push(is_marked);
        self.next += 1;
        codepoint
    }

    fn send(&mut self) -> bool {
        self.send_as(false) == EcnCodepoint::Ect0
    }

    /// Sends `count` packets and returns how many were marked.
    fn send_many(&mut self, count: u64) -> usize {
        (0..count).filter(|_| self.send()).count()
    }

    /// Reports the counts `[ect0, ect1, ce]` in the peer's ACK of `packets`, all of which are newly
    /// acknowledged.
    fn acknowledge(&mut self, packets: core::ops::Range<u64>, counts: Option<[u64; 3]>) {
        let number = |value: u64| VarInt::saturating(value);
        let is_marked = |index: &u64| self.marked[*index as usize];
        let largest = packets.end - 1;
        let feedback = Feedback {
            counts: counts.map(|[ect0, ect1, ce]| EcnCounts {
                ect0: number(ect0),
                ect1: number(ect1),
                ce: number(ce),
            }),
            largest,
            raises_largest: self.largest < Some(largest),
            marked: packets.clone().filter(is_marked).count() as u64,
            marked_elsewhere: 0,
            newest_marked: packets.clone().rev().find(is_marked).map(SendIndex),
            round: self.round,
        };
        self.largest = self.largest.max(Some(largest));
        self.ecn.on_ack(SPACE, &feedback);
        self.conclude();
    }

    fn conclude(&mut self) {
        self.ecn.conclude(self.largest.map(SendIndex));
    }

    fn lose(&mut self, packets: core::ops::Range<u64>) {
        for index in packets.filter(|index| self.marked[*index as usize]) {
            self.ecn.on_lost(SendIndex(index));
        }
    }

    fn failure(&self) -> Option<EcnFailure> {
        match self.ecn.state() {
            EcnState::Failed(failure) => Some(failure),
            _ => None,
        }
    }
}

#[test]
fn ten_packets_are_marked_until_the_first_is_acknowledged() {
    let mut path = Path::new();
    assert_eq!(path.send_many(12), 10);
    assert_eq!(path.ecn.state(), EcnState::Unknown);
    path.acknowledge(0..1, Some([1, 0, 0]));
    assert_eq!(path.ecn.state(), EcnState::Capable);
    assert_eq!(path.send_many(30), 30);
}

#[test]
fn a_test_ends_after_three_probe_timeouts() {
    let mut path = Path::new();
    assert!(path.send());
    path.now += 3 * TIMEOUT - Duration::from_nanos(1);
    assert!(path.send());
    path.now += Duration::from_nanos(1);
    assert!(!path.send());
}

#[test]
fn probes_are_not_marked() {
    let mut path = Path::capable();
    assert_eq!(path.send_as(true), EcnCodepoint::NotEct);
    assert!(path.send());
}

#[test]
fn disabled_ecn_marks_nothing_and_reads_no_counts() {
    let mut path = Path { ecn: Ecn::new(false), ..Path::new() };
    assert_eq!(path.send_many(3), 0);
    path.acknowledge(0..3, Some([9, 9, 9]));
    path.ecn.start_path(|_| 3);
    assert_eq!((path.ecn.state(), path.ecn.take_marks()), (EcnState::Disabled, 0));
}

/// RFC 9000 §13.4.2.1: every cause of failed validation, each with the closest case that passes.
#[test]
fn counts_that_cannot_be_right_fail() {
    use EcnFailure::*;
    for (counts, failure) in [
        (None, Some(CountsMissing)),
        (Some([3, 0, 0]), Some(CountsTooLow)),
        (Some([0, 4, 0]), Some(CountsTooLow)),
        (Some([4, 1, 0]), Some(CountsTooHigh)),
        (Some([11, 0, 0]), Some(CountsTooHigh)),
        (Some([8, 0, 3]), Some(CountsTooHigh)),
        (Some([4, 0, 0]), None),
        (Some([2, 0, 2]), None),
        (Some([10, 0, 0]), None),
    ] {
        let mut path = Path::new();
        path.send_many(10);
        path.acknowledge(0..4, counts);
        assert_eq!(path.failure(), failure, "{counts:?}");
        assert_eq!(path.send(), failure.is_none(), "{counts:?}");
    }
}

#[test]
fn counts_must_not_decrease() {
    for (counts, failure) in [
        ([3, 0, 2], Some(EcnFailure::CountsDecreased)),
        ([5, 0, 0], Some(EcnFailure::CountsDecreased)),
        ([5, 0, 1], None),
    ] {
        let mut path = Path::new();
        path.send_many(8);
        path.acknowledge(0..5, Some([4, 0, 1]));
        // An unmarked packet was acknowledged, so the sum may stay the same.
        path.ecn.conclude(None);
        path.send_as(true);
        path.acknowledge(8..9, Some(counts));
        assert_eq!(path.failure(), failure, "{counts:?}");
    }
}

#[test]
fn counts_of_reordered_acks_are_ignored() {
    let mut path = Path::new();
    path.send_many(8);
    path.acknowledge(4..8, Some([8, 0, 0]));
    // These ACKs were sent earlier, with lower counts or even without counts.
    path.acknowledge(0..2, Some([2, 0, 0]));
    path.acknowledge(2..4, None);
    assert_eq!(path.ecn.state(), EcnState::Capable);
    // The earlier ACKs did not lower the known counts either.
    path.send();
    path.acknowledge(8..9, Some([8, 0, 1]));
    assert_eq!(path.ecn.take_marks(), 1);
}

#[test]
fn acks_without_counts_are_no_failure_if_nothing_marked_is_acknowledged() {
    let mut path = Path::new();
    path.send_as(true);
    path.acknowledge(0..1, None);
    assert_eq!(path.ecn.state(), EcnState::Testing);
}

/// Gallery row 136: fewer than ten lost packets are inconclusive, ten mean failure, and an
/// acknowledged one proves that the path works.
#[test]
fn all_ten_packets_of_a_test_have_to_be_lost() {
    let mut path = Path::new();
    path.send_many(5);
    path.now += 3 * TIMEOUT;
    assert!(!path.send());
    path.lose(0..5);
    path.acknowledge(5..6, None);
    // An unmarked packet overtook all of them, so the test continues with the other five.
    assert_eq!(path.ecn.state(), EcnState::Testing);
    assert_eq!(path.send_many(8), 5);
    path.lose(6..11);
    path.acknowledge(11..12, None);
    assert_eq!(path.failure(), Some(EcnFailure::AllLost));
    assert_eq!(path.send_many(20), 0);

    let mut path = Path::new();
    path.send_many(10);
    path.lose(0..9);
    path.acknowledge(9..10, Some([1, 0, 0]));
    assert_eq!(path.ecn.state(), EcnState::Capable);
}

/// Gallery row 136: lost packets and packets reported with CE add up to ten.
#[test]
fn lost_and_marked_packets_together_fail() {
    let mut path = Path::new();
    path.send_many(10);
    path.acknowledge(0..4, Some([0, 0, 4]));
    assert_eq!(path.ecn.state(), EcnState::Testing);
    assert_eq!(path.ecn.take_marks(), 0, "the path is not validated");
    path.lose(4..10);
    path.send();
    path.acknowledge(10..11, Some([0, 0, 4]));
    assert_eq!(path.failure(), Some(EcnFailure::AllMarked));
    assert_eq!(path.ecn.take_marks(), 0);
}

#[test]
fn marks_of_a_test_count_once_the_path_is_validated() {
    let mut path = Path::new();
    path.send_many(10);
    path.acknowledge(0..4, Some([0, 0, 4]));
    path.acknowledge(4..5, Some([1, 0, 4]));
    assert_eq!((path.ecn.state(), path.ecn.take_marks()), (EcnState::Capable, 4));
    assert_eq!((path.ecn.take_marks(), path.ecn.total_marks()), (0, 4));
}

#[test]
fn a_validated_path_that_begins_to_drop_marked_packets_is_tested_again() {
    for passes in [false, true] {
        let mut path = Path::capable();
        let lost = TEST_PACKETS + 20;
        assert_eq!(path.send_many(lost) as u64, lost);
        path.send_as(true);
        path.lose(1..1 + lost);
        path.acknowledge(1 + lost..2 + lost, Some([1, 0, 0]));
        assert_eq!(path.ecn.state(), EcnState::Testing);
        assert_eq!(path.send_many(15), 10);
        let test = 2 + lost..12 + lost;
        if passes {
            // On a path that was validated before, reporting only CE means congestion.
            path.acknowledge(test, Some([1, 0, 10]));
            assert_eq!((path.ecn.state(), path.ecn.take_marks()), (EcnState::Capable, 10));
        } else {
            path.lose(test);
            path.acknowledge(12 + lost..17 + lost, Some([1, 0, 0]));
            assert_eq!(path.failure(), Some(EcnFailure::AllLost));
        }
    }
}

#[test]
fn losses_before_a_packet_that_arrived_do_not_count() {
    let mut path = Path::capable();
    for round in 0..10 {
        let first = path.next;
        path.send_many(20);
        path.acknowledge(first + 19..first + 20, Some([2 + round, 0, 0]));
        path.lose(first..first + 19);
        path.conclude();
        assert_eq!(path.ecn.state(), EcnState::Capable);
    }
}

#[test]
fn a_path_that_marks_everything_for_long_fails() {
    let mut path = Path::capable();
    for round in 0..=MARKED_ROUNDS {
        assert_eq!(path.ecn.state(), EcnState::Capable, "{round}");
        path.round = round;
        path.send();
        path.acknowledge(path.next - 1..path.next, Some([1, 0, 1 + round]));
    }
    assert_eq!(path.failure(), Some(EcnFailure::AllMarked));

    // A single packet without CE restarts the count.
    let mut path = Path::capable();
    for round in 0..3 * MARKED_ROUNDS {
        path.round = round;
        path.send();
        let unmarked = round / (MARKED_ROUNDS - 1);
        let counts = [1 + unmarked, 0, 1 + round - unmarked];
        path.acknowledge(path.next - 1..path.next, Some(counts));
    }
    assert_eq!(path.ecn.state(), EcnState::Capable);
}

/// RFC 9000 §13.4.2: each path is validated. The counts continue, and counts of the old path's
/// packets are not evidence.
#[test]
fn a_new_path_is_validated_for_itself() {
    let mut path = Path::new();
    path.send_many(6);
    path.acknowledge(0..1, None);
    assert_eq!(path.failure(), Some(EcnFailure::CountsMissing));
    let first = path.next;
    path.ecn.start_path(|_| first);
    assert_eq!(path.send_many(3), 3);
    // The old path changed marks to ECT(1), some of them late.
    path.marked[..first as usize].fill(false);
    path.acknowledge(2..3, Some([0, 5, 0]));
    assert_eq!(path.ecn.state(), EcnState::Testing);
    path.acknowledge(6..7, Some([1, 5, 0]));
    assert_eq!(path.ecn.state(), EcnState::Capable);
    path.acknowledge(7..9, Some([3, 6, 0]));
    assert_eq!(path.failure(), Some(EcnFailure::CountsTooHigh));
}

#[test]
fn acks_that_also_acknowledge_marked_packets_of_an_earlier_path_are_no_evidence() {
    let mut path = Path::capable();
    path.send_many(5);
    path.ecn.start_path(|_| 6);
    path.send_many(3);
    let counts = |value: u64| VarInt::saturating(value);
    let feedback = Feedback {
        counts: Some(EcnCounts { ect0: counts(2), ect1: counts(4), ce: counts(1) }),
        largest: 6,
        raises_largest: true,
        marked: 1,
        marked_elsewhere: 5,
        newest_marked: Some(SendIndex(6)),
        round: 0,
    };
    path.ecn.on_ack(SPACE, &feedback);
    assert_eq!((path.ecn.state(), path.ecn.take_marks()), (EcnState::Testing, 0));
    path.largest = Some(6);
    path.acknowledge(7..9, Some([4, 4, 1]));
    assert_eq!((path.ecn.state(), path.ecn.take_marks()), (EcnState::Capable, 0));
}
