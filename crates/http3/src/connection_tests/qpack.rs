//! Tests of the dynamic table in a connection: blocked sections, feedback to the peer, and limits.

use bytes::Bytes;
use http::{Request, Response};

use super::pair::{Alone, connected, control, data, drive, events, frame, frame_header, plain};
use crate::{Code, Config, Event, QpackError, Role, Transport};

/// Encoder stream that sets a table capacity of 220 bytes and inserts `:authority: a.example`.
const ENTRY: &[u8] = b"\x02\x3f\xbd\x01\xc0\x09a.example";
/// The HEADERS frame of a GET request that references this entry: Required Insert Count 1, Base 1.
const GET: &[u8] = &[0x01, 0x06, 0x02, 0x00, 0xd1, 0xd7, 0x80, 0xc1];

/// Returns the data that the connection has written on one of its unidirectional streams.
fn written(alone: &mut Alone, stream: u64) -> Vec<u8> {
    let is_server = alone.connection.role() == Role::Server;
    alone.link.half(stream, is_server).data.iter().flatten().copied().collect()
}

/// The server's decoder stream, which follows its control and encoder streams.
const DECODER: u64 = 11;

#[test]
fn a_request_waits_for_its_entries() {
    let mut server = Alone::server();
    let first = server.open_bidirectional(GET);
    server.fin(first);
    let second = server.open_bidirectional(&[GET, &data(b"abc")].concat());
    assert!(server.events().is_empty());
    assert_eq!(server.connection.buffered, 2 * (GET.len() - 2));
    assert_eq!(written(&mut server, DECODER), [0x03]);
    server.open_unidirectional(ENTRY);
    let events = server.events();
    let [
        Event::Request { stream: 0, request },
        Event::Finished { stream: 0 },
        Event::Request { stream: 4, .. },
        Event::Data { stream: 4 },
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(request.uri(), "https://a.example/");
    assert_eq!(server.connection.buffered, 0);
    // The sections are acknowledged, which also acknowledges the insertion.
    assert_eq!(written(&mut server, DECODER), [0x03, 0x80, 0x84]);
    let (connection, mut end) = server.split();
    assert_eq!(connection.read_body(&mut end, second, 100), Some(Bytes::from_static(b"abc")));
}

/// Insertions that no Section Acknowledgment covers are acknowledged (RFC 9204 §4.4.3).
#[test]
fn insertions_are_acknowledged() {
    let mut server = Alone::server();
    let encoder = server.open_unidirectional(ENTRY);
    server.events();
    assert_eq!(written(&mut server, DECODER), [0x03, 0x01]);
    server.say(encoder, &[0x00, 0x00, 0x00]);
    server.events();
    assert_eq!(written(&mut server, DECODER), [0x03, 0x01, 0x03]);
}

/// Tests every reason why a stream is not read to its end (RFC 9204 §2.2.2.2).
#[test]
fn section_2_2_2_2_abandoned_streams_are_cancelled() {
    // The peer resets the stream while it is blocked.
    let mut server = Alone::server();
    let stream = server.open_bidirectional(GET);
    server.events();
    server.peer_end().reset(stream, 7);
    server.events();
    assert_eq!(written(&mut server, DECODER), [0x03, 0x40]);
    assert_eq!(server.connection.buffered, 0);
    assert!(server.connection.is_idle());
    // The server stops the stream.
    let mut server = Alone::server();
    server.open_unidirectional(ENTRY);
    let stream = server.open_bidirectional(GET);
    server.events();
    let (connection, mut end) = server.split();
    connection.stop(&mut end, stream, Code::NO_ERROR);
    assert_eq!(written(&mut server, DECODER), [0x03, 0x01, 0x80, 0x40]);
    // The request's field section is too large or malformed, or arrives after GOAWAY.
    for first in [frame_header(0x01, 1 << 40), frame(0x01, &[0, 0, 0x23, b'A', b'b', b'c', 0])] {
        let mut server = Alone::server();
        server.open_bidirectional(&first);
        server.events();
        assert_eq!(written(&mut server, DECODER), [0x03, 0x40]);
    }
    let mut server = Alone::server();
    server.events();
    let (connection, mut end) = server.split();
    connection.goaway(&mut end);
    server.open_bidirectional(GET);
    server.events();
    assert_eq!(written(&mut server, DECODER), [0x03, 0x40]);
    // A stream that was read to its end is not canceled.
    let mut server = Alone::server();
    let stream = server.open_bidirectional(&super::pair::request("GET", &[]));
    server.fin(stream);
    server.events();
    assert_eq!(written(&mut server, DECODER), [0x03]);
}

/// Tests the requirements of RFC 9204 §2.1.2, §2.2.1.
#[test]
fn section_2_1_2_too_many_blocked_streams() {
    let mut server = Alone::new(Role::Server, Config { qpack_blocked_streams: 2, ..plain() });
    server.open_bidirectional(GET);
    server.open_bidirectional(GET);
    assert_eq!(server.close_code(), None);
    server.open_bidirectional(GET);
    assert_eq!(server.close_code(), Some(Code::QPACK_DECOMPRESSION_FAILED));
    let error = server.connection.error().unwrap();
    assert_eq!(error.qpack, Some(QpackError::TooManyBlockedStreams));
    assert!(core::error::Error::source(&error).is_none(), "its message is in the reason");
}

#[test]
fn blocked_sections_count_as_incomplete_ones_do() {
    let config = Config { max_buffered_field_sections: 2 * GET.len(), ..plain() };
    let mut server = Alone::new(Role::Server, config);
    server.open_bidirectional(GET);
    server.open_bidirectional(GET);
    assert_eq!(server.close_code(), None);
    server.open_bidirectional(GET);
    assert_eq!(server.close_code(), Some(Code::EXCESSIVE_LOAD));
}

/// A peer that complies with the settings can send a request whose entries arrive late, no matter
/// how few field sections may be buffered. If none may be buffered, no request references such
/// entries.
#[test]
fn a_peer_that_keeps_to_the_settings_has_late_entries() {
    const ENCODER: u64 = 6;
    for (max_buffered_field_sections, waits) in [(0, false), (1000, true)] {
        let (mut link, mut client, mut server) =
            connected(plain(), Config { max_buffered_field_sections, ..plain() });
        let request = Request::get("https://a.example/").body(()).unwrap();
        client.send_request(&mut link.end(Role::Client), &request, true).unwrap();
        let late = std::mem::take(&mut link.half(ENCODER, false).data);
        drive(&mut server, &mut link);
        let is_request = |event: &Event| matches!(event, Event::Request { .. });
        assert_eq!((server.error(), !events(&mut server).iter().any(is_request)), (None, waits));
        link.half(ENCODER, false).data = late;
        drive(&mut server, &mut link);
        assert_eq!((server.error(), events(&mut server).iter().any(is_request)), (None, waits));
    }
}

/// Trailers wait too, and so does the end after them.
#[test]
fn trailers_wait_for_their_entries() {
    let mut server = Alone::server();
    let trailers = frame(0x01, &[0x02, 0x00, 0x80]);
    let head = super::pair::request("POST", &[]);
    let stream = server.open_bidirectional(&[&head[..], &data(b"abc"), &trailers].concat());
    server.fin(stream);
    assert_eq!(server.events().len(), 2);
    let (connection, mut end) = server.split();
    assert_eq!(connection.read_body(&mut end, stream, 100), Some(Bytes::from_static(b"abc")));
    assert_eq!(connection.read_body(&mut end, stream, 100), None);
    assert!(server.events().is_empty());
    server.open_unidirectional(b"\x02\x3f\xbd\x01\x41x\x01y");
    let events = server.events();
    let [Event::Trailers { fields, .. }, Event::Finished { .. }] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(fields["x"], "y");
}

/// A peer causes an unlimited number of acknowledgments and never reads them.
#[test]
fn what_the_peer_does_not_read_is_bounded() {
    let mut server = Alone::server();
    server.link.window = 100;
    server.open_unidirectional(ENTRY);
    let mut sections = 0;
    while server.close_code().is_none() {
        let stream = server.open_bidirectional(GET);
        server.fin(stream);
        sections += 1;
        assert!(sections < 20_000);
        server.events();
        let (connection, mut end) = server.split();
        // Has no effect once the connection is closed.
        let _ = connection.send_response(&mut end, stream, &Response::new(()), true);
    }
    assert_eq!(server.close_code(), Some(Code::EXCESSIVE_LOAD));
    assert!(sections > 4000);
}

/// The peer must not stop the local QPACK streams (RFC 9204 §4.2).
#[test]
fn section_4_2_our_qpack_streams_are_critical() {
    for stream in [7, DECODER] {
        let mut server = Alone::server();
        server.events();
        server.peer_end().stop_sending(stream, 0);
        assert_eq!(server.close_code(), Some(Code::CLOSED_CRITICAL_STREAM));
    }
}

/// Both tables are in use between a client and a server.
#[test]
fn both_directions_use_their_tables() {
    let (mut link, mut client, mut server) = connected(plain(), plain());
    let request = Request::get("https://a.example/")
        .header("user-agent", "a browser with a long name, version 17.3")
        .body(())
        .unwrap();
    let response =
        Response::builder().header("server", "a server with a long name").body(()).unwrap();
    let mut lengths = Vec::new();
    for _ in 0..3 {
        let stream = client.send_request(&mut link.end(Role::Client), &request, true).unwrap();
        lengths.push(link.half(stream, false).waiting());
        drive(&mut server, &mut link);
        let heard = events(&mut server);
        let Event::Request { request: received, .. } = &heard[0] else { panic!("{heard:?}") };
        assert_eq!(received.headers(), request.headers());
        server.send_response(&mut link.end(Role::Server), stream, &response, true).unwrap();
        lengths.push(link.half(stream, true).waiting());
        drive(&mut client, &mut link);
        let heard = events(&mut client);
        let Event::Response { response: received, .. } = &heard[0] else { panic!("{heard:?}") };
        assert_eq!(received.headers(), response.headers());
    }
    // All HEADERS frames, including the first, have only a few bytes, since the entries were sent
    // before them.
    assert!(lengths.iter().all(|length| *length < 12), "{lengths:?}");
    // Before the peer's SETTINGS arrive, its table limits are unknown.
    let mut client = Alone::new(Role::Client, plain());
    let (connection, mut end) = client.split();
    connection.send_request(&mut end, &request, true).unwrap();
    assert!(client.link.half(0, false).waiting() > 40);
}

/// Respects the settings of a peer that allows no table, or an enormous one (RFC 9204 §3.2.3).
#[test]
fn section_3_2_3_the_peers_settings_are_respected() {
    let none = || plain().without_dynamic_table();
    for (client, server) in [(plain(), none()), (none(), plain()), (none(), none())] {
        let uses = [&client, &server].map(|config| config.qpack_max_table_capacity > 0);
        let (mut link, mut client, mut server) = connected(client, server);
        let request =
            Request::get("https://a.example/").header("x", "long enough").body(()).unwrap();
        let stream = client.send_request(&mut link.end(Role::Client), &request, true).unwrap();
        drive(&mut server, &mut link);
        assert_eq!(events(&mut server).len(), 2);
        server
            .send_response(&mut link.end(Role::Server), stream, &Response::new(()), true)
            .unwrap();
        drive(&mut client, &mut link);
        assert_eq!(events(&mut client).len(), 2);
        assert_eq!((client.error(), server.error()), (None, None));
        assert_eq!(link.streams().contains(&6), uses[0]);
    }
    let mut client = Alone::new(Role::Client, plain());
    let settings = [0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x07, 0x40, 0x64];
    client.open_unidirectional(&[&[0x00][..], &frame(0x04, &settings)].concat());
    client.events();
    for round in 0..500 {
        let request = Request::get("https://a.example/").header("x", format!("value {round}"));
        let request = request.body(()).unwrap();
        let (connection, mut end) = client.split();
        connection.send_request(&mut end, &request, true).unwrap();
    }
    // No insertion is acknowledged, so no more entries are inserted than the local limit allows.
    let inserted = written(&mut client, 6).len() as u64;
    assert!(
        inserted > 500 && inserted < Config::default().qpack_encoder_table_capacity,
        "{inserted}"
    );
    assert_eq!(client.close_code(), None);
}

/// Errors by the peer's decoder close the connection (RFC 9204 §4.4).
#[test]
fn the_peers_decoder_stream_is_checked() {
    let mut client = Alone::client();
    client.open_unidirectional(&control(&[]));
    client.open_unidirectional(&[0x03, 0x80]);
    assert_eq!(client.close_code(), Some(Code::QPACK_DECODER_STREAM_ERROR));
    let error = client.connection.error().unwrap();
    assert_eq!(error.qpack, Some(QpackError::NothingToAcknowledge));
}
