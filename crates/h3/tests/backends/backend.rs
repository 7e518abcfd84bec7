//! The tests' interface to a QUIC library's adapter for h3, through which they run over several.

use core::future::Future;
use core::net::SocketAddr;
use core::time::Duration;

use bytes::Bytes;
use clearway::rustls::RootCertStore;
use clearway::{ClientConfig, Endpoint, ServerConfig, TransportConfig};
use h3::quic::{BidiStream, Connection, OpenStreams, SendStreamUnframed};
use h3_datagram::quic_traits::DatagramConnectionExt;

use crate::support::{identity, loopback};

pub(crate) const PROTOCOL: &str = "h3";

/// The idle timeout of tests in which nothing times out: longer than they may take.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A server and a client of one library on loopback.
pub(crate) trait Backend: Sized {
    type Connection: Connection<Bytes, OpenStreams: Clone>
        + OpenStreams<
            Bytes,
            SendStream: SendStreamUnframed<Bytes>,
            BidiStream: BidiStream<Bytes> + SendStreamUnframed<Bytes>,
        > + DatagramConnectionExt<Bytes>;

    fn new(idle_timeout: Duration) -> Self;
    fn server_address(&self) -> SocketAddr;
    /// Connects the client to its server.
    fn connect(&self) -> impl Future<Output = Self::Connection>;
    /// Waits for the server's next client, and for its handshake.
    fn accept(&self) -> impl Future<Output = Self::Connection>;

    /// Returns both ends of a new connection: the client's and the server's.
    fn pair(&self) -> impl Future<Output = (Self::Connection, Self::Connection)> {
        async { tokio::join!(self.connect(), self.accept()) }
    }
}

/// This library's implementation of the interface.
pub(crate) struct Clearway {
    server: Endpoint,
    client: Endpoint,
    config: ClientConfig,
}

impl Clearway {
    pub(crate) fn with(transport: TransportConfig) -> Self {
        let identity = identity();
        let mut roots = RootCertStore::empty();
        roots.add(identity.certificate.clone()).unwrap();
        let server = ServerConfig::new(vec![identity.certificate], identity.key)
            .application_protocols([PROTOCOL])
            .transport(transport.clone());
        let server = Endpoint::server(loopback(), server).unwrap();
        let client = Endpoint::client(loopback()).unwrap();
        let config =
            ClientConfig::with_roots(roots).application_protocols([PROTOCOL]).transport(transport);
        Self { server, client, config }
    }

    /// Connects the client, without h3's interface.
    pub(crate) async fn client(&self) -> clearway::Connection {
        let connecting = self.client.connect_with(&self.config, self.server_address(), "localhost");
        connecting.unwrap().await.unwrap()
    }
}

impl Backend for Clearway {
    type Connection = clearway_h3::Connection;

    fn new(idle_timeout: Duration) -> Self {
        let transport = TransportConfig::builder()
            .max_idle_timeout(Some(idle_timeout))
            .max_datagram_frame_size(Some(65_535));
        Self::with(transport.build().unwrap())
    }

    fn server_address(&self) -> SocketAddr {
        self.server.local_address()
    }

    async fn connect(&self) -> Self::Connection {
        clearway_h3::Connection::new(self.client().await)
    }

    async fn accept(&self) -> Self::Connection {
        clearway_h3::Connection::new(self.server.accept().await.unwrap().await.unwrap())
    }
}

/// Runs each test over every library.
macro_rules! over_each_backend {
    ($($(#[$attribute:meta])* $test:ident)*) => {
        mod over_clearway {
            $($(#[$attribute])* #[test] fn $test() {
                crate::support::run(super::$test::<crate::backend::Clearway>());
            })*
        }
        mod over_quinn {
            $($(#[$attribute])* #[test] fn $test() {
                crate::support::run(super::$test::<crate::quinn::Quinn>());
            })*
        }
    };
}

pub(crate) use over_each_backend;
