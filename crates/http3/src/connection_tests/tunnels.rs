//! Tests of extended CONNECT (RFC 9220).

use bytes::Bytes;
use http::{Request, Response};

use super::pair::{Alone, connected, control, data, drive, events, headers, plain};
use crate::{Code, Config, Event, Protocol, Role, SendError};

fn offering() -> Config {
    Config { extended_connect: true, ..plain() }
}

fn extended() -> Request<()> {
    Request::builder()
        .method("CONNECT")
        .uri("https://a.example/chat")
        .extension(Protocol::new("websocket").unwrap())
        .body(())
        .unwrap()
}

/// Data flows through a tunnel in both directions until both endpoints have closed it (RFC 9220
/// §3).
#[test]
fn section_3_a_tunnel() {
    let (mut link, mut client, mut server) = connected(plain(), offering());
    let stream = client.send_request(&mut link.end(Role::Client), &extended(), false).unwrap();
    drive(&mut server, &mut link);
    let heard = events(&mut server);
    let [Event::Request { request, .. }] = &heard[..] else { panic!("{heard:?}") };
    assert_eq!(request.extensions().get::<Protocol>().unwrap().as_str(), "websocket");
    assert_eq!(request.uri(), "https://a.example/chat");
    server.send_response(&mut link.end(Role::Server), stream, &Response::new(()), false).unwrap();
    drive(&mut client, &mut link);
    assert!(matches!(events(&mut client)[..], [Event::Response { .. }]));
    let ping = Bytes::from_static(b"ping");
    client.send_body(&mut link.end(Role::Client), stream, ping.clone()).unwrap();
    drive(&mut server, &mut link);
    assert_eq!(server.read_body(&mut link.end(Role::Server), stream, 100), Some(ping.clone()));
    server.send_body(&mut link.end(Role::Server), stream, ping.clone()).unwrap();
    drive(&mut client, &mut link);
    assert_eq!(client.read_body(&mut link.end(Role::Client), stream, 100), Some(ping));
    client.finish(&mut link.end(Role::Client), stream).unwrap();
    server.finish(&mut link.end(Role::Server), stream).unwrap();
    drive(&mut server, &mut link);
    drive(&mut client, &mut link);
    server.read_body(&mut link.end(Role::Server), stream, 100);
    client.read_body(&mut link.end(Role::Client), stream, 100);
    assert!(client.is_idle() && server.is_idle());
    assert_eq!((client.error(), server.error()), (None, None));
}

/// Extended CONNECT is used only once the server has advertised it (RFC 9220 §3, RFC 8441 §3).
#[test]
fn section_3_it_has_to_be_offered() {
    let mut client = Alone::new(Role::Client, plain());
    let (connection, mut end) = client.split();
    assert_eq!(
        connection.send_request(&mut end, &extended(), false),
        Err(SendError::SettingsUnknown)
    );
    client.open_unidirectional(&control(&[]));
    client.events();
    let (connection, mut end) = client.split();
    assert_eq!(
        connection.send_request(&mut end, &extended(), false),
        Err(SendError::ExtendedConnectUnsupported)
    );
    let request = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "https"),
        (":authority", "a.example"),
        (":path", "/chat"),
    ];
    let mut server = Alone::server();
    let stream = server.open_bidirectional(&headers(&request));
    assert_eq!(server.reset_code(stream), Some(Code::MESSAGE_ERROR));
    let mut server = Alone::new(Role::Server, offering());
    server.open_bidirectional(&headers(&request));
    assert!(matches!(server.events()[..], [Event::Request { .. }]));
    assert_eq!(server.close_code(), None);
}

/// Only DATA frames are allowed in a tunnel, including one opened by extended CONNECT (RFC 9114
/// §4.4).
#[test]
fn section_4_4_frames_in_an_extended_tunnel() {
    let mut server = Alone::new(Role::Server, offering());
    let request = [
        (":method", "CONNECT"),
        (":protocol", "x"),
        (":scheme", "https"),
        (":authority", "a.example"),
        (":path", "/"),
    ];
    let frames = [headers(&request), data(b"abc"), headers(&[("x", "1")])].concat();
    let stream = server.open_bidirectional(&frames);
    server.events();
    let (connection, mut end) = server.split();
    assert!(connection.read_body(&mut end, stream, 100).is_some());
    assert!(connection.read_body(&mut end, stream, 100).is_none());
    assert_eq!(server.close_code(), Some(Code::FRAME_UNEXPECTED));
}
