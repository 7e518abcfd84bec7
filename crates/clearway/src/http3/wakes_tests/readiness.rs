//! Tests of [`Client::ready`].

use http::{Request, Response};

use super::{DELAY, Exchange, MAX_ACK_DELAY, Pair, SECOND, Scene, now_or_never};
use crate::http3::{Body, Client, Code, Error, PendingResponse};

/// The number of streams that the server allows.
const STREAMS: usize = 2;

impl Pair {
    fn start(&self) -> PendingResponse {
        self.client.start(Request::get("https://localhost/").body(Body::empty()).unwrap()).unwrap()
    }
}

async fn ready(client: Client) -> Result<(), Error> {
    client.ready().await
}

fn is_ready(client: &Client) -> bool {
    let is_ready = now_or_never(client.ready()).is_some();
    assert_eq!(is_ready, client.is_ready());
    is_ready
}

#[test]
fn a_client_is_ready_when_the_last_waiting_request_was_sent() {
    let mut pair = Pair::new();
    let first = pair.post();
    let _second = pair.post();
    assert!(is_ready(&pair.client), "no request waits");
    let _third = pair.start();
    assert_eq!(pair.client.waiting(), 1, "before the shard has seen it");
    pair.world.settle();
    assert_eq!((pair.client.waiting(), is_ready(&pair.client)), (1, false));
    let waiting = [(); 3].map(|()| pair.world.spawn(ready(pair.client.clone())));
    pair.world.run_for(SECOND);
    let Exchange { request, response, received, responder } = first;
    drop(received);
    pair.world.spawn(request.finish());
    pair.world.spawn(responder.respond(Response::new(Body::empty())));
    pair.world.spawn(async move { response.response().await.unwrap().into_body().chunk().await });
    // The end of the response, its acknowledgment, and the new limit.
    let (took, outcome) = pair.world.wait(&waiting[0], SECOND).expect("it is not woken");
    assert!(took <= DELAY * 3 + MAX_ACK_DELAY, "{took:?}");
    outcome.unwrap();
    for waiting in &waiting[1..] {
        waiting.take().expect("all waiting tasks are woken").1.unwrap();
    }
    assert_eq!(pair.client.waiting(), 0);
}

#[test]
fn a_canceled_request_no_longer_waits() {
    let mut pair = Pair::new();
    let _open = [(); STREAMS].map(|()| pair.start());
    let waiting = pair.start();
    pair.world.run_for(SECOND);
    assert!(!is_ready(&pair.client));
    let client = ready(pair.client.clone());
    pair.expect(0, client, |_| drop(waiting)).unwrap();
}

#[test]
fn a_burst_waits_for_the_shard() {
    let mut pair = Pair::new();
    let begun = [(); 64].map(|()| {
        assert!(is_ready(&pair.client));
        pair.start()
    });
    assert!(!is_ready(&pair.client));
    assert_eq!(pair.client.waiting(), 64);
    pair.world.settle();
    assert_eq!(pair.client.waiting(), 64 - STREAMS);
    drop(begun);
    pair.world.settle();
    assert!(is_ready(&pair.client), "all of them were canceled");
}

#[test]
fn waiting_for_readiness_ends_with_the_connection() {
    let blocked = || {
        let mut pair = Pair::new();
        let requests = [(); STREAMS + 1].map(|()| pair.start());
        pair.world.settle();
        let waiting = pair.world.spawn(ready(pair.client.clone()));
        pair.world.run_for(SECOND);
        (pair, requests, waiting)
    };
    let (mut pair, _requests, waiting) = blocked();
    let error = pair.expect_of(0, &waiting, |pair| pair.client.close(Code::NO_ERROR)).unwrap_err();
    assert!(matches!(error, Error::Closed), "{error}");

    // The server announces that it accepts no more requests.
    let (mut pair, _requests, waiting) = blocked();
    let error = pair.expect_of(1, &waiting, |pair| pair.server.close(false)).unwrap_err();
    assert!(matches!(error, Error::GoingAway), "{error}");

    let (mut pair, _requests, waiting) = blocked();
    let client = pair.client.clone();
    let error = pair.expect_of(0, &waiting, |pair| {
        pair.world.spawn(async move { client.shutdown().await });
    });
    assert!(matches!(error.unwrap_err(), Error::GoingAway));
}
