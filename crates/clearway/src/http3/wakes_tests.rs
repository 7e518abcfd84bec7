//! Like [`crate::wakes_tests`], for HTTP/3 tasks.

mod bodies;
mod handles;
mod readiness;
mod tunnels;

use core::future::poll_fn;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use clearway_http3::{Code, Config, Protocol};
use clearway_transport::TransportConfig;
use clearway_units::Random;
use http::{HeaderMap, Method, Request, Response};

use super::accepting::Accepting;
use super::client::{Client, PendingResponse};
use super::driver::{Driver, PROTOCOL};
use super::exchanges::Shared;
use super::{Body, Error, RecvBody, Responder, SendBody};
use crate::wakes_tests::world::{DELAY, Scene, Side, Wakes, World, now_or_never};

const SECOND: Duration = Duration::from_secs(1);
/// The default of the transport parameter `max_ack_delay` (RFC 9000 §18.2).
const MAX_ACK_DELAY: Duration = Duration::from_millis(25);
const STREAM_WINDOW: usize = 64 << 10;
const CODE: Code = Code::REQUEST_CANCELLED;

/// A connected client and server.
struct Pair {
    world: World,
    /// The state that the client's tasks share with its shard.
    shared: Arc<Shared>,
    client: Client,
    server: Arc<Accepting>,
}

impl Scene for Pair {
    fn world(&mut self) -> &mut World {
        &mut self.world
    }
}

/// Both endpoints' handles to an exchange.
struct Exchange {
    request: SendBody,
    response: PendingResponse,
    received: RecvBody,
    responder: Responder,
}

fn transport() -> TransportConfig {
    TransportConfig::builder()
        .initial_stream_receive_window(STREAM_WINDOW as u64)
        .max_stream_receive_window(STREAM_WINDOW as u64)
        .max_concurrent_bidirectional_streams(2)
        .max_datagram_frame_size(Some(1500))
        .discover_path_mtu(false)
        .build()
        .unwrap()
}

impl Pair {
    fn new() -> Self {
        Self::of(Arc::default())
    }

    fn of(server: Arc<Accepting>) -> Self {
        let (mut pair, _) = Self::begin(server);
        pair.world.run_for(SECOND);
        pair
    }

    /// Returns a pair that has not begun to connect, and the state of the server's connection.
    fn begin(server: Arc<Accepting>) -> (Self, Arc<Shared>) {
        let config = Config { extended_connect: true, datagrams: true, ..Config::default() };
        let config = Arc::new(config);
        let mut random = Random::from_number(1);
        server.add_shard();
        let [of_client, of_server] = [Shared::new(None), Shared::new(None)];
        let listener = server.register(of_server.clone(), &mut random);
        let driver = Driver::client(of_client.clone(), config.clone(), &mut random);
        let client: Side = (Box::new(driver), of_client.clone() as Arc<dyn Wakes>);
        let driver = Driver::server(of_server.clone(), listener, config, &mut random);
        let sides = [client, (Box::new(driver), of_server.clone() as Arc<dyn Wakes>)];
        let world = World::new(PROTOCOL, transport(), sides);
        let shared = of_client.clone();
        (Self { world, shared, client: Client::of(of_client), server }, of_server)
    }

    /// Returns the client's next request, as received by the server.
    fn accept(&mut self) -> (RecvBody, Responder) {
        let server = self.server.clone();
        let accepted = self.get(async move {
            poll_fn(|context| server.poll_accept(context))
                .await
                .map(|(request, responder)| (request.into_body(), responder))
        });
        accepted.unwrap()
    }

    /// Returns an exchange whose request has arrived.
    fn exchange(&mut self, request: Request<()>) -> Exchange {
        let (request, response) = self.client.open(request).unwrap();
        let (received, responder) = self.accept();
        self.world.run_for(SECOND);
        Exchange { request, response, received, responder }
    }

    fn post(&mut self) -> Exchange {
        let request = Request::post("https://localhost/").body(()).unwrap();
        self.exchange(request)
    }

    /// Returns an exchange with datagrams.
    fn tunnel(&mut self) -> Exchange {
        let request = Request::builder().method(Method::CONNECT).uri("https://localhost/");
        let protocol = Protocol::new("connect-udp").unwrap();
        self.exchange(request.extension(protocol).body(()).unwrap())
    }
}

