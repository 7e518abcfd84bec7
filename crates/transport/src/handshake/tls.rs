//! TLS 1.3 with rustls.

mod binding;
mod chain;
mod client_trust;
mod context;
mod encrypted_client_hello;
mod memory;
mod messages;
mod revive;
mod saved;
mod sealed;
mod secrets;
mod server;
mod server_secrets;
mod server_trust;
mod session_trust;
mod settings;
mod signatures;
mod tickets;
mod verifier;

use core::time::Duration;
use std::fs::OpenOptions;
use std::path::Path;
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use clearway_wire::Version;
use rustls::client::Resumption;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::quic::{
    self, ClientConnection, Connection, DirectionalKeys, KeyChange, ServerConnection,
};
use rustls::sign::SingleCertAndKey;
use rustls::version::TLS13;
use rustls::{
    CipherSuite, ClientConfig, HandshakeKind, KeyLog, KeyLogFile, RootCertStore, ServerConfig,
};

use super::early_limits::EarlyLimits;
use super::encrypted_extensions;
use super::initial::of_tls;
use super::session::{
    ClientSessions, ConnectionVersions, EarlyData, ExportError, NewKeys, ServerSessions, Session,
    SessionError,
};
use super::tls_error::{client_hello_error, transport_error};
use crate::crypto::tls::default_provider;
use crate::{SpaceId, TransportError};
use binding::SessionBinding;
use client_trust::ClientPolicy;
pub use client_trust::{ClientRoots, ClientTrust};
use context::{CurrentContext, SessionContext};
pub use context::{EarlyDataContext, MAX_EARLY_DATA_CONTEXT};
pub use encrypted_client_hello::EncryptedClientHello;
pub use memory::MemorySessionStore;
use messages::NewTicket;
use revive::reading_secret;
pub use saved::{SavedSession, SavedSessionError, SessionStore};
use sealed::SealedSessions;
pub use sealed::TicketKeys;
use secrets::{Level, TrafficSecrets};
use server::ServerSession;
use server_secrets::CollectingKeyLog;
pub use server_trust::ServerTrust;
use session_trust::ClientSide;
pub use settings::{TlsClientSettings, TlsServerSettings, certified_key};
use tickets::{
    ClientTickets, ConnectionTickets, EarlyDataConditions, VersionedSessions, VersionedTicketer,
};
use verifier::Verifier;

fn key_log_file() -> Arc<dyn KeyLog> {
    if let Some(path) = std::env::var_os("SSLKEYLOGFILE") {
        make_private(Path::new(&path));
    }
    Arc::new(KeyLogFile::new())
}

/// Creates an empty file that only this user may read, unless the path exists. Other programs
/// append to the same file, and it may be a pipe. If creating the file fails, rustls reports the
/// error when it opens the file.
fn make_private(path: &Path) {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    drop(options.open(path));
}

/// A client's TLS settings, checked for use with QUIC.
#[derive(Clone, Debug)]
pub struct TlsClientConfig {
    config: Arc<ClientConfig>,
    /// The session tickets, and the verifier of server certificates; `None` if the configuration
    /// has its own store and verifier.
    tickets: Option<(ClientTickets, Arc<Verifier>)>,
    /// Whether the ClientHello is encrypted, which a server may reject.
    encrypts_hello: bool,
    /// The store for tokens from servers; `None` if tokens are not stored.
    tokens: Option<Arc<dyn SessionStore>>,
}

impl TlsClientConfig {
    /// Uses a rustls configuration unchanged. The configuration's session store keeps tickets of
    /// QUIC version 1. Connections of version 2 are not resumed, since tickets of different
    /// versions must not be mixed (RFC 9369 §5).
    ///
    /// # Errors
    /// Returns an error if the configuration lacks TLS 1.3, application protocols, or cipher suites
    /// that QUIC can use.
    pub fn new(config: Arc<ClientConfig>) -> Result<Self, SessionError> {
        check(&config.alpn_protocols)?;
        // rustls checks the version and the cipher suites only when a connection starts.
        let name =
            ServerName::try_from("localhost").map_err(|_| SessionError::InvalidServerName)?;
        ClientConnection::new(config.clone(), quic::Version::V1, name, Vec::new())?;
        Ok(Self { config, tickets: None, encrypts_hello: false, tokens: None })
    }

    /// Creates a configuration from `settings`.
    ///
    /// # Errors
    /// Returns an error if there are no application protocols, no cipher suites that QUIC can use
    /// or no key exchange groups, or if the list of ECH configurations cannot be used.
    pub fn from_settings(settings: TlsClientSettings) -> Result<Self, SessionError> {
        let encrypts_hello = settings.encrypted_client_hello.has_config();
        let side = ClientSide::new(&settings.trust, settings.certificate.as_deref());
        let (config, verifier) = settings.into_config()?;
        let tickets = Some((ClientTickets::in_memory(side), verifier));
        Ok(Self { encrypts_hello, tickets, ..Self::new(Arc::new(config))? })
    }

