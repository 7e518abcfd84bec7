//! A server on this machine, and clients of it.

use core::convert::Infallible;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use clearway::http3::{Body, Client, Config, PROTOCOL, Server};
use clearway::rustls::RootCertStore;
use clearway::rustls::crypto::CryptoProvider;
use clearway::rustls::pki_types::PrivatePkcs8KeyDer;
use clearway::{ClientConfig, Endpoint, Identity, ServerConfig};
use clearway_tower::{RequestBody, Serve};
use http::{Request, Response, StatusCode};
use http_body::Frame;
use tokio::task::JoinHandle;
use tower::Service;

/// Bound on the time of a test, except on machines that are very busy.
const BOUND: Duration = Duration::from_secs(60);

pub(crate) type Error = Box<dyn core::error::Error + Send + Sync>;

/// Waits for `future`, but not forever.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(BOUND, future).await.expect("takes too long")
}

/// Waits until `condition` applies, but not forever.
pub(crate) async fn until(condition: impl Fn() -> bool) {
    within(async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// A server with a certificate for `localhost`, and the configuration of its clients.
pub(crate) struct Site {
    pub(crate) server: Arc<Server>,
    pub(crate) config: ServerConfig,
    pub(crate) client_config: ClientConfig,
    /// The roots that the clients trust.
    pub(crate) roots: Arc<RootCertStore>,
}

impl Site {
    pub(crate) fn new() -> Self {
        let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
        let root = certified.cert.der().clone();
        let mut roots = RootCertStore::empty();
        roots.add(root.clone()).unwrap();
        let identity = Identity::from_der(vec![root], key.into()).unwrap();
        let config = ServerConfig::with_identity(identity).early_data(true);
        let http3 = Config { extended_connect: true, ..Config::default() };
        let address = "127.0.0.1:0".parse().unwrap();
        let server = Arc::new(Server::bind_with(address, config.clone(), http3).unwrap());
        let roots = Arc::new(roots);
        let client_config =
            ClientConfig::with_roots((*roots).clone()).application_protocols([PROTOCOL]);
        Self { server, config, client_config, roots }
    }

    /// Serves in the background.
    pub(crate) fn run<S, B>(&self, serve: Serve<S>) -> JoinHandle<()>
    where
        S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
        S::Error: Into<Error>,
        S::Future: Send,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Error>,
    {
        let server = self.server.clone();
        tokio::spawn(async move { serve.run(&server).await })
    }

    pub(crate) async fn client(&self) -> Client {
        self.client_with(&self.client_config).await
    }

    pub(crate) async fn client_with(&self, config: &ClientConfig) -> Client {
        within(self.connect(self.endpoint(), config.clone())).await
    }

    /// Creates an endpoint for clients.
    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap()
    }

    /// Connects to the server.
    pub(crate) fn connect(
        &self,
        endpoint: Endpoint,
        config: ClientConfig,
    ) -> impl Future<Output = Client> + Send + use<> {
        let address = self.server.local_address();
        async move { Client::connect(&endpoint, &config, address, "localhost").await.unwrap() }
    }
}

/// Returns the cryptographic library of clients over TCP.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    #[cfg(feature = "aws-lc-rs")]
    return Arc::new(clearway::rustls::crypto::aws_lc_rs::default_provider());
    #[cfg(not(feature = "aws-lc-rs"))]
    return Arc::new(clearway::rustls::crypto::ring::default_provider());
}

pub(crate) fn get(path: &str) -> Request<Body> {
    Request::get(format!("https://localhost{path}")).body(Body::empty()).unwrap()
}

/// Requests `path`, and returns the status and the content.
pub(crate) async fn fetch(
    client: &Client,
    path: &str,
) -> Result<(StatusCode, Bytes), clearway::http3::Error> {
    let mut response = within(client.send(get(path))).await?;
    let content = within(response.body_mut().bytes(1 << 20)).await?;
    Ok((response.status(), content))
}

/// Returns a response with this content.
pub(crate) fn text(content: impl Into<Bytes>) -> Result<Response<Body>, Infallible> {
    Ok(Response::new(Body::full(content)))
}

/// A body of these frames.
pub(crate) struct Frames(pub(crate) Vec<Result<Frame<Bytes>, Error>>);

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let is_over = self.0.is_empty();
        Poll::Ready((!is_over).then(|| self.0.remove(0)))
    }
}
