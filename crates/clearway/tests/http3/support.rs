use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clearway::http3::{Body, Client, PROTOCOL, RecvBody, Responder, Server};
use clearway::rustls::RootCertStore;
use clearway::rustls::pki_types::PrivatePkcs8KeyDer;
use clearway::{ClientConfig, Connection, Endpoint, ServerConfig, TransportConfig};
use http::{Request, Response};

/// Runs a test, which fails if it takes too long.
pub(crate) fn run<F: Future<Output = ()>>(test: F) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let outcome = runtime.block_on(async { tokio::time::timeout(LIMIT, test).await });
    outcome.expect("the test takes too long");
}

const LIMIT: Duration = Duration::from_secs(20);

pub(crate) fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// Returns the configurations of a server and of its clients.
pub(crate) fn configs(transport: TransportConfig) -> (ServerConfig, ClientConfig) {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let mut roots = RootCertStore::empty();
    roots.add(certified.cert.der().clone()).unwrap();
    let server = ServerConfig::new(vec![certified.cert.into()], key.into())
        .application_protocols([PROTOCOL])
        .transport(transport.clone());
    let client =
        ClientConfig::with_roots(roots).application_protocols([PROTOCOL]).transport(transport);
    (server, client)
}

pub(crate) struct Pair {
    pub(crate) server: Arc<Server>,
    pub(crate) endpoint: Endpoint,
    pub(crate) config: ClientConfig,
}

impl Pair {
    pub(crate) fn new() -> Self {
        Self::with(TransportConfig::default())
    }

    pub(crate) fn with(transport: TransportConfig) -> Self {
        let (server, config) = configs(transport);
        let server = Arc::new(Server::bind(loopback(), server).unwrap());
        Self { server, endpoint: Endpoint::client(loopback()).unwrap(), config }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.local_address()
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(&self.endpoint, &self.config, self.address(), "localhost").await.unwrap()
    }

    /// Returns a QUIC connection on which a test can send any bytes.
    pub(crate) async fn raw_client(&self) -> Connection {
        let connecting =
            self.endpoint.connect_with(&self.config, self.address(), "localhost").unwrap();
        connecting.await.unwrap()
    }

    /// Makes the server respond with `service`.
    pub(crate) fn serve<S, F, B>(&self, service: S)
    where
        S: Fn(Request<RecvBody>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Into<Body> + Send + 'static,
    {
        let server = self.server.clone();
        tokio::spawn(async move { server.serve(service).await });
    }

    /// Accepts a client's request, with its responder.
    pub(crate) async fn accept(&self) -> (Request<RecvBody>, Responder) {
        self.server.accept().await.expect("the server is open")
    }
}

pub(crate) fn get(path: &str) -> Request<Body> {
    request("GET", path, Body::empty())
}

pub(crate) fn post(path: &str, body: impl Into<Body>) -> Request<Body> {
    request("POST", path, body)
}

pub(crate) fn request(method: &str, path: &str, body: impl Into<Body>) -> Request<Body> {
    let uri = format!("https://localhost{path}");
    Request::builder().method(method).uri(uri).body(body.into()).unwrap()
}

/// Returns pseudorandom bytes.
pub(crate) fn pattern(length: usize) -> Bytes {
    let mut state = 1_u64;
    let words = (0..length.div_ceil(8)).flat_map(|_| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_le_bytes()
    });
    words.take(length).collect::<Vec<u8>>().into()
}

/// Returns a transport with small buffers, so that almost all buffering is done by this crate.
pub(crate) fn small_windows() -> TransportConfig {
    TransportConfig::builder()
        .initial_stream_receive_window(64 << 10)
        .max_stream_receive_window(64 << 10)
        .send_buffer(64 << 10)
        .build()
        .unwrap()
}
