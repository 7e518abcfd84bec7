//! Tests of the router over HTTP/3.

use std::io::Read;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ConnectInfo;
use bytes::Bytes;
use clearway::http3::{Body, Client, PROTOCOL, Protocol, RecvBody, Server};
use clearway::rustls::RootCertStore;
use clearway::{ClientConfig, Endpoint, ServerConfig};
use clearway_tower::Serve;
use futures_util::{SinkExt, StreamExt};
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, ORIGIN};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::{http3, router, self_signed};

/// Bound on the time of each step, except on machines that are very busy.
const BOUND: Duration = Duration::from_secs(60);

/// Limit on the time until a response begins: only one request needs more.
const TIMEOUT: Duration = Duration::from_secs(2);

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(BOUND, future).await.expect("takes too long")
}

/// Serves the router, and connects to it.
async fn site() -> (Arc<Server>, JoinHandle<()>, Client) {
    let identity = self_signed().unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(identity.chain()[0].clone()).unwrap();
    let any = "127.0.0.1:0".parse().unwrap();
    let server =
        Arc::new(Server::bind_with(any, ServerConfig::with_identity(identity), http3()).unwrap());
    let serving = {
        let server = server.clone();
        let serve = Serve::new(router::router(TIMEOUT)).connect_info(ConnectInfo::<SocketAddr>);
        tokio::spawn(async move { serve.run(&server).await })
    };
    let config = ClientConfig::with_roots(roots).application_protocols([PROTOCOL]);
    let endpoint = Endpoint::client(any).unwrap();
    let connecting = Client::connect(&endpoint, &config, server.local_address(), "localhost");
    let client = within(connecting).await.unwrap();
    (server, serving, client)
}

fn request(method: Method, path: &str) -> http::request::Builder {
    Request::builder().method(method).uri(format!("https://localhost{path}"))
}

async fn send(client: &Client, request: Request<Body>) -> Response<RecvBody> {
    within(client.send(request)).await.unwrap()
}

async fn get(client: &Client, path: &str) -> (StatusCode, Bytes) {
    let mut response = send(client, request(Method::GET, path).body(Body::empty()).unwrap()).await;
    let content = within(response.body_mut().bytes(1 << 20)).await.unwrap();
    (response.status(), content)
}

#[tokio::test]
async fn the_extractors_work() {
    let (_server, _serving, client) = site().await;
    assert_eq!(get(&client, "/hello/axum").await, (StatusCode::OK, "Hello axum".into()));
    let (_, address) = get(&client, "/address").await;
    let address: SocketAddr = std::str::from_utf8(&address).unwrap().parse().unwrap();
    assert!(address.ip().is_loopback());
    let sum = request(Method::POST, "/sum").header(CONTENT_TYPE, "application/json");
    let mut response = send(&client, sum.body(r#"{"terms":[1,2,39]}"#.into()).unwrap()).await;
    let content = within(response.body_mut().bytes(100)).await.unwrap();
    let sum: serde_json::Value = serde_json::from_slice(&content).unwrap();
    assert_eq!(sum["sum"], 42);
    assert_eq!(get(&client, "/missing").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn bodies_stream_with_trailers_and_events() {
    let (_server, _serving, client) = site().await;
    let (mut send, pending) =
        client.open(request(Method::POST, "/echo").body(()).unwrap()).unwrap();
    let mut response = within(pending.response()).await.unwrap();
    for part in ["first", "second"] {
        within(send.write_chunk(part)).await.unwrap();
        assert_eq!(within(response.body_mut().chunk()).await.unwrap().unwrap(), part);
    }
    let trailers = HeaderMap::from_iter([("x-sum".parse().unwrap(), "11".parse().unwrap())]);
    within(send.finish_with_trailers(trailers.clone())).await.unwrap();
    assert_eq!(within(response.body_mut().trailers()).await.unwrap(), Some(trailers));

    let mut response =
        self::send(&client, request(Method::GET, "/trailers").body(Body::empty()).unwrap()).await;
    let trailers = within(response.body_mut().trailers()).await.unwrap().unwrap();
    assert_eq!(trailers["x-status"], "complete");
    let (_, events) = get(&client, "/count").await;
    assert_eq!(events, "data: 1\n\ndata: 2\n\ndata: 3\n\n");
}

#[tokio::test]
async fn the_layers_of_tower_http_work() {
    let (_server, _serving, client) = site().await;
    let hello = request(Method::GET, "/hello/compression-of-a-long-name-that-is-worth-it")
        .header(ACCEPT_ENCODING, "gzip")
        .header(ORIGIN, "https://example.org");
    let mut response = send(&client, hello.body(Body::empty()).unwrap()).await;
    assert_eq!(response.headers()["access-control-allow-origin"], "*");
    assert_eq!(response.headers()[CONTENT_ENCODING], "gzip");
    let content = within(response.body_mut().bytes(1000)).await.unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(&content[..]).read_to_string(&mut text).unwrap();
    assert_eq!(text, "Hello compression-of-a-long-name-that-is-worth-it");

    let large = request(Method::POST, "/sum").header(CONTENT_TYPE, "application/json");
    let response = send(&client, large.body(vec![b' '; 2 << 20].into()).unwrap()).await;
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(get(&client, "/slow").await.0, StatusCode::GATEWAY_TIMEOUT);
}

#[tokio::test]
async fn a_websocket_echoes_messages_and_ends_in_order() {
    let (_server, _serving, client) = site().await;
    let connect = request(Method::CONNECT, "/socket")
        .extension(Protocol::new("websocket").unwrap())
        .header("sec-websocket-version", "13")
        .header("sec-websocket-protocol", "other, echo");
    let (send, pending) = client.open(connect.body(()).unwrap()).unwrap();
    let response = within(pending.response()).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["sec-websocket-protocol"], "echo");
    let stream = tokio::io::join(response.into_body(), send);
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Client, None).await;
    for message in [Message::text("text"), Message::binary(vec![7; 100_000])] {
        within(socket.send(message.clone())).await.unwrap();
        assert_eq!(within(socket.next()).await.unwrap().unwrap(), message);
    }
    within(socket.close(None)).await.unwrap();
    assert!(matches!(within(socket.next()).await, Some(Ok(Message::Close(_)))));
    assert!(within(socket.next()).await.is_none());
}

#[tokio::test]
async fn shutting_down_ends_the_program() {
    let (server, serving, client) = site().await;
    assert_eq!(get(&client, "/hello/axum").await.0, StatusCode::OK);
    within(server.shutdown()).await;
    within(serving).await.unwrap();
}
