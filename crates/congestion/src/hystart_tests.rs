use core::time::Duration;

use clearway_units::Timestamp;

use super::{HyStart, SlowStartVerdict};
use crate::testing::ms;
use crate::{Acknowledgement, DeliverySnapshot, RttSnapshot, SendIndex, SentPacket};

const GROW: SlowStartVerdict = SlowStartVerdict::Grow(1);
const SLOW: SlowStartVerdict = SlowStartVerdict::Grow(4);

/// Sends flights of packets and acknowledges them one by one.
struct Trace {
    hystart: HyStart,
    next: u64,
}

impl Trace {
    fn new() -> Self {
        Self { hystart: HyStart::new(), next: 0 }
    }

    fn acknowledge(&mut self, index: Option<u64>, sample: Option<Duration>) -> SlowStartVerdict {
        let packet = SentPacket {
            index: SendIndex(index.unwrap_or_default()),
            bytes: 1200,
            sent_at: Timestamp::ORIGIN,
            delivery: DeliverySnapshot::default(),
        };
        let acked: &[SentPacket] = if index.is_some() { &[packet] } else { &[] };
        let latest = sample.unwrap_or(ms(1));
        self.hystart.on_acknowledgement(&Acknowledgement {
            now: Timestamp::ORIGIN,
            acked,
            lost: &[],
            next_index: SendIndex(self.next),
            largest_acked: index.map(SendIndex),
            rtt: Some(RttSnapshot {
                latest,
                smoothed: latest,
                minimum: ms(1),
                variation: ms(0),
                is_new: sample.is_some(),
            }),
            prior_in_flight: 0,
            bytes_in_flight: 0,
            persistent_congestion: false,
            newly_ce_marked: 0,
            rate_sample: None,
            total_delivered: 0,
            total_lost: 0,
            round: 0,
            was_limited: true,
            was_window_limited: true,
            limited_time: ms(0),
        })
    }

    /// Runs a round: `packets` packets are sent, and each acknowledgment carries a sample of `rtt`.
    fn round(&mut self, packets: u64, rtt: Duration) -> Vec<SlowStartVerdict> {
        let first = self.next;
        self.next += packets;
        (first..self.next).map(|index| self.acknowledge(Some(index), Some(rtt))).collect()
    }

    fn last_of_round(&mut self, packets: u64, rtt: Duration) -> SlowStartVerdict {
        *self.round(packets, rtt).last().unwrap()
    }

    /// A trace that has just become conservative because 50 ms became 100 ms.
    fn conservative() -> Self {
        let mut trace = Self::new();
        assert_eq!(trace.last_of_round(10, ms(50)), GROW);
        assert_eq!(trace.last_of_round(8, ms(100)), SLOW);
        trace
    }
}

#[test]
fn a_steady_delay_does_not_leave_slow_start() {
    let mut trace = Trace::new();
    for _ in 0..50 {
        assert!(trace.round(20, ms(50)).iter().all(|verdict| *verdict == GROW));
    }
}

#[test]
fn the_eighth_sample_of_a_round_decides() {
    let mut trace = Trace::new();
    trace.round(10, ms(50));
    let verdicts = trace.round(9, ms(100));
    assert_eq!(verdicts[..7], [GROW; 7]);
    assert_eq!(verdicts[7..], [SLOW; 2]);
}

#[test]
fn one_low_sample_clears_a_round() {
    let mut trace = Trace::new();
    trace.round(10, ms(50));
    let first = trace.next;
    trace.next += 20;
    for index in first..trace.next {
        let rtt = if index == first { ms(50) } else { ms(100) };
        assert_eq!(trace.acknowledge(Some(index), Some(rtt)), GROW);
    }
}

#[test]
fn the_threshold_is_an_eighth_between_4_and_16_ms() {
    for (rtt, least) in [(10, 4), (32, 4), (80, 10), (128, 16), (1000, 16)] {
        for (more, verdict) in [(least * 1000 - 1, GROW), (least * 1000, SLOW)] {
            let mut trace = Trace::new();
            trace.round(10, ms(rtt));
            let rtt = ms(rtt) + Duration::from_micros(more);
            assert_eq!(trace.last_of_round(10, rtt), verdict, "{rtt:?}");
        }
    }
}

