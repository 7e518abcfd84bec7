//! The configuration of clients and servers.

use core::time::Duration;
use std::sync::{Arc, OnceLock};

use clearway_transport::{
    ClientSessions, MemorySessionStore, ServerSessions, SessionStore, TicketKeys, TlsClientConfig,
    TlsServerConfig, TransportConfig,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{RootCertStore, SupportedCipherSuite};

use crate::error::ConfigError;
use crate::observe::{ObserverFactory, Observers};

/// A client's configuration. TLS sessions are resumed only between connections with the same configuration or clones of
/// it, so keep it.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    trust: Trust,
    protocols: Vec<Vec<u8>>,
    /// `None` for the default.
    cipher_suites: Option<Vec<SupportedCipherSuite>>,
    logs_keys: bool,
    token: Vec<u8>,
    pub(crate) early_data: bool,
    /// `None` for sessions and tokens in memory.
    store: Option<Arc<dyn SessionStore>>,
    pub(crate) transport: Arc<TransportConfig>,
    pub(crate) observers: Observers,
    /// Built from the other fields when it is first needed.
    sessions: OnceLock<Arc<dyn ClientSessions>>,
}

#[derive(Clone, Debug)]
enum Trust {
    Roots(Arc<RootCertStore>),
    Anyone,
    Sessions(Arc<dyn ClientSessions>),
}

impl ClientConfig {
    /// Trusts servers whose certificate chains end at one of `roots`.
    pub fn with_roots(roots: RootCertStore) -> Self {
        Self::new(Trust::Roots(Arc::new(roots)))
    }

