//! Facts about a client before a server accepts it, and the options with which it is accepted.

use std::sync::Arc;

use crate::support::early::early_tls;
use crate::support::versions::{V1, V2, changing, client, closed, staying};
use crate::support::{
    CLIENT, Door, Pair, address, delayed, long_hello_tls, quiet, seconds, tls_for,
};
use clearway_network::Way;
use clearway_transport::{ClientHello, ConnectionError, EarlyData, Event, Incoming, ServerConfig};
use clearway_wire::TransportErrorCode;

fn hello(incoming: &Incoming) -> ClientHello {
    incoming.client_hello().expect("a ClientHello")
}

#[test]
fn the_name_and_the_protocols_are_known_before_the_client_is_accepted() {
    let mut pair = Pair::new(delayed(10, 1));
    pair.establish();
    let [incoming] = &pair.incoming[..] else { panic!("{:?}", pair.incoming) };
    let hello = hello(incoming);
    assert_eq!(hello.server_name(), Some("localhost"));
    assert_eq!(hello.application_protocols().collect::<Vec<_>>(), [b"test"]);
    assert!(hello.is_complete());
    assert_eq!(incoming.remote_address(), address(CLIENT));
    assert_eq!(incoming.local_ip(), None);
    assert!(incoming.may_retry());
}

/// A large ClientHello takes two datagrams, and its first part may not contain the name.
#[test]
fn the_rest_of_a_client_hello_comes_in_the_next_datagram() {
    let mut pair = Pair::with_tls(delayed(10, 1), quiet(), quiet(), long_hello_tls());
    let mut flight = Vec::new();
    let (now, mut buffer) = (pair.now, vec![0; 2000]);
    while let Some(transmit) = pair.client.transmit(pair.handle, now, &mut buffer, 1) {
        pair.client.transmitted(pair.handle, now);
        flight.push(buffer[..transmit.size].to_vec());
    }
    pair.door = Door::Refuse;
    pair.deliver(Way::ToServer, address(CLIENT), &mut flight[0].clone());
    let mut incoming = pair.incoming.pop().unwrap();
    let part = hello(&incoming);
    assert!(!part.is_complete());
    for datagram in &flight[1..] {
        incoming.push_further(datagram.clone());
    }
    let whole = hello(&incoming);
    assert!(whole.is_complete() && whole.server_name() == Some("localhost"));
    assert_eq!(whole.application_protocols().count(), 6);
    let copy = incoming.clone();
    assert_eq!(incoming.take_further(), flight[1..]);
    assert_eq!((hello(&incoming), hello(&copy)), (part, whole));
    assert_eq!(copy.without_datagram().client_hello(), None);
}

#[test]
fn a_client_that_has_responded_to_a_retry_keeps_its_original_id() {
    let mut pair = Pair::new(delayed(10, 1));
    pair.door = Door::Retry;
    pair.establish();
    let [first, second] = &pair.incoming[..] else { panic!("{:?}", pair.incoming) };
    assert_eq!(first.original_destination_id(), second.original_destination_id());
    assert_eq!((first.may_retry(), second.may_retry()), (true, false));
    assert_eq!(hello(second).server_name(), Some("localhost"), "with keys of the server's ID");
}

/// A server accepts a client with another certificate and other transport settings than its own.
#[test]
fn a_client_is_accepted_with_another_configuration() {
    let other = tls_for(vec!["localhost".into()]);
    for has_options in [false, true] {
        let mut pair = Pair::new(delayed(10, 1));
        let mut special = Pair::with_tls(delayed(10, 1), quiet(), staying(&[V1]), &other);
        pair.change_client_tls(&other);
        pair.options.config = has_options.then(|| special.server_config.clone());
        pair.reconnect(Vec::new());
        let is_established =
            pair.run_until(seconds(5), |pair| pair.client_events.contains(&Event::Connected));
        assert_eq!(is_established, has_options, "{:?}", pair.client_events);
        special.establish();
        if has_options {
            // The client's address is validated with the endpoint's own tokens.
            let token = |event: &Event| matches!(event, Event::NewToken(_));
            pair.run_for(seconds(1));
            assert!(pair.client_events.iter().any(token), "{:?}", pair.client_events);
        }
    }
}

/// The configuration of a decision may not have the version with which the client began.
#[test]
fn a_client_in_a_version_that_the_configuration_does_not_have_is_refused() {
    let mut pair = crate::support::versions::pair(&client(V2, &[V2]), &staying(&[V1, V2]));
    let transport = Arc::new(staying(&[V1]));
    let config = ServerConfig { transport, ..(*pair.server_config).clone() };
    pair.options.config = Some(Arc::new(config));
    pair.run_for(seconds(1));
    let refused = TransportErrorCode::CONNECTION_REFUSED;
    let error = closed(&pair.client_events);
    assert!(
        matches!(error, Some(ConnectionError::ConnectionClosed { error_code, .. }) if *error_code == refused),
        "{error:?}"
    );
    assert!(pair.accepted.is_empty());
}

/// A server may reject the early data of one client and accept that of the next. It may do so also
/// if it waits for the client's versions before TLS begins.
#[test]
fn early_data_is_accepted_from_some_clients() {
    for server in [staying(&[V1]), changing(&[V2, V1])] {
        let tls = early_tls();
        let mut pair = Pair::with_session_of(delayed(10, 1), client(V1, &[V1]), server, &tls);
        for accepts in [false, true, false] {
            pair.options.early_data = accepts;
            let streams = pair.begin_early(2, 3000);
            assert_eq!(pair.client().early_data(), EarlyData::Offered);
            let outcome = pair.answer_all(&streams, 3000, 100, seconds(10));
            let expected = if accepts { EarlyData::Accepted } else { EarlyData::Rejected };
            assert_eq!(pair.client().early_data(), expected);
            assert_eq!((outcome.requests, outcome.early_requests > 0), (2, accepts));
            pair.run_for(seconds(20));
        }
    }
}
