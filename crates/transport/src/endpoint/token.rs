//! Address validation tokens (RFC 9000 §8.1.3, §8.1.4). They are encrypted and authenticated, and
//! bound to an address, a time and a version (RFC 9369 §5). Their keys, and the clock that
//! determines their age, belong to the endpoint or are shared with other endpoints.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::sync::Arc;

use clearway_units::{Random, Timestamp};
use clearway_wire::{ConnectionId, Reader, Version};
use rustls::time_provider::TimeProvider;

use crate::crypto::sealing::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use crate::handshake::TicketKeys;

/// The keys and clock with which endpoints accept each other's address validation tokens (RFC 9000
/// §8.1.3). The endpoints may be in different processes, or one may replace another.
///
/// Otherwise tokens do not differ: a NEW_TOKEN token is bound to the client's IP address, and a
/// Retry token to its address and port and to the connection IDs. A token can be used more than
/// once in its lifetime, and at each endpoint.
#[derive(Clone, Debug)]
pub struct SharedTokens {
    /// The keys, which may be those of the session tickets too.
    pub keys: TicketKeys,
    /// The clock that determines the age of tokens, in whole seconds. The clocks of the endpoints
    /// may differ by a minute: a token from more than a minute in the future is invalid. If a clock
    /// is unavailable, the endpoint uses its own keys.
    pub clock: Arc<dyn TimeProvider>,
}

impl SharedTokens {
    /// Returns the clock's time, counted from the Unix epoch.
    fn now(&self) -> Option<Timestamp> {
        let now = self.clock.current_time()?;
        Some(Timestamp::from_origin(Duration::from_secs(now.as_secs())))
    }
}

/// The token keys: the first key encrypts tokens, and all keys decrypt them.
#[derive(Clone)]
pub(super) struct TokenKeys([Option<Arc<LessSafeKey>>; 2]);

/// The reason that a token is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TokenError {
    /// The token was not sealed with these keys, is of the other kind (Retry or NEW_TOKEN), or was
    /// modified.
    NotOurs,
    /// The token was issued for another address.
    WrongAddress,
    /// The token was issued for another version.
    WrongVersion,
    /// The token is too old, or was issued in the future.
    Expired,
}

const NONCE_LEN: usize = 12;
/// The maximum difference between the clocks of endpoints with shared keys; TLS tolerates the same
/// difference in the age of a ticket. The clock of an endpoint with its own keys never goes
/// backward.
const CLOCK_DIFFERENCE: Duration = Duration::from_secs(60);

/// The purpose of a token and its version: the first byte, unencrypted but authenticated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TokenKind(u8);

impl TokenKind {
    const RETRY: Self = Self(0xb1);
    const NEW_TOKEN: Self = Self(0x4e);

    /// Returns the first byte of this kind of token for `version`. It is unique for each kind and
    /// version.
    const fn of(self, version: Version) -> Self {
        match version {
            Version::V2 => Self(self.0.wrapping_add(1)),
            _ => self,
        }
    }

    /// Returns whether a token looks like a Retry token, of any version.
    pub(super) fn is_of_retry(token: &[u8]) -> bool {
        let of = |version: &Version| token.first() == Some(&Self::RETRY.of(*version).0);
        Version::KNOWN.iter().any(of)
    }
}

impl TokenKeys {
    /// Generates a fresh key.
    pub(super) fn generate(random: &mut Random) -> Self {
        let key = UnboundKey::new(&AES_256_GCM, &random.array::<32>());
        Self([key.ok().map(LessSafeKey::new).map(Arc::new), None])
    }

    /// Returns the current keys and the time to use with them: those of `shared`, or the endpoint's
    /// `own` keys with its own time.
    pub(super) fn choose(
        shared: Option<&SharedTokens>,
        own: &Self,
        now: Timestamp,
    ) -> (Self, Timestamp) {
        shared.and_then(Self::shared).unwrap_or_else(|| (own.clone(), now))
    }

    /// Returns the current shared keys and the time of their clock; `None` if the clock is
    /// unavailable.
    pub(super) fn shared(shared: &SharedTokens) -> Option<(Self, Timestamp)> {
        Some((Self(shared.keys.of_tokens()), shared.now()?))
    }

    /// Seals a token for a Retry packet of `version` to `client`, which first sent to
    /// `original_destination` and has to use `retry_source` next.
    pub(super) fn seal_retry(
        &self,
        version: Version,
        client: SocketAddr,
        original_destination: ConnectionId,
        retry_source: ConnectionId,
        now: Timestamp,
        random: &mut Random,
    ) -> Vec<u8> {
        let mut plain = Vec::with_capacity(64);
        plain.extend_from_slice(&now.as_nanos().to_be_bytes());
        plain.extend_from_slice(&client.port().to_be_bytes());
        push_prefixed(&mut plain, &address_bytes(client.ip()));
        push_prefixed(&mut plain, original_destination.as_bytes());
        push_prefixed(&mut plain, retry_source.as_bytes());
        self.seal(TokenKind::RETRY.of(version), plain, random)
    }

    /// Returns the original Destination Connection ID, if `token` comes from a Retry of `version`
    /// that was sent to `client`.
    pub(super) fn open_retry(
        &self,
        version: Version,
        token: &[u8],
        client: SocketAddr,
        retry_source: ConnectionId,
        now: Timestamp,
        lifetime: Duration,
    ) -> Result<ConnectionId, TokenError> {
        let (original, source) = self.open_retry_of(version, token, client, now, lifetime)?;
        if source == retry_source { Ok(original) } else { Err(TokenError::WrongAddress) }
    }

