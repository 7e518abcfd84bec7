//! HTTP/1.1 without TLS, for the viewer's page, the logs of connections in progress, and a server's metrics.
//!
//! This module is the server; `request` is the client.

mod host;
mod request;

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
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
use tokio::net::{TcpListener, TcpStream};

pub(crate) use request::{Download, get};

/// The body of a response: whole, or a stream.
pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// How long the header of a request may take to arrive.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// The pause after a connection could not be accepted because the process or the system has too many open files.
const PAUSE: Duration = Duration::from_secs(1);

/// What a server has to offer.
pub(crate) trait Content: Send + Sync + 'static {
    /// The response to a GET request for `path`, which is decoded and begins with a slash.
    fn get(&self, path: &str) -> impl Future<Output = Response<Body>> + Send;
}

/// Answers requests for `content` on the connections that `listener` accepts. Only requests whose Host is an IP
/// address, "localhost" or one of `names` are permitted.
pub(crate) async fn serve(
    listener: TcpListener,
    names: &[String],
    content: impl Content,
) -> Infallible {
    let site = Arc::new(Site { names: names.to_vec(), content });
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(Arc::clone(&site).converse(stream))),
            Err(error) if is_of_one_connection(&error) => {}
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Whether accepting failed because that connection was closed before it was accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

struct Site<C> {
    names: Vec<String>,
    content: C,
}

impl<C: Content> Site<C> {
    async fn converse(self: Arc<Self>, stream: TcpStream) {
        let service = service_fn(|request| {
            let site = Arc::clone(&self);
            async move { Ok::<_, Infallible>(site.respond(&request).await) }
        });
        let mut server = http1::Builder::new();
        server.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
        // A client that closes its connection early, or that does not speak HTTP, concerns nobody else.
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

/// A response that has all of `bytes`.
pub(crate) fn whole(content_type: &'static str, bytes: impl Into<Bytes>) -> Response<Body> {
    response(content_type, body(bytes))
}

/// A response whose content is `value` in JSON.
pub(crate) fn json(value: &impl Serialize) -> Response<Body> {
    match serde_json::to_vec(value) {
        Ok(text) => whole("application/json", text),
        Err(_) => refusal(StatusCode::INTERNAL_SERVER_ERROR, "this has no form in JSON\n"),
    }
}

/// A response that is sent as `pieces` come.
pub(crate) fn streamed(
    content_type: &'static str,
    pieces: impl Stream<Item = Bytes> + Send + 'static,
) -> Response<Body> {
    let frames = pieces.map(|piece| Ok(Frame::data(piece)));
    response(content_type, StreamBody::new(frames).boxed_unsync())
}

/// Server-sent events, which are not to be cached.
pub(crate) fn events(events: impl Stream<Item = Bytes> + Send + 'static) -> Response<Body> {
    let mut response = streamed("text/event-stream", events);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// A response with an error status, and `why` as text.
pub(crate) fn refusal(status: StatusCode, why: &'static str) -> Response<Body> {
    let mut response = whole("text/plain; charset=utf-8", why);
    *response.status_mut() = status;
    response
}

#[cfg(test)]
#[path = "http1_tests.rs"]
mod tests;
