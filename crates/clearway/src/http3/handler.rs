//! HTTP/3 servers inside the shard.

use core::net::SocketAddr;
use std::collections::BTreeMap;

use bytes::{Buf, Bytes};
use clearway_http3::{
    Code, Config, Connection as Http3, DatagramError, Event, Priority, QuicStreams, Role, SendError,
};
use clearway_io::{Accept, Acceptor, Application, Decision};
use clearway_transport::{Connection, Incoming, Statistics};
use clearway_units::{Random, Timestamp};
use http::{HeaderMap, Request, Response};
use rustls::pki_types::CertificateDer;

use super::driver::{EXCHANGE, speaking, supported};
use super::early;
use super::exchanges::{continue_response, expects_continue};
use super::feed::{Undelivered, feed};
use crate::{Endpoint, EndpointError, ServerConfig};

/// How much content is pulled from a source, or read from the transport, at once, in bytes.
const CHUNK: usize = 256 << 10;

/// After a first content of at most this many bytes, a source is asked at once whether it has more.
const SHORT: usize = 16 << 10;

/// Answers the requests of one connection inside the shard. Its methods must not block.
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

    /// A request was cut off or malformed, or its client has stopped reading the response. The response continues if
    /// the transport can still send it.
    fn failed(&mut self, stream: u64, code: Code) {
        let _ = (stream, code);
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
    exchanges: &'a mut Exchanges,
    streams: QuicStreams<'a>,
    id: u64,
}

impl RequestStream<'_> {
    /// The QUIC stream ID, which identifies the request on its connection.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The client's current address.
    pub fn remote_address(&self) -> SocketAddr {
        self.streams.connection().remote_address()
    }

    /// The client's certificate chain, its own certificate first, if the server asks for it
    /// ([`ServerConfig::client_certificates`](crate::ServerConfig::client_certificates)) and the client has one. It was
    /// verified.
    pub fn peer_identity(&self) -> Option<&[CertificateDer<'static>]> {
        self.streams.connection().session().peer_certificates()
    }

    /// Sends an interim response (1xx, but not 101).
    ///
    /// # Errors
    /// If it would be malformed, or the client has stopped reading the response.
    pub fn inform(&mut self, response: &Response<()>) -> Result<(), SendError> {
        self.exchanges.http3.send_informational(&mut self.streams, self.id, response)
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
        let Self { exchanges, streams, id } = self;
        let Some(source) = body else {
            exchanges.http3.send_response(streams, *id, response, true)?;
            exchanges.undelivered.add(*id);
            return Ok(());
        };
        // The first content goes with the header section, in one write; the end, too, if it is known already.
        let mut body = Outgoing::new(source);
        body.prepare();
        let (first, is_last) = (body.rest.clone(), body.is_last());
        let (taken, is_over) =
            exchanges.http3.send_response_with(streams, *id, response, first, is_last)?;
        if is_over {
            exchanges.undelivered.add(*id);
        } else {
            body.rest.advance(taken.min(body.rest.len()));
            exchanges.bodies.insert(*id, body);
            exchanges.pull(streams, *id);
        }
        Ok(())
    }

    /// The priority of the response (RFC 9218): what the client asks for, changed by what was decided here.
    pub fn priority(&self) -> Priority {
        self.exchanges.http3.priority(self.id).unwrap_or_default()
    }

    /// Decides the priority of the response, whatever the client asks for.
    pub fn set_priority(&mut self, priority: Priority) {
        // An exchange that has ended needs no priority.
        let _ = self.exchanges.http3.set_priority(&mut self.streams, self.id, priority);
    }

    /// Sends a datagram that belongs to this extended CONNECT request (RFC 9297).
    ///
    /// # Errors
    /// If it cannot be sent; see [`DatagramError`].
    pub fn send_datagram(&mut self, payload: &[u8]) -> Result<(), DatagramError> {
        self.exchanges.http3.send_datagram(&mut self.streams, self.id, payload)
    }

    /// Stops reading the rest of the request; with [`Code::NO_ERROR`] if the response does not depend on it
    /// (RFC 9114 §4.1).
    pub fn stop(&mut self, code: Code) {
        self.exchanges.http3.stop(&mut self.streams, self.id, code);
    }

    /// Shuts the connection down gracefully: asks the client to send no more requests, accepts those that were in transit
    /// for a round trip, says which ones were accepted (two GOAWAY frames, RFC 9114 §5.2), and closes the connection when
    /// they are answered.
    pub fn shut_down_connection(&mut self) {
        self.exchanges.is_finishing = true;
    }

    /// Resets the response.
    pub fn reset(&mut self, code: Code) {
        let Exchanges { http3, bodies, undelivered, .. } = &mut *self.exchanges;
        bodies.remove(&self.id);
        undelivered.reset(http3, &mut self.streams, self.id, code);
    }
}

