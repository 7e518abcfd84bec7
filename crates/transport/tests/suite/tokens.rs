//! Address validation tokens that several endpoints accept (RFC 9000 §8.1.3). Each endpoint
//! represents a process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::support::{Door, Pair, address, delayed, milliseconds, seconds};
use clearway_transport::{ConnectionError, Event, ServerConfig, SharedTokens, TicketKeys};
use clearway_wire::TransportErrorCode;
use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;

/// A clock controlled by the test, in seconds of Unix time.
#[derive(Debug)]
struct Clock(AtomicU64);

impl Clock {
    fn at(seconds: u64) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(seconds)))
    }

    fn advance(&self, seconds: u64) {
        self.0.fetch_add(seconds, Ordering::Relaxed);
    }
}

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(self.0.load(Ordering::Relaxed))))
    }
}

const NOW: u64 = 1_800_000_000;
const SECRET: [u8; 32] = [1; 32];

/// Replaces the server by another process with these keys and this clock.
fn replace_server(pair: &mut Pair, keys: &TicketKeys, clock: &Arc<Clock>) {
    let shared = SharedTokens { keys: keys.clone(), clock: clock.clone() };
    let config = ServerConfig { shared_tokens: Some(shared), ..(*pair.server_config).clone() };
    pair.server_config = Arc::new(config);
    pair.restart_server();
}

/// Returns a client with a token from a NEW_TOKEN frame of a server with keys of `SECRET` that was
/// then replaced with another server.
fn with_new_token(keys: &TicketKeys, clock: &Arc<Clock>) -> (Pair, Vec<u8>) {
    let mut pair = Pair::new(delayed(50, 1));
    replace_server(&mut pair, &TicketKeys::new(&SECRET), &Clock::at(NOW));
    pair.establish();
    pair.run_for(seconds(1));
    let token = pair.client_events.iter().find_map(|event| match event {
        Event::NewToken(token) => Some(token.to_vec()),
        _ => None,
    });
    replace_server(&mut pair, keys, clock);
    pair.door = Door::Retry;
    (pair, token.expect("the server sends NEW_TOKEN"))
}

/// Returns whether a connection with this token is accepted without a Retry, which costs a round
/// trip.
fn is_valid(pair: &mut Pair, token: &[u8]) -> bool {
    pair.reconnect(token.to_vec());
    let start = pair.now;
    assert!(pair.run_until(seconds(5), |pair| pair.client_events.contains(&Event::Connected)));
    let took = pair.now.saturating_since(start);
    assert!(took == milliseconds(100) || took == milliseconds(200), "{took:?}");
    took == milliseconds(100)
}

#[test]
fn another_process_with_the_same_keys_accepts_a_new_token() {
    let (mut pair, token) = with_new_token(&TicketKeys::new(&SECRET), &Clock::at(NOW + 60));
    assert!(is_valid(&mut pair, &token));
    pair.bindings[0].set_port(999);
    assert!(is_valid(&mut pair, &token), "a NEW_TOKEN token is bound to no port");
    pair.bindings[0] = address("10.9.9.9:1234");
    assert!(!is_valid(&mut pair, &token), "but to the IP address");
}

#[test]
fn a_new_token_is_accepted_until_the_key_after_the_next() {
    let keys = TicketKeys::new(&SECRET);
    let (mut pair, token) = with_new_token(&keys, &Clock::at(NOW));
    keys.rotate(&[2; 32]);
    assert!(is_valid(&mut pair, &token), "the previous key still opens");
    keys.rotate(&[3; 32]);
    assert!(!is_valid(&mut pair, &token));
    keys.accept_previous(&SECRET);
    assert!(is_valid(&mut pair, &token));
}

#[test]
fn a_new_token_under_unknown_keys_is_ignored() {
    let (mut pair, token) = with_new_token(&TicketKeys::new(&[9; 32]), &Clock::at(NOW));
    assert!(!is_valid(&mut pair, &token));
    let own = ServerConfig { shared_tokens: None, ..(*pair.server_config).clone() };
    pair.server_config = Arc::new(own);
    pair.restart_server();
    assert!(!is_valid(&mut pair, &token), "an endpoint with its own keys");
}

