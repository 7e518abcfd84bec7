//! Retry packets that the balancer sends on behalf of its servers while there are too many new
//! clients.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clearway::Timestamp;
use clearway_balancer::{Admission, Gate, GateStatistics, Initial, Pool, Token};
use clearway_transport::{RetryOffload, TokenValidity};

/// Limit on new clients per second, shared by all threads.
#[derive(Debug)]
pub(super) struct SharedLimit(AtomicU64);

/// The value that means that there is no limit.
const NONE: u64 = u64::MAX;

impl SharedLimit {
    pub(super) fn new(limit: Option<u64>) -> Self {
        Self(AtomicU64::new(limit.unwrap_or(NONE)))
    }

    pub(super) fn set(&self, limit: Option<u64>) {
        self.0.store(limit.unwrap_or(NONE), Ordering::Relaxed);
    }

    fn get(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|limit| *limit != NONE)
    }
}

/// The action for a client's datagram.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// Forward the datagram to a server.
    Pass,
    /// Respond with this Retry packet.
    Retry(Vec<u8>),
    /// Respond with this Retry packet, and also forward the datagram.
    RetryAndPass(Vec<u8>),
    Drop,
}

/// The Retry handling of one thread, with its share of the limit: the kernel distributes clients
/// evenly among threads.
pub(super) struct Retries {
    gate: Gate,
    offload: RetryOffload,
    limit: Arc<SharedLimit>,
    /// The limit with which the gate was created.
    known: Option<u64>,
    threads: u64,
}

impl Retries {
    pub(super) fn new(limit: Arc<SharedLimit>, threads: usize, offload: RetryOffload) -> Self {
        let threads = u64::try_from(threads).unwrap_or(u64::MAX).max(1);
        Self { gate: Gate::new(None), offload, limit, known: None, threads }
    }

    /// Applies a new limit, and opens the gate when it is due.
    pub(super) fn turn(&mut self, now: Timestamp) {
        let limit = self.limit.get();
        if limit != self.known {
            self.known = limit;
            self.gate.set_limit(limit.map(|limit| limit.div_ceil(self.threads)));
        }
        self.gate.advance(now);
    }

    /// Decides how to handle a datagram from `client`.
    pub(super) fn answer(
        &mut self,
        now: Timestamp,
        pool: &Pool,
        client: SocketAddr,
        datagram: &[u8],
    ) -> Answer {
        let offload = &mut self.offload;
        let check = |initial: &Initial<'_>| {
            let Initial { version, token, .. } = *initial;
            match offload.validity(client, version, token) {
                TokenValidity::Valid => Token::Valid,
                TokenValidity::Unknown => Token::Unknown,
                TokenValidity::InvalidRetry => Token::InvalidRetry,
            }
        };
        let admission = self.gate.admit(now, pool, datagram, check);
        let mut retry = |initial: Initial<'_>| {
            let Initial { version, destination, source, .. } = initial;
            offload.retry(client, version, destination, source)
        };
        match admission {
            Admission::Pass => Answer::Pass,
            Admission::Drop => Answer::Drop,
            // If no Retry can be created, the datagram is passed on, and the servers protect
            // themselves.
            Admission::Retry(initial) => retry(initial).map_or(Answer::Pass, Answer::Retry),
            Admission::RetryAndPass(initial) => {
                retry(initial).map_or(Answer::Pass, Answer::RetryAndPass)
            }
        }
    }

    pub(super) fn statistics(&self) -> &GateStatistics {
        self.gate.statistics()
    }
}
