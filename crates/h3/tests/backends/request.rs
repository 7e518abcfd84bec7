//! Requests: trailers, limits on header sections, and timeouts. The cases are those of h3's own
//! tests.

use core::fmt;
use core::time::Duration;

use bytes::Bytes;
use h3::ConnectionState;
use h3::error::{Code, ConnectionError, StreamError};
use h3::{client, server};
use http::{HeaderMap, Request, Response, StatusCode};
use tokio::sync::oneshot;

use crate::backend::{Backend, LONG, over_each_backend};
use crate::support::{
    URI, assert_closed_by_peer, client_settings, content, drive, extend, next_request, response,
    send_get, server_settings,
};

over_each_backend! {
    trailers_follow_the_end_of_the_content
    trailers_are_received_without_the_end_of_the_content
    a_server_rejects_a_large_header_section
    a_server_rejects_large_trailers
    a_client_sends_no_large_header_section
    a_client_sends_no_large_trailers
    a_client_rejects_a_large_header_section
    a_client_rejects_large_trailers
    a_server_sends_no_large_header_section
    a_server_sends_no_large_trailers
    a_client_waits_for_a_response_until_the_idle_timeout
    a_client_waits_for_content_until_the_idle_timeout
    a_server_waits_for_a_request_until_the_idle_timeout
    a_server_waits_for_content_until_the_idle_timeout
}

type Server<B> = server::Connection<<B as Backend>::Connection, Bytes>;

/// The size of the response's only field, `:status: 200` (RFC 9114 §4.2.2).
const STATUS: u64 = 42;

/// The size of a GET request's fields.
const GET: u64 = 175;

fn trailers(length: usize) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert("trailer", "v".repeat(length).parse().unwrap());
    trailers
}

/// The size of trailers whose only value has this length.
const fn trailers_size(length: u64) -> u64 {
    "trailer".len() as u64 + length + 32
}

#[track_caller]
fn assert_too_big<T: fmt::Debug>(outcome: Result<T, StreamError>, actual: u64, max: u64) {
    let Err(StreamError::HeaderTooBig { actual_size, max_size }) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!((actual_size, max_size), (actual, max));
}

/// Prevents the server from receiving the client's limits: it keeps the first settings, which are
/// the default ones.
fn ignore_settings<B: Backend>(server: &Server<B>) {
    server.set_settings(server.settings().into_owned());
}

/// A server responds with content and trailers. The client reads the end of the content before the
/// trailers if `reads_end`.
async fn receive_trailers<B: Backend>(reads_end: bool) {
    let backend = B::new(LONG);
    let (client, server) = backend.pair().await;
    let client = async {
        let (driver, mut client) = client::new(client).await.unwrap();
        let exchange = async {
            let mut stream = send_get(&mut client).await.unwrap();
            stream.recv_response().await.unwrap();
            let mut body = Vec::new();
            while body.len() < 5 {
                extend(&mut body, stream.recv_data().await.unwrap().unwrap());
            }
            assert_eq!(body, b"hello");
            if reads_end {
                assert!(stream.recv_data().await.unwrap().is_none());
            }
            assert_eq!(stream.recv_trailers().await.unwrap(), Some(trailers(5)));
            drop((stream, client));
        };
        tokio::join!(drive(driver), exchange);
    };
    let server = async {
        let mut server: Server<B> = server::Connection::new(server).await.unwrap();
        let (_, mut stream) = next_request(&mut server).await;
        stream.send_response(Response::new(())).await.unwrap();
        stream.send_data(Bytes::from_static(b"hello")).await.unwrap();
        stream.send_trailers(trailers(5)).await.unwrap();
        stream.finish().await.unwrap();
        assert_closed_by_peer(&server.accept().await.err().unwrap(), Code::H3_NO_ERROR);
    };
    tokio::join!(client, server);
}

async fn trailers_follow_the_end_of_the_content<B: Backend>() {
    receive_trailers::<B>(true).await;
}

async fn trailers_are_received_without_the_end_of_the_content<B: Backend>() {
    receive_trailers::<B>(false).await;
}

