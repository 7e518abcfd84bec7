use core::fmt;
use std::sync::Arc;

use clearway_wire::{ConnectionId, TransportErrorCode, Version};
use rustls::EncryptedClientHelloError;
use rustls::pki_types::CertificateDer;
use rustls::quic::{DirectionalKeys, Keys, PacketKey, PacketKeySet, Secrets};

use super::client_hello::{self, HelloParameters};
use super::initial;
use crate::{Side, SpaceId, TransportError};

/// A TLS 1.3 session in QUIC (RFC 9001 §4): it receives handshake bytes, and produces handshake bytes and keys.
///
/// The sessions of [`TlsClientConfig`](crate::TlsClientConfig) and [`TlsServerConfig`](crate::TlsServerConfig) are real
/// ones. A simulation may replace them: all types of keys are traits.
pub trait Session: Send {
    /// Processes the next bytes of the peer's handshake, in order. `space` is where they were received; it changes only
    /// after the keys of the next space were returned by [`produce`](Self::produce).
    ///
    /// # Errors
    /// CRYPTO_ERROR with the alert that TLS would have sent (RFC 9001 §4.8), or PROTOCOL_VIOLATION where RFC 9001
    /// requires it.
    fn receive(&mut self, space: SpaceId, message_bytes: &[u8]) -> Result<(), TransportError>;

    /// Appends handshake bytes for the current space to `out`. If keys are returned, the bytes of later calls belong to
    /// the space of those keys. To be called until it yields neither bytes nor keys.
    fn produce(&mut self, out: &mut Vec<u8>) -> Option<NewKeys>;

    /// Whether the handshake is not complete yet (RFC 9001 §4.1.1).
    fn is_handshaking(&self) -> bool;

    /// The peer's encoded transport parameters, once they have been received. They are authentic only when the handshake
    /// is complete (RFC 9001 §8.2), and may be forgotten when the connection [rests](Self::rest).
    fn peer_transport_parameters(&self) -> Option<&[u8]>;

    /// The negotiated application protocol (RFC 7301).
    fn application_protocol(&self) -> Option<&[u8]>;

    /// The server name that the client sent (RFC 6066 §3).
    fn server_name(&self) -> Option<&str>;

    /// The peer's certificate chain, its own certificate first.
    fn peer_certificates(&self) -> Option<&[CertificateDer<'static>]>;

    /// Fills `output` with keying material of this session (RFC 8446 §7.5).
    ///
    /// # Errors
    /// Before the handshake is complete, and if `output` is empty or too long to derive.
    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: Option<&[u8]>,
    ) -> Result<(), ExportError>;

    /// The connection rests: nothing has happened on it for a while. A session may give back memory, and forget the peer's
    /// transport parameters, which were processed when the handshake was complete.
    fn rest(&mut self) {}

    /// The IANA name of the negotiated cipher suite.
    fn cipher_suite(&self) -> Option<&'static str>;

