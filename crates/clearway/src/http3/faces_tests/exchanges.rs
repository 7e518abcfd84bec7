//! Tests of requests, responses, trailers, datagrams and priorities.

use clearway_http3::{Code, Priority};
use http::Method;

use super::program::LARGE;
use super::{Face, Pair, SECOND, get, over_each_face, post, request, trailers, tunnel};
use crate::http3::Error;
use crate::http3::driver::EXCHANGE;
use crate::wakes_tests::world::{DELAY, Scene, now_or_never};

over_each_face! {
    a_request_comes_whole_and_is_answered
    a_large_response_comes_whole
    trailers_come_in_both_directions
    an_interim_response_comes_before_the_final_one
    a_client_that_waits_to_be_asked_for_content_is_asked_once
    a_response_that_is_reset_fails
    a_response_that_is_too_short_is_reset
    a_request_that_is_cut_off_fails
    a_request_that_is_not_wanted_is_stopped
    a_response_that_is_not_wanted_is_stopped
    datagrams_come_in_both_directions
    datagrams_that_come_with_the_end_are_delivered
    a_priority_that_changes_is_known
    what_responses_keep_is_counted
}

fn a_request_comes_whole_and_is_answered(face: Face) {
    let mut pair = Pair::new(face);
    let content = vec![7; 1_000_000];
    let echo = pair.answer(request(Method::POST, "/echo", content.clone()));
    assert_eq!((echo.0, echo.1.len()), (200, content.len()));
    let record = pair.record("/echo");
    assert!(record.is_whole && record.content == content);
    assert_eq!(pair.answer(get("/")).1, b"content");
}

fn a_large_response_comes_whole(face: Face) {
    let mut pair = Pair::new(face);
    assert_eq!(pair.answer(get("/large")).1.len(), LARGE);
}

fn trailers_come_in_both_directions(face: Face) {
    let mut pair = Pair::new(face);
    let body = crate::http3::Body::full("content").with_trailers(trailers());
    let (_, content, received) = pair.answer(request(Method::POST, "/trailers", body));
    assert_eq!((&*content, received), (&b"content"[..], Some(trailers())));
    pair.world.run_for(SECOND);
    let record = pair.record("/trailers");
    assert_eq!((&*record.content, record.trailers), (&b"content"[..], Some(trailers())));
}

fn an_interim_response_comes_before_the_final_one(face: Face) {
    let mut pair = Pair::new(face);
    let mut pending = pair.client.start(get("/interim")).unwrap();
    let interim = pair.get(async move {
        let first = pending.informational().await.unwrap().map(|response| response.status());
        assert!(pending.informational().await.unwrap().is_none());
        (first, pending.response().await.unwrap().status())
    });
    assert_eq!((interim.0.unwrap().as_u16(), interim.1.as_u16()), (103, 200));
}

fn a_response_that_is_reset_fails(face: Face) {
    let mut pair = Pair::new(face);
    let pending = pair.client.start(get("/reset")).unwrap();
    let error = pair.get(pending.response()).unwrap_err();
    assert!(matches!(error, Error::Reset(Code::REQUEST_REJECTED)), "{error}");
}

fn a_client_that_waits_to_be_asked_for_content_is_asked_once(face: Face) {
    let mut pair = Pair::new(face);
    let mut request = post("/echo");
    request.headers_mut().insert("expect", "100-continue".parse().unwrap());
    let (mut sending, mut pending) = pair.client.open(request).unwrap();
    let (pending, asked) = pair.get(async move {
        let asked = pending.informational().await.unwrap();
        (pending, asked)
    });
    assert_eq!(asked.unwrap().status(), 100);
    now_or_never(sending.write_chunk("content")).unwrap().unwrap();
    pair.world.spawn(sending.finish());
    let answer = pair.get(async move {
        let mut pending = pending;
        assert!(pending.informational().await.unwrap().is_none());
        pending.response().await.unwrap().into_body().bytes(100).await.unwrap()
    });
    assert_eq!(answer, "content");
}

/// The response must not look complete.
fn a_response_that_is_too_short_is_reset(face: Face) {
    let mut pair = Pair::new(face);
    let pending = pair.client.start(get("/short")).unwrap();
    let error = pair.get(async move {
        match pending.response().await {
            Ok(response) => response.into_body().bytes(1000).await.unwrap_err(),
            Err(error) => error,
        }
    });
    assert!(matches!(error, Error::Reset(Code::INTERNAL_ERROR)), "{error}");
    assert_eq!(pair.answer(get("/other")).1, b"content");
}

