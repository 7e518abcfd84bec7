use core::future::{Future, poll_fn};
use core::net::SocketAddr;
use core::time::Duration;
use std::sync::Arc;

use clearway_http3::Config;
use clearway_io::{Accept, Acceptor, ApplicationFactory, ConnectionWaker, Decision};
use clearway_transport::Incoming;
use clearway_units::Random;
use http::{Request, Response};

use super::accepting::Accepting;
use super::answering::answering;
use super::driver::{Driver, speaking, supported};
use super::exchanges::Shared;
use super::{Body, ConnectionHandle, RecvBody, Responder, ResponseFailure, Timeouts};
use crate::tasks::Runtime;
use crate::{Endpoint, EndpointError, ServerConfig};

/// An HTTP/3 server for tasks.
///
/// When the server is dropped, new clients are refused. Responses to requests that were
/// [accepted](Self::accept) can still be sent; other requests are rejected (H3_REQUEST_REJECTED),
/// so that clients can send them elsewhere.
pub struct Server {
    accepting: Arc<Accepting>,
    endpoint: Endpoint,
}

impl Server {
    /// Creates a server at the local address `bind`; port 0 means any free port. The
    /// configuration's application protocols are replaced by that of HTTP/3.
    ///
    /// # Errors
    /// Fails if the socket or the thread cannot be created, or the configuration is invalid.
    pub fn bind(bind: SocketAddr, config: ServerConfig) -> Result<Self, EndpointError> {
        Self::bind_with(bind, config, Config::default())
    }

    /// Like [`bind`](Self::bind), with an HTTP/3 configuration.
    ///
    /// # Errors
    /// Returns the same errors as [`bind`](Self::bind).
    pub fn bind_with(
        bind: SocketAddr,
        config: ServerConfig,
        http3: Config,
    ) -> Result<Self, EndpointError> {
        let accepting = Arc::<Accepting>::default();
        let http3 = Arc::new(supported(http3, &config.transport));
        let mut random = Random::from_seed(clearway_io::seed()?);
        let clients = |_| {
            accepting.add_shard();
            let (accepting, config) = (accepting.clone(), http3.clone());
            Clients { accepting, config, random: random.fork() }
        };
        let config = speaking(config, &http3);
        let endpoint = Endpoint::server_with_applications(bind, config, clients)?;
        Ok(Self { accepting, endpoint })
    }

    /// Abandons streams on which the client makes no progress. Without timeouts, the server waits
    /// for such streams until the connection ends. Only the first call has an effect.
    pub fn with_timeouts(self, timeouts: Timeouts) -> Self {
        self.accepting.set_timeouts(timeouts);
        self
    }

    /// Reports responses that fail because of this endpoint to `hook`.
    ///
    /// This includes responses that cannot be sent over HTTP/3, whose body fails, or whose task
    /// panics. Each one is reset with H3_INTERNAL_ERROR, and logged as a `tracing` event of level
    /// WARN, with or without a hook. Failures that the client causes, by canceling its request or
    /// going away, are not reported.
    ///
    /// The hook is called on the thread of a shard, so it must not block. It applies to
    /// [`serve`](Self::serve), [`serve_on_shards`](Self::serve_on_shards) and
    /// [`accept`](Self::accept). Only the first hook is used.
    pub fn on_error(self, hook: impl Fn(&ResponseFailure) + Send + Sync + 'static) -> Self {
        self.accepting.report_to(Box::new(hook));
        self
    }

    /// Sets how many unread bytes of a request are read and discarded after its response before
    /// STOP_SENDING is sent (RFC 9114 §4.1). The default is 8 MiB.
    ///
    /// With 0, STOP_SENDING is sent immediately, and some clients then ignore the response. The
    /// limit applies only to new connections.
    pub fn discard_limit(self, bytes: u64) -> Self {
        self.accepting.set_discard_limit(bytes);
        self
    }

    /// Shuts each new connection down gracefully at about this age, as
    /// [`ConnectionHandle::drain`] does. The age varies by 10 %, so that clients do not reconnect
    /// at the same time. Only the first call has an effect.
    pub fn max_connection_age(self, age: Duration) -> Self {
        self.accepting.set_max_age(age);
        self
    }

    /// Returns handles to the connections that are established at the moment.
    pub fn connections(&self) -> Vec<ConnectionHandle> {
        self.accepting.connections()
    }

    /// Returns the server's endpoint, for its statistics.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns the address of the server's socket.
    pub fn local_address(&self) -> SocketAddr {
        self.endpoint.local_address()
    }

    /// Waits for the next request from any client; connections take turns.
    ///
    /// Returns `None` when the server was [shut down](Self::shutdown), or its endpoint was closed
    /// or has [failed](Endpoint::failure), and its last connection is gone. Any number of tasks may
    /// call this at the same time.
    ///
    /// Requests that are not accepted remain queued; the transport's limit on open streams bounds
    /// their number per connection. A request is returned even if its client has since closed the
    /// connection or the connection was lost: the received part of its content can be read, and
    /// [`Responder::cancelled`] returns immediately. This applies to at most 1,024 ended
    /// connections at a time.
    ///
    /// # Cancel safety
    /// If the future is dropped, no request is lost.
    pub async fn accept(&self) -> Option<(Request<RecvBody>, Responder)> {
        poll_fn(|context| self.accepting.poll_accept(context)).await
    }

