//! Limits of a proxy: tunnels, bandwidth, idle time, and unanswered datagrams.

mod bucket;
mod idle;
mod unanswered;

use core::fmt;
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use clearway_units::{Rate, Timestamp};

use crate::proxy_status::ProxyError;
pub use bucket::TokenBucket;
pub use idle::{IdleTimer, MIN_IDLE};
pub use unanswered::{
    UNANSWERED_BYTES, UNANSWERED_DATAGRAMS, UNANSWERED_INTERVAL, UnansweredGuard,
};

/// The limits of a proxy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum number of open tunnels of all clients.
    pub tunnels: usize,
    /// Maximum number of open tunnels of a client.
    pub tunnels_per_client: usize,
    /// Maximum combined rate of all clients, as the sum of both directions.
    pub bandwidth: Option<Rate>,
    /// Maximum rate of a client, as the sum of both directions.
    pub bandwidth_per_client: Option<Rate>,
    /// Burst size of the bandwidth limits, as a duration: the number of bytes that the rate
    /// transfers in this time.
    pub burst: Duration,
}

impl Default for Limits {
    /// 10,000 tunnels, 256 per client, bursts of 100 ms, and no limit on the bandwidth.
    fn default() -> Self {
        Self {
            tunnels: 10_000,
            tunnels_per_client: 256,
            bandwidth: None,
            bandwidth_per_client: None,
            burst: Duration::from_millis(100),
        }
    }
}

/// The limit that a client has reached.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum LimitReached {
    /// The number of tunnels of all clients.
    Tunnels,
    /// The number of tunnels of this client.
    TunnelsPerClient,
    /// The bandwidth of all clients.
    Bandwidth,
    /// The bandwidth of this client.
    BandwidthPerClient,
}

impl LimitReached {
    /// Returns the error type for the Proxy-Status field.
    pub const fn proxy_error(self) -> ProxyError {
        ProxyError::ConnectionLimitReached
    }
}

impl fmt::Display for LimitReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tunnels => "the proxy has too many tunnels; try again later",
            Self::TunnelsPerClient => "the client has too many tunnels; close some first",
            Self::Bandwidth => "the proxy's clients have used up its bandwidth",
            Self::BandwidthPerClient => "the client has used up its bandwidth",
        })
    }
}

impl core::error::Error for LimitReached {}

/// Number of clients up to which clients without tunnels are kept.
const KEPT: usize = 1024;

/// The open tunnels and the bandwidth use of all clients.
#[derive(Clone, Debug)]
pub struct Limiter {
    limits: Limits,
    clients: BTreeMap<Arc<str>, ClientState>,
    tunnels: usize,
    bucket: TokenBucket,
    /// The number of clients at which idle ones, with no tunnel and a full token bucket, are removed.
    sweep_at: usize,
}

#[derive(Clone, Debug)]
struct ClientState {
    tunnels: usize,
    bucket: TokenBucket,
}

impl Limiter {
    /// Creates a limiter without tunnels.
    pub fn new(limits: Limits, now: Timestamp) -> Self {
        let bucket = TokenBucket::new(limits.bandwidth, limits.burst, now);
        Self { limits, clients: BTreeMap::new(), tunnels: 0, bucket, sweep_at: KEPT }
    }

    /// Returns the number of open tunnels of all clients.
    pub const fn tunnels(&self) -> usize {
        self.tunnels
    }

    /// Counts a new tunnel of a client. Call [`Limiter::close`] at its end.
    ///
    /// # Errors
    /// The limit that is reached; nothing is counted then.
    pub fn open(&mut self, client: &Arc<str>, now: Timestamp) -> Result<(), LimitReached> {
        if self.tunnels >= self.limits.tunnels {
            return Err(LimitReached::Tunnels);
        }
        let held = self.clients.get(client).map_or(0, |state| state.tunnels);
        if held >= self.limits.tunnels_per_client {
            return Err(LimitReached::TunnelsPerClient);
        }
        if self.clients.len() >= self.sweep_at {
            self.sweep(now);
        }
        let Limits { bandwidth_per_client, burst, .. } = self.limits;
        let new = || ClientState {
            tunnels: 0,
            bucket: TokenBucket::new(bandwidth_per_client, burst, now),
        };
        let state = self.clients.entry(client.clone()).or_insert_with(new);
        state.tunnels = state.tunnels.saturating_add(1);
        self.tunnels = self.tunnels.saturating_add(1);
        Ok(())
    }

    /// Counts the end of a tunnel. The client's bandwidth use is kept, so that opening a new tunnel
    /// does not reset it.
    pub fn close(&mut self, client: &str) {
        if let Some(state) = self.clients.get_mut(client)
            && let Some(tunnels) = state.tunnels.checked_sub(1)
        {
            state.tunnels = tunnels;
            self.tunnels = self.tunnels.saturating_sub(1);
        }
    }

    /// Takes bandwidth for `bytes` of a client's tunnel. If this fails, a datagram must be dropped,
    /// and a stream must wait.
    ///
    /// # Errors
    /// The limit that is reached; nothing is taken then.
    pub fn take(&mut self, client: &str, bytes: u64, now: Timestamp) -> Result<(), LimitReached> {
        let state = self.clients.get_mut(client);
        if !self.bucket.has(bytes, now) {
            return Err(LimitReached::Bandwidth);
        }
        if state.is_some_and(|state| !state.bucket.take(bytes, now)) {
            return Err(LimitReached::BandwidthPerClient);
        }
        _ = self.bucket.take(bytes, now);
        Ok(())
    }

    /// Removes clients that have no state worth keeping.
    fn sweep(&mut self, now: Timestamp) {
        self.clients.retain(|_, state| state.tunnels > 0 || !state.bucket.is_full(now));
        self.sweep_at = self.clients.len().saturating_mul(2).max(KEPT);
    }
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
