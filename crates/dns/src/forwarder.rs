mod backend;
mod cache;
mod in_flight;
mod link;
mod question;

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use clearway::ClientConfig;
use clearway::rustls::crypto::aws_lc_rs::default_provider;
use clearway::rustls::{self, RootCertStore};
use hickory_proto::op::{Message, OpCode, ResponseCode};
use hickory_proto::rr::{DNSClass, RecordType};
use tokio::sync::watch;

use crate::extended_error::{ErrorInfo, ExtendedError};
use crate::handler::{Handler, Request};
use crate::reply::Answer;
use crate::stored::Stored;
use crate::upstream::Upstream;
use backend::Backend;
pub use backend::UpstreamStatistics;
use cache::{Cache, lifetime};
use in_flight::InFlight;
use link::{Dialer, LinkError};
use question::Key;
pub(crate) use question::Question;

/// The configuration of a [`Forwarder`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ForwarderConfig {
    /// The configuration of QUIC connections to upstream servers. The application protocols are
    /// replaced.
    pub quic: ClientConfig,
    /// The configuration of TLS connections to upstream servers.
    pub tls: Arc<rustls::ClientConfig>,
    /// Maximum number of responses in the cache; 0 disables it. The default is 100,000.
    pub cache_entries: u64,
    /// Maximum size of the cache in bytes. The default is 64 MiB.
    pub cache_bytes: u64,
    /// Time to wait for an upstream server before trying the next one. The default is 2 s.
    pub attempt_time: Duration,
    /// Time limit of a query. The default is 5 s.
    pub query_time: Duration,
    /// Maximum number of sockets for outstanding queries to UDP upstream servers. Each query has a
    /// socket of its own; queries beyond the limit fail. The default is 512, half of the usual limit
    /// on a process's file descriptors.
    pub max_udp_sockets: usize,
}

impl ForwarderConfig {
    /// Trusts the platform's root certificates.
    ///
    /// # Errors
    /// Fails if the platform has no root certificates.
    pub fn with_native_roots() -> Result<Self, ForwarderError> {
        let loaded = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(loaded.certs);
        match roots.is_empty() {
            true => Err(ForwarderError::NoNativeRoots),
            false => Self::with_roots(roots),
        }
    }

    /// Trusts these root certificates.
    ///
    /// # Errors
    /// Fails if TLS cannot be configured.
    pub fn with_roots(roots: RootCertStore) -> Result<Self, ForwarderError> {
        let tls = rustls::ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(ForwarderError::Tls)?
            .with_root_certificates(roots.clone())
            .with_no_client_auth();
        Ok(Self {
            quic: ClientConfig::with_roots(roots),
            tls: Arc::new(tls),
            cache_entries: 100_000,
            cache_bytes: 64 << 20,
            attempt_time: Duration::from_secs(2),
            query_time: Duration::from_secs(5),
            max_udp_sockets: 512,
        })
    }
}

/// The reason why a forwarder cannot be created.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ForwarderError {
    /// There are no upstream servers.
    NoUpstream,
    /// The platform has no root certificates.
    NoNativeRoots,
    /// TLS cannot be configured.
    Tls(rustls::Error),
}

impl fmt::Display for ForwarderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoUpstream => f.write_str("a forwarder needs at least one upstream server"),
            Self::NoNativeRoots => f.write_str("the platform has no root certificates"),
            Self::Tls(error) => write!(f, "cannot configure TLS: {error}"),
        }
    }
}

impl core::error::Error for ForwarderError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Tls(error) => error.source(),
            Self::NoUpstream | Self::NoNativeRoots => None,
        }
    }
}

