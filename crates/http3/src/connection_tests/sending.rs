//! Tests of the sending methods: their errors, and their behavior when the transport is full or the
//! peer stops reading.

use bytes::Bytes;
use http::{HeaderMap, Response};

use super::pair::{Alone, plain, request};
use crate::{Code, Connection, Event, Role, SendError, Transport};

fn serving(method: &str) -> (Alone, u64) {
    let mut server = Alone::server();
    let stream = server.open_bidirectional(&request(method, &[]));
    server.fin(stream);
    server.events();
    (server, stream)
}

fn response(length: Option<u64>) -> Response<()> {
    let mut builder = Response::builder();
    if let Some(length) = length {
        builder = builder.header("content-length", length);
    }
    builder.body(()).unwrap()
}

fn bytes(length: usize) -> Bytes {
    vec![9; length].into()
}

fn sent(server: &mut Alone, stream: u64) -> usize {
    server.link.half(stream, true).data.iter().map(Bytes::len).sum()
}

#[test]
fn messages_are_sent_in_order() {
    let (mut server, stream) = serving("GET");
    let (connection, mut end) = server.split();
    let out_of_order =
        |outcome| assert!(matches!(outcome, Err(SendError::OutOfOrder { .. })), "{outcome:?}");
    out_of_order(connection.send_body(&mut end, stream, bytes(1)).map(|_| ()));
    out_of_order(connection.send_trailers(&mut end, stream, &HeaderMap::new()));
    out_of_order(connection.finish(&mut end, stream));
    connection.send_response(&mut end, stream, &response(None), false).unwrap();
    out_of_order(connection.send_response(&mut end, stream, &response(None), false));
    connection.send_trailers(&mut end, stream, &HeaderMap::new()).unwrap();
    out_of_order(connection.send_body(&mut end, stream, bytes(1)).map(|_| ()));
    out_of_order(connection.send_trailers(&mut end, stream, &HeaderMap::new()));
    connection.finish(&mut end, stream).unwrap();
    assert_eq!(connection.finish(&mut end, stream), Err(SendError::StreamClosed));
}

/// Malformed messages are not sent (RFC 9114 §4.1.2).
#[test]
fn section_4_1_2_content_length_is_kept() {
    let (mut server, stream) = serving("GET");
    let (connection, mut end) = server.split();
    let too_short = connection.send_response(&mut end, stream, &response(Some(3)), true);
    assert_eq!(too_short, Err(SendError::ContentLength { announced: 3, sent: 0 }));
    connection.send_response(&mut end, stream, &response(Some(3)), false).unwrap();
    assert_eq!(
        connection.send_body(&mut end, stream, bytes(4)),
        Err(SendError::ContentLength { announced: 3, sent: 4 })
    );
    assert_eq!(connection.send_body(&mut end, stream, bytes(2)), Ok(2));
    let missing = Err(SendError::ContentLength { announced: 3, sent: 2 });
    assert_eq!(connection.finish(&mut end, stream), missing);
    assert_eq!(connection.send_trailers(&mut end, stream, &HeaderMap::new()), missing);
    assert_eq!(connection.send_body(&mut end, stream, bytes(1)), Ok(1));
    connection.finish(&mut end, stream).unwrap();
}

#[test]
fn responses_to_head_have_a_length_and_no_content() {
    let (mut server, stream) = serving("HEAD");
    let (connection, mut end) = server.split();
    connection.send_response(&mut end, stream, &response(Some(1000)), false).unwrap();
    assert!(connection.send_body(&mut end, stream, bytes(1)).is_err());
    connection.finish(&mut end, stream).unwrap();
}

