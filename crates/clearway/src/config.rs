//! Client and server configuration.

mod admission;
mod secrets;
#[cfg(any(feature = "aws-lc-rs", feature = "ring"))]
mod tcp;

use core::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};
use core::num::NonZeroUsize;
use core::time::Duration;
use std::net::UdpSocket;
use std::sync::{Arc, OnceLock};

#[cfg(feature = "quic-lb")]
use clearway_io::QuicLb;
use clearway_io::{Admission, HotRestart, MAX_SHARDS, MemoryBudget};
use clearway_transport::{
    ClientRoots, ClientSessions, ClientTrust, EarlyDataContext, EncryptedClientHello,
    MemorySessionStore, PreferredAddresses, ServerSessions, ServerTrust, SessionError,
    SessionStore, SharedTokens, TicketKeys, TlsClientConfig, TlsClientSettings, TlsServerConfig,
    TlsServerSettings, TransportConfig,
};
use rustls::crypto::SupportedKxGroup;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ResolvesServerCert;
use rustls::sign::SingleCertAndKey;
use rustls::time_provider::DefaultTimeProvider;
use rustls::{RootCertStore, SupportedCipherSuite};

use crate::certificates::{CertificateResolver, Identity, Resolving};
use crate::error::ConfigError;
use crate::observe::{ObserverFactory, Observers};
use crate::store::GuardedStore;
use secrets::Secrets;
pub(crate) use secrets::SingleUse;

/// Configuration of a client.
///
/// All clones share their TLS sessions and tokens, no matter when they were cloned, so reuse one
/// configuration. Methods that change TLS settings or the session store return a configuration with
/// an empty session cache.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    trust: Trust,
    protocols: Vec<Vec<u8>>,
    /// `None` for the default.
    cipher_suites: Option<Vec<SupportedCipherSuite>>,
    /// `None` for the default.
    key_exchange_groups: Option<Vec<&'static dyn SupportedKxGroup>>,
    certificate: Option<Identity>,
    encrypted_client_hello: EncryptedClientHello,
    logs_keys: bool,
    token: Vec<u8>,
    pub(crate) early_data: bool,
    /// `None` to keep sessions and tokens in memory.
    store: Option<Arc<dyn SessionStore>>,
    pub(crate) transport: Arc<TransportConfig>,
    pub(crate) observers: Observers,
    /// The factory of TLS sessions, built from the other fields on first use and shared by all
    /// clones.
    sessions: Arc<OnceLock<Arc<dyn ClientSessions>>>,
}

#[derive(Clone, Debug)]
enum Trust {
    Roots(Arc<RootCertStore>),
    Anyone,
    Sessions(Arc<dyn ClientSessions>),
}

impl ClientConfig {
    /// Creates a configuration that trusts servers whose certificate chains end at one of `roots`.
    pub fn with_roots(roots: RootCertStore) -> Self {
        Self::new(Trust::Roots(Arc::new(roots)))
    }

    /// Creates a configuration that trusts the platform's root certificates.
    ///
    /// # Errors
    /// Fails if the platform has no root certificates.
    #[cfg(feature = "native-roots")]
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

    /// Creates a configuration that does not verify the server's certificate.
    ///
    /// Anyone on the path can then read and modify all traffic, so use this only for tests and
    /// measurements.
    pub fn dangerous_without_certificate_verification() -> Self {
        Self::new(Trust::Anyone)
    }

    /// Creates a configuration that uses `sessions` for TLS. Methods of this type that configure
    /// TLS then have no effect.
    pub fn with_sessions(sessions: Arc<dyn ClientSessions>) -> Self {
        Self::new(Trust::Sessions(sessions))
    }

    fn new(trust: Trust) -> Self {
        Self {
            trust,
            protocols: Vec::new(),
            cipher_suites: None,
            key_exchange_groups: None,
            certificate: None,
            encrypted_client_hello: EncryptedClientHello::Off,
            logs_keys: false,
            token: Vec::new(),
            early_data: false,
            store: None,
            transport: Arc::default(),
            observers: Observers::default(),
            sessions: Arc::default(),
        }
    }

