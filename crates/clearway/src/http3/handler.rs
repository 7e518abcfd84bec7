//! HTTP/3 servers inside the shard.

mod face;
mod outgoing;

use core::net::SocketAddr;

use bytes::Bytes;
use clearway_http3::{Code, Config, DatagramError, Priority, Role, SendError};
use clearway_io::{Accept, Acceptor, Application, Decision};
use clearway_transport::{Connection, Incoming, Statistics};
use clearway_units::{Random, Timestamp};
use http::{HeaderMap, Request, Response};
use rustls::pki_types::CertificateDer;

use self::face::{Handling, Responses};
use self::outgoing::Outgoing;
use super::Timeouts;
use super::driver::{Driver, Turn, speaking, supported};
use crate::{Endpoint, EndpointError, ServerConfig};

/// How much content is pulled from a source, or read from the transport, at once, in bytes.
const CHUNK: usize = 256 << 10;

/// Answers the requests of one connection inside the shard. Its methods must not block.
///
/// A request is answered in one of the calls for it: the last ones are [`finished`](Self::finished) and [`failed`](Self::failed). If
/// there is no response then, the stream is reset, with H3_INTERNAL_ERROR or H3_REQUEST_CANCELLED.
pub trait Handler: Send {
    /// A request was received; its content, if there is any, follows. It may be answered now or in a later
    /// call for the same stream. If it is not answered now, a client that waits for it gets 100 (Continue; RFC 9110 §10.1.1).
    fn request(&mut self, stream: &mut RequestStream<'_>, request: Request<()>);

    /// Content of a request was received. There is no back-pressure: it is passed on as fast as the client sends it.
    fn data(&mut self, stream: &mut RequestStream<'_>, content: Bytes) {
        let _ = (stream, content);
    }

    /// A datagram arrived that belongs to an extended CONNECT request (RFC 9297).
    fn datagram(&mut self, stream: &mut RequestStream<'_>, payload: Bytes) {
        let _ = (stream, payload);
    }

    /// A request is complete.
    fn finished(&mut self, stream: &mut RequestStream<'_>, trailers: Option<HeaderMap>) {
        let _ = (stream, trailers);
    }

    /// A request was cut off or malformed, its client has stopped reading the response, or has made no progress for longer than
    /// the [timeouts](Self::timeouts) permit (H3_REQUEST_CANCELLED). A response that has begun continues if the transport can
    /// still send it.
    fn failed(&mut self, stream: u64, code: Code) {
        let _ = (stream, code);
    }

    /// Returns how long the client may make no progress; `None`, the default, for as long as the connection lasts. Called in each
    /// turn of the connection that has requests in progress.
    fn timeouts(&self) -> Option<Timeouts> {
        None
    }

    /// The connection was discarded, and these are its last metrics.
    fn closed(&mut self, statistics: &Statistics) {
        let _ = statistics;
    }
}

/// Content that is available without waiting. It is pulled when the transport accepts more.
pub trait BodySource: Send {
    /// The next content, ideally of `wanted` bytes; `None` or no bytes at the end. After a short piece it may be called
    /// for the next one before the transport has taken the first.
    fn next(&mut self, wanted: usize) -> Option<Bytes>;

    /// The trailer section; called at the end of the content.
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

/// One request, for the duration of a call of its [`Handler`].
pub struct RequestStream<'a> {
    turn: Turn<'a>,
    responses: &'a mut Responses,
    id: u64,
}

impl RequestStream<'_> {
    /// The QUIC stream ID, which identifies the request on its connection.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The client's current address.
    pub fn remote_address(&self) -> SocketAddr {
        self.turn.connection().remote_address()
    }

    /// The client's certificate chain, its own certificate first, if the server asks for it
    /// ([`ServerConfig::client_certificates`](crate::ServerConfig::client_certificates)) and the client has one. It was
    /// verified.
    pub fn peer_identity(&self) -> Option<&[CertificateDer<'static>]> {
        self.turn.connection().session().peer_certificates()
    }

    /// Sends an interim response (1xx, but not 101).
    ///
    /// # Errors
    /// If it would be malformed, or the client has stopped reading the response.
    pub fn inform(&mut self, response: &Response<()>) -> Result<(), SendError> {
        self.turn.inform(self.id, response)
    }

    /// Sends the response, with the content of `body`.
    ///
    /// # Errors
    /// If the header section would be malformed or is too large, or the client has stopped reading the response. If
    /// the body does not have the length of the content-length field, or the response must not have one, the stream
    /// is reset with H3_INTERNAL_ERROR.
    pub fn respond(
        &mut self,
        response: &Response<()>,
        body: Option<Box<dyn BodySource>>,
    ) -> Result<(), SendError> {
        let Self { turn, responses, id } = self;
        let Some(source) = body else { return turn.respond(*id, response, true) };
        // The first content goes with the header section, in one write; the end, too, if it is known already.
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

    /// The priority of the response (RFC 9218): what the client asks for, changed by what was decided here.
    pub fn priority(&self) -> Priority {
        self.turn.priority(self.id)
    }

    /// Decides the priority of the response, whatever the client asks for.
    pub fn set_priority(&mut self, priority: Priority) {
        self.turn.set_priority(self.id, priority);
    }

    /// Sends a datagram that belongs to this extended CONNECT request (RFC 9297).
    ///
    /// # Errors
    /// If it cannot be sent; see [`DatagramError`].
    pub fn send_datagram(&mut self, payload: &[u8]) -> Result<(), DatagramError> {
        self.turn.send_datagram(self.id, payload)
    }

    /// Stops reading the rest of the request; with [`Code::NO_ERROR`] if the response does not depend on it
    /// (RFC 9114 §4.1).
    pub fn stop(&mut self, code: Code) {
        self.turn.stop(self.id, code);
    }

    /// Shuts the connection down gracefully: asks the client to send no more requests, accepts those that were in transit
    /// for a round trip, says which ones were accepted (two GOAWAY frames, RFC 9114 §5.2), and closes the connection when
    /// they are answered.
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
    /// The application of one connection of a server. `random` determines what [`Config::grease`] sends.
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

/// An endpoint at the local address `bind` whose requests are answered inside their shards. `handlers` creates a handler
/// for each connection; each shard has a clone of it. The configuration's application protocols are replaced by that of HTTP/3.
///
/// # Errors
/// If the socket or the thread cannot be created, or the configuration is invalid.
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

/// Creates a handler for each client.
struct Handlers<F> {
    handlers: F,
    config: Config,
    random: Random,
}

impl<H: Handler + 'static, F: FnMut(&Incoming) -> H + Send> Acceptor for Handlers<F> {
    fn incoming(&mut self, incoming: &Incoming) -> Decision {
        let handler = (self.handlers)(incoming);
        let application = HandlerApplication::new(handler, self.config.clone(), &mut self.random);
        Decision::Accept(Accept {
            application: Box::new(move |_| Box::new(application)),
            observer: None,
        })
    }
}
