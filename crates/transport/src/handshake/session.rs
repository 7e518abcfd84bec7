use core::fmt;
use std::sync::Arc;

use clearway_wire::{ConnectionId, TransportErrorCode, Version};
use rustls::EncryptedClientHelloError;
use rustls::pki_types::CertificateDer;
use rustls::quic::{DirectionalKeys, Keys, PacketKey, PacketKeySet, Secrets};

use super::client_hello::{self, HelloParameters};
use super::initial;
use crate::{Side, SpaceId, TransportError};

/// A TLS 1.3 session in QUIC (RFC 9001 §4): consumes handshake bytes, and produces handshake bytes
/// and keys.
///
/// [`TlsClientConfig`](crate::TlsClientConfig) and [`TlsServerConfig`](crate::TlsServerConfig)
/// create real sessions. A simulation may replace the sessions, because all key types are traits.
pub trait Session: Send {
    /// Processes the next bytes of the peer's handshake, in order. `space` is the space in which
    /// they were received; it changes only after [`produce`](Self::produce) has returned the keys
    /// of the next space.
    ///
    /// # Errors
    /// Returns CRYPTO_ERROR with the alert that TLS would have sent (RFC 9001 §4.8), or
    /// PROTOCOL_VIOLATION where RFC 9001 requires that code.
    fn receive(&mut self, space: SpaceId, message_bytes: &[u8]) -> Result<(), TransportError>;

    /// Appends handshake bytes for the current space to `out`. If keys are returned, the bytes of
    /// later calls belong to the space of those keys. Must be called until it yields neither bytes
    /// nor keys.
    fn produce(&mut self, out: &mut Vec<u8>) -> Option<NewKeys>;

    /// Returns whether the handshake is still incomplete (RFC 9001 §4.1.1).
    fn is_handshaking(&self) -> bool;

    /// Returns the peer's encoded transport parameters, once received. The parameters are
    /// authenticated only once the handshake is complete (RFC 9001 §8.2), and may be dropped when
    /// the connection becomes [idle](Self::compact).
    fn peer_transport_parameters(&self) -> Option<&[u8]>;

    /// Returns the negotiated application protocol (RFC 7301).
    fn application_protocol(&self) -> Option<&[u8]>;

    /// Returns the server name that the client sent (RFC 6066 §3).
    fn server_name(&self) -> Option<&str>;

    /// Returns the peer's certificate chain, its own certificate first.
    fn peer_certificates(&self) -> Option<&[CertificateDer<'static>]>;

    /// Fills `output` with this session's keying material (RFC 8446 §7.5).
    ///
    /// # Errors
    /// Returns an error if the handshake is incomplete, or `output` is empty or too long to derive.
    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: Option<&[u8]>,
    ) -> Result<(), ExportError>;

    /// Notifies the session that the connection has been idle for a while. The session may release
    /// memory and drop the peer's transport parameters, which were processed when the handshake
    /// completed.
    fn compact(&mut self) {}

    /// Returns the IANA name of the negotiated cipher suite.
    fn cipher_suite(&self) -> Option<&'static str>;

    /// Returns the IANA name of the negotiated key exchange group, such as "X25519MLKEM768".
    fn key_exchange_group(&self) -> Option<&'static str> {
        None
    }

    /// Returns the Initial keys of `version`, derived from the Destination Connection ID of the
    /// client's first Initial packet (RFC 9001 §5.2).
    ///
    /// # Errors
    /// Returns INTERNAL_ERROR if the cryptographic library lacks AEAD_AES_128_GCM, or the version
    /// is unknown.
    fn initial_keys(
        &self,
        version: Version,
        side: Side,
        destination_connection_id: &ConnectionId,
    ) -> Result<Keys, TransportError> {
        initial::keys(version, side, destination_connection_id)
    }

    /// Switches to `version`, one of the versions passed to [`ClientSessions::connect`], because
    /// the server has switched: all later keys are derived with that version's labels (RFC 9369
    /// §3.3.2). Called on a client's session before it receives anything. A no-op if keys do not
    /// depend on the version.
    ///
    /// # Errors
    /// Returns INTERNAL_ERROR if the session cannot switch to this version.
    fn change_version(&mut self, version: Version) -> Result<(), TransportError> {
        let _ = version;
        Ok(())
    }

    /// Returns the version that a server's session negotiated, if it chooses the version itself
    /// from the client's offer.
    fn negotiated_version(&self) -> Option<Version> {
        None
    }

    /// Returns the 0-RTT keys (RFC 9001 §4.6), in the version of the client's first flight. A
    /// client that offers early data protects it with these keys, and a server that accepts early
    /// data decrypts it with them. Called before anything is received and after every message,
    /// until it returns keys.
    fn early_keys(&mut self) -> Option<DirectionalKeys> {
        None
    }

    /// Returns the state of early data.
    fn early_data(&self) -> EarlyData {
        EarlyData::None
    }

    /// Makes a server's session reject early data. Called before the session receives anything. The
    /// default implementation does nothing: for sessions that accept no early data.
    fn reject_early_data(&mut self) {}

    /// Returns the server's encoded transport parameters from the connection that a client resumes,
    /// which limit the client's early data (RFC 9000 §7.4.1).
    fn remembered_parameters(&self) -> Option<&[u8]> {
        None
    }

    /// Returns the application's [context](Self::set_context) of the session that a client resumes,
    /// if there is one.
    fn remembered_context(&self) -> Option<&[u8]> {
        None
    }

    /// Adds the server's settings, in the application's encoding, to the sessions received on a
    /// client's connection, before or after this call: they limit the early data of the connections
    /// that resume them (RFC 9001 §4.6.3). Only the first call has an effect. The maximum length is
    /// [`MAX_EARLY_DATA_CONTEXT`](crate::MAX_EARLY_DATA_CONTEXT) bytes; a longer context is not
    /// stored. The default implementation stores none.
    fn set_context(&mut self, context: &[u8]) {
        let _ = context;
    }
}

