//! The tests' adapter for h3 over quinn.

use core::net::SocketAddr;
use core::time::Duration;
use std::sync::Arc;

use clearway::rustls::RootCertStore;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::rustls::crypto::aws_lc_rs;
use quinn::{ClientConfig, Endpoint, ServerConfig, TransportConfig};

use crate::backend::{Backend, PROTOCOL};
use crate::support::{Identity, identity, loopback};

pub(crate) struct Quinn {
    server: Endpoint,
    client: Endpoint,
}

impl Quinn {
    fn with(transport: TransportConfig) -> Self {
        let identity = identity();
        let mut roots = RootCertStore::empty();
        roots.add(identity.certificate.clone()).unwrap();
        let transport = Arc::new(transport);
        let mut config = server_config(identity);
        config.transport_config(transport.clone());
        let server = Endpoint::server(config, loopback()).unwrap();
        let mut config = client_config(roots);
        config.transport_config(transport);
        let mut client = Endpoint::client(loopback()).unwrap();
        client.set_default_client_config(config);
        Self { server, client }
    }
}

fn server_config(identity: Identity) -> ServerConfig {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut tls = quinn::rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&quinn::rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![identity.certificate], identity.key)
        .unwrap();
    tls.alpn_protocols = vec![PROTOCOL.into()];
    ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).unwrap()))
}

fn client_config(roots: RootCertStore) -> ClientConfig {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut tls = quinn::rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&quinn::rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![PROTOCOL.into()];
    ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()))
}

impl Backend for Quinn {
    type Connection = h3_quinn::Connection;

    fn new(idle_timeout: Duration) -> Self {
        let mut transport = TransportConfig::default();
        transport.max_idle_timeout(Some(idle_timeout.try_into().unwrap()));
        Self::with(transport)
    }

    fn server_address(&self) -> SocketAddr {
        self.server.local_addr().unwrap()
    }

    async fn connect(&self) -> Self::Connection {
        let connecting = self.client.connect(self.server_address(), "localhost");
        h3_quinn::Connection::new(connecting.unwrap().await.unwrap())
    }

    async fn accept(&self) -> Self::Connection {
        h3_quinn::Connection::new(self.server.accept().await.unwrap().await.unwrap())
    }
}
