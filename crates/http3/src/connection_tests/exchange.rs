//! Tests that a client and a server exchange messages regardless of how the transport splits the
//! data into chunks.

use bytes::{Bytes, BytesMut};
use clearway_units::Random;
use http::{HeaderMap, HeaderValue, Request, Response};
use proptest::prelude::*;

use super::link::{End, Link};
use super::pair::{connected, drive, events, plain};
use crate::{Code, Config, Connection, Event, Role, SendError};

/// Sends one body and then trailers, as fast as the transport allows.
#[derive(Default)]
struct Sender {
    body: Bytes,
    trailers: Option<HeaderMap>,
    done: bool,
}

impl Sender {
    fn send(
        &mut self,
        connection: &mut Connection,
        end: &mut End<'_>,
        stream: u64,
        at_once: usize,
    ) {
        while !self.done {
            if self.body.is_empty() {
                if let Some(trailers) = self.trailers.take() {
                    connection.send_trailers(end, stream, &trailers).unwrap();
                }
                connection.finish(end, stream).unwrap();
                self.done = true;
                return;
            }
            let part = self.body.slice(..self.body.len().min(at_once));
            let taken = connection.send_body(end, stream, part).unwrap();
            let _ = self.body.split_to(taken);
            if taken == 0 {
                return;
            }
        }
    }
}

/// The parts of a message that an endpoint has received.
#[derive(Default, Debug, PartialEq)]
struct Heard {
    start: Vec<String>,
    content: Vec<u8>,
    trailers: HeaderMap,
    finished: bool,
}