/// A token's age is measured with the shared clock; an endpoint's start time and uptime do not
/// matter.
#[test]
fn a_new_token_expires_by_the_clock() {
    let clock = Clock::at(NOW);
    let (mut pair, token) = with_new_token(&TicketKeys::new(&SECRET), &clock);
    pair.run_for(seconds(10_000));
    assert!(is_valid(&mut pair, &token), "the clock stood still");
    clock.advance(3600);
    assert!(is_valid(&mut pair, &token), "the configured lifetime");
    clock.advance(1);
    assert!(!is_valid(&mut pair, &token));
}

/// The clocks of different machines may differ, but a token from far in the future is not valid.
#[test]
fn a_new_token_of_a_process_whose_clock_is_ahead_is_valid_for_a_minute() {
    let clock = Clock::at(NOW - 61);
    let (mut pair, token) = with_new_token(&TicketKeys::new(&SECRET), &clock);
    assert!(!is_valid(&mut pair, &token));
    clock.advance(1);
    assert!(is_valid(&mut pair, &token));
}

/// Returns a client that has received a Retry from a server with keys of `SECRET` that is replaced
/// with another server before the client's response arrives.
fn after_retry(keys: &TicketKeys, clock: &Arc<Clock>) -> Pair {
    let mut pair = Pair::new(delayed(50, 1));
    pair.door = Door::Retry;
    replace_server(&mut pair, &TicketKeys::new(&SECRET), &Clock::at(NOW));
    pair.run_for(milliseconds(120));
    assert!(pair.accepted.is_empty() && !pair.client_events.contains(&Event::Connected));
    replace_server(&mut pair, keys, clock);
    pair
}

/// The client verifies in the transport parameters that the server knows the connection IDs before
/// and after the Retry (§7.3).
#[test]
fn another_process_with_the_same_keys_accepts_a_retry_token() {
    let rotated = TicketKeys::new(&SECRET);
    rotated.rotate(&[2; 32]);
    for keys in [TicketKeys::new(&SECRET), rotated] {
        let mut pair = after_retry(&keys, &Clock::at(NOW + 15));
        let start = pair.now;
        pair.establish();
        assert_eq!(pair.accepted.len(), 1);
        assert!(pair.now.saturating_since(start) < milliseconds(200), "no packet was repeated");
    }
}

fn refused_with(pair: &Pair) -> Option<TransportErrorCode> {
    match pair.client_events.last() {
        Some(Event::Closed(ConnectionError::ConnectionClosed { error_code, .. })) => {
            Some(*error_code)
        }
        _ => None,
    }
}

/// §8.1.2: "the server SHOULD immediately close the connection with an INVALID_TOKEN error".
#[test]
fn another_process_refuses_a_retry_token_that_has_expired() {
    for clock in [Clock::at(NOW + 16), Clock::at(NOW - 61)] {
        let mut pair = after_retry(&TicketKeys::new(&SECRET), &clock);
        pair.run_for(seconds(1));
        assert_eq!(refused_with(&pair), Some(TransportErrorCode::INVALID_TOKEN));
        assert_eq!(pair.server.connection_count(), 0);
    }
}

/// The token cannot be identified: like any other foreign token it validates nothing, and the
/// client, which accepts only one Retry (§17.2.5.2), cannot connect.
#[test]
fn a_retry_token_under_unknown_keys_validates_nothing() {
    let mut pair = after_retry(&TicketKeys::new(&[9; 32]), &Clock::at(NOW));
    pair.run_for(seconds(10));
    assert_eq!((pair.server.connection_count(), pair.client_events.as_slice()), (0, &[][..]));
}

/// A Retry token is bound to the client's address and port in every process.
#[test]
fn another_process_refuses_a_retry_token_from_another_address() {
    for from in ["10.9.9.9:50000", "10.0.0.1:50001"] {
        let mut pair = after_retry(&TicketKeys::new(&SECRET), &Clock::at(NOW));
        pair.bindings[0] = address(from);
        pair.run_for(seconds(1));
        assert_eq!(refused_with(&pair), Some(TransportErrorCode::INVALID_TOKEN), "{from}");
        assert_eq!(pair.server.connection_count(), 0);
    }
}
