//! Tests that a handle that is dropped at any point leaves nothing behind: no task, body, stream,
//! connection, thread or descriptor. The tests count all of these.

use std::convert::Infallible;
use std::pin::Pin;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use std::{env, fs};

use bytes::Bytes;
use clearway::http3::{
    Body, Client, Error, PROTOCOL as H3, PendingResponse, RecvBody, Responder, SendBody, Server,
    Timeouts,
};
use clearway::rustls::RootCertStore;
use clearway::{ClientConfig, Connection, Endpoint, ServerConfig};
use http::{Request, Response};
use http_body::Frame;

use crate::support::{Pair, code, identity, loopback, run};

/// Number of rounds: more than the number of streams that a peer may have open at a time.
const ROUNDS: usize = 240;

/// Counts existing instances.
#[derive(Clone, Default)]
struct Living(Arc<AtomicUsize>);

impl Living {
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// A body that has one chunk and never ends.
struct Endless {
    living: Living,
    has_begun: bool,
}

impl Endless {
    fn new(living: &Living) -> Self {
        living.0.fetch_add(1, Ordering::SeqCst);
        Self { living: living.clone(), has_begun: false }
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        self.living.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if std::mem::replace(&mut self.has_begun, true) {
            return Poll::Pending;
        }
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"begin")))))
    }
}

fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// Waits until `is_so` returns true, which must happen without further action.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let wanted = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let outcome = tokio::time::timeout(Duration::from_secs(5), wanted).await;
    outcome.unwrap_or_else(|_| panic!("{what} does not happen"));
}

fn configs() -> (ServerConfig, ClientConfig) {
    let own = identity();
    let mut roots = RootCertStore::empty();
    roots.add(own.certificate.clone()).unwrap();
    let server = ServerConfig::new(vec![own.certificate], own.key);
    (server, ClientConfig::with_roots(roots).application_protocols([H3]))
}

struct World {
    server: Arc<Server>,
    endpoint: Endpoint,
    client: Client,
}

impl World {
    async fn new() -> Self {
        let (server, config) = configs();
        let server = Arc::new(Server::bind(loopback(), server).unwrap());
        let endpoint = Endpoint::client(loopback()).unwrap();
        let address = server.local_address();
        let client = Client::connect(&endpoint, &config, address, "localhost").await.unwrap();
        Self { server, endpoint, client }
    }

    async fn accept(&self) -> (RecvBody, Responder) {
        let (request, responder) = self.server.accept().await.unwrap();
        (request.into_body(), responder)
    }

    /// Returns both ends of an exchange whose request content has not ended.
    async fn open(&self) -> (SendBody, PendingResponse, RecvBody, Responder) {
        let (mut send, pending) = self.client.open(post().map(drop)).unwrap();
        send.write_chunk("begin").await.unwrap();
        let (body, responder) = self.accept().await;
        (send, pending, body, responder)
    }

    /// Checks that the connection still exchanges messages.
    async fn check(&self) {
        let pending = self.client.start(post()).unwrap();
        let (_, responder) = self.accept().await;
        responder.respond(Response::new("fine")).await.unwrap();
        let mut response = pending.response().await.unwrap();
        assert_eq!(response.body_mut().bytes(10).await.unwrap(), "fine");
    }
}

fn post() -> Request<Body> {
    Request::post("https://localhost/").body(Body::empty()).unwrap()
}

fn upload(body: impl Into<Body>) -> Request<Body> {
    Request::post("https://localhost/").body(body.into()).unwrap()
}

#[test]
fn a_canceled_upload_leaves_no_task_and_no_body() {
    run(async {
        let world = World::new().await;
        let before = tasks();
        let living = Living::default();
        for round in 0..ROUNDS {
            let body = Body::wrap(Endless::new(&living));
            let pending = world.client.start(upload(body)).unwrap();
            match round % 4 {
                // Dropped immediately, before the shard processes the request.
                0 => drop(pending),
                1 => {
                    let accepted = world.accept().await;
                    drop(pending);
                    drop(accepted);
                }
                2 => {
                    let (_body, responder) = world.accept().await;
                    let answered = responder.start(Response::new(()));
                    let response = pending.response().await.unwrap();
                    drop(response);
                    drop(answered);
                }
                _ => {
                    // Dropped while waiting, as a timeout would do.
                    let (_body, _responder) = world.accept().await;
                    let waiting = tokio::time::timeout(Duration::ZERO, pending.response());
                    assert!(waiting.await.is_err());
                }
            }
            if round % 4 == 0 {
                // The server has received some of the data, but not all.
                while let Ok(Some(seen)) =
                    tokio::time::timeout(Duration::ZERO, world.server.accept()).await
                {
                    drop(seen);
                }
            }
        }
        until("the end of the bodies", || living.count() == 0).await;
        until("the end of the tasks", || tasks() <= before).await;
        while let Ok(Some(seen)) =
            tokio::time::timeout(Duration::from_millis(20), world.server.accept()).await
        {
            drop(seen);
        }
        world.check().await;
    });
}

