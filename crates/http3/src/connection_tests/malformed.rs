//! Tests of stream errors: messages that are malformed or incomplete (RFC 9114 §4.1).

use super::pair::{Alone, data, headers, request, response};
use crate::{Code, Event, Transport};

/// Reads all content of the peer's message and returns it with the events before and after.
fn read_all(alone: &mut Alone, stream: u64) -> (Vec<Event>, Vec<u8>) {
    let mut events = alone.events();
    let mut content = Vec::new();
    let (connection, mut transport) = alone.split();
    while let Some(chunk) = connection.read_body(&mut transport, stream, 1000) {
        content.extend_from_slice(&chunk);
    }
    events.extend(alone.events());
    (events, content)
}

/// Asserts that the server's application gets no event for the request, and that both directions
/// are abandoned.
#[track_caller]
fn assert_unseen(parts: &[&[u8]], code: Code) {
    let mut server = Alone::server();
    let stream = server.open_bidirectional(&parts.concat());
    server.fin(stream);
    let events = server.events();
    assert!(events.is_empty(), "{events:?}");
    assert_eq!(server.reset_code(stream), Some(code));
    assert_eq!(server.link.half(stream, false).stopped, Some(code.get()));
    assert!(server.connection.is_idle());
}

/// Asserts that the last event is `Failed` with H3_MESSAGE_ERROR, and that there is no `Finished`.
#[track_caller]
fn assert_fails(alone: &mut Alone, stream: u64) {
    let (events, _) = read_all(alone, stream);
    match events.last() {
        Some(Event::Failed { stream: failed, error }) => {
            assert_eq!((*failed, error.code), (stream, Code::MESSAGE_ERROR));
        }
        _ => panic!("{events:?}"),
    }
    assert!(!events.iter().any(|event| matches!(event, Event::Finished { .. })), "{events:?}");
    assert!(alone.connection.is_idle());
    assert_eq!(alone.connection.error(), None);
}

#[track_caller]
fn assert_finishes(alone: &mut Alone, stream: u64) {
    let (events, _) = read_all(alone, stream);
    assert!(matches!(events.last(), Some(Event::Finished { .. })), "{events:?}");
}

#[track_caller]
fn assert_request_fails(parts: &[&[u8]]) {
    let mut server = Alone::server();
    let stream = server.open_bidirectional(&parts.concat());
    server.fin(stream);
    assert_fails(&mut server, stream);
    assert_eq!(server.reset_code(stream), Some(Code::MESSAGE_ERROR));
}

fn client_hearing(method: &str, parts: &[Vec<u8>]) -> Alone {
    let mut client = Alone::client_with(method);
    client.say(0, &parts.concat()).fin(0);
    client
}

/// A malformed request is never reported (RFC 9114 §4.1.2).
#[test]
fn section_4_1_2_malformed_requests_are_not_shown() {
    assert_unseen(&[&request("GET", &[("Upper", "case")])], Code::MESSAGE_ERROR);
    assert_unseen(&[&request("GET", &[("connection", "close")])], Code::MESSAGE_ERROR);
    assert_unseen(&[&headers(&[(":method", "GET")])], Code::MESSAGE_ERROR);
    assert_unseen(&[&request("GET", &[("content-length", "x")])], Code::MESSAGE_ERROR);
}

/// A request stream ends without a request (RFC 9114 §4.1).
#[test]
fn section_4_1_incomplete_request() {
    assert_unseen(&[], Code::REQUEST_INCOMPLETE);
    assert_unseen(&[&[0x21, 0x00]], Code::REQUEST_INCOMPLETE);
}

/// The content-length field and the DATA frames must agree at the end of the message, wherever it
/// is (RFC 9114 §4.1.2).
#[test]
fn section_4_1_2_content_length_of_requests() {
    let head = |length: &str| request("POST", &[("content-length", length)]);
    let trailers = headers(&[("x", "1")]);
    // There is no content, too little before the end, or too little before trailers.
    assert_request_fails(&[&head("10")]);
    assert_request_fails(&[&head("10"), &data(b"123456789")]);
    assert_request_fails(&[&head("10"), &data(b"123456789"), &trailers]);
    assert_request_fails(&[&head("10"), &trailers]);
    // There is too much content, in one frame or in several.
    assert_request_fails(&[&head("10"), &data(b"12345678901")]);
    assert_request_fails(&[&head("10"), &data(b"1234567890"), &data(b"1")]);
    assert_request_fails(&[&head("0"), &data(b"1")]);
    for parts in [
        vec![head("0")],
        vec![head("0"), data(b"")],
        vec![head("3"), data(b"12"), data(b""), data(b"3"), trailers.clone()],
        vec![request("POST", &[]), data(b"123")],
    ] {
        let mut server = Alone::server();
        let stream = server.open_bidirectional(&parts.concat());
        server.fin(stream);
        assert_finishes(&mut server, stream);
    }
}

/// Content beyond content-length never reaches the application: it could be another message.
#[test]
fn section_4_1_2_surplus_content_is_not_read() {
    let mut server = Alone::server();
    let head = request("POST", &[("content-length", "3")]);
    let stream = server.open_bidirectional(&[head, data(b"123"), data(b"4")].concat());
    let (events, content) = read_all(&mut server, stream);
    assert_eq!(content, b"123");
    assert!(matches!(events.last(), Some(Event::Failed { .. })), "{events:?}");
}

