//! Tests of priorities, tunnels and datagrams.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clearway::http3::{
    Body, Capsule, CapsuleDecoder, Client, Code, Config, DATAGRAM_CAPSULE, DatagramError, Error,
    Handler, Priority, Protocol, RequestStream, SendError, Server, serve_in_shard,
};
use clearway::{ClientConfig, Endpoint, TransportConfig};
use http::{Request, Response, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Pair, configs, get, loopback, pattern, run};

/// Returns an HTTP/3 configuration with everything enabled that is off by default.
fn extended() -> Config {
    Config { extended_connect: true, datagrams: true, ..Config::default() }
}

fn transport() -> TransportConfig {
    TransportConfig::builder().max_datagram_frame_size(Some(65_535)).build().unwrap()
}

/// Returns a server and a connected client.
async fn connected(http3: Config, transport: TransportConfig) -> (Arc<Server>, Client, Endpoint) {
    let (server, config) = configs(transport);
    let server = Arc::new(Server::bind_with(loopback(), server, http3).unwrap());
    let endpoint = Endpoint::client(loopback()).unwrap();
    let client = connect(&endpoint, &config, server.local_address()).await;
    (server, client, endpoint)
}

async fn connect(endpoint: &Endpoint, config: &ClientConfig, address: SocketAddr) -> Client {
    Client::connect_with(endpoint, config, address, "localhost", extended()).await.unwrap()
}

fn tunnel(protocol: &str) -> Request<()> {
    Request::builder()
        .method("CONNECT")
        .uri("https://localhost/tunnel")
        .extension(Protocol::new(protocol).unwrap())
        .body(())
        .unwrap()
}

/// Data is echoed through a tunnel (RFC 9220), in both directions simultaneously.
#[test]
fn an_echo_over_extended_connect() {
    run(async {
        let (server, client, _endpoint) = connected(extended(), transport()).await;
        let echo = tokio::spawn(async move {
            let (request, responder) = server.accept().await.unwrap();
            assert_eq!(request.extensions().get::<Protocol>().unwrap().as_str(), "echo");
            assert_eq!(request.uri().path(), "/tunnel");
            let mut body = request.into_body();
            let mut send = responder.start(Response::new(()));
            tokio::io::copy(&mut body, &mut send).await.unwrap();
            send.finish().await.unwrap();
            server
        });
        let (mut send, pending) = client.open(tunnel("echo")).unwrap();
        let response = pending.response().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let mut body = response.into_body();
        send.write_all(b"first").await.unwrap();
        let mut first = [0; 5];
        body.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"first");
        let content = pattern(3_000_000);
        let sending = {
            let content = content.clone();
            tokio::spawn(async move {
                send.write_chunk(content).await.unwrap();
                send.finish().await.unwrap();
            })
        };
        assert!(body.bytes(content.len()).await.unwrap() == content);
        sending.await.unwrap();
        echo.await.unwrap();
    });
}

/// The server does not advertise extended CONNECT, or does not support the protocol (RFC 9220 §3).
#[test]
fn tunnels_that_are_refused() {
    run(async {
        let (server, client, _endpoint) = connected(Config::default(), transport()).await;
        let (_send, pending) = client.open(tunnel("echo")).unwrap();
        let error = pending.response().await.unwrap_err();
        assert!(matches!(error, Error::Send(SendError::ExtendedConnectUnsupported)), "{error}");
        drop(server);
        let (server, client, _endpoint) = connected(extended(), transport()).await;
        tokio::spawn(async move {
            server
                .serve(async |_| Response::builder().status(501).body(Body::empty()).unwrap())
                .await;
        });
        let (_send, pending) = client.open(tunnel("unknown")).unwrap();
        assert_eq!(pending.response().await.unwrap().status(), StatusCode::NOT_IMPLEMENTED);
    });
}

