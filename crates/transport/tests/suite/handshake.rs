//! The handshake between two real endpoints, in virtual time.

use std::time::Duration;

use clearway_network::Way;

use crate::support::{Door, Pair, delayed};
use clearway_transport::{ConnectionError, Event};

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
fn a_refused_client_receives_a_close() {
    let mut pair = Pair::new(delayed(50, 3));
    pair.door = Door::Refuse;
    pair.run_until(Duration::from_secs(5), |pair| !pair.client_events.is_empty());
    assert!(matches!(
        pair.client_events[..],
        [Event::Closed(ConnectionError::ConnectionClosed { .. })]
    ));
}

/// RFC 9000 §7.4.1: remembered transport parameters apply only to 0-RTT. Afterwards, the parameters
/// of the new handshake apply, even if the ServerHello arrives alone.
#[test]
fn a_resumed_session_uses_the_parameters_of_its_own_handshake() {
    for lost in 0..4 {
        let mut pair = Pair::new(delayed(10, 4));
        pair.establish();
        pair.run_for(Duration::from_secs(1));
        pair.reconnect(Vec::new());
        let mut to_client = 0;
        pair.filter = Some(Box::new(move |_, way, _| {
            to_client += usize::from(way == Way::ToClient);
            way == Way::ToServer || to_client != lost
        }));
        pair.establish();
    }
}