/// The state of early data: application data sent in 0-RTT packets before the handshake is complete
/// (RFC 9001 §4.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum EarlyData {
    /// Early data was not offered.
    #[default]
    None,
    /// The client offers early data, and the server has not answered yet.
    Offered,
    /// The server accepted the early data.
    Accepted,
    /// The server rejected the early data.
    Rejected,
}

/// Keys of the next packet number space.
pub enum NewKeys {
    /// The keys for Handshake packets.
    Handshake(Keys),
    /// The keys for 1-RTT packets.
    Application {
        /// The first keys.
        keys: Keys,
        /// The key schedule for later key phases.
        next: Box<dyn KeySchedule>,
    },
}

impl fmt::Debug for NewKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Handshake(_) => "NewKeys::Handshake(..)",
            Self::Application { .. } => "NewKeys::Application(..)",
        })
    }
}

/// Produces the packet protection keys of successive key phases (RFC 9001 §6.1).
pub trait KeySchedule: Send {
    /// Returns the keys of the next phase.
    fn next_packet_keys(&mut self) -> PacketKeySet;

    /// Retains, in a compact form, the keys of the current and the next phase. An idle connection
    /// is about to discard these keys, and gets them from [`keys_again`](Self::keys_again) when it
    /// becomes active. Afterwards, the keys of the next phase count as returned. Returns `false` if
    /// this is not possible, which is the default; the connection then keeps its keys.
    fn keep_keys(&mut self) -> bool {
        false
    }

    /// Returns the keys that were discarded; `None` before [`keep_keys`](Self::keep_keys) is
    /// called.
    fn keys_again(&self) -> Option<PhaseKeys> {
        None
    }

    /// Returns the next phase's key for sending, which [`keys_again`](Self::keys_again) omits.
    fn next_local_again(&self) -> Option<Box<dyn PacketKey>> {
        None
    }
}

/// The keys of a phase, and the key for receiving in the next phase. A packet of the next phase may
/// arrive at any time and must not take longer to process than other packets (RFC 9001 §6.3).
pub struct PhaseKeys {
    /// The keys of the current phase.
    pub current: Keys,
    /// The key for receiving in the next phase.
    pub next_remote: Box<dyn PacketKey>,
}

impl fmt::Debug for PhaseKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PhaseKeys(..)")
    }
}

impl KeySchedule for Secrets {
    fn next_packet_keys(&mut self) -> PacketKeySet {
        Secrets::next_packet_keys(self)
    }
}

/// The versions of a connection that a server accepts (RFC 9368 §1.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionVersions {
    /// The version of the client's first flight, and therefore of any session ticket that it may
    /// use (RFC 9369 §5).
    pub original: Version,
    /// The negotiated version, which determines all keys and the session tickets that the server
    /// issues.
    pub negotiated: Version,
}

/// Creates a client's sessions.
pub trait ClientSessions: Send + Sync + fmt::Debug {
    /// Creates a session with `server_name` that sends `transport_parameters`. Its first flight has
    /// the version `version`; the server may switch to one of `others`
    /// ([`Session::change_version`]). A session ticket must be used only in the version of the
    /// connection on which it was issued (RFC 9369 §5).
    ///
    /// # Errors
    /// Returns an error if the name is neither a DNS name nor an IP address, or TLS cannot start.
    fn connect(
        self: Arc<Self>,
        version: Version,
        others: &[Version],
        server_name: &str,
        transport_parameters: Vec<u8>,
    ) -> Result<Box<dyn Session>, SessionError>;

