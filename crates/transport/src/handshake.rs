//! The cryptographic handshake (RFC 9001; RFC 9000 §7): the TLS session, the crypto streams that carry its messages, and
//! the keys that it produces.

mod client_hello;
mod crypto_stream;
mod derived_keys;
mod early_limits;
mod encrypted_extensions;
mod first_flight;
mod initial;
mod opening;
mod packet_keys;
mod protection;
mod ranges;
pub(crate) mod retry;
mod session;
mod suites;
mod tls;
mod tls_error;
pub(crate) mod version;

use core::fmt;

use clearway_wire::{ConnectionId, TransportErrorCode, VarInt, Version, frame};

#[cfg(fuzzing)]
pub use client_hello::check_client_hello;
pub use client_hello::{ClientHello, HelloParameters};
pub(crate) use crypto_stream::CryptoStream;
pub(crate) use early_limits::EarlyLimits;
#[cfg(fuzzing)]
pub use encrypted_extensions::check_encrypted_extensions;
pub(crate) use first_flight::read_client_hello;
pub use initial::keys as initial_keys;
pub(crate) use opening::{OpenParameters, Opening};
pub(crate) use protection::{OpenError, Opened, Protection};
pub use session::{
    ClientSessions, ConnectionVersions, EarlyData, ExportError, KeySchedule, NewKeys, PhaseKeys,
    ServerSessions, Session, SessionError,
};
pub use tls::{
    ClientRoots, ClientTrust, EarlyDataContext, EncryptedClientHello, MAX_EARLY_DATA_CONTEXT,
    MemorySessionStore, SavedSession, SavedSessionError, ServerTrust, SessionStore, TicketKeys,
    TlsClientConfig, TlsClientSettings, TlsServerConfig, TlsServerSettings, certified_key,
    prepare_randomness,
};

use crate::space_id::PerSpace;
use crate::{Side, SpaceId, TransportError};

/// The maximum number of bytes that TLS may send after the handshake, over the life of a
/// connection. The bytes are only used for session tickets, a few hundred bytes each.
const MAX_POST_HANDSHAKE_BYTES: u64 = 256 << 10;
const CRYPTO_FRAME_TYPE: u64 = 0x06;

/// The result of a handshake step.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Progress {
    /// Whether Handshake packets can be sent and decrypted from this point on.
    pub(crate) handshake_keys_ready: bool,
    /// Whether 1-RTT packets can be sent from this point on. They can be decrypted only once the
    /// handshake is complete.
    pub(crate) application_keys_ready: bool,
    /// Whether the handshake is complete (RFC 9001 §4.1.1): the peer and its transport parameters
    /// are authenticated.
    pub(crate) complete: bool,
}

/// The handshake of one connection: session, crypto streams and packet protection.
pub(crate) struct Handshake {
    side: Side,
    session: Box<dyn Session>,
    /// The version of the keys: the client's first version until another is negotiated.
    version: Version,
    /// The Destination Connection ID from which the Initial keys of all versions are derived.
    initial_id: ConnectionId,
    /// The crypto streams; `None` while nothing has been sent or received, or once nothing more
    /// will be.
    streams: PerSpace<Option<Box<CryptoStream>>>,
    /// The number of bytes written in the 1-RTT space when the space's stream was released.
    settled: u64,
    protection: Protection,
    /// The space in which TLS messages are sent.
    send_space: SpaceId,
    /// The space in which TLS messages are expected.
    receive_space: SpaceId,
    is_complete: bool,
    /// Whether the session has provided the 0-RTT keys.
    has_early_keys: bool,
}