    /// Sets the application protocols (ALPN) to offer, in order of preference. At least one is
    /// required (RFC 9001 §8.1).
    pub fn application_protocols(
        mut self,
        protocols: impl IntoIterator<Item = impl AsRef<[u8]>>,
    ) -> Self {
        self.protocols = owned(protocols);
        self.sessions = Arc::default();
        self
    }

    /// Sets the cipher suites to offer, in order of preference. The default is
    /// TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384 and TLS_CHACHA20_POLY1305_SHA256.
    pub fn cipher_suites(
        mut self,
        cipher_suites: impl IntoIterator<Item = SupportedCipherSuite>,
    ) -> Self {
        self.cipher_suites = Some(cipher_suites.into_iter().collect());
        self.sessions = Arc::default();
        self
    }

    /// Sets the key exchange groups to offer, in order of preference.
    ///
    /// The default is X25519MLKEM768 (only with the cargo feature `aws-lc-rs`; ring does not
    /// support it), X25519, secp256r1 and secp384r1. If the server supports X25519MLKEM768 too,
    /// traffic that is recorded today cannot be decrypted by a future quantum computer.
    ///
    /// The ClientHello carries a key share for the first group and, if that is X25519MLKEM768 and
    /// X25519 is also offered, for X25519. A server that supports neither requests another group
    /// (HelloRetryRequest), which costs a round trip.
    ///
    /// The client's X25519MLKEM768 key share contains a 1,184-byte ML-KEM key. The ClientHello
    /// therefore takes two datagrams, and losing either one delays the handshake.
    pub fn key_exchange_groups(
        mut self,
        groups: impl IntoIterator<Item = &'static dyn SupportedKxGroup>,
    ) -> Self {
        self.key_exchange_groups = Some(groups.into_iter().collect());
        self.sessions = Arc::default();
        self
    }

    /// Sets the certificate to present to servers that request one.
    ///
    /// The client's handshake completes before the server has verified the certificate. If the
    /// server rejects it, the connection ends later, with CRYPTO_ERROR and the TLS alert (RFC 8446
    /// §6.2) in [`ConnectionError::ConnectionClosed`](crate::ConnectionError::ConnectionClosed).
    pub fn client_certificate(mut self, certificate: Identity) -> Self {
        self.certificate = Some(certificate);
        self.sessions = Arc::default();
        self
    }

    /// Encrypts the ClientHello, including the server's name, with the first supported
    /// configuration in `config_list` (ECH, RFC 9849).
    ///
    /// `config_list` is an ECHConfigList in binary form, not base64, as the server publishes it in
    /// the `ech` parameter of its DNS HTTPS record (RFC 9848). It is valid for this server only,
    /// and so is this client configuration.
    ///
    /// A server that has lost the key completes the handshake under the configuration's public
    /// name. The connection then fails with the
    /// [cause](crate::transport::TransportErrorCause::EncryptedClientHelloRejected)
    /// `EncryptedClientHelloRejected`, which contains the list for a second attempt.
    ///
    /// # Errors
    /// If the list is malformed or has no supported configuration, starting a connection fails with
    /// [`SessionError::EncryptedClientHello`](crate::transport::SessionError::EncryptedClientHello).
    #[cfg(feature = "aws-lc-rs")]
    pub fn encrypted_client_hello(mut self, config_list: impl Into<Vec<u8>>) -> Self {
        self.encrypted_client_hello = EncryptedClientHello::ConfigList(config_list.into());
        self.sessions = Arc::default();
        self
    }

    /// Sends a fake encrypted ClientHello with random content (GREASE, RFC 9849 §6.2).
    ///
    /// This hides nothing, but a path that forwards such a ClientHello also forwards real encrypted
    /// ones. Off by default, since it makes the ClientHello about 300 bytes longer.
    #[cfg(feature = "aws-lc-rs")]
    pub fn grease_encrypted_client_hello(mut self) -> Self {
        self.encrypted_client_hello = EncryptedClientHello::Grease;
        self.sessions = Arc::default();
        self
    }

    /// Sets the transport configuration.
    pub fn transport(mut self, transport: TransportConfig) -> Self {
        self.transport = Arc::new(transport);
        self
    }

