use core::fmt;
use std::sync::Arc;

use clearway_units::Random;
use clearway_wire::{ConnectionId, ResetToken};

use crate::crypto::sealing::hmac;

/// Generates the connection IDs of an endpoint. All of them have the same length, since short headers do not contain
/// it.
#[expect(clippy::len_without_is_empty, reason = "the length of an ID, which is never empty")]
pub trait ConnectionIdGenerator: fmt::Debug + Send + Sync {
    /// A fresh connection ID of [`len`](Self::len) bytes.
    fn generate(&self, random: &mut Random) -> ConnectionId;

    /// The length in bytes, 1 to 20. It may be 0 for an endpoint that has one connection at a time, and issues no further IDs
    /// for it (RFC 9000 §5.1.1).
    fn len(&self) -> usize;

    /// The number of the configuration that new IDs follow, which only grows. Once it has grown, IDs that were issued before
    /// can be replaced: see [`Connection::replace_connection_ids`](crate::Connection::replace_connection_ids). It may grow at
    /// any moment, also between a call of this and one of [`generate`](Self::generate).
    fn rotation(&self) -> u64 {
        0
    }
}

/// Connection IDs of eight random bytes.
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

/// The key from which stateless reset tokens are derived (RFC 9000 §10.3.2). Without it, the token of a connection ID
/// cannot be computed.
///
/// A token depends on the whole ID, with the bits of its first octet that name a configuration of QUIC-LB: IDs of
/// configurations with different numbers have no token in common. QUIC-LB recommends one key for each number, replaced when
/// another configuration gets the number, since two clients whose configurations have the same number may get the same ID, and
/// would know each other's token. One key is enough here: such IDs agree by accident only, as random ones do; of two with
/// nonces of seven octets, once in 2^56. And the key has to outlast configurations: a server that has lost its state computes
/// the token of an ID from the key and the ID alone.
///
/// Clones share the key: it takes more than a kilobyte, and every connection has it.
#[derive(Clone)]
pub struct ResetKey {
    /// The key of tokens, unless there is a source of keys.
    own: Arc<hmac::Key>,
    source: Option<Arc<dyn ResetKeySource>>,
}

/// The key of one connection, which stays the same when those of the endpoint are replaced.
pub(crate) struct FixedResetKey(Arc<hmac::Key>);

impl FixedResetKey {
    /// The token of `id`.
    pub(crate) fn token(&self, id: &ConnectionId) -> ResetToken {
        ResetToken::new(truncated(&self.0, id.as_bytes()))
    }
}

/// A source of keys that are replaced from time to time.
pub(crate) trait ResetKeySource: Send + Sync {
    /// The key in use and the previous one.
    fn keys(&self) -> (Arc<hmac::Key>, Option<Arc<hmac::Key>>);
}

impl ResetKey {
    /// A key of these bytes.
    pub fn new(bytes: &[u8; 32]) -> Self {
        Self { own: Arc::new(hmac::Key::new(hmac::HMAC_SHA256, bytes)), source: None }
    }

    /// The keys of `source`.
    pub(crate) fn following(source: Arc<dyn ResetKeySource>) -> Self {
        Self { own: source.keys().0, source: Some(source) }
    }

    /// The key in use and the previous one.
    fn keys(&self) -> (Arc<hmac::Key>, Option<Arc<hmac::Key>>) {
        self.source.as_ref().map_or_else(|| (self.own.clone(), None), |source| source.keys())
    }

    /// The key in use, which does not change any more: the token of a connection ID has to stay the
    /// same (RFC 9000 §19.15).
    pub(crate) fn fixed(&self) -> FixedResetKey {
        FixedResetKey(self.keys().0)
    }

    /// A peer's token in a form that can be looked up: the time that a lookup takes reveals nothing about the token
    /// (RFC 9000 §10.3.1).
    pub(crate) fn conceal(&self, token: &ResetToken) -> [u8; ResetToken::LEN] {
        truncated(&self.own, token.as_bytes())
    }

    /// The token of `id`, with the key in use.
    pub fn token(&self, id: &ConnectionId) -> ResetToken {
        ResetToken::new(truncated(&self.keys().0, id.as_bytes()))
    }

    /// The tokens of `id` with the key in use and the previous one.
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