fn ok() -> Response<()> {
    Response::new(())
}

#[test]
fn a_request_and_its_response_reach_those_who_wait() {
    let mut pair = Pair::new();
    let server = pair.server.clone();
    let accepting = async move {
        poll_fn(|context| server.poll_accept(context)).await.map(|(_, responder)| responder)
    };
    let mut response = None;
    let responder = pair.expect(1, accepting, |pair| {
        let request = Request::get("https://localhost/").body(()).unwrap();
        response = Some(pair.client.start(request.map(|()| Body::empty())).unwrap());
    });
    let mut responder = responder.unwrap();
    let mut response = response.unwrap();
    let interim = async move {
        let interim = response.informational().await;
        (response, interim)
    };
    let (response, interim) = pair.expect(1, interim, |_| {
        let interim = Response::builder().status(103).body(()).unwrap();
        responder.inform(interim).unwrap();
    });
    assert_eq!(interim.unwrap().unwrap().status(), 103);
    let mut sending = None;
    let response = pair.expect(1, response.response(), |_| sending = Some(responder.start(ok())));
    let (mut sending, mut body) = (sending.unwrap(), response.unwrap().into_body());
    let reading = async move {
        let chunk = body.chunk().await;
        (body, chunk)
    };
    let (mut body, chunk) = pair.expect(1, reading, |_| {
        now_or_never(sending.write_chunk("content")).unwrap().unwrap();
    });
    assert_eq!(chunk.unwrap().unwrap(), "content");
    let reading = async move { (body.chunk().await.is_none(), body.trailers().await) };
    let (is_over, trailers) = pair.expect(1, reading, |pair| {
        let mut trailers = HeaderMap::new();
        trailers.insert("a", "b".parse().unwrap());
        pair.world.spawn(sending.finish_with_trailers(trailers));
    });
    assert!(is_over);
    assert_eq!(trailers.unwrap().unwrap()["a"], "b");
}

#[test]
fn cancelled_exchanges_end_on_the_other_side() {
    let cancelled = |act: fn(SendBody, PendingResponse)| {
        let mut pair = Pair::new();
        let Exchange { request, response, received, mut responder } = pair.post();
        let waiting = async move {
            let error = responder.cancelled().await;
            drop(received);
            error
        };
        pair.expect(1, waiting, |_| act(request, response))
    };
    cancelled(|request, response| {
        core::mem::forget(request);
        drop(response);
    });

    // The request's content ends prematurely.
    let mut pair = Pair::new();
    let Exchange { request, response: _response, mut received, responder: _responder } =
        pair.post();
    let reading = async move { received.chunk().await };
    let chunk = pair.expect(1, reading, |_| drop(request));
    assert!(matches!(chunk, Some(Err(Error::Reset(_)))), "{chunk:?}");

    // The server drops its responder.
    let mut pair = Pair::new();
    let Exchange { request: _request, response, received: _received, responder } = pair.post();
    let response = pair.expect(1, response.response(), |_| drop(responder));
    response.unwrap_err();

    // The client closes the connection.
    let mut pair = Pair::new();
    let Exchange { request: _request, response: _response, received: _received, mut responder } =
        pair.post();
    let waiting = async move { responder.cancelled().await };
    pair.expect(1, waiting, |pair| pair.client.close(Code::NO_ERROR));
}

#[test]
fn a_blocked_body_continues_with_its_reader_and_ends_with_it() {
    let blocked = || {
        let mut pair = Pair::new();
        let Exchange { mut request, response, received, responder } = pair.post();
        let writing = pair.world.spawn(async move {
            for _ in 0..40 {
                request.write_chunk(vec![0; STREAM_WINDOW]).await?;
            }
            request.finish().await
        });
        pair.world.run_for(SECOND);
        (pair, writing, received, (response, responder))
    };
    let (mut pair, writing, received, _others) = blocked();
    pair.expect_of(1, &writing, |_| received.stop(CODE)).unwrap_err();

    let (mut pair, writing, mut received, _others) = blocked();
    let reading = pair.world.spawn(async move {
        let mut read = 0;
        while let Some(chunk) = received.chunk().await {
            read += chunk.unwrap().len();
        }
        read
    });
    let (took, read) = pair.world.wait(&reading, SECOND * 30).unwrap();
    assert_eq!(read, 40 * STREAM_WINDOW);
    assert!(took <= DELAY * 2 * 40 * 5 / 4, "{took:?}");
    writing.take().unwrap().1.unwrap();
}

