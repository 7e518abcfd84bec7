//! Tests of priorities: how they are set, and which priorities are passed to the transport.

use http::{Request, Response};

use super::pair::{Alone, connected, control, drive, events, frame, frame_header, plain, request};
use crate::{Code, Config, Event, Priority, Role, SendError};

/// Returns a PRIORITY_UPDATE for a request.
fn update(stream: u8, field: &str) -> Vec<u8> {
    frame(0xf0700, &[&[stream], field.as_bytes()].concat())
}

/// Returns the priority of `stream` that was passed to the server's transport.
fn reported(alone: &Alone, stream: u64) -> Option<(i32, bool)> {
    alone.link.priorities.get(&(stream, true)).copied()
}

/// Tests the priority field of a request, and the default priority (RFC 9218 §5, §4).
#[test]
fn section_5_the_priority_field_orders_responses() {
    let mut server = Alone::server();
    for (field, expected) in [
        (&[][..], (0, false)),
        (&[("priority", "u=0")], (3, false)),
        (&[("priority", "u=7, i")], (-4, true)),
        (&[("priority", "u=2"), ("priority", "i")], (1, true)),
        (&[("priority", "u=2,")], (0, false)),
    ] {
        let stream = server.open_bidirectional(&request("GET", field));
        let events = server.events();
        assert!(matches!(events[..], [Event::Request { .. }]), "{events:?}");
        assert_eq!(reported(&server, stream), Some(expected), "{field:?}");
    }
    // Control and QPACK streams have a higher priority than all responses.
    assert!([3, 7, 11].iter().all(|stream| reported(&server, *stream) == Some((8, true))));
    // A tunnel is incremental unless the client requests otherwise (RFC 9218 §11).
    let connect = |field: &[(&str, &str)]| {
        super::pair::headers(&[&[(":method", "CONNECT"), (":authority", "a:1")], field].concat())
    };
    let tunnel = server.open_bidirectional(&connect(&[]));
    let stated = server.open_bidirectional(&connect(&[("priority", "u=1")]));
    server.events();
    assert_eq!(reported(&server, tunnel), Some((0, true)));
    assert_eq!(reported(&server, stated), Some((2, false)));
}

#[test]
fn without_priorities_the_transport_is_told_nothing() {
    let mut server = Alone::new(Role::Server, Config { prioritize: false, ..plain() });
    server.open_bidirectional(&request("GET", &[("priority", "u=0")]));
    server.events();
    assert!(server.link.priorities.is_empty());
    assert_eq!(server.connection.priority(0), Some(Priority::new(0, false)));
}

/// If the priority changes while the response is being sent, the change is reported only once until
/// the event is taken (RFC 9218 §7).
#[test]
fn section_7_priorities_change() {
    let mut server = Alone::server();
    let stream = server.open_bidirectional(&request("GET", &[("priority", "u=1, i")]));
    server.events();
    let changes = [update(0, "u=6"), update(0, "u=5"), update(0, "not = valid")].concat();
    let control_stream = server.open_unidirectional(&control(&changes));
    let events = server.events();
    assert!(
        matches!(events[..], [Event::Settings(_), Event::Priority { stream: 0 }]),
        "{events:?}"
    );
    // A PRIORITY_UPDATE frame replaces all parameters; parameters that it omits have their defaults
    // (§7).
    assert_eq!(server.connection.priority(stream), Some(Priority::new(5, false)));
    assert_eq!(reported(&server, stream), Some((-2, false)));
    server.say(control_stream, &update(0, ""));
    assert!(matches!(server.events()[..], [Event::Priority { .. }]));
    assert_eq!(reported(&server, stream), Some((0, false)));
}

/// A PRIORITY_UPDATE frame that arrives before its request overrides the field, and the table of
/// such frames is bounded (RFC 9218 §7).
#[test]
fn section_7_frames_before_their_requests() {
    let config = Config { max_early_priorities: 3, ..plain() };
    let mut server = Alone::new(Role::Server, config);
    let updates: Vec<u8> =
        [20, 0, 8, 4, 12, 4].iter().flat_map(|stream| update(*stream, "u=0, i")).collect();
    server.open_unidirectional(&control(&[&updates[..], &update(4, "u=7")].concat()));
    server.events();
    assert_eq!(server.connection.busy.early_priorities.len(), 3);
    for expected in [(3, true), (-4, false), (3, true), (1, false), (1, false)] {
        let stream = server.open_bidirectional(&request("GET", &[("priority", "u=2")]));
        let events = server.events();
        let [Event::Request { request, .. }] = &events[..] else { panic!("{events:?}") };
        assert_eq!(reported(&server, stream), Some(expected), "{stream}");
        let priority = server.connection.priority(stream);
        assert_eq!(request.extensions().get::<Priority>().copied(), priority);
    }
    assert!(server.connection.busy.early_priorities.is_empty());
}

