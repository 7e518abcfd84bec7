//! Tests of graceful shutdown, and of other ways in which connections end.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use clearway::http3::{Client, Error, Server};
use clearway::{Endpoint, TransportConfig};
use http::Response;

use crate::support::{Pair, configs, get, loopback, pattern, run};

#[test]
fn a_server_completes_the_requests_in_progress() {
    run(async {
        let pair = Pair::new();
        let client = pair.client().await;
        let pending = client.start(get("/")).unwrap();
        let (_request, responder) = pair.accept().await;
        let server = pair.server.clone();
        let shutdown = tokio::spawn(async move { server.shutdown().await });
        // Rejects requests that arrive before the GOAWAY is sent.
        let server = pair.server.clone();
        tokio::spawn(async move {
            while let Some((_, responder)) = server.accept().await {
                responder.reject();
            }
        });
        // The GOAWAY is sent before the response.
        let refused = match client.start(get("/late")) {
            Err(error) => error,
            Ok(pending) => pending.response().await.unwrap_err(),
        };
        assert!(refused.is_unprocessed(), "{refused}");
        let content = pattern(3_000_000);
        let answered = tokio::spawn(responder.respond(Response::new(content.clone())));
        let mut response = pending.response().await.unwrap();
        assert!(response.body_mut().bytes(content.len()).await.unwrap() == content);
        answered.await.unwrap().unwrap();
        shutdown.await.unwrap();
        assert!(pair.server.accept().await.is_none());
        let error = client.closed().await;
        assert!(matches!(error, Error::Connection(_)), "{error}");
    });
}

/// If GOAWAY were sent before its first request, a client would have wasted its connection attempt.
#[test]
fn a_client_that_has_just_connected_may_make_a_request() {
    run(async {
        let pair = Pair::new();
        let client = pair.client().await;
        let server = pair.server.clone();
        let shutdown = tokio::spawn(async move { server.shutdown().await });
        let server = pair.server.clone();
        tokio::spawn(async move {
            while let Some((_, responder)) = server.accept().await {
                tokio::spawn(responder.respond(Response::new("answer")));
            }
        });
        // Repeats this until the shutdown has begun.
        let another = || Client::connect(&pair.endpoint, &pair.config, pair.address(), "localhost");
        while another().await.is_ok() {}
        assert_eq!(client.send(get("/")).await.unwrap().status(), 200);
        shutdown.await.unwrap();
    });
}

/// The shutdown does not wait for a client that makes no request.
#[test]
fn a_client_without_requests_ends_soon() {
    run(async {
        let pair = Pair::new();
        let client = pair.client().await;
        pair.server.shutdown().await;
        let error = client.closed().await;
        assert!(matches!(error, Error::Connection(_)), "{error}");
    });
}

#[test]
fn data_received_before_the_shutdown_can_be_read() {
    run(async {
        let pair = Pair::new();
        let client = pair.client().await;
        let pending = client.start(get("/")).unwrap();
        let (_request, responder) = pair.accept().await;
        // More than is taken from the transport for a task that does not read, but less than that plus the
        // transport's receive window.
        let content = pattern(1_200_000);
        responder.respond(Response::new(content.clone())).await.unwrap();
        pair.server.shutdown().await;
        client.closed().await;
        let mut response = pending.response().await.unwrap();
        assert!(response.body_mut().bytes(content.len()).await.unwrap() == content);
    });
}

#[test]
fn all_shards_are_shut_down() {
    run(async {
        let (server, config) = configs(TransportConfig::default());
        let server = server.shards(NonZeroUsize::new(3).unwrap());
        let server = Arc::new(Server::bind(loopback(), server).unwrap());
        let serving = server.clone();
        tokio::spawn(async move { serving.serve(|_| async { Response::new("") }).await });
        let mut clients = Vec::new();
        while server.endpoint().shard_statistics().iter().any(|shard| shard.connections == 0) {
            let endpoint = Endpoint::client(loopback()).unwrap();
            let client = Client::connect(&endpoint, &config, server.local_address(), "localhost");
            let client = client.await.unwrap();
            assert_eq!(client.send(get("/")).await.unwrap().status(), 200);
            clients.push((endpoint, client));
        }
        server.shutdown().await;
        for (_endpoint, client) in &clients {
            client.closed().await;
        }
    });
}

