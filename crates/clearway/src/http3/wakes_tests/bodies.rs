//! Tests of message bodies as other crates see them, through [`http_body::Body`].

use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body::{Body as _, Frame};

use super::{
    CODE, DELAY, PROTOCOL, Pair, SECOND, Scene, Side, Wakes, World, now_or_never, transport,
};
use crate::http3::{Body, Error, RecvBody};
use crate::{Connecting, driver, streams};

const LIMIT: Duration = Duration::from_secs(60);
/// More than all windows and buffers.
const LARGE: usize = 4 << 20;

/// Returns the next frame of a body.
async fn frame(body: &mut RecvBody) -> Option<Frame<Bytes>> {
    poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await.map(Result::unwrap)
}

/// Returns the body's exact size, if it is known, and whether the body has ended.
fn extent(body: &RecvBody) -> (Option<u64>, bool) {
    (body.size_hint().exact(), body.is_end_stream())
}

impl Pair {
    /// Returns the body of a request as the server first sees it.
    fn received(&mut self, method: Method, body: Body) -> RecvBody {
        let request = Request::builder().method(method).uri("https://localhost/");
        let pending = self.client.start(request.body(body).unwrap()).unwrap();
        let (received, responder) = self.accept();
        self.world.spawn(async move {
            responder.respond(Response::new(Body::empty())).await.unwrap();
            pending.response().await.unwrap().into_body().trailers().await.unwrap();
        });
        received
    }
}

#[test]
fn a_request_without_content_has_ended_when_it_is_accepted() {
    for method in [Method::GET, Method::DELETE, Method::OPTIONS, Method::POST] {
        let mut pair = Pair::new();
        let body = pair.received(method, Body::empty());
        assert_eq!(extent(&body), (Some(0), true));
        let onward = Body::from(body);
        assert_eq!((onward.length(), onward.is_end_stream()), (Some(0), true));
    }
}

#[test]
fn the_size_of_a_request_shrinks_as_it_is_read() {
    let mut pair = Pair::new();
    let mut body = pair.received(Method::PUT, Body::full("content"));
    assert_eq!(extent(&body), (Some(7), false));
    let body = pair.get(async move {
        let mut buffer = [0; 3];
        tokio::io::AsyncReadExt::read_exact(&mut body, &mut buffer).await.unwrap();
        body
    });
    assert_eq!(extent(&body), (Some(4), false));
    let onward = pair.get(async move {
        let mut body = body;
        assert_eq!(frame(&mut body).await.unwrap().into_data().unwrap(), "tent");
        body
    });
    assert_eq!(extent(&onward), (Some(0), true));
}

#[test]
fn a_body_with_trailers_ends_after_them() {
    let mut pair = Pair::new();
    let trailers = HeaderMap::from_iter([("a".parse().unwrap(), "b".parse().unwrap())]);
    let mut body = pair.received(Method::GET, Body::empty().with_trailers(trailers.clone()));
    assert_eq!(extent(&body), (Some(0), false));
    assert!(!Body::from(core::mem::take(&mut body)).is_end_stream(), "trailers follow");
    let mut body = pair.received(Method::PUT, Body::full("content").with_trailers(trailers));
    let body = pair.get(async move {
        assert!(frame(&mut body).await.unwrap().is_data());
        assert_eq!(extent(&body), (Some(0), false));
        assert_eq!(frame(&mut body).await.unwrap().into_trailers().unwrap()["a"], "b");
        body
    });
    assert_eq!(extent(&body), (Some(0), true));
}

#[test]
fn the_length_of_a_stream_is_unknown_until_its_end() {
    let mut pair = Pair::new();
    let request = Request::post("https://localhost/").body(()).unwrap();
    let (mut sending, pending) = pair.client.open(request).unwrap();
    let (mut body, responder) = pair.accept();
    assert_eq!(extent(&body), (None, false));
    assert_eq!(body.size_hint().lower(), 0);
    pair.get(async move {
        sending.write_chunk("content").await.unwrap();
        sending.finish().await.unwrap();
    });
    pair.world.run_for(DELAY * 2);
    let body = pair.get(async move {
        frame(&mut body).await.unwrap();
        body
    });
    assert_eq!(extent(&body), (Some(0), true));
    drop((pending, responder));
}

#[test]
fn an_empty_body_belongs_to_no_exchange() {
    let mut pair = Pair::new();
    let mut body = RecvBody::empty();
    assert_eq!(extent(&body), (Some(0), true));
    pair.get(async move {
        assert!(frame(&mut body).await.is_none());
        assert!(body.trailers().await.unwrap().is_none());
        body.datagrams().receive().await.unwrap().unwrap_err();
        body.set_priority(Default::default());
        body.stop(super::CODE);
    });
}

