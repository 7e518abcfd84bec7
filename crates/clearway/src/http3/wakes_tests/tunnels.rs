//! Tests of tunnels that services open with their responses.

use core::future::poll_fn;

use http::{Request, Response};

use super::{Pair, Protocol, Scene, World, now_or_never};
use crate::http3::{
    Body, Code, Error, OnTunnel, PendingResponse, RecvBody, Responder, SendBody, Tunnel,
    TunnelRefused, TunnelRequest,
};
use crate::wakes_tests::world::Outcome;

/// A CONNECT request as the server and a service see it.
struct Asked {
    sending: SendBody,
    pending: PendingResponse,
    request: Request<RecvBody>,
    tunnel: TunnelRequest,
    responder: Responder,
}

impl Pair {
    fn ask(&mut self) -> Asked {
        let request = Request::connect("https://localhost/");
        let request = request.extension(Protocol::new("echo").unwrap()).body(()).unwrap();
        let (sending, pending) = self.client.open(request).unwrap();
        let (mut request, responder) = self.accept_request();
        let tunnel = TunnelRequest::of(&mut request).unwrap();
        Asked { sending, pending, request, tunnel, responder }
    }

    fn accept_request(&mut self) -> (Request<RecvBody>, Responder) {
        let server = self.server.clone();
        self.get(async move { poll_fn(|context| server.poll_accept(context)).await.unwrap() })
    }
}

/// Starts the task of a service, which echoes the bytes of its tunnel.
fn echo(world: &mut World, request: &Request<RecvBody>) -> Outcome<Result<(), TunnelRefused>> {
    let tunnel = OnTunnel::of(request).unwrap();
    world.spawn(async move {
        let Tunnel { mut receive, mut send } = tunnel.await?;
        while let Some(chunk) = receive.chunk().await {
            send.write_chunk(chunk.unwrap()).await.unwrap();
        }
        send.finish().await.unwrap();
        Ok(())
    })
}

#[test]
fn a_successful_response_opens_the_tunnel() {
    for status in [200, 204] {
        let mut pair = Pair::new();
        let Asked { mut sending, pending, request, tunnel, responder } = pair.ask();
        assert!(now_or_never(OnTunnel::of(&request).unwrap()).is_none(), "before the response");
        let echo = echo(&mut pair.world, &request);
        let response = Response::builder().status(status).body(Body::full("ignored")).unwrap();
        pair.get(tunnel.respond(responder, response)).unwrap();
        let received = pair.get(async move {
            sending.write_chunk("content").await.unwrap();
            sending.finish().await.unwrap();
            pending.response().await.unwrap().into_body().bytes(100).await.unwrap()
        });
        assert_eq!(received, "content");
        assert_eq!(echo.take().unwrap().1, Ok(()));
        let again = now_or_never(OnTunnel::of(&request).unwrap()).unwrap();
        assert_eq!(again.unwrap_err(), TunnelRefused);
    }
}

#[test]
fn all_tasks_that_await_a_tunnel_are_woken() {
    for (status, expected) in [(200, 1), (403, 0)] {
        let mut pair = Pair::new();
        let Asked { sending, pending, request, tunnel, responder } = pair.ask();
        let waiting = [(); 3].map(|()| pair.world.spawn(OnTunnel::of(&request).unwrap()));
        pair.world.settle();
        let response = Response::builder().status(status).body(Body::empty()).unwrap();
        pair.get(tunnel.respond(responder, response)).unwrap();
        pair.world.settle();
        let opened = waiting.map(|outcome| outcome.take().unwrap().1.is_ok());
        assert_eq!(opened.iter().filter(|is_open| **is_open).count(), expected);
        drop((sending, pending));
    }
}

#[test]
fn another_response_refuses_the_tunnel() {
    let mut pair = Pair::new();
    let Asked { sending, pending, request, tunnel, responder } = pair.ask();
    let echo = echo(&mut pair.world, &request);
    let response = Response::builder().status(403).body(Body::full("no")).unwrap();
    pair.get(tunnel.respond(responder, response)).unwrap();
    assert_eq!(echo.take().unwrap().1, Err(TunnelRefused));
    let mut response = pair.get(pending.response()).unwrap();
    assert_eq!(response.status(), 403);
    let content = pair.get(async move { response.body_mut().bytes(100).await.unwrap() });
    assert_eq!(content, "no");
    drop(sending);
}

#[test]
fn a_tunnel_that_nobody_awaits_is_reset() {
    let mut pair = Pair::new();
    let Asked { sending, pending, request, tunnel, responder } = pair.ask();
    drop(request);
    pair.get(tunnel.respond(responder, Response::new(Body::empty()))).unwrap();
    let error = pair.get(async move {
        match pending.response().await {
            Ok(response) => response.into_body().bytes(100).await.unwrap_err(),
            Err(error) => error,
        }
    });
    assert!(matches!(error, Error::Reset(Code::REQUEST_CANCELLED)), "{error}");
    drop(sending);
}

#[test]
fn a_request_without_a_response_refuses_the_tunnel() {
    let mut pair = Pair::new();
    let Asked { sending, pending, request, tunnel, responder } = pair.ask();
    let waiting = OnTunnel::of(&request).unwrap();
    let refused = pair.expect(0, waiting, |_| drop(tunnel));
    assert_eq!(refused.unwrap_err(), TunnelRefused);
    drop((sending, pending, responder));
}

#[test]
fn other_requests_keep_their_body() {
    let mut pair = Pair::new();
    let request = Request::put("https://localhost/").body(Body::full("content")).unwrap();
    let _pending = pair.client.start(request).unwrap();
    let (mut request, _responder) = pair.accept_request();
    assert!(TunnelRequest::of(&mut request).is_none());
    assert!(OnTunnel::of(&request).is_none());
    let content = pair.get(async move { request.body_mut().bytes(100).await.unwrap() });
    assert_eq!(content, "content");
}