/// Content that arrived earlier is still delivered.
fn a_request_that_is_cut_off_fails(face: Face) {
    let mut pair = Pair::new(face);
    let (mut sending, pending) = pair.client.open(post("/echo")).unwrap();
    now_or_never(sending.write_chunk("begin")).unwrap().unwrap();
    pair.world.run_for(SECOND);
    sending.reset(Code::EXCESSIVE_LOAD);
    pair.world.run_for(SECOND);
    let record = pair.record("/echo");
    assert_eq!((&*record.content, record.is_whole), (&b"begin"[..], false));
    assert_eq!(record.failed, [Code::EXCESSIVE_LOAD]);
    drop(pending);
}

fn a_request_that_is_not_wanted_is_stopped(face: Face) {
    let mut pair = Pair::new(face);
    let (mut sending, pending) = pair.client.open(post("/stop")).unwrap();
    let response = pair.get(pending.response()).unwrap();
    let content = pair.get(async move { response.into_body().bytes(100).await });
    assert_eq!(content.unwrap(), "stopped");
    let error = now_or_never(sending.write_chunk("more")).unwrap().unwrap_err();
    assert!(matches!(error, Error::Stopped(Code::EXCESSIVE_LOAD)), "{error}");
}

fn a_response_that_is_not_wanted_is_stopped(face: Face) {
    let mut pair = Pair::new(face);
    let pending = pair.client.start(get("/large")).unwrap();
    let response = pair.get(pending.response()).unwrap();
    pair.world.run_for(SECOND);
    response.into_body().stop(Code::EXCESSIVE_LOAD);
    pair.world.run_for(SECOND);
    assert_eq!(pair.record("/large").failed, [Code::EXCESSIVE_LOAD]);
    assert_eq!(pair.answer(get("/other")).1, b"content");
}

fn datagrams_come_in_both_directions(face: Face) {
    let mut pair = Pair::new(face);
    let (sending, pending) = pair.client.open(tunnel()).unwrap();
    let mut datagrams = pending.datagrams();
    datagrams.send("datagram").unwrap();
    let echo = pair.world.spawn(async move { datagrams.receive().await });
    // The datagram arrives with its request.
    let (took, echo) = pair.world.wait(&echo, SECOND).unwrap();
    assert_eq!((echo.unwrap().unwrap(), took), ("datagram".into(), DELAY * 2));
    assert_eq!(pair.record("/tunnel").datagrams, ["datagram"]);
    drop(sending);
}

fn datagrams_that_come_with_the_end_are_delivered(face: Face) {
    let mut pair = Pair::new(face);
    let (mut sending, pending) = pair.client.open(tunnel()).unwrap();
    pair.world.run_for(SECOND);
    for number in 0..3u8 {
        sending.datagrams().send(vec![number]).unwrap();
    }
    now_or_never(sending.write_chunk("content")).unwrap().unwrap();
    pair.world.spawn(sending.finish());
    pair.world.run_for(SECOND);
    let record = pair.record("/tunnel");
    assert_eq!(record.datagrams, [&[0][..], &[1], &[2]]);
    assert!(record.is_whole && record.content == b"content", "{record:?}");
    drop(pending);
}

fn a_priority_that_changes_is_known(face: Face) {
    let mut pair = Pair::new(face);
    let (sending, pending) = pair.client.open(post("/priority")).unwrap();
    pair.world.run_for(SECOND);
    let changed = Priority::new(1, true);
    sending.set_priority(changed);
    pair.world.run_for(SECOND);
    pair.world.spawn(sending.finish());
    let answer =
        pair.get(
            async move { pending.response().await.unwrap().into_body().bytes(100).await.unwrap() },
        );
    assert_eq!(answer, changed.to_string());
}

fn what_responses_keep_is_counted(face: Face) {
    const SERVER: usize = 1;
    let mut pair = Pair::new(face);
    assert_eq!(pair.answer(get("/other")).1, b"content");
    pair.world.run_for(SECOND);
    let before = pair.world.held_bytes(SERVER);
    let pending = [(); 4].map(|()| pair.client.start(get("/large")).unwrap());
    pair.world.run_for(SECOND);
    let during = pair.world.held_bytes(SERVER);
    assert!(during >= before + 4 * EXCHANGE, "{before} bytes, then {during}");
    drop(pending);
    pair.world.run_for(SECOND);
    assert_eq!(pair.world.held_bytes(SERVER), before);
}