    /// Responds to every request with the response that `service` returns, each in its own task,
    /// until [`accept`](Self::accept) returns `None`.
    ///
    /// [`Endpoint::failure`] then returns the reason if the server failed. If a client cancels its
    /// request, or its connection is lost, the future of `service` is dropped at its next await.
    /// Responses that fail are [reported](Self::on_error).
    ///
    /// # Panics
    /// Panics if it is called outside a tokio runtime.
    pub async fn serve<S, F, B>(&self, service: S)
    where
        S: Fn(Request<RecvBody>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Into<Body> + Send + 'static,
    {
        while let Some((request, responder)) = self.accept().await {
            tokio::spawn(answer(service.clone(), request, responder));
        }
    }

    /// Like [`serve`](Self::serve), but runs the tasks on the threads of the shards that own the
    /// connections.
    ///
    /// No request switches threads, and the responses to a batch of requests are sent together. In
    /// exchange, a shard's connections wait while `service` computes. It must not block; work that
    /// takes more than some ten microseconds belongs in [`tokio::spawn`] or
    /// [`tokio::task::spawn_blocking`]. If this is called in a tokio runtime, the tasks run inside
    /// it, and can await these as well as timers, sockets and files.
    ///
    /// When the runtime shuts down, the tasks are dropped like its own tasks, and new requests are
    /// reset.
    ///
    /// Another call, or one of [`respond_on_shards`](Self::respond_on_shards), replaces the service.
    ///
    /// # Cancel safety
    /// If this future is dropped, the server still responds to requests until it is shut down.
    pub async fn serve_on_shards<S, F, B>(&self, service: S)
    where
        S: Fn(Request<RecvBody>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Into<Body> + Send + 'static,
    {
        let respond = move |request, responder| answer(service.clone(), request, responder);
        self.accepting.answer_with(answering(Runtime::current(), respond));
        self.spawn_accepted().await;
    }

    /// Like [`serve_on_shards`](Self::serve_on_shards), but `respond` also gets the [`Responder`],
    /// with which it sends the response itself.
    ///
    /// The future is not dropped if the client cancels its request: await
    /// [`Responder::cancelled`] concurrently with work that is then useless. While the future waits
    /// before it responds, the request counts against the client's limit on open streams, which
    /// bounds how many futures there are for a connection.
    ///
    /// # Cancel safety
    /// If this future is dropped, the futures of `respond` continue, and later requests are queued:
    /// [`accept`](Self::accept) returns them, and another call responds to them.
    pub async fn respond_on_shards<R, F>(&self, respond: R)
    where
        R: Fn(Request<RecvBody>, Responder) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let _answers = self.accepting.answer_while(answering(Runtime::current(), respond));
        self.spawn_accepted().await;
    }

    /// Responds to the requests that arrived before the shards responded to them, until
    /// [`accept`](Self::accept) returns `None`.
    async fn spawn_accepted(&self) {
        while let Some((request, responder)) = self.accept().await {
            self.accepting.spawn(request, responder);
        }
    }

    /// Waits until the server refuses new clients, because it is [shut down](Self::shutdown), or its
    /// endpoint was closed or has [failed](Endpoint::failure). Connections may still exist.
    pub async fn closing(&self) {
        poll_fn(|context| self.accepting.poll_closing(context)).await;
    }

    /// Shuts the server down gracefully (RFC 9114 §5.2).
    ///
    /// Refuses new clients, asks connected clients to send no more requests, accepts requests that
    /// were in transit for one more round trip, reports which requests were accepted (two GOAWAY
    /// frames), and waits until the responses are complete and all connections are closed. A client
    /// that no longer responds delays this until the idle timeout.
    ///
    /// [`accept`](Self::accept) still returns the requests that are accepted.
    pub async fn shutdown(&self) {
        self.accepting.close(false);
        poll_fn(|context| self.accepting.poll_idle(context)).await;
    }
}

/// Responds to a request with the response from `service`, unless the request is canceled before
/// there is one.
async fn answer<S, F, B>(service: S, request: Request<RecvBody>, mut responder: Responder)
where
    S: Fn(Request<RecvBody>) -> F,
    F: Future<Output = Response<B>>,
    B: Into<Body>,
{
    let response = tokio::select! {
        // If the response is available immediately, cancellation need not be checked.
        biased;
        response = service(request) => response,
        _ = responder.cancelled() => return,
    };
    // The part that is available immediately is sent without this task.
    if let (send, Some(pump)) = responder.begin(response) {
        // An error means that the client is gone, or that the response failed, which is reported
        // elsewhere.
        let _ = Box::pin(pump.run(send)).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.close(true);
    }
}

impl core::fmt::Debug for Server {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Server").field("local_address", &self.local_address()).finish()
    }
}

/// Accepts clients.
struct Clients {
    accepting: Arc<Accepting>,
    config: Arc<Config>,
    random: Random,
}

impl Drop for Clients {
    /// Records that the shard has stopped accepting clients, for any reason.
    fn drop(&mut self) {
        self.accepting.remove_shard();
    }
}

impl Acceptor for Clients {
    fn incoming(&mut self, _: &Incoming) -> Decision {
        if self.accepting.is_closing() {
            return Decision::Refuse;
        }
        let accepting = self.accepting.clone();
        let config = self.config.clone();
        let mut random = self.random.fork();
        let application: ApplicationFactory = Box::new(move |waker: ConnectionWaker| {
            let shared = Shared::new(None);
            shared.set_waker(waker);
            let listener = accepting.register(shared.clone(), &mut random);
            Box::new(Driver::server(shared, listener, config, &mut random))
        });
        Decision::Accept(Accept::new(application))
    }
}
