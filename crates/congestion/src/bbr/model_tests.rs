use super::*;
use crate::bbr::tests::sample;
use crate::testing::ms;

fn at(milliseconds: u64) -> Timestamp {
    Timestamp::from_origin(ms(milliseconds))
}

fn rate(bytes: u64) -> Rate {
    Rate::from_bytes_per_second(bytes)
}

fn rate_sample(bytes: u64, is_application_limited: bool) -> Sample {
    Sample { rate: rate(bytes), is_application_limited, ..sample() }
}

#[test]
fn the_bandwidth_is_the_maximum_of_this_cycle_and_the_previous_one() {
    let mut bandwidth = Bandwidth::default();
    bandwidth.update(&rate_sample(100, false));
    bandwidth.update(&rate_sample(80, false));
    bandwidth.advance();
    assert_eq!(bandwidth.maximum(), rate(100));
    bandwidth.update(&rate_sample(70, false));
    assert_eq!(bandwidth.maximum(), rate(100), "the previous cycle counts");
    bandwidth.advance();
    assert_eq!(bandwidth.maximum(), rate(70), "the cycle before that does not (row 108)");
}

#[test]
fn a_cycle_without_samples_is_not_counted() {
    let mut bandwidth = Bandwidth::default();
    bandwidth.update(&rate_sample(100, false));
    for _ in 0..3 {
        bandwidth.advance();
    }
    assert_eq!(bandwidth.maximum(), rate(100));
}

#[test]
fn application_limited_samples_can_only_raise_the_bandwidth() {
    let mut bandwidth = Bandwidth::default();
    bandwidth.update(&rate_sample(100, false));
    bandwidth.advance();
    bandwidth.update(&rate_sample(50, true));
    bandwidth.advance();
    assert_eq!(bandwidth.maximum(), rate(100));
    bandwidth.update(&rate_sample(120, true));
    assert_eq!(bandwidth.maximum(), rate(120));
}

/// Returns a minimum RTT of 10 ms, with a transmission time of 2 ms per datagram at the bottleneck.
fn confirmed(samples: &[(u64, u64)]) -> MinimumRtt {
    let mut rtt = MinimumRtt::default();
    rtt.update(at(0), ms(10), ms(2));
    for (time, sample) in samples {
        rtt.update(at(*time), ms(*sample), ms(2));
    }
    rtt
}

/// A sample within one packet's transmission time of the minimum shows that there is no queue: the
/// search can wait.
#[test]
fn a_round_trip_time_as_low_as_the_minimum_postpones_the_search() {
    assert!(confirmed(&[(4000, 13), (5001, 13)]).is_due, "a queue of more than a datagram");
    let rtt = confirmed(&[(4000, 12), (5001, 13), (9000, 13)]);
    assert!(!rtt.is_due);
    assert_eq!(rtt.minimum(), Some(ms(10)), "only a lower sample changes the minimum");
    assert!(confirmed(&[(4000, 12), (9001, 13)]).is_due, "an interval after the confirmation");
}

/// A queue built by other flows looks like a higher minimum RTT if its length does not change.
#[test]
fn the_search_waits_for_a_lifetime_at_most() {
    let samples: Vec<_> = (1..=10).map(|second| (1000 * second, 10)).collect();
    assert!(!confirmed(&samples).is_due);
    let last = [&samples[..], &[(10_001, 10)]].concat();
    let rtt = confirmed(&last);
    assert!(rtt.is_due);
    assert_eq!(rtt.minimum(), Some(ms(10)), "the search begins with the minimum known");
}

/// ProbeRTT's window is derived from the minimum RTT, which has to be known when ProbeRTT begins,
/// even if the first late sample was taken behind a queue.
#[test]
fn a_confirmed_minimum_is_valid_for_a_lifetime_after_it() {
    let mut rtt = confirmed(&[(4000, 12), (8000, 12), (10_001, 40)]);
    assert!(rtt.is_due);
    assert_eq!(rtt.minimum(), Some(ms(10)));
    rtt.schedule(at(10_300));
    rtt.update(at(18_001), ms(40), ms(2));
    assert_eq!(rtt.minimum(), Some(ms(40)), "the path is longer");
}

/// Samples that are each slightly longer than the previous one do not raise the minimum.
#[test]
fn the_minimum_does_not_drift() {
    let mut rtt = confirmed(&[]);
    for step in 0..8 {
        rtt.update(at(1000 * (step + 1)), ms(10 + step), ms(2));
    }
    assert_eq!((rtt.minimum(), rtt.confirmed_at), (Some(ms(10)), at(3000)));
}

