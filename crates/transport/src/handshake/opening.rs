//! A server session that starts once the ClientHello shows which version will be negotiated.

use core::fmt;
use std::sync::Arc;

use clearway_wire::{
    ConnectionId, Initiator, TransportParameters, VarInt, Version, VersionInformation,
};
use rustls::pki_types::CertificateDer;
use rustls::quic::{DirectionalKeys, Keys};

use super::client_hello::HelloParameters;
use super::session::{
    ConnectionVersions, EarlyData, ExportError, NewKeys, ServerSessions, Session, SessionError,
};
use super::version;
use crate::{Side, SpaceId, TransportError};

/// The transport parameters of a server whose QUIC version is not known yet.
#[derive(Debug)]
pub(crate) struct OpenParameters {
    /// The parameters without the version information.
    pub(crate) parameters: TransportParameters,
    /// An additional parameter with a reserved identifier (RFC 9000 §18.1).
    pub(crate) grease: (VarInt, [u8; 4]),
}

impl OpenParameters {
    /// Encodes the parameters with `chosen` as the server's version and `spoken` as its version
    /// list.
    fn encode(mut self, chosen: Version, spoken: &[Version]) -> Vec<u8> {
        let information = VersionInformation { chosen, available: spoken.to_vec() };
        self.parameters.version_information = Some(information);
        let mut encoded = Vec::new();
        let (identifier, value) = self.grease;
        self.parameters.encode(&mut encoded, Some((identifier, &value)));
        encoded
    }
}

/// The session of a server that prefers a version other than the client's first one. The first
/// message is buffered until it is complete. The version is then chosen, and a real session
/// receives the message.
pub(crate) struct Opening {
    sessions: Arc<dyn ServerSessions>,
    /// The versions that the server supports, the preferred one first; empty once there is a
    /// session.
    spoken: Vec<Version>,
    original: Version,
    /// `None` once the parameters have been passed to the session.
    parameters: Option<Box<OpenParameters>>,
    received: Vec<u8>,
    rejects_early_data: bool,
    begun: Option<Begun>,
}

struct Begun {
    version: Version,
    session: Box<dyn Session>,
}

/// The maximum size of a buffered first message. Longer messages are passed to the session
/// unchanged, in the client's version.
const MAX_RECEIVED: usize = 4 + 0xffff;

impl Opening {
    pub(crate) fn new(
        sessions: Arc<dyn ServerSessions>,
        original: Version,
        spoken: &[Version],
        parameters: OpenParameters,
    ) -> Self {
        Self {
            sessions,
            spoken: spoken.to_vec(),
            original,
            parameters: Some(Box::new(parameters)),
            received: Vec::new(),
            rejects_early_data: false,
            begun: None,
        }
    }

    /// Returns the version to negotiate, once enough of the client's first message has been
    /// received.
    fn choose(&self) -> Option<Version> {
        match self.sessions.find_parameters(&self.received) {
            HelloParameters::Incomplete if self.received.len() <= MAX_RECEIVED => None,
            HelloParameters::Incomplete | HelloParameters::None => Some(self.original),
            HelloParameters::Found(encoded) => {
                let decoded = TransportParameters::decode(encoded, Initiator::Client).ok();
                let client = decoded.and_then(|parameters| parameters.version_information);
                Some(version::compatible(&self.spoken, self.original, client.as_ref()))
            }
        }
    }

    fn begin(&mut self, version: Version) -> Result<&mut Begun, TransportError> {
        let parameters = self.parameters.take().ok_or(BEGUN)?;
        let encoded = parameters.encode(version, &core::mem::take(&mut self.spoken));
        let versions = ConnectionVersions { original: self.original, negotiated: version };
        let sessions = self.sessions.clone();
        let mut session =
            sessions.accept(versions, encoded).map_err(SessionError::into_transport)?;
        if self.rejects_early_data {
            session.reject_early_data();
        }
        Ok(self.begun.insert(Begun { version, session }))
    }

    fn session(&self) -> Option<&dyn Session> {
        self.begun.as_ref().map(|begun| &*begun.session)
    }
}

const BEGUN: TransportError = TransportError::internal("a session was started twice");

impl Session for Opening {
    fn receive(&mut self, space: SpaceId, message_bytes: &[u8]) -> Result<(), TransportError> {
        if let Some(begun) = &mut self.begun {
            return begun.session.receive(space, message_bytes);
        }
        self.received.extend_from_slice(message_bytes);
        let Some(version) = self.choose() else { return Ok(()) };
        let received = core::mem::take(&mut self.received);
        self.begin(version)?.session.receive(space, &received)
    }

    fn produce(&mut self, out: &mut Vec<u8>) -> Option<NewKeys> {
        self.begun.as_mut().and_then(|begun| begun.session.produce(out))
    }

    fn is_handshaking(&self) -> bool {
        self.session().is_none_or(Session::is_handshaking)
    }

    fn peer_transport_parameters(&self) -> Option<&[u8]> {
        self.session().and_then(Session::peer_transport_parameters)
    }

    fn application_protocol(&self) -> Option<&[u8]> {
        self.session().and_then(Session::application_protocol)
    }

    fn server_name(&self) -> Option<&str> {
        self.session().and_then(Session::server_name)
    }

    fn peer_certificates(&self) -> Option<&[CertificateDer<'static>]> {
        self.session().and_then(Session::peer_certificates)
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: Option<&[u8]>,
    ) -> Result<(), ExportError> {
        let session = self.session().ok_or(ExportError)?;
        session.export_keying_material(output, label, context)
    }

    fn compact(&mut self) {
        if let Some(begun) = &mut self.begun {
            begun.session.compact();
        }
    }

    fn cipher_suite(&self) -> Option<&'static str> {
        self.session().and_then(Session::cipher_suite)
    }

    fn key_exchange_group(&self) -> Option<&'static str> {
        self.session().and_then(Session::key_exchange_group)
    }

    fn initial_keys(
        &self,
        version: Version,
        side: Side,
        destination_connection_id: &ConnectionId,
    ) -> Result<Keys, TransportError> {
        match self.session() {
            Some(session) => session.initial_keys(version, side, destination_connection_id),
            None => self.sessions.initial_keys(version, destination_connection_id),
        }
    }

    fn negotiated_version(&self) -> Option<Version> {
        self.begun.as_ref().map(|begun| begun.version)
    }

    fn early_keys(&mut self) -> Option<DirectionalKeys> {
        self.begun.as_mut().and_then(|begun| begun.session.early_keys())
    }

    fn reject_early_data(&mut self) {
        self.rejects_early_data = true;
        if let Some(begun) = &mut self.begun {
            begun.session.reject_early_data();
        }
    }

    fn early_data(&self) -> EarlyData {
        self.session().map_or(EarlyData::None, Session::early_data)
    }
}

impl fmt::Debug for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opening")
            .field("original", &self.original)
            .field("received", &self.received.len())
            .field("version", &self.negotiated_version())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "opening_tests.rs"]
mod tests;
