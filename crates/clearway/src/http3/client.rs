use core::future::poll_fn;
use core::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use clearway_http3::{Code, Config, Priority};
use clearway_io::ApplicationFactory;
use clearway_transport::Statistics;
use clearway_units::Random;
use clearway_wire::VarInt;
use http::{Method, Request, Response, StatusCode};
use http_body::Body as _;

use super::driver::{Driver, supported};
use super::exchanges::{Exchange, Shared};
use super::recv_body::ReceiveEnd;
use super::responder::announce_length;
use super::{Body, Datagrams, Error, RecvBody, SendBody};
use crate::bridge::Signal;
use crate::{ClientConfig, Endpoint, MigrateError, PathEvent};

/// A client's HTTP/3 connection.
///
/// Clones share the connection. When the last clone is dropped, the connection is closed after the
/// exchanges in progress.
#[derive(Clone)]
pub struct Client(Arc<Hold>);

/// A copy of a request without content, to send again if the server responds with 425 (Too Early);
/// `None` if the request cannot be repeated.
type Repetition = Option<Box<Request<Body>>>;

/// Keeps the connection open until it is dropped.
struct Hold(Arc<Shared>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.act(|state, effects| {
            state.app.is_released = true;
            effects.wake_shard();
        });
    }
}

impl Client {
    /// Connects to the server at `remote`, whose certificate must be valid for `server_name`, and
    /// waits until requests can be made.
    ///
    /// `config` must offer the [protocol](super::PROTOCOL). With [early
    /// data](ClientConfig::early_data) and a session to resume, this returns before the server has
    /// responded. Requests with safe methods and without content are then sent immediately, all
    /// other requests after the handshake.
    ///
    /// # Errors
    /// Returns [`Error::Config`], [`Error::NotStarted`], or the error that ended the connection
    /// before it was established.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub async fn connect(
        endpoint: &Endpoint,
        config: &ClientConfig,
        remote: SocketAddr,
        server_name: &str,
    ) -> Result<Self, Error> {
        Self::connect_with(endpoint, config, remote, server_name, Config::default()).await
    }

    /// Like [`connect`](Self::connect), with an HTTP/3 configuration.
    pub async fn connect_with(
        endpoint: &Endpoint,
        config: &ClientConfig,
        remote: SocketAddr,
        server_name: &str,
        http3: Config,
    ) -> Result<Self, Error> {
        let seed = clearway_io::seed().map_err(|error| Error::NoSeed(Arc::new(error)))?;
        let http3 = supported(http3, &config.transport);
        let shared = Shared::new(None);
        // If the connection cannot be created, dropping the driver fails it.
        let driver = Driver::client(shared.clone(), http3.into(), &mut Random::from_seed(seed));
        let (making, failing) = (shared.clone(), shared.clone());
        let application: ApplicationFactory = Box::new(move |waker| {
            making.set_waker(waker);
            Box::new(driver)
        });
        let on_failure = Box::new(move |failure| failing.fail(Error::NotStarted(failure)));
        endpoint
            .connect_application(config, remote, server_name, application, on_failure)
            .map_err(Error::Config)?;
        Self::established(shared, config.early_data).await
    }

    /// Waits until requests can be made or, if early data is requested and possible, until requests
    /// can be sent early.
    async fn established(shared: Arc<Shared>, offers_early_data: bool) -> Result<Self, Error> {
        let client = Self(Arc::new(Hold(shared)));
        if offers_early_data
            && poll_fn(|context| client.shared().poll_early(context)).await?.is_some()
        {
            let error = client.shared().lock().error.clone();
            return error.map_or(Ok(client), Err);
        }
        poll_fn(|context| client.shared().poll_established(context)).await?;
        Ok(client)
    }

    /// Creates a client for a driver, in tests.
    #[cfg(test)]
    pub(super) fn of(shared: Arc<Shared>) -> Self {
        Self(Arc::new(Hold(shared)))
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.0.0
    }

    /// Sends a request and waits for its response.
    ///
    /// A content-length field is added if the length is known. Requests wait while the peer allows
    /// no more streams. Interim responses are skipped; see [`start`](Self::start).
    ///
    /// If the server responds with 425 (Too Early) to a request with a safe method and no content
    /// that was made before the handshake was complete, the request is retried after the handshake
    /// (RFC 8470 §5.2).
    ///
    /// # Errors
    /// Returns [`Error::GoingAway`] if the request was not sent or certainly not processed;
    /// otherwise any error in sending the request or receiving the response; see [`Error`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request (H3_REQUEST_CANCELLED), and so does dropping the
    /// response's body before its end.
    ///
    /// # Panics
    /// Panics if the body is streamed and this is called outside a tokio runtime: a separate task
    /// sends such bodies.
    pub async fn send<B: Into<Body>>(
        &self,
        request: Request<B>,
    ) -> Result<Response<RecvBody>, Error> {
        // Rarely needed parts are on the heap: otherwise the future would reserve space for them
        // while it waits for the response.
        let (pending, again) = self.start_repeatable(request)?;
        let response = pending.response().await?;
        match again {
            Some(again) if response.status() == StatusCode::TOO_EARLY => {
                drop(response);
                Box::pin(self.send_again(again)).await
            }
            _ => Ok(response),
        }
    }

    /// Sends a request. Also returns a copy if the request may have to be sent again because it was
    /// too early.
    fn start_repeatable<B: Into<Body>>(
        &self,
        request: Request<B>,
    ) -> Result<(PendingResponse, Repetition), Error> {
        let request = request.map(Into::into);
        let is_harmless = request.method().is_safe() && request.body().is_end_stream();
        if !is_harmless || !self.may_be_early() {
            return Ok((self.start(request)?, None));
        }
        let (parts, body) = request.into_parts();
        let again = Request::from_parts(parts.clone(), Body::empty());
        Ok((self.start(Request::from_parts(parts, body))?, Some(Box::new(again))))
    }

    /// Repeats a request that was sent too early.
    async fn send_again(&self, request: Box<Request<Body>>) -> Result<Response<RecvBody>, Error> {
        // The request must not be sent again before the handshake is complete (RFC 8470 §5.2).
        self.early_data_accepted().await;
        self.start(*request)?.response().await
    }

    /// Returns whether a request that is made now may be sent as early data.
    fn may_be_early(&self) -> bool {
        self.shared().lock().established.is_none()
    }

    /// Waits until the handshake is complete, and returns whether the server has accepted early
    /// data; `false` if none was offered.
    pub async fn early_data_accepted(&self) -> bool {
        self.shared().early_data_accepted().await
    }

    /// Sends a request like [`send`](Self::send), and allows the caller to wait for interim
    /// responses too.
    pub fn start<B: Into<Body>>(&self, request: Request<B>) -> Result<PendingResponse, Error> {
        let (mut parts, body) = request.into_parts();
        let body = body.into();
        let method = &parts.method;
        let is_usual = [Method::POST, Method::PUT, Method::PATCH].contains(method);
        if method != Method::CONNECT && (is_usual || body.length() > Some(0)) {
            announce_length(&mut parts.headers, &body);
        }
        let (mut send, response) = self.begin(Request::from_parts(parts, ()))?;
        if let Some(pump) = body.begin(&mut send, None) {
            // The pending response reports any error.
            tokio::spawn(pump.run(send));
        }
        Ok(response)
    }

    /// Sends a request's header section.
    ///
    /// The content is sent with the returned [`SendBody`], and the response is received with the
    /// [`PendingResponse`].
    ///
    /// # Errors
    /// Returns [`Error::GoingAway`] or the error that ended the connection. If the request itself
    /// is invalid, both returned values report it.
    pub fn open(&self, request: Request<()>) -> Result<(SendBody, PendingResponse), Error> {
        let ends = self.begin(request)?;
        ends.0.wake_shard();
        Ok(ends)
    }

    fn begin(&self, request: Request<()>) -> Result<(SendBody, PendingResponse), Error> {
        let shared = self.shared();
        let state = &mut *shared.lock();
        state.check_open()?;
        let key = state.app.all.insert(Exchange::request(request, &state.app.totals));
        state.app.begun = state.app.begun.saturating_add(1);
        state.change(key);
        let end = ReceiveEnd::new(shared.clone(), key, true);
        Ok((SendBody::of_request(shared.clone(), key), PendingResponse(end)))
    }

    /// Waits until a request would not have to wait for a stream: all requests that were made have
    /// been sent.
    ///
    /// Without this, any number of requests can be made, which then [wait](Self::waiting). If
    /// several tasks wait, up to 64 continue at a time, and so may exceed what the server allows by
    /// that number.
    ///
    /// # Errors
    /// Returns [`Error::GoingAway`] or the error that ended the connection.
    ///
    /// # Cancel safety
    /// The future can be dropped at any time.
    pub async fn ready(&self) -> Result<(), Error> {
        let ready = self.shared().wait(Signal::Requests, |state| {
            let outcome = state.check_open();
            state.app.awaits_readiness |= outcome.is_ok() && !state.is_ready();
            (outcome.is_err() || state.is_ready()).then_some(outcome)
        });
        ready.await
    }

    /// Returns whether [`ready`](Self::ready) would return at once.
    pub fn is_ready(&self) -> bool {
        let state = self.shared().lock();
        state.is_ready() || state.check_open().is_err()
    }

    /// Returns how many requests wait to be sent, because the server allows no more streams or the
    /// handshake is not complete.
    pub fn waiting(&self) -> usize {
        let app = &self.shared().lock().app;
        app.waiting.len().saturating_add(app.begun)
    }

    /// Returns the server's current address.
    pub fn remote_address(&self) -> Option<SocketAddr> {
        self.shared().lock().remote_address
    }

    /// Returns the IANA name of the negotiated key exchange group, such as "X25519MLKEM768".
    pub fn key_exchange_group(&self) -> Option<&'static str> {
        self.shared().lock().established.as_ref()?.key_exchange_group
    }

    /// Migrates the connection to the local address `local` (RFC 9000 §9.2), and returns the new
    /// local address once the migration is complete; see
    /// [`Connection::migrate`](crate::Connection::migrate).
    ///
    /// # Errors
    /// Fails if the connection cannot migrate. It then stays on its current path.
    pub async fn migrate(&self, local: SocketAddr) -> Result<SocketAddr, MigrateError> {
        self.shared().clone().migrate(local).await
    }

    /// Waits for the next change of the connection's path. At most the last 16 events are queued.
    ///
    /// # Errors
    /// Fails if the connection ends.
    pub async fn path_event(&self) -> Result<PathEvent, Error> {
        let wanted = self.shared().wait(Signal::Path, |state| {
            let next = state.next_path_event();
            next.map(Ok).or_else(|| state.error.clone().map(Err))
        });
        wanted.await
    }

    /// Returns whether new requests can be made.
    pub fn is_open(&self) -> bool {
        self.shared().lock().check_open().is_ok()
    }

    /// Returns the current statistics of the QUIC connection, or its final statistics if it has
    /// ended.
    pub async fn statistics(&self) -> Statistics {
        self.shared().act(|state, effects| {
            state.app.wants_statistics = true;
            effects.wake_shard();
        });
        let wanted = self.shared().wait(Signal::Connection, |state| {
            let is_new = state.is_gone || !state.app.wants_statistics;
            state.statistics.as_deref().copied().filter(|_| is_new)
        });
        wanted.await
    }

    /// Runs `task` on the thread of the connection's shard; see
    /// [`Connection::spawn`](crate::Connection::spawn).
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.shared().spawn_here(task);
    }

    /// Closes the connection immediately with this error code. Exchanges in progress fail;
    /// datagrams that were queued before are sent first, unless the path permits no more.
    pub fn close(&self, code: Code) {
        self.shared().close(VarInt::saturating(code.get()), Bytes::new(), Error::Closed);
    }

    /// Shuts the connection down gracefully: rejects new requests, waits for requests in progress,
    /// and closes the connection (RFC 9114 §5.2).
    ///
    /// Returns when CONNECTION_CLOSE has been sent. That packet may be lost, so a program that
    /// exits afterward should first call [`Endpoint::wait_idle`].
    pub async fn shutdown(&self) {
        self.shared().act(|state, effects| {
            state.app.is_finishing = true;
            effects.wake_shard();
        });
        self.shared().wait(Signal::Connection, |state| state.is_gone.then_some(())).await;
    }

    /// Waits until the connection has ended, and returns the reason.
    pub async fn closed(&self) -> Error {
        self.shared().wait(Signal::Connection, |state| state.error.clone()).await
    }
}