/// Like the above, with the end of the stream arriving alone after everything has been read.
#[test]
fn section_4_1_2_content_length_with_a_late_empty_end() {
    let mut server = Alone::server();
    let head = request("POST", &[("content-length", "10")]);
    let stream = server.open_bidirectional(&[head, data(b"12345")].concat());
    let (events, content) = read_all(&mut server, stream);
    assert_eq!(content, b"12345");
    assert!(matches!(events[..], [Event::Request { .. }, Event::Data { .. }]), "{events:?}");
    server.fin(stream);
    assert_fails(&mut server, stream);
}

/// Tests the requirements of RFC 9114 §4.1.2.
#[test]
fn section_4_1_2_content_length_of_responses() {
    let head = |length: &str| response("200", &[("content-length", length)]);
    for parts in [
        vec![head("10")],
        vec![head("10"), data(b"123")],
        vec![head("2"), data(b"123")],
        vec![head("2"), headers(&[("x", "1")])],
    ] {
        assert_fails(&mut client_hearing("GET", &parts), 0);
    }
    assert_finishes(&mut client_hearing("GET", &[head("3"), data(b"123")]), 0);
}

/// Responses that never have content can still have a content-length field (RFC 9114 §4.1.2).
#[test]
fn section_4_1_2_responses_without_content() {
    let length = ("content-length", "10");
    for (method, status) in [("HEAD", "200"), ("HEAD", "404"), ("GET", "304"), ("GET", "204")] {
        let head = response(status, &[length]);
        assert_finishes(&mut client_hearing(method, std::slice::from_ref(&head)), 0);
        assert_fails(&mut client_hearing(method, &[head, data(b"1234567890")]), 0);
    }
    // The content-length field has no meaning in a tunnel (RFC 9110 §9.3.6).
    let parts = [response("200", &[length]), data(b"123")];
    assert_finishes(&mut client_hearing("CONNECT", &parts), 0);
}

/// The stream contains no final response, or two (RFC 9114 §4.1).
#[test]
fn section_4_1_final_response() {
    assert_fails(&mut client_hearing("GET", &[]), 0);
    assert_fails(&mut client_hearing("GET", &[response("103", &[])]), 0);
    assert_fails(&mut client_hearing("GET", &[response("200", &[]), response("200", &[])]), 0);
    assert_fails(&mut client_hearing("GET", &[response("101", &[])]), 0);
    let parts = [response("100", &[]), response("103", &[("link", "x")]), response("200", &[])];
    let (events, _) = read_all(&mut client_hearing("GET", &parts), 0);
    assert!(
        matches!(
            events[..],
            [
                Event::Informational { .. },
                Event::Informational { .. },
                Event::Response { .. },
                Event::Finished { .. }
            ]
        ),
        "{events:?}"
    );
}

/// Trailers must not contain pseudo-header fields (RFC 9114 §4.3).
#[test]
fn section_4_3_pseudo_fields_in_trailers() {
    assert_request_fails(&[&request("POST", &[]), &headers(&[(":path", "/")])]);
    let parts = [response("200", &[]), headers(&[(":status", "200")])];
    assert_fails(&mut client_hearing("GET", &parts), 0);
}

/// A request that was reset before it was reported was not processed (RFC 9114 §4.1.1).
#[test]
fn section_4_1_1_reset_before_the_request() {
    let mut server = Alone::server();
    let stream = server.open_bidirectional(&request("GET", &[])[..5]);
    assert!(server.events().is_empty());
    server.peer_end().reset(stream, Code::REQUEST_CANCELLED.get());
    assert!(server.events().is_empty());
    assert_eq!(server.reset_code(stream), Some(Code::REQUEST_REJECTED));
    assert!(server.connection.is_idle());
}

#[test]
fn a_reset_is_reported_before_unread_content() {
    let mut server = Alone::server();
    let stream = server.open_bidirectional(&[request("POST", &[]), data(b"12345")].concat());
    assert_eq!(server.events().len(), 2);
    server.peer_end().reset(stream, Code::REQUEST_CANCELLED.get());
    let events = server.events();
    assert!(
        matches!(events[..], [Event::Reset { code: Code::REQUEST_CANCELLED, .. }]),
        "{events:?}"
    );
    let (connection, mut transport) = server.split();
    assert_eq!(connection.read_body(&mut transport, stream, 100), None);
    // The server can still reset the response.
    connection.reset(&mut transport, stream, Code::REQUEST_CANCELLED);
    assert!(connection.is_idle());
}

/// A response that arrives before the end of the request is not discarded (RFC 9114 §4.1).
#[test]
fn section_4_1_a_stopped_request_can_have_its_response() {
    let mut client = Alone::client_with("CONNECT");
    client.peer_end().stop_sending(0, Code::NO_ERROR.get());
    client.say(0, &response("403", &[])).fin(0);
    let events = client.events();
    assert!(
        matches!(
            events[..],
            [
                Event::Stopped { code: Code::NO_ERROR, .. },
                Event::Response { .. },
                Event::Finished { .. }
            ]
        ),
        "{events:?}"
    );
    assert!(client.connection.is_idle());
}
