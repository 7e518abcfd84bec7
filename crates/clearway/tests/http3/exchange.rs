//! Tests of exchanges with complete messages.

use bytes::Bytes;
use clearway::http3::{Body, Error, SendError};
use http::header::{CONTENT_LENGTH, HeaderValue};
use http::{HeaderMap, Response, StatusCode};

use crate::support::{Pair, get, pattern, post, request, run};

#[test]
fn get_is_answered() {
    run(async {
        let pair = Pair::new();
        pair.serve(|request| async move {
            assert_eq!(request.uri().path(), "/hello");
            assert_eq!(request.uri().authority().unwrap().as_str(), "localhost");
            Response::builder().header("x-kind", "greeting").body("hello").unwrap()
        });
        let client = pair.client().await;
        let mut response = client.send(get("/hello")).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["x-kind"], "greeting");
        assert_eq!(response.headers()[CONTENT_LENGTH], "5");
        assert_eq!(response.body_mut().bytes(100).await.unwrap(), "hello");
        assert!(response.body_mut().trailers().await.unwrap().is_none());
        assert_eq!(client.remote_address(), Some(pair.address()));
        assert!(client.statistics().await.packets_received > 0);
    });
}

#[test]
fn post_is_echoed_with_trailers() {
    run(async {
        let pair = Pair::new();
        pair.serve(|request| async move {
            let mut body = request.into_body();
            let content = body.bytes(1000).await.unwrap();
            let trailers = body.trailers().await.unwrap().unwrap();
            Response::new(Body::full(content).with_trailers(trailers))
        });
        let client = pair.client().await;
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", HeaderValue::from_static("42"));
        let body = Body::from("content").with_trailers(trailers.clone());
        let mut response = client.send(post("/", body)).await.unwrap();
        assert_eq!(response.body_mut().bytes(1000).await.unwrap(), "content");
        assert_eq!(response.body_mut().trailers().await.unwrap(), Some(trailers));
    });
}

#[test]
fn head_and_bodiless_statuses_have_no_content() {
    run(async {
        let pair = Pair::new();
        pair.serve(|request| async move {
            let status = match request.uri().path() {
                "/204" => StatusCode::NO_CONTENT,
                "/304" => StatusCode::NOT_MODIFIED,
                _ => StatusCode::OK,
            };
            Response::builder().status(status).body("content").unwrap()
        });
        let client = pair.client().await;
        for (method, path, length) in
            [("HEAD", "/", Some("7")), ("GET", "/204", None), ("GET", "/304", None)]
        {
            let mut response = client.send(request(method, path, ())).await.unwrap();
            let announced = response.headers().get(CONTENT_LENGTH);
            assert_eq!(announced.map(|length| length.to_str().unwrap()), length);
            assert_eq!(response.body_mut().bytes(100).await.unwrap(), "");
        }
    });
}

#[test]
fn ten_megabytes_arrive_unchanged_both_ways() {
    run(async {
        const LENGTH: usize = 10_000_000;
        let pair = Pair::new();
        pair.serve(|request| async move { Response::new(Body::from(request.into_body())) });
        let client = pair.client().await;
        let content = pattern(LENGTH);
        let mut response = client.send(post("/", content.clone())).await.unwrap();
        let echoed = response.body_mut().bytes(LENGTH).await.unwrap();
        assert!(echoed == content);
    });
}

#[test]
fn two_hundred_requests_at_once() {
    run(async {
        let pair = Pair::new();
        pair.serve(|request| async move { Response::new(request.uri().path().to_owned()) });
        let client = pair.client().await;
        let requests = (0..200).map(|number| {
            let client = client.clone();
            tokio::spawn(async move {
                let path = format!("/{number}");
                let mut response = client.send(get(&path)).await.unwrap();
                assert_eq!(response.body_mut().bytes(100).await.unwrap(), path);
            })
        });
        for request in requests.collect::<Vec<_>>() {
            request.await.unwrap();
        }
    });
}

#[test]
fn interim_responses_arrive_in_order() {
    run(async {
        let pair = Pair::new();
        let client = pair.client().await;
        let mut pending = client.start(get("/")).unwrap();
        let (_request, mut responder) = pair.accept().await;
        for link in ["a", "b"] {
            let hint = Response::builder().status(103).header("link", link).body(()).unwrap();
            responder.inform(hint).unwrap();
        }
        let responding = responder.respond(Response::new(Body::from("done")));
        let (responded, ()) = tokio::join!(responding, async {
            for link in ["a", "b"] {
                let hint = pending.informational().await.unwrap().unwrap();
                assert_eq!(hint.status(), StatusCode::EARLY_HINTS);
                assert_eq!(hint.headers()["link"], link);
            }
            assert!(pending.informational().await.unwrap().is_none());
        });
        responded.unwrap();
        let mut response = pending.response().await.unwrap();
        assert_eq!(response.body_mut().bytes(100).await.unwrap(), "done");
    });
}

#[test]
fn a_request_that_cannot_be_sent_fails_with_the_reason() {
    run(async {
        let pair = Pair::new();
        pair.serve(|_| async { Response::new("unused") });
        let client = pair.client().await;

        let mut connection_specific = get("/");
        connection_specific.headers_mut().insert("connection", HeaderValue::from_static("close"));
        let error = client.send(connection_specific).await.unwrap_err();
        assert!(matches!(error, Error::Send(SendError::Malformed { .. })), "{error}");

        let mut short = post("/", "ab");
        short.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("3"));
        let error = client.send(short).await.unwrap_err();
        let expected = SendError::ContentLength { announced: 3, sent: 2 };
        assert!(matches!(&error, Error::Send(why) if *why == expected), "{error}");

        // The connection is not affected.
        assert_eq!(client.send(get("/")).await.unwrap().status(), StatusCode::OK);
    });
}

#[test]
fn a_response_that_cannot_be_sent_fails_on_both_sides() {
    run(async {
        let pair = Pair::new();
        let client = pair.client().await;
        let pending = client.start(get("/")).unwrap();
        let (_request, responder) = pair.accept().await;
        let long = Response::builder().header(CONTENT_LENGTH, "1").body("ab").unwrap();
        let error = responder.respond(long).await.unwrap_err();
        assert!(matches!(error, Error::Send(SendError::ContentLength { .. })), "{error}");
        let mut failure = pending.response().await;
        if let Ok(response) = &mut failure {
            failure = response.body_mut().bytes(100).await.map(|_| unreachable!());
        }
        assert!(matches!(failure, Err(Error::Reset(_))), "{failure:?}");
    });
}

#[test]
fn content_beyond_the_callers_limit_is_refused() {
    run(async {
        let pair = Pair::new();
        pair.serve(|_| async { Response::new(Bytes::from_static(&[7; 1001])) });
        let client = pair.client().await;
        let mut response = client.send(get("/")).await.unwrap();
        let error = response.body_mut().bytes(1000).await.unwrap_err();
        assert!(matches!(error, Error::TooLarge { limit: 1000 }), "{error}");
    });
}

#[test]
fn connecting_to_a_server_with_another_protocol_fails() {
    run(async {
        let (server, config) = crate::support::configs(Default::default());
        let server = server.application_protocols(["other"]);
        let server = clearway::Endpoint::server(crate::support::loopback(), server).unwrap();
        let pair = Pair::new();
        let outcome = clearway::http3::Client::connect(
            &pair.endpoint,
            &config,
            server.local_address(),
            "localhost",
        )
        .await;
        assert!(matches!(outcome, Err(Error::Connection(_))), "{outcome:?}");
    });
}
