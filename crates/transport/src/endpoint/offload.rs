//! Retry packets sent by a load balancer in front of servers (draft-ietf-quic-retry-offload, shared
//! state).

use core::net::SocketAddr;

use clearway_units::{Random, Timestamp};
use clearway_wire::{ConnectionId, Version};

use super::ServerConfig;
use super::token::{SharedTokens, TokenError, TokenKeys, TokenKind};
use crate::handshake::retry;

/// The length of the connection IDs that Retry packets assign to clients.
const SOURCE_LEN: usize = 16;
/// The first three bits of an unroutable ID (draft-ietf-quic-load-balancers §3).
const UNROUTABLE: u8 = 0xe0;

/// Sends Retry packets and validates tokens on behalf of servers. It keeps no per-client state.
///
/// The servers need the same keys in their [`shared_tokens`](crate::ServerConfig::shared_tokens),
/// and must see the clients' real addresses, to which tokens are bound. A server then accepts such
/// a token like one of its own: it takes the original_destination_connection_id transport parameter
/// from the token, and retry_source_connection_id from the destination of the packet that carries
/// it. Tokens have the servers' format: the same fields as in the draft, but encoded differently.
#[derive(Debug)]
pub struct RetryOffload {
    tokens: SharedTokens,
    random: Random,
}

/// The result of validating the token in an Initial packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TokenValidity {
    /// The token is valid: the client receives packets sent to its address.
    Valid,
    /// The token is neither valid nor a Retry token, so a Retry may be sent.
    Unknown,
    /// The token is an invalid Retry token: a second Retry would be discarded (RFC 9000 §17.2.5.2).
    InvalidRetry,
}

impl RetryOffload {
    /// Creates an offload with the servers' keys and clock. Tokens have the default lifetimes:
    /// [`ServerConfig::RETRY_TOKEN_LIFETIME`], [`ServerConfig::NEW_TOKEN_LIFETIME`].
    pub fn new(tokens: SharedTokens, random: Random) -> Self {
        Self { tokens, random }
    }

    /// Validates a token that `client` sent in an Initial packet of `version`.
    ///
    /// The packet's Destination Connection ID does not matter, unlike in §4.2 of the draft: once a
    /// server has answered, the client repeats the token in packets to the ID chosen by the server
    /// (RFC 9000 §17.2.5.3, §7.2). A server that treats the packet as the first of a connection
    /// checks the ID itself.
    pub fn validity(&self, client: SocketAddr, version: Version, token: &[u8]) -> TokenValidity {
        let Some((keys, now)) = self.keys() else { return TokenValidity::Unknown };
        if TokenKind::is_of_retry(token) {
            let lifetime = ServerConfig::RETRY_TOKEN_LIFETIME;
            return match keys.open_retry_of(version, token, client, now, lifetime) {
                Ok(_) => TokenValidity::Valid,
                Err(_) => TokenValidity::InvalidRetry,
            };
        }
        let lifetime = ServerConfig::NEW_TOKEN_LIFETIME;
        match keys.open_new_token(version, token, client.ip(), now, lifetime) {
            Ok(()) => TokenValidity::Valid,
            Err(
                TokenError::NotOurs
                | TokenError::WrongAddress
                | TokenError::WrongVersion
                | TokenError::Expired,
            ) => TokenValidity::Unknown,
        }
    }

    /// Returns the Retry packet for `client`, whose Initial packet of `version` went from `source`
    /// to `destination`. The Retry packet is shorter than 256 bytes. `None` if the wall clock is
    /// unavailable or the version is not in [`Version::KNOWN`].
    pub fn retry(
        &mut self,
        client: SocketAddr,
        version: Version,
        destination: ConnectionId,
        source: ConnectionId,
    ) -> Option<Vec<u8>> {
        let (keys, now) = self.keys()?;
        let mut octets = self.random.array::<SOURCE_LEN>();
        octets[0] |= UNROUTABLE;
        let ours = ConnectionId::new(&octets).ok()?;
        let random = &mut self.random;
        let token = keys.seal_retry(version, client, destination, ours, now, random);
        let [unused] = random.array();
        retry::build(version, source, ours, destination, &token, unused)
    }

    fn keys(&self) -> Option<(TokenKeys, Timestamp)> {
        TokenKeys::shared(&self.tokens)
    }
}

#[cfg(test)]
#[path = "offload_tests.rs"]
mod tests;