#[test]
fn there_is_no_round_trip_time_before_a_sample() {
    let mut rtt = MinimumRtt::default();
    assert_eq!(rtt.minimum(), None);
    rtt.update(at(1_000_000), ms(30), Duration::ZERO);
    assert_eq!(rtt.minimum(), Some(ms(30)));
    assert!(!rtt.is_due, "nothing is overdue at the first sample, at any clock time");
}

#[test]
fn a_new_minimum_is_due_after_five_seconds_and_adopted_after_ten() {
    let mut rtt = MinimumRtt::default();
    rtt.update(at(0), ms(30), Duration::ZERO);
    rtt.update(at(5000), ms(40), Duration::ZERO);
    assert!(!rtt.is_due);
    rtt.update(at(5001), ms(40), Duration::ZERO);
    assert!(rtt.is_due, "row 122");
    rtt.update(at(5002), ms(45), Duration::ZERO);
    assert!(!rtt.is_due, "it was refreshed");
    assert_eq!(rtt.minimum(), Some(ms(30)));
    rtt.update(at(10_001), ms(50), Duration::ZERO);
    assert_eq!(rtt.minimum(), Some(ms(40)), "the minimum of the last interval");
    rtt.update(at(10_002), ms(20), Duration::ZERO);
    assert_eq!(rtt.minimum(), Some(ms(20)));
}

#[test]
fn a_probe_runs_at_most_once_in_five_round_trips() {
    let mut rtt = MinimumRtt::default();
    rtt.update(at(0), ms(2000), Duration::ZERO);
    rtt.update(at(10_000), ms(2100), Duration::ZERO);
    assert!(!rtt.is_due);
    rtt.update(at(10_001), ms(2100), Duration::ZERO);
    assert!(rtt.is_due);
    rtt.update(at(20_000), ms(2200), Duration::ZERO);
    assert_eq!(rtt.minimum(), Some(ms(2000)));
    rtt.update(at(20_002), ms(2200), Duration::ZERO);
    assert_eq!(rtt.minimum(), Some(ms(2200)), "older than two intervals");
}

#[test]
fn the_next_probe_for_the_round_trip_time_is_an_interval_after_the_last() {
    let mut rtt = MinimumRtt::default();
    rtt.update(at(0), ms(30), Duration::ZERO);
    rtt.schedule(at(3000));
    rtt.update(at(8000), ms(31), Duration::ZERO);
    assert!(!rtt.is_due);
    rtt.update(at(8001), ms(31), Duration::ZERO);
    assert!(rtt.is_due);
}

struct Aggregate(Aggregation, Timestamp);

impl Aggregate {
    /// Acknowledges `newly_acked` bytes in `round`, after `milliseconds`, with a bandwidth estimate
    /// of 1 byte per ms.
    fn after(&mut self, milliseconds: u64, newly_acked: u64, round: u64, rounds: u64) -> u64 {
        self.1 += ms(milliseconds);
        let sample = Sample { now: self.1, newly_acked, ..sample() };
        self.0.update(&sample, rate(1000), 500, round, rounds);
        self.0.maximum()
    }
}

#[test]
fn bytes_acknowledged_beyond_the_bandwidth_are_aggregation() {
    let mut path = Aggregate(Aggregation::default(), at(1000));
    assert_eq!(path.after(0, 30, 0, 10), 30, "a new interval expects nothing yet");
    assert_eq!(path.after(10, 30, 1, 10), 50, "60 in 10 ms");
    assert_eq!(path.after(50, 1, 2, 10), 50, "61 in 60 ms: 1 more than expected");
    assert_eq!(path.after(1, 900, 3, 10), 500, "at most the window");
}

#[test]
fn aggregation_is_remembered_for_the_given_number_of_rounds() {
    let mut path = Aggregate(Aggregation::default(), at(1000));
    path.after(0, 100, 0, 1);
    path.after(1000, 5, 0, 1);
    assert_eq!(path.0.maximum(), 100);
    assert_eq!(path.after(1000, 5, 1, 1), 5, "in Startup, one round");
    path.after(1000, 100, 2, 10);
    for round in 3..12 {
        assert_eq!(path.after(1000, 5, round, 10), 100, "{round}");
    }
    assert_eq!(path.after(1000, 5, 12, 10), 5);
    assert_eq!(path.after(1000, 7, 500, 10), 7, "after a jump as well");
}
