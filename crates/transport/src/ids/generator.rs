use core::fmt;
use std::sync::Arc;

use clearway_units::Random;
use clearway_wire::{ConnectionId, ResetToken};

use crate::crypto::sealing::hmac;

/// Generates an endpoint's connection IDs. All of them have the same length, since short headers do
/// not encode it.
#[expect(clippy::len_without_is_empty, reason = "the length of an ID, which is never empty")]
pub trait ConnectionIdGenerator: fmt::Debug + Send + Sync {
    /// Returns a fresh connection ID of [`len`](Self::len) bytes.
    fn generate(&self, random: &mut Random) -> ConnectionId;

    /// Returns the length in bytes, 1 to 20. It may be 0 for an endpoint that has one connection at
    /// a time and issues no more IDs for it (RFC 9000 §5.1.1).
    fn len(&self) -> usize;

    /// Returns the configuration number of new IDs, which never decreases. Once it has increased,
    /// IDs issued earlier can be replaced: see
    /// [`Connection::replace_connection_ids`](crate::Connection::replace_connection_ids). It may
    /// increase at any time, even between a call to this method and a call to
    /// [`generate`](Self::generate).
    fn rotation(&self) -> u64 {
        0
    }
}

/// Generates connection IDs of eight random bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct RandomIds;

impl RandomIds {
    const LEN: usize = 8;
}

impl ConnectionIdGenerator for RandomIds {
    fn generate(&self, random: &mut Random) -> ConnectionId {
        ConnectionId::new(&random.array::<{ Self::LEN }>()).unwrap_or_default()
    }

    fn len(&self) -> usize {
        Self::LEN
    }
}

/// The key from which stateless reset tokens are derived (RFC 9000 §10.3.2). Without the key, the
/// token of a connection ID cannot be computed.
///
/// A token depends on the entire ID, including the bits of its first octet that encode the QUIC-LB
/// configuration: IDs of configurations with different numbers never share a token. QUIC-LB
/// recommends one key per number, replaced when the number is reused for another configuration,
/// because two clients whose configurations have the same number may get the same ID, and could
/// then compute each other's token. One key is enough here, because such IDs collide only by
/// chance, as random IDs do: once in 2^56 with nonces of seven octets. The key also has to outlast
/// configurations: a server that has lost its state computes the token of an ID from the key and
/// the ID alone.
///
/// Clones share the key, because it takes more than a kilobyte and every connection has one.
#[derive(Clone)]
pub struct ResetKey {
    /// The token key, used if there is no source of keys.
    own: Arc<hmac::Key>,
    source: Option<Arc<dyn ResetKeySource>>,
}

/// The key of one connection, which does not change when the endpoint's keys are replaced.
pub(crate) struct FixedResetKey(Arc<hmac::Key>);

impl FixedResetKey {
    /// Returns the token of `id`.
    pub(crate) fn token(&self, id: &ConnectionId) -> ResetToken {
        ResetToken::new(truncated(&self.0, id.as_bytes()))
    }
}

/// A source of keys that are replaced periodically.
pub(crate) trait ResetKeySource: Send + Sync {
    /// Returns the current key and the previous one.
    fn keys(&self) -> (Arc<hmac::Key>, Option<Arc<hmac::Key>>);
}

impl ResetKey {
    /// Creates a key from these bytes.
    pub fn new(bytes: &[u8; 32]) -> Self {
        Self { own: Arc::new(hmac::Key::new(hmac::HMAC_SHA256, bytes)), source: None }
    }

    /// Uses the keys of `source`.
    pub(crate) fn following(source: Arc<dyn ResetKeySource>) -> Self {
        Self { own: source.keys().0, source: Some(source) }
    }

    /// Returns the current key and the previous one.
    fn keys(&self) -> (Arc<hmac::Key>, Option<Arc<hmac::Key>>) {
        self.source.as_ref().map_or_else(|| (self.own.clone(), None), |source| source.keys())
    }

    /// Returns the current key for permanent use: the token of a connection ID must not change (RFC
    /// 9000 §19.15).
    pub(crate) fn fixed(&self) -> FixedResetKey {
        FixedResetKey(self.keys().0)
    }

    /// Converts a peer's token to a form that can be looked up without leaking the token through
    /// timing (RFC 9000 §10.3.1).
    pub(crate) fn conceal(&self, token: &ResetToken) -> [u8; ResetToken::LEN] {
        truncated(&self.own, token.as_bytes())
    }

    /// Returns the token of `id` under the current key.
    pub fn token(&self, id: &ConnectionId) -> ResetToken {
        ResetToken::new(truncated(&self.keys().0, id.as_bytes()))
    }

    /// Returns the tokens of `id` under the current key and the previous one.
    pub(crate) fn tokens(&self, id: &ConnectionId) -> (ResetToken, Option<ResetToken>) {
        let (current, previous) = self.keys();
        let token = |key: Arc<hmac::Key>| ResetToken::new(truncated(&key, id.as_bytes()));
        (token(current), previous.map(token))
    }
}

fn truncated(key: &hmac::Key, message: &[u8]) -> [u8; ResetToken::LEN] {
    let tag = hmac::sign(key, message);
    tag.as_ref().first_chunk::<{ ResetToken::LEN }>().copied().unwrap_or_default()
}

impl fmt::Debug for FixedResetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FixedResetKey(..)")
    }
}

impl fmt::Debug for ResetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResetKey(..)")
    }
}
