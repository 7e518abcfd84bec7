//! An ordinary router: nothing in it depends on the HTTP version.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use axum::body::Body;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{ConnectInfo, DefaultBodyLimit, Path};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use axum::{Json, Router};
use bytes::Bytes;
use futures_util::{Stream, stream};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body::Frame;
use http_body_util::StreamBody;
use serde::{Deserialize, Serialize};
use tower_http::compression::CompressionLayer;
use tower_http::cors::{Any, CorsLayer};
use tower_http::limit::RequestBodyLimitLayer;
use tower_http::timeout::TimeoutLayer;
use tower_http::trace::TraceLayer;

/// Limit on the content of requests, in bytes.
const CONTENT: usize = 1 << 20;

/// Creates the router. `timeout` limits the time until a response begins.
pub(crate) fn router(timeout: Duration) -> Router {
    let limited = Router::new()
        .route("/hello/{name}", get(hello))
        .route("/address", get(address))
        .route("/sum", post(sum))
        .route("/count", get(count))
        .route("/trailers", get(trailers))
        .route("/slow", get(std::future::pending::<()>))
        .layer(RequestBodyLimitLayer::new(CONTENT))
        .layer(CompressionLayer::new())
        .layer(TimeoutLayer::with_status_code(StatusCode::GATEWAY_TIMEOUT, timeout));
    Router::new()
        .route("/echo", post(echo).layer(DefaultBodyLimit::disable()))
        .route("/socket", any(socket))
        .merge(limited)
        .layer(CorsLayer::new().allow_origin(Any).allow_methods([Method::GET, Method::POST]))
        .layer(TraceLayer::new_for_http())
}

async fn hello(Path(name): Path<String>) -> String {
    format!("Hello {name}")
}

/// Returns the client's address.
async fn address(ConnectInfo(address): ConnectInfo<SocketAddr>) -> String {
    address.to_string()
}

/// What [`sum`] adds.
#[derive(Deserialize)]
struct Terms {
    terms: Vec<i64>,
}

/// What [`sum`] returns.
#[derive(Serialize)]
struct Sum {
    sum: i64,
}

async fn sum(Json(Terms { terms }): Json<Terms>) -> Json<Sum> {
    Json(Sum { sum: terms.into_iter().fold(0, i64::wrapping_add) })
}

/// Sends the content of a request back as it arrives, with its trailers.
async fn echo(body: Body) -> Body {
    body
}

/// Sends events (SSE).
async fn count() -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    Sse::new(stream::iter((1..=3).map(|number| Ok(Event::default().data(number.to_string())))))
}

/// Sends content and a trailer section.
async fn trailers() -> Response {
    let mut fields = HeaderMap::new();
    fields.insert("x-status", HeaderValue::from_static("complete"));
    let frames = [Frame::data(Bytes::from("content")), Frame::trailers(fields)];
    let frames = stream::iter(frames.into_iter().map(Ok::<_, Infallible>));
    Body::new(StreamBody::new(frames)).into_response()
}

/// Sends the messages of a WebSocket back.
async fn socket(upgrade: WebSocketUpgrade) -> Response {
    upgrade.protocols(["echo"]).on_upgrade(echo_messages)
}

async fn echo_messages(mut socket: WebSocket) {
    while let Some(Ok(message)) = socket.recv().await {
        let is_content = matches!(message, Message::Text(_) | Message::Binary(_));
        if is_content && socket.send(message).await.is_err() {
            return;
        }
    }
}
