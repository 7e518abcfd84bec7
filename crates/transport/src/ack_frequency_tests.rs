use clearway_wire::{Reader, Writer};
use proptest::prelude::*;

use super::*;

fn milliseconds(value: u64) -> Duration {
    Duration::from_millis(value)
}

/// Returns the state for a peer whose `max_ack_delay` and `min_ack_delay` are `max` and `least`
/// milliseconds.
fn of_peer(max: u32, least: Option<u32>) -> AckFrequency {
    let mut frequency = AckFrequency::new(true);
    frequency.set_peer_parameters(&TransportParameters {
        max_ack_delay: VarInt::from_u32(max),
        min_ack_delay: least.map(|least| VarInt::from_u32(least * 1000)),
        ..TransportParameters::default()
    });
    frequency
}

fn facts(window: u64, rtt: u64) -> PathFacts {
    PathFacts {
        window,
        is_ack_clocked: false,
        smoothed_rtt: milliseconds(rtt),
        packet_threshold: 3,
    }
}

/// Returns a path that is limited by the congestion window.
fn clocked(window: u64, rtt: u64) -> PathFacts {
    PathFacts { is_ack_clocked: true, ..facts(window, rtt) }
}

/// Returns the frame that is written, if any.
fn written(frequency: &mut AckFrequency) -> Option<frame::AckFrequency> {
    let mut buffer = [0; 64];
    let mut writer = Writer::new(&mut buffer);
    let mut tokens = Vec::new();
    let mut contents = PacketContents::new(&mut writer, &mut tokens);
    frequency.write_frame(&mut contents).unwrap();
    let mut reader = Reader::new(writer.filled());
    let Ok(Frame::AckFrequency(frame)) = Frame::decode(&mut reader) else { return None };
    assert_eq!(tokens, [Token::AckFrequency { sequence: frame.sequence.get() }]);
    Some(frame)
}

/// Returns the fields of the requested frame: threshold, delay in microseconds, and reordering
/// threshold.
fn requested(frequency: &mut AckFrequency, facts: &PathFacts) -> Option<(u64, u64, u64)> {
    frequency.consider(facts);
    let frame = written(frequency)?;
    Some((
        frame.ack_eliciting_threshold.get(),
        frame.max_ack_delay.get(),
        frame.reordering_threshold.get(),
    ))
}

#[test]
fn a_small_window_asks_for_nothing() {
    let mut frequency = of_peer(25, Some(1));
    assert_eq!(requested(&mut frequency, &facts(79, 100)), None);
    assert_eq!(requested(&mut frequency, &facts(80, 100)), Some((4, 25_000, 3)));
}

/// With one ACK frame for every second packet, there would be fewer than twelve ACK frames per
/// window.
#[test]
fn a_small_window_that_is_the_limit_asks_for_an_ack_for_every_packet() {
    let mut frequency = of_peer(25, Some(1));
    for (facts, is_each) in [
        (clocked(24, 40), false),
        (facts(23, 40), false),
        (clocked(23, 40), true),
        // The window fluctuates.
        (clocked(31, 40), true),
        (clocked(32, 40), false),
        (clocked(24, 40), false),
        (clocked(10, 40), true),
        (facts(10, 40), false),
    ] {
        assert_eq!(requested(&mut frequency, &facts), None, "an unnecessary frame for {facts:?}");
        assert_eq!(frequency.wants_each_acknowledged(), is_each, "{facts:?}");
    }
}

/// With a small window after a large one, the usual threshold is requested again, and no lower one.
#[test]
fn no_request_has_a_threshold_of_zero() {
    let mut frequency = of_peer(25, Some(1));
    assert_eq!(requested(&mut frequency, &clocked(160, 40)), Some((9, 10_000, 3)));
    frequency.on_acked(0);
    assert_eq!(requested(&mut frequency, &clocked(10, 40)), Some((1, 10_000, 3)));
    frequency.on_acked(1);
    assert!(frequency.wants_each_acknowledged());
    assert_eq!(requested(&mut frequency, &clocked(32, 40)), None);
    assert!(!frequency.wants_each_acknowledged());
}

#[test]
fn who_supports_it_not_or_does_not_want_it_is_asked_nothing() {
    assert_eq!(requested(&mut of_peer(25, None), &facts(1000, 100)), None);
    let mut frequency = AckFrequency::new(false);
    let min_ack_delay = Some(VarInt::ZERO);
    let parameters = TransportParameters { min_ack_delay, ..TransportParameters::default() };
    frequency.set_peer_parameters(&parameters);
    assert_eq!(requested(&mut frequency, &facts(1000, 100)), None);
    assert!(!frequency.is_used());
}

#[test]
fn the_delay_is_a_quarter_of_a_round_trip_within_the_peers_limits() {
    assert_eq!(requested(&mut of_peer(25, Some(1)), &facts(160, 40)), Some((9, 10_000, 3)));
    assert_eq!(requested(&mut of_peer(25, Some(1)), &facts(160, 400)), Some((9, 25_000, 3)));
    assert_eq!(requested(&mut of_peer(25, Some(15)), &facts(160, 40)), Some((9, 15_000, 3)));
}