#[test]
fn a_request_that_waits_for_a_stream_follows_when_one_ends() {
    let mut pair = Pair::new();
    let first = pair.post();
    let second = pair.post();
    let request = Request::get("https://localhost/").body(()).unwrap();
    let third = pair.client.start(request.map(|()| Body::empty())).unwrap();
    let server = pair.server.clone();
    let accepting = async move { poll_fn(|context| server.poll_accept(context)).await.is_some() };
    let accepting = pair.world.spawn(accepting);
    pair.world.run_for(SECOND);
    let Exchange { request, response, received, responder } = first;
    drop(received);
    pair.world.spawn(request.finish());
    pair.world.spawn(async move {
        responder.respond(Response::new(Body::empty())).await.unwrap();
    });
    pair.world.spawn(async move { response.response().await.unwrap().into_body().chunk().await });
    let (took, accepted) = pair.world.wait(&accepting, SECOND).unwrap();
    // This takes four one-way trips: the end of the response, its acknowledgment, the new limit,
    // and the request.
    assert!(accepted && took <= DELAY * 4 + MAX_ACK_DELAY, "{took:?}");
    drop((second, third));
}

#[test]
fn datagrams_reach_their_reader() {
    let mut pair = Pair::new();
    let exchange = pair.tunnel();
    let mut datagrams = exchange.received.datagrams();
    let reading = async move {
        let datagram = datagrams.receive().await;
        (datagrams, datagram)
    };
    let (mut datagrams, datagram) = pair.expect(1, reading, |_| {
        exchange.request.datagrams().send("datagram").unwrap();
    });
    assert_eq!(datagram.unwrap().unwrap(), "datagram");
    let Exchange { request, .. } = exchange;
    let reading = async move { datagrams.receive().await };
    let datagram = pair.expect(1, reading, |pair| drop(pair.world.spawn(request.finish())));
    assert!(datagram.is_none(), "{datagram:?}");
}

/// A batch takes the lock once, and wakes the shard once.
#[test]
fn datagrams_pass_in_batches() {
    let mut pair = Pair::new();
    let exchange = pair.tunnel();
    let (sending, mut datagrams) = (exchange.request.datagrams(), exchange.received.datagrams());
    let reading = async move {
        let mut received = VecDeque::new();
        let first = datagrams.receive_many(&mut received, 3).await.unwrap().unwrap();
        let second = datagrams.receive_many(&mut received, 3).await.unwrap().unwrap();
        (first, second, received)
    };
    let (first, second, received) = pair.expect(1, reading, |pair| {
        let shared = pair.shared.clone();
        let counts =
            || [&shared.locks, &shared.shard_wakes].map(|count| count.load(Ordering::SeqCst));
        let (before, held) = (counts(), pair.world.held_bytes(0));
        let mut payloads = (0..5u8).map(|number| Bytes::from(vec![number; 100])).collect();
        sending.send_all(&mut payloads).unwrap();
        assert!(payloads.is_empty());
        assert_eq!(counts(), before.map(|count| count + 1));
        assert_eq!(pair.world.held_bytes(0) - held, 5 * (100 + 64));
    });
    assert_eq!((first, second), (3, 2));
    assert!(received.iter().map(|payload| payload[0]).eq(0..5));
}

#[test]
fn a_batch_loses_only_datagrams_that_are_too_large() {
    let mut pair = Pair::new();
    let Exchange { request, response, mut received, responder } = pair.tunnel();
    let sending = request.datagrams();
    let batch = || [1, 3000, 2].map(|length| Bytes::from(vec![0; length])).into();
    sending.send_all(&mut batch()).unwrap();
    pair.world.run_for(SECOND);
    let mut datagrams = received.datagrams();
    let mut got = VecDeque::new();
    now_or_never(datagrams.receive_many(&mut got, 9)).unwrap().unwrap().unwrap();
    assert!(got.iter().map(Bytes::len).eq([1, 2]));
    // An empty request for datagrams does not wait.
    assert_eq!(now_or_never(datagrams.receive_many(&mut got, 0)).unwrap().unwrap().unwrap(), 0);
    request.reset(CODE);
    let mut payloads = batch();
    sending.send_all(&mut payloads).unwrap_err();
    assert_eq!(payloads.len(), 3);
    pair.world.run_for(SECOND);
    let error = now_or_never(datagrams.receive_many(&mut got, 9)).unwrap().unwrap().unwrap_err();
    assert!(matches!(error, Error::Reset(CODE)), "{error}");
    drop((response, responder, now_or_never(received.chunk())));
}

