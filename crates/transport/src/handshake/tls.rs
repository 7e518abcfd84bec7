//! TLS 1.3 with rustls and the cryptography of aws-lc-rs.

mod encrypted_client_hello;
mod secrets;
mod settings;
mod tickets;

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Arc;

use clearway_wire::Version;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::quic::{self, ClientConnection, Connection, KeyChange, ServerConnection};
use rustls::sign::SingleCertAndKey;
use rustls::{
    CipherSuite, ClientConfig, DigitallySignedStruct, KeyLog, KeyLogFile, RootCertStore,
    ServerConfig, SignatureScheme,
};

use super::encrypted_extensions;
use super::initial::of_tls;
use super::session::{
    ClientSessions, ConnectionVersions, ExportError, NewKeys, ServerSessions, Session, SessionError,
};
use super::tls_error::{client_hello_error, transport_error};
use crate::{SpaceId, TransportError};
pub use encrypted_client_hello::EncryptedClientHello;
use secrets::{Level, TrafficSecrets};
pub use settings::{ClientTrust, ServerTrust, TlsClientSettings, TlsServerSettings, certified_key};
use tickets::{ClientTickets, ConnectionTickets, VersionedSessions, VersionedTicketer};

fn key_log_file() -> Arc<dyn KeyLog> {
    if let Some(path) = std::env::var_os("SSLKEYLOGFILE") {
        make_private(Path::new(&path));
    }
    Arc::new(KeyLogFile::new())
}

/// Creates an empty file that only this user may read, unless the path exists: other programs append to the same file,
/// and it may be a pipe. If that fails, rustls reports the error when it opens the file.
fn make_private(path: &Path) {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    drop(options.open(path));
}

/// A client's TLS settings, which have been checked for QUIC.
#[derive(Clone, Debug)]
pub struct TlsClientConfig {
    config: Arc<ClientConfig>,
    /// The session tickets; `None` if the configuration has a store of its own.
    tickets: Option<ClientTickets>,
    /// Whether the ClientHello is encrypted, which a server may reject.
    encrypts_hello: bool,
}

impl TlsClientConfig {
    /// Uses a configuration unchanged. Its store of session tickets keeps those of QUIC version 1; connections of version
    /// 2 are not resumed, since tickets of two versions must not be mixed (RFC 9369 §5).
    ///
    /// # Errors
    /// If it lacks TLS 1.3, application protocols, or cipher suites that QUIC can use.
    pub fn new(config: Arc<ClientConfig>) -> Result<Self, SessionError> {
        check(&config.alpn_protocols)?;
        // rustls checks the version and the cipher suites only when a connection begins.
        let name =
            ServerName::try_from("localhost").map_err(|_| SessionError::InvalidServerName)?;
        ClientConnection::new(config.clone(), quic::Version::V1, name, Vec::new())?;
        Ok(Self { config, tickets: None, encrypts_hello: false })
    }

    /// Keeps session tickets in memory, those of each version apart.
    fn with_tickets(config: ClientConfig) -> Result<Self, SessionError> {
        let tickets = Some(ClientTickets::in_memory());
        Ok(Self { tickets, ..Self::new(Arc::new(config))? })
    }

    /// Makes a configuration of `settings`.
    ///
    /// # Errors
    /// If there are no application protocols, no cipher suites that QUIC can use or no key exchange groups, or if the list
    /// of ECH configurations cannot be used.
    pub fn from_settings(settings: TlsClientSettings) -> Result<Self, SessionError> {
        let encrypts_hello = settings.encrypted_client_hello.has_config();
        Ok(Self { encrypts_hello, ..Self::with_tickets(settings.into_config()?)? })
    }

    /// Accepts servers whose certificates lead to `roots`, and offers `application_protocols`, the preferred one first.
    ///
    /// # Errors
    /// If there are no application protocols.
    pub fn with_roots(
        roots: RootCertStore,
        application_protocols: &[&[u8]],
    ) -> Result<Self, SessionError> {
        let trust = ServerTrust::Roots(Arc::new(roots));
        Self::from_settings(TlsClientSettings::new(trust, application_protocols))
    }

    /// Accepts any certificate, so that anyone on the path can read and change everything. For tests and measurements
    /// only.
    ///
    /// # Errors
    /// If there are no application protocols.
    pub fn dangerous_without_certificate_verification(
        application_protocols: &[&[u8]],
    ) -> Result<Self, SessionError> {
        let trust = ServerTrust::DangerousAnyone;
        Self::from_settings(TlsClientSettings::new(trust, application_protocols))
    }

    /// Writes the secrets of every session to `key_log`.
    pub fn key_log(mut self, key_log: Arc<dyn KeyLog>) -> Self {
        Arc::make_mut(&mut self.config).key_log = key_log;
        self
    }

    /// Appends the secrets of every session to the file that the environment variable `SSLKEYLOGFILE` names, if it is
    /// set. A new file is created so that only this user may read it.
    pub fn key_log_file(self) -> Self {
        self.key_log(key_log_file())
    }
}

