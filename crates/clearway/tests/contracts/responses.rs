//! Tests of responses: failed responses are reset with H3_INTERNAL_ERROR and reported, early
//! responses reach clients whose content is not read, and 100 (Continue) is sent where it is
//! expected.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use clearway::http3::{
    Body, BodySource, Client, Code, Config, Error, Handler, PROTOCOL as H3, Protocol, RecvBody,
    RequestStream, ResponseFailure, SendBody, Server, serve_in_shard,
};
use clearway::rustls::RootCertStore;
use clearway::{ClientConfig, ConnectionError, Endpoint, ServerConfig};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::Frame;
use tokio::sync::Notify;

use crate::support::{code, identity, loopback, run};

/// How the test program receives requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Face {
    Serve,
    OnShards,
    /// A custom accept loop.
    Accept,
}

pub(super) const FACES: [Face; 3] = [Face::Serve, Face::OnShards, Face::Accept];

pub(super) fn configs() -> (ServerConfig, ClientConfig) {
    let own = identity();
    let mut roots = RootCertStore::empty();
    roots.add(own.certificate.clone()).unwrap();
    let server = ServerConfig::new(vec![own.certificate], own.key).application_protocols([H3]);
    (server, ClientConfig::with_roots(roots).application_protocols([H3]))
}

struct World {
    server: Arc<Server>,
    _endpoint: Endpoint,
    client: Client,
    failures: Arc<Mutex<Vec<ResponseFailure>>>,
}

impl World {
    async fn new(adapt: impl FnOnce(Server) -> Server) -> Self {
        let (server, config) = configs();
        let failures = Arc::<Mutex<Vec<_>>>::default();
        let noted = failures.clone();
        let hook = move |failure: &ResponseFailure| noted.lock().unwrap().push(failure.clone());
        let server = Server::bind(loopback(), server).unwrap().on_error(hook);
        let server = Arc::new(adapt(server));
        let endpoint = Endpoint::client(loopback()).unwrap();
        let address = server.local_address();
        let client = Client::connect(&endpoint, &config, address, "localhost").await.unwrap();
        Self { server, _endpoint: endpoint, client, failures }
    }

    /// Responds to requests with `service` from now on.
    fn serve<S, F>(&self, face: Face, service: S)
    where
        S: Fn(Request<RecvBody>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        let server = self.server.clone();
        tokio::spawn(async move {
            match face {
                Face::Serve => server.serve(service).await,
                Face::OnShards => server.serve_on_shards(service).await,
                Face::Accept => {
                    while let Some((request, responder)) = server.accept().await {
                        let service = service.clone();
                        tokio::spawn(async move {
                            let _ = responder.respond(service(request).await).await;
                        });
                    }
                }
            }
        });
    }

    async fn get(&self, path: &str) -> Result<(http::response::Parts, Bytes), Error> {
        let request = Request::get(format!("https://localhost{path}")).body(()).unwrap();
        let (parts, mut body) = self.client.send(request).await?.into_parts();
        Ok((parts, body.bytes(1 << 20).await?))
    }

    fn failures(&self) -> Vec<ResponseFailure> {
        std::mem::take(&mut *self.failures.lock().unwrap())
    }
}

fn full(text: &'static str) -> Response<Body> {
    Response::new(Body::full(text))
}

/// RFC 9114 §4.2 forbids connection-specific fields; hyper removes them for HTTP/2 too.
#[test]
fn connection_specific_fields_are_left_out_of_responses() {
    async fn answer(_: Request<RecvBody>) -> Response<Body> {
        let mut response = full("fine");
        let fields = [
            ("connection", "keep-alive, X-Hop"),
            ("connection", "x-other"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "close"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "websocket"),
            ("te", "gzip"),
            ("x-hop", "1"),
            ("x-other", "2"),
            ("x-end", "3"),
        ];
        for (name, value) in fields {
            response.headers_mut().append(name, value.parse().unwrap());
        }
        response
    }
    run(async {
        for face in FACES {
            let world = World::new(|server| server).await;
            world.serve(face, answer);
            let (parts, body) = world.get("/").await.unwrap();
            assert_eq!((parts.status, &body[..]), (StatusCode::OK, &b"fine"[..]), "{face:?}");
            let mut names: Vec<_> = parts.headers.keys().map(|name| name.as_str()).collect();
            names.sort_unstable();
            assert_eq!(names, ["content-length", "x-end"], "{face:?}");
            assert!(world.failures().is_empty());
        }
    });
}