    /// Accepts servers whose certificates chain to `roots`, and offers `application_protocols`, the
    /// preferred one first.
    ///
    /// # Errors
    /// Returns an error if there are no application protocols.
    pub fn with_roots(
        roots: RootCertStore,
        application_protocols: &[&[u8]],
    ) -> Result<Self, SessionError> {
        let trust = ServerTrust::Roots(Arc::new(roots));
        Self::from_settings(TlsClientSettings::new(trust, application_protocols))
    }

    /// Accepts any certificate, which lets anyone on the path read and change everything. For tests
    /// and measurements only.
    ///
    /// # Errors
    /// Returns an error if there are no application protocols.
    pub fn dangerous_without_certificate_verification(
        application_protocols: &[&[u8]],
    ) -> Result<Self, SessionError> {
        let trust = ServerTrust::DangerousAnyone;
        Self::from_settings(TlsClientSettings::new(trust, application_protocols))
    }

    /// Stores servers' tokens in `store`, and uses each for one later connection (RFC 9000 §8.1.3).
    /// By default tokens are only reported to the application.
    pub fn token_store(mut self, store: Arc<dyn SessionStore>) -> Self {
        self.tokens = Some(store);
        self
    }

    /// Stores session tickets and tokens in `store` instead of in memory. Configurations from
    /// [`new`](Self::new) keep their own store.
    ///
    /// A session that this configuration has received is resumed like one in memory. A session
    /// received by another configuration or process is resumed only if the server's certificates,
    /// which are stored with it, are currently acceptable to this configuration. Such a session
    /// saves a round trip if it allows [early data](Self::early_data), but no CPU time: resuming
    /// it takes this client about 390 us, and a full handshake takes 290 us. A session that began
    /// without [verification](ServerTrust::DangerousAnyone) is not resumed by a configuration that
    /// verifies, nor is one that began with another client certificate, or more than a week ago.
    pub fn session_store(mut self, store: Arc<dyn SessionStore>) -> Self {
        self.tokens = Some(store.clone());
        if let Some((tickets, verifier)) = &mut self.tickets {
            let verifier = tickets.keep_in(store, verifier.clone());
            Arc::make_mut(&mut self.config).dangerous().set_certificate_verifier(verifier);
        }
        self
    }

    /// Sets whether connections offer early data if their session ticket allows it (RFC 9001
    /// §4.6.1); off by default. Data sent before [`Event::Connected`](crate::Event::Connected) is
    /// then not protected against replay (§9.2).
    pub fn early_data(mut self, offers: bool) -> Self {
        Arc::make_mut(&mut self.config).enable_early_data = offers;
        self
    }

    /// Writes the secrets of every session to `key_log`.
    pub fn key_log(mut self, key_log: Arc<dyn KeyLog>) -> Self {
        Arc::make_mut(&mut self.config).key_log = key_log;
        self
    }

    /// Appends the secrets of every session to the file named by the environment variable
    /// `SSLKEYLOGFILE`, if set. A new file is created so that only this user may read it.
    pub fn key_log_file(self) -> Self {
        self.key_log(key_log_file())
    }
}

/// The parts of a client's connection that depend on the negotiated version.
struct ClientVersion {
    /// The version of the first flight; rustls derives keys with its labels.
    first: Version,
    /// The current version of the connection.
    current: Version,
    /// The destination of session tickets; `None` if they go to a store that only accepts tickets
    /// of version 1.
    tickets: Option<Arc<ConnectionTickets>>,
    /// The secrets from which the keys of another version are derived; `None` if the version cannot
    /// change.
    secrets: Option<Arc<TrafficSecrets>>,
    config: Arc<ClientConfig>,
}

impl ClientVersion {
    /// Creates the settings of a connection that begins in `first` and may switch to one of
    /// `others`.
    fn begin(
        settings: &TlsClientConfig,
        first: Version,
        others: &[Version],
    ) -> (Self, Arc<ClientConfig>) {
        let mut config = settings.config.clone();
        let mut tickets = None;
        if let Some((all, _)) = &settings.tickets {
            let of_connection =
                Arc::new(ConnectionTickets::new(all.clone(), first, settings.config.clone()));
            let resumption = Resumption::store(of_connection.clone());
            Arc::make_mut(&mut config).resumption = resumption;
            tickets = Some(of_connection);
        } else if first != Version::V1 {
            Arc::make_mut(&mut config).resumption = Resumption::disabled();
        }
        let may_change = others.iter().any(|version| *version != first);
        let secrets = may_change.then(|| {
            let secrets = Arc::new(TrafficSecrets::new(config.key_log.clone()));
            Arc::make_mut(&mut config).key_log = secrets.clone();
            secrets
        });
        (Self { first, current: first, tickets, secrets, config: config.clone() }, config)
    }

