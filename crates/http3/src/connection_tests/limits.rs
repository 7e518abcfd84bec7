//! Tests of limits on the memory and the work that a peer can cause.

use super::pair::{Alone, control, data, frame, frame_header, plain, request, response};
use crate::qpack::Decoder;
use crate::{Code, Config, Event, Role, Transport};

fn small() -> Config {
    Config { max_field_section_size: 300, ..plain() }
}

/// Returns the status of the response that was sent on `stream`.
fn status_on(alone: &mut Alone, stream: u64) -> String {
    let half = alone.link.half(stream, true);
    let bytes: Vec<u8> = half.data.iter().flatten().copied().collect();
    assert_eq!((bytes[0], usize::from(bytes[1])), (1, bytes.len() - 2));
    let mut status = String::new();
    let receive = |field: crate::qpack::Field<'_>| {
        status = String::from_utf8(field.value.to_vec()).unwrap();
        Ok::<_, ()>(())
    };
    Decoder::default().decode(stream, &bytes[2..], 1000, receive).unwrap();
    status
}

/// The response is 431, whether the frame is too long or the decoded field section is too large
/// (RFC 9114 §4.2.2).
#[test]
fn section_4_2_2_large_requests_are_answered_with_431() {
    let expanding = request("GET", &[("a", &"0".repeat(200))]);
    let lines: Vec<_> = (0..20).map(|_| ("accept", "*/*")).collect();
    let indexed = request("GET", &lines);
    assert!(expanding.len() < 200 && indexed.len() < 60);
    for stream_start in [frame_header(0x01, 1 << 40), frame_header(0x01, 321), expanding, indexed] {
        let mut server = Alone::new(Role::Server, small());
        let stream = server.open_bidirectional(&stream_start);
        assert!(server.events().is_empty());
        assert_eq!(status_on(&mut server, stream), "431");
        assert!(server.link.half(stream, true).finished);
        assert_eq!(server.link.half(stream, false).stopped, Some(Code::EXCESSIVE_LOAD.get()));
        assert!(server.connection.is_idle());
        assert_eq!(server.connection.error(), None);
    }
}