#[test]
fn new_clients_are_refused() {
    run(async {
        let pair = Pair::new();
        pair.server.shutdown().await;
        let outcome =
            Client::connect(&pair.endpoint, &pair.config, pair.address(), "localhost").await;
        assert!(matches!(outcome, Err(Error::Connection(_))), "{outcome:?}");
    });
}

#[test]
fn a_client_completes_the_requests_in_progress() {
    run(async {
        let pair = Pair::new();
        let client = pair.client().await;
        let pending = client.start(get("/")).unwrap();
        let (_request, responder) = pair.accept().await;
        let leaving = client.clone();
        let shutdown = tokio::spawn(async move { leaving.shutdown().await });
        responder.respond(Response::new("done")).await.unwrap();
        let mut response = pending.response().await.unwrap();
        assert_eq!(response.body_mut().bytes(100).await.unwrap(), "done");
        shutdown.await.unwrap();
        assert!(matches!(client.closed().await, Error::Closed));
        assert!(matches!(client.send(get("/")).await, Err(Error::Closed)));
    });
}

#[test]
fn dropping_the_client_keeps_the_requests_in_progress() {
    run(async {
        let pair = Pair::new();
        let client = pair.client().await;
        let pending = client.start(get("/")).unwrap();
        let (_request, responder) = pair.accept().await;
        drop(client);
        responder.respond(Response::new("done")).await.unwrap();
        let mut response = pending.response().await.unwrap();
        assert_eq!(response.body_mut().bytes(100).await.unwrap(), "done");
        drop(response);
        pair.endpoint.wait_idle().await;
        pair.server.endpoint().wait_idle().await;
    });
}

#[test]
fn dropping_the_server_rejects_requests_that_are_not_accepted() {
    run(async {
        let pair = Pair::new();
        let client = pair.client().await;
        let taken = client.start(get("/taken")).unwrap();
        let (_request, responder) = pair.accept().await;
        let untaken = client.start(get("/untaken")).unwrap();
        drop(pair.server);
        let error = untaken.response().await.unwrap_err();
        assert!(error.is_unprocessed(), "{error}");
        responder.respond(Response::new("done")).await.unwrap();
        let mut response = taken.response().await.unwrap();
        assert_eq!(response.body_mut().bytes(100).await.unwrap(), "done");
        client.closed().await;
    });
}

#[test]
fn a_silent_server_is_detected_by_the_idle_timeout() {
    run(async {
        let transport = TransportConfig::builder()
            .max_idle_timeout(Some(Duration::from_millis(300)))
            .build()
            .unwrap();
        let pair = Pair::with(transport);
        let client = pair.client().await;
        let pending = client.start(get("/")).unwrap();
        // The request never gets a response, and nothing else is sent.
        let error = pending.response().await.unwrap_err();
        assert!(matches!(error, Error::Connection(_)), "{error}");
    });
}

/// The handshake may be complete for the client but not for the server. A request made at that time
/// gets a response, or is certainly not processed.
#[test]
fn a_request_that_follows_the_handshake_is_not_lost() {
    run(async {
        for round in 0..30 {
            let (server, config) = configs(TransportConfig::default());
            let server = Arc::new(Server::bind(loopback(), server).unwrap());
            let serving = server.clone();
            tokio::spawn(async move { serving.serve(|_| async { Response::new("") }).await });
            let (endpoint, address) =
                (Endpoint::client(loopback()).unwrap(), server.local_address());
            let clients: Vec<_> = (0..8)
                .map(|_| {
                    let (endpoint, config) = (endpoint.clone(), config.clone());
                    tokio::spawn(async move {
                        let client =
                            Client::connect(&endpoint, &config, address, "localhost").await;
                        // A client that connects too late is refused.
                        let Ok(client) = client else { return Ok(()) };
                        client.send(get("/")).await.map(drop)
                    })
                })
                .collect();
            while server.endpoint().statistics().connections == 0 {
                tokio::task::yield_now().await;
            }
            tokio::time::sleep(Duration::from_micros(300 * round)).await;
            server.shutdown().await;
            for client in clients {
                match client.await.unwrap() {
                    Ok(()) | Err(Error::GoingAway) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
    });
}