impl Handshake {
    /// Creates a handshake with the Initial keys of `version`, the version of the client's first
    /// flight, derived from the Destination Connection ID of its first Initial packet.
    ///
    /// # Errors
    /// Returns INTERNAL_ERROR if there are no Initial keys.
    pub(crate) fn new(
        side: Side,
        version: Version,
        session: Box<dyn Session>,
        destination_connection_id: &ConnectionId,
    ) -> Result<Self, TransportError> {
        let mut protection = Protection::new();
        let keys = session.initial_keys(version, side, destination_connection_id)?;
        protection.install(SpaceId::Initial, keys);
        Ok(Self {
            side,
            session,
            version,
            initial_id: *destination_connection_id,
            streams: PerSpace::default(),
            settled: 0,
            protection,
            send_space: SpaceId::Initial,
            receive_space: SpaceId::Initial,
            is_complete: false,
            has_early_keys: false,
        })
    }

    /// Starts the handshake. A client then has its first message to send; a server waits.
    ///
    /// # Errors
    /// Returns the errors of the session.
    pub(crate) fn start(&mut self) -> Result<Progress, TransportError> {
        self.advance()
    }

    /// Continues after a Retry packet, which changes the Initial keys (RFC 9001 §5.2): everything
    /// is retransmitted, with an unchanged ClientHello.
    ///
    /// # Errors
    /// Returns INTERNAL_ERROR if there are no Initial keys.
    pub(crate) fn restart(
        &mut self,
        destination_connection_id: &ConnectionId,
    ) -> Result<(), TransportError> {
        let keys = self.session.initial_keys(self.version, self.side, destination_connection_id)?;
        self.protection.install(SpaceId::Initial, keys);
        self.protection.discard_other_initial();
        self.initial_id = *destination_connection_id;
        self.stream_mut(SpaceId::Initial).retransmit_all_unacked();
        Ok(())
    }

    /// Returns the version of the keys.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// Lets a client decrypt Initial packets of `version`, to which the server may have switched.
    ///
    /// # Errors
    /// Returns INTERNAL_ERROR if there are no Initial keys.
    pub(crate) fn expect_version(&mut self, version: Version) -> Result<(), TransportError> {
        if !self.protection.has_other_initial() {
            let keys = self.session.initial_keys(version, self.side, &self.initial_id)?;
            self.protection.install_other_initial(keys);
        }
        Ok(())
    }

    /// Switches to the server's `version`, for which [`Self::expect_version`] was called.
    ///
    /// # Errors
    /// Returns INTERNAL_ERROR if the session cannot switch to this version.
    pub(crate) fn follow_version(&mut self, version: Version) -> Result<(), TransportError> {
        self.session.change_version(version)?;
        self.protection.exchange_initial();
        self.protection.discard_other_initial();
        self.version = version;
        Ok(())
    }

    /// Applies the version chosen by a server's session, if it differs from the client's first
    /// version. From then on packets of either version are decrypted, but only the new one is sent
    /// (RFC 9369 §4.1).
    fn adopt_version(&mut self) -> Result<(), TransportError> {
        let chosen = self.session.negotiated_version().unwrap_or(self.version);
        if chosen != self.version {
            let keys = self.session.initial_keys(chosen, self.side, &self.initial_id)?;
            self.protection.install_other_initial(keys);
            self.protection.exchange_initial();
            self.version = chosen;
            self.stream_mut(SpaceId::Initial).make_repeatable();
        }
        Ok(())
    }

    /// Processes a CRYPTO frame from a packet in `space`, and continues the TLS handshake as far as
    /// possible.
    ///
    /// # Errors
    /// Returns CRYPTO_ERROR from TLS; CRYPTO_BUFFER_EXCEEDED if the frame exceeds the buffer;
    /// PROTOCOL_VIOLATION for messages in the wrong space (RFC 9001 §4.1.3).
    pub(crate) fn receive_crypto(
        &mut self,
        space: SpaceId,
        crypto: &frame::Crypto<'_>,
    ) -> Result<Progress, TransportError> {
        self.take(space, crypto)
            .and_then(|next| self.advance_with(next))
            .map_err(|error| error.in_frame(CRYPTO_FRAME_TYPE))
    }