    fn change(&mut self, version: Version) -> Result<(), TransportError> {
        if version != self.first && self.secrets.is_none() {
            return Err(TransportError::internal("this connection cannot change its QUIC version"));
        }
        if let Some(tickets) = &self.tickets {
            tickets.change_version(version);
        }
        self.current = version;
        Ok(())
    }

    /// Returns whether session tickets have to be dropped, because the only store is for tickets of
    /// version 1.
    fn drops_tickets(&self) -> bool {
        self.tickets.is_none() && self.current != Version::V1
    }

    /// Returns the keys of `level`; `None` if rustls's own keys are used.
    fn keys(&self, level: Level, suite: Option<CipherSuite>) -> Option<NewKeys> {
        let secrets = self.secrets.as_ref().filter(|_| self.current != self.first)?;
        secrets.keys(level, self.current, suite?)
    }
}

impl ClientSessions for TlsClientConfig {
    fn connect(
        self: Arc<Self>,
        version: Version,
        others: &[Version],
        server_name: &str,
        transport_parameters: Vec<u8>,
    ) -> Result<Box<dyn Session>, SessionError> {
        Ok(Box::new(TlsSession::connect(
            &self,
            version,
            others,
            server_name,
            transport_parameters,
        )?))
    }

    fn put_token(&self, server_name: &str, token: &[u8]) {
        if let Some(tokens) = &self.tokens {
            tokens.put_token(server_name, token);
        }
    }

    fn take_token(&self, server_name: &str) -> Option<Vec<u8>> {
        self.tokens.as_ref()?.take_token(server_name)
    }
}

impl TlsSession {
    fn connect(
        settings: &TlsClientConfig,
        version: Version,
        others: &[Version],
        server_name: &str,
        transport_parameters: Vec<u8>,
    ) -> Result<Self, SessionError> {
        let name = ServerName::try_from(server_name.to_owned())
            .map_err(|_| SessionError::InvalidServerName)?;
        let of_tls = of_tls(version).map_err(|_| SessionError::UnknownVersion)?;
        let (version, config) = ClientVersion::begin(settings, version, others);
        let connection = ClientConnection::new(config, of_tls, name, transport_parameters)?;
        let resumed = version.tickets.as_ref().map(|tickets| tickets.resumed_context());
        Ok(Self {
            remembered_parameters: connection.quic_transport_parameters().map(<[u8]>::to_vec),
            remembered_context: resumed.unwrap_or_default(),
            connection: Connection::Client(connection),
            version: Some(version),
            requested_name: Some(server_name.to_owned()),
            client_hello_start: Vec::new(),
            encrypted_extensions: settings.encrypts_hello.then(Vec::new),
            later: Vec::new(),
            issuing: None,
        })
    }
}

/// A server's TLS settings, checked for use with QUIC.
///
/// A session is resumed only by a server that would currently accept its client in a full
/// handshake. The session is bound to whether [client certificates are requested](ClientTrust) and
/// to the roots for them. The client's certificate chain in the session is verified again, with the
/// current time and roots. No session is resumed later than
/// [`max_session_age`](Self::max_session_age) after the full handshake from which it descends. In
/// all other cases there is a full handshake, without early data.
#[derive(Clone, Debug)]
pub struct TlsServerConfig {
    /// The rustls configuration, and the client policy that is part of it. Both are replaced when
    /// the roots change.
    current: Arc<ArcSwap<Current>>,
    /// The source of the policy; `None` if it is part of the user's own configuration.
    clients: Option<ClientTrust>,
    /// The session ticket keys; `None` if sessions are in a table.
    ticket_keys: Option<TicketKeys>,
    /// Whether the session table is the default one. A user-provided table decides what happens to
    /// a resumed session.
    has_default_table: bool,
    /// The application settings that early data depends on.
    context: Option<Arc<dyn EarlyDataContext>>,
    max_session_age: Duration,
    /// The name that [`session_policy`](Self::session_policy) adds to the policy.
    policy_name: Option<Arc<[u8]>>,
}

/// A snapshot of a server's configuration.
#[derive(Clone, Debug)]
struct Current {
    config: Arc<ServerConfig>,
    policy: Arc<ClientPolicy>,
}