    /// Returns the original Destination Connection ID and the one that the client has to use next,
    /// if `token` comes from a Retry of `version` that was sent to `client`.
    pub(super) fn open_retry_of(
        &self,
        version: Version,
        token: &[u8],
        client: SocketAddr,
        now: Timestamp,
        lifetime: Duration,
    ) -> Result<(ConnectionId, ConnectionId), TokenError> {
        let plain = self.open(TokenKind::RETRY, version, token)?;
        let mut reader = Reader::new(&plain);
        let issued = take_time(&mut reader)?;
        let port = reader.array("port").map(u16::from_be_bytes).map_err(|_| TokenError::NotOurs)?;
        let address = take_prefixed(&mut reader)?;
        let original = take_prefixed(&mut reader)?;
        let source = take_prefixed(&mut reader)?;
        if address != address_bytes(client.ip()) || port != client.port() {
            return Err(TokenError::WrongAddress);
        }
        check_age(issued, now, lifetime)?;
        let id = |octets| ConnectionId::new(octets).map_err(|_| TokenError::NotOurs);
        Ok((id(original)?, id(source)?))
    }

    /// Seals a token for NEW_TOKEN: it validates the address `client` on a later connection of
    /// `version`.
    pub(super) fn seal_new_token(
        &self,
        version: Version,
        client: IpAddr,
        now: Timestamp,
        random: &mut Random,
    ) -> Vec<u8> {
        let mut plain = Vec::with_capacity(32);
        plain.extend_from_slice(&now.as_nanos().to_be_bytes());
        push_prefixed(&mut plain, &address_bytes(client));
        self.seal(TokenKind::NEW_TOKEN.of(version), plain, random)
    }

    /// Checks whether `token` validates the address `client` on a connection of `version`.
    pub(super) fn open_new_token(
        &self,
        version: Version,
        token: &[u8],
        client: IpAddr,
        now: Timestamp,
        lifetime: Duration,
    ) -> Result<(), TokenError> {
        let plain = self.open(TokenKind::NEW_TOKEN, version, token)?;
        let mut reader = Reader::new(&plain);
        let issued = take_time(&mut reader)?;
        if take_prefixed(&mut reader)? != address_bytes(client) {
            return Err(TokenError::WrongAddress);
        }
        check_age(issued, now, lifetime)
    }

    fn seal(&self, kind: TokenKind, mut plain: Vec<u8>, random: &mut Random) -> Vec<u8> {
        let [Some(key), _] = &self.0 else { return Vec::new() };
        let nonce = random.array::<NONCE_LEN>();
        let sealed = key.seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from([kind.0]),
            &mut plain,
        );
        if sealed.is_err() {
            return Vec::new();
        }
        let mut token = vec![kind.0];
        token.extend_from_slice(&nonce);
        token.append(&mut plain);
        token
    }

    fn open(&self, kind: TokenKind, version: Version, token: &[u8]) -> Result<Vec<u8>, TokenError> {
        let mut reader = Reader::new(token);
        let made = TokenKind(reader.u8("kind").map_err(|_| TokenError::NotOurs)?);
        if made != kind.of(version) && Version::KNOWN.iter().all(|other| made != kind.of(*other)) {
            return Err(TokenError::NotOurs);
        }
        let nonce = reader.array::<NONCE_LEN>("nonce").map_err(|_| TokenError::NotOurs)?;
        let sealed = reader.take_rest();
        let open = |key: &Arc<LessSafeKey>| {
            let (mut sealed, nonce) = (sealed.to_vec(), Nonce::assume_unique_for_key(nonce));
            let plain = key.open_in_place(nonce, Aad::from([made.0]), &mut sealed);
            plain.map(|plain| plain.to_vec()).ok()
        };
        let plain = self.0.iter().flatten().find_map(open).ok_or(TokenError::NotOurs)?;
        if made == kind.of(version) { Ok(plain) } else { Err(TokenError::WrongVersion) }
    }
}

impl core::fmt::Debug for TokenKeys {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("TokenKeys(..)")
    }
}

fn address_bytes(address: IpAddr) -> Vec<u8> {
    match address.to_canonical() {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Appends `bytes` with a one-byte length prefix; all parts are shorter than 256 bytes.
fn push_prefixed(plain: &mut Vec<u8>, bytes: &[u8]) {
    plain.push(bytes.len() as u8);
    plain.extend_from_slice(bytes);
}

fn take_prefixed<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], TokenError> {
    let length = reader.u8("length").map_err(|_| TokenError::NotOurs)?;
    reader.bytes(usize::from(length), "bytes").map_err(|_| TokenError::NotOurs)
}

fn take_time(reader: &mut Reader<'_>) -> Result<Timestamp, TokenError> {
    let nanoseconds = reader.array("time").map(u64::from_be_bytes);
    nanoseconds.map(Timestamp::from_nanos).map_err(|_| TokenError::NotOurs)
}

fn check_age(issued: Timestamp, now: Timestamp, lifetime: Duration) -> Result<(), TokenError> {
    let is_valid = match now.checked_since(issued) {
        Some(age) => age <= lifetime,
        None => issued.saturating_since(now) <= CLOCK_DIFFERENCE,
    };
    if is_valid { Ok(()) } else { Err(TokenError::Expired) }
}

#[cfg(fuzzing)]
pub(super) mod fuzzing;

#[cfg(test)]
#[path = "token_tests.rs"]
mod tests;