#[test]
fn a_begun_frame_is_filled_before_anything_else() {
    let (mut server, stream) = serving("GET");
    let (connection, mut end) = server.split();
    connection.send_response(&mut end, stream, &response(None), false).unwrap();
    let before = sent(&mut server, stream);
    // There is room for a header of 2 bytes and for 10 bytes of content.
    server.link.window = before + 12;
    let (connection, mut end) = server.split();
    assert_eq!(connection.send_body(&mut end, stream, bytes(50)), Ok(10));
    let missing = Err(SendError::FrameIncomplete { missing: 40 });
    assert_eq!(connection.finish(&mut end, stream), missing);
    assert_eq!(connection.send_trailers(&mut end, stream, &HeaderMap::new()), missing);
    assert_eq!(connection.send_body(&mut end, stream, bytes(50)), Ok(0));
    // The current frame gets 40 bytes; then follow a header and 60 bytes in a separate frame.
    server.link.window = 1000;
    let (connection, mut end) = server.split();
    assert_eq!(connection.send_body(&mut end, stream, bytes(100)), Ok(100));
    connection.finish(&mut end, stream).unwrap();
    assert_eq!(sent(&mut server, stream), before + 2 + 50 + 2 + 60);
}

#[test]
fn headers_that_do_not_fit_wait_and_then_writable_is_reported() {
    let (mut server, stream) = serving("GET");
    server.link.window = 1;
    let (connection, mut end) = server.split();
    connection.send_response(&mut end, stream, &response(Some(5)), false).unwrap();
    assert_eq!(connection.send_body(&mut end, stream, bytes(5)), Ok(0));
    assert!(server.events().is_empty());
    server.link.window = 100;
    assert!(matches!(server.events()[..], [Event::Writable { .. }]));
    assert!(server.events().is_empty());
    let (connection, mut end) = server.split();
    assert_eq!(connection.send_body(&mut end, stream, bytes(5)), Ok(5));
    connection.finish(&mut end, stream).unwrap();
    assert!(server.link.half(stream, true).finished);
}

/// An application whose content was accepted in full does not wait to send more.
#[test]
fn headers_that_do_not_fit_are_no_reason_to_report_writable() {
    let (mut server, stream) = serving("GET");
    server.link.window = 0;
    let (connection, mut end) = server.split();
    connection.send_response(&mut end, stream, &response(Some(5)), false).unwrap();
    assert!(server.events().is_empty());
    server.link.window = 100;
    assert!(server.events().is_empty());
    assert!(sent(&mut server, stream) > 0);
}

/// A response that is sent in one call has the same bytes as a response that is sent in three, no
/// matter how much fits at first.
#[test]
fn a_response_in_one_call_has_the_same_bytes() {
    let bytes_of = |server: &mut Alone, stream| {
        let half = server.link.half(stream, true);
        (half.data.iter().flatten().copied().collect::<Vec<u8>>(), half.finished)
    };
    let (mut server, stream) = serving("GET");
    let (connection, mut end) = server.split();
    connection.send_response(&mut end, stream, &response(Some(50)), false).unwrap();
    connection.send_body(&mut end, stream, bytes(50)).unwrap();
    connection.finish(&mut end, stream).unwrap();
    let expected = bytes_of(&mut server, stream);
    for window in 0..=expected.0.len() {
        let (mut server, stream) = serving("GET");
        server.link.window = window;
        let (connection, mut end) = server.split();
        let sent =
            connection.send_response_with(&mut end, stream, &response(Some(50)), bytes(50), true);
        let (taken, is_over) = sent.unwrap();
        assert_eq!(is_over, window == expected.0.len(), "{window}");
        server.link.window = 1000;
        server.events();
        let (connection, mut end) = server.split();
        if !is_over {
            let rest = bytes(50 - taken);
            assert_eq!(connection.send_body(&mut end, stream, rest), Ok(50 - taken));
            connection.finish(&mut end, stream).unwrap();
        }
        assert_eq!(bytes_of(&mut server, stream), expected, "{window}");
    }
}

/// Invalid content is not sent together with the header section either (RFC 9114 §4.1.2).
#[test]
fn content_that_is_wrong_does_not_go_with_the_headers() {
    for (announced, length, end) in [(3, 4, true), (5, 4, true), (0, 4, false)] {
        let (mut server, stream) = serving("GET");
        let (connection, mut to) = server.split();
        let head = response(Some(announced));
        let sent = connection.send_response_with(&mut to, stream, &head, bytes(length), end);
        assert_eq!(sent, Ok((0, false)));
        let separately = connection.send_body(&mut to, stream, bytes(length));
        assert_eq!(separately.is_err(), length as u64 > announced, "{announced} {length}");
        assert!(connection.finish(&mut to, stream).is_err() || announced == 0);
    }
}

