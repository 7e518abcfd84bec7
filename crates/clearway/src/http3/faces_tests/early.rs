//! Tests of requests in early data, and of requests before the handshake is complete.

use core::time::Duration;

use super::program::UNKNOWN;
use super::{Face, Pair, SECOND, configs, get, over_each_face};
use crate::wakes_tests::world::{Configs, DELAY, Scene};

over_each_face! {
    a_425_that_is_lost_is_delivered_before_a_shutdown_ends
    a_client_has_a_second_after_the_handshake_to_ask
}

const MILLISECOND: Duration = Duration::from_millis(1);

/// SETTINGS frame on a control stream.
const CONTROL: &[u8] = &[0x00, 0x04, 0x00];
/// Requests without content for `/`, using only fields of QPACK's static table (RFC 9204 §4.5).
const POST: &[u8] = b"\x01\x10\x00\x00\xd4\xd7\xc1\x50\x09localhost";
const GET: &[u8] = b"\x01\x10\x00\x00\xd1\xd7\xc1\x50\x09localhost";
/// `:status: 425` in QPACK's static table.
const TOO_EARLY: &[u8] = &[0xff, 0x07];

/// Returns configurations with a session for the client.
fn with_session(face: Face) -> Configs {
    let configs = configs();
    let mut pair = Pair::begin(face, None, &configs);
    pair.world.run_for(SECOND);
    pair.answer(get("/first"));
    pair.world.run_for(SECOND);
    configs
}

/// The client learns that its request was rejected, and can repeat it elsewhere.
fn a_425_that_is_lost_is_delivered_before_a_shutdown_ends(face: Face) {
    let mut pair = Pair::raw(face, None, &with_session(face));
    let client = pair.client.clone();
    let began = pair.world.now;
    let request = async move |client: &crate::Connection, bytes: &'static [u8]| {
        let (mut send, receive) = client.open_bi().await.unwrap();
        send.write_all(bytes).await.unwrap();
        send.finish().unwrap();
        receive
    };
    let control = client.clone();
    let control = pair.get(async move {
        let mut control = control.open_uni().await.unwrap();
        control.write_all(CONTROL).await.unwrap();
        control
    });
    assert_eq!(pair.world.now, began, "no early data");
    // The 425 response is lost, but later packets are not.
    let lost = began + DELAY + MILLISECOND * 3;
    pair.world.loss = Some(Box::new(move |now, to| to == 0 && now == lost));
    pair.world.run_for(MILLISECOND * 3);
    let asking = client.clone();
    let mut refused = pair.get(async move { request(&asking, POST).await });
    // This request arrives with the end of the handshake. So the client acknowledges GOAWAY before
    // anything else, and the server infers from that acknowledgment that the 425 response was lost.
    pair.world.run_for(DELAY * 2 - MILLISECOND * 3);
    let asking = client.clone();
    let mut answered = pair.get(async move { request(&asking, GET).await });
    let answer = pair.get(async move { answered.read_to_end(100).await.unwrap() });
    assert!(!answer.is_empty());
    let refusal = pair.get(async move { refused.read_to_end(100).await });
    let refusal = refusal.expect("the connection was closed before");
    assert!(refusal.windows(2).any(|bytes| bytes == TOO_EARLY), "{refusal:x?}");
    pair.get(async move { client.closed().await });
    assert!(!pair.has_seen(UNKNOWN));
    drop(control);
}

/// If GOAWAY were sent before the end of the handshake, a client whose early requests were rejected
/// would have wasted its connection attempt.
fn a_client_has_a_second_after_the_handshake_to_ask(face: Face) {
    for (wait, is_in_time) in [(MILLISECOND * 950, true), (MILLISECOND * 1050, false)] {
        let mut pair = Pair::begin(face, None, &with_session(face));
        let early = pair.client.start(get("/")).unwrap();
        let client = pair.client.clone();
        let accepted = pair.get(async move { client.early_data_accepted().await });
        assert!(accepted && pair.has_seen("/"));
        // The server's handshake completes one one-way delay later, and this request also takes one
        // one-way delay.
        pair.world.run_for(wait);
        if is_in_time {
            let late = pair.client.start(get("/other")).expect("no more requests are accepted");
            assert_eq!(pair.get(late.response()).unwrap().status(), 200);
        } else {
            assert!(!pair.client.is_open());
        }
        assert_eq!(pair.get(early.response()).unwrap().status(), 200);
        let closed = pair.client.clone();
        pair.get(async move { closed.closed().await });
    }
}