    /// The IANA name of the negotiated key exchange group, such as "X25519MLKEM768".
    fn key_exchange_group(&self) -> Option<&'static str> {
        None
    }

    /// The Initial keys of `version`, derived from the Destination Connection ID of the client's first Initial packet
    /// (RFC 9001 §5.2).
    ///
    /// # Errors
    /// INTERNAL_ERROR if the cryptographic library lacks AEAD_AES_128_GCM, or the version is not known.
    fn initial_keys(
        &self,
        version: Version,
        side: Side,
        destination_connection_id: &ConnectionId,
    ) -> Result<Keys, TransportError> {
        initial::keys(version, side, destination_connection_id)
    }

    /// The server goes on in `version`, one of those that [`ClientSessions::connect`] was given: all later keys are
    /// derived with its labels (RFC 9369 §3.3.2). Called for a client's session, before it receives anything. Nothing has
    /// to be done where keys do not depend on the version.
    ///
    /// # Errors
    /// INTERNAL_ERROR if the session cannot change to this version.
    fn change_version(&mut self, version: Version) -> Result<(), TransportError> {
        let _ = version;
        Ok(())
    }

    /// The version in which a server's session goes on, if it chooses that itself from what the client offers.
    fn negotiated_version(&self) -> Option<Version> {
        None
    }

    /// The keys of 0-RTT packets (RFC 9001 §4.6), in the version of the client's first flight: with which a client that
    /// offers early data protects them, and a server that accepts it opens them. They are asked for before anything is
    /// received and after every message, until there are some.
    fn early_keys(&mut self) -> Option<DirectionalKeys> {
        None
    }

    /// What became of early data.
    fn early_data(&self) -> EarlyData {
        EarlyData::None
    }

    /// The server's encoded transport parameters of the connection that a client resumes: they limit its early data
    /// (RFC 9000 §7.4.1).
    fn remembered_parameters(&self) -> Option<&[u8]> {
        None
    }

    /// The application's [context](Self::set_context) of the session that a client resumes, if
    /// there was one.
    fn remembered_context(&self) -> Option<&[u8]> {
        None
    }

    /// Adds the server's settings, in the application's encoding, to the sessions that a client's
    /// connection receives, before or after this call: they limit the early data of the connections
    /// that resume them (RFC 9001 §4.6.3). Only the first call has an effect. At most
    /// [`MAX_EARLY_DATA_CONTEXT`](crate::MAX_EARLY_DATA_CONTEXT) bytes; a longer context is not
    /// kept, and none is by default.
    fn set_context(&mut self, context: &[u8]) {
        let _ = context;
    }
}

/// Whether application data can be sent before the handshake is complete, in 0-RTT packets (RFC 9001 §4.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum EarlyData {
    /// It was not offered.
    #[default]
    None,
    /// The client offers it, and the server has not answered.
    Offered,
    /// The server processes it.
    Accepted,
    /// The server ignores it.
    Rejected,
}

/// Keys of the next packet number space.
pub enum NewKeys {
    /// For Handshake packets.
    Handshake(Keys),
    /// For 1-RTT packets.
    Application {
        /// The first keys.
        keys: Keys,
        /// The source of the keys of later key phases.
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

/// Produces the packet protection keys of one key phase after another (RFC 9001 §6.1).
pub trait KeySchedule: Send {
    /// The keys of the next phase.
    fn next_packet_keys(&mut self) -> PacketKeySet;

    /// Keeps, in fewer bytes, what the keys of the current phase and of the next are made of: a connection that rests is about to
    /// forget these keys, and takes them from [`keys_again`](Self::keys_again) when it wakes. From now on the keys of the
    /// next phase count as given. `false` if that is not possible, as by default; then the connection does not forget them.
    fn keep_keys(&mut self) -> bool {
        false
    }

    /// The keys that were forgotten; `None` before [`keep_keys`](Self::keep_keys).
    fn keys_again(&self) -> Option<PhaseKeys> {
        None
    }

    /// The key for sending in the next phase, after [`keys_again`](Self::keys_again), which leaves it out.
    fn next_local_again(&self) -> Option<Box<dyn PacketKey>> {
        None
    }
}

/// The keys of a phase, and the key for receiving in the next: a packet of the next phase may come at any time, and may take no
/// more time than others (RFC 9001 §6.3).
pub struct PhaseKeys {
    /// The keys of the current phase.
    pub current: Keys,
    /// The key for receiving in the phase after that.
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
    /// The version of the client's first flight, and so of a session ticket that it may use (RFC 9369 §5).
    pub original: Version,
    /// The version in which the connection goes on: that of all keys, and of session tickets that the server issues.
    pub negotiated: Version,
}

/// Makes the sessions of a client.
pub trait ClientSessions: Send + Sync + fmt::Debug {
    /// A session with `server_name` that sends `transport_parameters`. Its first flight has the version `version`; the
    /// server may go on in one of `others` ([`Session::change_version`]). A session ticket must be used only in the
    /// version of the connection that it came on (RFC 9369 §5).
    ///
    /// # Errors
    /// If the name is neither a DNS name nor an IP address, or TLS cannot begin.
    fn connect(
        self: Arc<Self>,
        version: Version,
        others: &[Version],
        server_name: &str,
        transport_parameters: Vec<u8>,
    ) -> Result<Box<dyn Session>, SessionError>;

    /// Keeps a token of the server `server_name` for a later connection to it (RFC 9000 §8.1.3), in the form of
    /// [`Event::NewToken`](crate::Event::NewToken). Nothing is kept by default.
    fn put_token(&self, server_name: &str, token: &[u8]) {
        let _ = (server_name, token);
    }

    /// Removes and returns a token of this server, which was kept before: a token is used for one connection.
    fn take_token(&self, server_name: &str) -> Option<Vec<u8>> {
        let _ = server_name;
        None
    }
}

/// Makes the sessions of a server.
pub trait ServerSessions: Send + Sync + fmt::Debug {
    /// A session with a client of which nothing has been received, that sends `transport_parameters`.
    ///
    /// # Errors
    /// If TLS cannot begin.
    fn accept(
        self: Arc<Self>,
        versions: ConnectionVersions,
        transport_parameters: Vec<u8>,
    ) -> Result<Box<dyn Session>, SessionError>;

    /// The Initial keys of a connection for which there is no session yet; those of its session have to be the same.
    ///
    /// # Errors
    /// INTERNAL_ERROR if the cryptographic library lacks AEAD_AES_128_GCM, or the version is not known.
    fn initial_keys(
        &self,
        version: Version,
        destination_connection_id: &ConnectionId,
    ) -> Result<Keys, TransportError> {
        initial::keys(version, Side::Server, destination_connection_id)
    }

    /// Finds the client's transport parameters in the first bytes that it sent. A server that may change the version
    /// needs them before it makes a session. What is found here is not checked, and the session receives the same bytes.
    fn find_parameters<'a>(&self, received: &'a [u8]) -> HelloParameters<'a> {
        client_hello::find_parameters(received)
    }
}

