//! HTTP/1.1 without TLS, for the viewer's page, live connection logs, and a server's metrics.
//!
//! This module is the server; `request` is the client.

mod host;
mod request;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use clearway_units::{AddressPrefix, FairShares};
use futures_util::{Stream, StreamExt};
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HOST};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use percent_encoding::percent_decode_str;
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::Sleep;

pub(crate) use request::{Download, get};

use crate::events::{Event, note_often};

/// The body of a response: complete, or a stream.
pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Timeout for the header of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout for a client that does not read its response.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of connections per listener; one host may use up to a quarter of the free ones.
const MAX_CONNECTIONS: u64 = 128;
/// Pause after a connection could not be accepted because the process or the system has too many
/// open files.
const PAUSE: Duration = Duration::from_secs(1);

/// The content that a server offers.
pub(crate) trait Content: Send + Sync + 'static {
    /// Returns the response to a GET request for `path`, which is percent-decoded and begins with a
    /// slash.
    fn get(&self, path: &str) -> impl Future<Output = Response<Body>> + Send;
}

/// Responds to requests for `content` on the connections that `listener` accepts. Only requests
/// whose Host is an IP address, "localhost" or one of `names` are allowed.
pub(crate) async fn serve(
    listener: TcpListener,
    names: &[String],
    content: impl Content,
) -> Infallible {
    let site = Arc::new(Site { names: names.to_vec(), content });
    let connections = Connections::new();
    loop {
        match listener.accept().await {
            Ok((stream, client)) => {
                // Connections beyond the limit are closed.
                if let Some(place) = connections.admit(client).await {
                    let converse = Arc::clone(&site).converse(stream, place.has_asked());
                    let number = place.number;
                    let task = tokio::spawn(async move {
                        let _place = place;
                        converse.await;
                    });
                    connections.note_task(number, task);
                }
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                note_often(Event::NoDescriptor, || {
                    format!(
                        "clearway: cannot accept a connection for metrics or pages: {error}; retrying every second"
                    )
                });
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Returns whether accepting failed only because the connection was closed before it was accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// The connections of a listener. There is a total limit, and a share for each host. When a host
/// has used up its share, its oldest connection without a request is closed; if there is none, the
/// new connection is closed.
#[derive(Clone)]
struct Connections(Arc<Mutex<Table>>);

struct Table {
    shares: FairShares,
    all: BTreeMap<u64, Open>,
    next: u64,
}

struct Open {
    client: SocketAddr,
    has_asked: Arc<AtomicBool>,
    task: Option<JoinHandle<()>>,
}

/// The slot of an admitted connection, which is released on drop.
struct Place {
    connections: Connections,
    number: u64,
    has_asked: Arc<AtomicBool>,
}

impl Connections {
    fn new() -> Self {
        let shares = FairShares::new(MAX_CONNECTIONS);
        Self(Arc::new(Mutex::new(Table { shares, all: BTreeMap::new(), next: 0 })))
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a connection, after closing another one if necessary. Returns `None` if no connection
    /// can be closed.
    async fn admit(&self, client: SocketAddr) -> Option<Place> {
        let mut closed = None;
        let place = {
            let table = &mut *self.lock();
            if table.shares.check(client, 1).is_err() {
                closed = Some(table.close_silent(client)?);
            }
            let (number, has_asked) = (table.next, Arc::<AtomicBool>::default());
            table.next += 1;
            table.shares.add(client, 1);
            table.all.insert(number, Open { client, has_asked: has_asked.clone(), task: None });
            Place { connections: self.clone(), number, has_asked }
        };
        if let Some(task) = closed.flatten() {
            task.abort();
            // Wait until the task has closed its descriptor. Otherwise, more connections than
            // allowed would be open.
            let _ = task.await;
        }
        Some(place)
    }

    fn note_task(&self, number: u64, task: JoinHandle<()>) {
        if let Some(open) = self.lock().all.get_mut(&number) {
            open.task = Some(task);
        }
    }
}

impl Table {
    /// Removes the oldest connection without a request: of the same host, or of the host with the
    /// most connections.
    fn close_silent(&mut self, client: SocketAddr) -> Option<Option<JoinHandle<()>>> {
        let host = match self.shares.held_by(client) {
            0 => self.shares.heaviest_first().next()?.0,
            _ => AddressPrefix::host(client),
        };
        let is_silent = |open: &Open| {
            AddressPrefix::host(open.client) == host && !open.has_asked.load(Ordering::Relaxed)
        };
        let number =
            self.all.iter().find(|(_, open)| is_silent(open)).map(|(number, _)| *number)?;
        let open = self.all.remove(&number)?;
        self.shares.remove(open.client, 1);
        Some(open.task)
    }
}

impl Place {
    /// Returns the flag to set when a request has arrived.
    fn has_asked(&self) -> Arc<AtomicBool> {
        self.has_asked.clone()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let table = &mut *self.connections.lock();
        if let Some(open) = table.all.remove(&self.number) {
            table.shares.remove(open.client, 1);
        }
    }
}

/// A connection that fails if its client accepts no data for [`SEND_TIMEOUT`].
struct Timed {
    stream: TcpStream,
    /// Timer that runs while the client accepts no data.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Timed {
    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        outcome: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.timer = None;
            return outcome;
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(SEND_TIMEOUT)));
        ready!(timer.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Timed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Timed {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, data);
        self.watch(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut_down = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watch(context, shut_down)
    }
}

struct Site<C> {
    names: Vec<String>,
    content: C,
}

impl<C: Content> Site<C> {
    /// Responds to the requests on a connection; sets `has_asked` when the first one has arrived.
    async fn converse(self: Arc<Self>, stream: TcpStream, has_asked: Arc<AtomicBool>) {
        let stream = Timed { stream, timer: None };
        let service = service_fn(|request| {
            has_asked.store(true, Ordering::Relaxed);
            let site = Arc::clone(&self);
            async move { Ok::<_, Infallible>(site.respond(&request).await) }
        });
        let mut server = http1::Builder::new();
        server.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
        // A client that closes its connection early, or does not speak HTTP, does not affect other
        // clients.
        let _ = server.serve_connection(TokioIo::new(stream), service).await;
    }

    async fn respond(&self, request: &Request<Incoming>) -> Response<Body> {
        let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
        if !host.is_some_and(|host| host::is_permitted(host, &self.names)) {
            return refusal(StatusCode::FORBIDDEN, host::ADVICE);
        }
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED, "");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        match percent_decode_str(request.uri().path()).decode_utf8() {
            Ok(path) => self.content.get(&path).await,
            Err(_) => refusal(StatusCode::NOT_FOUND, "the path is not UTF-8\n"),
        }
    }
}

fn response(content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn body(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).boxed_unsync()
}

/// Returns a response whose body is `bytes`.
pub(crate) fn whole(content_type: &'static str, bytes: impl Into<Bytes>) -> Response<Body> {
    response(content_type, body(bytes))
}

/// Returns a response with `value` as JSON.
pub(crate) fn json(value: &impl Serialize) -> Response<Body> {
    match serde_json::to_vec(value) {
        Ok(text) => whole("application/json", text),
        Err(_) => {
            refusal(StatusCode::INTERNAL_SERVER_ERROR, "the response cannot be encoded as JSON\n")
        }
    }
}

/// Returns a response that sends `pieces` as they arrive.
pub(crate) fn streamed(
    content_type: &'static str,
    pieces: impl Stream<Item = Bytes> + Send + 'static,
) -> Response<Body> {
    let frames = pieces.map(|piece| Ok(Frame::data(piece)));
    response(content_type, StreamBody::new(frames).boxed_unsync())
}

/// Returns a response with server-sent events, which must not be cached.
pub(crate) fn events(events: impl Stream<Item = Bytes> + Send + 'static) -> Response<Body> {
    let mut response = streamed("text/event-stream", events);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// Returns a response with an error status, and `why` as text.
pub(crate) fn refusal(status: StatusCode, why: &'static str) -> Response<Body> {
    let mut response = whole("text/plain; charset=utf-8", why);
    *response.status_mut() = status;
    response
}

#[cfg(test)]
#[path = "http1_tests.rs"]
mod tests;
