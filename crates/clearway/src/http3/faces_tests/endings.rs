//! Tests of how connections end.

use clearway_http3::Code;
use http::Method;

use super::program::LARGE;
use super::{
    Face, Pair, SECOND, WINDOW, get, over_each_face, post, request, trailers, transport, tunnel,
    whole,
};
use crate::http3::{Body, Error};
use crate::wakes_tests::world::{Configs, DELAY, Scene, now_or_never};

over_each_face! {
    a_shutdown_ends_when_what_is_in_progress_is_complete
    a_request_in_transit_is_accepted_by_a_shutdown
    a_shutdown_ends_although_a_request_was_cut_off
    a_reset_that_is_lost_is_delivered_before_a_shutdown_ends
    what_came_before_a_close_is_delivered
    what_nobody_has_read_is_delivered_after_a_close
    a_connection_of_another_protocol_is_closed
}

/// The responses in progress are complete before the connection is closed.
fn a_shutdown_ends_when_what_is_in_progress_is_complete(face: Face) {
    let mut pair = Pair::new(face);
    let large = pair.client.start(get("/large")).unwrap();
    let (sending, echo) = pair.client.open(post("/echo")).unwrap();
    pair.world.run_for(SECOND);
    assert_eq!(pair.answer(get("/")).1, b"content");
    pair.world.run_for(SECOND);
    assert!(!pair.client.is_open(), "the client knows that no more requests are accepted");
    let closed = pair.client.clone();
    let closed = pair.world.spawn(async move { closed.closed().await });
    pair.world.run_for(SECOND);
    assert!(closed.take().is_none(), "requests are in progress");
    let response = pair.get(large.response()).unwrap().into_body();
    assert_eq!(pair.get(whole(200, response)).unwrap().1.len(), LARGE);
    pair.world.run_for(SECOND);
    assert!(closed.take().is_none(), "a request is in progress");
    pair.world.spawn(sending.finish());
    assert_eq!(pair.get(echo.response()).unwrap().status(), 200);
    let (_, error) = pair.world.wait(&closed, SECOND).expect("the server does not close");
    assert!(error.to_string().contains("H3_NO_ERROR"), "{error}");
}

/// The request was sent before the client learned of the shutdown.
fn a_request_in_transit_is_accepted_by_a_shutdown(face: Face) {
    let mut pair = Pair::new(face);
    let last = pair.client.start(get("/")).unwrap();
    pair.world.run_for(DELAY * 3 / 2);
    let late = pair.client.start(get("/other")).unwrap();
    assert_eq!(pair.get(last.response()).unwrap().status(), 200);
    assert_eq!(pair.get(late.response()).unwrap().status(), 200);
    let closed = pair.client.clone();
    pair.get(async move { closed.closed().await });
}

/// The client sends nothing more on the stream, and no response follows.
fn a_shutdown_ends_although_a_request_was_cut_off(face: Face) {
    let mut pair = Pair::new(face);
    let (sending, pending) = pair.client.open(post("/echo")).unwrap();
    pair.world.run_for(SECOND);
    sending.reset(Code::EXCESSIVE_LOAD);
    pair.world.run_for(SECOND);
    assert_eq!(pair.record("/echo").failed, [Code::EXCESSIVE_LOAD]);
    let error = now_or_never(pending.response()).expect("it is answered").unwrap_err();
    assert!(matches!(error, Error::Reset(_)), "{error}");
    pair.answer(get("/"));
    let closed = pair.client.clone();
    pair.get(async move { closed.closed().await });
}

/// A client that does not receive the reset cannot tell whether it may repeat the request.
fn a_reset_that_is_lost_is_delivered_before_a_shutdown_ends(face: Face) {
    let mut pair = Pair::new(face);
    let lost = pair.world.now + DELAY;
    pair.world.loss = Some(Box::new(move |now, to| to == 0 && now == lost));
    let rejected = pair.client.start(get("/reset")).unwrap();
    pair.world.run_for(DELAY / 5);
    let last = pair.client.start(get("/")).unwrap();
    assert_eq!(pair.get(last.response()).unwrap().status(), 200);
    let error = pair.get(rejected.response()).unwrap_err();
    assert!(matches!(error, Error::Reset(Code::REQUEST_REJECTED)), "{error}");
    let closed = pair.client.clone();
    pair.get(async move { closed.closed().await });
}

/// All data is delivered, even if it arrives at the same time as the close.
fn what_came_before_a_close_is_delivered(face: Face) {
    let mut pair = Pair::new(face);
    let (mut upload, response) = pair.client.open(post("/echo")).unwrap();
    let (of_tunnel, of_tunnel_response) = pair.client.open(tunnel()).unwrap();
    pair.world.run_for(SECOND);
    now_or_never(upload.write_chunk(vec![7; 5000])).unwrap().unwrap();
    of_tunnel.datagrams().send("datagram").unwrap();
    let whole = pair.client.start(request(Method::POST, "/whole", Body::full("whole"))).unwrap();
    pair.world.settle();
    pair.client.close(Code::NO_ERROR);
    pair.world.run_for(SECOND);
    assert_eq!(pair.record("/echo").content, [7; 5000]);
    assert!(!pair.record("/echo").is_whole);
    assert_eq!(pair.record("/tunnel").datagrams, ["datagram"]);
    let record = pair.record("/whole");
    assert!(record.is_whole && record.content == b"whole", "{record:?}");
    drop((upload, of_tunnel, response, of_tunnel_response, whole));
}

/// Tasks read nothing before the connection has ended. A handler is called as data arrives.
fn what_nobody_has_read_is_delivered_after_a_close(face: Face) {
    let mut pair = Pair::new(face);
    // This is more than is taken from the transport for a task that does not read, but less than
    // that plus one flow control window.
    let content = vec![7; WINDOW as usize * 3 / 2];
    let body = Body::full(content.clone()).with_trailers(trailers());
    let pending = pair.client.start(request(Method::POST, "/late", body)).unwrap();
    pair.world.run_for(SECOND);
    pair.client.close(Code::NO_ERROR);
    pair.world.run_for(SECOND);
    let record = pair.record("/late");
    assert!(record.is_whole && record.content == content, "{}", record.content.len());
    assert_eq!(record.trailers, Some(trailers()));
    drop(pending);
}

fn a_connection_of_another_protocol_is_closed(face: Face) {
    let mut pair = Pair::raw(face, None, &Configs::new(b"other", transport()));
    let client = pair.client.clone();
    let error = pair.get(async move { client.closed().await });
    assert!(error.to_string().contains("this endpoint requires HTTP/3"), "{error}");
}