    /// Appends the secrets of every connection to the file named by the environment variable
    /// `SSLKEYLOGFILE`, if it is set.
    ///
    /// Anyone who has that file can decrypt the connections. If the file does not exist, it is
    /// created readable by the current user only.
    pub fn key_log_from_environment(mut self) -> Self {
        self.logs_keys = true;
        self.sessions = Arc::default();
        self
    }

    /// Sets whether early data (0-RTT) may be sent on a connection that resumes a session, before
    /// the handshake is complete (RFC 9001 §4.6). Off by default.
    ///
    /// An on-path attacker can make the server process early data more than once, so it must be
    /// safe to replay. An HTTP/3 client sends only requests with safe methods early. For raw
    /// streams, see [`Connecting::into_0rtt`](crate::Connecting::into_0rtt).
    pub fn early_data(mut self, offers: bool) -> Self {
        self.early_data = offers;
        self.sessions = Arc::default();
        self
    }

    /// Keeps TLS sessions and server tokens in `store`, for example to use them in another process.
    ///
    /// By default both are kept in memory, and used for later connections with this configuration
    /// or a clone of it.
    ///
    /// If a method of the store panics, the session or token concerned is not stored or not used,
    /// and the connection continues. The panic is counted in
    /// [`ShardStatistics::panics`](crate::ShardStatistics::panics).
    pub fn session_store(mut self, store: Arc<dyn SessionStore>) -> Self {
        self.store = Some(store);
        self.sessions = Arc::default();
        self
    }

    /// Sets a token that an earlier connection to the same server
    /// [received](crate::Connection::new_token).
    pub fn token(mut self, token: impl Into<Vec<u8>>) -> Self {
        self.token = token.into();
        self
    }

    /// Sets the factory that creates an observer for each connection.
    pub fn observer(mut self, factory: Arc<dyn ObserverFactory>) -> Self {
        self.observers = Observers::new(factory);
        self
    }

    /// Returns the settings for one connection.
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
        let trust = match &self.trust {
            Trust::Sessions(sessions) => return Ok(sessions.clone()),
            Trust::Roots(roots) => ServerTrust::Roots(roots.clone()),
            Trust::Anyone => ServerTrust::DangerousAnyone,
        };
        let mut settings = TlsClientSettings::new(trust, &borrowed(&self.protocols));
        if let Some(suites) = &self.cipher_suites {
            settings.cipher_suites.clone_from(suites);
        }
        if let Some(groups) = &self.key_exchange_groups {
            settings.key_exchange_groups.clone_from(groups);
        }
        settings.certificate = self.certificate.as_ref().map(Identity::certified_key);
        settings.encrypted_client_hello = self.encrypted_client_hello.clone();
        let tls = TlsClientConfig::from_settings(settings)?.early_data(self.early_data);
        let tls = match &self.store {
            Some(store) => tls.session_store(Arc::new(GuardedStore(store.clone()))),
            None => tls.token_store(Arc::new(MemorySessionStore::default())),
        };
        Ok(Arc::new(if self.logs_keys { tls.key_log_file() } else { tls }))
    }
}

/// Configuration of a server.
///
/// Clones share what only one server can use: [listening sockets](Self::listening_sockets) and a
/// [hot restart](Self::hot_restart) belong to the first server that starts with one of the clones.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    presented: Presented,
    protocols: Vec<Vec<u8>>,
    /// `None` for the default.
    key_exchange_groups: Option<Vec<&'static dyn SupportedKxGroup>>,
    clients: ClientTrust,
    /// `None` for the default.
    max_session_age: Option<Duration>,
    logs_keys: bool,
    pub(crate) transport: Arc<TransportConfig>,
    pub(crate) admission: Admission,
    early_data: bool,
    early_data_context: Option<Arc<dyn EarlyDataContext>>,
    pub(crate) ticket_keys: Option<TicketKeys>,
    pub(crate) max_connections: usize,
    pub(crate) shards: NonZeroUsize,
    pub(crate) observers: Observers,
    preferred_addresses: PreferredAddresses,
    pub(crate) sockets: Option<SingleUse<Vec<UdpSocket>>>,
    pub(crate) hot_restart: Option<SingleUse<HotRestart>>,
    pub(crate) secrets: Secrets,
    #[cfg(feature = "quic-lb")]
    pub(crate) quic_lb: Option<QuicLb>,
    /// `None` to use the process-wide budget.
    pub(crate) memory_budget: Option<MemoryBudget>,
}