/// Statistics of a [`Forwarder`], since it was created.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ForwarderStatistics {
    /// Queries answered from the cache.
    pub hits: u64,
    /// Queries not answered from the cache.
    pub misses: u64,
    /// Cache misses that waited for the response to an identical query.
    pub coalesced: u64,
    /// Queries answered with SERVFAIL because no upstream server responded.
    pub failures: u64,
    /// Queries rejected without an upstream server, such as zone transfers.
    pub rejected: u64,
    /// Responses in the cache (approximate).
    pub cache_entries: u64,
    /// The size of the cache in bytes (approximate).
    pub cache_bytes: u64,
    /// The upstream servers, in order of preference.
    pub upstreams: Vec<UpstreamStatistics>,
}

/// A handler that forwards queries to upstream servers, and caches their responses.
///
/// A query goes to the first upstream server that is up; if that does not respond, to the next one.
/// A response such as SERVFAIL is passed on. If no server responds, the client gets SERVFAIL with
/// an Extended DNS Error. A server that fails is probed in the background until it responds.
///
/// Only the question and the bits RD, CD and DO are forwarded; the client's EDNS options, such as
/// its subnet or cookie, are not. Zone transfers, and opcodes other than QUERY, are answered with
/// NOTIMP. Responses are cached for their smallest TTL, at most a day, and negative ones (RFC 2308)
/// at most three hours.
///
/// Clones share the cache and the connections.
#[derive(Clone, Debug)]
pub struct Forwarder {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    backends: Vec<Arc<Backend>>,
    /// Notified when an upstream server goes down or comes back.
    changes: watch::Sender<()>,
    cache: Cache,
    in_flight: InFlight<Result<Arc<Stored>, LinkError>>,
    attempt_time: Duration,
    query_time: Duration,
    hits: AtomicU64,
    misses: AtomicU64,
    coalesced: AtomicU64,
    failures: AtomicU64,
    rejected: AtomicU64,
}