/// Everything arrives in one batch: data received before the end can be read after it.
#[test]
fn what_comes_with_the_end_can_be_read() {
    for (closes, is_answered) in [(false, false), (true, false), (false, true)] {
        let mut pair = Pair::new();
        let Exchange { mut request, response, mut received, responder } = pair.tunnel();
        let mut responder = Some(responder);
        if let Some(responder) = responder.take_if(|_| is_answered) {
            let sending = responder.start(ok());
            pair.get(sending.finish()).unwrap();
            pair.world.run_for(SECOND);
        }
        let mut datagrams = received.datagrams();
        for number in 0..3u8 {
            request.datagrams().send(vec![number]).unwrap();
        }
        now_or_never(request.write_chunk("content")).unwrap().unwrap();
        if closes {
            pair.world.settle();
            pair.client.close(Code::NO_ERROR);
            core::mem::forget(request);
        } else {
            drop(pair.world.spawn(request.finish()));
        }
        pair.world.run_for(SECOND);
        let got: Vec<Bytes> = core::iter::from_fn(|| now_or_never(datagrams.receive()))
            .map_while(|datagram| datagram.and_then(Result::ok))
            .collect();
        assert_eq!(got, [&[0][..], &[1], &[2]], "closes: {closes}");
        assert_eq!(now_or_never(received.chunk()).unwrap().unwrap().unwrap(), "content");
        let end = now_or_never(received.chunk()).unwrap();
        assert_eq!(closes, end.is_some(), "{end:?}");
        drop((response, responder));
    }
}

#[test]
fn the_end_of_the_connection_reaches_those_who_wait() {
    // The last exchange has ended.
    let mut pair = Pair::new();
    let Exchange { request, response, received, responder } = pair.post();
    let client = pair.client.clone();
    let ending = pair.world.spawn(async move { client.shutdown().await });
    let server = pair.server.clone();
    let closed = pair.client.clone();
    let closed = pair.world.spawn(async move { closed.closed().await });
    pair.world.run_for(SECOND);
    assert!(ending.take().is_none());
    drop(received);
    pair.world.spawn(request.finish());
    pair.world.spawn(async move { responder.respond(Response::new(Body::empty())).await });
    pair.world.spawn(async move { response.response().await.unwrap().into_body().chunk().await });
    // The client acknowledges the response, and closes when its own message is acknowledged.
    let (took, _) = pair.world.wait(&closed, SECOND).expect("the client does not close");
    assert!(took <= DELAY * 4, "{took:?}");
    drop(server);
}

/// The client abandons one of two requests that no task has accepted.
#[test]
fn a_request_that_is_abandoned_in_the_queue_takes_no_other_with_it() {
    for abandoned in [0, 1] {
        let mut pair = Pair::new();
        let request = |method| Request::builder().method(method).uri("https://localhost/");
        let open = [Method::POST, Method::PUT]
            .map(|method| pair.client.open(request(method).body(()).unwrap()).unwrap());
        pair.world.run_for(SECOND);
        for (number, (sending, pending)) in open.into_iter().enumerate() {
            match number == abandoned {
                true => sending.reset(CODE),
                false => std::mem::forget((sending, pending)),
            }
        }
        pair.world.run_for(SECOND);
        let server = pair.server.clone();
        let accepted = now_or_never(poll_fn(|context| server.poll_accept(context)));
        let (request, _responder) = accepted.unwrap().unwrap();
        assert_eq!(*request.method(), [Method::PUT, Method::POST][abandoned]);
        assert!(now_or_never(poll_fn(|context| server.poll_accept(context))).is_none());
    }
}