impl Current {
    /// Returns the same configuration with another policy. rustls does not allow replacing a
    /// configuration's verifier, so the configuration is rebuilt, and settings that nothing in this
    /// file changes get rustls's defaults.
    fn with_policy(&self, policy: ClientPolicy) -> Result<Self, SessionError> {
        let old = &*self.config;
        let (provider, time) = (old.crypto_provider().clone(), old.time_provider.clone());
        let mut config = ServerConfig::builder_with_details(provider, time)
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(policy.verifier())
            .with_cert_resolver(old.cert_resolver.clone());
        config.alpn_protocols.clone_from(&old.alpn_protocols);
        config.session_storage = old.session_storage.clone();
        config.key_log = old.key_log.clone();
        config.max_early_data_size = old.max_early_data_size;
        config.send_tls13_tickets = old.send_tls13_tickets;
        Ok(Self { config: Arc::new(config), policy: Arc::new(policy) })
    }
}

/// The TLS state for one server connection.
struct OfConnection {
    config: Arc<ServerConfig>,
    /// The source of the connection's tickets, if they are sealed.
    sealed: Option<Arc<SealedSessions>>,
    binding: Arc<SessionBinding>,
}

impl TlsServerConfig {
    /// Uses a configuration, and marks its session tickets with the QUIC version to which they
    /// belong (RFC 9369 §5).
    ///
    /// The configuration's verification of client certificates is opaque. Its sessions are
    /// therefore resumed only by this configuration and its clones, unless
    /// [`session_policy`](Self::session_policy) sets the policy's name, and chains are not verified
    /// again. [`from_settings`](Self::from_settings) has neither limitation.
    ///
    /// # Errors
    /// Returns an error if the configuration lacks TLS 1.3, application protocols, or cipher suites
    /// that QUIC can use, or if there is no source of randomness.
    pub fn new(config: Arc<ServerConfig>) -> Result<Self, SessionError> {
        let policy = ClientPolicy::unknown(config.crypto_provider().secure_random)?;
        Self::checked(config, policy, None)
    }

    fn checked(
        config: Arc<ServerConfig>,
        policy: ClientPolicy,
        clients: Option<ClientTrust>,
    ) -> Result<Self, SessionError> {
        check(&config.alpn_protocols)?;
        // rustls checks the version and the cipher suites only when a connection starts.
        ServerConnection::new(config.clone(), quic::Version::V1, Vec::new())?;
        Ok(Self {
            current: Arc::new(ArcSwap::from_pointee(Current { config, policy: Arc::new(policy) })),
            has_default_table: clients.is_some(),
            clients,
            ticket_keys: None,
            context: None,
            max_session_age: binding::DEFAULT_AGE,
            policy_name: None,
        })
    }

    /// Returns the same settings with a changed configuration. Existing clones keep the old one.
    fn changed(self, change: impl FnOnce(&mut ServerConfig)) -> Self {
        let Current { mut config, policy } = Current::clone(&self.current.load());
        change(Arc::make_mut(&mut config));
        let current = Arc::new(ArcSwap::from_pointee(Current { config, policy }));
        Self { current, ..self }
    }

    /// Returns the configuration with the current roots.
    fn current(&self) -> Result<Arc<Current>, SessionError> {
        let current = self.current.load_full();
        let Some(clients) = &self.clients else { return Ok(current) };
        let (ClientTrust::Optional(roots) | ClientTrust::Required(roots)) = clients else {
            return Ok(current);
        };
        if current.policy.has_roots(&roots.current()) {
            return Ok(current);
        }
        let policy = ClientPolicy::of(clients, current.config.crypto_provider())?;
        let policy = match &self.policy_name {
            Some(name) => policy.named(name),
            None => policy,
        };
        let current = Arc::new(current.with_policy(policy)?);
        self.current.store(current.clone());
        Ok(current)
    }

    /// Returns the state for a connection with these transport parameters.
    fn of_connection(
        &self,
        versions: ConnectionVersions,
        transport_parameters: &[u8],
    ) -> Result<OfConnection, SessionError> {
        let Current { mut config, policy } = Current::clone(&*self.current()?);
        let accepts_early_data = config.max_early_data_size > 0;
        let sealed = self.ticket_keys.clone().map(|keys| {
            Arc::new(SealedSessions {
                keys,
                time: config.time_provider.clone(),
                random: config.crypto_provider().secure_random,
                is_used_once: accepts_early_data,
                unsent: Mutex::default(),
            })
        });
        let inner = match &sealed {
            Some(sealed) => sealed.clone(),
            None => config.session_storage.clone(),
        };
        let limits = EarlyLimits::decode_parameters(transport_parameters);
        let early = limits.filter(|_| accepts_early_data).map(|limits| {
            let context = self.context.clone().map(CurrentContext::new);
            EarlyDataConditions { limits, context }
        });
        // Early data may have been replayed, so sessions with early data are used only once.
        let is_used_once = accepts_early_data || sealed.is_some() || !self.has_default_table;
        let time = config.time_provider.clone();
        let binding = Arc::new(SessionBinding::new(policy, self.max_session_age, time));
        let ConnectionVersions { original, negotiated } = versions;
        let changed = Arc::make_mut(&mut config);
        changed.session_storage = Arc::new(VersionedSessions {
            inner,
            is_used_once,
            original,
            negotiated,
            early,
            binding: binding.clone(),
        });
        let inner = changed.ticketer.clone();
        let ticketer = VersionedTicketer { inner, original, negotiated, binding: binding.clone() };
        changed.ticketer = Arc::new(ticketer);
        changed.key_log = Arc::new(CollectingKeyLog(changed.key_log.clone()));
        Ok(OfConnection { config, sealed, binding })
    }

