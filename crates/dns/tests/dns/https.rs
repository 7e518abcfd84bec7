//! DNS over HTTP/3 (RFC 8484).

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clearway::http3::{self, Body, Client};
use clearway::{ClientConfig, Endpoint};
use clearway_dns::hickory_proto::op::Message;
use clearway_dns::{Request as Query, Server};
use http::{Method, Request, StatusCode};

use crate::support::{Site, address, loopback, query};

const MEDIA_TYPE: &str = "application/dns-message";

/// Starts a server, and returns a client connected to it.
async fn begin() -> (Client, Arc<http3::Server>) {
    let site = Site::new();
    let server = Arc::new(http3::Server::bind(loopback(), site.server()).unwrap());
    let serving = server.clone();
    tokio::spawn(async move {
        let dns = Server::new(|query: Query| async move { address(&query) });
        dns.serve_https(&serving).await;
    });
    let endpoint = Endpoint::client(loopback()).unwrap();
    let config = ClientConfig::with_roots(site.roots()).application_protocols([http3::PROTOCOL]);
    let client = Client::connect(&endpoint, &config, server.local_address(), "localhost").await;
    (client.unwrap(), server)
}

fn request(method: Method, path: &str, kind: &str, content: Vec<u8>) -> Request<Body> {
    let request = Request::builder().method(method).uri(format!("https://localhost{path}"));
    request.header("content-type", kind).body(content.into()).unwrap()
}

#[tokio::test]
async fn get_and_post_are_answered() {
    let (client, _server) = begin().await;
    let octets = query("www.example.").to_vec().unwrap();
    let id = u16::from_be_bytes([octets[0], octets[1]]);
    let path = format!("/dns-query?dns={}", URL_SAFE_NO_PAD.encode(&octets));
    let get = Request::get(format!("https://localhost{path}")).body(Body::empty()).unwrap();
    for request in [get, request(Method::POST, "/dns-query", MEDIA_TYPE, octets)] {
        let response = client.send(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], MEDIA_TYPE);
        assert_eq!(response.headers()["cache-control"], "max-age=60");
        let octets = response.into_body().bytes(70_000).await.unwrap();
        assert_eq!(octets.len(), 468);
        let message = Message::from_vec(&octets).unwrap();
        assert_eq!((message.metadata.id, message.answers.len()), (id, 1));
    }
}

#[tokio::test]
async fn other_requests_are_refused() {
    let (client, _server) = begin().await;
    let octets = query("www.example.").to_vec().unwrap();
    for (method, path, kind, content, expected) in [
        (Method::POST, "/", MEDIA_TYPE, octets.clone(), StatusCode::NOT_FOUND),
        (Method::PUT, "/dns-query", MEDIA_TYPE, octets.clone(), StatusCode::METHOD_NOT_ALLOWED),
        (Method::POST, "/dns-query", "text/plain", octets, StatusCode::UNSUPPORTED_MEDIA_TYPE),
        (Method::POST, "/dns-query", MEDIA_TYPE, vec![0; 4097], StatusCode::PAYLOAD_TOO_LARGE),
        (Method::POST, "/dns-query", MEDIA_TYPE, vec![1, 2], StatusCode::BAD_REQUEST),
        (Method::GET, "/dns-query", MEDIA_TYPE, vec![], StatusCode::BAD_REQUEST),
        (Method::GET, "/dns-query?dns=AAA", MEDIA_TYPE, vec![], StatusCode::BAD_REQUEST),
    ] {
        let response = client.send(request(method, path, kind, content)).await.unwrap();
        assert_eq!(response.status(), expected, "{path}");
    }
}
