//! The contract tests' adapter for quinn.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clearway::rustls::RootCertStore;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::rustls::crypto::aws_lc_rs;
use quinn::{ConnectionError, Endpoint, VarInt};

use crate::stack::{End, Stack};
use crate::support::{PROTOCOL, identity, loopback};

pub(crate) struct Quinn {
    server: Endpoint,
    client: Endpoint,
}

impl From<ConnectionError> for End {
    fn from(error: ConnectionError) -> Self {
        match error {
            ConnectionError::ApplicationClosed(close) => {
                Self::ByPeer(close.error_code.into_inner(), close.reason.to_vec())
            }
            other => Self::Other(other.to_string()),
        }
    }
}

impl Stack for Quinn {
    type Connecting = quinn::Connecting;
    type Connection = quinn::Connection;
    type Sending = quinn::SendStream;
    type Receiving = quinn::RecvStream;

    fn new(idle_timeout: Duration) -> Self {
        let identity = identity();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let protocols = vec![PROTOCOL.as_bytes().to_vec()];
        let mut transport = quinn::TransportConfig::default();
        transport.max_idle_timeout(Some(idle_timeout.try_into().unwrap()));
        let transport = Arc::new(transport);

        let mut roots = RootCertStore::empty();
        roots.add(identity.certificate.clone()).unwrap();
        let mut tls = quinn::rustls::ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&quinn::rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![identity.certificate], identity.key)
            .unwrap();
        tls.alpn_protocols.clone_from(&protocols);
        let tls = QuicServerConfig::try_from(tls).unwrap();
        let mut config = quinn::ServerConfig::with_crypto(Arc::new(tls));
        config.transport_config(transport.clone());
        let server = Endpoint::server(config, loopback()).unwrap();

        let mut tls = quinn::rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&quinn::rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = protocols;
        let mut config =
            quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
        config.transport_config(transport);
        let mut client = Endpoint::client(loopback()).unwrap();
        client.set_default_client_config(config);
        Self { server, client }
    }

    fn server_address(&self) -> SocketAddr {
        self.server.local_addr().unwrap()
    }

    fn begin(&self, remote: SocketAddr) -> Self::Connecting {
        self.client.connect(remote, "localhost").unwrap()
    }

    async fn accept(&self) -> Self::Connecting {
        self.server.accept().await.unwrap().accept().unwrap()
    }

    async fn establish(it: Self::Connecting) -> Result<Self::Connection, End> {
        Ok(it.await?)
    }

    async fn client_is_idle(&self) {
        self.client.wait_idle().await;
    }

    async fn open(it: &Self::Connection) -> Self::Sending {
        it.open_uni().await.unwrap()
    }

    async fn write(it: &mut Self::Sending, data: &[u8]) {
        it.write_all(data).await.unwrap();
        it.finish().unwrap();
    }

    async fn is_delivered(it: &mut Self::Sending) -> bool {
        it.stopped().await == Ok(None)
    }

    async fn next(it: &Self::Connection) -> Result<Self::Receiving, End> {
        Ok(it.accept_uni().await?)
    }

    async fn read(it: &mut Self::Receiving) -> Result<Vec<u8>, String> {
        it.read_to_end(1 << 20).await.map_err(|error| error.to_string())
    }

    fn send_datagram(it: &Self::Connection, data: &'static [u8]) {
        it.send_datagram(Bytes::from_static(data)).unwrap();
    }

    async fn datagram(it: &Self::Connection) -> Result<Bytes, End> {
        Ok(it.read_datagram().await?)
    }

    fn close(it: &Self::Connection, code: u32, reason: &[u8]) {
        it.close(VarInt::from_u32(code), reason);
    }

    async fn closed(it: &Self::Connection) -> End {
        it.closed().await.into()
    }
}
