//! Binds a server's sessions to how the server authenticates clients, and to when the client last
//! proved possession of its key.
//!
//! A resumed handshake has no client certificate (RFC 8446 §2.2), so a server that resumes a
//! session accepts an identity that some server verified earlier. It may do so only if it would
//! currently accept the client in a full handshake. Each session therefore records the policy, and
//! the time of the full handshake from which it descends (§4.6.1 recommends a limit on that age).
//! The chain in the session is verified again.

use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};

use clearway_wire::{Reader, TransportErrorCode};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::quic::ServerConnection;
use rustls::time_provider::TimeProvider;
use rustls::{AlertDescription, Error, HandshakeKind};

use super::client_trust::{ClientIdentity, ClientPolicy, Fingerprint};
use crate::TransportError;

/// The maximum size of a session for which a server issues a ticket, in bytes. The session contains
/// the client's chain, and is kept in the server's table or sent to the client, which returns it in
/// its ClientHello. A client with a longer chain gets no ticket, and authenticates in a full
/// handshake each time.
const MAX_SESSION: usize = 16 * 1024;
/// The size of the binding in a session: the policy and the time.
const NOTED_LEN: usize = size_of::<Fingerprint>() + size_of::<u64>();
/// The maximum difference between the clocks of servers with shared keys, as for tokens. A session
/// that began more than this time in the future is not resumed.
const CLOCK_DIFFERENCE: Duration = Duration::from_secs(60);
/// The default of [`TlsServerConfig::max_session_age`](super::TlsServerConfig::max_session_age).
pub(super) const DEFAULT_AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// The maximum ticket lifetime in TLS (RFC 8446 §4.6.1).
pub(super) const LONGEST_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The binding of one connection's sessions.
#[derive(Debug)]
pub(super) struct SessionBinding {
    policy: Arc<ClientPolicy>,
    max_age: Duration,
    time: Arc<dyn TimeProvider>,
    /// The time of the full handshake from which the resumed session descends, in seconds since
    /// 1970.
    resumed: Mutex<Option<u64>>,
}

impl SessionBinding {
    pub(super) fn new(
        policy: Arc<ClientPolicy>,
        max_age: Duration,
        time: Arc<dyn TimeProvider>,
    ) -> Self {
        Self { policy, max_age, time, resumed: Mutex::new(None) }
    }

    fn set_resumed(&self, began: Option<u64>) {
        *self.resumed.lock().unwrap_or_else(PoisonError::into_inner) = began;
    }

