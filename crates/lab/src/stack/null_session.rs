//! A handshake without cryptography: the messages of TLS 1.3 have the same order and sizes, but
//! contain only the transport parameters. Because TLS adds no randomness, the seed alone determines
//! a run.

use std::sync::Arc;

use clearway_transport::{
    ClientSessions, ConnectionVersions, ExportError, HelloParameters, NewKeys, ServerSessions,
    Session, SessionError, Side, SpaceId, TransportError,
};
use clearway_wire::{ConnectionId, TransportErrorCode, Version};
use rustls::pki_types::CertificateDer;
use rustls::quic::{Keys, PacketKey};

use super::null_keys::NullKeys;

const PROTOCOL: &[u8] = b"h3";

/// The size of each message in bytes without its transport parameters, for TLS 1.3 with X25519, one
/// certificate with an Ed25519 key, and two session tickets. A test compares these sizes with the
/// real ones.
const CLIENT_HELLO: usize = 204;
const SERVER_HELLO: usize = 90;
const ENCRYPTED_EXTENSIONS: usize = 19;
const CERTIFICATE: usize = 308;
const CERTIFICATE_VERIFY: usize = 72;
const FINISHED: usize = 36;
const SESSION_TICKETS: usize = 162;
/// The size of the message type and length fields (RFC 8446 §4).
const MESSAGE_HEADER: usize = 4;

pub(super) const INITIAL_KEYS: NullKeys = NullKeys { level: 1 << 32 };
const HANDSHAKE_KEYS: NullKeys = NullKeys { level: 2 << 32 };
pub(super) const APPLICATION_KEYS: NullKeys = NullKeys { level: 3 << 32 };

/// Creates sessions for both endpoints.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullSessions;

impl ClientSessions for NullSessions {
    fn connect(
        self: Arc<Self>,
        _version: Version,
        _others: &[Version],
        _server_name: &str,
        transport_parameters: Vec<u8>,
    ) -> Result<Box<dyn Session>, SessionError> {
        Ok(Box::new(NullSession::new(Side::Client, transport_parameters)))
    }
}

impl ServerSessions for NullSessions {
    fn accept(
        self: Arc<Self>,
        _versions: ConnectionVersions,
        transport_parameters: Vec<u8>,
    ) -> Result<Box<dyn Session>, SessionError> {
        Ok(Box::new(NullSession::new(Side::Server, transport_parameters)))
    }

    fn initial_keys(
        &self,
        _version: Version,
        _destination_connection_id: &ConnectionId,
    ) -> Result<Keys, TransportError> {
        Ok(INITIAL_KEYS.keys())
    }

    fn find_parameters<'a>(&self, received: &'a [u8]) -> HelloParameters<'a> {
        match split_message(received) {
            Split::Incomplete => HelloParameters::Incomplete,
            Split::Broken => HelloParameters::None,
            Split::Message { content, .. } => HelloParameters::Found(content),
        }
    }
}

/// The next step of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// The client sends its ClientHello.
    Hello,
    /// The session waits for the peer's hello.
    AwaitingHello,
    /// The server is about to send its ServerHello, or the client has read it: the Handshake keys come next.
    HandshakeKeys,
    /// The server sends its flight, and installs its 1-RTT keys.
    ServerFlight,
    /// The session waits for the peer's last message.
    AwaitingFinished,
    /// The client is about to send its Finished, or the server its session tickets.
    FinalMessages,
    /// The handshake is complete.
    Complete,
}

#[derive(Debug)]
pub(super) struct NullSession {
    side: Side,
    stage: Stage,
    local_parameters: Vec<u8>,
    peer_parameters: Option<Vec<u8>>,
    /// The received part of an incomplete message.
    received: Vec<u8>,
}

impl NullSession {
    pub(super) fn new(side: Side, local_parameters: Vec<u8>) -> Self {
        let stage = if side.is_client() { Stage::Hello } else { Stage::AwaitingHello };
        Self { side, stage, local_parameters, peer_parameters: None, received: Vec::new() }
    }

    /// Appends a message of `size` bytes in total that contains `content`.
    fn message(out: &mut Vec<u8>, size: usize, content: &[u8]) {
        let length = content.len() as u16;
        let end = out.len() + size + content.len();
        out.extend_from_slice(&((size + content.len()) as u32).to_be_bytes());
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(content);
        out.resize(end, 0);
    }

    /// Removes the next complete message from `received`, and returns its content.
    fn take_message(&mut self) -> Result<Option<Vec<u8>>, TransportError> {
        let (size, content) = match split_message(&self.received) {
            Split::Incomplete => return Ok(None),
            Split::Broken => return Err(BROKEN),
            Split::Message { size, content } => (size, content.to_vec()),
        };
        self.received.drain(..size);
        Ok(Some(content))
    }