/// The parts of a client's connection that depend on the version in which it goes on.
struct ClientVersion {
    /// The version of the first flight, with whose labels rustls derives keys.
    first: Version,
    /// The version in which the connection goes on.
    current: Version,
    /// Where session tickets go; `None` if they go to a store for those of version 1 only.
    tickets: Option<Arc<ConnectionTickets>>,
    /// The secrets for the keys of another version; `None` if the version cannot change.
    secrets: Option<Arc<TrafficSecrets>>,
}

impl ClientVersion {
    /// The settings of a connection that begins in `first` and may change to one of `others`.
    fn begin(
        settings: &TlsClientConfig,
        first: Version,
        others: &[Version],
    ) -> (Self, Arc<ClientConfig>) {
        let mut config = settings.config.clone();
        let mut tickets = None;
        if let Some(all) = &settings.tickets {
            let of_connection = Arc::new(ConnectionTickets::new(all.clone(), first));
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
        (Self { first, current: first, tickets, secrets }, config)
    }

    fn change(&mut self, version: Version) -> Result<(), TransportError> {
        if version != self.first && self.secrets.is_none() {
            return Err(TransportError::internal("this connection cannot change its version"));
        }
        if let Some(tickets) = &self.tickets {
            tickets.change_version(version);
        }
        self.current = version;
        Ok(())
    }

    /// Whether session tickets have to be dropped, because the only store is for those of version 1.
    fn drops_tickets(&self) -> bool {
        self.tickets.is_none() && self.current != Version::V1
    }

    /// The keys of `level`, unless they are those that rustls derives.
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
        Ok(Self {
            remembered_parameters: connection.quic_transport_parameters().map(<[u8]>::to_vec),
            connection: Connection::Client(connection),
            version: Some(version),
            requested_name: Some(server_name.to_owned()),
            client_hello_start: Vec::new(),
            encrypted_extensions: settings.encrypts_hello.then(Vec::new),
        })
    }
}

/// A server's TLS settings, which have been checked for QUIC.
#[derive(Clone, Debug)]
pub struct TlsServerConfig {
    config: Arc<ServerConfig>,
    /// The same with the session tickets of each version apart: in version 1, in version 2, in version 2 after a first
    /// flight of version 1, and the other way round.
    by_version: [Arc<ServerConfig>; 4],
}

impl TlsServerConfig {
    /// Uses a configuration, in which session tickets are marked with the version of QUIC that they belong to
    /// (RFC 9369 §5).
    ///
    /// # Errors
    /// If it lacks TLS 1.3, application protocols, or cipher suites that QUIC can use.
    pub fn new(config: Arc<ServerConfig>) -> Result<Self, SessionError> {
        check(&config.alpn_protocols)?;
        // rustls checks the version and the cipher suites only when a connection begins.
        ServerConnection::new(config.clone(), quic::Version::V1, Vec::new())?;
        Ok(Self::by_version(config))
    }

    fn by_version(config: Arc<ServerConfig>) -> Self {
        let of = |original, negotiated| {
            let mut marking = (*config).clone();
            let inner = config.ticketer.clone();
            marking.ticketer = Arc::new(VersionedTicketer { inner, original, negotiated });
            let inner = config.session_storage.clone();
            marking.session_storage = Arc::new(VersionedSessions { inner, original, negotiated });
            Arc::new(marking)
        };
        let (one, two) = (Version::V1, Version::V2);
        let by_version = [of(one, one), of(two, two), of(one, two), of(two, one)];
        Self { config, by_version }
    }

    fn of(&self, versions: ConnectionVersions) -> Arc<ServerConfig> {
        let [one, two, one_to_two, two_to_one] = &self.by_version;
        let ConnectionVersions { original, negotiated } = versions;
        let config = match (original == Version::V2, negotiated == Version::V2) {
            (false, false) => one,
            (true, true) => two,
            (false, true) => one_to_two,
            (true, false) => two_to_one,
        };
        config.clone()
    }

    /// Presents `certificate_chain`, the server's own certificate first, and accepts `application_protocols`, the
    /// preferred one first.
    ///
    /// # Errors
    /// If the key does not match the certificate, or there are no application protocols.
    pub fn with_certificate(
        certificate_chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        application_protocols: &[&[u8]],
    ) -> Result<Self, SessionError> {
        let certificate = SingleCertAndKey::from(certified_key(certificate_chain, key)?);
        Self::from_settings(TlsServerSettings::new(Arc::new(certificate), application_protocols))
    }

    /// Makes a configuration of `settings`.
    ///
    /// # Errors
    /// If there are no application protocols or no key exchange groups, or if certificates of clients are asked for but
    /// there are no roots for them.
    pub fn from_settings(settings: TlsServerSettings) -> Result<Self, SessionError> {
        Self::new(Arc::new(settings.into_config()?))
    }

    /// Writes the secrets of every session to `key_log`.
    pub fn key_log(self, key_log: Arc<dyn KeyLog>) -> Self {
        let mut config = self.config;
        Arc::make_mut(&mut config).key_log = key_log;
        Self::by_version(config)
    }