#[test]
fn a_falling_delay_does_not_leave_slow_start() {
    // Row 40.
    let mut trace = Trace::new();
    for rtt in [100, 50, 20, 23, 20] {
        assert_eq!(trace.last_of_round(20, ms(rtt)), GROW);
    }
}

#[test]
fn a_round_without_samples_gives_the_next_one_no_baseline() {
    let mut trace = Trace::new();
    trace.round(10, ms(50));
    trace.next += 1;
    trace.acknowledge(Some(trace.next - 1), None);
    assert_eq!(trace.last_of_round(20, ms(100)), GROW);
    assert_eq!(trace.last_of_round(20, ms(150)), SLOW);
}

#[test]
fn a_round_ends_with_a_packet_sent_after_it_began() {
    let mut trace = Trace::new();
    // 6 of 30 packets in flight are acknowledged; then more packets are sent, and the other 24 are
    // acknowledged.
    trace.next = 30;
    for index in 0..6 {
        trace.acknowledge(Some(index), Some(ms(50)));
    }
    trace.next = 60;
    for index in 6..30 {
        assert_eq!(
            trace.acknowledge(Some(index), Some(ms(100))),
            GROW,
            "the round of 50 ms continues"
        );
    }
    // Index 30 was sent after the first acknowledgment began the round, so the next round begins.
    for index in 30..37 {
        assert_eq!(trace.acknowledge(Some(index), Some(ms(100))), GROW);
    }
    assert_eq!(trace.acknowledge(Some(37), Some(ms(100))), SLOW);
}

#[test]
fn events_without_acknowledgements_are_not_samples() {
    let mut trace = Trace::new();
    trace.round(10, ms(50));
    for _ in 0..20 {
        assert_eq!(trace.acknowledge(None, None), GROW);
    }
    assert_eq!(trace.last_of_round(7, ms(100)), GROW);
}

#[test]
fn a_delay_that_stays_ends_slow_start_after_five_rounds() {
    // The round trip after the delay increase was detected is one of the five (RFC 9406 §4.2).
    let mut trace = Trace::conservative();
    for _ in 1..5 {
        assert!(trace.round(20, ms(100)).iter().all(|verdict| *verdict == SLOW));
    }
    assert_eq!(trace.round(1, ms(100)), [SlowStartVerdict::Leave]);
}

#[test]
fn five_rounds_end_slow_start_even_with_few_samples() {
    let mut trace = Trace::conservative();
    for _ in 1..5 {
        assert_eq!(trace.last_of_round(1, ms(10)), SLOW);
    }
    assert_eq!(trace.round(1, ms(10)), [SlowStartVerdict::Leave]);
}

#[test]
fn a_delay_that_goes_away_resumes_slow_start() {
    let mut trace = Trace::conservative();
    trace.round(20, ms(100));
    let verdicts = trace.round(10, ms(99));
    assert_eq!(verdicts[..7], [SLOW; 7]);
    assert_eq!(verdicts[7..], [GROW; 3]);
    assert!(!trace.hystart.is_conservative());
    // HyStart++ resumes with that sample, again with the full number of rounds.
    assert_eq!(trace.last_of_round(20, ms(150)), SLOW);
    for _ in 1..5 {
        assert_eq!(trace.last_of_round(20, ms(150)), SLOW);
    }
    assert_eq!(trace.round(1, ms(150)), [SlowStartVerdict::Leave]);
}

#[test]
fn samples_of_the_suspicious_round_do_not_clear_it() {
    // Row 32: the sample count starts again, and so does the round.
    let mut trace = Trace::new();
    trace.round(10, ms(50));
    let first = trace.next;
    trace.next += 30;
    for index in first..first + 8 {
        trace.acknowledge(Some(index), Some(ms(100)));
    }
    assert!(trace.hystart.is_conservative());
    for index in first + 8..first + 15 {
        assert_eq!(trace.acknowledge(Some(index), Some(ms(60))), SLOW, "seven samples are too few");
    }
    assert_eq!(trace.acknowledge(Some(first + 15), Some(ms(60))), GROW);
}
