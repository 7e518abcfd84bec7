//! Tests of futures and handles that are dropped before they complete.

use bytes::Bytes;
use clearway::http3::{Body, Client, Code, Error};
use http::Response;
use tokio::io::AsyncReadExt;

use crate::support::{Pair, get, post, run};

#[test]
fn dropping_a_pending_response_cancels_the_request() {
    run(async {
        let pair = Pair::new();
        let client = pair.client().await;
        let pending = client.start(get("/")).unwrap();
        let (_request, mut responder) = pair.accept().await;
        drop(pending);
        let error = responder.cancelled().await;
        assert!(matches!(error, Error::Stopped(Code::REQUEST_CANCELLED)), "{error}");
        let error = responder.respond(Response::new("late")).await.unwrap_err();
        assert!(matches!(error, Error::Stopped(Code::REQUEST_CANCELLED)), "{error}");
    });
}

#[test]
fn dropping_a_send_future_at_any_point_does_not_affect_other_requests() {
    run(async {
        let pair = Pair::new();
        pair.serve(|_| async { Response::new(Bytes::from(vec![1; 100_000])) });
        let client = pair.client().await;
        for polls in 0..40 {
            let attempt = async {
                let mut response = client.send(get("/")).await.unwrap();
                while let Some(chunk) = response.body_mut().chunk().await {
                    chunk.unwrap();
                }
            };
            tokio::select! {
                biased;
                () = attempt => {}
                () = yields(polls) => {}
            }
        }
        let mut response = client.send(get("/")).await.unwrap();
        assert_eq!(response.body_mut().bytes(1_000_000).await.unwrap().len(), 100_000);
    });
}

async fn yields(count: usize) {
    for _ in 0..count {
        tokio::task::yield_now().await;
    }
}

#[test]
fn dropping_the_response_body_stops_the_server() {
    run(async {
        let pair = Pair::new();
        let client = pair.client().await;
        let pending = client.start(get("/")).unwrap();
        let (_request, responder) = pair.accept().await;
        let mut answer = responder.start(Response::new(()));
        answer.write_chunk("some").await.unwrap();
        let mut response = pending.response().await.unwrap();
        let mut part = [0; 4];
        response.body_mut().read_exact(&mut part).await.unwrap();
        drop(response);
        let error = loop {
            if let Err(error) = answer.write_chunk(vec![0; 100_000]).await {
                break error;
            }
        };
        assert!(matches!(error, Error::Stopped(Code::REQUEST_CANCELLED)), "{error}");
    });
}

#[test]
fn dropping_the_responder_fails_the_request() {
    run(async {
        let pair = Pair::new();
        let client = pair.client().await;
        let pending = client.start(get("/")).unwrap();
        drop(pair.accept().await);
        let error = pending.response().await.unwrap_err();
        assert!(matches!(error, Error::Reset(Code::REQUEST_CANCELLED)), "{error}");
        assert!(!error.is_unprocessed());
    });
}

#[test]
fn a_request_cancelled_before_it_is_accepted_is_never_seen() {
    run(async {
        let pair = Pair::new();
        let client = pair.client().await;
        let before = client.statistics().await.packets_sent;
        let ends = client.open(get("/unseen").map(|_| ())).unwrap();
        let before = acknowledged_beyond(&client, before).await;
        drop(ends);
        acknowledged_beyond(&client, before).await;
        let pending = client.start(get("/seen")).unwrap();
        let (request, responder) = pair.accept().await;
        assert_eq!(request.uri().path(), "/seen");
        responder.respond(Response::new("done")).await.unwrap();
        assert_eq!(pending.response().await.unwrap().status(), 200);
    });
}

/// Waits until more than `before` packets were sent and all are acknowledged. Returns their number.
async fn acknowledged_beyond(client: &Client, before: u64) -> u64 {
    loop {
        let statistics = client.statistics().await;
        if statistics.packets_sent > before && statistics.bytes_in_flight == 0 {
            return statistics.packets_sent;
        }
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_rejected_request_can_be_retried() {
    run(async {
        let pair = Pair::new();
        let client = pair.client().await;
        let pending = client.start(get("/")).unwrap();
        let (_request, responder) = pair.accept().await;
        responder.reject();
        let error = pending.response().await.unwrap_err();
        assert!(error.is_unprocessed(), "{error}");
    });
}

#[test]
fn a_server_can_answer_without_the_request_body() {
    run(async {
        let pair = Pair::new();
        let client = pair.client().await;
        let (sender, body) = Body::channel();
        let pending = client.start(post("/", body)).unwrap();
        let (request, responder) = pair.accept().await;
        drop(request);
        responder.respond(Response::new("enough")).await.unwrap();
        let mut response = pending.response().await.unwrap();
        assert_eq!(response.body_mut().bytes(100).await.unwrap(), "enough");
        // Sending fails once the client learns that the server does not read the rest.
        let more = Bytes::from(vec![7; 64 << 10]);
        while sender.send(more.clone()).await.is_ok() {
            tokio::task::yield_now().await;
        }
    });
}

/// Reports when it is dropped.
struct Guard(tokio::sync::mpsc::UnboundedSender<()>);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[test]
fn a_cancelled_request_drops_the_service_future() {
    run(async {
        let pair = Pair::new();
        let (dropped, mut was_dropped) = tokio::sync::mpsc::unbounded_channel();
        let (started, mut was_started) = tokio::sync::mpsc::channel(1);
        pair.serve(move |_| {
            let (guard, started) = (Guard(dropped.clone()), started.clone());
            async move {
                started.send(()).await.unwrap();
                let _guard = guard;
                std::future::pending::<Response<()>>().await
            }
        });
        let client = pair.client().await;
        let pending = client.start(get("/")).unwrap();
        was_started.recv().await.unwrap();
        drop(pending);
        was_dropped.recv().await.unwrap();
    });
}

#[test]
fn losing_the_connection_fails_everything_at_once() {
    run(async {
        let pair = Pair::new();
        let client = pair.client().await;
        let pending = client.start(get("/")).unwrap();
        let (request, mut responder) = pair.accept().await;
        client.close(Code::INTERNAL_ERROR);
        let error = pending.response().await.unwrap_err();
        assert!(matches!(error, Error::Closed), "{error}");
        let error = responder.cancelled().await;
        assert!(matches!(error, Error::Connection(_)), "{error}");
        assert!(error.to_string().contains("H3_INTERNAL_ERROR"), "{error}");
        drop(request);
        assert!(client.send(get("/")).await.is_err());
    });
}
