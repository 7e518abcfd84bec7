//! Services that respond to the requests of servers.

use core::future::{Future, pending};
use core::net::SocketAddr;
use core::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use clearway::http3::Server;
#[cfg(feature = "tcp")]
use clearway::rustls;
use http::{Request, Response};
#[cfg(feature = "tcp")]
use tokio::net::TcpListener;
use tokio::sync::watch;
use tower_service::Service;

use crate::body::RequestBody;
use crate::exchange::{Settings, readiness, respond};
use crate::stop::is_set;
#[cfg(feature = "tcp")]
use crate::{AltSvcLayer, tcp};
use crate::{BoxError, Failure};

/// Responds to every request of `server` with the response of `service`, until the server is [shut
/// down](Server::shutdown), or its endpoint is closed or has
/// [failed](clearway::Endpoint::failure).
///
/// Same as [`Serve::new`]`(service)`[`.run`](Serve::run)`(server)`.
///
/// # Panics
/// Panics if it is called outside a tokio runtime.
pub async fn serve<S, B>(server: &Server, service: S)
where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    Serve::new(service).run(server).await;
}

/// Responds to requests with a service, with options.
///
/// Each request is handled by a clone of the service once that clone is ready (`poll_ready`), so
/// limits such as tower's `ConcurrencyLimit` apply. While a request waits for readiness, no other
/// request is accepted: they wait in the transport, whose limit on open streams bounds their
/// number. If the client cancels a request, the future of its response is dropped.
///
/// Fields that are specific to connections are removed from responses over HTTP/3 (RFC 9114 §4.2).
/// Responses without a Date field get one (RFC 9110 §6.6.1).
/// A client that expects 100 (Continue) gets it when the service first waits for content.
#[must_use = "nothing is served before `run` is called"]
pub struct Serve<S> {
    service: S,
    settings: Settings,
    is_on_shards: bool,
    shutdown: Option<Shutdown>,
    #[cfg(feature = "tcp")]
    tcp: tcp::Options,
}

type Shutdown = Pin<Box<dyn Future<Output = ()> + Send>>;

impl<S> Serve<S> {
    /// Serves with `service`.
    pub fn new(service: S) -> Self {
        Self {
            service,
            settings: Settings::default(),
            is_on_shards: false,
            shutdown: None,
            #[cfg(feature = "tcp")]
            tcp: tcp::Options::default(),
        }
    }