async fn a_server_rejects_a_large_header_section<B: Backend>() {
    let backend = B::new(LONG);
    let (client, server) = backend.pair().await;
    let client = async {
        let (driver, mut client) = client::new(client).await.unwrap();
        // The driver receives the limit only later.
        let mut stream = send_get(&mut client).await.unwrap();
        stream.finish().await.unwrap();
        let response = response(&mut stream).await.unwrap();
        assert_eq!(response.status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
        drop((stream, client));
        drive(driver).await;
    };
    let server = async {
        let mut builder = server::builder();
        let mut server: Server<B> = builder.max_field_section_size(12).build(server).await.unwrap();
        let resolver = server.accept().await.unwrap().unwrap();
        // The first field is already larger.
        assert_too_big(resolver.resolve_request().await.map(drop), 42, 12);
        assert_closed_by_peer(&server.accept().await.err().unwrap(), Code::H3_NO_ERROR);
    };
    tokio::join!(client, server);
}

async fn a_server_rejects_large_trailers<B: Backend>() {
    let backend = B::new(LONG);
    let (client, server) = backend.pair().await;
    let client = async {
        let (driver, mut client) = client::new(client).await.unwrap();
        let request = Request::post(URI).body(()).unwrap();
        let mut stream = client.send_request(request).await.unwrap();
        stream.send_data(Bytes::from_static(b"content")).await.unwrap();
        stream.send_trailers(trailers(200)).await.unwrap();
        stream.finish().await.unwrap();
        stream.recv_response().await.unwrap_err();
        drop((stream, client));
        drive(driver).await;
    };
    let server = async {
        let mut builder = server::builder();
        let mut server: Server<B> =
            builder.max_field_section_size(207).build(server).await.unwrap();
        let (_, mut stream) = next_request(&mut server).await;
        assert_eq!(content(&mut stream).await, b"content");
        assert_too_big(stream.recv_trailers().await, trailers_size(200), 207);
        stream.stop_stream(Code::H3_REQUEST_REJECTED);
        assert_closed_by_peer(&server.accept().await.err().unwrap(), Code::H3_NO_ERROR);
    };
    tokio::join!(client, server);
}

async fn a_client_sends_no_large_header_section<B: Backend>() {
    let backend = B::new(LONG);
    let (client, server) = backend.pair().await;
    let client = async {
        let (mut driver, mut client) = client::new(client).await.unwrap();
        client_settings(&mut driver, &client).await;
        assert_too_big(send_get(&mut client).await.map(drop), GET, 12);
        assert_closed_by_peer(&drive(driver).await, Code::H3_NO_ERROR);
    };
    let server = async {
        let mut builder = server::builder();
        let builder = builder.max_field_section_size(12).enable_datagram(true);
        let mut server: Server<B> = builder.build(server).await.unwrap();
        // The client has opened the stream.
        let resolver = server.accept().await.unwrap().unwrap();
        let Err(StreamError::StreamError { code, .. }) = resolver.resolve_request().await.map(drop)
        else {
            panic!()
        };
        assert_eq!(code, Code::H3_REQUEST_INCOMPLETE);
    };
    tokio::join!(client, server);
}

async fn a_client_sends_no_large_trailers<B: Backend>() {
    let backend = B::new(LONG);
    let (client, server) = backend.pair().await;
    let client = async {
        let (mut driver, mut client) = client::new(client).await.unwrap();
        client_settings(&mut driver, &client).await;
        let mut stream = send_get(&mut client).await.unwrap();
        stream.send_data(Bytes::from_static(b"content")).await.unwrap();
        assert_too_big(stream.send_trailers(trailers(200)).await, trailers_size(200), 200);
        stream.finish().await.unwrap();
        response(&mut stream).await.unwrap();
        drop((stream, client));
        drive(driver).await;
    };
    let server = async {
        let mut builder = server::builder();
        let builder = builder.max_field_section_size(200).enable_datagram(true);
        let mut server: Server<B> = builder.build(server).await.unwrap();
        let (_, mut stream) = next_request(&mut server).await;
        assert_eq!(content(&mut stream).await, b"content");
        assert_eq!(stream.recv_trailers().await.unwrap(), None);
        stream.send_response(Response::new(())).await.unwrap();
        stream.finish().await.unwrap();
        assert_closed_by_peer(&server.accept().await.err().unwrap(), Code::H3_NO_ERROR);
    };
    tokio::join!(client, server);
}

async fn a_client_rejects_a_large_header_section<B: Backend>() {
    let backend = B::new(LONG);
    let (client, server) = backend.pair().await;
    let (canceled, is_canceled) = oneshot::channel();
    let client = async {
        let mut builder = client::builder();
        let (driver, mut client) =
            builder.max_field_section_size(12).build::<_, _, Bytes>(client).await.unwrap();
        let mut stream = send_get(&mut client).await.unwrap();
        assert_too_big(stream.recv_response().await, STATUS, 12);
        is_canceled.await.unwrap();
        drop((stream, client));
        drive(driver).await;
    };
    let server = async {
        let mut server: Server<B> = server::Connection::new(server).await.unwrap();
        ignore_settings::<B>(&server);
        let (_, mut stream) = next_request(&mut server).await;
        stream.send_response(Response::new(())).await.unwrap();
        // Flow control stops this until the client cancels the request.
        let error = loop {
            if let Err(error) = stream.send_data(Bytes::from_static(&[0; 1 << 10])).await {
                break error;
            }
        };
        let StreamError::RemoteTerminate { code } = error else { panic!("{error:?}") };
        assert_eq!(code, Code::H3_REQUEST_CANCELLED);
        canceled.send(()).unwrap();
        server.accept().await.err().unwrap();
    };
    tokio::join!(client, server);
}

async fn a_client_rejects_large_trailers<B: Backend>() {
    let backend = B::new(LONG);
    let (client, server) = backend.pair().await;
    let client = async {
        let mut builder = client::builder();
        let (driver, mut client) =
            builder.max_field_section_size(200).build::<_, _, Bytes>(client).await.unwrap();
        let mut stream = send_get(&mut client).await.unwrap();
        stream.recv_response().await.unwrap();
        let mut body = Vec::new();
        while body.len() < 7 {
            extend(&mut body, stream.recv_data().await.unwrap().unwrap());
        }
        assert_too_big(stream.recv_trailers().await, trailers_size(500), 200);
        drop((stream, client));
        drive(driver).await;
    };
    let server = async {
        let mut server: Server<B> = server::Connection::new(server).await.unwrap();
        ignore_settings::<B>(&server);
        let (_, mut stream) = next_request(&mut server).await;
        stream.send_response(Response::new(())).await.unwrap();
        stream.send_data(Bytes::from_static(b"content")).await.unwrap();
        stream.send_trailers(trailers(500)).await.unwrap();
        stream.finish().await.unwrap();
        assert_closed_by_peer(&server.accept().await.err().unwrap(), Code::H3_NO_ERROR);
    };
    tokio::join!(client, server);
}

/// A client with this limit makes a request; `respond` sends the response.
async fn with_limit<B: Backend>(limit: u64, respond: impl AsyncFnOnce(&mut ServerStream<B>)) {
    let backend = B::new(LONG);
    let (client, server) = backend.pair().await;
    let client = async {
        let mut builder = client::builder();
        let builder = builder.max_field_section_size(limit).enable_datagram(true);
        let (driver, mut client) = builder.build::<_, _, Bytes>(client).await.unwrap();
        let stream = send_get(&mut client).await.unwrap();
        assert_closed_by_peer(&drive(driver).await, Code::H3_NO_ERROR);
        drop((stream, client));
    };
    let server = async {
        let mut server: Server<B> = server::Connection::new(server).await.unwrap();
        let (_, mut stream) = next_request(&mut server).await;
        server_settings(&mut server).await;
        respond(&mut stream).await;
    };
    tokio::join!(client, server);
}

type ServerStream<B> = server::RequestStream<
    <<B as Backend>::Connection as h3::quic::OpenStreams<Bytes>>::BidiStream,
    Bytes,
>;

async fn a_server_sends_no_large_header_section<B: Backend>() {
    with_limit::<B>(12, async |stream| {
        assert_too_big(stream.send_response(Response::new(())).await, STATUS, 12);
    })
    .await;
}

async fn a_server_sends_no_large_trailers<B: Backend>() {
    with_limit::<B>(STATUS, async |stream| {
        stream.send_response(Response::new(())).await.unwrap();
        stream.send_data(Bytes::from_static(b"content")).await.unwrap();
        assert_too_big(stream.send_trailers(trailers(500)).await, trailers_size(500), STATUS);
    })
    .await;
}

/// Long enough for a handshake, and short enough to wait for.
const IDLE_TIMEOUT: Duration = Duration::from_millis(500);

#[track_caller]
fn assert_timeout<T>(outcome: Result<T, StreamError>) {
    let Err(error) = outcome else { panic!("nothing has failed") };
    let StreamError::ConnectionError(ConnectionError::Timeout) = error else { panic!("{error:?}") };
}

#[track_caller]
fn assert_connection_timeout(error: Option<ConnectionError>) {
    assert!(matches!(error, Some(ConnectionError::Timeout)), "{error:?}");
}

async fn a_client_waits_for_a_response_until_the_idle_timeout<B: Backend>() {
    let backend = B::new(IDLE_TIMEOUT);
    let (client, server) = backend.pair().await;
    let client = async {
        let (driver, mut client) = client::new(client).await.unwrap();
        let mut stream = send_get(&mut client).await.unwrap();
        let (end, response) = tokio::join!(drive(driver), stream.recv_response());
        assert_connection_timeout(Some(end));
        assert_timeout(response);
    };
    let server = async {
        let mut server: Server<B> = server::Connection::new(server).await.unwrap();
        let _request = server.accept().await.unwrap().unwrap();
        assert_connection_timeout(server.accept().await.err());
    };
    tokio::join!(client, server);
}

async fn a_client_waits_for_content_until_the_idle_timeout<B: Backend>() {
    let backend = B::new(IDLE_TIMEOUT);
    let (client, server) = backend.pair().await;
    let client = async {
        let (driver, mut client) = client::new(client).await.unwrap();
        let mut stream = send_get(&mut client).await.unwrap();
        stream.recv_response().await.unwrap();
        let (end, content) = tokio::join!(drive(driver), stream.recv_data());
        assert_connection_timeout(Some(end));
        assert_timeout(content);
    };
    let server = async {
        let mut server: Server<B> = server::Connection::new(server).await.unwrap();
        let (_, mut stream) = next_request(&mut server).await;
        stream.send_response(Response::new(())).await.unwrap();
        assert_connection_timeout(server.accept().await.err());
    };
    tokio::join!(client, server);
}

async fn a_server_waits_for_a_request_until_the_idle_timeout<B: Backend>() {
    let backend = B::new(IDLE_TIMEOUT);
    let (client, server) = backend.pair().await;
    let client = async {
        let (driver, _client) = client::new(client).await.unwrap();
        assert_connection_timeout(Some(drive(driver).await));
    };
    let server = async {
        let mut server: Server<B> = server::Connection::new(server).await.unwrap();
        assert_connection_timeout(server.accept().await.err());
    };
    tokio::join!(client, server);
}

async fn a_server_waits_for_content_until_the_idle_timeout<B: Backend>() {
    let backend = B::new(IDLE_TIMEOUT);
    let (client, server) = backend.pair().await;
    let client = async {
        let (driver, mut client) = client::new(client).await.unwrap();
        let request = Request::post(URI).body(()).unwrap();
        let _stream = client.send_request(request).await.unwrap();
        assert_connection_timeout(Some(drive(driver).await));
    };
    let server = async {
        let mut server: Server<B> = server::Connection::new(server).await.unwrap();
        let (_, mut stream) = next_request(&mut server).await;
        assert_timeout(stream.recv_data().await);
    };
    tokio::join!(client, server);
}
