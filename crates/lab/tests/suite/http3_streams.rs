//! Tests that every stack's streams behave as the HTTP/3 transport trait requires.

use clearway_http3::conformance::{CHUNK, Harness, check};
use clearway_http3::{Code, Config, Connection as Http3, Event, Role};
use clearway_lab::stack::{ClearwayStack, Stack};
use clearway_transport::TransportConfig;
use clearway_units::Random;

use crate::two_ends::{Pair, feed};

const WINDOW: u64 = 8 * CHUNK as u64;

fn clearway() -> Pair<ClearwayStack> {
    crate::two_ends::clearway(|| {
        TransportConfig::builder()
            .initial_stream_receive_window(WINDOW)
            .max_stream_receive_window(WINDOW)
            .send_buffer(WINDOW)
            .max_concurrent_bidirectional_streams(8)
            .max_concurrent_unidirectional_streams(8)
            .build()
            .unwrap()
    })
}

#[cfg(feature = "quinn")]
fn quinn() -> Pair<clearway_lab::stack::QuinnStack> {
    use crate::two_ends::SERVER;
    use clearway_lab::setup::{EndSetup, SessionKind, StackKind};
    use clearway_lab::stack::QuinnStack;
    use clearway_units::Timestamp;

    let (now, session) = (Timestamp::from_nanos(1), SessionKind::Null);
    let setup = EndSetup {
        stack: StackKind::Quinn,
        max_stream_receive_window: WINDOW,
        send_buffer: WINDOW,
        ..EndSetup::default()
    };
    let [client, server] = [1, 2].map(Random::from_number);
    let client = QuinnStack::client(now, SERVER, session, &setup, "cubic", client).unwrap();
    let server = QuinnStack::server(session, &setup, "cubic", server).unwrap();
    Pair::connect(now, client, server)
}

#[test]
fn the_streams_of_clearway_conform() {
    check(clearway);
}

#[cfg(feature = "quinn")]
#[test]
fn the_streams_of_quinn_conform() {
    check(quinn);
}

/// Delivers everything and passes the notices to HTTP/3 at both endpoints.
fn settle<S: Stack>(pair: &mut Pair<S>, http3: &mut [Http3; 2]) {
    for _ in 0..3 {
        pair.deliver();
        feed(pair, http3);
    }
}

/// A client cancels a request after part of its content has arrived but before the server has read
/// it.
fn a_reset_overtakes_unread_content<S: Stack>(mut pair: Pair<S>) {
    let mut http3 = [Role::Client, Role::Server]
        .map(|role| Http3::new(role, Config::default(), &mut Random::from_number(3)));
    for http3 in &mut http3 {
        pair.end(http3.role(), &mut |streams| http3.on_streams_available(streams));
    }
    let request = http::Request::post("https://lab.example/").body(()).unwrap();
    pair.end(Role::Client, &mut |streams| {
        let stream = http3[0].send_request(streams, &request, false).unwrap();
        assert_eq!(stream, 0);
        let content = bytes::Bytes::from_static(&[7; CHUNK]);
        assert_eq!(http3[0].send_body(streams, stream, content), Ok(CHUNK));
    });
    settle(&mut pair, &mut http3);
    let mut events: Vec<_> = std::iter::from_fn(|| http3[1].next_event()).collect();
    assert!(matches!(events.pop(), Some(Event::Data { stream: 0 })));
    pair.end(Role::Client, &mut |streams| {
        http3[0].reset(streams, 0, Code::REQUEST_CANCELLED);
    });
    settle(&mut pair, &mut http3);
    let events: Vec<_> = std::iter::from_fn(|| http3[1].next_event()).collect();
    assert!(
        matches!(events[..], [Event::Reset { stream: 0, code: Code::REQUEST_CANCELLED }]),
        "{events:?}"
    );
}

#[test]
fn a_cancelled_request_is_reported_while_its_content_is_unread() {
    a_reset_overtakes_unread_content(clearway());
    #[cfg(feature = "quinn")]
    a_reset_overtakes_unread_content(quinn());
}
