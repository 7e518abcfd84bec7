//! The configuration of clients and servers.

use core::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};
use core::num::NonZeroUsize;
use core::time::Duration;
use std::net::UdpSocket;
use std::sync::{Arc, OnceLock};

#[cfg(feature = "quic-lb")]
use clearway_io::QuicLb;
use clearway_io::{HotRestart, MAX_SHARDS, MemoryBudget};
use clearway_transport::{
    ClientRoots, ClientSessions, ClientTrust, EarlyDataContext, EncryptedClientHello,
    MemorySessionStore, PreferredAddresses, ServerSessions, ServerTrust, SessionStore,
    SharedTokens, TicketKeys, TlsClientConfig, TlsClientSettings, TlsServerConfig,
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

/// A client's configuration. All clones share their TLS sessions and tokens, whenever they were
/// taken, so keep it. A method that changes TLS, or where sessions are kept, begins without any.
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
    /// `None` for sessions and tokens in memory.
    store: Option<Arc<dyn SessionStore>>,
    pub(crate) transport: Arc<TransportConfig>,
    pub(crate) observers: Observers,
    /// Built from the other fields when it is first needed; shared with all clones.
    sessions: Arc<OnceLock<Arc<dyn ClientSessions>>>,
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

    /// The application protocols (ALPN) to offer, the preferred one first. At least one is required
    /// (RFC 9001 §8.1).
    pub fn application_protocols(
        mut self,
        protocols: impl IntoIterator<Item = impl AsRef<[u8]>>,
    ) -> Self {
        self.protocols = owned(protocols);
        self.sessions = Arc::default();
        self
    }

    /// The cipher suites to offer, the preferred one first. By default TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384 and
    /// TLS_CHACHA20_POLY1305_SHA256.
    pub fn cipher_suites(
        mut self,
        cipher_suites: impl IntoIterator<Item = SupportedCipherSuite>,
    ) -> Self {
        self.cipher_suites = Some(cipher_suites.into_iter().collect());
        self.sessions = Arc::default();
        self
    }

    /// The key exchange groups to offer, the preferred one first. By default X25519MLKEM768 (with the cargo feature
    /// `aws-lc-rs`; ring does not have it), X25519, secp256r1 and secp384r1: what is recorded of a connection today then withstands quantum computers of a later day, if the server
    /// knows X25519MLKEM768, too. Key shares are sent of the first group and, if that is X25519MLKEM768 and X25519 is
    /// offered, of X25519. A server that knows neither asks for another (HelloRetryRequest), which costs a round trip.
    ///
    /// The share of X25519MLKEM768 has 1,184 bytes: the ClientHello takes two datagrams, and loss of either costs time.
    pub fn key_exchange_groups(
        mut self,
        groups: impl IntoIterator<Item = &'static dyn SupportedKxGroup>,
    ) -> Self {
        self.key_exchange_groups = Some(groups.into_iter().collect());
        self.sessions = Arc::default();
        self
    }

    /// The certificate that is presented to servers that ask for one. The handshake is complete for the client before the
    /// server has verified it: a refusal ends the connection later, with CRYPTO_ERROR and the alert of TLS (RFC 8446 §6.2)
    /// in [`ConnectionError::ConnectionClosed`](crate::ConnectionError::ConnectionClosed).
    pub fn client_certificate(mut self, certificate: Identity) -> Self {
        self.certificate = Some(certificate);
        self.sessions = Arc::default();
        self
    }

    /// Encrypts the ClientHello, and with it the server's name, with the first supported configuration of `config_list`
    /// (ECH, RFC 9849): an ECHConfigList as the server publishes it in the `ech` parameter of its HTTPS record in DNS
    /// (RFC 9848), not base64. It holds for this server only, and so does this configuration then.
    ///
    /// A server that has lost the key completes the handshake under the configuration's public name. Then the connection
    /// fails with the [cause](crate::transport::TransportErrorCause::EncryptedClientHelloRejected)
    /// `EncryptedClientHelloRejected`, which has the list with which to try once more.
    ///
    /// # Errors
    /// A malformed list, or one without a supported configuration, is an error when a connection is begun:
    /// [`SessionError::EncryptedClientHello`](crate::transport::SessionError::EncryptedClientHello).
    #[cfg(feature = "aws-lc-rs")]
    pub fn encrypted_client_hello(mut self, config_list: impl Into<Vec<u8>>) -> Self {
        self.encrypted_client_hello = EncryptedClientHello::ConfigList(config_list.into());
        self.sessions = Arc::default();
        self
    }

    /// Sends what looks like an encrypted ClientHello, with random content (GREASE, RFC 9849 §6.2): nothing is hidden,
    /// but a path that lets such a ClientHello pass lets encrypted ones pass, too. Off by default, since it makes the
    /// ClientHello some 300 bytes longer.
    #[cfg(feature = "aws-lc-rs")]
    pub fn grease_encrypted_client_hello(mut self) -> Self {
        self.encrypted_client_hello = EncryptedClientHello::Grease;
        self.sessions = Arc::default();
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
        self.sessions = Arc::default();
        self
    }

    /// Whether early data may be sent on a connection that resumes a session, before the handshake is complete (RFC 9001
    /// §4.6); not by default. Someone on the path can have the server process it more than once, so it has to be harmless
    /// then. An HTTP/3 client sends only requests with safe methods early; of raw streams, see
    /// [`Connecting::into_0rtt`](crate::Connecting::into_0rtt).
    pub fn early_data(mut self, offers: bool) -> Self {
        self.early_data = offers;
        self.sessions = Arc::default();
        self
    }

    /// Keeps TLS sessions and the tokens of servers in `store`, for example to use them in another process. By default both
    /// are kept in memory, and used for later connections with this configuration or a clone of it.
    ///
    /// What a store panics about is not kept, or not used; the connections go on. It is counted in
    /// [`ShardStatistics::panics`](crate::ShardStatistics::panics).
    pub fn session_store(mut self, store: Arc<dyn SessionStore>) -> Self {
        self.store = Some(store);
        self.sessions = Arc::default();
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

/// A server's configuration.
#[derive(Debug)]
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
    pub(crate) retry_above: usize,
    pub(crate) balancers: Vec<IpAddr>,
    early_data: bool,
    early_data_context: Option<Arc<dyn EarlyDataContext>>,
    pub(crate) ticket_keys: Option<TicketKeys>,
    pub(crate) max_connections: usize,
    pub(crate) shards: NonZeroUsize,
    pub(crate) observers: Observers,
    preferred_addresses: PreferredAddresses,
    pub(crate) sockets: Vec<UdpSocket>,
    pub(crate) hot_restart: Option<HotRestart>,
    #[cfg(feature = "quic-lb")]
    pub(crate) quic_lb: Option<QuicLb>,
    /// `None` for that of the process.
    pub(crate) memory_budget: Option<MemoryBudget>,
}

/// What a server proves itself with.
#[derive(Debug)]
enum Presented {
    Certificate(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>),
    Resolver(Arc<dyn CertificateResolver>),
    Sessions(Arc<dyn ServerSessions>),
}

/// Whether clients need a certificate; see [`ServerConfig::client_certificates`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ClientCertificates {
    /// Clients without a certificate are accepted, too.
    Optional,
    /// Clients without a certificate are refused.
    Required,
}