/// A body that panics after its first chunk.
pub(super) struct Panicking(pub(super) bool);

impl http_body::Body for Panicking {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        assert!(!self.0, "this panic is intended");
        self.0 = true;
        context.waker().wake_by_ref();
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"begin")))))
    }
}

async fn faulty(request: Request<RecvBody>) -> Response<Body> {
    let mut response = full("abc");
    match request.uri().path() {
        "/status" => *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS,
        "/short" => {
            response.headers_mut().insert("content-length", "10".parse().unwrap());
        }
        "/error" => {
            let (sender, body) = Body::channel();
            tokio::spawn(async move {
                sender.send("begin").await.unwrap();
                sender.fail(io::Error::other("the disk is gone")).await;
            });
            *response.body_mut() = body;
        }
        "/incomplete" => {
            let (sender, body) = Body::channel();
            sender.send("begin").await.unwrap();
            drop(sender);
            *response.body_mut() = body;
        }
        "/panic" => panic!("this panic is intended"),
        "/panic_later" => {
            tokio::task::yield_now().await;
            panic!("this panic is intended");
        }
        "/body" => *response.body_mut() = Body::wrap(Panicking(false)),
        _ => {}
    }
    response
}

#[test]
fn responses_that_fail_are_the_servers_fault_and_reported() {
    run(async {
        for face in FACES {
            let world = World::new(|server| server).await;
            world.serve(face, faulty);
            let paths =
                ["/status", "/short", "/error", "/incomplete", "/panic", "/panic_later", "/body"];
            for path in paths {
                let outcome = world.get(path).await;
                let is_fault = matches!(outcome, Err(Error::Reset(Code::INTERNAL_ERROR)));
                assert!(is_fault, "{face:?}, {path}: {outcome:?}");
                // Once the client has the reset, the failure has been reported.
                let failures = world.failures();
                let [failure] = &failures[..] else {
                    panic!("{face:?}, {path}: {} were reported", failures.len());
                };
                let is_true = match path {
                    "/status" | "/short" => matches!(failure.error, Error::Send(_)),
                    "/error" | "/incomplete" => matches!(failure.error, Error::Body(_)),
                    _ => matches!(failure.error, Error::Panicked),
                };
                assert!(is_true, "{face:?}, {path}: {}", failure.error);
                assert!(failure.remote_address.ip().is_loopback());
            }
            assert_eq!(world.get("/fine").await.unwrap().1, "abc");
        }
    });
}

/// Failures caused by the client are not reported.
#[test]
fn what_a_client_cancels_is_no_failure() {
    run(async {
        for face in FACES {
            let world = World::new(|server| server).await;
            world.serve(face, |_| async {
                let (sender, body) = Body::channel();
                tokio::spawn(async move { while sender.send("more").await.is_ok() {} });
                Response::new(body)
            });
            for round in 0..20 {
                let request = Request::get("https://localhost/").body(()).unwrap();
                let pending = world.client.start(request).unwrap();
                if round % 2 == 0 {
                    drop(pending.response().await.unwrap());
                }
            }
            world.client.close(Code::NO_ERROR);
            world.server.shutdown().await;
            assert!(world.failures().is_empty(), "{face:?}");
        }
    });
}

/// A handler in the shard that panics, blocks, or sends an invalid response.
struct Faulty;

impl Handler for Faulty {
    fn request(&mut self, stream: &mut RequestStream<'_>, request: Request<()>) {
        struct Source;
        impl BodySource for Source {
            fn next(&mut self, _: usize) -> Option<Bytes> {
                panic!("this panic is intended");
            }
        }
        let mut response = Response::new(());
        match request.uri().path() {
            "/panic" => panic!("this panic is intended"),
            "/source" => {
                let _ = stream.respond(&response, Some(Box::new(Source)));
            }
            "/block" => std::thread::sleep(Duration::from_secs(1)),
            "/status" => *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS,
            _ => {}
        }
        if stream.respond(&response, None).is_err() {
            stream.reset(Code::INTERNAL_ERROR);
        }
    }
}