    /// Trusts the servers that the platform trusts.
    ///
    /// # Errors
    /// If no root certificates of the platform are found.
    pub fn with_native_roots() -> Result<Self, ConfigError> {
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            let why = found.errors.into_iter().next();
            return Err(ConfigError::NoNativeRoots(why.map(|error| Arc::new(error) as _)));
        }
        Ok(Self::with_roots(roots))
    }

    /// Does not verify the server's certificate: anyone on the path can read and change everything. For tests and
    /// measurements only.
    pub fn dangerous_without_certificate_verification() -> Self {
        Self::new(Trust::Anyone)
    }

    /// Leaves TLS to `sessions`. The methods of this type that concern TLS then have no effect.
    pub fn with_sessions(sessions: Arc<dyn ClientSessions>) -> Self {
        Self::new(Trust::Sessions(sessions))
    }

    fn new(trust: Trust) -> Self {
        Self {
            trust,
            protocols: Vec::new(),
            cipher_suites: None,
            logs_keys: false,
            token: Vec::new(),
            early_data: false,
            store: None,
            transport: Arc::default(),
            observers: Observers::default(),
            sessions: OnceLock::new(),
        }
    }

    /// The application protocols (ALPN) to offer, the preferred one first. At least one is required
    /// (RFC 9001 §8.1).
    pub fn application_protocols(
        mut self,
        protocols: impl IntoIterator<Item = impl AsRef<[u8]>>,
    ) -> Self {
        self.protocols = owned(protocols);
        self.sessions = OnceLock::new();
        self
    }

    /// The cipher suites to offer, the preferred one first. By default TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384 and
    /// TLS_CHACHA20_POLY1305_SHA256. A client that does not verify certificates always offers these.
    pub fn cipher_suites(
        mut self,
        cipher_suites: impl IntoIterator<Item = SupportedCipherSuite>,
    ) -> Self {
        self.cipher_suites = Some(cipher_suites.into_iter().collect());
        self.sessions = OnceLock::new();
        self
    }

    /// The transport's settings.
    pub fn transport(mut self, transport: TransportConfig) -> Self {
        self.transport = Arc::new(transport);
        self
    }

    /// Appends the secrets of every connection to the file that the environment variable
    /// `SSLKEYLOGFILE` names, if it is set: anyone who has that file can decrypt the connections. If the file does
    /// not exist, it is created so that only this user may read it.
    pub fn key_log_from_environment(mut self) -> Self {
        self.logs_keys = true;
        self.sessions = OnceLock::new();
        self
    }

    /// Whether early data may be sent on a connection that resumes a session, before the handshake is complete (RFC 9001
    /// §4.6); not by default. Someone on the path can have the server process it more than once, so it has to be harmless
    /// then. An HTTP/3 client sends only requests with safe methods early; of raw streams, see
    /// [`Connecting::into_0rtt`](crate::Connecting::into_0rtt).
    pub fn early_data(mut self, offers: bool) -> Self {
        self.early_data = offers;
        self.sessions = OnceLock::new();
        self
    }

    /// Keeps TLS sessions and the tokens of servers in `store`, for example to use them in another process. By default both
    /// are kept in memory, and used for later connections with this configuration or a clone of it.
    pub fn session_store(mut self, store: Arc<dyn SessionStore>) -> Self {
        self.store = Some(store);
        self.sessions = OnceLock::new();
        self
    }

    /// A token that an earlier connection to the same server [received](crate::Connection::new_token).
    pub fn token(mut self, token: impl Into<Vec<u8>>) -> Self {
        self.token = token.into();
        self
    }

    /// Sets the factory of observers for connections.
    pub fn observer(mut self, factory: Arc<dyn ObserverFactory>) -> Self {
        self.observers = Observers::new(factory);
        self
    }

    /// The settings of one connection.
    pub(crate) fn build(&self) -> Result<clearway_transport::ClientConfig, ConfigError> {
        let sessions = match self.sessions.get() {
            Some(sessions) => sessions.clone(),
            None => {
                let sessions = self.make_sessions()?;
                self.sessions.get_or_init(|| sessions).clone()
            }
        };
        Ok(clearway_transport::ClientConfig {
            sessions,
            transport: self.transport.clone(),
            token: self.token.clone(),
        })
    }

    fn make_sessions(&self) -> Result<Arc<dyn ClientSessions>, ConfigError> {
        let protocols = borrowed(&self.protocols);
        let tls = match &self.trust {
            Trust::Sessions(sessions) => return Ok(sessions.clone()),
            Trust::Roots(roots) => {
                let roots = (**roots).clone();
                match &self.cipher_suites {
                    Some(suites) => {
                        TlsClientConfig::with_cipher_suites(roots, suites.clone(), &protocols)?
                    }
                    None => TlsClientConfig::with_roots(roots, &protocols)?,
                }
            }
            Trust::Anyone => {
                TlsClientConfig::dangerous_without_certificate_verification(&protocols)?
            }
        };
        let tls = match &self.store {
            Some(store) => tls.session_store(store.clone()),
            None => tls.token_store(Arc::new(MemorySessionStore::default())),
        };
        let tls = tls.early_data(self.early_data);
        Ok(Arc::new(if self.logs_keys { tls.key_log_file() } else { tls }))
    }
}

/// A server's configuration.
#[derive(Debug)]
pub struct ServerConfig {
    identity: Identity,
    protocols: Vec<Vec<u8>>,
    logs_keys: bool,
    pub(crate) transport: Arc<TransportConfig>,
    pub(crate) requires_retry: bool,
    early_data: bool,
    ticket_keys: Option<TicketKeys>,
    pub(crate) max_connections: usize,
    pub(crate) observers: Observers,
}

#[derive(Debug)]
enum Identity {
    Certificate(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>),
    Sessions(Arc<dyn ServerSessions>),
}

/// How long the token of a Retry packet is valid.
const RETRY_TOKEN_LIFETIME: Duration = Duration::from_secs(15);
/// How long the token of a NEW_TOKEN frame is valid.
const NEW_TOKEN_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
/// The default limit on the number of connections of an endpoint.
pub(crate) const DEFAULT_MAX_CONNECTIONS: usize = 100_000;