impl core::fmt::Debug for Client {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Client").field("remote_address", &self.remote_address()).finish()
    }
}

/// A response that has not arrived yet. Dropping it cancels the request (H3_REQUEST_CANCELLED).
pub struct PendingResponse(ReceiveEnd);

impl PendingResponse {
    /// Returns the datagrams of the exchange, if it is an extended CONNECT (RFC 9297).
    pub fn datagrams(&self) -> Datagrams {
        self.0.datagrams()
    }

    /// Asks the server to change the priority of the response (RFC 9218 §7). The initial priority
    /// is set with a [`Priority`] extension on the request.
    pub fn set_priority(&self, priority: Priority) {
        self.0.set_priority(priority);
    }

    /// Waits for the next interim response (1xx). Returns `None` when the final response has
    /// arrived.
    ///
    /// # Errors
    /// Returns the same errors as [`response`](Self::response).
    pub async fn informational(&mut self) -> Result<Option<Response<()>>, Error> {
        poll_fn(|context| self.0.poll_informational(context)).await
    }

    /// Waits for the final response. Interim responses are skipped.
    ///
    /// # Errors
    /// Fails if the request could not be sent, the response is malformed or was abandoned, or the
    /// connection ended.
    pub async fn response(self) -> Result<Response<RecvBody>, Error> {
        let (response, extent) = poll_fn(|context| self.0.poll_response(context)).await?;
        Ok(response.map(|()| RecvBody::new(self.0, extent)))
    }
}

impl core::fmt::Debug for PendingResponse {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PendingResponse").finish_non_exhaustive()
    }
}