    fn resumed(&self) -> Option<u64> {
        *self.resumed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the maximum number of seconds from now for which the connection's session can be
    /// resumed.
    pub(super) fn lifetime(&self) -> u32 {
        let now = self.time.current_time().map(|now| now.as_secs());
        let began = self.resumed().or(now).unwrap_or_default();
        let age = now.unwrap_or_default().saturating_sub(began);
        u32::try_from(self.max_age.as_secs().saturating_sub(age)).unwrap_or(u32::MAX)
    }

    /// Appends the session's binding; `None` if the session must not be issued.
    pub(super) fn note(&self, session: &mut Vec<u8>) -> Option<()> {
        if session.len() > MAX_SESSION {
            return None;
        }
        if client_chain(session)?.is_none() && self.policy.requires_certificate() {
            return None;
        }
        let began = match self.resumed() {
            Some(began) => began,
            None => self.time.current_time()?.as_secs(),
        };
        session.extend_from_slice(self.policy.fingerprint());
        session.extend_from_slice(&began.to_be_bytes());
        Some(())
    }

    /// Returns the session without its binding; `None` if the session must not be resumed, which
    /// leads to a full handshake.
    pub(super) fn accept(&self, mut session: Vec<u8>) -> Option<Vec<u8>> {
        let length = session.len().checked_sub(NOTED_LEN)?;
        let noted = session.split_off(length);
        let (fingerprint, began) = noted.split_first_chunk::<{ size_of::<Fingerprint>() }>()?;
        let began = u64::from_be_bytes(*began.first_chunk()?);
        let now = self.time.current_time()?;
        if fingerprint != self.policy.fingerprint() || !self.is_recent(began, now) {
            return None;
        }
        let chain = client_chain(&session)?;
        if !self.policy.accepts(chain.as_deref(), now) {
            return None;
        }
        self.set_resumed(Some(began));
        Some(session)
    }

    fn is_recent(&self, began: u64, now: UnixTime) -> bool {
        match now.as_secs().checked_sub(began) {
            Some(age) => Duration::from_secs(age) <= self.max_age,
            None => began.saturating_sub(now.as_secs()) <= CLOCK_DIFFERENCE.as_secs(),
        }
    }

    /// Checks the client's identity, as far as the handshake has established it.
    ///
    /// # Errors
    /// Returns CRYPTO_ERROR with the alert certificate_required if early data or the end of the
    /// handshake is reached without the certificate that the server requires. rustls and
    /// [`accept`](Self::accept) prevent this; the check guards against bugs in either.
    pub(super) fn check(&self, connection: &ServerConnection) -> Result<(), TransportError> {
        let kind = connection.handshake_kind();
        if matches!(kind, Some(HandshakeKind::Full | HandshakeKind::FullWithHelloRetryRequest)) {
            // rustls had another reason for not resuming the session that was accepted here.
            self.set_resumed(None);
        }
        let is_let_in = !connection.is_handshaking() || connection.zero_rtt_keys().is_some();
        if is_let_in && self.identity(connection.peer_certificates()).is_none() {
            let alert = u8::from(AlertDescription::CertificateRequired);
            let code = TransportErrorCode::crypto(alert);
            return Err(TransportError::tls(code, Error::NoCertificatesPresented));
        }
        Ok(())
    }

    pub(super) fn identity(
        &self,
        chain: Option<&[CertificateDer<'static>]>,
    ) -> Option<ClientIdentity> {
        self.policy.identity(chain)
    }
}

/// Returns the client's chain in a session as encoded by rustls 0.23. The outer `None` means that
/// the session has another format.
///
/// The session's fields are the server's name, the version, the suite, the secret, whether it is
/// extended (TLS 1.2), the chain, the application protocol, the application's data, the time of
/// creation, and the offset of the ticket's age. One-byte flags indicate whether optional fields
/// follow.
#[expect(clippy::option_option, reason = "a malformed session differs from one without a chain")]
fn client_chain(session: &[u8]) -> Option<Option<Vec<CertificateDer<'_>>>> {
    let mut reader = Reader::new(session);
    if flag(&mut reader)? {
        prefixed_by_one(&mut reader)?;
    }
    let _version_and_suite: [u8; 4] = reader.array(NAME).ok()?;
    prefixed_by_one(&mut reader)?;
    flag(&mut reader)?;
    let chain = match flag(&mut reader)? {
        false => None,
        true => {
            let mut list = Reader::new(prefixed_by_three(&mut reader)?);
            let mut chain = Vec::new();
            while !list.is_empty() {
                chain.push(CertificateDer::from(prefixed_by_three(&mut list)?));
            }
            Some(chain)
        }
    };
    if flag(&mut reader)? {
        prefixed_by_one(&mut reader)?;
    }
    let data = u16::from_be_bytes(reader.array(NAME).ok()?);
    reader.bytes(usize::from(data), NAME).ok()?;
    let _created_and_offset: [u8; 12] = reader.array(NAME).ok()?;
    reader.is_empty().then_some(chain)
}

/// The name used in errors, which are never shown.
const NAME: &str = "session";

fn flag(reader: &mut Reader<'_>) -> Option<bool> {
    match reader.u8(NAME).ok()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

fn prefixed_by_one<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let length = reader.u8(NAME).ok()?;
    reader.bytes(usize::from(length), NAME).ok()
}

fn prefixed_by_three<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let [high, middle, low] = reader.array(NAME).ok()?;
    let length = usize::try_from(u32::from_be_bytes([0, high, middle, low])).ok()?;
    reader.bytes(length, NAME).ok()
}

#[cfg(test)]
#[path = "binding_tests.rs"]
mod tests;
