use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use clearway::{ClientConfig, Endpoint};
use tokio::sync::Semaphore;
use tokio_rustls::TlsConnector;

/// The configuration and the sockets of links.
pub(crate) struct Dialer {
    pub(crate) quic: ClientConfig,
    pub(crate) tls: TlsConnector,
    endpoints: Mutex<Endpoints>,
    /// Permits for sockets: each query over UDP has its own.
    pub(crate) sockets: Arc<Semaphore>,
}

/// The endpoints of QUIC connections, created when they are needed: a host may have no IPv6.
#[derive(Default)]
struct Endpoints {
    v4: Option<Endpoint>,
    v6: Option<Endpoint>,
}

impl Dialer {
    pub(crate) fn new(
        quic: ClientConfig,
        tls: Arc<clearway::rustls::ClientConfig>,
        max_sockets: usize,
    ) -> Self {
        let sockets = Arc::new(Semaphore::new(max_sockets.clamp(1, Semaphore::MAX_PERMITS)));
        Self { quic, tls: TlsConnector::from(tls), endpoints: Mutex::default(), sockets }
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
