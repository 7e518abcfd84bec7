//! Tests of floods of extended CONNECT requests (RFC 9220), as a WebSocket-over-HTTP/3 client could
//! send them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clearway::TransportConfig;
use clearway::http3::{Body, Client, Code, Config, Protocol, Server};
use clearway::{ClientConfig, Endpoint};
use http::{Request, Response, StatusCode};

use crate::support::{configs, get, loopback, run};

fn tunnel(protocol: &str) -> Request<()> {
    Request::builder()
        .method("CONNECT")
        .uri("https://localhost/chat")
        .extension(Protocol::new(protocol).unwrap())
        .body(())
        .unwrap()
}

/// A server that keeps tunnels for "websocket" open without reading them, and counts the open ones.
struct Site {
    server: Arc<Server>,
    endpoint: Endpoint,
    config: ClientConfig,
    open: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    /// Total number of tunnels opened.
    seen: Arc<AtomicUsize>,
}

impl Site {
    fn new() -> Self {
        let transport =
            TransportConfig::builder().max_datagram_frame_size(Some(65_535)).build().unwrap();
        let http3 = Config { extended_connect: true, datagrams: true, ..Config::default() };
        let (server, config) = configs(transport);
        let server = Arc::new(Server::bind_with(loopback(), server, http3).unwrap());
        let site = Self {
            server,
            endpoint: Endpoint::client(loopback()).unwrap(),
            config,
            open: Arc::default(),
            most: Arc::default(),
            seen: Arc::default(),
        };
        let (server, open, most) = (site.server.clone(), site.open.clone(), site.most.clone());
        let seen = site.seen.clone();
        tokio::spawn(async move {
            while let Some((request, mut responder)) = server.accept().await {
                let (open, most, seen) = (open.clone(), most.clone(), seen.clone());
                tokio::spawn(async move {
                    let protocol = request.extensions().get::<Protocol>().map(Protocol::as_str);
                    match protocol {
                        None => drop(responder.respond(Response::new(Body::empty())).await),
                        Some("websocket") => {
                            let now = open.fetch_add(1, Ordering::SeqCst) + 1;
                            most.fetch_max(now, Ordering::SeqCst);
                            seen.fetch_add(1, Ordering::SeqCst);
                            responder.cancelled().await;
                            open.fetch_sub(1, Ordering::SeqCst);
                        }
                        Some(_) => {
                            let unknown = Response::builder().status(StatusCode::NOT_IMPLEMENTED);
                            drop(responder.respond(unknown.body(Body::empty()).unwrap()).await);
                        }
                    }
                    drop(request);
                });
            }
        });
        site
    }

    async fn client(&self) -> Client {
        let http3 = Config { extended_connect: true, datagrams: true, ..Config::default() };
        let address = self.server.local_address();
        Client::connect_with(&self.endpoint, &self.config, address, "localhost", http3)
            .await
            .unwrap()
    }

    /// Checks that another client still gets a response.
    async fn serves_others(&self) {
        let client = self.client().await;
        let answer = tokio::time::timeout(Duration::from_secs(5), client.send(get("/")));
        assert_eq!(answer.await.expect("in time").unwrap().status(), StatusCode::OK);
    }
}

/// Tunnels that are opened and immediately abandoned are wasted requests, whose number is limited.
#[test]
fn tunnels_that_are_given_up_close_the_connection() {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        // The server's settings have arrived.
        assert_eq!(client.send(get("/")).await.unwrap().status(), StatusCode::OK);
        let mut why = String::new();
        for number in 0..3_000 {
            match client.open(tunnel("websocket")) {
                Ok((send, pending)) => {
                    // The request must be in transit when it is canceled; otherwise it would never
                    // be sent.
                    while site.seen.load(Ordering::SeqCst) <= number && client.is_open() {
                        tokio::task::yield_now().await;
                    }
                    send.reset(Code::REQUEST_CANCELLED);
                    drop(pending);
                }
                Err(error) => {
                    why = error.to_string();
                    break;
                }
            }
        }
        assert!(why.contains("H3_EXCESSIVE_LOAD"), "{why:?}");
        site.serves_others().await;
    });
}

/// Tunnels that stay open occupy streams, of which a connection has a hundred; additional tunnels
/// wait on the client. Unread datagrams are dropped.
#[test]
fn tunnels_that_stay_open_are_as_many_as_streams() {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        assert_eq!(client.send(get("/")).await.unwrap().status(), StatusCode::OK);
        let mut tunnels = Vec::new();
        for _ in 0..300 {
            let (send, pending) = client.open(tunnel("websocket")).unwrap();
            tunnels.push((send, pending));
        }
        while site.open.load(Ordering::SeqCst) < 100 {
            tokio::task::yield_now().await;
        }
        for _ in 0..50 {
            for (_, pending) in &tunnels[..100] {
                let _ = pending.datagrams().send(vec![7; 1000]);
            }
            tokio::task::yield_now().await;
        }
        site.serves_others().await;
        assert_eq!(site.most.load(Ordering::SeqCst), 100);
        // The tunnels end with their connection.
        drop(tunnels);
        drop(client);
        site.serves_others().await;
    });
}

/// A request for an unknown protocol is treated like any other: it gets a response, and leaves
/// nothing behind.
#[test]
fn unknown_protocols_are_answered() {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        assert_eq!(client.send(get("/")).await.unwrap().status(), StatusCode::OK);
        for _ in 0..2_000 {
            let (_send, pending) = client.open(tunnel("unknown")).unwrap();
            assert_eq!(pending.response().await.unwrap().status(), StatusCode::NOT_IMPLEMENTED);
        }
        assert_eq!(site.open.load(Ordering::SeqCst), 0);
        site.serves_others().await;
    });
}