    /// Adds the value that `make` returns for the client's address to the extensions of each
    /// request.
    ///
    /// With axum's `ConnectInfo::<SocketAddr>` as `make`, handlers can extract the address.
    pub fn connect_info<T: Clone + Send + Sync + 'static>(
        mut self,
        make: impl Fn(SocketAddr) -> T + Send + Sync + 'static,
    ) -> Self {
        self.settings.extend = Some(Box::new(move |address, extensions| {
            extensions.insert(make(address));
        }));
        self
    }

    /// Reports responses that fail because of the service to `hook`, in all HTTP versions.
    ///
    /// Each failure is also logged as a `tracing` event of level WARN, with or without a hook.
    /// Failures that the client causes, by canceling its request or going away, are not reported.
    /// [`Server::on_error`] additionally reports those that reset a stream, with its ID.
    pub fn on_error(mut self, hook: impl Fn(&Failure<'_>) + Send + Sync + 'static) -> Self {
        self.settings.hook = Some(Arc::new(hook));
        self
    }

    /// Runs the service on the threads of the shards that own the connections, as
    /// [`Server::serve_on_shards`] does. The service must not block.
    ///
    /// Each request then waits by itself until its clone of the service is ready, while further
    /// requests are accepted. The client's limit on open streams bounds how many wait.
    pub fn on_shards(mut self) -> Self {
        self.is_on_shards = true;
        self
    }

    /// Shuts down gracefully when `signal` completes: no new clients are accepted, and responses to
    /// the requests in progress are completed; see [`Server::shutdown`].
    ///
    /// A client that keeps a response or a WebSocket open delays the end, so programs that must
    /// exit limit how long they wait for [`run`](Self::run). This includes upgraded HTTP/1.1
    /// connections: nothing tells their tasks to end, and `run` returns after the last of these has
    /// dropped its connection.
    pub fn graceful_shutdown(mut self, signal: impl Future<Output = ()> + Send + 'static) -> Self {
        self.shutdown = Some(Box::pin(signal));
        self
    }

    /// Also serves clients of HTTP/1.1 and HTTP/2 that connect to `listener`.
    ///
    /// Their responses advertise HTTP/3 at the server's port with an Alt-Svc field (RFC 7838), so
    /// the listener usually has the same port:
    /// `TcpListener::bind(server.local_address())`. `tls` should accept the application protocols
    /// `h2` and `http/1.1`; see
    /// [`ServerConfig::tls_over_tcp`](clearway::ServerConfig::tls_over_tcp). Each request waits by
    /// itself until its clone of the service is ready.
    ///
    /// When the HTTP/3 server is shut down, these connections are too. Only the last listener is
    /// used.
    #[cfg(feature = "tcp")]
    pub fn tcp(mut self, listener: TcpListener, tls: Arc<rustls::ServerConfig>) -> Self {
        self.tcp.listener = Some((listener, tls));
        self
    }

    /// Replaces the Alt-Svc field of responses over TCP. The default advertises HTTP/3 at the
    /// server's port, and can be remembered for a day.
    #[cfg(feature = "tcp")]
    pub fn alt_svc(mut self, layer: AltSvcLayer) -> Self {
        self.tcp.alt_svc = Some(layer);
        self
    }

    /// Sets how many clients over TCP are served at a time. Others wait until one disconnects. The
    /// default is 10,000. Upgraded HTTP/1.1 connections, such as WebSockets, count until the
    /// service drops them.
    #[cfg(feature = "tcp")]
    pub fn max_tcp_connections(mut self, count: usize) -> Self {
        self.tcp.max_connections = count;
        self
    }

    /// Responds to every request, until the server is [shut down](Server::shutdown), or its
    /// endpoint is closed or has [failed](clearway::Endpoint::failure).
    ///
    /// # Cancel safety
    /// If the future is dropped, connections over TCP are closed, and requests over HTTP/3 remain
    /// queued. The responses that have begun over HTTP/3 are completed. Reads and writes of tasks
    /// that own upgraded HTTP/1.1 connections then fail with
    /// [`ConnectionAborted`](std::io::ErrorKind::ConnectionAborted).
    ///
    /// # Panics
    /// Panics if it is called outside a tokio runtime.
    pub async fn run<B>(self, server: &Server)
    where
        S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let Self { service, settings, is_on_shards, shutdown, .. } = self;
        let settings = Arc::new(settings);
        let (stop, stopped) = watch::channel(false);
        #[cfg(feature = "tcp")]
        let beside = self.tcp.run(
            service.clone(),
            settings.clone(),
            server.local_address().port(),
            stopped.clone(),
        );
        #[cfg(not(feature = "tcp"))]
        let beside = async {};
        let serving = async {
            match is_on_shards {
                true => run_on_shards(server, service, settings).await,
                false => run(server, service, settings).await,
            }
        };
        // The listener on TCP is closed immediately, not after the last HTTP/3 connection.
        let closing = async {
            server.closing().await;
            stop.send_replace(true);
        };
        tokio::join!(serving, closing, beside, shut_down(server, shutdown, &stop, stopped));
    }
}

/// Shuts the server down when `signal` completes. Returns without a signal when the server is shut
/// down otherwise.
async fn shut_down(
    server: &Server,
    signal: Option<Shutdown>,
    stop: &watch::Sender<bool>,
    mut stopped: watch::Receiver<bool>,
) {
    let signal = signal.unwrap_or_else(|| Box::pin(pending()));
    tokio::select! {
        () = signal => {
            stop.send_replace(true);
            server.shutdown().await;
        }
        () = is_set(&mut stopped) => {}
    }
}

/// Responds to requests in the tasks of the runtime.
async fn run<S, B>(server: &Server, service: S, settings: Arc<Settings>)
where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    while let Some((request, mut responder)) = server.accept().await {
        // Accepted first: an idle server must not hold what a ready service has reserved.
        let ready = tokio::select! {
            biased;
            ready = readiness(service.clone()) => ready,
            _ = responder.cancelled() => continue,
        };
        let settings = settings.clone();
        tokio::spawn(async move { respond(&settings, ready, request, responder).await });
    }
}

/// Responds to requests on the threads of the shards.
async fn run_on_shards<S, B>(server: &Server, service: S, settings: Arc<Settings>)
where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    // A service that is not `Sync` can serve, too.
    let service = Mutex::new(service);
    let responding = server.respond_on_shards(move |request, mut responder| {
        let service = service.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let settings = settings.clone();
        async move {
            let ready = tokio::select! {
                biased;
                ready = readiness(service) => ready,
                _ = responder.cancelled() => return,
            };
            respond(&settings, ready, request, responder).await;
        }
    });
    responding.await;
}

impl<S: core::fmt::Debug> core::fmt::Debug for Serve<S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { service, is_on_shards, .. } = self;
        let mut fields = f.debug_struct("Serve");
        fields.field("service", service).field("is_on_shards", is_on_shards).finish_non_exhaustive()
    }
}