#[test]
fn an_answered_request_leaves_no_body_at_the_server() {
    run(async {
        for on_shards in [false, true] {
            let world = World::new().await;
            let living = Living::default();
            let (server, counted) = (world.server.clone(), living.clone());
            let service = move |_: Request<RecvBody>| {
                let body = Body::wrap(Endless::new(&counted));
                async move { Response::new(body) }
            };
            let serving = tokio::spawn(async move {
                match on_shards {
                    true => server.serve_on_shards(service).await,
                    false => server.serve(service).await,
                }
            });
            for round in 0..ROUNDS {
                let pending = world.client.start(post()).unwrap();
                if round % 2 == 0 {
                    let mut response = pending.response().await.unwrap();
                    // A chunk may end at any byte.
                    let chunk = response.body_mut().chunk().await.unwrap().unwrap();
                    assert!(!chunk.is_empty() && b"begin".starts_with(&chunk), "{chunk:?}");
                }
            }
            until("the end of the bodies", || living.count() == 0).await;
            world.client.close(clearway::http3::Code::NO_ERROR);
            world.server.shutdown().await;
            serving.await.unwrap();
        }
    });
}

/// A canceled message is never reported as sent.
#[test]
fn a_canceled_message_is_not_reported_as_sent() {
    run(async {
        let world = World::new().await;
        let (send, pending, _body, _responder) = world.open().await;
        drop(pending);
        let outcome = send.finish().await;
        assert!(matches!(outcome, Err(Error::Cancelled)), "at once: {outcome:?}");

        let (send, pending, mut body, _responder) = world.open().await;
        drop(pending);
        // Once the server sees the cancellation, the client's shard has carried it out.
        while let Some(Ok(_)) = body.chunk().await {}
        let outcome = send.finish().await;
        assert!(matches!(outcome, Err(Error::Cancelled)), "later: {outcome:?}");

        let (mut send, pending, _body, _responder) = world.open().await;
        drop(pending);
        let outcome = send.write_chunk("more").await;
        assert!(matches!(outcome, Err(Error::Cancelled)), "writing: {outcome:?}");
    });
}

/// Drops every handle of an exchange while the others still exist.
#[test]
fn handles_of_requests_leave_no_stream() {
    run(async {
        let world = World::new().await;
        let before = tasks();
        for round in 0..ROUNDS {
            let (mut send, pending, mut body, responder) = world.open().await;
            match round % 8 {
                0 => {
                    drop(send);
                    while let Some(Ok(_)) = body.chunk().await {}
                }
                1 => {
                    drop(pending);
                    while let Some(Ok(_)) = body.chunk().await {}
                }
                2 => {
                    drop(body);
                    responder.respond(Response::new("early")).await.unwrap();
                    assert!(pending.response().await.is_ok());
                }
                3 => {
                    drop(responder);
                    assert!(pending.response().await.is_err());
                }
                4 => {
                    let mut answer = responder.start(Response::new(()));
                    answer.write_chunk("some").await.unwrap();
                    let response = pending.response().await.unwrap();
                    drop(answer);
                    drop(response);
                }
                5 => {
                    let (sender, content) = Body::channel();
                    let answering = tokio::spawn(responder.respond(Response::new(content)));
                    sender.send("some").await.unwrap();
                    let mut response = pending.response().await.unwrap();
                    drop(sender);
                    while let Some(Ok(_)) = response.body_mut().chunk().await {}
                    assert!(answering.await.unwrap().is_err());
                }
                6 => {
                    let answering = tokio::spawn(responder.respond(Response::new("some")));
                    let finishing = send.write_chunk("more");
                    drop(finishing);
                    drop(pending.datagrams());
                    drop(pending.response().await.unwrap());
                    let _ = answering.await.unwrap();
                }
                _ => {
                    let response = Response::new(Body::wrap(Endless::new(&Living::default())));
                    let answering = tokio::spawn(responder.respond(response));
                    drop(pending.response().await.unwrap());
                    assert!(answering.await.unwrap().is_err());
                }
            }
        }
        until("the end of the tasks", || tasks() <= before).await;
        world.check().await;
    });
}

/// The task that checks timeouts ends with the server, not an interval later.
#[test]
fn a_server_leaves_no_task() {
    run(async {
        let before = tasks();
        let long = Timeouts { request: Duration::from_secs(600), send: Duration::from_secs(600) };
        for _ in 0..10 {
            let server = Server::bind(loopback(), configs().0).unwrap().with_timeouts(long);
            drop(server);
        }
        until("the end of the tasks", || tasks() <= before).await;
    });
}

