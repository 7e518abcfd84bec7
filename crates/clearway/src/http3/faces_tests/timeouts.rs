//! Tests of streams on which the client makes no progress.

use core::time::Duration;

use clearway_http3::Code;
use clearway_wire::VarInt;

use super::{Face, Pair, SECOND, configs, get, over_each_face, post, tunnel};
use crate::http3::{Error, Timeouts};
use crate::wakes_tests::world::{DELAY, Scene, now_or_never};
use crate::{ReadError, ReadToEndError};

over_each_face! {
    a_request_whose_header_section_does_not_come_is_rejected
    a_request_whose_content_does_not_come_is_abandoned
    a_request_that_comes_slowly_is_not_abandoned
    a_response_that_is_not_read_is_abandoned
    a_tunnel_without_data_is_not_abandoned
}

const TIMEOUTS: Timeouts =
    Timeouts { request: Duration::from_secs(2), send: Duration::from_secs(4) };

/// Returns the latest time at which the client must have been notified.
fn latest(timeout: Duration) -> Duration {
    timeout + TIMEOUTS.request / 4 + DELAY * 2
}

fn patient(face: Face) -> Pair<crate::http3::Client> {
    let mut pair = Pair::begin(face, Some(TIMEOUTS), &configs());
    pair.world.run_for(SECOND);
    pair
}

#[track_caller]
fn is_in_time(took: Duration, timeout: Duration) {
    assert!(took >= timeout && took <= latest(timeout), "{took:?}");
}

fn a_request_whose_header_section_does_not_come_is_rejected(face: Face) {
    let mut pair = Pair::raw(face, Some(TIMEOUTS), &configs());
    let client = pair.client.clone();
    let reading = pair.world.spawn(async move {
        let (mut send, mut receive) = client.open_bi().await.unwrap();
        // A HEADERS frame of 100 bytes, none of which are sent.
        send.write_all(&[1, 0x40, 100]).await.unwrap();
        (receive.read_to_end(100).await, send)
    });
    let (took, (read, _send)) = pair.world.wait(&reading, 10 * SECOND).expect("no timeout");
    let rejected = VarInt::saturating(Code::REQUEST_REJECTED.get());
    assert_eq!(read, Err(ReadToEndError::Read(ReadError::Reset(rejected))));
    is_in_time(took, TIMEOUTS.request);
    assert!(pair.client.close_reason().is_none());
}

/// The server program and its client are both notified, and the connection stays open.
fn a_request_whose_content_does_not_come_is_abandoned(face: Face) {
    let mut pair = patient(face);
    let (mut sending, pending) = pair.client.open(post("/echo")).unwrap();
    now_or_never(sending.write_chunk("begin")).unwrap().unwrap();
    let response = pair.world.spawn(pending.response());
    let (took, response) = pair.world.wait(&response, 10 * SECOND).expect("no timeout");
    assert!(matches!(response, Err(Error::Reset(Code::REQUEST_CANCELLED))), "{response:?}");
    is_in_time(took, TIMEOUTS.request);
    let error = now_or_never(sending.write_chunk("more")).unwrap().unwrap_err();
    assert!(matches!(error, Error::Stopped(Code::REQUEST_CANCELLED)), "{error}");
    let record = pair.record("/echo");
    assert_eq!((&*record.content, record.failed), (&b"begin"[..], vec![Code::REQUEST_CANCELLED]));
    assert_eq!(pair.answer(get("/other")).1, b"content");
    // A connection without requests needs no checks.
    pair.world.run_for(SECOND);
    assert_eq!(pair.world.application_deadline(1), None);
}

fn a_request_that_comes_slowly_is_not_abandoned(face: Face) {
    let mut pair = patient(face);
    let (mut sending, pending) = pair.client.open(post("/echo")).unwrap();
    for _ in 0..20 {
        now_or_never(sending.write_chunk("x")).unwrap().unwrap();
        pair.world.run_for(TIMEOUTS.request * 3 / 4);
    }
    pair.world.spawn(sending.finish());
    let response = pair.get(pending.response()).unwrap();
    assert_eq!(pair.get(async move { response.into_body().bytes(100).await }).unwrap().len(), 20);
}

fn a_response_that_is_not_read_is_abandoned(face: Face) {
    let mut pair = patient(face);
    let unread = pair.client.start(get("/large")).unwrap();
    let unread = pair.get(unread.response()).unwrap();
    let began = pair.world.now;
    while pair.record("/large").failed.is_empty() {
        assert_eq!(pair.answer(get("/other")).1, b"content");
        pair.world.run_for(TIMEOUTS.request / 8);
        assert!(pair.world.now < began + 10 * SECOND, "no timeout");
    }
    assert!(pair.world.now >= began + TIMEOUTS.send, "{:?}", pair.world.now);
    assert_eq!(pair.record("/large").failed, [Code::REQUEST_CANCELLED]);
    let error = pair.get(async move { unread.into_body().bytes(8 << 20).await }).unwrap_err();
    assert!(matches!(error, Error::Reset(Code::REQUEST_CANCELLED)), "{error}");
    assert_eq!(pair.answer(get("/other")).1, b"content");
}

fn a_tunnel_without_data_is_not_abandoned(face: Face) {
    let mut pair = patient(face);
    let (sending, pending) = pair.client.open(tunnel()).unwrap();
    pair.world.run_for(TIMEOUTS.request * 5);
    let mut datagrams = pending.datagrams();
    datagrams.send("datagram").unwrap();
    let echo = pair.get(async move { datagrams.receive().await });
    assert_eq!(echo.unwrap().unwrap(), "datagram");
    drop(sending);
}
