//! The handshake: quinn's own TLS with the lab's certificate, or the null session without
//! cryptography.

use std::any::Any;
use std::sync::Arc;

use clearway_transport::{KeySchedule, NewKeys, Session, Side as OurSide, SpaceId};
use quinn_proto::crypto::rustls::{NoInitialCipherSuite, QuicClientConfig, QuicServerConfig};
use quinn_proto::crypto::{
    ClientConfig, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, ServerConfig,
    UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError, TransportErrorCode, crypto};
use rustls::crypto::aws_lc_rs::default_provider;

use super::QuinnError;
use crate::setup::SessionKind;
use crate::stack::null_keys::NullKeys;
use crate::stack::null_session::{APPLICATION_KEYS, INITIAL_KEYS, NullSession};
use crate::stack::{NullSessions, tls};

/// Returns the configuration that creates a server's sessions.
pub(super) fn server(session: SessionKind) -> Result<Arc<dyn ServerConfig>, QuinnError> {
    match session {
        SessionKind::Null => Ok(Arc::new(NullSessions)),
        SessionKind::Tls(setup) => {
            let suites = default_provider().cipher_suites;
            Ok(Arc::new(QuicServerConfig::try_from(tls::server_config(setup, suites)?)?))
        }
    }
}

/// Returns the configuration that creates a client's sessions.
pub(super) fn client(session: SessionKind) -> Result<Arc<dyn ClientConfig>, QuinnError> {
    match session {
        SessionKind::Null => Ok(Arc::new(NullSessions)),
        SessionKind::Tls(setup) => {
            let suites = default_provider().cipher_suites;
            Ok(Arc::new(QuicClientConfig::try_from(tls::client_config(setup, suites)?)?))
        }
    }
}

impl From<NoInitialCipherSuite> for QuinnError {
    fn from(error: NoInitialCipherSuite) -> Self {
        let error = rustls::Error::General(error.to_string());
        Self::Tls(clearway_transport::SessionError::Tls(error).into())
    }
}

impl ClientConfig for NullSessions {
    fn start_session(
        self: Arc<Self>,
        _version: u32,
        _server_name: &str,
        parameters: &TransportParameters,
    ) -> Result<Box<dyn crypto::Session>, ConnectError> {
        Ok(Box::new(NullCrypto::new(Side::Client, parameters)))
    }
}

impl ServerConfig for NullSessions {
    fn initial_keys(
        &self,
        _version: u32,
        _destination: &ConnectionId,
    ) -> Result<Keys, UnsupportedVersion> {
        Ok(keys(INITIAL_KEYS.keys()))
    }

    /// Returns a meaningless tag, because no client in the lab accepts a Retry (see
    /// `is_valid_retry`).
    fn retry_tag(&self, _version: u32, _destination: &ConnectionId, _packet: &[u8]) -> [u8; 16] {
        [0; 16]
    }

    fn start_session(
        self: Arc<Self>,
        _version: u32,
        parameters: &TransportParameters,
    ) -> Box<dyn crypto::Session> {
        Box::new(NullCrypto::new(Side::Server, parameters))
    }
}

/// The null session without cryptography, adapted to quinn's interface.
struct NullCrypto {
    side: Side,
    session: NullSession,
    /// The source of keys for later key phases.
    schedule: NullKeys,
    /// Whether quinn was informed that the peer's transport parameters have arrived.
    is_announced: bool,
}

impl NullCrypto {
    fn new(side: Side, parameters: &TransportParameters) -> Self {
        let mut encoded = Vec::new();
        parameters.write(&mut encoded);
        let our_side = if side.is_client() { OurSide::Client } else { OurSide::Server };
        let session = NullSession::new(our_side, encoded);
        Self { side, session, schedule: APPLICATION_KEYS, is_announced: false }
    }
}

impl crypto::Session for NullCrypto {
    fn initial_keys(&self, _destination: &ConnectionId, _side: Side) -> Keys {
        keys(INITIAL_KEYS.keys())
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        None
    }

    fn early_data_accepted(&self) -> Option<bool> {
        None
    }

    fn is_handshaking(&self) -> bool {
        self.session.is_handshaking()
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        // The session does not check the encryption level of messages; quinn does so before it passes them on.
        self.session.receive(SpaceId::Handshake, bytes).map_err(|error| TransportError {
            code: TransportErrorCode::PROTOCOL_VIOLATION,
            frame: None,
            reason: error.to_string(),
        })?;
        let has_come = self.session.peer_transport_parameters().is_some();
        Ok(has_come && !core::mem::replace(&mut self.is_announced, has_come))
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let Some(mut encoded) = self.session.peer_transport_parameters() else { return Ok(None) };
        Ok(Some(TransportParameters::read(self.side, &mut encoded)?))
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<Keys> {
        Some(match self.session.produce(out)? {
            NewKeys::Handshake(new) | NewKeys::Application { keys: new, .. } => keys(new),
        })
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let next = self.schedule.next_packet_keys();
        Some(KeyPair { local: Box::new(next.local), remote: Box::new(next.remote) })
    }

    /// Returns `false`: a Retry is protected only by cryptography, and this session has none. The
    /// lab's servers do not send Retry packets.
    fn is_valid_retry(&self, _: &ConnectionId, _header: &[u8], _payload: &[u8]) -> bool {
        false
    }

    fn export_keying_material(
        &self,
        _output: &mut [u8],
        _label: &[u8],
        _context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}

/// Converts rustls's keys to the structure that quinn uses.
fn keys(keys: rustls::quic::Keys) -> Keys {
    let rustls::quic::Keys { local, remote } = keys;
    Keys {
        header: KeyPair { local: Box::new(local.header), remote: Box::new(remote.header) },
        packet: KeyPair { local: Box::new(local.packet), remote: Box::new(remote.packet) },
    }
}