    /// Presents `certificate_chain`, the server's own certificate first, and accepts
    /// `application_protocols`, the preferred one first.
    ///
    /// # Errors
    /// Returns an error if the key does not match the certificate, or there are no application
    /// protocols.
    pub fn with_certificate(
        certificate_chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        application_protocols: &[&[u8]],
    ) -> Result<Self, SessionError> {
        let certificate = SingleCertAndKey::from(certified_key(certificate_chain, key)?);
        Self::from_settings(TlsServerSettings::new(Arc::new(certificate), application_protocols))
    }

    /// Creates a configuration from `settings`. A client gets one session ticket on each
    /// connection.
    ///
    /// # Errors
    /// Returns an error if there are no application protocols or no key exchange groups, or if
    /// client certificates are requested but there are no roots for them.
    pub fn from_settings(settings: TlsServerSettings) -> Result<Self, SessionError> {
        let clients = settings.clients.clone();
        let (config, policy) = settings.into_config()?;
        Self::checked(Arc::new(config), policy, Some(clients))
    }

    /// Sets the name of the client policy of a configuration from [`new`](Self::new): servers that
    /// verify client certificates in the same way, against the same roots, use the same name and
    /// resume each other's sessions, if they share [ticket keys](Self::ticket_keys) or a store. If
    /// policies with the same name differ, clients may be accepted that this server would reject.
    ///
    /// For a configuration from [`from_settings`](Self::from_settings), the name is an additional
    /// condition, which separates sites with the same keys.
    pub fn session_policy(self, name: &[u8]) -> Self {
        let Current { config, policy } = Current::clone(&self.current.load());
        let policy = Arc::new(policy.named(name));
        let current = Arc::new(ArcSwap::from_pointee(Current { config, policy }));
        Self { current, policy_name: Some(name.into()), ..self }
    }

    /// Sets how long after a full handshake the sessions that descend from it can be resumed: 24
    /// hours by default, and at most seven days (RFC 8446 §4.6.1). Each resumption gives the client
    /// a new ticket, so without this limit, a client would never again have to prove that it has
    /// its certificate's key. An older session leads to a full handshake.
    pub fn max_session_age(self, age: Duration) -> Self {
        Self { max_session_age: age.min(binding::LONGEST_AGE), ..self }
    }

    /// Seals session tickets with `keys`, so that all processes with these keys accept them; by
    /// default a process keeps a few hundred sessions in a table, which are lost when it restarts.
    /// While early data is off, a client may resume a session several times, for example to open
    /// several connections at the same time.
    ///
    /// While [early data](Self::early_data) is on, a process accepts each ticket only once within
    /// at least two minutes, which is longer than the time for which TLS would accept a replayed
    /// ClientHello as new. In its first two minutes, it also rejects tickets from before its start,
    /// and it rejects all tickets if it has recorded too many. Rejected tickets lead to a full
    /// handshake. Processes do not share their records: an attacker who can replay a client's
    /// packets can have the client's early data processed once by each process (RFC 8446 §8).
    pub fn ticket_keys(self, keys: TicketKeys) -> Self {
        Self { ticket_keys: Some(keys), ..self }
    }

    /// Sets whether early data is accepted from clients that resume a session (RFC 9001 §4.6.1);
    /// off by default. An application must not change state in response to data that [may be
    /// replayed](crate::Connection::is_early).
    pub fn early_data(self, accepts: bool) -> Self {
        self.changed(|config| config.max_early_data_size = if accepts { EARLY_DATA } else { 0 })
    }

    /// Binds application settings to the sessions that are issued while [early
    /// data](Self::early_data) is on. A session is rejected, which leads to a full handshake
    /// without early data, if the current settings do not [permit](EarlyDataContext::permits) the
    /// session's settings, or if it was issued without such settings or under lower transport
    /// limits (RFC 9000 §7.4.1, RFC 9001 §4.6.3).
    ///
    /// An application protocol whose clients remember settings, such as HTTP/3, needs this to
    /// accept early data (RFC 9114 §7.2.4.2).
    pub fn early_data_context(self, context: Arc<dyn EarlyDataContext>) -> Self {
        Self { context: Some(context), ..self }
    }

