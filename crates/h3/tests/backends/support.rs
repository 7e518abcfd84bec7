//! What the tests share: certificates, a runtime, and small steps of clients and servers.

use core::future::{Future, poll_fn};
use core::net::SocketAddr;
use core::task::Poll;
use core::time::Duration;

use bytes::{Buf, Bytes};
use clearway::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use h3::client::SendRequest;
use h3::error::{Code, ConnectionError, LocalError, StreamError};
use h3::quic::{ConnectionErrorIncoming, OpenStreams, RecvStream, SendStream};
use h3::{ConnectionState, client, quic, server};
use http::{Request, Response, StatusCode};

pub(crate) const URI: &str = "https://localhost/";

pub(crate) struct Identity {
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) key: PrivateKeyDer<'static>,
}

pub(crate) fn identity() -> Identity {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    Identity { certificate: certified.cert.into(), key: key.into() }
}

pub(crate) fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// Runs a test on several threads; it fails if it takes too long.
pub(crate) fn run<F: Future<Output = ()>>(test: F) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(20), test).await.expect("the test hangs")
    });
}

/// Drives a client's connection until it ends, and returns the reason.
pub(crate) async fn drive<C>(mut driver: client::Connection<C, Bytes>) -> ConnectionError
where
    C: quic::Connection<Bytes>,
{
    poll_fn(|context| driver.poll_close(context)).await
}

/// Sends the header section of a GET request.
pub(crate) async fn send_get<O>(
    client: &mut SendRequest<O, Bytes>,
) -> Result<client::RequestStream<O::BidiStream, Bytes>, StreamError>
where
    O: OpenStreams<Bytes>,
{
    client.send_request(Request::get(URI).body(()).unwrap()).await
}

/// Receives a response's header section, and the rest of the stream.
pub(crate) async fn response<S>(
    stream: &mut client::RequestStream<S, Bytes>,
) -> Result<Response<()>, StreamError>
where
    S: RecvStream,
{
    let response = stream.recv_response().await?;
    while stream.recv_data().await?.is_some() {}
    Ok(response)
}

/// Drives a client's connection until it has the server's settings, which enable datagrams.
pub(crate) async fn client_settings<C>(
    driver: &mut client::Connection<C, Bytes>,
    client: &SendRequest<C::OpenStreams, Bytes>,
) where
    C: quic::Connection<Bytes>,
{
    poll_fn(|context| {
        assert!(driver.poll_close(context).is_pending());
        if client.settings().enable_datagram() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Drives a server's connection until it has the client's settings, which enable datagrams. No
/// request may arrive.
pub(crate) async fn server_settings<C>(server: &mut server::Connection<C, Bytes>)
where
    C: quic::Connection<Bytes>,
{
    poll_fn(|context| {
        assert!(server.poll_accept_request_stream(context).is_pending());
        if server.settings().enable_datagram() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Makes a GET request without content, and receives the response.
pub(crate) async fn get<O>(client: &mut SendRequest<O, Bytes>) -> Result<Response<()>, StreamError>
where
    O: OpenStreams<Bytes>,
{
    response(&mut send_get(client).await?).await
}

/// Waits for a server's next request, and for its header section.
pub(crate) async fn next_request<C>(
    server: &mut server::Connection<C, Bytes>,
) -> (Request<()>, server::RequestStream<C::BidiStream, Bytes>)
where
    C: quic::Connection<Bytes>,
{
    let resolver = server.accept().await.unwrap().expect("a request");
    resolver.resolve_request().await.unwrap()
}

/// Sends a response without content, and ends the stream.
pub(crate) async fn respond<S>(stream: &mut server::RequestStream<S, Bytes>)
where
    S: RecvStream + SendStream<Bytes>,
{
    let response = Response::builder().status(StatusCode::IM_A_TEAPOT).body(()).unwrap();
    stream.send_response(response).await.unwrap();
    stream.finish().await.unwrap();
}

/// Reads the content of a server's request to its end.
pub(crate) async fn content<S>(stream: &mut server::RequestStream<S, Bytes>) -> Vec<u8>
where
    S: RecvStream,
{
    let mut content = Vec::new();
    while let Some(piece) = stream.recv_data().await.unwrap() {
        extend(&mut content, piece);
    }
    content
}

pub(crate) fn extend(content: &mut Vec<u8>, mut piece: impl Buf) {
    content.extend_from_slice(&piece.copy_to_bytes(piece.remaining()));
}

/// Asserts that this endpoint closed the connection with `code`.
#[track_caller]
pub(crate) fn assert_closed_here(error: &ConnectionError, code: Code) {
    let ConnectionError::Local { error: LocalError::Application { code: actual, .. } } = error
    else {
        panic!("{error:?}")
    };
    assert_eq!(*actual, code);
}

/// Asserts that the peer closed the connection with `code`.
#[track_caller]
pub(crate) fn assert_closed_by_peer(error: &ConnectionError, code: Code) {
    let ConnectionError::Remote(ConnectionErrorIncoming::ApplicationClose { error_code }) = error
    else {
        panic!("{error:?}")
    };
    assert_eq!(*error_code, code.value());
}
