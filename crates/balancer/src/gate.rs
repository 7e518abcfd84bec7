//! Address validation of new clients by the balancer (draft-ietf-quic-retry-offload).

use core::time::Duration;

use clearway_units::Timestamp;
use clearway_wire::header::{HeaderKind, ProtectedHeader, is_long};
use clearway_wire::{ConnectionId, LongPacketType, Version};

use crate::Pool;

/// Duration over which Initial packets are counted.
const WINDOW: Duration = Duration::from_secs(1);
/// Time after the gate has closed during which packets that may belong to handshakes in progress
/// are admitted ("transition mode").
const TRANSITION: Duration = Duration::from_millis(200);
/// Minimum size of a datagram with an Initial packet; smaller ones are discarded (RFC 9000 §14.1).
const MINIMUM_INITIAL_SIZE: usize = 1200;
/// Minimum length of a Destination Connection ID that a client chooses (RFC 9000 §7.2).
const MINIMUM_ID_LEN: usize = 8;

/// The fields of an Initial packet that matter for address validation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Initial<'a> {
    /// QUIC version 1 or 2.
    pub version: Version,
    /// The destination connection ID.
    pub destination: ConnectionId,
    /// The source connection ID.
    pub source: ConnectionId,
    /// The token, which is never empty when it is passed to a check.
    pub token: &'a [u8],
}

/// The result of checking a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Token {
    /// The client's address is validated.
    Valid,
    /// The token does not validate the client's address. It may be any token except one from a
    /// Retry.
    Unknown,
    /// The token is an invalid Retry token.
    InvalidRetry,
}

/// The action for a client's datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission<'a> {
    /// Forward the datagram to a server.
    Pass,
    /// Respond with a Retry.
    Retry(Initial<'a>),
    /// Respond with a Retry, and also forward the datagram to a server: the client may already be
    /// in a handshake, in which case it ignores the Retry.
    RetryAndPass(Initial<'a>),
    /// Drop the datagram.
    Drop,
}

/// Counters of a gate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GateStatistics {
    /// Number of Initial packets that were answered with a Retry.
    pub retries: u64,
    /// Number of valid tokens received.
    pub valid_tokens: u64,
    /// Number of invalid tokens received.
    pub invalid_tokens: u64,
    /// Number of Initial packets that were dropped because their Retry token was invalid, or
    /// because they violate QUIC version 1.
    pub dropped: u64,
    /// Whether the gate is closed, in which case clients need a token.
    pub is_closed: bool,
}

/// Admits all clients until too many new ones arrive, and then requires address validation.
///
/// The gate counts Initial packets of versions 1 and 2 without a valid token. It does not count
/// packets that are addressed to a server's encrypted connection ID, since their clients are in a
/// handshake. It closes when more packets than the limit arrive in a second. From then on, it
/// responds to each counted packet with a Retry, which is smaller and stateless, until an entire
/// second has passed with no more packets than the limit. All other packets pass. In the first 200
/// ms after the gate has closed, counted packets are also forwarded in addition to the Retry:
/// clients that have received a response from a server ignore a Retry, and their packets must reach
/// the server.
///
/// A ClientHello that needs two datagrams counts twice.
#[derive(Debug)]
pub struct Gate {
    /// The limit on new clients' Initial packets per second; without a limit, the gate is always
    /// open.
    limit: Option<u64>,
    /// The start of the current second.
    began: Timestamp,
    count: u64,
    closed_at: Option<Timestamp>,
    statistics: GateStatistics,
}

impl Gate {
    /// Creates a gate with a limit on new clients' Initial packets per second. Without a limit it
    /// stays open, and with a limit of 0 it stays closed.
    pub fn new(limit: Option<u64>) -> Self {
        let (began, statistics) = (Timestamp::ORIGIN, GateStatistics::default());
        let mut gate = Self { limit: None, began, count: 0, closed_at: None, statistics };
        gate.set_limit(limit);
        gate
    }

    /// Sets the limit on new clients' Initial packets per second.
    pub fn set_limit(&mut self, limit: Option<u64>) {
        self.limit = limit;
        match limit {
            None => self.open(),
            Some(0) => self.close(Timestamp::ORIGIN),
            Some(_) => {}
        }
    }

    /// Returns the gate's counters.
    pub fn statistics(&self) -> &GateStatistics {
        &self.statistics
    }

    /// Returns the action for a client's datagram. `check` validates a token; it is never called
    /// with an empty token.
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

    /// Opens the gate if it is time to do so. Must be called for each batch, to keep the
    /// [statistics](Self::statistics) up to date.
    pub fn advance(&mut self, now: Timestamp) {
        let passed = now.saturating_since(self.began);
        if passed < WINDOW {
            return;
        }
        // There was no Initial packet for an entire second.
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

/// Returns whether a datagram may begin a connection of version 1 or 2: it has at least 1,200
/// octets, and begins with an Initial packet whose Destination Connection ID has at least 8 octets.
/// Anyone can create such a datagram.
pub fn is_first_flight(datagram: &[u8]) -> bool {
    datagram.len() >= MINIMUM_INITIAL_SIZE
        && initial(datagram).is_some_and(|it| it.destination.len() >= MINIMUM_ID_LEN)
}

/// Returns the Initial packet of version 1 or 2 at the beginning of a datagram.
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