#[test]
fn a_handler_in_the_shard_that_panics_ends_only_its_connection() {
    run(async {
        let (server, config) = configs();
        let server = serve_in_shard(loopback(), server, Config::default(), |_| Faulty).unwrap();
        let endpoint = Endpoint::client(loopback()).unwrap();
        let connect = || Client::connect(&endpoint, &config, server.local_address(), "localhost");
        let get = |path: &str| Request::get(format!("https://localhost{path}")).body(()).unwrap();
        let bystander = connect().await.unwrap();
        for (path, panics) in [("/panic", 1), ("/source", 2), ("/block", 2), ("/status", 2)] {
            let victim = connect().await.unwrap();
            let outcome = victim.send(get(path)).await;
            match path {
                "/block" => assert_eq!(outcome.unwrap().status(), 200),
                "/status" => {
                    let error = outcome.unwrap_err();
                    assert!(matches!(error, Error::Reset(Code::INTERNAL_ERROR)), "{error}");
                }
                _ => assert!(outcome.unwrap_err().to_string().contains("INTERNAL_ERROR"), "{path}"),
            }
            assert_eq!(server.statistics().panics, panics, "{path}");
            assert_eq!(bystander.send(get("/")).await.unwrap().status(), 200, "{path}");
        }
    });
}

/// Chromium 156 never resolves a `fetch` whose upload gets an early response with STOP_SENDING, so
/// the rest of the upload is read, up to a limit.
#[test]
fn an_upload_that_is_answered_early_is_read_to_its_end() {
    run(async {
        for face in FACES {
            let world = World::new(|server| server).await;
            world.serve(face, |_| async { full("early") });
            // The upload exceeds a stream window plus all buffers.
            for megabytes in [1, 4, 7] {
                let request = Request::post("https://localhost/").body(()).unwrap();
                let (mut send, pending) = world.client.open(request).unwrap();
                let mut response = pending.response().await.unwrap();
                assert_eq!(response.body_mut().bytes(10).await.unwrap(), "early");
                for _ in 0..megabytes {
                    send.write_chunk(vec![7; 1 << 20]).await.unwrap();
                }
                let outcome = send.finish().await;
                assert!(outcome.is_ok(), "{face:?}, {megabytes} MiB: {outcome:?}");
            }
            let error = endless_upload(&world).await;
            assert!(matches!(error, Error::Stopped(Code::NO_ERROR)), "{face:?}: {error}");
            assert!(world.failures().is_empty());
        }
    });
}

#[test]
fn a_server_may_stop_uploads_at_once() {
    run(async {
        let world = World::new(|server| server.discard_limit(0)).await;
        world.serve(Face::Serve, |_| async { full("early") });
        let request = Request::post("https://localhost/").body(()).unwrap();
        let (mut send, pending) = world.client.open(request).unwrap();
        assert!(pending.response().await.is_ok());
        let error = stopped(&mut send).await;
        assert!(matches!(error, Error::Stopped(Code::NO_ERROR)), "{error}");
    });
}

/// After a reset the rest is not needed, so STOP_SENDING is sent immediately.
#[test]
fn an_upload_whose_response_is_reset_is_stopped_at_once() {
    run(async {
        for is_body_first in [false, true] {
            let world = World::new(|server| server).await;
            let request = Request::post("https://localhost/").body(()).unwrap();
            let (mut send, _pending) = world.client.open(request).unwrap();
            send.write_chunk("begin").await.unwrap();
            let (request, responder) = world.server.accept().await.unwrap();
            let body = request.into_body();
            if is_body_first {
                drop(body);
                drop(responder);
            } else {
                drop(responder);
                drop(body);
            }
            let error = stopped(&mut send).await;
            assert!(matches!(error, Error::Stopped(Code::NO_ERROR)), "{error}");
        }
    });
}

/// A client that neither continues nor ends its content does not delay a shutdown.
#[test]
fn a_shutdown_does_not_wait_for_content_that_is_discarded() {
    run(async {
        let world = World::new(|server| server).await;
        world.serve(Face::Serve, |_| async { full("early") });
        let request = Request::post("https://localhost/").body(()).unwrap();
        let (mut send, pending) = world.client.open(request).unwrap();
        send.write_chunk("begin").await.unwrap();
        assert_eq!(pending.response().await.unwrap().status(), 200);
        let shutdown = tokio::time::timeout(Duration::from_secs(5), world.server.shutdown());
        shutdown.await.expect("the shutdown waits for the client");
        drop(send);
    });
}