/// The source of the server's certificate.
#[derive(Clone, Debug)]
enum Presented {
    Certificate(Arc<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>),
    Identity(Identity),
    Resolver(Arc<dyn CertificateResolver>),
    Sessions(Arc<dyn ServerSessions>),
}

impl Presented {
    /// Returns the certificates for rustls.
    fn resolver(&self) -> Result<Arc<dyn ResolvesServerCert>, ConfigError> {
        const UNKNOWN: &str = "the certificates of custom TLS sessions are not known";
        let identity = match self {
            Self::Resolver(resolver) => return Ok(Arc::new(Resolving(resolver.clone()))),
            Self::Sessions(_) => {
                return Err(SessionError::Tls(rustls::Error::General(UNKNOWN.into())).into());
            }
            Self::Certificate(certificate) => {
                let (chain, key) = &**certificate;
                Identity::from_der(chain.clone(), key.clone_key())?
            }
            Self::Identity(identity) => identity.clone(),
        };
        Ok(Arc::new(SingleCertAndKey::from(identity.certified_key())))
    }
}

/// Whether clients must present a certificate; see [`ServerConfig::client_certificates`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ClientCertificates {
    /// Clients without a certificate are accepted too.
    Optional,
    /// Clients without a certificate are rejected.
    Required,
}

/// Default maximum number of connections of an endpoint.
pub(crate) const DEFAULT_MAX_CONNECTIONS: usize = 100_000;