    /// Writes the secrets of every session to `key_log`.
    pub fn key_log(self, key_log: Arc<dyn KeyLog>) -> Self {
        self.changed(|config| config.key_log = key_log)
    }

    /// Appends the secrets of every session to the file named by the environment variable
    /// `SSLKEYLOGFILE`, if set. A new file is created so that only this user may read it.
    pub fn key_log_file(self) -> Self {
        self.key_log(key_log_file())
    }
}

impl ServerSessions for TlsServerConfig {
    fn accept(
        self: Arc<Self>,
        versions: ConnectionVersions,
        transport_parameters: Vec<u8>,
    ) -> Result<Box<dyn Session>, SessionError> {
        let version = of_tls(versions.negotiated).map_err(|_| SessionError::UnknownVersion)?;
        let OfConnection { config, sealed, binding } =
            self.of_connection(versions, &transport_parameters)?;
        let mut connection = ServerConnection::new(config, version, transport_parameters)?;
        if versions.original != versions.negotiated {
            // The 0-RTT keys belong to the client's version (RFC 9369 §4.1), which this session
            // does not have.
            connection.reject_early_data();
        }
        let session = TlsSession {
            connection: Connection::Server(connection),
            version: None,
            remembered_parameters: None,
            remembered_context: SessionContext::default(),
            requested_name: None,
            client_hello_start: Vec::with_capacity(CLIENT_HELLO_START),
            encrypted_extensions: None,
            later: Vec::new(),
            issuing: Some(Issuing { sealed, binding: binding.clone() }),
        };
        Ok(Box::new(ServerSession::new(session, versions.negotiated, binding)))
    }
}

/// The max_early_data_size in the tickets of a server that accepts early data (RFC 9001 §4.6.1).
const EARLY_DATA: u32 = 0xffff_ffff;

/// Collects the entropy that the cryptographic library needs for its first random bytes in a
/// process. This takes tens of milliseconds of CPU time, and seconds on a busy machine; subsequent
/// calls take microseconds. A server should call it before it reports that it is listening;
/// otherwise its first handshake waits.
pub fn prepare_randomness() {
    let mut bytes = [0; 32];
    // If the entropy source fails, the handshake that needs it reports the error.
    let _ = default_provider().secure_random.fill(&mut bytes);
}

fn owned(application_protocols: &[&[u8]]) -> Vec<Vec<u8>> {
    application_protocols.iter().map(|protocol| protocol.to_vec()).collect()
}

fn check(protocols: &[Vec<u8>]) -> Result<(), SessionError> {
    match protocols.is_empty() {
        true => Err(SessionError::NoApplicationProtocol),
        false => Ok(()),
    }
}

/// The length of a ClientHello up to and including the length of legacy_session_id: type (1),
/// length (3), version (2), random (32) and that length (1).
const CLIENT_HELLO_START: usize = 39;
/// The handshake type of a ClientHello (RFC 8446 §4).
const CLIENT_HELLO: u8 = 1;

struct TlsSession {
    connection: Connection,
    /// The version-dependent parts of a client. A server's version does not change once there is a
    /// session.
    version: Option<ClientVersion>,
    /// The server's transport parameters in the session that a client resumes. For 0-RTT, rustls
    /// returns these parameters until those of this handshake are received.
    remembered_parameters: Option<Vec<u8>>,
    /// The application's context from the resumed session.
    remembered_context: SessionContext,
    /// The server name that a client requests.
    requested_name: Option<String>,
    /// The first bytes that a server received, up to [`CLIENT_HELLO_START`].
    client_hello_start: Vec<u8>,
    /// The bytes that a client has received in Handshake packets, which begin with
    /// EncryptedExtensions, up to the maximum length of that message. `None` if the ClientHello is
    /// not encrypted, because the bytes are then not needed.
    encrypted_extensions: Option<Vec<u8>>,
    /// The beginning of a message that a client received after the handshake.
    later: Vec<u8>,
    /// The changes to make to a server's tickets before they are sent.
    issuing: Option<Issuing>,
}

/// The changes that a server makes to tickets issued by rustls.
struct Issuing {
    /// The source of the server's tickets, if they are sealed.
    sealed: Option<Arc<SealedSessions>>,
    binding: Arc<SessionBinding>,
}

impl Issuing {
    /// Replaces session names with sealed sessions, and limits each ticket's stated lifetime to the
    /// session's remaining lifetime.
    fn finish(&self, out: &mut Vec<u8>, start: usize) {
        let lifetime = self.binding.lifetime();
        messages::rewrite_tickets(out, start, lifetime, |name| {
            self.sealed.as_ref()?.take_ticket(name)
        });
    }
}