/// A client that expects 100 (Continue) and gets a final response may send nothing more, so the
/// server does not wait for content.
#[test]
fn a_client_that_was_not_asked_for_content_is_stopped_at_once() {
    run(async {
        for is_body_first in [false, true] {
            let world = World::new(|server| server).await;
            let (mut send, pending) = world.client.open(expecting()).unwrap();
            let (request, responder) = world.server.accept().await.unwrap();
            let body = request.into_body();
            if is_body_first {
                drop(body);
                responder.respond(full("no")).await.unwrap();
            } else {
                responder.respond(full("no")).await.unwrap();
                drop(body);
            }
            assert_eq!(pending.response().await.unwrap().status(), 200);
            let error = stopped(&mut send).await;
            assert!(matches!(error, Error::Stopped(Code::NO_ERROR)), "{error}");
        }
    });
}

/// Waits until the server has stopped the upload, without sending enough to exceed a limit.
async fn stopped(send: &mut SendBody) -> Error {
    loop {
        match send.write_chunk("x").await {
            Ok(()) => tokio::task::yield_now().await,
            Err(error) => return error,
        }
    }
}

/// Sends until sending fails, and returns the error.
async fn endless_upload(world: &World) -> Error {
    let request = Request::post("https://localhost/").body(()).unwrap();
    let (mut send, pending) = world.client.open(request).unwrap();
    assert!(pending.response().await.is_ok());
    loop {
        if let Err(error) = send.write_chunk(vec![7; 1 << 20]).await {
            return error;
        }
    }
}

fn expecting() -> Request<()> {
    Request::post("https://localhost/").header("expect", "100-continue").body(()).unwrap()
}

/// 100 (Continue) is sent when the program waits for the content (RFC 9110 §10.1.1).
#[test]
fn a_client_that_waits_to_be_asked_for_content_is_asked() {
    run(async {
        for face in FACES {
            let world = World::new(|server| server).await;
            world.serve(face, |request: Request<RecvBody>| async move {
                Response::new(Body::full(request.into_body().bytes(100).await.unwrap()))
            });
            let (mut send, mut pending) = world.client.open(expecting()).unwrap();
            let interim = pending.informational().await.unwrap().expect("an interim response");
            assert_eq!(interim.status(), StatusCode::CONTINUE, "{face:?}");
            send.write_chunk("asked ").await.unwrap();
            send.write_chunk("for").await.unwrap();
            send.finish().await.unwrap();
            assert!(pending.informational().await.unwrap().is_none(), "{face:?}: only once");
            let mut response = pending.response().await.unwrap();
            assert_eq!(response.body_mut().bytes(100).await.unwrap(), "asked for");
        }
    });
}

#[test]
fn a_client_that_is_answered_is_not_asked_for_content() {
    run(async {
        for face in FACES {
            let world = World::new(|server| server).await;
            let has_response = Arc::new(Notify::new());
            let arrived = has_response.clone();
            world.serve(face, move |request: Request<RecvBody>| {
                let arrived = arrived.clone();
                async move {
                    let (sender, body) = Body::channel();
                    tokio::spawn(async move {
                        arrived.notified().await;
                        let _ = request.into_body().bytes(100).await;
                        sender.send("no").await.unwrap();
                        sender.finish().await.unwrap();
                    });
                    Response::builder().status(413).body(body).unwrap()
                }
            });
            let (send, mut pending) = world.client.open(expecting()).unwrap();
            assert!(pending.informational().await.unwrap().is_none(), "{face:?}");
            let mut response = pending.response().await.unwrap();
            assert_eq!(response.status(), 413);
            has_response.notify_one();
            send.finish().await.unwrap();
            assert_eq!(response.body_mut().bytes(100).await.unwrap(), "no");
        }
    });
}

/// A program that sends 100 (Continue) itself does not cause a second one.
#[test]
fn a_client_is_asked_for_content_once() {
    run(async {
        let world = World::new(|server| server).await;
        let (mut send, mut pending) = world.client.open(expecting()).unwrap();
        let (request, mut responder) = world.server.accept().await.unwrap();
        let asked = Response::builder().status(StatusCode::CONTINUE).body(()).unwrap();
        responder.inform(asked).unwrap();
        assert!(pending.informational().await.unwrap().is_some());
        let mut body = request.into_body();
        let reading = tokio::spawn(async move { body.bytes(100).await });
        send.write_chunk("content").await.unwrap();
        send.finish().await.unwrap();
        assert_eq!(reading.await.unwrap().unwrap(), "content");
        responder.respond(full("fine")).await.unwrap();
        assert!(pending.informational().await.unwrap().is_none());
    });
}

/// Responds with the length of the content.
struct Counting(usize);

impl Handler for Counting {
    fn request(&mut self, stream: &mut RequestStream<'_>, request: Request<()>) {
        if request.uri().path() == "/refused" {
            let refused = Response::builder().status(413).body(()).unwrap();
            stream.respond(&refused, None).unwrap();
        }
    }