impl ServerConfig {
    /// Creates a configuration with `certificate_chain`, which starts with the server's own
    /// certificate, and its private key `key`. They are verified when the server starts; use
    /// [`with_identity`](Self::with_identity) to verify them earlier.
    pub fn new(
        certificate_chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Self {
        Self::presenting(Presented::Certificate(Arc::new((certificate_chain, key))))
    }

    /// Creates a configuration with a certificate and its private key.
    pub fn with_identity(identity: Identity) -> Self {
        Self::presenting(Presented::Identity(identity))
    }

    /// Creates a configuration in which `resolver` chooses the certificate for each client; see
    /// [`Certificates`](crate::Certificates) for an implementation.
    pub fn with_resolver(resolver: Arc<dyn CertificateResolver>) -> Self {
        Self::presenting(Presented::Resolver(resolver))
    }

    /// Creates a configuration that uses `sessions` for TLS. Methods of this type that configure
    /// TLS then have no effect, and [`ticket_keys`](Self::ticket_keys) affects only address
    /// validation tokens.
    pub fn with_sessions(sessions: Arc<dyn ServerSessions>) -> Self {
        Self::presenting(Presented::Sessions(sessions))
    }

    fn presenting(presented: Presented) -> Self {
        Self {
            presented,
            protocols: Vec::new(),
            key_exchange_groups: None,
            clients: ClientTrust::NotAsked,
            max_session_age: None,
            logs_keys: false,
            transport: Arc::default(),
            admission: admission::default(),
            early_data: false,
            early_data_context: None,
            ticket_keys: None,
            max_connections: DEFAULT_MAX_CONNECTIONS,
            shards: NonZeroUsize::MIN,
            observers: Observers::default(),
            preferred_addresses: PreferredAddresses::default(),
            sockets: None,
            hot_restart: None,
            secrets: Secrets::default(),
            #[cfg(feature = "quic-lb")]
            quic_lb: None,
            memory_budget: None,
        }
    }

    /// Sets the application protocols (ALPN) to accept, in order of preference. At least one is
    /// required (RFC 9001 §8.1).
    pub fn application_protocols(
        mut self,
        protocols: impl IntoIterator<Item = impl AsRef<[u8]>>,
    ) -> Self {
        self.protocols = owned(protocols);
        self
    }

    /// Sets the key exchange groups to accept.
    ///
    /// The default is X25519MLKEM768, X25519, secp256r1 and secp384r1. The server uses the group
    /// that the client prefers.
    pub fn key_exchange_groups(
        mut self,
        groups: impl IntoIterator<Item = &'static dyn SupportedKxGroup>,
    ) -> Self {
        self.key_exchange_groups = Some(groups.into_iter().collect());
        self
    }

    /// Requests certificates from clients, whose chains must end at one of `roots`. Off by default.
    ///
    /// [`Connection::peer_identity`](crate::Connection::peer_identity) returns the verified chain.
    ///
    /// A rejected client gets CRYPTO_ERROR with a TLS alert: certificate_required if it has no
    /// certificate; unknown_ca, certificate_expired or another alert if its certificate is invalid.
    /// On the server, the connection fails with
    /// [`NoCertificatesPresented`](rustls::Error::NoCertificatesPresented) or
    /// [`InvalidCertificate`](rustls::Error::InvalidCertificate) as its cause.
    ///
    /// A resumed connection has the identity of the original session. A session is resumed only if
    /// it was established under the same requirement and the same roots, its chain is still valid,
    /// and it is not older than [`max_session_age`](Self::max_session_age); otherwise the client
    /// authenticates again, in a full handshake without early data. With
    /// [`Required`](ClientCertificates::Required) every connection has an identity, even before the
    /// first byte of early data.
    ///
    /// Keep a clone of [`ClientRoots`] to [replace](ClientRoots::replace) the roots while the
    /// server runs. A chain with more than [`MAX_CERTIFICATES`](crate::transport::MAX_CERTIFICATES)
    /// certificates, or with more than
    /// [`MAX_CERTIFICATES_OF_ONE_NAME`](crate::transport::MAX_CERTIFICATES_OF_ONE_NAME)
    /// intermediates of the same name, is rejected.
    pub fn client_certificates(
        mut self,
        need: ClientCertificates,
        roots: impl Into<ClientRoots>,
    ) -> Self {
        self.clients = match need {
            ClientCertificates::Optional => ClientTrust::Optional(roots.into()),
            ClientCertificates::Required => ClientTrust::Required(roots.into()),
        };
        self
    }

    /// Sets how long after a full handshake its sessions can be resumed. The default is 24 hours;
    /// the maximum is seven days.
    ///
    /// Each resumption gives the client a new ticket, so this also limits how long a client can
    /// reconnect without proving again that it has its certificate's key. An older session requires
    /// a full handshake.
    pub fn max_session_age(mut self, age: Duration) -> Self {
        self.max_session_age = Some(age);
        self
    }

    /// Sets the transport configuration.
    pub fn transport(mut self, transport: TransportConfig) -> Self {
        self.transport = Arc::new(transport);
        self
    }

    /// Sets whether early data (0-RTT) is accepted from clients that resume a session (RFC 9001
    /// §4.6). Off by default.
    ///
    /// An on-path attacker may have replayed early data: see
    /// [`Connecting::into_0rtt`](crate::Connecting::into_0rtt), and for HTTP/3
    /// [`Early`](crate::http3::Early).
    pub fn early_data(mut self, accepts: bool) -> Self {
        self.early_data = accepts;
        self
    }

    /// Binds application settings to session tickets: early data is accepted only if the current
    /// settings allow everything that was allowed when the ticket was issued (RFC 9001 §4.6.3).
    ///
    /// Application protocols whose clients remember settings require this. HTTP/3 servers set this
    /// themselves; a program that runs HTTP/3 on its own endpoint passes
    /// [`EarlySettings`](crate::http3::EarlySettings).
    /// [`EarlyDataContext`](crate::transport::EarlyDataContext) describes what an implementation
    /// must do.
    pub fn early_data_context(mut self, context: Arc<dyn EarlyDataContext>) -> Self {
        self.early_data_context = Some(context);
        self
    }

    /// Encrypts session tickets with `keys`, and address validation tokens with keys derived from
    /// them.
    ///
    /// Tickets and tokens are then accepted after a restart, and by other processes that have the
    /// same keys and whose clocks differ by less than a minute. By default, a few hundred sessions
    /// are kept in memory, and an endpoint accepts only its own tokens. For the consequences for
    /// early data, see
    /// [`TlsServerConfig::ticket_keys`](crate::transport::TlsServerConfig::ticket_keys).
    ///
    /// The stateless reset key is derived from `keys`, the host name and the server's address. When
    /// a server restarts after a crash with the same keys, at the same address and on a host with
    /// the same name, it resets its former connections (RFC 9000 §10.3) as soon as their clients
    /// send something. Hosts in a fleet that share keys need different names or different listening
    /// addresses. If two servers have the same name and address, one resets the other's connections
    /// when it receives a packet that belongs to them (§21.11).
    pub fn ticket_keys(mut self, keys: TicketKeys) -> Self {
        self.ticket_keys = Some(keys);
        self
    }

    /// Sets the preferred address for clients that connect over IPv4, to which they can migrate
    /// after the handshake (RFC 9000 §9.6).
    ///
    /// The server also listens on this address; port 0 means any free port. A typical use is a
    /// server with an anycast address, whose connections then continue at the unicast address of
    /// one machine.
    pub fn preferred_address_v4(mut self, address: SocketAddrV4) -> Self {
        self.preferred_addresses.v4 = Some(address);
        self
    }

    /// Like [`preferred_address_v4`](Self::preferred_address_v4), for clients that connect over
    /// IPv6.
    pub fn preferred_address_v6(mut self, address: SocketAddrV6) -> Self {
        self.preferred_addresses.v6 = Some(address);
        self
    }

    /// Sets the maximum number of connections; additional connections are refused.
    ///
    /// With several [`shards`](Self::shards), each gets an equal share, rounded up, so a shard that
    /// gets more clients than the other shards starts to refuse connections sooner.
    pub fn max_connections(mut self, count: usize) -> Self {
        self.max_connections = count;
        self
    }

    /// Limits the memory that clients can make the endpoint's connections use, summed over all
    /// shards. Endpoints may share a budget.
    ///
    /// By default, all servers in a process share [`MemoryBudget::of_process`]: half of the memory
    /// that the process may use. [`MemoryBudget`] describes what happens when memory runs short.
    /// Connections that this endpoint initiates also count.
    pub fn memory_budget(mut self, budget: MemoryBudget) -> Self {
        self.memory_budget = Some(budget);
        self
    }

    /// Sets the number of shards: threads that each have a socket at the endpoint's address, and
    /// their own connections.
    ///
    /// The default is one; use more for servers that need more than one core. Each connection stays
    /// on its shard even if its client migrates: see [`Steering`](crate::Steering).
    ///
    /// All shards accept the same tickets and tokens, and together they accept a ticket for early
    /// data only once. The sockets use SO_REUSEPORT, even with a single shard: another process of
    /// the same user that sets it too may get part of the clients. A server never joins existing
    /// sockets.
    ///
    /// # Errors
    /// Starting the server fails if there are more than [`MAX_SHARDS`](crate::MAX_SHARDS).
    pub fn shards(mut self, count: NonZeroUsize) -> Self {
        self.shards = count;
        self
    }

    /// Appends the secrets of every connection to the file named by the environment variable
    /// `SSLKEYLOGFILE`, if it is set.
    ///
    /// Anyone who has that file can decrypt the connections. If the file does not exist, it is
    /// created readable by the current user only.
    pub fn key_log_from_environment(mut self) -> Self {
        self.logs_keys = true;
        self
    }

    /// Sets the factory that creates an observer for each connection.
    pub fn observer(mut self, factory: Arc<dyn ObserverFactory>) -> Self {
        self.observers = Observers::new(factory);
        self
    }

    /// Listens on sockets that are already bound, for example by a service manager.
    ///
    /// There must be one per [shard](Self::shards), all at the same address, in the order in which
    /// they were bound, and with SO_REUSEPORT if there are several. The address with which the
    /// server is started then has no effect. Sockets for preferred addresses are still opened.
    ///
    /// # Errors
    /// Starting the server fails if the sockets have different addresses, or if their number
    /// differs from the number of shards.
    pub fn listening_sockets(mut self, sockets: impl IntoIterator<Item = UdpSocket>) -> Self {
        self.sockets = Some(SingleUse::new(sockets.into_iter().collect()));
        self
    }

    /// Allows this server to replace a server in another process, and to be replaced later.
    ///
    /// Both servers need the same number of [shards](Self::shards) and the same addresses; port 0
    /// means the other server's port. Once this server has started, it has replaced the other one.
    /// [`Endpoint::replaced`](crate::Endpoint::replaced) completes when this server has been
    /// replaced in turn.
    ///
    /// Without [`ticket_keys`](Self::ticket_keys), both processes share generated keys, so that
    /// sessions can be resumed across the restart. With configured keys, both need the same ones.
    ///
    /// # Errors
    /// Starting the server can fail with an [`io::Error`](std::io::Error) whose cause is a
    /// [`HotRestartError`](crate::HotRestartError). The other process then continues.
    pub fn hot_restart(mut self, hot_restart: HotRestart) -> Self {
        self.hot_restart = Some(SingleUse::new(hot_restart));
        self
    }

    /// Generates connection IDs according to a QUIC-LB configuration, so that balancers with the
    /// same configuration reach this server even if a client migrates.
    ///
    /// [`Endpoint::rotate_quic_lb`](crate::Endpoint::rotate_quic_lb) replaces it while the server
    /// runs. In a [hot restart](Self::hot_restart), either both processes have a configuration,
    /// with connection IDs of the same length, or neither has one.
    #[cfg(feature = "quic-lb")]
    pub fn quic_lb(mut self, config: QuicLb) -> Self {
        self.quic_lb = Some(config);
        self
    }

    /// Sets the ticket and token keys shared with another process, unless the server already has
    /// keys.
    pub(crate) fn default_ticket_keys(&mut self, secret: &[u8; 32]) {
        self.ticket_keys.get_or_insert_with(|| TicketKeys::new(secret));
    }

    /// Returns the endpoint's settings.
    pub(crate) fn build(self) -> Result<clearway_transport::ServerConfig, ConfigError> {
        let PreferredAddresses { v4, v6 } = self.preferred_addresses;
        let preferred = v4.map(SocketAddr::from).into_iter().chain(v6.map(SocketAddr::from));
        if let Some(wrong) = preferred.into_iter().find(|address| !is_of_one_host(*address)) {
            return Err(ConfigError::PreferredAddress(wrong));
        }
        if self.shards.get() > MAX_SHARDS {
            return Err(ConfigError::TooManyShards { limit: MAX_SHARDS });
        }
        Ok(clearway_transport::ServerConfig {
            sessions: self.make_sessions()?,
            transport: self.transport,
            retry_token_lifetime: self.secrets.retry_token_lifetime,
            new_token_lifetime: self.secrets.address_token_lifetime,
            shared_tokens: self
                .ticket_keys
                .map(|keys| SharedTokens { keys, clock: Arc::new(DefaultTimeProvider) }),
            preferred_addresses: self.preferred_addresses,
        })
    }

    fn make_sessions(&self) -> Result<Arc<dyn ServerSessions>, ConfigError> {
        if let Presented::Sessions(sessions) = &self.presented {
            return Ok(sessions.clone());
        }
        let certificates = self.presented.resolver()?;
        let mut settings = TlsServerSettings::new(certificates, &borrowed(&self.protocols));
        if let Some(groups) = &self.key_exchange_groups {
            settings.key_exchange_groups.clone_from(groups);
        }
        settings.clients = self.clients.clone();
        let tls = TlsServerConfig::from_settings(settings)?.early_data(self.early_data);
        let tls = match &self.ticket_keys {
            Some(keys) => tls.ticket_keys(keys.clone()),
            None => tls,
        };
        let tls = match self.max_session_age {
            Some(age) => tls.max_session_age(age),
            None => tls,
        };
        let tls = match &self.early_data_context {
            Some(context) => tls.early_data_context(context.clone()),
            None => tls,
        };
        Ok(Arc::new(if self.logs_keys { tls.key_log_file() } else { tls }))
    }
}

/// Returns whether the address can be a preferred address, that is, belongs to a single host.
fn is_of_one_host(address: SocketAddr) -> bool {
    let ip = address.ip();
    let is_v4_in_v6 = ip != ip.to_canonical();
    let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    !(ip.is_unspecified() || ip.is_multicast() || is_broadcast || is_v4_in_v6)
}

fn owned(protocols: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Vec<Vec<u8>> {
    protocols.into_iter().map(|protocol| protocol.as_ref().to_vec()).collect()
}

fn borrowed(protocols: &[Vec<u8>]) -> Vec<&[u8]> {
    protocols.iter().map(Vec::as_slice).collect()
}
