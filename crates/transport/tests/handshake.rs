//! The handshake between two real endpoints, in virtual time.

mod support;

use std::time::Duration;

use clearway_transport::{ConnectionError, Event};
use support::{Door, Pair, delayed};

#[test]
fn completes_in_one_round_trip_and_is_confirmed_in_two() {
    let mut pair = Pair::new(delayed(50, 1));
    let start = pair.now;
    pair.run_until(Duration::from_secs(5), |pair| pair.client_events.contains(&Event::Connected));
    assert_eq!(pair.now.saturating_since(start), Duration::from_millis(100));
    pair.establish();
    assert_eq!(pair.now.saturating_since(start), Duration::from_millis(200));
}

#[test]
fn a_retry_costs_one_round_trip_more() {
    let mut pair = Pair::new(delayed(50, 2));
    pair.door = Door::Retry;
    let start = pair.now;
    pair.run_until(Duration::from_secs(5), |pair| pair.client_events.contains(&Event::Connected));
    assert_eq!(pair.now.saturating_since(start), Duration::from_millis(200));
}

#[test]
fn a_refused_client_hears_so() {
    let mut pair = Pair::new(delayed(50, 3));
    pair.door = Door::Refuse;
    pair.run_until(Duration::from_secs(5), |pair| !pair.client_events.is_empty());
    assert!(matches!(
        pair.client_events[..],
        [Event::Closed(ConnectionError::ConnectionClosed { .. })]
    ));
}