impl TlsSession {
    /// Buffers the bytes in which a server that rejects an encrypted ClientHello sends its retry
    /// configurations.
    fn keep_encrypted_extensions(&mut self, space: SpaceId, message_bytes: &[u8]) {
        if let Some(kept) =
            self.encrypted_extensions.as_mut().filter(|_| space == SpaceId::Handshake)
        {
            let room = encrypted_extensions::MAX_LENGTH.saturating_sub(kept.len());
            kept.extend(message_bytes.iter().take(room));
        }
    }

    /// Rejects the TLS 1.3 compatibility mode, which QUIC forbids (RFC 9001 §8.4).
    fn check_client_hello(&mut self, message_bytes: &[u8]) -> Result<(), TransportError> {
        let missing = CLIENT_HELLO_START.saturating_sub(self.client_hello_start.len());
        if missing == 0 || matches!(self.connection, Connection::Client(_)) {
            return Ok(());
        }
        self.client_hello_start.extend(message_bytes.iter().take(missing));
        match self.client_hello_start.as_slice() {
            [CLIENT_HELLO, start @ .., session_id_length]
                if start.len() == CLIENT_HELLO_START - 2 && *session_id_length != 0 =>
            {
                Err(client_hello_error())
            }
            _ => Ok(()),
        }
    }
}

impl TlsSession {
    fn keys_of(&self, change: KeyChange) -> NewKeys {
        let (level, keys) = match change {
            KeyChange::Handshake { keys } => (Level::Handshake, NewKeys::Handshake(keys)),
            KeyChange::OneRtt { keys, next } => {
                (Level::Application, NewKeys::Application { keys, next: Box::new(next) })
            }
        };
        let suite = self.connection.negotiated_cipher_suite().map(|suite| suite.suite());
        let derived = self.version.as_ref().and_then(|version| version.keys(level, suite));
        derived.unwrap_or(keys)
    }

    /// Processes CRYPTO data that a client receives after the handshake: session tickets.
    fn receive_later(&mut self, bytes: &[u8]) -> Result<(), TransportError> {
        if self.version.as_ref().is_some_and(ClientVersion::drops_tickets) {
            return Ok(());
        }
        self.later.extend_from_slice(bytes);
        while let Some(message) = messages::take_message(&mut self.later) {
            let ticket = NewTicket::parse(&message);
            if ticket.is_some_and(|ticket| ticket.ticket.len() > saved::MAX_TICKET) {
                continue;
            }
            let connection = &mut self.connection;
            let (read, secret) = reading_secret(|| connection.read_hs(&message));
            read.map_err(|error| transport_error(error, self.connection.alert(), false, None))?;
            if let (Some(ticket), Some(secret)) = (ticket, secret) {
                self.save(&ticket, secret);
            }
        }
        Ok(())
    }

    fn client_tickets(&self) -> Option<&Arc<ConnectionTickets>> {
        self.version.as_ref()?.tickets.as_ref()
    }

    /// Passes a new session to the application's store, if there is one.
    fn save(&self, ticket: &NewTicket<'_>, secret: Vec<u8>) {
        let (Some(client), Some(tickets)) = (&self.version, self.client_tickets()) else { return };
        let Some(store) = tickets.store() else { return };
        let connection = &self.connection;
        let (Some(suite), Some(now)) =
            (connection.negotiated_cipher_suite(), client.config.time_provider.current_time())
        else {
            return;
        };
        let certificates = connection.peer_certificates().unwrap_or_default();
        let session = SavedSession {
            version: client.current,
            suite: suite.suite().into(),
            issued: now.as_secs(),
            lifetime: ticket.lifetime,
            age_add: ticket.age_add,
            permits_early_data: ticket.permits_early_data(),
            application_protocol: connection.alpn_protocol().unwrap_or_default().to_vec(),
            secret,
            ticket: ticket.ticket.to_vec(),
            parameters: connection.quic_transport_parameters().unwrap_or_default().to_vec(),
            context: tickets.context().clone(),
            trust: tickets.trust(),
            certificates: certificates.iter().map(|it| it.as_ref().to_vec()).collect(),
            live: tickets.take_last(),
        };
        store.put_session(self.requested_name.as_deref().unwrap_or_default(), session);
    }
}