impl Forwarder {
    /// Creates a forwarder to upstream servers in order of preference. Connections are established
    /// on demand.
    ///
    /// # Errors
    /// Fails if there are no upstream servers.
    pub fn new(
        upstreams: impl IntoIterator<Item = Upstream>,
        config: ForwarderConfig,
    ) -> Result<Self, ForwarderError> {
        let dialer = Arc::new(Dialer::new(config.quic, config.tls, config.max_udp_sockets));
        let changes = watch::Sender::new(());
        let backend = |it| Backend::new(it, dialer.clone(), changes.clone());
        let backends = upstreams.into_iter().map(backend);
        let backends: Vec<_> = backends.map(Arc::new).collect();
        if backends.is_empty() {
            return Err(ForwarderError::NoUpstream);
        }
        let inner = Inner {
            backends,
            changes,
            cache: Cache::new(config.cache_entries, config.cache_bytes),
            in_flight: InFlight::new(),
            attempt_time: config.attempt_time,
            query_time: config.query_time,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            coalesced: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns the current statistics.
    pub fn statistics(&self) -> ForwarderStatistics {
        let inner = &*self.inner;
        let (cache_entries, cache_bytes) = inner.cache.size();
        ForwarderStatistics {
            hits: inner.hits.load(Ordering::Relaxed),
            misses: inner.misses.load(Ordering::Relaxed),
            coalesced: inner.coalesced.load(Ordering::Relaxed),
            failures: inner.failures.load(Ordering::Relaxed),
            rejected: inner.rejected.load(Ordering::Relaxed),
            cache_entries,
            cache_bytes,
            upstreams: inner.backends.iter().map(|backend| backend.statistics()).collect(),
        }
    }

    /// Returns a handle that waits for changes in the health of the upstream servers.
    pub fn watch_health(&self) -> HealthWatch {
        HealthWatch(self.inner.changes.subscribe())
    }

    /// Returns the response to a question that the cache cannot answer.
    async fn forward(&self, key: Key, question: Question) -> Result<Arc<Stored>, LinkError> {
        let inner = self.inner.clone();
        let cached = key.clone();
        let work = || async move { inner.ask(cached, question).await };
        let (shared, is_shared) = self.inner.in_flight.join(key, work);
        if is_shared {
            self.inner.coalesced.fetch_add(1, Ordering::Relaxed);
        }
        shared.await
    }
}

/// Waits for changes in the health of upstream servers; see [`Forwarder::watch_health`].
#[derive(Debug)]
pub struct HealthWatch(watch::Receiver<()>);

impl HealthWatch {
    /// Waits until an upstream server goes down or comes back, as
    /// [`UpstreamStatistics::is_up`] then reports. Returns `false` if the forwarder is gone.
    ///
    /// # Cancel safety
    /// If the future is dropped, no change is missed.
    pub async fn changed(&mut self) -> bool {
        self.0.changed().await.is_ok()
    }
}

impl Inner {
    /// Asks the upstream servers, and caches the response.
    async fn ask(&self, key: Key, question: Question) -> Result<Arc<Stored>, LinkError> {
        let mut response = self.exchange(&question).await?;
        // It does not come from the zone's server.
        response.metadata.authoritative = false;
        let ttl = lifetime(&response);
        let stored = Arc::new(Stored::new(response, ttl).map_err(LinkError::lost)?);
        if ttl > 0 {
            self.cache.insert(key, stored.clone(), Instant::now());
        }
        Ok(stored)
    }

    /// Tries the upstream servers in order of preference, those that are up first.
    async fn exchange(&self, question: &Question) -> Result<Message, LinkError> {
        let begun = Instant::now();
        let mut last = LinkError::TimedOut;
        let (down, up): (Vec<_>, Vec<_>) = self.backends.iter().partition(|it| it.is_down());
        for backend in up.into_iter().chain(down) {
            let remaining = self.query_time.saturating_sub(begun.elapsed());
            if remaining.is_zero() {
                break;
            }
            match backend.exchange(question, self.attempt_time.min(remaining)).await {
                Ok(response) => return Ok(response),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

impl Handler for Forwarder {
    async fn respond(&self, request: Request) -> Answer {
        let inner = &*self.inner;
        let question = match accepted(&request) {
            Ok(question) => question,
            Err((code, reason)) => {
                inner.rejected.fetch_add(1, Ordering::Relaxed);
                return request.failure(code, &reason).into();
            }
        };
        let key = question.key();
        if let Some((stored, age)) = inner.cache.get(&key, Instant::now()) {
            inner.hits.fetch_add(1, Ordering::Relaxed);
            return Answer::stored(stored, age);
        }
        inner.misses.fetch_add(1, Ordering::Relaxed);
        match self.forward(key, question).await {
            Ok(stored) => Answer::stored(stored, 0),
            Err(error) => {
                inner.failures.fetch_add(1, Ordering::Relaxed);
                let reason = error.extended_error();
                let mut response = request.failure(ResponseCode::ServFail, &reason);
                response.metadata.recursion_available = true;
                response.into()
            }
        }
    }
}

/// Returns the question of a query that can be forwarded, or the response code for one that cannot.
fn accepted(request: &Request) -> Result<Question, (ResponseCode, ExtendedError)> {
    let not_supported = |text| ExtendedError::new(ErrorInfo::NotSupported, text);
    let message = request.message();
    if message.metadata.op_code != OpCode::Query {
        let reason = not_supported("only queries are forwarded");
        return Err((ResponseCode::NotImp, reason));
    }
    let Some(question) = Question::of(message) else {
        let reason = not_supported("a query must have one question");
        return Err((ResponseCode::FormErr, reason));
    };
    if matches!(question.query().query_type(), RecordType::AXFR | RecordType::IXFR) {
        let reason = not_supported("zone transfers are not forwarded");
        return Err((ResponseCode::NotImp, reason));
    }
    if question.query().query_class() != DNSClass::IN {
        let reason = ExtendedError::new(ErrorInfo::Prohibited, "only class IN is forwarded");
        return Err((ResponseCode::Refused, reason));
    }
    Ok(question)
}
