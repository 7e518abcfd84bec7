//! A server and a client on loopback.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use clearway::rustls::RootCertStore;
use clearway::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use clearway::{ClientConfig, Connection, Endpoint, ServerConfig, TransportConfig, VarInt};

pub(crate) const LOOPBACK: &str = "127.0.0.1:0";
pub(crate) const PROTOCOL: &str = "test";

pub(crate) struct Identity {
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) key: PrivateKeyDer<'static>,
}

pub(crate) fn identity() -> Identity {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    Identity { certificate: certified.cert.into(), key: key.into() }
}

pub(crate) struct Pair {
    pub(crate) server: Endpoint,
    pub(crate) client: Endpoint,
    pub(crate) config: ClientConfig,
}

impl Pair {
    pub(crate) fn new() -> Self {
        Self::with(TransportConfig::default(), |server| server)
    }

    pub(crate) fn with(
        transport: TransportConfig,
        adapt: impl FnOnce(ServerConfig) -> ServerConfig,
    ) -> Self {
        let identity = identity();
        let mut roots = RootCertStore::empty();
        roots.add(identity.certificate.clone()).unwrap();
        let server = ServerConfig::new(vec![identity.certificate], identity.key)
            .application_protocols([PROTOCOL])
            .transport(transport.clone());
        let server = Endpoint::server(loopback(), adapt(server)).unwrap();
        let client = Endpoint::client(loopback()).unwrap();
        let config =
            ClientConfig::with_roots(roots).application_protocols([PROTOCOL]).transport(transport);
        Self { server, client, config }
    }

    pub(crate) fn connecting(&self) -> clearway::Connecting {
        self.client.connect_with(&self.config, self.server.local_address(), "localhost").unwrap()
    }

    /// Returns both ends of a new connection: the client's and the server's.
    pub(crate) async fn connect(&self) -> (Connection, Connection) {
        let (client, server) =
            tokio::join!(self.connecting(), async { self.server.accept().await.unwrap().await });
        (client.unwrap(), server.unwrap())
    }
}

pub(crate) fn loopback() -> SocketAddr {
    LOOPBACK.parse().unwrap()
}

pub(crate) fn code(value: u32) -> VarInt {
    VarInt::from_u32(value)
}

/// Runs a test on several threads; it fails if it takes too long.
pub(crate) fn run<F: Future<Output = ()>>(test: F) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(15), test).await.expect("the test hangs")
    });
}

/// Returns bytes that depend on their offset.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 + at / 251) as u8).collect()
}
