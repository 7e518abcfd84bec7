//! Tests of HTTP datagrams (RFC 9297).

use bytes::Bytes;
use http::{Request, Response};

use super::link::{LARGEST_DATAGRAM, Link};
use super::pair::{Alone, connected, drive, events, headers, plain, request};
use crate::{Code, Config, Connection, DatagramError, Event, Protocol, Role};

fn with_datagrams() -> Config {
    Config { extended_connect: true, datagrams: true, ..plain() }
}

fn tunnel() -> Vec<u8> {
    headers(&[
        (":method", "CONNECT"),
        (":protocol", "connect-udp"),
        (":scheme", "https"),
        (":authority", "a.example"),
        (":path", "/"),
    ])
}

fn server() -> Alone {
    Alone::new(Role::Server, with_datagrams())
}

impl Alone {
    /// Sends a DATAGRAM frame as the peer.
    fn datagram(&mut self, data: &[u8]) -> &mut Self {
        let is_server = self.connection.role() == Role::Client;
        let queue = self.link.datagrams.entry(is_server).or_default();
        queue.push_back(Bytes::copy_from_slice(data));
        self
    }

    fn next_datagram(&mut self) -> Option<(u64, Bytes)> {
        let (connection, mut end) = self.split();
        connection.next_datagram(&mut end)
    }
}

/// Returns a client and a server with a tunnel on stream 0 that the server has accepted.
fn pair() -> (Link, Connection, Connection) {
    let (mut link, mut client, mut server) = connected(with_datagrams(), with_datagrams());
    let request = Request::builder()
        .method("CONNECT")
        .uri("https://a.example/")
        .extension(Protocol::new("connect-udp").unwrap())
        .body(())
        .unwrap();
    assert_eq!(client.send_request(&mut link.end(Role::Client), &request, false), Ok(0));
    drive(&mut server, &mut link);
    server.send_response(&mut link.end(Role::Server), 0, &Response::new(()), false).unwrap();
    drive(&mut client, &mut link);
    assert_eq!((events(&mut client).len(), events(&mut server).len()), (1, 1));
    (link, client, server)
}

#[test]
fn datagrams_go_both_ways() {
    let (mut link, mut client, mut server) = pair();
    let room = client.max_datagram(&mut link.end(Role::Client), 0).unwrap();
    assert_eq!(room, LARGEST_DATAGRAM - 1);
    for payload in [&b"to the server"[..], b"", &vec![7; room]] {
        client.send_datagram(&mut link.end(Role::Client), 0, payload).unwrap();
        let received = server.next_datagram(&mut link.end(Role::Server));
        assert_eq!(received, Some((0, Bytes::copy_from_slice(payload))));
    }
    server.send_datagram(&mut link.end(Role::Server), 0, b"back").unwrap();
    let received = client.next_datagram(&mut link.end(Role::Client));
    assert_eq!(received, Some((0, Bytes::from_static(b"back"))));
    assert_eq!(client.next_datagram(&mut link.end(Role::Client)), None);
    let outcome = client.send_datagram(&mut link.end(Role::Client), 0, &vec![7; room + 1]);
    assert_eq!(outcome, Err(DatagramError::TooLarge { maximum: room }));
}

/// Datagrams may be sent only while the sending part is open, and only for requests that use
/// datagrams (RFC 9297 §2.1).
#[test]
fn section_2_1_when_datagrams_may_be_sent() {
    let (mut link, mut client, mut server) = pair();
    let get = Request::get("https://a.example/").body(()).unwrap();
    let other = client.send_request(&mut link.end(Role::Client), &get, true).unwrap();
    let mut send = |stream| client.send_datagram(&mut link.end(Role::Client), stream, b"x");
    assert_eq!(send(other), Err(DatagramError::StreamClosed));
    assert_eq!(send(400), Err(DatagramError::StreamClosed));
    drive(&mut server, &mut link);
    let outcome = server.send_datagram(&mut link.end(Role::Server), other, b"x");
    assert_eq!(outcome, Err(DatagramError::NotForDatagrams));
    client.finish(&mut link.end(Role::Client), 0).unwrap();
    let outcome = client.send_datagram(&mut link.end(Role::Client), 0, b"x");
    assert_eq!(outcome, Err(DatagramError::StreamClosed));
}