    /// Returns the bytes of the frame that the session receives next; other bytes are buffered.
    fn take<'a>(
        &mut self,
        space: SpaceId,
        crypto: &frame::Crypto<'a>,
    ) -> Result<&'a [u8], TransportError> {
        let end = crypto.offset.get().saturating_add(crypto.data.len() as u64);
        let receive_space = self.receive_space;
        let stream = self.stream_mut(space);
        if space < receive_space {
            // TLS has moved on to another space. Only retransmissions are expected in this one.
            if end > stream.received_end() {
                return Err(LEFTOVER);
            }
            if space == SpaceId::Initial && crypto.offset == VarInt::ZERO {
                // A client that repeats its ClientHello has not read the ServerHello. Some clients
                // ignore the packet that switches versions, but acknowledge it (see RFC 9002
                // §6.2.3).
                stream.repeat_acked();
            }
            return Ok(&[]);
        }
        if space == SpaceId::Application && end > MAX_POST_HANDSHAKE_BYTES {
            return Err(TransportError::rule(
                TransportErrorCode::CRYPTO_BUFFER_EXCEEDED,
                "too much TLS data after the handshake",
                "RFC 9000 §7.5",
            ));
        }
        let offset = crypto.offset.get();
        if space > receive_space {
            return stream.receive(offset, crypto.data).map(|()| &[][..]);
        }
        stream.receive_next(offset, crypto.data)
    }

    /// Moves bytes between the crypto streams and the session until there are none left to move.
    fn advance(&mut self) -> Result<Progress, TransportError> {
        self.advance_with(&[])
    }

    /// Advances like [`Self::advance`], with `next` preceding the buffered bytes.
    fn advance_with(&mut self, next: &[u8]) -> Result<Progress, TransportError> {
        let mut progress = Progress::default();
        self.collect(&mut progress);
        self.collect_early_keys();
        if !next.is_empty() {
            self.pass(next, &mut progress)?;
        }
        while let Some(bytes) = self.stream_mut(self.receive_space).read() {
            self.pass(&bytes, &mut progress)?;
        }
        Ok(progress)
    }

    /// Passes the peer's bytes to the session.
    fn pass(&mut self, bytes: &[u8], progress: &mut Progress) -> Result<(), TransportError> {
        self.session.receive(self.receive_space, bytes)?;
        self.adopt_version()?;
        self.collect(progress);
        self.collect_early_keys();
        self.follow_session(progress)
    }

    /// Installs the 0-RTT keys once the session provides them: on a client before it has received
    /// anything, on a server together with the ClientHello.
    fn collect_early_keys(&mut self) {
        if self.has_early_keys
            || self.protection.can_seal(SpaceId::Application) && self.side.is_client()
        {
            return;
        }
        if let Some(keys) = self.session.early_keys() {
            self.has_early_keys = true;
            self.protection.install_early(keys);
        }
    }

    /// Collects the messages that the session has to send, and any new keys.
    fn collect(&mut self, progress: &mut Progress) {
        loop {
            let mut written = Vec::new();
            let keys = self.session.produce(&mut written);
            let is_silent = written.is_empty();
            if !is_silent {
                self.stream_mut(self.send_space).write(written);
            }
            match keys {
                Some(NewKeys::Handshake(keys)) => {
                    self.protection.install(SpaceId::Handshake, keys);
                    self.send_space = SpaceId::Handshake;
                    progress.handshake_keys_ready = true;
                }
                Some(NewKeys::Application { keys, next }) => {
                    self.protection.install_application(keys, next);
                    if self.side.is_client() {
                        // 0-RTT keys are not used after this point (RFC 9001 §4.9.3).
                        self.protection.discard_early();
                    }
                    self.send_space = SpaceId::Application;
                    progress.application_keys_ready = true;
                }
                None if is_silent => return,
                None => {}
            }
        }
    }

    /// Switches to the space in which the session now expects messages.
    fn follow_session(&mut self, progress: &mut Progress) -> Result<(), TransportError> {
        if !self.is_complete && !self.session.is_handshaking() {
            self.is_complete = true;
            self.protection.on_handshake_complete();
            progress.complete = true;
        }
        let receive_space = if self.is_complete {
            SpaceId::Application
        } else {
            // The client's Handshake keys are available after the ServerHello, and the server's
            // after the ClientHello, which are the last messages of the Initial space.
            self.send_space.min(SpaceId::Handshake)
        };
        if receive_space == self.receive_space {
            return Ok(());
        }
        let stream = self.streams.get(self.receive_space).as_deref();
        let is_leftover = stream.is_some_and(CryptoStream::has_unread);
        self.receive_space = receive_space;
        if is_leftover { Err(LEFTOVER) } else { Ok(()) }
    }

    /// Discards the keys and messages of `space` (RFC 9001 §4.9). Nothing more is sent in that
    /// space.
    pub(crate) fn discard(&mut self, space: SpaceId) {
        self.protection.discard(space);
        *self.streams.get_mut(space) = None;
    }

    /// Compacts an idle connection: releases the memory that only a busy connection needs, and the
    /// keys that can be derived again.
    pub(crate) fn compact(&mut self) {
        self.protection.compact();
        self.session.compact();
        for space in SpaceId::ALL {
            self.streams.get_mut(space).as_deref_mut().map(CryptoStream::compact);
        }
        let application = self.streams.get_mut(SpaceId::Application);
        if let Some(written) = application.as_deref().and_then(CryptoStream::settled) {
            self.settled = written;
            *application = None;
        }
    }

    /// Enters the draining state: nothing is sent or received any more (RFC 9000 §10.2.2). Keys and
    /// messages are released immediately, so that the next connections reuse memory that is in the
    /// processor's cache.
    pub(crate) fn end(&mut self) {
        self.protection.end();
        self.streams = PerSpace::default();
    }

    /// Returns whether the handshake is complete (RFC 9001 §4.1.1).
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Returns whether `space` has TLS messages to send and the keys to do so.
    pub(crate) fn has_pending(&self, space: SpaceId) -> bool {
        self.protection.can_seal(space)
            && self.streams.get(space).as_deref().is_some_and(CryptoStream::has_pending)
    }

    /// Returns the peer's progress in `space`: the end offset of the TLS bytes received, and that
    /// of the bytes read in order.
    pub(crate) fn received(&self, space: SpaceId) -> (u64, u64) {
        let stream = self.streams.get(space).as_deref();
        stream.map_or((0, 0), |stream| (stream.received_end(), stream.read_offset()))
    }

    /// Returns the crypto stream of `space`.
    #[cfg(test)]
    pub(crate) fn stream(&self, space: SpaceId) -> &CryptoStream {
        self.streams.get(space).as_deref().expect("the stream was used")
    }

    /// Returns the crypto stream of `space`.
    pub(crate) fn stream_mut(&mut self, space: SpaceId) -> &mut CryptoStream {
        let settled = if space == SpaceId::Application { self.settled } else { 0 };
        let stream = self.streams.get_mut(space);
        stream.get_or_insert_with(|| Box::new(CryptoStream::after(settled)))
    }

    /// Returns the keys.
    pub(crate) fn protection(&self) -> &Protection {
        &self.protection
    }

    /// Returns the keys.
    pub(crate) fn protection_mut(&mut self) -> &mut Protection {
        &mut self.protection
    }

    /// Returns the TLS session, which provides the transport parameters, application protocol and
    /// certificates.
    pub(crate) fn session(&self) -> &dyn Session {
        &*self.session
    }

    /// Returns the TLS session.
    pub(crate) fn session_mut(&mut self) -> &mut dyn Session {
        &mut *self.session
    }
}

impl fmt::Debug for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handshake")
            .field("side", &self.side)
            .field("version", &self.version)
            .field("send_space", &self.send_space)
            .field("receive_space", &self.receive_space)
            .field("is_complete", &self.is_complete)
            .finish_non_exhaustive()
    }
}

const LEFTOVER: TransportError = TransportError::rule(
    TransportErrorCode::PROTOCOL_VIOLATION,
    "a handshake message spans a key change",
    "RFC 9001 §4.1.3",
);

#[cfg(test)]
#[path = "handshake_tests.rs"]
mod tests;
