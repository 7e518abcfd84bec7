//! A server's session. When the handshake is complete, rustls's session is replaced with the values
//! that are still needed: a few hundred bytes instead of six thousand.

use std::sync::Arc;

use clearway_wire::Version;
use rustls::crypto::tls13::OkmBlock;
use rustls::pki_types::CertificateDer;
use rustls::quic::{Connection, DirectionalKeys};
use rustls::{AlertDescription, Error, HandshakeType, Tls13CipherSuite};

use super::super::derived_keys::{ApplicationSecrets, Derivation};
use super::super::session::{EarlyData, ExportError, NewKeys, Session};
use super::super::tls_error::transport_error;
use super::binding::SessionBinding;
use super::client_trust::ClientIdentity;
use super::server_secrets::{ServerSecrets, collecting};
use super::{TlsSession, suite_name};
use crate::{Side, SpaceId, TransportError};

pub(super) struct ServerSession(ServerStage);

enum ServerStage {
    Handshaking(Box<Handshaking>),
    Complete(Box<Complete>),
}

struct Handshaking {
    session: TlsSession,
    /// The version of the keys.
    version: Version,
    secrets: ServerSecrets,
    binding: Arc<SessionBinding>,
}

/// The state of a session whose handshake is complete and whose tickets have been issued.
struct Complete {
    parameters: Option<Box<[u8]>>,
    application_protocol: Option<Box<[u8]>>,
    server_name: Option<Box<str>>,
    client: ClientIdentity,
    suite: &'static Tls13CipherSuite,
    key_exchange_group: Option<&'static str>,
    early_data: EarlyData,
    /// exporter_master_secret (RFC 8446 §7.1).
    exporter: Box<[u8]>,
}

impl ServerSession {
    pub(super) fn new(session: TlsSession, version: Version, binding: Arc<SessionBinding>) -> Self {
        let secrets = ServerSecrets::default();
        Self(ServerStage::Handshaking(Box::new(Handshaking { session, version, secrets, binding })))
    }
}

impl Handshaking {
    /// Returns the 1-RTT keys with a schedule that can provide them again.
    fn with_schedule(&self, keys: NewKeys) -> NewKeys {
        match keys {
            NewKeys::Application { keys, next } => {
                let ServerSecrets { client, server, .. } = &self.secrets;
                let secrets = ApplicationSecrets { client, server };
                let schedule = self.suite().and_then(|suite| {
                    let suite = suite.common.suite;
                    Derivation::schedule(self.version, suite, Side::Server, secrets)
                });
                match schedule {
                    Some(schedule) => NewKeys::Application { keys, next: Box::new(schedule) },
                    None => NewKeys::Application { keys, next },
                }
            }
            NewKeys::Handshake(_) => keys,
        }
    }

    fn suite(&self) -> Option<&'static Tls13CipherSuite> {
        self.session.connection.negotiated_cipher_suite()?.tls13()
    }

    /// Processes the next bytes of the client's handshake.
    fn receive(&mut self, space: SpaceId, message_bytes: &[u8]) -> Result<(), TransportError> {
        let session = &mut self.session;
        collecting(&mut self.secrets, || session.receive(space, message_bytes))?;
        match &session.connection {
            Connection::Server(connection) => self.binding.check(connection),
            Connection::Client(_) => Ok(()),
        }
    }

    /// Returns the values still needed once the session has produced everything; `None` while the
    /// session itself is needed.
    fn complete(&mut self) -> Option<Complete> {
        let suite = self.suite()?;
        let is_known = self.secrets.exporter.len() == suite.common.hash_provider.output_len();
        if self.session.is_handshaking() || !is_known {
            return None;
        }
        let session = &self.session;
        Some(Complete {
            parameters: session.peer_transport_parameters().map(Into::into),
            application_protocol: session.application_protocol().map(Into::into),
            server_name: session.server_name().map(Into::into),
            client: self.binding.identity(session.peer_certificates())?,
            suite,
            key_exchange_group: session.key_exchange_group(),
            early_data: session.early_data(),
            exporter: core::mem::take(&mut self.secrets.exporter).into(),
        })
    }
}

impl Complete {
    /// Rejects messages after the handshake: client certificates are not requested then, and TLS
    /// key updates are not used (RFC 9001 §4.4, §6).
    fn refuse(message_bytes: &[u8]) -> Result<(), TransportError> {
        let Some(kind) = message_bytes.first() else { return Ok(()) };
        let error = Error::InappropriateHandshakeMessage {
            expect_types: Vec::new(),
            got_type: HandshakeType::from(*kind),
        };
        Err(transport_error(error, Some(AlertDescription::UnexpectedMessage), false, None))
    }

