//! Token lifetimes and the stateless reset key of a server.

use core::fmt;
use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};

use clearway_transport::ResetKey;

use super::ServerConfig;

/// Lifetimes of tokens, and the key of stateless resets.
#[derive(Clone, Debug)]
pub(crate) struct Secrets {
    pub(super) retry_token_lifetime: Duration,
    pub(super) address_token_lifetime: Duration,
    /// `None` to derive it.
    pub(crate) reset_key: Option<ResetKey>,
}

impl Default for Secrets {
    fn default() -> Self {
        Self {
            retry_token_lifetime: clearway_transport::ServerConfig::RETRY_TOKEN_LIFETIME,
            address_token_lifetime: clearway_transport::ServerConfig::NEW_TOKEN_LIFETIME,
            reset_key: None,
        }
    }
}

impl ServerConfig {
    /// Sets how long a client that got a Retry packet may take to answer it (RFC 9000 §8.1.2). The
    /// default is 15 seconds.
    pub fn retry_token_lifetime(mut self, lifetime: Duration) -> Self {
        self.secrets.retry_token_lifetime = lifetime;
        self
    }

    /// Sets how long after a connection its client can present the token that it got in a NEW_TOKEN
    /// frame, so that its address needs no validation (RFC 9000 §8.1.3). The default is 24 hours.
    pub fn address_token_lifetime(mut self, lifetime: Duration) -> Self {
        self.secrets.address_token_lifetime = lifetime;
        self
    }

    /// Sets the key from which stateless reset tokens are derived (RFC 9000 §10.3.2). A server that
    /// has lost its state, and is restarted with the same key, can then reset the connections that
    /// it had.
    ///
    /// By default the key is derived from [`ticket_keys`](Self::ticket_keys), if there are any, and
    /// is random otherwise. Two servers that clients can reach must not have the same key, unless
    /// all packets of a connection reach the same server: one would reset the connections of the
    /// other (§21.11). Servers that replace each other in a [hot restart](Self::hot_restart) need
    /// the same key.
    pub fn reset_key(mut self, key: &[u8; 32]) -> Self {
        self.secrets.reset_key = Some(ResetKey::new(key));
        self
    }
}

/// A value that only one server can use, shared by the clones of its configuration.
pub(crate) struct SingleUse<T>(Arc<Mutex<Option<T>>>);

impl<T> Clone for SingleUse<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> SingleUse<T> {
    pub(super) fn new(value: T) -> Self {
        Self(Arc::new(Mutex::new(Some(value))))
    }

    /// Takes the value; `None` if another server has it.
    pub(crate) fn take(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<T> fmt::Debug for SingleUse<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SingleUse").finish_non_exhaustive()
    }
}
