//! An upstream server, its health, and its statistics.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use hickory_proto::op::{Message, Query};
use hickory_proto::rr::{Name, RecordType};
use tokio::sync::watch;
use tokio::time::sleep;

use super::link::{Dialer, Link, LinkError};
use super::question::Question;
use crate::upstream::Upstream;

/// Number of consecutive failures after which a server is considered down. If it cannot be reached,
/// one failure is enough.
const FAILURES: u32 = 3;
/// Time until the first probe of a server that is down; doubles with each further probe.
const FIRST_PROBE: Duration = Duration::from_secs(1);
/// Maximum time between two probes.
const MAX_PROBE_INTERVAL: Duration = Duration::from_secs(30);

/// Statistics of an upstream server.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct UpstreamStatistics {
    /// The server's URL.
    pub url: String,
    /// Whether the server is in use. A server that fails is used again once it responds to a probe.
    pub is_up: bool,
    /// The reason for the most recent failure.
    pub last_error: Option<String>,
    /// Queries sent, including probes.
    pub queries: u64,
    /// Queries without a response.
    pub failures: u64,
    /// Probes sent while the server was down.
    pub probes: u64,
}

/// An upstream server.
#[derive(Debug)]
pub(crate) struct Backend {
    url: String,
    link: Link,
    is_down: AtomicBool,
    /// Notified when the server goes down or comes back.
    changes: watch::Sender<()>,
    last_error: Mutex<Option<LinkError>>,
    /// The number of failures since the last response.
    failing: AtomicU32,
    queries: AtomicU64,
    failures: AtomicU64,
    probes: AtomicU64,
}

impl Backend {
    pub(crate) fn new(upstream: Upstream, dialer: Arc<Dialer>, changes: watch::Sender<()>) -> Self {
        Self {
            url: upstream.to_string(),
            link: Link::new(upstream, dialer),
            is_down: AtomicBool::new(false),
            changes,
            last_error: Mutex::new(None),
            failing: AtomicU32::new(0),
            queries: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            probes: AtomicU64::new(0),
        }
    }

    pub(crate) fn is_down(&self) -> bool {
        self.is_down.load(Ordering::Relaxed)
    }

    /// Sends a question and returns the response. Records whether the server is healthy.
    pub(crate) async fn exchange(
        self: &Arc<Self>,
        question: &Question,
        limit: Duration,
    ) -> Result<Message, LinkError> {
        self.queries.fetch_add(1, Ordering::Relaxed);
        let outcome = self.link.exchange(question, limit).await;
        match &outcome {
            Ok(_) => self.succeeded(),
            Err(LinkError::Shortage(why)) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                tracing::debug!("no query can be sent to the upstream server {}: {why}", self.url);
            }
            Err(error) => self.failed(error, limit),
        }
        outcome
    }

    fn succeeded(&self) {
        // Most often there is nothing to write.
        if self.failing.load(Ordering::Relaxed) != 0 {
            self.failing.store(0, Ordering::Relaxed);
        }
        if self.is_down() && self.is_down.swap(false, Ordering::Relaxed) {
            tracing::info!("the upstream server {} responds again", self.url);
            self.changes.send_replace(());
        }
    }

    fn failed(self: &Arc<Self>, error: &LinkError, limit: Duration) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        let failing = self.failing.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        tracing::debug!("the upstream server {} did not respond: {error}", self.url);
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
        let is_down = failing >= FAILURES || matches!(error, LinkError::Unreachable(_));
        if is_down && !self.is_down.swap(true, Ordering::Relaxed) {
            tracing::warn!("the upstream server {} is down: {error}", self.url);
            self.changes.send_replace(());
            tokio::spawn(probe(Arc::downgrade(self), limit));
        }
    }

    pub(crate) fn statistics(&self) -> UpstreamStatistics {
        let last_error = self.last_error.lock().unwrap_or_else(PoisonError::into_inner);
        UpstreamStatistics {
            url: self.url.clone(),
            is_up: !self.is_down(),
            last_error: last_error.as_ref().map(LinkError::to_string),
            queries: self.queries.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            probes: self.probes.load(Ordering::Relaxed),
        }
    }
}

/// Sends probes to a server that is down, until it responds or is no longer used.
async fn probe(backend: Weak<Backend>, limit: Duration) {
    let question = probe_question();
    let mut interval = FIRST_PROBE;
    loop {
        sleep(interval).await;
        interval = interval.saturating_mul(2).min(MAX_PROBE_INTERVAL);
        let Some(backend) = backend.upgrade() else { return };
        if !backend.is_down() {
            return;
        }
        backend.probes.fetch_add(1, Ordering::Relaxed);
        if backend.exchange(&question, limit).await.is_ok() {
            return;
        }
    }
}

/// Returns the question of a probe, which every resolver can answer: the servers of the root zone.
fn probe_question() -> Question {
    let query = Query::query(Name::root(), RecordType::NS);
    Question::recursive(query)
}
