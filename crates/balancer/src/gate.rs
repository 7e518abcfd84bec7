//! Which clients have to show that they receive what is sent to their address (draft-ietf-quic-retry-offload).

use core::time::Duration;

use clearway_units::Timestamp;
use clearway_wire::header::{HeaderKind, ProtectedHeader, is_long};
use clearway_wire::{ConnectionId, LongPacketType, Version};

use crate::Pool;

/// Over how long Initial packets are counted.
const WINDOW: Duration = Duration::from_secs(1);
/// How long clients that may be in their handshake are admitted after the gate has closed ("transition mode").
const TRANSITION: Duration = Duration::from_millis(200);
/// RFC 9000 §14.1: a smaller datagram with an Initial packet is discarded.
const MINIMUM_INITIAL_SIZE: usize = 1200;
/// RFC 9000 §7.2: of the connection ID that a client chooses.
const MINIMUM_ID_LEN: usize = 8;

/// The fields of an Initial packet that count here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Initial<'a> {
    /// Version 1 or 2.
    pub version: Version,
    /// The destination connection ID.
    pub destination: ConnectionId,
    /// The source connection ID.
    pub source: ConnectionId,
    /// The token; not empty where it is to be checked.
    pub token: &'a [u8],
}

/// What a token shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Token {
    /// The client receives what is sent to its address.
    Valid,
    /// Nothing, and it may be of anything but a Retry.
    Unknown,
    /// Nothing, and it is of a Retry.
    InvalidRetry,
}

/// What becomes of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission<'a> {
    /// It goes to a server.
    Pass,
    /// It is answered with a Retry.
    Retry(Initial<'a>),
    /// It is answered with a Retry, and goes to a server: its client may be in its handshake, and then takes no Retry.
    RetryAndPass(Initial<'a>),
    /// It is dropped.
    Drop,
}

/// What a gate has done so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GateStatistics {
    /// Initial packets that were answered with a Retry.
    pub retries: u64,
    /// Tokens that were valid.
    pub valid_tokens: u64,
    /// Tokens that were not.
    pub invalid_tokens: u64,
    /// Initial packets that were dropped: with the token of a Retry that is not valid, or not permitted by version 1.
    pub dropped: u64,
    /// Whether clients need a token.
    pub is_closed: bool,
}

/// Lets clients in, all of them until there are too many that are new.
///
/// Initial packets of versions 1 and 2 without a valid token are counted, except those to connection IDs that servers have
/// encrypted: their clients are in their handshake. With more of them in a second than permitted the gate closes. Then each
/// is answered with a Retry, which is smaller and without state, until a whole second has had no more than permitted.
/// Everything else passes. So do all clients in the first 200 ms after the gate has closed, besides the Retry: those that have
/// had an answer from a server take no Retry and need what they send to arrive.
///
/// A ClientHello that takes two datagrams counts twice.
#[derive(Debug)]
pub struct Gate {
    /// How many are permitted in a second; without it the gate is always open.
    limit: Option<u64>,
    /// When the second began in which is counted.
    began: Timestamp,
    count: u64,
    closed_at: Option<Timestamp>,
    statistics: GateStatistics,
}

impl Gate {
    /// A gate that permits so many Initial packets of new clients in a second. Without a limit it stays open, and with one of 0
    /// it stays closed.
    pub fn new(limit: Option<u64>) -> Self {
        let (began, statistics) = (Timestamp::ORIGIN, GateStatistics::default());
        let mut gate = Self { limit: None, began, count: 0, closed_at: None, statistics };
        gate.set_limit(limit);
        gate
    }

    /// From now on so many are permitted in a second.
    pub fn set_limit(&mut self, limit: Option<u64>) {
        self.limit = limit;
        match limit {
            None => self.open(),
            Some(0) => self.close(Timestamp::ORIGIN),
            Some(_) => {}
        }
    }

    /// What it has done.
    pub fn statistics(&self) -> &GateStatistics {
        &self.statistics
    }

    /// Decides on a client's datagram. `check` says what the token shows, which is not empty.
    pub fn admit<'a>(
        &mut self,
        now: Timestamp,
        pool: &Pool,
        datagram: &'a [u8],
        check: impl FnOnce(&Initial<'a>) -> Token,
    ) -> Admission<'a> {
        let is_candidate = self.limit.is_some() && datagram.first().is_some_and(|it| is_long(*it));
        let Some(initial) = is_candidate.then(|| initial(datagram)).flatten() else {
            return Admission::Pass;
        };
        self.advance(now);
        let token = match initial.token {
            [] => None,
            _ => Some(check(&initial)),
        };
        let tokens = match token {
            Some(Token::Valid) => {
                self.statistics.valid_tokens = self.statistics.valid_tokens.saturating_add(1);
                return Admission::Pass;
            }
            Some(_) => 1,
            None => 0,
        };
        self.statistics.invalid_tokens = self.statistics.invalid_tokens.saturating_add(tokens);
        if !pool.is_encrypted_id(initial.destination.as_bytes()) {
            self.count(now);
        }
        let Some(closed_at) = self.closed_at else { return Admission::Pass };
        let is_malformed =
            datagram.len() < MINIMUM_INITIAL_SIZE || initial.destination.len() < MINIMUM_ID_LEN;
        if is_malformed || token == Some(Token::InvalidRetry) {
            self.statistics.dropped = self.statistics.dropped.saturating_add(1);
            return Admission::Drop;
        }
        self.statistics.retries = self.statistics.retries.saturating_add(1);
        match now < closed_at + TRANSITION {
            true => Admission::RetryAndPass(initial),
            false => Admission::Retry(initial),
        }
    }

    /// Opens the gate if it is time to. Called with each batch, so that the [statistics](Self::statistics) are up to date.
    pub fn advance(&mut self, now: Timestamp) {
        let passed = now.saturating_since(self.began);
        if passed < WINDOW {
            return;
        }
        // A second without any Initial packet has had none.
        let is_quiet = passed >= WINDOW.saturating_mul(2);
        let is_over = |limit| limit != 0 && (is_quiet || self.count <= limit);
        if self.limit.is_none_or(is_over) {
            self.open();
        }
        self.began = now;
        self.count = 0;
    }

    fn count(&mut self, now: Timestamp) {
        self.count = self.count.saturating_add(1);
        if self.limit.is_some_and(|limit| self.count > limit) {
            self.close(now);
        }
    }

    fn close(&mut self, now: Timestamp) {
        self.closed_at.get_or_insert(now);
        self.statistics.is_closed = true;
    }

    fn open(&mut self) {
        self.closed_at = None;
        self.statistics.is_closed = false;
    }
}

/// Whether a datagram may begin a connection of version 1 or 2: a client's first Initial packet comes in at least 1,200 octets, and
/// to a connection ID of at least 8. Anyone can make such a datagram.
pub fn is_first_flight(datagram: &[u8]) -> bool {
    datagram.len() >= MINIMUM_INITIAL_SIZE
        && initial(datagram).is_some_and(|it| it.destination.len() >= MINIMUM_ID_LEN)
}

/// The Initial packet of version 1 or 2 that a datagram begins with.
fn initial(datagram: &[u8]) -> Option<Initial<'_>> {
    match ProtectedHeader::decode(datagram, 0).ok()?.kind {
        HeaderKind::Long {
            packet_type: LongPacketType::Initial,
            version,
            destination,
            source,
            token,
            ..
        } => Some(Initial { version, destination, source, token }),
        _ => None,
    }
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