#[test]
fn changes_for_requests_that_have_ended_are_dropped() {
    let mut server = Alone::server();
    let stream = server.open_bidirectional(&request("GET", &[]));
    server.fin(stream);
    server.events();
    let (connection, mut end) = server.split();
    connection.send_response(&mut end, stream, &Response::new(()), true).unwrap();
    server.open_unidirectional(&control(&update(0, "u=0")));
    assert!(matches!(server.events()[..], [Event::Settings(_)]));
    assert!(server.connection.busy.early_priorities.is_empty());
}

/// The response's field overrides the client's priority, including later updates (RFC 9218 §8).
#[test]
fn section_8_the_server_overrides() {
    let mut server = Alone::server();
    let stream = server.open_bidirectional(&request("GET", &[("priority", "u=5, i")]));
    server.events();
    let response = Response::builder().header("priority", "u=1").body(()).unwrap();
    let (connection, mut end) = server.split();
    connection.send_response(&mut end, stream, &response, false).unwrap();
    assert_eq!(reported(&server, stream), Some((2, true)));
    server.open_unidirectional(&control(&update(0, "u=7")));
    server.events();
    assert_eq!(reported(&server, stream), Some((2, false)));
    let (connection, mut end) = server.split();
    connection.set_priority(&mut end, stream, Priority::new(0, true)).unwrap();
    assert_eq!(reported(&server, stream), Some((3, true)));
    // A priority among the extensions of the response is sent too.
    let stream = server.open_bidirectional(&request("GET", &[]));
    server.events();
    let response = Response::builder().extension(Priority::new(6, true)).body(()).unwrap();
    let (connection, mut end) = server.split();
    connection.send_response(&mut end, stream, &response, true).unwrap();
    assert_eq!(reported(&server, stream), Some((-3, true)));
}

/// Tests PRIORITY_UPDATE frames with wrong identifiers, on wrong streams and from wrong roles (RFC
/// 9218 §7.2).
#[test]
fn section_7_2_errors() {
    let closes = |alone: &mut Alone, code: Code| assert_eq!(alone.close_code(), Some(code));
    for stream in [1, 2, 3, 7] {
        let mut server = Alone::server();
        server.open_unidirectional(&control(&update(stream, "u=1")));
        closes(&mut server, Code::ID_ERROR);
    }
    let push = frame(0xf0701, b"\x00u=1");
    let mut server = Alone::server();
    server.open_unidirectional(&control(&push));
    closes(&mut server, Code::ID_ERROR);
    for frame in [update(0, "u=1"), push] {
        let mut client = Alone::client();
        client.open_unidirectional(&control(&frame));
        closes(&mut client, Code::FRAME_UNEXPECTED);
        let mut client = Alone::client();
        client.say(0, &frame);
        closes(&mut client, Code::FRAME_UNEXPECTED);
        let mut server = Alone::server();
        server.open_bidirectional(&frame);
        closes(&mut server, Code::FRAME_UNEXPECTED);
    }
    for payload in [&[][..], &[0x40]] {
        let mut server = Alone::server();
        server.open_unidirectional(&control(&frame(0xf0700, payload)));
        closes(&mut server, Code::FRAME_ERROR);
    }
    let mut server = Alone::server();
    server.open_unidirectional(&control(&frame_header(0xf0700, 1 << 30)));
    closes(&mut server, Code::EXCESSIVE_LOAD);
}

/// A client sets a priority, and changes it.
#[test]
fn a_client_asks_for_priorities() {
    let (mut link, mut client, mut server) = connected(plain(), plain());
    let request = Request::get("https://a.example/").extension(Priority::new(1, true));
    let request = request.body(()).unwrap();
    let stream = client.send_request(&mut link.end(Role::Client), &request, true).unwrap();
    let plain = Request::get("https://a.example/").body(()).unwrap();
    let other = client.send_request(&mut link.end(Role::Client), &plain, true).unwrap();
    drive(&mut server, &mut link);
    assert_eq!(server.priority(stream), Some(Priority::new(1, true)));
    assert_eq!(server.priority(other), Some(Priority::default()));
    // The client's own uploads are prioritized only if it has set a priority.
    assert_eq!(link.priorities.get(&(stream, false)), Some(&(2, true)));
    assert_eq!(link.priorities.get(&(other, false)), None);
    events(&mut server);
    let urgent = Priority::new(0, false);
    client.set_priority(&mut link.end(Role::Client), other, urgent).unwrap();
    drive(&mut server, &mut link);
    assert!(matches!(events(&mut server)[..], [Event::Priority { stream: 4 }]));
    assert_eq!(server.priority(other), Some(urgent));
    assert_eq!(link.priorities.get(&(other, true)), Some(&(3, false)));
    let unknown = client.set_priority(&mut link.end(Role::Client), 400, urgent);
    assert_eq!(unknown, Err(SendError::StreamClosed));
}