impl ServerConfig {
    /// Authenticates with `certificate_chain`, the server's own certificate first, and its private key `key`.
    pub fn new(
        certificate_chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Self {
        Self::from_identity(Identity::Certificate(certificate_chain, key))
    }

    /// Leaves TLS to `sessions`. The methods of this type that concern TLS then have no effect.
    pub fn with_sessions(sessions: Arc<dyn ServerSessions>) -> Self {
        Self::from_identity(Identity::Sessions(sessions))
    }

    fn from_identity(identity: Identity) -> Self {
        Self {
            identity,
            protocols: Vec::new(),
            logs_keys: false,
            transport: Arc::default(),
            requires_retry: false,
            early_data: false,
            ticket_keys: None,
            max_connections: DEFAULT_MAX_CONNECTIONS,
            observers: Observers::default(),
        }
    }

    /// The application protocols (ALPN) to accept, the preferred one first. At least one is required
    /// (RFC 9001 §8.1).
    pub fn application_protocols(
        mut self,
        protocols: impl IntoIterator<Item = impl AsRef<[u8]>>,
    ) -> Self {
        self.protocols = owned(protocols);
        self
    }

    /// The transport's settings.
    pub fn transport(mut self, transport: TransportConfig) -> Self {
        self.transport = Arc::new(transport);
        self
    }

    /// Whether the address of every client is validated with a Retry packet, which costs it a round trip
    /// (RFC 9000 §8.1.2).
    pub fn require_retry(mut self, required: bool) -> Self {
        self.requires_retry = required;
        self
    }

    /// Whether early data is accepted from clients that resume a session (RFC 9001 §4.6); not by default. It may have been
    /// repeated by someone on the path: see [`Connecting::into_0rtt`](crate::Connecting::into_0rtt), and for HTTP/3
    /// [`Early`](crate::http3::Early).
    pub fn early_data(mut self, accepts: bool) -> Self {
        self.early_data = accepts;
        self
    }

    /// Seals session tickets with `keys`, so that they are accepted after a restart, and by other processes with the same
    /// keys; by default a few hundred sessions are kept in memory. What this means for early data is described at
    /// [`TlsServerConfig::ticket_keys`](crate::transport::TlsServerConfig::ticket_keys).
    pub fn ticket_keys(mut self, keys: TicketKeys) -> Self {
        self.ticket_keys = Some(keys);
        self
    }

    /// The maximum number of connections; more are refused.
    pub fn max_connections(mut self, count: usize) -> Self {
        self.max_connections = count;
        self
    }

    /// Appends the secrets of every connection to the file that the environment variable
    /// `SSLKEYLOGFILE` names, if it is set: anyone who has that file can decrypt the connections. If the file does
    /// not exist, it is created so that only this user may read it.
    pub fn key_log_from_environment(mut self) -> Self {
        self.logs_keys = true;
        self
    }

    /// Sets the factory of observers for connections.
    pub fn observer(mut self, factory: Arc<dyn ObserverFactory>) -> Self {
        self.observers = Observers::new(factory);
        self
    }

    /// The settings of the endpoint.
    pub(crate) fn build(self) -> Result<clearway_transport::ServerConfig, ConfigError> {
        let sessions: Arc<dyn ServerSessions> = match self.identity {
            Identity::Sessions(sessions) => sessions,
            Identity::Certificate(chain, key) => {
                let protocols = borrowed(&self.protocols);
                let tls = TlsServerConfig::with_certificate(chain, key, &protocols)?;
                let tls = tls.early_data(self.early_data);
                let tls = match self.ticket_keys {
                    Some(keys) => tls.ticket_keys(keys),
                    None => tls,
                };
                Arc::new(if self.logs_keys { tls.key_log_file() } else { tls })
            }
        };
        Ok(clearway_transport::ServerConfig {
            sessions,
            transport: self.transport,
            retry_token_lifetime: RETRY_TOKEN_LIFETIME,
            new_token_lifetime: NEW_TOKEN_LIFETIME,
            preferred_addresses: clearway_transport::PreferredAddresses::default(),
        })
    }
}

fn owned(protocols: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Vec<Vec<u8>> {
    protocols.into_iter().map(|protocol| protocol.as_ref().to_vec()).collect()
}

fn borrowed(protocols: &[Vec<u8>]) -> Vec<&[u8]> {
    protocols.iter().map(Vec::as_slice).collect()
}