#[test]
fn large_responses_and_trailers_are_stream_errors() {
    let large: Vec<_> = (0..20).map(|_| ("accept", "*/*")).collect();
    let mut client = Alone::new(Role::Client, small());
    let request_sent = http::Request::get("https://a.example/").body(()).unwrap();
    let (connection, mut transport) = client.split();
    connection.send_request(&mut transport, &request_sent, true).unwrap();
    client.say(0, &response("200", &large));
    let events = client.events();
    let [Event::Failed { error, .. }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(error.code, Code::EXCESSIVE_LOAD);

    let mut server = Alone::new(Role::Server, small());
    server.open_bidirectional(&[request("POST", &[]), super::pair::headers(&large)].concat());
    let events = server.events();
    assert!(matches!(events[..], [Event::Request { .. }, Event::Failed { .. }]), "{events:?}");
}

#[test]
fn incomplete_field_sections_share_one_limit() {
    let config = Config { max_buffered_field_sections: 1000, ..plain() };
    let mut server = Alone::new(Role::Server, config);
    let part = [frame_header(0x01, 500), vec![0; 400]].concat();
    let first = server.open_bidirectional(&part);
    server.open_bidirectional(&part);
    server.events();
    assert_eq!(server.connection.buffered, 800);
    // Abandoning a request releases its buffered bytes.
    server.peer_end().reset(first, 0);
    server.events();
    assert_eq!(server.connection.buffered, 400);
    server.open_bidirectional(&part);
    assert_eq!(server.close_code(), None);
    server.open_bidirectional(&part);
    assert_eq!(server.close_code(), Some(Code::EXCESSIVE_LOAD));
    assert_eq!(server.connection.buffered, 0);
}

#[test]
fn complete_field_sections_no_longer_count_toward_the_limit() {
    let config = Config { max_buffered_field_sections: 100, ..plain() };
    let mut server = Alone::new(Role::Server, config);
    server.link.sizes = vec![3];
    for _ in 0..100 {
        server.open_bidirectional(&request("GET", &[]));
        let events = server.events();
        assert!(matches!(events[..], [Event::Request { .. }]), "{events:?}");
        assert_eq!(server.connection.buffered, 0);
    }
}

fn cancelled(server: &mut Alone) {
    let stream = server.open_bidirectional(&request("GET", &[]));
    server.events();
    server.peer_end().reset(stream, Code::REQUEST_CANCELLED.get());
    server.events();
    let (connection, mut transport) = server.split();
    connection.reset(&mut transport, stream, Code::REQUEST_CANCELLED);
}

fn malformed(server: &mut Alone) {
    server.open_bidirectional(&request("GET", &[("Upper", "case")]));
    server.events();
}

fn stopped(server: &mut Alone) {
    let stream = server.open_bidirectional(&request("GET", &[]));
    server.events();
    server.peer_end().stop_sending(stream, 0);
    server.events();
}

fn answered(server: &mut Alone) {
    let stream = server.open_bidirectional(&request("GET", &[]));
    server.fin(stream);
    server.events();
    let (connection, mut transport) = server.split();
    let response = http::Response::new(());
    connection.send_response(&mut transport, stream, &response, true).unwrap();
}

/// Requests that are canceled in any way are counted (RFC 9114 §10.5).
#[test]
fn section_10_5_cancel_storms_are_excessive_load() {
    for waste in [cancelled, malformed, stopped] {
        let config = Config { max_cancelled_requests: 10, ..plain() };
        let mut server = Alone::new(Role::Server, config);
        for _ in 0..10 {
            waste(&mut server);
        }
        assert_eq!(server.close_code(), None);
        waste(&mut server);
        assert_eq!(server.close_code(), Some(Code::EXCESSIVE_LOAD));
    }
}

#[test]
fn completed_requests_make_up_for_cancelled_ones() {
    let config = Config { max_cancelled_requests: 10, ..plain() };
    let mut server = Alone::new(Role::Server, config);
    for _ in 0..100 {
        for _ in 0..4 {
            cancelled(&mut server);
        }
        answered(&mut server);
    }
    assert_eq!(server.close_code(), None);
    assert!(server.connection.is_idle());
}

#[test]
fn interim_responses_are_counted() {
    let mut client = Alone::client();
    for _ in 0..16 {
        client.say(0, &response("103", &[]));
    }
    assert_eq!(client.events().len(), 16);
    client.say(0, &response("103", &[]));
    let events = client.events();
    let [Event::Failed { error, .. }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(error.code, Code::EXCESSIVE_LOAD);
}

#[test]
fn a_goaway_flood_causes_one_event() {
    let mut client = Alone::client();
    let mut frames = Vec::new();
    for id in (0..60u8).rev().filter(|id| id % 4 == 0) {
        frames.extend(frame(0x07, &[id]));
    }
    client.open_unidirectional(&control(&frames));
    let events = client.events();
    assert!(
        matches!(
            events[..],
            [Event::Settings(_), Event::GoAway { id: 0 }, Event::Failed { stream: 0, .. }]
        ),
        "{events:?}"
    );
}

/// Content remains in the transport until the application reads it.
#[test]
fn content_is_not_read_ahead() {
    let mut server = Alone::server();
    let stream = server.open_bidirectional(&request("POST", &[]));
    server.say(stream, &frame_header(0x00, 1 << 30));
    for _ in 0..50 {
        server.say(stream, &[7; 1000]);
    }
    server.events();
    let waiting: usize = server.link.half(stream, false).data.iter().map(bytes::Bytes::len).sum();
    assert_eq!(waiting, 50_000);
    let (connection, mut transport) = server.split();
    let chunk = connection.read_body(&mut transport, stream, 10).unwrap();
    assert_eq!(chunk, [7; 10][..]);
    let waiting: usize = server.link.half(stream, false).data.iter().map(bytes::Bytes::len).sum();
    assert_eq!(waiting, 50_000 - 10);
}

#[test]
fn empty_data_frames_carry_no_content() {
    let mut server = Alone::server();
    let stream = server.open_bidirectional(&request("POST", &[("content-length", "0")]));
    for _ in 0..1000 {
        server.say(stream, &data(b""));
    }
    server.fin(stream);
    let events = server.events();
    assert!(matches!(events[..], [Event::Request { .. }, Event::Finished { .. }]), "{events:?}");
}