/// The datagrams of two tunnels do not mix (RFC 9297), and neither do datagrams and capsules of the
/// same request.
#[test]
fn datagrams_belong_to_their_requests() {
    run(async {
        let (server, client, _endpoint) = connected(extended(), transport()).await;
        tokio::spawn(async move {
            while let Some((request, responder)) = server.accept().await {
                tokio::spawn(async move {
                    let mut datagrams = request.body().datagrams();
                    let _send = responder.start(Response::new(()));
                    while let Some(payload) = datagrams.receive().await {
                        let Ok(payload) = payload else { return };
                        datagrams.send([&b"echo of "[..], &payload].concat()).unwrap();
                    }
                });
            }
        });
        let mut tunnels = Vec::new();
        for number in 0..2 {
            let (send, pending) = client.open(tunnel("connect-udp")).unwrap();
            // The datagrams are sent before the response, as RFC 9298 §5 allows.
            let datagrams = pending.datagrams();
            datagrams.send(format!("datagram {number}")).unwrap();
            tunnels.push((send, pending.response().await.unwrap(), datagrams));
        }
        for (number, (_, _, datagrams)) in tunnels.iter_mut().enumerate() {
            let expected = format!("echo of datagram {number}");
            // Datagrams may be lost, but on loopback only if they arrive before the request.
            let received = loop {
                let wait = tokio::time::timeout(Duration::from_millis(200), datagrams.receive());
                match wait.await {
                    Ok(received) => break received.unwrap().unwrap(),
                    Err(_) => datagrams.send(format!("datagram {number}")).unwrap(),
                }
            };
            assert_eq!(received, expected);
            let maximum = datagrams.max_size().unwrap();
            let error = datagrams.send(vec![0; maximum + 1]).unwrap_err();
            assert!(matches!(error, Error::Datagram(DatagramError::TooLarge { .. })), "{error}");
        }
        let (send, ..) = tunnels.pop().unwrap();
        let datagrams = send.datagrams();
        drop(send);
        assert!(datagrams.send("late").is_err());
    });
}

/// Only tunnels use datagrams (RFC 9297 §2).
#[test]
fn datagrams_need_a_tunnel_and_both_ends() {
    run(async {
        for (http3, transport, expected) in [
            (extended(), transport(), DatagramError::NotForDatagrams),
            (Config::default(), transport(), DatagramError::Unsupported),
            // Without DATAGRAM frames, datagrams are not advertised.
            (extended(), TransportConfig::default(), DatagramError::Unsupported),
        ] {
            let (server, client, _endpoint) = connected(http3, transport).await;
            let pending = client.start(get("/")).unwrap();
            let (request, responder) = server.accept().await.unwrap();
            let datagrams = responder.datagrams();
            let error = loop {
                match datagrams.send("x") {
                    Ok(()) => tokio::task::yield_now().await,
                    Err(error) => break error,
                }
            };
            assert!(matches!(&error, Error::Datagram(it) if *it == expected), "{error}");
            drop(request);
            responder.respond(Response::new("done")).await.unwrap();
            pending.response().await.unwrap();
        }
    });
}

/// The content of a tunnel consists of capsules (RFC 9297 §3).
#[test]
fn capsules_in_a_tunnel() {
    run(async {
        let (server, client, _endpoint) = connected(extended(), transport()).await;
        let counting = tokio::spawn(async move {
            let (request, responder) = server.accept().await.unwrap();
            let mut body = request.into_body();
            let mut send = responder.start(Response::new(()));
            let mut decoder = CapsuleDecoder::new(&[0x29], 1000);
            while let Some(chunk) = body.chunk().await {
                let mut chunk = chunk.unwrap();
                while let Some(capsule) = decoder.next(&mut chunk).unwrap() {
                    let echo = Capsule::encode(capsule.capsule_type, &capsule.value);
                    send.write_chunk(echo).await.unwrap();
                }
            }
            decoder.finish().unwrap();
            send.finish().await.unwrap();
        });
        let mut request = tunnel("capsules");
        request.headers_mut().insert("capsule-protocol", "?1".parse().unwrap());
        let (mut send, pending) = client.open(request).unwrap();
        for (capsule_type, value) in [(DATAGRAM_CAPSULE, "one"), (0x1234, "unknown"), (0x29, "two")]
        {
            send.write_chunk(Capsule::encode(capsule_type, value.as_bytes())).await.unwrap();
        }
        send.finish().await.unwrap();
        let mut response = pending.response().await.unwrap();
        let received = response.body_mut().bytes(1000).await.unwrap();
        let expected =
            [Capsule::encode(DATAGRAM_CAPSULE, b"one"), Capsule::encode(0x29, b"two")].concat();
        assert_eq!(received, expected);
        counting.await.unwrap();
    });
}

