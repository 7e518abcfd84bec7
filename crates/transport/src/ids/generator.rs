use core::fmt;
use std::sync::Arc;

use aws_lc_rs::hmac;
use clearway_units::Random;
use clearway_wire::{ConnectionId, ResetToken};

/// Generates the connection IDs of an endpoint. All of them have the same length, since short headers do not contain
/// it.
#[expect(clippy::len_without_is_empty, reason = "the length of an ID, which is never empty")]
pub trait ConnectionIdGenerator: fmt::Debug + Send + Sync {
    /// A fresh connection ID of [`len`](Self::len) bytes.
    fn generate(&self, random: &mut Random) -> ConnectionId;

    /// The length in bytes, 1 to 20.
    fn len(&self) -> usize;
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
/// Clones share one key: it takes more than a kilobyte, and every connection has it.
#[derive(Clone)]
pub struct ResetKey(Arc<hmac::Key>);

impl ResetKey {
    /// A key of these bytes.
    pub fn new(bytes: &[u8; 32]) -> Self {
        Self(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, bytes)))
    }

    /// A peer's token in a form that can be looked up: the time that a lookup takes reveals nothing about the token
    /// (RFC 9000 §10.3.1).
    pub(crate) fn conceal(&self, token: &ResetToken) -> [u8; ResetToken::LEN] {
        let tag = hmac::sign(&self.0, token.as_bytes());
        tag.as_ref().first_chunk::<{ ResetToken::LEN }>().copied().unwrap_or_default()
    }

    /// The token of `id`.
    pub fn token(&self, id: &ConnectionId) -> ResetToken {
        let tag = hmac::sign(&self.0, id.as_bytes());
        let token = tag.as_ref().first_chunk::<{ ResetToken::LEN }>().copied();
        ResetToken::new(token.unwrap_or_default())
    }
}

impl fmt::Debug for ResetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResetKey(..)")
    }
}