#[test]
fn handles_of_streams_leave_no_stream() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        for round in 0..ROUNDS {
            let (mut send, receive) = client.open_bi().await.unwrap();
            send.write_all(b"begin").await.unwrap();
            let (answer, mut request) = server.accept_bi().await.unwrap();
            match round % 6 {
                0 => drop((send, receive, answer, request)),
                1 => {
                    drop(send);
                    assert_eq!(request.read_to_end(10).await.unwrap(), b"begin");
                }
                2 => {
                    drop(receive);
                    send.finish().unwrap();
                    request.read_to_end(10).await.unwrap();
                }
                3 => {
                    drop(request);
                    assert!(send.stopped().await.unwrap().is_some());
                }
                4 => {
                    send.reset(code(1)).unwrap();
                    assert!(request.read_to_end(10).await.is_err());
                }
                _ => {
                    drop(tokio::time::timeout(Duration::ZERO, request.read_to_end(10)).await);
                    drop(tokio::time::timeout(Duration::ZERO, client.open_uni()).await);
                    drop(tokio::time::timeout(Duration::ZERO, server.accept_uni()).await);
                }
            }
        }
        let (mut send, mut receive) = client.open_bi().await.unwrap();
        send.write_all(b"last").await.unwrap();
        let (mut answer, _request) = server.accept_bi().await.unwrap();
        answer.write_all(b"fine").await.unwrap();
        answer.finish().unwrap();
        assert_eq!(receive.read_to_end(10).await.unwrap(), b"fine");
    });
}

/// Returns both ends of a connection. On a busy machine, clients that are already gone may be
/// accepted first.
async fn connect(pair: &Pair) -> (Connection, Connection) {
    let accepting = async {
        loop {
            if let Ok(server) = pair.server.accept().await.unwrap().await {
                break server;
            }
        }
    };
    let (client, server) = tokio::join!(pair.connecting(), accepting);
    (client.unwrap(), server)
}

#[test]
fn handles_of_connections_leave_no_connection() {
    run(async {
        let pair = Pair::new();
        for round in 0..40 {
            let connecting = pair.connecting();
            match round % 5 {
                0 => drop(connecting),
                1 => drop(tokio::time::timeout(Duration::from_millis(1), connecting).await),
                2 => drop((connecting, pair.server.accept().await)),
                3 => {
                    let ends = connect(&pair).await;
                    drop((connecting, ends));
                }
                _ => {
                    let (client, server) = connect(&pair).await;
                    let clones = (client.clone(), server.clone());
                    let stream = client.open_uni().await.unwrap();
                    drop((connecting, client, server, clones, stream));
                }
            }
            while let Ok(waiting) =
                tokio::time::timeout(Duration::from_millis(2), pair.server.accept()).await
            {
                drop(waiting);
            }
        }
        let none = |endpoint: &Endpoint| endpoint.statistics().connections == 0;
        until("the end of the clients' connections", || none(&pair.client)).await;
        while !none(&pair.server) {
            let waiting = tokio::time::timeout(Duration::from_millis(2), pair.server.accept());
            drop(waiting.await);
        }
    });
}

/// Runs a test in a separate process, without the threads and descriptors of other tests.
fn alone(name: &str, test: impl Future<Output = ()>) {
    const ALONE: &str = "CLEARWAY_CONTRACT_ALONE";
    if env::var_os(ALONE).is_some() {
        return run(test);
    }
    let name = format!("handles::{name}");
    let program = env::current_exe().unwrap();
    let output = Command::new(program).args([&name, "--exact"]).env(ALONE, "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

fn entries(folder: &str) -> usize {
    fs::read_dir(folder).unwrap().count()
}

#[test]
fn endpoints_leave_no_thread() {
    alone("endpoints_leave_no_thread", async {
        let threads = || entries("/proc/self/task");
        let before = threads();
        for _ in 0..5 {
            let world = World::new().await;
            world.check().await;
            let _half = world.open().await;
            let pair = Pair::new();
            let ends = pair.connect().await;
            let other = world.endpoint.clone();
            drop((world, pair, ends, other));
        }
        until("the end of the threads", || threads() <= before).await;
    });
}

/// The debug output of a handle shows its type and its stream or peer.
#[test]
fn handles_are_shown_by_what_they_are() {
    run(async {
        let pair = Pair::new();
        let (client, _server) = pair.connect().await;
        let (sending, receiving) = client.open_bi().await.unwrap();
        let id = format!("{:?}", sending.id());
        let remote = client.remote_address().to_string();
        for (text, kind, which) in [
            (format!("{sending:?}"), "SendStream", &id),
            (format!("{receiving:?}"), "RecvStream", &id),
            (format!("{client:?}"), "Connection", &remote),
        ] {
            assert!(text.starts_with(kind) && text.contains(which.as_str()), "{text}");
        }
    });
}
