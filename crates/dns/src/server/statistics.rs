use core::sync::atomic::{AtomicU64, Ordering};

use crate::protocol::Protocol;

/// Statistics of a [`Server`](crate::Server), since it was created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ServerStatistics {
    /// Queries received, for each of [`Protocol::ALL`].
    pub queries: [u64; 4],
    /// Responses encoded.
    pub responses: u64,
    /// Queries rejected because too many were outstanding.
    pub overloads: u64,
    /// Queries that the client canceled.
    pub cancellations: u64,
    /// Queries that the handler did not answer in time.
    pub timeouts: u64,
    /// Queries whose handler panicked.
    pub panics: u64,
    /// Unsafe queries in early data that were refused.
    pub too_early: u64,
    /// Connections closed with DOQ_PROTOCOL_ERROR.
    pub violations: u64,
    /// Queries over UDP, TCP and HTTPS that are not DNS messages.
    pub malformed: u64,
}

/// A counter.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    queries: [Counter; 4],
    pub(super) responses: Counter,
    pub(super) overloads: Counter,
    pub(super) cancellations: Counter,
    pub(super) timeouts: Counter,
    pub(super) panics: Counter,
    pub(super) too_early: Counter,
    pub(super) violations: Counter,
    pub(super) malformed: Counter,
}

impl Counters {
    pub(super) fn query(&self, protocol: Protocol) {
        for (of, counter) in Protocol::ALL.into_iter().zip(&self.queries) {
            if of == protocol {
                counter.add();
            }
        }
    }

    pub(super) fn read(&self) -> ServerStatistics {
        ServerStatistics {
            queries: self.queries.each_ref().map(Counter::read),
            responses: self.responses.read(),
            overloads: self.overloads.read(),
            cancellations: self.cancellations.read(),
            timeouts: self.timeouts.read(),
            panics: self.panics.read(),
            too_early: self.too_early.read(),
            violations: self.violations.read(),
            malformed: self.malformed.read(),
        }
    }
}