    /// Stores a token from the server `server_name` for a later connection to it (RFC 9000 §8.1.3),
    /// in the form of [`Event::NewToken`](crate::Event::NewToken). The default implementation
    /// stores nothing.
    fn put_token(&self, server_name: &str, token: &[u8]) {
        let _ = (server_name, token);
    }

    /// Removes and returns a stored token from this server; each token is used for only one
    /// connection.
    fn take_token(&self, server_name: &str) -> Option<Vec<u8>> {
        let _ = server_name;
        None
    }
}

/// Creates a server's sessions.
pub trait ServerSessions: Send + Sync + fmt::Debug {
    /// Creates a session for a new client, which sends `transport_parameters`.
    ///
    /// # Errors
    /// Returns an error if TLS cannot start.
    fn accept(
        self: Arc<Self>,
        versions: ConnectionVersions,
        transport_parameters: Vec<u8>,
    ) -> Result<Box<dyn Session>, SessionError>;

    /// Returns the Initial keys of a connection without a session; they have to equal the keys of
    /// its later session.
    ///
    /// # Errors
    /// Returns INTERNAL_ERROR if the cryptographic library lacks AEAD_AES_128_GCM, or the version
    /// is unknown.
    fn initial_keys(
        &self,
        version: Version,
        destination_connection_id: &ConnectionId,
    ) -> Result<Keys, TransportError> {
        initial::keys(version, Side::Server, destination_connection_id)
    }

    /// Finds the client's transport parameters in its first bytes. A server that may switch
    /// versions needs them before it creates a session. The result is unverified, and the session
    /// receives the same bytes.
    fn find_parameters<'a>(&self, received: &'a [u8]) -> HelloParameters<'a> {
        client_hello::find_parameters(received)
    }
}

/// The reason why a TLS configuration or session cannot be created.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum SessionError {
    /// The server's name is neither a DNS name nor an IP address.
    InvalidServerName,
    /// No application protocol is configured. QUIC requires ALPN (RFC 9001 §8.1).
    NoApplicationProtocol,
    /// There are no keys for the QUIC version.
    UnknownVersion,
    /// A server is configured to verify client certificates, but trusts no certificate authority.
    NoClientRoots,
    /// The ClientHello cannot be encrypted (RFC 9849): the configuration list is malformed
    /// ([`InvalidConfigList`](EncryptedClientHelloError::InvalidConfigList)), or contains no
    /// configuration that this client supports
    /// ([`NoCompatibleConfig`](EncryptedClientHelloError::NoCompatibleConfig)).
    EncryptedClientHello(EncryptedClientHelloError),
    /// TLS rejects the configuration, for example a key that does not match the certificate.
    Tls(rustls::Error),
}

impl SessionError {
    /// Returns the error of a connection whose session could not start.
    pub(crate) fn into_transport(self) -> TransportError {
        match self {
            Self::Tls(error) => TransportError::tls(TransportErrorCode::INTERNAL_ERROR, error),
            _ => TransportError::internal("TLS could not start"),
        }
    }
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidServerName => {
                f.write_str("the server's name is neither a DNS name nor an IP address")
            }
            Self::NoApplicationProtocol => {
                f.write_str("QUIC needs at least one application protocol (ALPN)")
            }
            Self::UnknownVersion => f.write_str("there are no keys for this QUIC version"),
            Self::NoClientRoots => f.write_str(
                "client certificates cannot be verified without a trusted certificate authority",
            ),
            Self::EncryptedClientHello(EncryptedClientHelloError::InvalidConfigList) => {
                f.write_str("the ECH configuration list is malformed")
            }
            Self::EncryptedClientHello(EncryptedClientHelloError::NoCompatibleConfig) => {
                f.write_str("the ECH configuration list contains no supported configuration")
            }
            Self::EncryptedClientHello(error) => write!(f, "encrypted ClientHello: {error:?}"),
            Self::Tls(error) => write!(f, "TLS: {error}"),
        }
    }
}

impl core::error::Error for SessionError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Tls(error) => error.source(),
            Self::InvalidServerName
            | Self::NoApplicationProtocol
            | Self::UnknownVersion
            | Self::NoClientRoots
            | Self::EncryptedClientHello(_) => None,
        }
    }
}

impl From<rustls::Error> for SessionError {
    fn from(error: rustls::Error) -> Self {
        Self::Tls(error)
    }
}

impl From<EncryptedClientHelloError> for SessionError {
    fn from(error: EncryptedClientHelloError) -> Self {
        Self::EncryptedClientHello(error)
    }
}

/// The error returned when keying material cannot be exported, because the handshake is incomplete
/// or the requested length cannot be derived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExportError;

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "cannot export keying material: the handshake is incomplete or the length is invalid",
        )
    }
}

impl core::error::Error for ExportError {}