impl Session for TlsSession {
    fn receive(&mut self, space: SpaceId, message_bytes: &[u8]) -> Result<(), TransportError> {
        if space == SpaceId::Application && matches!(self.connection, Connection::Client(_)) {
            return self.receive_later(message_bytes);
        }
        self.check_client_hello(message_bytes)?;
        self.keep_encrypted_extensions(space, message_bytes);
        let was_handshaking = self.connection.is_handshaking();
        let read = self.connection.read_hs(message_bytes);
        if !self.connection.is_handshaking() {
            self.encrypted_extensions = None;
            let is_resumed = self.connection.handshake_kind() == Some(HandshakeKind::Resumed);
            if let Some(tickets) = self.client_tickets().filter(|_| was_handshaking && !is_resumed)
            {
                tickets.begin_now();
            }
        }
        read.map_err(|error| {
            let received = self.encrypted_extensions.as_deref().unwrap_or_default();
            let retry_configs = encrypted_extensions::retry_configs(received);
            transport_error(error, self.connection.alert(), was_handshaking, retry_configs)
        })
    }

    fn produce(&mut self, out: &mut Vec<u8>) -> Option<NewKeys> {
        if let Some(issuing) = self.issuing.as_ref().filter(|_| !self.connection.is_handshaking()) {
            let start = out.len();
            let keys = self.connection.write_hs(out);
            issuing.finish(out, start);
            return keys.map(|keys| self.keys_of(keys));
        }
        let keys = self.connection.write_hs(out)?;
        Some(self.keys_of(keys))
    }

    fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    fn peer_transport_parameters(&self) -> Option<&[u8]> {
        // The parameters of two handshakes always differ, because they contain the connection IDs
        // (RFC 9000 §7.3).
        self.connection.quic_transport_parameters().filter(|parameters| {
            self.remembered_parameters.as_deref() != Some(*parameters)
                || !self.connection.is_handshaking()
        })
    }

    fn application_protocol(&self) -> Option<&[u8]> {
        self.connection.alpn_protocol()
    }

    fn server_name(&self) -> Option<&str> {
        match &self.connection {
            Connection::Client(_) => self.requested_name.as_deref(),
            Connection::Server(connection) => connection.server_name(),
        }
    }

    fn peer_certificates(&self) -> Option<&[CertificateDer<'static>]> {
        self.connection.peer_certificates()
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: Option<&[u8]>,
    ) -> Result<(), ExportError> {
        let exported = self.connection.export_keying_material(output, label, context);
        exported.map(|_| ()).map_err(|_| ExportError)
    }

    fn change_version(&mut self, version: Version) -> Result<(), TransportError> {
        match &mut self.version {
            Some(client) => client.change(version),
            None => Err(TransportError::internal(
                "a server's TLS session cannot change its QUIC version",
            )),
        }
    }

    fn early_keys(&mut self) -> Option<DirectionalKeys> {
        self.connection.zero_rtt_keys()
    }

    fn reject_early_data(&mut self) {
        // rustls panics if it is too late.
        if let Connection::Server(connection) = &mut self.connection
            && connection.is_handshaking()
        {
            connection.reject_early_data();
        }
    }

    fn early_data(&self) -> EarlyData {
        let offers = self.connection.zero_rtt_keys().is_some();
        match &self.connection {
            Connection::Server(_) if offers => EarlyData::Accepted,
            Connection::Client(client) if offers => {
                if client.is_early_data_accepted() {
                    return EarlyData::Accepted;
                }
                // A ServerHello indicates a full handshake; EncryptedExtensions, which also contain
                // the parameters, indicate a rejection.
                let is_full =
                    client.handshake_kind().is_some_and(|kind| kind != HandshakeKind::Resumed);
                let is_answered = self.peer_transport_parameters().is_some();
                if is_full || is_answered { EarlyData::Rejected } else { EarlyData::Offered }
            }
            _ => EarlyData::None,
        }
    }

    fn remembered_parameters(&self) -> Option<&[u8]> {
        self.remembered_parameters.as_deref()
    }

    fn remembered_context(&self) -> Option<&[u8]> {
        self.remembered_context.get()
    }

    fn set_context(&mut self, context: &[u8]) {
        let tickets = self.version.as_ref().and_then(|version| version.tickets.as_ref());
        if let Some(tickets) = tickets {
            tickets.context().set(context);
        }
    }

    fn cipher_suite(&self) -> Option<&'static str> {
        suite_name(self.connection.negotiated_cipher_suite()?.suite())
    }

    fn key_exchange_group(&self) -> Option<&'static str> {
        self.connection.negotiated_key_exchange_group()?.name().as_str()
    }
}

/// Returns the IANA name of a cipher suite.
fn suite_name(suite: CipherSuite) -> Option<&'static str> {
    match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => Some("TLS_AES_128_GCM_SHA256"),
        CipherSuite::TLS13_AES_256_GCM_SHA384 => Some("TLS_AES_256_GCM_SHA384"),
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => Some("TLS_CHACHA20_POLY1305_SHA256"),
        other => other.as_str(),
    }
}

#[cfg(test)]
#[path = "tls_tests.rs"]
mod tests;