    fn data(&mut self, _: &mut RequestStream<'_>, content: Bytes) {
        self.0 += content.len();
    }

    fn finished(&mut self, stream: &mut RequestStream<'_>, _: Option<HeaderMap>) {
        let length = Bytes::from(self.0.to_string());
        let _ = stream.respond(&Response::new(()), Some(Box::new(length)));
    }
}

#[test]
fn a_handler_in_the_shard_asks_for_content_too() {
    run(async {
        let (server, config) = configs();
        let server =
            serve_in_shard(loopback(), server, Config::default(), |_| Counting(0)).unwrap();
        let endpoint = Endpoint::client(loopback()).unwrap();
        let address = server.local_address();
        let client = Client::connect(&endpoint, &config, address, "localhost").await.unwrap();
        let (mut send, mut pending) = client.open(expecting()).unwrap();
        assert!(pending.informational().await.unwrap().is_some());
        send.write_chunk("content").await.unwrap();
        send.finish().await.unwrap();
        let mut response = pending.response().await.unwrap();
        assert_eq!(response.body_mut().bytes(10).await.unwrap(), "7");

        let mut refused = expecting();
        *refused.uri_mut() = "https://localhost/refused".parse().unwrap();
        let (_send, mut pending) = client.open(refused).unwrap();
        assert!(pending.informational().await.unwrap().is_none());
        assert_eq!(pending.response().await.unwrap().status(), 413);
    });
}

/// Requests do not wait for SETTINGS (RFC 9114 §7.2.4.2), and a request that must wait does not
/// delay others.
#[test]
fn requests_do_not_wait_for_a_tunnel_that_waits_for_settings() {
    run(async {
        let (server, config) = configs();
        // Accepts connections, but never sends any HTTP/3 data.
        let server = Endpoint::server(loopback(), server).unwrap();
        let endpoint = Endpoint::client(loopback()).unwrap();
        let (client, silent) = tokio::join!(
            Client::connect(&endpoint, &config, server.local_address(), "localhost"),
            async { server.accept().await.unwrap().await.unwrap() },
        );
        let client = client.unwrap();
        let mut tunnel = Request::connect("https://localhost/").body(Body::empty()).unwrap();
        tunnel.extensions_mut().insert(Protocol::new("echo").unwrap());
        let _tunnel = client.start(tunnel).unwrap();
        let get = || Request::get("https://localhost/").body(()).unwrap();
        let _requests = [client.start(get()).unwrap(), client.start(get()).unwrap()];
        for _ in 0..2 {
            let arrived = tokio::time::timeout(Duration::from_secs(5), silent.accept_bi()).await;
            arrived.expect("the request waits").unwrap();
        }
    });
}

/// A client that reads late gets a GOAWAY frame, a reset and the end of the connection at the same
/// time: each request gets its own error.
#[test]
fn requests_learn_what_ended_them_also_if_the_connection_ends_at_once() {
    run(async {
        let world = World::new(|server| server).await;
        let start = |path: &str| {
            let request = Request::get(format!("https://localhost{path}")).body(()).unwrap();
            world.client.start(request).unwrap()
        };
        let (reset, cut_off) = (start("/reset"), start("/cut"));
        let (_first, reset_responder) = world.server.accept().await.unwrap();
        let (_second, _responder) = world.server.accept().await.unwrap();
        let (blocked, is_blocked) = tokio::sync::oneshot::channel();
        let (release, is_released) = std::sync::mpsc::channel::<()>();
        world.client.spawn(async move {
            blocked.send(()).unwrap();
            let _ = is_released.recv();
        });
        is_blocked.await.unwrap();
        let endpoint = world.server.endpoint();
        let sent = || endpoint.statistics().datagrams_sent;
        let before = sent();
        drop(reset_responder);
        let shutdown = world.server.shutdown();
        let closing = async {
            while sent() < before + 2 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            endpoint.close(code(7), b"bye");
            while sent() < before + 3 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            drop(release);
        };
        let (reset, cut_off, (), ()) =
            tokio::join!(reset.response(), cut_off.response(), shutdown, closing);
        let error = reset.unwrap_err();
        assert!(matches!(error, Error::Reset(_)), "{error}");
        let error = cut_off.unwrap_err();
        let is_close =
            matches!(&error, Error::Connection(ConnectionError::ApplicationClosed { .. }));
        assert!(is_close, "{error}");
    });
}
