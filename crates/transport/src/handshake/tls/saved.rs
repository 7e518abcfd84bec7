//! Serializable sessions: the state that a client needs to resume a session in another process.

use core::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use clearway_wire::{DecodeError, Reader, Version};
use rustls::ClientConfig;
use rustls::client::Tls13ClientSessionValue;
use rustls::pki_types::CertificateDer;

use super::context::{MAX_EARLY_DATA_CONTEXT, SessionContext};
use super::session_trust::{MAX_LIFETIME, SessionTrust};
use crate::MAX_CERTIFICATES;

/// A TLS session that a client may resume once (RFC 8446 §4.6.1), with the state to remember from
/// the connection (RFC 9001 §4.5, RFC 9000 §7.4.1). Anyone who has the session can decrypt early
/// data and impersonate the client: store it as safely as a private key.
#[derive(Clone, PartialEq, Eq)]
pub struct SavedSession {
    pub(super) version: Version,
    pub(super) suite: u16,
    /// The time at which the ticket was issued, in seconds since 1970.
    pub(super) issued: u64,
    /// The lifetime in seconds.
    pub(super) lifetime: u32,
    pub(super) age_add: u32,
    pub(super) permits_early_data: bool,
    pub(super) application_protocol: Vec<u8>,
    pub(super) secret: Vec<u8>,
    pub(super) ticket: Vec<u8>,
    pub(super) parameters: Vec<u8>,
    /// The server's settings, in the application's encoding.
    pub(super) context: SessionContext,
    pub(super) trust: SessionTrust,
    pub(super) certificates: Vec<Vec<u8>>,
    pub(super) live: LiveSession,
}

/// The session in rustls's form, for the configuration with which it was created. It is not stored,
/// and it is consumed by the first connection that resumes the session or any of its clones.
#[derive(Clone, Default)]
pub(super) struct LiveSession(Option<Arc<Live>>);

struct Live {
    made_with: Weak<ClientConfig>,
    session: Mutex<Option<Tls13ClientSessionValue>>,
}

impl LiveSession {
    pub(super) fn new(config: &Arc<ClientConfig>, session: Tls13ClientSessionValue) -> Self {
        let session = Mutex::new(Some(session));
        Self(Some(Arc::new(Live { made_with: Arc::downgrade(config), session })))
    }

    /// Removes and returns the session, if it was created with this configuration, because rustls
    /// does not accept another configuration's session.
    pub(super) fn take(&self, config: &Arc<ClientConfig>) -> Option<Tls13ClientSessionValue> {
        let live = self.0.as_ref()?;
        if !core::ptr::eq(live.made_with.as_ptr(), Arc::as_ptr(config)) {
            return None;
        }
        live.session.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Ignored in comparisons: sessions are equal if their stored parts are.
impl PartialEq for LiveSession {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for LiveSession {}

/// The reason why a stored session cannot be decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SavedSessionError {
    /// The bytes have a different format from the one that this version of the library writes.
    UnknownFormat,
    /// The bytes are truncated, have trailing bytes, or contain a field that exceeds its limit.
    Malformed,
}

impl fmt::Display for SavedSessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownFormat => "the stored session has an unknown format",
            Self::Malformed => "the stored session is damaged",
        })
    }
}

impl core::error::Error for SavedSessionError {}

impl From<DecodeError> for SavedSessionError {
    fn from(_: DecodeError) -> Self {
        Self::Malformed
    }
}

/// The first byte of the format. Formats 1 and 2 did not record the trust under which a session
/// began, so they are no longer read.
const FORMAT: u8 = 3;
/// The maximum length of a stored ticket, in bytes. The ticket lengthens the ClientHello by this
/// amount.
pub(super) const MAX_TICKET: usize = 4096;
/// The maximum length of any other field, in bytes.
const MAX_PART: usize = 0xffff;

impl SavedSession {
    /// Returns the version of the connection, the only one in which the session can be resumed (RFC
    /// 9369 §5).
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns whether the server accepts early data on a connection that resumes the session.
    pub fn permits_early_data(&self) -> bool {
        self.permits_early_data
    }

    /// Returns the time until which the session can be resumed, in seconds since 1970: at most a
    /// week after the server last showed its certificate (RFC 8446 §4.6.1), whatever the ticket's
    /// lifetime.
    pub fn expires(&self) -> u64 {
        let ticket = self.issued.saturating_add(u64::from(self.lifetime.min(MAX_LIFETIME)));
        ticket.min(self.trust.expires())
    }