/// See [`ServerConfig::retry_above`].
const DEFAULT_RETRY_ABOVE: usize = 1000;

/// The default limit on the number of connections of an endpoint.
pub(crate) const DEFAULT_MAX_CONNECTIONS: usize = 100_000;

impl ServerConfig {
    /// Authenticates with `certificate_chain`, the server's own certificate first, and its private key `key`.
    pub fn new(
        certificate_chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Self {
        Self::presenting(Presented::Certificate(certificate_chain, key))
    }

    /// Lets `resolver` choose the certificate for each client, for example [`Certificates`](crate::Certificates).
    pub fn with_resolver(resolver: Arc<dyn CertificateResolver>) -> Self {
        Self::presenting(Presented::Resolver(resolver))
    }

    /// Leaves TLS to `sessions`. The methods of this type that concern TLS then have no effect, and
    /// [`ticket_keys`](Self::ticket_keys) only on address validation tokens.
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
            retry_above: DEFAULT_RETRY_ABOVE,
            balancers: Vec::new(),
            early_data: false,
            early_data_context: None,
            ticket_keys: None,
            max_connections: DEFAULT_MAX_CONNECTIONS,
            shards: NonZeroUsize::MIN,
            observers: Observers::default(),
            preferred_addresses: PreferredAddresses::default(),
            sockets: Vec::new(),
            hot_restart: None,
            #[cfg(feature = "quic-lb")]
            quic_lb: None,
            memory_budget: None,
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

    /// The key exchange groups to accept; by default X25519MLKEM768, X25519, secp256r1 and secp384r1. Of those that a
    /// client supports, it gets the one that it prefers.
    pub fn key_exchange_groups(
        mut self,
        groups: impl IntoIterator<Item = &'static dyn SupportedKxGroup>,
    ) -> Self {
        self.key_exchange_groups = Some(groups.into_iter().collect());
        self
    }

    /// Asks clients for certificates, whose chains must end at one of `roots`, and which
    /// [`Connection::peer_identity`](crate::Connection::peer_identity) then has. By default they are not asked.
    ///
    /// A client that is refused gets CRYPTO_ERROR with an alert of TLS: certificate_required without a certificate,
    /// unknown_ca, certificate_expired and others with a wrong one. Here the connection fails with
    /// [`NoCertificatesPresented`](rustls::Error::NoCertificatesPresented) or
    /// [`InvalidCertificate`](rustls::Error::InvalidCertificate) as its cause.
    ///
    /// A connection that resumes a session has the identity with which the session began. A session is resumed only if it
    /// began under the same requirement and the same roots, if its chain is still valid, and within
    /// [`max_session_age`](Self::max_session_age); otherwise the client authenticates again, in a full handshake without
    /// early data. With [`Required`](ClientCertificates::Required) every connection has an identity, from its first byte of
    /// early data.
    ///
    /// Keep a clone of [`ClientRoots`] to [replace](ClientRoots::replace) the roots while the server runs. A chain of more
    /// than [`MAX_CERTIFICATES`](crate::transport::MAX_CERTIFICATES) certificates, or with more than
    /// [`MAX_CERTIFICATES_OF_ONE_NAME`](crate::transport::MAX_CERTIFICATES_OF_ONE_NAME) intermediates of one name, is refused.
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

    /// How long after a full handshake sessions that descend from it are resumed; by default 24 hours, at most seven days.
    /// Each resumption gives a client a new ticket, so this is also how long a client can go on without proving again that it
    /// has the key of its certificate. An older session leads to a full handshake.
    pub fn max_session_age(mut self, age: Duration) -> Self {
        self.max_session_age = Some(age);
        self
    }

    /// The transport's settings.
    pub fn transport(mut self, transport: TransportConfig) -> Self {
        self.transport = Arc::new(transport);
        self
    }

    /// With so many clients whose handshake is not complete, and until half as many are left, further clients must validate
    /// their address with a Retry packet (RFC 9000 §8.1.2), which costs them a round trip, unless they have a token. By
    /// default 1,000; with 0 every client must. Of several [`shards`](Self::shards) each counts its own clients, and has its
    /// part of the number, rounded up.
    ///
    /// Anyone can begin handshakes from addresses that are not their own. Each takes a signature, and up to 64 KiB until the
    /// handshake times out; a Retry packet takes neither. So clients that do not validate their address take at most 64 KiB
    /// for each of this number, and 2 MiB of each shard for datagrams of clients that wait for a handshake or a Retry packet:
    /// 68 MB by default. Those that have validated it are limited by [`max_connections`](Self::max_connections), and 4 MiB of
    /// their datagrams wait.
    ///
    /// However many clients come, established connections are served first: each shard begins one handshake and sends one
    /// Retry packet in a turn of its loop, which is as long as it takes to receive a few datagrams and to send what follows
    /// from them. If it receives less than arrives, handshakes have a quarter of its time, and other first datagrams are
    /// dropped, as [`ShardStatistics::incoming_dropped`](crate::ShardStatistics::incoming_dropped) counts.
    pub fn retry_above(mut self, half_open: usize) -> Self {
        self.retry_above = half_open;
        self
    }

    /// The addresses of load balancers that put a preface before each datagram, as `clearway balance` does: at most
    /// [`MAX_BALANCERS`](crate::MAX_BALANCERS). Then only these may send to the endpoint; what others send is dropped
    /// ([`ShardStatistics::foreign_dropped`](crate::ShardStatistics::foreign_dropped)). By default everyone may, and there
    /// are no prefaces.
    ///
    /// The preface states the client's address, which counts as that of the datagram: it is what a connection reports, what a
    /// Retry validates, and what changes when a client migrates. A datagram of a balancer without preface is its own, such
    /// as a health check; its sender must not clear the QUIC bit (RFC 9287), which the server does not permit to it. Whoever can send with the address of a balancer can state any address for a client, so put the
    /// server on a network that nobody else reaches. Clients do not reach
    /// [preferred addresses](Self::preferred_address_v4) either.
    pub fn balancers(mut self, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        self.balancers = addresses.into_iter().collect();
        self
    }

    /// Whether early data is accepted from clients that resume a session (RFC 9001 §4.6); not by default. It may have been
    /// repeated by someone on the path: see [`Connecting::into_0rtt`](crate::Connecting::into_0rtt), and for HTTP/3
    /// [`Early`](crate::http3::Early).
    pub fn early_data(mut self, accepts: bool) -> Self {
        self.early_data = accepts;
        self
    }

    /// Binds settings of the application to the sessions of clients: early data is accepted only if
    /// the current settings permit what those did that were in force when the session was issued
    /// (RFC 9001 §4.6.3). Needed by application protocols whose clients remember settings. HTTP/3
    /// servers set this themselves; a program that runs HTTP/3 on an endpoint of its own passes
    /// [`EarlySettings`](crate::http3::EarlySettings). What it has to do is described at
    /// [`EarlyDataContext`](crate::transport::EarlyDataContext).
    pub fn early_data_context(mut self, context: Arc<dyn EarlyDataContext>) -> Self {
        self.early_data_context = Some(context);
        self
    }

    /// Seals session tickets with `keys`, and address validation tokens with others that are derived from them, so that
    /// both are accepted after a restart, and by other processes with the same keys whose clocks differ by less than a
    /// minute. By default a few hundred sessions are kept in memory, and an endpoint accepts its own tokens only. What this
    /// means for early data is described at
    /// [`TlsServerConfig::ticket_keys`](crate::transport::TlsServerConfig::ticket_keys).
    ///
    /// Stateless resets have a key that is derived from `keys`, the name of the host and the
    /// address of the server, too: after a crash, a server that starts again with the same keys,
    /// there and on a host of that name, ends the connections that it does not know any more (RFC
    /// 9000 §10.3), as soon as a client sends something. Give the hosts of a fleet with the same
    /// keys different names, or different addresses to listen at: a server resets the connections
    /// of another that has both in common, if anyone sends it one of their packets (§21.11).
    pub fn ticket_keys(mut self, keys: TicketKeys) -> Self {
        self.ticket_keys = Some(keys);
        self
    }

    /// Asks clients that connect over IPv4 to move to this address after the handshake (RFC 9000 §9.6). The server also
    /// listens there; port 0 means any free port. An example is a server that is reached by an anycast address, and whose
    /// connections go on at the unicast address of one machine.
    pub fn preferred_address_v4(mut self, address: SocketAddrV4) -> Self {
        self.preferred_addresses.v4 = Some(address);
        self
    }

    /// Like [`preferred_address_v4`](Self::preferred_address_v4), for clients that connect over IPv6.
    pub fn preferred_address_v6(mut self, address: SocketAddrV6) -> Self {
        self.preferred_addresses.v6 = Some(address);
        self
    }

    /// The maximum number of connections; more are refused. Of several [`shards`](Self::shards) each has its part of them,
    /// rounded up, so that one which gets more clients than others refuses some earlier.
    pub fn max_connections(mut self, count: usize) -> Self {
        self.max_connections = count;
        self
    }

    /// Bounds the memory that clients make the endpoint keep in connections, all shards together; endpoints may share a budget. By
    /// default all servers of a process share [`MemoryBudget::of_process`]: half of the memory that the process may use. What
    /// happens when the memory becomes short is described at [`MemoryBudget`]. Connections that this endpoint makes count as well.
    pub fn memory_budget(mut self, budget: MemoryBudget) -> Self {
        self.memory_budget = Some(budget);
        self
    }

    /// How many shards the endpoint has: threads that each have a socket at its address, and connections of their own. By
    /// default one; more than one is for servers that keep more than one core busy. Each connection stays in its shard,
    /// whatever address its client moves to: see [`Steering`](crate::Steering).
    ///
    /// All shards accept the same tickets and tokens, and a ticket is accepted for early data once by all of them together.
    /// Their sockets have the option SO_REUSEPORT, also those of one shard: other processes of the same user that ask for it may
    /// get a part of the clients. A server never joins sockets that exist.
    ///
    /// # Errors
    /// More than [`MAX_SHARDS`](crate::MAX_SHARDS) are an error when the server is started.
    pub fn shards(mut self, count: NonZeroUsize) -> Self {
        self.shards = count;
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

    /// Listens at sockets that were bound by somebody else, such as a service manager: one for each [shard](Self::shards), all
    /// at one address, in the order in which they were bound, and with SO_REUSEPORT if there are several. The address with
    /// which the server is started then has no effect. Sockets at preferred addresses are opened all the same.
    ///
    /// # Errors
    /// Sockets at several addresses, or not as many as shards, are an error when the server is started.
    pub fn listening_sockets(mut self, sockets: impl IntoIterator<Item = UdpSocket>) -> Self {
        self.sockets = sockets.into_iter().collect();
        self
    }

    /// Lets this server replace one that runs in another process, and be replaced. It has to have as many
    /// [shards](Self::shards) and the same addresses; port 0 is that of the other one. When it has started, it has replaced the
    /// other one. [`Endpoint::replaced`](crate::Endpoint::replaced) tells a server when it is its turn.
    ///
    /// Without [`ticket_keys`](Self::ticket_keys), both have keys of their own in common, so that sessions are resumed
    /// across the restart. With them, both need the same.
    ///
    /// # Errors
    /// When the server is started: an [`io::Error`](std::io::Error) whose cause is a
    /// [`HotRestartError`](crate::HotRestartError). The other process then goes on.
    pub fn hot_restart(mut self, hot_restart: HotRestart) -> Self {
        self.hot_restart = Some(hot_restart);
        self
    }

    /// Has connection IDs follow a configuration of QUIC-LB: balancers that have it, too, find this server whatever address a
    /// client moves to. [`Endpoint::rotate_quic_lb`](crate::Endpoint::rotate_quic_lb) replaces it while the server runs. Of
    /// two processes of a [hot restart](Self::hot_restart) both have one, with IDs of the same length, or neither.
    #[cfg(feature = "quic-lb")]
    pub fn quic_lb(mut self, config: QuicLb) -> Self {
        self.quic_lb = Some(config);
        self
    }

    /// Keys of tickets and tokens for a server that has none, and has both in common with another process.
    pub(crate) fn default_ticket_keys(&mut self, secret: &[u8; 32]) {
        self.ticket_keys.get_or_insert_with(|| TicketKeys::new(secret));
    }

    /// The settings of the endpoint.
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
            retry_token_lifetime: clearway_transport::ServerConfig::RETRY_TOKEN_LIFETIME,
            new_token_lifetime: clearway_transport::ServerConfig::NEW_TOKEN_LIFETIME,
            shared_tokens: self
                .ticket_keys
                .map(|keys| SharedTokens { keys, clock: Arc::new(DefaultTimeProvider) }),
            preferred_addresses: self.preferred_addresses,
        })
    }

    fn make_sessions(&self) -> Result<Arc<dyn ServerSessions>, ConfigError> {
        let certificates: Arc<dyn ResolvesServerCert> = match &self.presented {
            Presented::Sessions(sessions) => return Ok(sessions.clone()),
            Presented::Resolver(resolver) => Arc::new(Resolving(resolver.clone())),
            Presented::Certificate(chain, key) => {
                let identity = Identity::from_der(chain.clone(), key.clone_key())?;
                Arc::new(SingleCertAndKey::from(identity.certified_key()))
            }
        };
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

/// Whether a client could be asked to move to the address.
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