/// At least one ACK frame must arrive per round trip. A peer whose `min_ack_delay` exceeds the
/// round-trip time cannot guarantee that.
#[test]
fn no_delay_longer_than_the_round_trip_is_asked_for() {
    assert_eq!(requested(&mut of_peer(25, Some(15)), &facts(160, 14)), None);
    assert_eq!(requested(&mut of_peer(25, Some(15)), &facts(160, 15)), Some((9, 15_000, 3)));
    // A peer that delays ACKs for longer than a round trip, and not only by default, gets a request
    // for a shorter delay.
    assert_eq!(requested(&mut of_peer(1000, Some(1)), &facts(10, 40)), Some((1, 10_000, 3)));
    assert_eq!(requested(&mut of_peer(25, Some(1)), &facts(10, 20)), None);
}

#[test]
fn only_relevant_changes_are_asked_for() {
    let mut frequency = of_peer(25, Some(1));
    let mut ask = |facts: &PathFacts| {
        let requested = requested(&mut frequency, facts);
        if requested.is_some() {
            frequency.on_acked(frequency.sent() - 1);
        }
        requested
    };
    assert!(ask(&facts(160, 40)).is_some());
    assert_eq!(ask(&facts(121, 40)), None, "the window is a little smaller");
    assert_eq!(ask(&facts(160, 79)), None, "the round trip is a little longer");
    assert_eq!(ask(&facts(160, 80)), Some((9, 20_000, 3)));
    assert_eq!(ask(&facts(119, 80)), Some((4, 20_000, 3)));
    assert_eq!(ask(&facts(159, 80)), None);
    assert_eq!(ask(&facts(10, 80)), Some((1, 20_000, 3)));
    let reordering = PathFacts { packet_threshold: 8, ..facts(10, 80) };
    assert_eq!(ask(&reordering), Some((1, 20_000, 8)));
}

#[test]
fn one_request_is_in_flight_at_a_time() {
    let mut frequency = of_peer(25, Some(1));
    assert!(requested(&mut frequency, &facts(160, 40)).is_some());
    assert_eq!(requested(&mut frequency, &facts(10, 40)), None);
    frequency.on_acked(0);
    assert!(requested(&mut frequency, &facts(10, 40)).is_some());
}

#[test]
fn a_lost_request_is_made_again_with_a_new_number() {
    let mut frequency = of_peer(25, Some(1));
    assert!(requested(&mut frequency, &facts(160, 40)).is_some());
    frequency.on_lost(0);
    assert!(frequency.has_pending());
    let again = written(&mut frequency).unwrap();
    assert_eq!((again.sequence.get(), again.ack_eliciting_threshold.get()), (1, 9));
    // The loss of the previous frame no longer matters.
    frequency.on_lost(0);
    assert!(!frequency.has_pending());
    assert_eq!(frequency.sent(), 2);
}

/// §7: until the request is acknowledged, the longer of the two delays applies.
#[test]
fn the_longest_delay_that_the_peer_may_use_counts() {
    let mut frequency = of_peer(25, Some(1));
    assert_eq!(frequency.max_ack_delay(), milliseconds(25));
    requested(&mut frequency, &facts(160, 40));
    assert_eq!(frequency.max_ack_delay(), milliseconds(25));
    frequency.on_acked(0);
    assert_eq!(frequency.max_ack_delay(), milliseconds(10));
    requested(&mut frequency, &facts(160, 80));
    assert_eq!(frequency.max_ack_delay(), milliseconds(20), "it may have arrived");
    frequency.on_lost(1);
    assert_eq!(frequency.max_ack_delay(), milliseconds(20), "the loss may be spurious");
    frequency.consider(&facts(160, 8));
    let newest = written(&mut frequency).unwrap();
    assert_eq!(newest.max_ack_delay.get(), 2000);
    assert_eq!(frequency.max_ack_delay(), milliseconds(20));
    frequency.on_acked(1);
    assert_eq!(frequency.max_ack_delay(), milliseconds(20), "a late acknowledgement");
    frequency.on_acked(2);
    assert_eq!(frequency.max_ack_delay(), milliseconds(2));
}

/// Generates window sizes in datagrams. Half of them are small enough that only the lowest
/// thresholds are allowed.
fn windows() -> impl Strategy<Value = u64> {
    prop_oneof![1_u64..50, 1_u64..100_000]
}

proptest! {
    /// On any path, every request is valid for the peer, and there are several ACK frames per
    /// window.
    #[test]
    fn every_request_is_valid(
        max in 1_u32..16_000,
        least in 0_u32..16_000,
        paths in proptest::collection::vec(
            (windows(), any::<bool>(), 1_u64..100_000, 1_u64..300),
            1..20,
        ),
    ) {
        let least = least.min(max);
        let mut frequency = of_peer(max, Some(least));
        for (window, is_ack_clocked, rtt, packet_threshold) in paths {
            let smoothed_rtt = milliseconds(rtt);
            let facts = PathFacts { window, is_ack_clocked, smoothed_rtt, packet_threshold };
            if let Some((threshold, delay, _)) = requested(&mut frequency, &facts) {
                prop_assert!(delay >= u64::from(least) * 1000 && delay <= u64::from(max) * 1000);
                prop_assert!(delay <= rtt * 1000);
                let is_frequent = (threshold + 1) * LEAST_ACKS_IN_A_WINDOW <= window;
                prop_assert!(threshold == 1 || threshold > 1 && is_frequent);
                frequency.on_acked(frequency.sent() - 1);
                prop_assert_eq!(frequency.max_ack_delay(), Duration::from_micros(delay));
            }
        }
    }
}