impl Heard {
    fn hear(&mut self, connection: &mut Connection, end: &mut End<'_>, event: Event) {
        match event {
            Event::Request { request, .. } => {
                self.start.push(format!("{} {}", request.method(), request.uri()));
            }
            Event::Informational { response, .. } | Event::Response { response, .. } => {
                self.start.push(response.status().to_string());
            }
            Event::Data { stream } => {
                while let Some(chunk) = connection.read_body(end, stream, 1000) {
                    assert!(!chunk.is_empty());
                    self.content.extend_from_slice(&chunk);
                }
            }
            Event::Trailers { fields, .. } => self.trailers = fields,
            Event::Finished { .. } => self.finished = true,
            Event::Settings(_) | Event::Writable { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

fn trailers(value: &'static str) -> HeaderMap {
    HeaderMap::from_iter([("x-sum".parse().unwrap(), HeaderValue::from_static(value))])
}

/// Exchanges one POST and its response, both with content and trailers.
fn exchange(
    link: &mut Link,
    config: &Config,
    upload: &Bytes,
    download: &Bytes,
    at_once: usize,
) -> (Heard, Heard) {
    exchange_between(link, [config, config], upload, download, at_once)
}

/// Like `exchange`, with separate configurations for the client and the server.
fn exchange_between(
    link: &mut Link,
    [of_client, of_server]: [&Config; 2],
    upload: &Bytes,
    download: &Bytes,
    at_once: usize,
) -> (Heard, Heard) {
    let mut random = Random::from_number(7);
    let mut client = Connection::new(Role::Client, of_client.clone(), &mut random);
    let mut server = Connection::new(Role::Server, of_server.clone(), &mut random);
    let (mut at_server, mut at_client) = (Heard::default(), Heard::default());
    let request = Request::post("https://a.example/echo")
        .header("content-length", upload.len())
        .body(())
        .unwrap();
    let stream = client.send_request(&mut link.end(Role::Client), &request, false).unwrap();
    let mut uploading =
        Sender { body: upload.clone(), trailers: Some(trailers("up")), done: false };
    let mut downloading =
        Sender { body: download.clone(), trailers: Some(trailers("down")), done: false };
    let mut answered = false;
    for _ in 0..20_000 {
        drive(&mut server, link);
        for event in events(&mut server) {
            at_server.hear(&mut server, &mut link.end(Role::Server), event);
        }
        let mut end = link.end(Role::Server);
        if !at_server.start.is_empty() && !answered {
            let interim = Response::builder().status(103).body(()).unwrap();
            server.send_informational(&mut end, stream, &interim).unwrap();
            server.send_response(&mut end, stream, &Response::new(()), false).unwrap();
            answered = true;
        }
        if answered {
            downloading.send(&mut server, &mut end, stream, at_once);
        }
        drive(&mut client, link);
        for event in events(&mut client) {
            at_client.hear(&mut client, &mut link.end(Role::Client), event);
        }
        uploading.send(&mut client, &mut link.end(Role::Client), stream, at_once);
        if at_client.finished && at_server.finished && server.is_idle() && client.is_idle() {
            return (at_server, at_client);
        }
    }
    panic!("no end: {at_server:?} {at_client:?}");
}

fn expected(upload: &[u8], download: &[u8]) -> (Heard, Heard) {
    let request = Heard {
        start: vec!["POST https://a.example/echo".into()],
        content: upload.to_vec(),
        trailers: trailers("up"),
        finished: true,
    };
    let response = Heard {
        start: vec!["103 Early Hints".into(), "200 OK".into()],
        content: download.to_vec(),
        trailers: trailers("down"),
        finished: true,
    };
    (request, response)
}

#[test]
fn a_request_and_its_response() {
    let (upload, download) = (Bytes::from(vec![1; 100_000]), Bytes::from(vec![2; 300_000]));
    let heard = exchange(&mut Link::default(), &Config::default(), &upload, &download, 1 << 20);
    assert_eq!(heard, expected(&upload, &download));
}

/// The name and the setter of a limit.
type Limit<T> = (&'static str, fn(&mut Config, T));

/// The limits whose minimum, usually 0, does not depend on the messages.
const LIMITS: [Limit<bool>; 8] = [
    ("max_buffered_field_sections", |it, most| {
        // This is enough for the header and trailer sections of these messages, which may wait for
        // the dynamic table.
        it.max_buffered_field_sections = if most { usize::MAX } else { 1024 };
    }),
    ("max_cancelled_requests", |it, most| {
        it.max_cancelled_requests = if most { u32::MAX } else { 0 };
    }),
    ("qpack_max_table_capacity", |it, most| {
        it.qpack_max_table_capacity = if most { u64::MAX } else { 0 };
    }),
    ("qpack_blocked_streams", |it, most| {
        it.qpack_blocked_streams = if most { u64::MAX } else { 0 };
    }),
    ("qpack_encoder_table_capacity", |it, most| {
        it.qpack_encoder_table_capacity = if most { u64::MAX } else { 0 };
    }),
    ("qpack_encoder_blocked_streams", |it, most| {
        it.qpack_encoder_blocked_streams = if most { u64::MAX } else { 0 };
    }),
    ("max_early_priorities", |it, most| {
        it.max_early_priorities = if most { usize::MAX } else { 0 };
    }),
    ("max_early_datagrams", |it, most| {
        it.max_early_datagrams = if most { usize::MAX } else { 0 };
    }),
];

/// The sizes of the fields of the request and of the response (RFC 9114 §4.2.2); the client's are
/// larger.
const REQUEST_FIELDS: u64 = 43 + 44 + 51 + 42 + 32 + 14 + 4;
const RESPONSE_FIELDS: u64 = 32 + 7 + 3;

fn limited_exchange(name: &str, of_client: &Config, of_server: &Config) {
    let (upload, download) = (Bytes::from(vec![1; 2000]), Bytes::from(vec![2; 3000]));
    for mut link in [Link::default(), Link::narrow(vec![7], 5)] {
        let configs = [of_client, of_server];
        let heard = exchange_between(&mut link, configs, &upload, &download, 100);
        assert_eq!(heard, expected(&upload, &download), "{name}");
    }
}

/// Tests every limit at its minimum and maximum, one at a time and all together, on either
/// endpoint.
#[test]
fn an_exchange_succeeds_with_the_least_and_the_greatest_limits() {
    let default = Config::default();
    for most in [false, true] {
        let mut all = default.clone();
        for (name, set) in LIMITS {
            let mut one = default.clone();
            set(&mut one, most);
            set(&mut all, most);
            limited_exchange(&format!("{name} of the client, {most}"), &one, &default);
            limited_exchange(&format!("{name} of the server, {most}"), &default, &one);
            limited_exchange(&format!("{name} of both, {most}"), &one, &one);
        }
        let size = |least: u64| if most { u64::MAX } else { least };
        let informational = if most { u32::MAX } else { 1 };
        let sized = |config: &Config, least| Config {
            max_field_section_size: size(least),
            max_informational_responses: informational,
            ..config.clone()
        };
        for config in [&default, &all] {
            let of_client = sized(config, RESPONSE_FIELDS);
            let of_server = sized(config, REQUEST_FIELDS);
            limited_exchange(&format!("all limits, {most}"), &of_client, &of_server);
        }
    }
}

#[test]
fn one_byte_at_a_time() {
    let mut link = Link::narrow(vec![1], 1);
    let (upload, download) = (Bytes::from_static(b"ping"), Bytes::from_static(b"pong!"));
    let heard = exchange(&mut link, &Config::default(), &upload, &download, 3);
    assert_eq!(heard, expected(&upload, &download));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn any_chunking_gives_the_same_messages(
        upload in proptest::collection::vec(any::<u8>(), 0..300),
        download in proptest::collection::vec(any::<u8>(), 0..300),
        sizes in proptest::collection::vec(1usize..40, 1..10),
        window in 1usize..60,
        at_once in 1usize..400,
        grease in any::<bool>(),
    ) {
        let mut link = Link::narrow(sizes, window);
        let config = Config { grease, ..Config::default() };
        let (upload, download) = (Bytes::from(upload), Bytes::from(download));
        let heard = exchange(&mut link, &config, &upload, &download, at_once);
        prop_assert_eq!(heard, expected(&upload, &download));
    }
}

/// Bodies are not copied: the application reads the allocation that the transport delivered, and
/// the transport gets the allocation that the application sent.
#[test]
fn content_is_never_copied() {
    let mut link = Link::default();
    let mut random = Random::from_number(7);
    let mut client = Connection::new(Role::Client, plain(), &mut random);
    let mut server = Connection::new(Role::Server, plain(), &mut random);
    let request = Request::post("https://a.example/").body(()).unwrap();
    let body = Bytes::from(BytesMut::zeroed(100_000));
    let mut end = link.end(Role::Client);
    let stream = client.send_request(&mut end, &request, false).unwrap();
    assert_eq!(client.send_body(&mut end, stream, body.clone()), Ok(100_000));
    drive(&mut server, &mut link);
    let mut place = body.as_ptr();
    let mut end = link.end(Role::Server);
    let mut count = 0;
    while let Some(chunk) = server.read_body(&mut end, stream, 30_000) {
        assert_eq!(chunk.as_ptr(), place);
        place = place.wrapping_add(chunk.len());
        count += chunk.len();
    }
    assert_eq!(count, 100_000);
}

/// Each kind of reserved value is sent once, and peers ignore it (RFC 9114 §7.2.8, §7.2.4.1,
/// §6.2.3).
#[test]
fn reserved_values_are_sent() {
    let (mut link, client, server) = connected(Config::default(), Config::default());
    assert_eq!((client.error(), server.error()), (None, None));
    // The reserved streams follow the control and QPACK streams.
    assert_eq!(link.streams(), [2, 3, 6, 7, 10, 11, 14, 15]);
    assert_eq!(link.half(14, false).stopped, Some(Code::STREAM_CREATION_ERROR.get()));
    let alone = || Config::default().without_dynamic_table();
    let (mut link, ..) = connected(alone(), alone());
    assert_eq!(link.streams(), [2, 3, 6, 7]);
    assert_eq!(link.half(6, false).stopped, Some(Code::STREAM_CREATION_ERROR.get()));
    let (link, ..) = connected(plain(), plain());
    assert_eq!(link.streams(), [2, 3, 6, 7, 10, 11]);
}

/// A field section larger than the peer accepts is not sent (RFC 9114 §4.2.2).
#[test]
fn section_4_2_2_the_peers_limit_is_respected() {
    let small = Config { max_field_section_size: 200, ..plain() };
    let (mut link, mut client, _) = connected(plain(), small);
    let mut end = link.end(Role::Client);
    let request = Request::get("https://a.example/").header("x", "y".repeat(60)).body(()).unwrap();
    let outcome = client.send_request(&mut end, &request, true);
    assert!(matches!(outcome, Err(SendError::FieldSectionTooLarge { limit: 200, .. })));
    assert_eq!(link.streams(), [2, 3, 6, 7, 10, 11]);
}

/// Tests graceful shutdown (RFC 9114 §5.2).
#[test]
fn section_5_2_shutdown() {
    let (mut link, mut client, mut server) = connected(plain(), plain());
    let request = Request::get("https://a.example/").body(()).unwrap();
    let send = |link: &mut Link, client: &mut Connection| {
        client.send_request(&mut link.end(Role::Client), &request, true)
    };
    assert_eq!(send(&mut link, &mut client), Ok(0));
    server.shutdown(&mut link.end(Role::Server));
    // This request is in transit when the server asks for no more requests.
    assert_eq!(send(&mut link, &mut client), Ok(4));
    drive(&mut server, &mut link);
    assert_eq!(events(&mut server).len(), 4);
    // The client has not read the first GOAWAY.
    assert!(!server.continue_shutdown(&mut link.end(Role::Server)));
    server.goaway(&mut link.end(Role::Server));
    assert!(server.continue_shutdown(&mut link.end(Role::Server)));
    assert_eq!(send(&mut link, &mut client), Ok(8));
    // GOAWAY is not sent again, nor with a larger identifier: the only data are frames with a type,
    // a length and an identifier of either 8 bytes or 1 byte.
    server.goaway(&mut link.end(Role::Server));
    server.shutdown(&mut link.end(Role::Server));
    let waiting: usize = link.half(3, true).data.iter().map(Bytes::len).sum();
    assert_eq!(waiting, 10 + 3);
    drive(&mut server, &mut link);
    assert!(events(&mut server).is_empty());
    assert_eq!(link.half(8, true).reset, Some(Code::REQUEST_REJECTED.get()));
    drive(&mut client, &mut link);
    let heard = events(&mut client);
    let [Event::GoAway { id: 8 }, Event::Failed { stream: 8, error }] = &heard[..] else {
        panic!("{heard:?}")
    };
    assert_eq!(error.code, Code::REQUEST_REJECTED);
    assert_eq!(send(&mut link, &mut client), Err(SendError::GoingAway));
    for stream in [0, 4] {
        let mut end = link.end(Role::Server);
        server.send_response(&mut end, stream, &Response::new(()), true).unwrap();
    }
    drive(&mut client, &mut link);
    assert!(client.is_idle() && server.is_idle());
    server.close(&mut link.end(Role::Server), Code::NO_ERROR, "done");
    assert_eq!(link.closed, Some((0x100, "done".into())));
}

/// The second GOAWAY follows when the peer has acknowledged the first, and no request is lost (RFC
/// 9114 §5.2).
#[test]
fn section_5_2_the_second_goaway_waits_for_a_round_trip() {
    let (mut link, mut client, mut server) = connected(plain(), plain());
    let request = Request::get("https://a.example/").body(()).unwrap();
    assert!(!server.continue_shutdown(&mut link.end(Role::Server)), "nothing was begun");
    server.shutdown(&mut link.end(Role::Server));
    assert_eq!(client.send_request(&mut link.end(Role::Client), &request, true), Ok(0));
    assert!(!server.continue_shutdown(&mut link.end(Role::Server)));
    drive(&mut client, &mut link);
    let heard = events(&mut client);
    assert!(matches!(heard[..], [Event::GoAway { id }] if id == (1 << 62) - 4), "{heard:?}");
    drive(&mut server, &mut link);
    assert!(server.continue_shutdown(&mut link.end(Role::Server)));
    drive(&mut client, &mut link);
    let heard = events(&mut client);
    assert!(matches!(heard[..], [Event::GoAway { id: 4 }]), "{heard:?}");
    let heard = events(&mut server);
    assert!(matches!(heard[..], [Event::Request { .. }, Event::Finished { .. }]), "{heard:?}");
}
