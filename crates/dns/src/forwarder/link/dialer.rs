use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use clearway::{ClientConfig, Endpoint};
use tokio_rustls::TlsConnector;

/// The configuration and the sockets of encrypted links.
pub(crate) struct Dialer {
    pub(crate) quic: ClientConfig,
    pub(crate) tls: TlsConnector,
    endpoints: Mutex<Endpoints>,
}

/// The endpoints of QUIC connections, created when they are needed: a host may have no IPv6.
#[derive(Default)]
struct Endpoints {
    v4: Option<Endpoint>,
    v6: Option<Endpoint>,
}

impl Dialer {
    pub(crate) fn new(quic: ClientConfig, tls: Arc<clearway::rustls::ClientConfig>) -> Self {
        Self { quic, tls: TlsConnector::from(tls), endpoints: Mutex::default() }
    }

    /// Returns the endpoint for connections to `remote`.
    pub(crate) fn endpoint(&self, remote: SocketAddr) -> io::Result<Endpoint> {
        let mut endpoints = self.endpoints.lock().unwrap_or_else(PoisonError::into_inner);
        let (endpoint, local) = match remote {
            SocketAddr::V4(_) => (&mut endpoints.v4, (Ipv4Addr::UNSPECIFIED, 0).into()),
            SocketAddr::V6(_) => (&mut endpoints.v6, (Ipv6Addr::UNSPECIFIED, 0).into()),
        };
        match endpoint {
            Some(endpoint) if endpoint.failure().is_none() => Ok(endpoint.clone()),
            _ => Ok(endpoint.insert(Endpoint::client(local)?).clone()),
        }
    }
}