    /// Appends the secrets of every session to the file that the environment variable `SSLKEYLOGFILE` names, if it is
    /// set. A new file is created so that only this user may read it.
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
        let connection = ServerConnection::new(self.of(versions), version, transport_parameters)?;
        Ok(Box::new(TlsSession {
            connection: Connection::Server(connection),
            version: None,
            remembered_parameters: None,
            requested_name: None,
            client_hello_start: Vec::with_capacity(CLIENT_HELLO_START),
            encrypted_extensions: None,
        }))
    }
}

/// Collects the entropy that the cryptographic library needs for its first random bytes in a process. This takes tens of
/// milliseconds of processor time, and seconds on a busy machine; after that, microseconds. A server should call it before
/// it reports that it is listening, or its first handshake waits.
pub fn prepare_randomness() {
    let mut bytes = [0; 32];
    // A failing source of entropy is reported by the handshake that needs it.
    let _ = aws_lc_rs::default_provider().secure_random.fill(&mut bytes);
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

/// The length of a ClientHello up to and including the length of legacy_session_id: type (1), length (3), version (2),
/// random (32) and that length (1).
const CLIENT_HELLO_START: usize = 39;
/// The handshake type of a ClientHello (RFC 8446 §4).
const CLIENT_HELLO: u8 = 1;

struct TlsSession {
    connection: Connection,
    /// What depends on a client's version. A server's does not change once there is a session.
    version: Option<ClientVersion>,
    /// The server's transport parameters in the session that a client resumes. rustls returns them, for 0-RTT, until
    /// those of this handshake are received.
    remembered_parameters: Option<Vec<u8>>,
    /// The server name that a client uses.
    requested_name: Option<String>,
    /// The first bytes that a server received, up to [`CLIENT_HELLO_START`].
    client_hello_start: Vec<u8>,
    /// What a client has received in Handshake packets, which begins with EncryptedExtensions, up to the largest length of
    /// that message. `None` if its ClientHello is not encrypted: then it needs nothing from there.
    encrypted_extensions: Option<Vec<u8>>,
}

impl TlsSession {
    /// Keeps the bytes in which a server that rejects an encrypted ClientHello says with what to try again.
    fn keep_encrypted_extensions(&mut self, space: SpaceId, message_bytes: &[u8]) {
        if let Some(kept) =
            self.encrypted_extensions.as_mut().filter(|_| space == SpaceId::Handshake)
        {
            let room = encrypted_extensions::MAX_LENGTH.saturating_sub(kept.len());
            kept.extend(message_bytes.iter().take(room));
        }
    }

    /// QUIC forbids the compatibility mode of TLS 1.3 (RFC 9001 §8.4).
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

impl Session for TlsSession {
    fn receive(&mut self, space: SpaceId, message_bytes: &[u8]) -> Result<(), TransportError> {
        // After the handshake there is nothing but session tickets.
        let is_after = space == SpaceId::Application;
        if is_after && self.version.as_ref().is_some_and(ClientVersion::drops_tickets) {
            return Ok(());
        }
        self.check_client_hello(message_bytes)?;
        self.keep_encrypted_extensions(space, message_bytes);
        let was_handshaking = self.connection.is_handshaking();
        let read = self.connection.read_hs(message_bytes);
        if !self.connection.is_handshaking() {
            self.encrypted_extensions = None;
        }
        read.map_err(|error| {
            let received = self.encrypted_extensions.as_deref().unwrap_or_default();
            let retry_configs = encrypted_extensions::retry_configs(received);
            transport_error(error, self.connection.alert(), was_handshaking, retry_configs)
        })
    }

    fn produce(&mut self, out: &mut Vec<u8>) -> Option<NewKeys> {
        let (level, keys) = match self.connection.write_hs(out)? {
            KeyChange::Handshake { keys } => (Level::Handshake, NewKeys::Handshake(keys)),
            KeyChange::OneRtt { keys, next } => {
                (Level::Application, NewKeys::Application { keys, next: Box::new(next) })
            }
        };
        let suite = self.connection.negotiated_cipher_suite().map(|suite| suite.suite());
        let derived = self.version.as_ref().and_then(|version| version.keys(level, suite));
        Some(derived.unwrap_or(keys))
    }

    fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    fn peer_transport_parameters(&self) -> Option<&[u8]> {
        // Those of two handshakes always differ: they contain the connection IDs (RFC 9000 §7.3).
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
            None => Err(TransportError::internal("the version of a server's session is fixed")),
        }
    }

    fn cipher_suite(&self) -> Option<&'static str> {
        match self.connection.negotiated_cipher_suite()?.suite() {
            CipherSuite::TLS13_AES_128_GCM_SHA256 => Some("TLS_AES_128_GCM_SHA256"),
            CipherSuite::TLS13_AES_256_GCM_SHA384 => Some("TLS_AES_256_GCM_SHA384"),
            CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => Some("TLS_CHACHA20_POLY1305_SHA256"),
            other => other.as_str(),
        }
    }

    fn key_exchange_group(&self) -> Option<&'static str> {
        self.connection.negotiated_key_exchange_group()?.name().as_str()
    }
}

/// Checks only the proof that the server has its certificate's key, not the certificate.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
#[path = "tls_tests.rs"]
mod tests;