/// A body of unknown length that always has another frame. It panics when it is polled too often.
struct Endless(usize);

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = core::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0 = self.0.checked_sub(1).expect("should not have been polled again");
        Poll::Ready(Some(Ok(Frame::data(Bytes::new()))))
    }
}

/// Responses to HEAD often have the body of the response to GET.
#[test]
fn the_body_of_a_response_without_content_is_not_produced() {
    for (method, status) in [(Method::HEAD, 200), (Method::GET, 204), (Method::GET, 304)] {
        let mut pair = Pair::new();
        let request = Request::builder().method(method).uri("https://localhost/");
        let pending = pair.client.start(request.body(Body::empty()).unwrap()).unwrap();
        let (_received, responder) = pair.accept();
        let body = Body::wrap(Endless(0));
        let response = Response::builder().status(status).body(body).unwrap();
        pair.get(responder.respond(response)).unwrap();
        let response = pair.get(pending.response()).unwrap();
        assert_eq!(response.status(), status);
        let content = pair.get(async move { response.into_body().bytes(1).await.unwrap() });
        assert!(content.is_empty());
    }
}

#[test]
fn a_body_that_is_always_ready_lets_other_tasks_run() {
    let mut pair = Pair::new();
    let request = Request::get("https://localhost/").body(Body::empty()).unwrap();
    let pending = pair.client.start(request).unwrap();
    let (_received, responder) = pair.accept();
    let body = Body::wrap(Endless(1000));
    let mut responding = Box::pin(responder.respond(Response::new(body)));
    assert!(now_or_never(responding.as_mut()).is_none());
    drop(pending);
    pair.world.run_for(SECOND);
    let error = now_or_never(responding).unwrap().unwrap_err();
    assert!(matches!(error, Error::Stopped(CODE)), "{error}");
}

/// Echoes `content` in an HTTP/3 exchange. Returns the number of bytes allocated meanwhile.
fn allocated_by_exchange(content: Bytes) -> u64 {
    let mut pair = Pair::new();
    let length = content.len();
    let used = allocation_counter::measure(|| {
        let request = Request::post("https://localhost/").body(content).unwrap();
        let pending = pair.client.start(request).unwrap();
        let (received, responder) = pair.accept();
        pair.world.spawn(async move { responder.respond(Response::new(received)).await });
        let reading = pair.world.spawn(async move {
            let mut body = pending.response().await.unwrap().into_body();
            let mut read = 0;
            while let Some(frame) = frame(&mut body).await {
                read += frame.into_data().unwrap().len();
            }
            read
        });
        assert_eq!(pair.world.wait(&reading, LIMIT).unwrap().1, length);
    });
    used.bytes_total
}

/// Echoes `content` on a QUIC stream. Returns the number of bytes allocated meanwhile.
fn allocated_by_stream(content: Bytes) -> u64 {
    let shared = [(); 2].map(|()| streams::Shared::new(None));
    let sides: [Side; 2] = shared.each_ref().map(|shared| {
        let driver = driver::Driver::new(shared.clone());
        (Box::new(driver) as Box<_>, shared.clone() as Arc<dyn Wakes>)
    });
    let mut world = World::new(PROTOCOL, transport(), sides);
    let remote = "127.0.0.1:443".parse().unwrap();
    let connecting = shared.map(|shared| world.spawn(Connecting::new(shared, remote)));
    let [client, server] =
        connecting.map(|outcome| world.wait(&outcome, LIMIT).unwrap().1.unwrap());
    let length = content.len();
    let used = allocation_counter::measure(|| {
        world.spawn(async move {
            let (mut send, mut receive) = server.accept_bi().await.unwrap();
            while let Some(chunk) = receive.read_chunk(usize::MAX).await.unwrap() {
                send.write_chunk(chunk).await.unwrap();
            }
            send.finish().unwrap();
            send.stopped().await
        });
        let reading = world.spawn(async move {
            let (mut send, mut receive) = client.open_bi().await.unwrap();
            let writing = async move {
                send.write_chunk(content).await.unwrap();
                send.finish().unwrap();
            };
            let reading = async move {
                let mut read = 0;
                while let Some(chunk) = receive.read_chunk(usize::MAX).await.unwrap() {
                    read += chunk.len();
                }
                read
            };
            tokio::join!(writing, reading).1
        });
        assert_eq!(world.wait(&reading, LIMIT).unwrap().1, length);
    });
    used.bytes_total
}

/// Neither HTTP/3 nor a body copies content: it takes no more memory than on a QUIC stream, except
/// for one header of a DATA frame and one entry in a queue per piece.
#[test]
fn content_is_not_copied_between_the_transport_and_bodies() {
    let content = Bytes::from(vec![7; LARGE]);
    let [exchange, stream] = [allocated_by_exchange(content.clone()), allocated_by_stream(content)];
    let more = exchange.saturating_sub(stream);
    assert!(more < LARGE as u64 / 2, "{exchange} bytes in an exchange, {stream} on a stream");
}