    /// Exports keying material (RFC 8446 §7.5).
    fn export(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: Option<&[u8]>,
    ) -> Result<(), ExportError> {
        if output.is_empty() {
            return Err(ExportError);
        }
        let hash = |bytes: &[u8]| self.suite.common.hash_provider.hash(bytes);
        let mut secret = [0; OkmBlock::MAX_LEN];
        let secret = secret.get_mut(..self.exporter.len()).ok_or(ExportError)?;
        self.expand(&self.exporter, label, hash(&[]).as_ref(), secret)?;
        let context = hash(context.unwrap_or_default());
        self.expand(secret, b"exporter", context.as_ref(), output)
    }

    /// Computes HKDF-Expand-Label (RFC 8446 §7.1).
    fn expand(
        &self,
        secret: &[u8],
        label: &[u8],
        context: &[u8],
        output: &mut [u8],
    ) -> Result<(), ExportError> {
        const PREFIX: &[u8] = b"tls13 ";
        let length = u16::try_from(output.len()).map_err(|_| ExportError)?;
        let label_len = label.len().saturating_add(PREFIX.len());
        let label_len = u8::try_from(label_len).map_err(|_| ExportError)?;
        let context_len = u8::try_from(context.len()).map_err(|_| ExportError)?;
        let info =
            [&length.to_be_bytes()[..], &[label_len], PREFIX, label, &[context_len], context];
        let expander = self.suite.hkdf_provider.expander_for_okm(&OkmBlock::new(secret));
        expander.expand_slice(&info, output).map_err(|_| ExportError)
    }
}

impl Session for ServerSession {
    fn receive(&mut self, space: SpaceId, message_bytes: &[u8]) -> Result<(), TransportError> {
        match &mut self.0 {
            ServerStage::Handshaking(stage) => stage.receive(space, message_bytes),
            ServerStage::Complete(_) => Complete::refuse(message_bytes),
        }
    }

    fn produce(&mut self, out: &mut Vec<u8>) -> Option<NewKeys> {
        let ServerStage::Handshaking(stage) = &mut self.0 else { return None };
        let before = out.len();
        let keys = stage.session.produce(out);
        if keys.is_none()
            && out.len() == before
            && let Some(complete) = stage.complete()
        {
            self.0 = ServerStage::Complete(Box::new(complete));
            return None;
        }
        keys.map(|keys| stage.with_schedule(keys))
    }

    fn is_handshaking(&self) -> bool {
        match &self.0 {
            ServerStage::Handshaking(stage) => stage.session.is_handshaking(),
            ServerStage::Complete(_) => false,
        }
    }

    fn peer_transport_parameters(&self) -> Option<&[u8]> {
        match &self.0 {
            ServerStage::Handshaking(stage) => stage.session.peer_transport_parameters(),
            ServerStage::Complete(complete) => complete.parameters.as_deref(),
        }
    }

    fn application_protocol(&self) -> Option<&[u8]> {
        match &self.0 {
            ServerStage::Handshaking(stage) => stage.session.application_protocol(),
            ServerStage::Complete(complete) => complete.application_protocol.as_deref(),
        }
    }

    fn server_name(&self) -> Option<&str> {
        match &self.0 {
            ServerStage::Handshaking(stage) => stage.session.server_name(),
            ServerStage::Complete(complete) => complete.server_name.as_deref(),
        }
    }

    fn peer_certificates(&self) -> Option<&[CertificateDer<'static>]> {
        match &self.0 {
            ServerStage::Handshaking(stage) => stage.session.peer_certificates(),
            ServerStage::Complete(complete) => complete.client.chain(),
        }
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: Option<&[u8]>,
    ) -> Result<(), ExportError> {
        match &self.0 {
            ServerStage::Handshaking(stage) => {
                stage.session.export_keying_material(output, label, context)
            }
            ServerStage::Complete(complete) => complete.export(output, label, context),
        }
    }

    fn compact(&mut self) {
        if let ServerStage::Complete(complete) = &mut self.0 {
            complete.parameters = None;
        }
    }

    fn cipher_suite(&self) -> Option<&'static str> {
        match &self.0 {
            ServerStage::Handshaking(stage) => stage.session.cipher_suite(),
            ServerStage::Complete(complete) => suite_name(complete.suite.common.suite),
        }
    }

    fn key_exchange_group(&self) -> Option<&'static str> {
        match &self.0 {
            ServerStage::Handshaking(stage) => stage.session.key_exchange_group(),
            ServerStage::Complete(complete) => complete.key_exchange_group,
        }
    }

    fn change_version(&mut self, _: Version) -> Result<(), TransportError> {
        Err(TransportError::internal("a server's TLS session cannot change its QUIC version"))
    }

    fn early_keys(&mut self) -> Option<DirectionalKeys> {
        match &mut self.0 {
            ServerStage::Handshaking(stage) => stage.session.early_keys(),
            ServerStage::Complete(_) => None,
        }
    }

    fn reject_early_data(&mut self) {
        if let ServerStage::Handshaking(stage) = &mut self.0 {
            stage.session.reject_early_data();
        }
    }

    fn early_data(&self) -> EarlyData {
        match &self.0 {
            ServerStage::Handshaking(stage) => stage.session.early_data(),
            ServerStage::Complete(complete) => complete.early_data,
        }
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
