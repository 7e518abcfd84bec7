//! Requests at a fixed rate to a server that is repeatedly replaced by a new process. `cargo xtask
//! bench replacing` controls this program through standard input.
//!
//! Half of the connections are kept until the server sends GOAWAY (RFC 9114 §5.2). The others are
//! reopened after a few requests, so that rejected clients are noticed. A request that was
//! certainly not processed is retried on another connection, as the RFC recommends, and its latency
//! is still measured from the first due time.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use clearway::http3::{Client, Code, Error};
use clearway::{ClientConfig, ConnectionError, Endpoint, VarInt};
use http::{Request, StatusCode, Uri};
use peer_common::Pace;
use tokio::sync::Mutex;

use crate::attached::Steps;
use crate::connections::Record;
use crate::options::Mtu;
use crate::{Outcome, handshakes, http3, tls, transfer};

/// Time to wait for responses after the last request.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of connections on which to try a request that the server does not process. Each
/// replacement can cause one rejection.
const ATTEMPTS: usize = 5;

#[derive(Args)]
pub(crate) struct ReplacingOptions {
    /// Certificate to trust, PEM.
    #[arg(long)]
    ca: PathBuf,
    /// The address of the server, whose certificate must be for `localhost`.
    #[arg(long)]
    connect: SocketAddr,
    /// The path to request.
    #[arg(long)]
    path: String,
    /// Bytes in each response.
    #[arg(long)]
    size: usize,
    /// Number of connections at the same time.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: u32,
    /// Number of requests after which a connection is reopened.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    requests: u32,
    /// Total number of requests per second on all connections.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,
}

/// The connections and the outcomes of their requests.
struct Load {
    endpoint: Endpoint,
    config: ClientConfig,
    remote: SocketAddr,
    url: Uri,
    size: usize,
    places: Vec<Place>,
    record: Record,
    is_over: AtomicBool,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    opened: AtomicU64,
    /// Number of failed handshakes.
    refused: AtomicU64,
    /// Number of connections that did not end as RFC 9114 §5.2 describes.
    cut: AtomicU64,
    /// Number of requests that the server did not process and that were retried on another
    /// connection.
    moved: AtomicU64,
}

/// A slot that holds one connection at a time.
struct Place {
    /// Maximum number of requests on each connection; `None` for as many as the server accepts.
    requests: Option<u32>,
    current: Mutex<Option<Current>>,
}

struct Current {
    client: Client,
    /// Number of requests made on the current connection so far.
    made: u32,
}

impl Current {
    fn is_usable(&self, requests: Option<u32>) -> bool {
        self.client.is_open() && requests.is_none_or(|most| self.made < most)
    }
}

