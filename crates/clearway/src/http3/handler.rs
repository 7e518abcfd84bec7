//! HTTP/3 servers inside the shard.

mod app;
mod outgoing;

use core::net::SocketAddr;

use bytes::Bytes;
use clearway_http3::{Code, Config, DatagramError, Priority, Role, SendError};
use clearway_io::{Accept, Acceptor, Application, Decision};
use clearway_transport::{Connection, Incoming, Statistics};
use clearway_units::{Random, Timestamp};
use http::{HeaderMap, Request, Response};
use rustls::pki_types::CertificateDer;

use self::app::{Handling, Responses};
use self::outgoing::Outgoing;
use super::driver::{Driver, Turn, speaking, supported};
use super::{Peer, Timeouts};
use crate::{Endpoint, EndpointError, ServerConfig};

/// Maximum number of bytes of content to pull from a source, or to read from the transport, in one
/// call.
const CHUNK: usize = 256 << 10;

/// Responds to the requests on one connection inside the shard. The methods must not block.
///
/// The response to a request must be sent in one of the calls for it, the last of which is
/// [`finished`](Self::finished) or [`failed`](Self::failed). If there is no response by then, the
/// stream is reset with H3_INTERNAL_ERROR or H3_REQUEST_CANCELLED.
pub trait Handler: Send {
    /// Called when a request was received; its content, if there is any, follows.
    ///
    /// The response may be sent now or in a later call for the same stream. If it is not sent now,
    /// a client that expects 100 (Continue) gets it (RFC 9110 §10.1.1).
    fn request(&mut self, stream: &mut RequestStream<'_>, request: Request<()>);

    /// Called when content of a request was received. There is no backpressure: content is passed
    /// on as fast as the client sends it.
    fn data(&mut self, stream: &mut RequestStream<'_>, content: Bytes) {
        let _ = (stream, content);
    }

    /// Called when a datagram of an extended CONNECT request has arrived (RFC 9297).
    fn datagram(&mut self, stream: &mut RequestStream<'_>, payload: Bytes) {
        let _ = (stream, payload);
    }

    /// Called when a request is complete.
    fn finished(&mut self, stream: &mut RequestStream<'_>, trailers: Option<HeaderMap>) {
        let _ = (stream, trailers);
    }

    /// Called when a request was aborted or malformed, its client has stopped reading the response,
    /// or the client has made no progress for longer than the [timeouts](Self::timeouts) allow
    /// (H3_REQUEST_CANCELLED).
    ///
    /// A response that has begun continues if the transport can still send it.
    fn failed(&mut self, stream: u64, code: Code) {
        let _ = (stream, code);
    }

    /// Returns the limits on how long the client may go without making progress; `None`, the
    /// default, means no limits.
    ///
    /// Called in each turn in which the connection has requests in progress.
    fn timeouts(&self) -> Option<Timeouts> {
        None
    }

    /// Called with the connection's final statistics when it is discarded.
    fn closed(&mut self, statistics: &Statistics) {
        let _ = statistics;
    }
}

/// A source of content that is available without waiting. Content is pulled when the transport
/// accepts more.
pub trait BodySource: Send {
    /// Returns the next content, ideally `wanted` bytes; `None` or an empty value at the end.
    ///
    /// After a short piece, this may be called again before the transport has accepted that piece.
    fn next(&mut self, wanted: usize) -> Option<Bytes>;

    /// Returns the trailer section. Called at the end of the content.
    fn trailers(&mut self) -> Option<HeaderMap> {
        None
    }
}

impl BodySource for Bytes {
    fn next(&mut self, wanted: usize) -> Option<Bytes> {
        let part = self.split_to(self.len().min(wanted));
        (!part.is_empty()).then_some(part)
    }
}

/// A request, for the duration of a call to its [`Handler`].
pub struct RequestStream<'a> {
    turn: Turn<'a>,
    responses: &'a mut Responses,
    id: u64,
}