/// A client sets a priority and changes it, and the server reads and overrides it (RFC 9218).
#[test]
fn priorities_are_stated_read_and_overridden() {
    run(async {
        let pair = Pair::new();
        let client = pair.client().await;
        let mut request = get("/");
        request.extensions_mut().insert(Priority::new(6, true));
        let pending = client.start(request).unwrap();
        let (request, responder) = pair.accept().await;
        assert_eq!(request.headers()["priority"], "u=6, i");
        assert_eq!(request.extensions().get(), Some(&Priority::new(6, true)));
        assert_eq!(responder.priority(), Priority::new(6, true));
        pending.set_priority(Priority::new(0, false));
        while responder.priority() != Priority::new(0, false) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        responder.set_priority(Priority::new(2, true));
        while responder.priority() != Priority::new(2, true) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let response = Response::builder().extension(Priority::new(1, false)).body("done").unwrap();
        responder.respond(response).await.unwrap();
        let mut response = pending.response().await.unwrap();
        assert_eq!(response.headers()["priority"], "u=1");
        assert_eq!(response.body_mut().bytes(10).await.unwrap(), "done");
        let pending = client.start(get("/")).unwrap();
        let (_request, responder) = pair.accept().await;
        assert_eq!(responder.priority(), Priority::default());
        drop(pending);
    });
}

/// Accepts tunnels inside the shard, and responds to each datagram with its bytes in reverse order.
struct Reversing;

impl Handler for Reversing {
    fn request(&mut self, stream: &mut RequestStream<'_>, request: Request<()>) {
        assert_eq!(request.extensions().get::<Protocol>().unwrap().as_str(), "reverse");
        stream.set_priority(Priority::new(1, true));
        assert_eq!(stream.priority(), Priority::new(1, true));
        // An endless body keeps the tunnel open.
        stream.respond(&Response::new(()), Some(Box::new(Endless))).unwrap();
    }

    fn datagram(&mut self, stream: &mut RequestStream<'_>, payload: Bytes) {
        let reversed: Vec<u8> = payload.iter().rev().copied().collect();
        stream.send_datagram(&reversed).unwrap();
    }
}

struct Endless;

impl clearway::http3::BodySource for Endless {
    fn next(&mut self, _: usize) -> Option<Bytes> {
        Some(Bytes::from_static(&[0; 1000]))
    }
}

#[test]
fn datagrams_in_the_shard() {
    run(async {
        let (server, config) = configs(transport());
        let server = serve_in_shard(loopback(), server, extended(), |_| Reversing).unwrap();
        let endpoint = Endpoint::client(loopback()).unwrap();
        let client = connect(&endpoint, &config, server.local_address()).await;
        let (_send, pending) = client.open(tunnel("reverse")).unwrap();
        let mut datagrams = pending.datagrams();
        let _response = pending.response().await.unwrap();
        let received = loop {
            datagrams.send("abc").unwrap();
            let wait = tokio::time::timeout(Duration::from_millis(200), datagrams.receive());
            if let Ok(received) = wait.await {
                break received.unwrap().unwrap();
            }
        };
        assert_eq!(received, "cba");
    });
}

/// Datagrams that are queued when a client closes its connection are sent before CONNECTION_CLOSE.
#[test]
fn datagrams_before_a_close_arrive() {
    run(async {
        for round in 0..20u8 {
            let (server, client, _endpoint) = connected(extended(), transport()).await;
            let (_send, pending) = client.open(tunnel("echo")).unwrap();
            let (request, responder) = server.accept().await.unwrap();
            let _send = responder.start(Response::new(()));
            let mut received = request.body().datagrams();
            let response = pending.response().await.unwrap();
            let sent = response.body().datagrams();
            for number in 0..3u8 {
                sent.send(vec![round, number]).unwrap();
            }
            client.close(Code::NO_ERROR);
            for number in 0..3u8 {
                let datagram = received.receive().await.unwrap();
                assert_eq!(datagram.unwrap_or_else(|_| panic!("{round}")), vec![round, number]);
            }
        }
    });
}