/// The reason that a TLS configuration or session cannot be created.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum SessionError {
    /// The server's name is neither a DNS name nor an IP address.
    InvalidServerName,
    /// No application protocol is configured. QUIC requires ALPN (RFC 9001 §8.1).
    NoApplicationProtocol,
    /// There are no keys for the version of QUIC.
    UnknownVersion,
    /// A server is to verify certificates of clients, but trusts no certificate authority.
    NoClientRoots,
    /// The ClientHello cannot be encrypted (RFC 9849): the list of configurations is malformed
    /// ([`InvalidConfigList`](EncryptedClientHelloError::InvalidConfigList)), or has none that this client supports
    /// ([`NoCompatibleConfig`](EncryptedClientHelloError::NoCompatibleConfig)).
    EncryptedClientHello(EncryptedClientHelloError),
    /// TLS does not accept the configuration, for example a key that does not match the certificate.
    Tls(rustls::Error),
}

impl SessionError {
    /// The error of a connection whose session could not begin.
    pub(crate) fn into_transport(self) -> TransportError {
        match self {
            Self::Tls(error) => TransportError::tls(TransportErrorCode::INTERNAL_ERROR, error),
            _ => TransportError::internal("TLS cannot begin"),
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
            Self::UnknownVersion => f.write_str("there are no keys for this version of QUIC"),
            Self::NoClientRoots => f.write_str(
                "certificates of clients cannot be verified without a certificate authority to trust",
            ),
            Self::EncryptedClientHello(EncryptedClientHelloError::InvalidConfigList) => {
                f.write_str("the ECH configuration list is malformed")
            }
            Self::EncryptedClientHello(EncryptedClientHelloError::NoCompatibleConfig) => f
                .write_str("the ECH configuration list has no configuration that is supported here"),
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

/// Keying material cannot be exported: the handshake is not complete, or so many bytes cannot be derived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExportError;

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no such keying material can be exported (yet)")
    }
}

impl core::error::Error for ExportError {}