impl core::fmt::Debug for RequestStream<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("RequestStream").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The exchanges of one connection.
struct Exchanges {
    http3: Http3,
    bodies: BTreeMap<u64, Outgoing>,
    trailers: BTreeMap<u64, HeaderMap>,
    undelivered: Undelivered,
    /// The connection is to be closed when the exchanges in progress are complete.
    is_finishing: bool,
    has_said_goaway: bool,
}

/// A body that is being sent.
struct Outgoing {
    source: Box<dyn BodySource>,
    /// What was pulled from the source and the transport has not taken.
    rest: Bytes,
    /// What was pulled after it.
    following: Bytes,
    /// The source has ended, with these trailers.
    end: Option<Option<HeaderMap>>,
}

impl Exchanges {
    fn stream<'a>(&'a mut self, streams: &'a mut QuicStreams<'_>, id: u64) -> RequestStream<'a> {
        RequestStream { exchanges: self, streams: streams.reborrow(), id }
    }

    /// Sends the body on `stream`, as far as the transport accepts it.
    fn pull(&mut self, streams: &mut QuicStreams<'_>, stream: u64) {
        let Some(body) = self.bodies.get_mut(&stream) else { return };
        match body.pull(&mut self.http3, streams, stream) {
            Ok(false) => {}
            Ok(true) => {
                self.bodies.remove(&stream);
                self.undelivered.add(stream);
            }
            Err(_) => {
                // No effect if the client or the transport has ended the stream.
                self.undelivered.reset(&mut self.http3, streams, stream, Code::INTERNAL_ERROR);
                self.bodies.remove(&stream);
            }
        }
    }
}

impl Exchanges {
    /// Continues a shutdown, if one was begun.
    fn finish(&mut self, streams: &mut QuicStreams<'_>) {
        if !self.is_finishing {
            return;
        }
        if !core::mem::replace(&mut self.has_said_goaway, true) {
            self.http3.shutdown(streams);
        }
        let is_last = self.http3.continue_shutdown(streams);
        if is_last && self.http3.is_idle() && self.undelivered.is_empty() {
            self.http3.close(streams, Code::NO_ERROR, "");
        }
    }
}

impl Outgoing {
    fn new(source: Box<dyn BodySource>) -> Self {
        Self { source, rest: Bytes::new(), following: Bytes::new(), end: None }
    }

    /// Pulls the first content, and if it is short, finds out whether more follows.
    fn prepare(&mut self) {
        self.rest = self.next();
        if self.end.is_none() && self.rest.len() <= SHORT {
            self.following = self.next();
        }
    }

    /// Whether nothing follows what was pulled last, not even trailers.
    fn is_last(&self) -> bool {
        matches!(self.end, Some(None)) && self.following.is_empty()
    }

    /// The next content; none at the end, which is noted.
    fn next(&mut self) -> Bytes {
        if !self.following.is_empty() {
            return core::mem::take(&mut self.following);
        }
        if self.end.is_some() {
            return Bytes::new();
        }
        let next = self.source.next(CHUNK).unwrap_or_default();
        if next.is_empty() {
            self.end = Some(self.source.trailers());
        }
        next
    }

    /// Sends content, as far as the transport accepts it. Returns whether everything was sent.
    fn pull(
        &mut self,
        http3: &mut Http3,
        streams: &mut QuicStreams<'_>,
        stream: u64,
    ) -> Result<bool, SendError> {
        loop {
            if self.rest.is_empty() {
                self.rest = self.next();
                if self.rest.is_empty() {
                    break;
                }
            }
            let taken = http3.send_body(streams, stream, self.rest.clone())?;
            self.rest.advance(taken.min(self.rest.len()));
            if !self.rest.is_empty() {
                return Ok(false);
            }
        }
        if let Some(trailers) = self.end.take().flatten() {
            http3.send_trailers(streams, stream, &trailers)?;
        }
        http3.finish(streams, stream)?;
        Ok(true)
    }
}