/// Both endpoints must have advertised support (RFC 9297 §2.1.1).
#[test]
fn section_2_1_1_datagrams_have_to_be_negotiated() {
    let without = || Config { datagrams: false, ..with_datagrams() };
    for (ours, theirs) in [(with_datagrams(), without()), (without(), with_datagrams())] {
        let (mut link, mut client, _) = connected(ours, theirs);
        let outcome = client.send_datagram(&mut link.end(Role::Client), 0, b"x");
        assert_eq!(outcome, Err(DatagramError::Unsupported));
    }
    let mut alone = server();
    let (connection, mut end) = alone.split();
    let outcome = connection.send_datagram(&mut end, 0, b"x");
    assert_eq!(outcome, Err(DatagramError::SettingsUnknown));
    // Datagrams that arrive without having been negotiated are dropped.
    let mut alone = Alone::server();
    alone.datagram(&[]).datagram(&[0, 1]);
    assert_eq!(alone.next_datagram(), None);
    assert_eq!(alone.close_code(), None);
}

/// Tests datagrams that cannot be parsed (RFC 9297 §2.1).
#[test]
fn section_2_1_malformed_datagrams() {
    for data in [&[][..], &[0x40], &[0xd0, 0, 0, 0, 0, 0, 0, 0], &[0xff; 8]] {
        let mut alone = server();
        alone.datagram(data);
        assert_eq!(alone.next_datagram(), None);
        assert_eq!(alone.close_code(), Some(Code::DATAGRAM_ERROR), "{data:x?}");
    }
    // The largest Quarter Stream ID belongs to a stream that will never exist.
    let mut alone = server();
    alone.datagram(&[0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]);
    assert_eq!(alone.next_datagram(), None);
    assert_eq!(alone.close_code(), None);
}

/// A datagram aborts a request that does not use datagrams (RFC 9297 §2).
#[test]
fn section_2_datagrams_without_meaning() {
    let mut alone = server();
    let stream = alone.open_bidirectional(&request("POST", &[]));
    alone.events();
    assert_eq!(alone.datagram(&[0, 1]).next_datagram(), None);
    let events = alone.events();
    let [Event::Failed { error, .. }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(error.code, Code::DATAGRAM_ERROR);
    assert_eq!(alone.reset_code(stream), Some(Code::DATAGRAM_ERROR));
    let mut client = Alone::new(Role::Client, with_datagrams());
    let get = Request::get("https://a.example/").body(()).unwrap();
    let (connection, mut end) = client.split();
    connection.send_request(&mut end, &get, true).unwrap();
    assert_eq!(client.datagram(&[0, 1]).next_datagram(), None);
    assert!(matches!(client.events()[..], [Event::Failed { .. }]));
}

/// Datagrams that arrive before their request wait, up to a limit; datagrams that arrive after the
/// end are dropped (RFC 9297 §2.1).
#[test]
fn section_2_1_datagrams_before_and_after_their_request() {
    let config = Config { max_early_datagrams: 3, ..with_datagrams() };
    let mut alone = Alone::new(Role::Server, config);
    for number in 0..5 {
        alone.datagram(&[1, number]);
    }
    assert_eq!(alone.next_datagram(), None);
    assert_eq!(alone.connection.busy.early_datagrams.len(), 3);
    let first = alone.open_bidirectional(&tunnel());
    let second = alone.open_bidirectional(&[]);
    alone.events();
    // The stream exists, but its request has not arrived.
    assert_eq!(alone.next_datagram(), None);
    alone.say(second, &tunnel());
    alone.events();
    for number in 2..5 {
        assert_eq!(alone.next_datagram(), Some((second, Bytes::copy_from_slice(&[number]))));
    }
    assert_eq!(alone.next_datagram(), None);
    alone.fin(first);
    alone.events();
    let (connection, mut end) = alone.split();
    connection.read_body(&mut end, first, 1);
    assert_eq!(alone.datagram(&[0, 1]).next_datagram(), None);
    assert_eq!(alone.close_code(), None);
    // A client's own streams exist before any data can arrive for them.
    let mut client = Alone::new(Role::Client, with_datagrams());
    assert_eq!(client.datagram(&[9, 1]).next_datagram(), None);
    assert!(client.connection.busy.early_datagrams.is_empty());
}

/// Polling an idle connection for datagrams does not allocate memory.
#[test]
fn a_connection_that_rests_and_has_no_datagrams_goes_on_resting() {
    let (mut link, _, mut server) = connected(with_datagrams(), with_datagrams());
    server.compact();
    let mut end = link.end(Role::Server);
    assert_eq!(server.next_datagram_before_streams(&mut end), None);
    assert_eq!(server.next_datagram(&mut end), None);
    assert!(!server.busy.is_used());
}