#[test]
fn an_end_waits_for_the_headers() {
    let (mut server, stream) = serving("GET");
    server.link.window = 1;
    let (connection, mut end) = server.split();
    connection.send_response(&mut end, stream, &response(None), true).unwrap();
    assert!(!server.link.half(stream, true).finished && !server.connection.is_idle());
    server.link.window = 100;
    server.events();
    assert!(server.link.half(stream, true).finished && server.connection.is_idle());
}

#[test]
fn a_stopped_response_is_reported_once() {
    let mut server = Alone::server();
    let stream = server.open_bidirectional(&request("GET", &[]));
    server.events();
    let (connection, mut end) = server.split();
    connection.send_response(&mut end, stream, &response(None), false).unwrap();
    server.peer_end().stop_sending(stream, 0x10c);
    let (connection, mut end) = server.split();
    let stopped = Err(SendError::Stopped(Code::REQUEST_CANCELLED));
    assert_eq!(connection.send_body(&mut end, stream, bytes(1)), stopped);
    assert_eq!(connection.send_body(&mut end, stream, bytes(1)), stopped);
    let events = server.events();
    assert!(
        matches!(events[..], [Event::Stopped { code: Code::REQUEST_CANCELLED, .. }]),
        "{events:?}"
    );
    assert_eq!(server.link.half(stream, true).reset, Some(0x10c));
}

#[test]
fn roles_and_limits_are_checked() {
    let (mut server, stream) = serving("GET");
    let (connection, mut end) = server.split();
    let get = http::Request::get("https://a.example/").body(()).unwrap();
    assert_eq!(connection.send_request(&mut end, &get, true), Err(SendError::WrongRole));
    let interim = Response::builder().status(103).body(()).unwrap();
    assert!(connection.send_response(&mut end, stream, &interim, false).is_err());
    assert!(connection.send_informational(&mut end, stream, &response(None)).is_err());
    assert_eq!(connection.finish(&mut end, 400), Err(SendError::StreamClosed));

    let mut client = Alone::new(Role::Client, plain());
    client.link.allowed[0] = 0;
    let (connection, mut end) = client.split();
    assert_eq!(connection.send_request(&mut end, &get, true), Err(SendError::StreamsBlocked));
    let head = response(None);
    assert_eq!(connection.send_response(&mut end, 0, &head, true), Err(SendError::WrongRole));
    let post = http::Request::post("https://a.example/").header("content-length", 3);
    let post = post.body(()).unwrap();
    assert!(matches!(
        connection.send_request(&mut end, &post, true),
        Err(SendError::ContentLength { announced: 3, sent: 0 })
    ));
}

/// SETTINGS is sent completely as soon as a stream is available (RFC 9114 §6.2.1).
#[test]
fn section_6_2_1_settings_wait_for_a_stream() {
    let mut server = Alone::new(Role::Server, plain());
    server.link.allowed[3] = 0;
    server.events();
    assert!(server.link.streams().is_empty());
    server.link.allowed[3] = 1;
    server.link.window = 1;
    let mut settings = Vec::new();
    for _ in 0..20 {
        server.events();
        for bytes in server.link.half(3, true).data.drain(..) {
            settings.extend_from_slice(&bytes);
        }
    }
    // The settings are 64 KiB (0x80010000), a table of 4096 bytes (0x5000), and 16 blocked streams.
    let expected = [&[0x00, 0x04, 10, 6, 0x80, 0x01, 0, 0][..], &[1, 0x50, 0], &[7, 16]];
    assert_eq!(settings, expected.concat());
}

#[test]
fn stopping_a_request_ends_its_events() {
    let mut server = Alone::server();
    let stream = server.open_bidirectional(&request("POST", &[]));
    server.events();
    let (connection, mut end) = server.split();
    connection.send_response(&mut end, stream, &response(None), true).unwrap();
    connection.stop(&mut end, stream, Code::NO_ERROR);
    assert!(connection.is_idle());
    assert_eq!(server.link.half(stream, false).stopped, Some(Code::NO_ERROR.get()));
    assert!(server.events().is_empty());
}

#[test]
fn a_connection_can_be_moved_to_another_thread() {
    fn assert_send<T: Send>() {}
    assert_send::<Connection>();
}