impl RequestStream<'_> {
    /// Returns the QUIC stream ID, which identifies the request on its connection.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the client's current address.
    pub fn remote_address(&self) -> SocketAddr {
        self.turn.connection().remote_address()
    }

    /// Returns the client. It can be used after the connection has ended, for example by tasks.
    ///
    /// Requests of handlers do not have it as an extension, which would take three allocations for
    /// each.
    pub fn peer(&mut self) -> Peer {
        let Self { turn, responses, .. } = self;
        responses.peer(turn.connection())
    }

    /// Returns the current statistics of the QUIC connection.
    pub fn statistics(&self) -> Statistics {
        self.turn.connection().statistics()
    }

    /// Returns the client's verified certificate chain, starting with its own certificate.
    ///
    /// Returns `None` unless the server requests certificates
    /// ([`ServerConfig::client_certificates`](crate::ServerConfig::client_certificates)) and the
    /// client has one.
    pub fn peer_identity(&self) -> Option<&[CertificateDer<'static>]> {
        self.turn.connection().session().peer_certificates()
    }

    /// Sends an interim response (1xx, but not 101).
    ///
    /// # Errors
    /// Fails if the interim response would be malformed, or the client has stopped reading the
    /// response.
    pub fn inform(&mut self, response: &Response<()>) -> Result<(), SendError> {
        self.turn.inform(self.id, response)
    }

    /// Sends the response, with the content of `body`.
    ///
    /// If the length of the body does not match the content-length field, or the response must not
    /// have a body, the stream is reset with H3_INTERNAL_ERROR.
    ///
    /// # Errors
    /// Fails if the header section would be malformed or is too large, or the client has stopped
    /// reading the response.
    pub fn respond(
        &mut self,
        response: &Response<()>,
        body: Option<Box<dyn BodySource>>,
    ) -> Result<(), SendError> {
        let Self { turn, responses, id } = self;
        let Some(source) = body else { return turn.respond(*id, response, true) };
        // The header section and the first content are sent in one write, as is the end if it is
        // already known.
        let mut body = Outgoing::new(source);
        let (first, is_last) = body.first();
        let (taken, is_over) = turn.respond_with(*id, response, first, is_last)?;
        if !is_over {
            body.advance(taken);
            responses.bodies.insert(*id, body);
            responses.pull(turn, *id);
        }
        Ok(())
    }

    /// Returns the priority of the response (RFC 9218): the one that the client requested, unless
    /// [`set_priority`](Self::set_priority) has overridden it.
    pub fn priority(&self) -> Priority {
        self.turn.priority(self.id)
    }

    /// Sets the priority of the response, overriding the client's request.
    pub fn set_priority(&mut self, priority: Priority) {
        self.turn.set_priority(self.id, priority);
    }

    /// Sends a datagram that belongs to this extended CONNECT request (RFC 9297).
    ///
    /// # Errors
    /// Fails if the datagram cannot be sent; see [`DatagramError`].
    pub fn send_datagram(&mut self, payload: &[u8]) -> Result<(), DatagramError> {
        self.turn.send_datagram(self.id, payload)
    }

    /// Stops reading the request. Use [`Code::NO_ERROR`] if the response does not depend on the
    /// rest of the request (RFC 9114 §4.1).
    pub fn stop(&mut self, code: Code) {
        self.turn.stop(self.id, code);
    }

    /// Shuts the connection down gracefully (RFC 9114 §5.2).
    ///
    /// Asks the client to send no more requests, accepts requests that were in transit for one more
    /// round trip, reports which requests were accepted (two GOAWAY frames), and closes the
    /// connection when the responses are complete.
    pub fn shut_down_connection(&mut self) {
        self.responses.is_finishing = true;
    }

    /// Resets the response.
    pub fn reset(&mut self, code: Code) {
        self.responses.bodies.remove(&self.id);
        self.turn.reset(self.id, code);
    }
}

impl core::fmt::Debug for RequestStream<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("RequestStream").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The [`Application`] that runs a [`Handler`].
pub struct HandlerApplication<H>(Driver<Handling<H>>);

impl<H: Handler> HandlerApplication<H> {
    /// Creates the application of one server connection. `random` determines what
    /// [`Config::grease`] sends.
    pub fn new(handler: H, config: Config, random: &mut Random) -> Self {
        Self(Driver::new(Role::Server, Handling::new(handler), config, random))
    }
}

impl<H: Handler> Application for HandlerApplication<H> {
    fn process(&mut self, now: Timestamp, connection: &mut Connection) {
        self.0.process(now, connection);
    }

    fn deadline(&self) -> Option<Timestamp> {
        self.0.deadline()
    }

    fn held_bytes(&self) -> u64 {
        self.0.held_bytes()
    }

    fn closed(&mut self, statistics: &Statistics) {
        self.0.closed(statistics);
    }
}

/// Creates an endpoint at the local address `bind` that serves HTTP/3 requests inside its shards.
///
/// `handlers` creates a handler for each connection; each shard has a clone of it. The
/// configuration's application protocols are replaced by that of HTTP/3.
///
/// # Errors
/// Fails if the socket or the thread cannot be created, or the configuration is invalid.
pub fn serve_in_shard<H: Handler + 'static>(
    bind: SocketAddr,
    config: ServerConfig,
    http3: Config,
    handlers: impl FnMut(&Incoming) -> H + Clone + Send + 'static,
) -> Result<Endpoint, EndpointError> {
    let mut random = Random::from_seed(clearway_io::seed()?);
    let http3 = supported(http3, &config.transport);
    let acceptor = |_| {
        let (handlers, config) = (handlers.clone(), http3.clone());
        Handlers { handlers, config, random: random.fork() }
    };
    let config = speaking(config, &http3);
    Endpoint::server_with_applications(bind, config, acceptor)
}

/// Creates the handler for each client.
struct Handlers<F> {
    handlers: F,
    config: Config,
    random: Random,
}

impl<H: Handler + 'static, F: FnMut(&Incoming) -> H + Send> Acceptor for Handlers<F> {
    fn incoming(&mut self, incoming: &Incoming) -> Decision {
        let handler = (self.handlers)(incoming);
        let application = HandlerApplication::new(handler, self.config.clone(), &mut self.random);
        Decision::Accept(Accept::new(Box::new(move |_| Box::new(application))))
    }
}