/// Opens the connections, prints `open N`, and makes requests. At the next line on standard input,
/// stops and prints the result. The process exits when standard input closes.
pub(crate) fn run(options: &ReplacingOptions, mtu: Mtu) -> Outcome {
    let steps = Steps::new();
    let load = Arc::new(Load::new(options, mtu)?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    for place in &load.places {
        runtime.block_on(load.connection(place))?;
    }
    let pacing = load.clone();
    Pace::new(options.rate.into(), usize::MAX).start(move |number, due| {
        if pacing.is_over.load(Ordering::SeqCst) {
            return false;
        }
        pacing.record.asked.fetch_add(1, Ordering::Relaxed);
        let load = pacing.clone();
        pacing.endpoint.spawn(async move {
            let outcome = load.ask(number % load.places.len()).await;
            load.record.add(true, outcome.map(|()| due.elapsed()));
        });
        true
    });
    steps.wait(&format!("open {}", load.places.len()))?;
    load.is_over.store(true, Ordering::SeqCst);
    let ended = Instant::now();
    while load.record.unanswered() > 0 && ended.elapsed() < DRAIN_TIMEOUT {
        std::thread::sleep(Duration::from_millis(5));
    }
    let result = load.result();
    // The connections are closed, so that the server does not have to wait for them when it shuts
    // down.
    load.endpoint.close(VarInt::saturating(Code::NO_ERROR.get()), b"");
    runtime.block_on(load.endpoint.wait_idle());
    steps.wait(&result)
}

impl Load {
    fn new(options: &ReplacingOptions, mtu: Mtu) -> Outcome<Self> {
        let config = ClientConfig::with_roots(tls::roots(&options.ca)?)
            .application_protocols([http3::ALPN])
            .transport(tls::transport(mtu, tls::IDLE_TIMEOUT))
            // Each connection represents a separate client.
            .session_store(handshakes::no_sessions());
        let place = |index: u32| Place {
            requests: (index % 2 == 1).then_some(options.requests),
            current: Mutex::default(),
        };
        Ok(Self {
            endpoint: Endpoint::client(transfer::local_address(options.connect))?,
            config,
            remote: options.connect,
            url: format!("https://localhost{}", options.path).parse()?,
            size: options.size,
            places: (0..options.connections).map(place).collect(),
            record: Record::default(),
            is_over: AtomicBool::new(false),
            counts: Counts::default(),
        })
    }

    /// Makes one request, and retries it on another connection if the server has not processed it.
    async fn ask(self: &Arc<Self>, place: usize) -> Result<(), String> {
        for _ in 0..ATTEMPTS {
            let client = self.connection(&self.places[place]).await?;
            match self.ask_once(&client).await {
                Err(error) if error.is_unprocessed() => {
                    self.counts.moved.fetch_add(1, Ordering::Relaxed);
                }
                Ok((StatusCode::OK, length)) if length == self.size => return Ok(()),
                Ok((status, length)) => {
                    return Err(format!("status {status}, {length} of {} bytes", self.size));
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        Err(format!("{ATTEMPTS} connections in a row did not process the request"))
    }

    async fn ask_once(&self, client: &Client) -> Result<(StatusCode, usize), Error> {
        let mut request = Request::new(());
        *request.uri_mut() = self.url.clone();
        let mut response = client.send(request).await?;
        let length = response.body_mut().bytes(usize::MAX).await?.len();
        Ok((response.status(), length))
    }

    /// Returns the slot's current connection, or a new one if the current one makes no more
    /// requests.
    async fn connection(self: &Arc<Self>, place: &Place) -> Result<Client, String> {
        let current = &mut *place.current.lock().await;
        if let Some(current) = current.as_mut().filter(|it| it.is_usable(place.requests)) {
            current.made += 1;
            return Ok(current.client.clone());
        }
        if let Some(Current { client, .. }) = current.take() {
            // Requests in flight on the old connection are still answered.
            self.endpoint.spawn(async move { client.shutdown().await });
        }
        let connecting = Client::connect(&self.endpoint, &self.config, self.remote, "localhost");
        let client = connecting.await.map_err(|error| {
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
            format!("cannot connect: {error}")
        })?;
        self.counts.opened.fetch_add(1, Ordering::Relaxed);
        let (watched, load) = (client.clone(), self.clone());
        self.endpoint.spawn(async move {
            let error = watched.closed().await;
            if !is_graceful(&error) {
                eprintln!("clearway-bench: a connection was lost: {error}");
                load.counts.cut.fetch_add(1, Ordering::Relaxed);
            }
        });
        *current = Some(Current { client: client.clone(), made: 1 });
        Ok(client)
    }

    fn result(&self) -> String {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counts { opened, refused, cut, moved } = &self.counts;
        format!(
            r#"{{"opened":{},"refused":{},"cut":{},"moved":{},{}}}"#,
            count(opened),
            count(refused),
            count(cut),
            count(moved),
            self.record.summary(),
        )
    }
}

/// Returns whether a connection ended as both endpoints intended.
fn is_graceful(error: &Error) -> bool {
    match error {
        Error::Closed | Error::GoingAway => true,
        Error::Connection(ConnectionError::ApplicationClosed { error_code, .. }) => {
            Code::new(error_code.get()) == Code::NO_ERROR
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn a_connection_that_the_server_has_done_with_is_not_cut() {
        let closed = |code: Code| {
            let error_code = VarInt::saturating(code.get());
            Error::Connection(ConnectionError::ApplicationClosed {
                error_code,
                reason: Bytes::new(),
            })
        };
        assert!(is_graceful(&Error::Closed) && is_graceful(&closed(Code::NO_ERROR)));
        assert!(!is_graceful(&closed(Code::INTERNAL_ERROR)));
        assert!(!is_graceful(&Error::Connection(ConnectionError::TimedOut)));
    }
}