    fn advance(&mut self) -> Result<(), TransportError> {
        while let Some(content) = self.take_message()? {
            match (self.stage, self.side) {
                (Stage::AwaitingHello, Side::Server) => {
                    self.peer_parameters = Some(content);
                    self.stage = Stage::HandshakeKeys;
                }
                (Stage::AwaitingHello, Side::Client) => self.stage = Stage::HandshakeKeys,
                (Stage::AwaitingFinished, Side::Server) => self.stage = Stage::FinalMessages,
                (Stage::AwaitingFinished, Side::Client) => {
                    // Four messages: the first contains the transport parameters, the last is the
                    // Finished.
                    if self.peer_parameters.is_none() {
                        self.peer_parameters = Some(content);
                    } else if content == LAST {
                        self.stage = Stage::FinalMessages;
                    }
                }
                // These bytes are session tickets.
                (Stage::Complete, Side::Client) => {}
                _ => return Err(BROKEN),
            }
        }
        Ok(())
    }
}

/// The beginning of the received bytes.
enum Split<'a> {
    Incomplete,
    Broken,
    Message { size: usize, content: &'a [u8] },
}

fn split_message(received: &[u8]) -> Split<'_> {
    let Some((header, rest)) = received.split_first_chunk::<MESSAGE_HEADER>() else {
        return Split::Incomplete;
    };
    let size = u32::from_be_bytes(*header) as usize;
    let Some((length, rest)) = rest.split_first_chunk::<2>() else { return Split::Incomplete };
    let length = usize::from(u16::from_be_bytes(*length));
    if received.len() < size {
        return Split::Incomplete;
    }
    match rest.get(..length).filter(|_| size >= MESSAGE_HEADER + 2 + length) {
        Some(content) => Split::Message { size, content },
        None => Split::Broken,
    }
}

/// The content that marks the server's Finished.
const LAST: &[u8] = b"finished";

const BROKEN: TransportError = TransportError::rule(
    TransportErrorCode::PROTOCOL_VIOLATION,
    "unexpected handshake message",
    "RFC 8446 §4",
);

impl Session for NullSession {
    fn receive(&mut self, _space: SpaceId, message_bytes: &[u8]) -> Result<(), TransportError> {
        self.received.extend_from_slice(message_bytes);
        self.advance()
    }

    fn produce(&mut self, out: &mut Vec<u8>) -> Option<NewKeys> {
        match (self.stage, self.side) {
            (Stage::Hello, _) => {
                Self::message(out, CLIENT_HELLO, &self.local_parameters);
                self.stage = Stage::AwaitingHello;
                None
            }
            (Stage::HandshakeKeys, side) => {
                if side.is_server() {
                    Self::message(out, SERVER_HELLO, &[]);
                    self.stage = Stage::ServerFlight;
                } else {
                    self.stage = Stage::AwaitingFinished;
                }
                Some(NewKeys::Handshake(HANDSHAKE_KEYS.keys()))
            }
            (Stage::ServerFlight, _) => {
                Self::message(out, ENCRYPTED_EXTENSIONS, &self.local_parameters);
                Self::message(out, CERTIFICATE, &[]);
                Self::message(out, CERTIFICATE_VERIFY, &[]);
                Self::message(out, FINISHED - LAST.len(), LAST);
                self.stage = Stage::AwaitingFinished;
                Some(application_keys())
            }
            (Stage::FinalMessages, Side::Client) => {
                Self::message(out, FINISHED, &[]);
                self.stage = Stage::Complete;
                Some(application_keys())
            }
            (Stage::FinalMessages, Side::Server) => {
                Self::message(out, SESSION_TICKETS, &[]);
                self.stage = Stage::Complete;
                None
            }
            _ => None,
        }
    }

    fn is_handshaking(&self) -> bool {
        match self.side {
            Side::Client => self.stage != Stage::Complete,
            Side::Server => !matches!(self.stage, Stage::FinalMessages | Stage::Complete),
        }
    }

    fn peer_transport_parameters(&self) -> Option<&[u8]> {
        self.peer_parameters.as_deref()
    }

    fn application_protocol(&self) -> Option<&[u8]> {
        self.peer_parameters.as_ref().map(|_| PROTOCOL)
    }

    fn server_name(&self) -> Option<&str> {
        None
    }

    fn peer_certificates(&self) -> Option<&[CertificateDer<'static>]> {
        None
    }

    fn export_keying_material(
        &self,
        _output: &mut [u8],
        _label: &[u8],
        _context: Option<&[u8]>,
    ) -> Result<(), ExportError> {
        Err(ExportError)
    }

    fn cipher_suite(&self) -> Option<&'static str> {
        None
    }

    fn initial_keys(
        &self,
        _version: Version,
        _side: Side,
        _destination_connection_id: &ConnectionId,
    ) -> Result<Keys, TransportError> {
        Ok(INITIAL_KEYS.keys())
    }
}

fn application_keys() -> NewKeys {
    NewKeys::Application { keys: APPLICATION_KEYS.keys(), next: Box::new(APPLICATION_KEYS) }
}

/// Returns the keys that protect the 1-RTT packets of every null session, for tests that build the
/// peer's packets.
pub fn null_application_key() -> impl PacketKey {
    APPLICATION_KEYS
}

/// Returns the keys that protect the Initial packets of every null session.
pub fn null_initial_key() -> impl PacketKey {
    INITIAL_KEYS
}

#[cfg(test)]
#[path = "null_session_tests.rs"]
mod tests;