    /// Encodes the session in a format of this library. The bytes contain a secret.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT, u8::from(self.permits_early_data)];
        out.extend_from_slice(&self.version.0.to_be_bytes());
        out.extend_from_slice(&self.suite.to_be_bytes());
        out.extend_from_slice(&self.issued.to_be_bytes());
        out.extend_from_slice(&self.lifetime.to_be_bytes());
        out.extend_from_slice(&self.age_add.to_be_bytes());
        let trust = self.trust.encode();
        let parts: [&[u8]; 6] = [
            &self.application_protocol,
            &self.secret,
            &self.ticket,
            &self.parameters,
            self.context.get().unwrap_or_default(),
            &trust,
        ];
        for part in parts.into_iter().chain(self.certificates.iter().map(Vec::as_slice)) {
            let length = u16::try_from(part.len()).unwrap_or(u16::MAX);
            out.extend_from_slice(&length.to_be_bytes());
            out.extend(part.iter().take(usize::from(length)));
        }
        out
    }

    /// Decodes a session from bytes produced by [`encode`](Self::encode).
    ///
    /// # Errors
    /// Returns an error if the bytes have another format or are damaged.
    pub fn decode(bytes: &[u8]) -> Result<Self, SavedSessionError> {
        let mut reader = Reader::new(bytes);
        let format = reader.u8(NAME)?;
        if format != FORMAT {
            return Err(SavedSessionError::UnknownFormat);
        }
        let permits_early_data = match reader.u8(NAME)? {
            0 => false,
            1 => true,
            _ => return Err(SavedSessionError::Malformed),
        };
        let version = Version(u32::from_be_bytes(reader.array(NAME)?));
        let suite = u16::from_be_bytes(reader.array(NAME)?);
        let issued = u64::from_be_bytes(reader.array(NAME)?);
        let lifetime = u32::from_be_bytes(reader.array(NAME)?);
        let age_add = u32::from_be_bytes(reader.array(NAME)?);
        let mut saved = Self {
            version,
            suite,
            issued,
            lifetime,
            age_add,
            permits_early_data,
            application_protocol: part(&mut reader)?,
            secret: part(&mut reader)?,
            ticket: part(&mut reader)?,
            parameters: part(&mut reader)?,
            context: context(&mut reader)?,
            trust: SessionTrust::decode(&part(&mut reader)?).ok_or(SavedSessionError::Malformed)?,
            certificates: Vec::new(),
            live: LiveSession::default(),
        };
        while !reader.is_empty() {
            if saved.certificates.len() >= MAX_CERTIFICATES {
                return Err(SavedSessionError::Malformed);
            }
            saved.certificates.push(part(&mut reader)?);
        }
        let is_whole = saved.ticket.len() <= MAX_TICKET
            && !saved.ticket.is_empty()
            && !saved.certificates.is_empty();
        if is_whole { Ok(saved) } else { Err(SavedSessionError::Malformed) }
    }

    pub(super) fn chain(&self) -> Vec<CertificateDer<'static>> {
        self.certificates.iter().map(|bytes| CertificateDer::from(bytes.clone())).collect()
    }
}

const NAME: &str = "stored session";

fn part(reader: &mut Reader<'_>) -> Result<Vec<u8>, SavedSessionError> {
    let length = usize::from(u16::from_be_bytes(reader.array(NAME)?));
    Ok(reader.bytes(length.min(MAX_PART), NAME)?.to_vec())
}

fn context(reader: &mut Reader<'_>) -> Result<SessionContext, SavedSessionError> {
    let encoded = part(reader)?;
    match encoded.len() <= MAX_EARLY_DATA_CONTEXT {
        true => Ok(SessionContext::of(encoded)),
        false => Err(SavedSessionError::Malformed),
    }
}

impl fmt::Debug for SavedSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SavedSession")
            .field("version", &self.version)
            .field("issued", &self.issued)
            .field("lifetime", &self.lifetime)
            .field("permits_early_data", &self.permits_early_data)
            .finish_non_exhaustive()
    }
}

/// Stores a client's sessions and its servers' tokens for later connections.
///
/// A session or token is returned only once. Implementations are called while packets are
/// processed, so they must not block; the amount of stored data has to be bounded.
pub trait SessionStore: Send + Sync + fmt::Debug {
    /// Stores a session with this server.
    fn put_session(&self, server_name: &str, session: SavedSession);

    /// Removes and returns a session with this server for a connection of `version`, the newest if
    /// there are several.
    fn take_session(&self, server_name: &str, version: Version) -> Option<SavedSession>;

    /// Stores a token from this server ([`Event::NewToken`](crate::Event::NewToken)).
    fn put_token(&self, server_name: &str, token: &[u8]);

    /// Removes and returns a token of this server, the newest if there are several.
    fn take_token(&self, server_name: &str) -> Option<Vec<u8>>;
}