/// The [`Application`] that runs a [`Handler`].
pub struct HandlerApplication<H> {
    handler: H,
    exchanges: Exchanges,
}

impl<H: Handler> HandlerApplication<H> {
    /// The application of one connection of a server. `random` determines what [`Config::grease`] sends.
    pub fn new(handler: H, config: Config, random: &mut Random) -> Self {
        let http3 = Http3::new(Role::Server, config, random);
        let exchanges = Exchanges {
            http3,
            bodies: BTreeMap::new(),
            trailers: BTreeMap::new(),
            undelivered: Undelivered::default(),
            is_finishing: false,
            has_said_goaway: false,
        };
        Self { handler, exchanges }
    }
}

impl<H: Handler> Application for HandlerApplication<H> {
    fn process(&mut self, now: Timestamp, connection: &mut Connection) {
        if connection.is_resting() {
            self.exchanges.http3.rest();
        }
        let mut streams = QuicStreams::new(now, connection);
        if early::is_in_progress(streams.connection()) {
            self.exchanges.http3.on_streams_available(&mut streams);
        }
        // They may have come before what ends their requests.
        while let Some((stream, data)) =
            self.exchanges.http3.next_datagram_before_streams(&mut streams)
        {
            self.handler.datagram(&mut self.exchanges.stream(&mut streams, stream), data);
        }
        let Exchanges { http3, undelivered, .. } = &mut self.exchanges;
        feed(http3, &mut streams, |stream| undelivered.remove(stream));
        while let Some(event) = self.exchanges.http3.next_event() {
            self.event(&mut streams, event);
        }
        while let Some((stream, data)) = self.exchanges.http3.next_datagram(&mut streams) {
            self.handler.datagram(&mut self.exchanges.stream(&mut streams, stream), data);
        }
        self.exchanges.finish(&mut streams);
    }

    fn held_bytes(&self) -> u64 {
        let Exchanges { http3, bodies, .. } = &self.exchanges;
        let pulled: usize =
            bodies.values().map(|body| body.rest.len() + body.following.len()).sum();
        let content = http3.buffered_bytes().saturating_add(pulled) as u64;
        content.saturating_add((bodies.len() as u64).saturating_mul(EXCHANGE))
    }

    fn closed(&mut self, statistics: &Statistics) {
        self.handler.closed(statistics);
    }
}

impl<H: Handler> HandlerApplication<H> {
    fn event(&mut self, streams: &mut QuicStreams<'_>, event: Event) {
        match event {
            Event::Request { stream, mut request } => {
                if early::is_refused(streams, &mut self.exchanges.http3, stream, &mut request) {
                    return;
                }
                let is_asked_for = expects_continue(&request);
                self.handler.request(&mut self.exchanges.stream(streams, stream), request);
                if is_asked_for {
                    // Not after a response, since the content is not needed then.
                    let begin = continue_response();
                    let _ = self.exchanges.http3.send_informational(streams, stream, &begin);
                }
            }
            Event::Data { stream } => {
                while let Some(content) = self.exchanges.http3.read_body(streams, stream, CHUNK) {
                    self.handler.data(&mut self.exchanges.stream(streams, stream), content);
                }
            }
            Event::Trailers { stream, fields } => {
                self.exchanges.trailers.insert(stream, fields);
            }
            Event::Finished { stream } => {
                let trailers = self.exchanges.trailers.remove(&stream);
                self.handler.finished(&mut self.exchanges.stream(streams, stream), trailers);
            }
            Event::Writable { stream } => self.exchanges.pull(streams, stream),
            Event::Reset { stream, code } => {
                self.exchanges.trailers.remove(&stream);
                self.handler.failed(stream, code);
            }
            Event::Stopped { stream, code } => {
                self.exchanges.bodies.remove(&stream);
                self.handler.failed(stream, code);
            }
            Event::Failed { stream, error } => {
                self.exchanges.bodies.remove(&stream);
                self.exchanges.trailers.remove(&stream);
                self.handler.failed(stream, error.code);
            }
            Event::Closed(_) => self.exchanges.bodies.clear(),
            _ => {}
        }
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
