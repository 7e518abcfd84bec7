//! The HTTP/3 connection, which assigns stream types, and handles shutdown and connection errors.

mod control;
mod datagrams;
mod local_stream;
mod peer_control;
mod priorities;
mod qpack;
mod receive;
mod request_table;
mod requests;
mod send;
mod sending;
mod unidirectional;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, LazyLock};

use bytes::{Bytes, BytesMut};
use clearway_units::Random;
use clearway_units::memory::{OnDemand, Unused};
use http::uri::Authority;

use crate::message::Exchange;
use crate::qpack::{Decoder, Encoder, FieldLines};
use crate::{Code, Config, ConnectionError, Event, Priority, Role, Settings, Transport};
use control::LocalControl;
use local_stream::LocalStream;
use priorities::ExchangePriority;
use qpack::Blocked;
use receive::Receive;
use request_table::RequestTable;
use send::SendPart;
use unidirectional::{Unidirectional, UnidirectionalStreams};

/// The types of the QPACK streams (RFC 9204 §4.2).
const ENCODER_STREAM: u8 = 0x02;
const DECODER_STREAM: u8 = 0x03;

/// One side of an HTTP/3 connection (RFC 9114).
///
/// After each call of an `on_*` method, call [`Connection::next_event`] until it returns `None`.
#[derive(Debug)]
pub struct Connection {
    role: Role,
    config: Arc<Config>,
    control: LocalControl,
    unidirectional: UnidirectionalStreams,
    critical: CriticalStreams,
    requests: RequestTable,
    busy: OnDemand<Busy>,
    decoder: Decoder,
    encoder: Encoder,
    /// The local encoder stream (RFC 9204 §4.2); `None` if the configuration allows no table.
    encoder_stream: Option<LocalStream>,
    /// The local decoder stream; `None` if the configuration allows no table.
    decoder_stream: Option<LocalStream>,
    /// Number of bytes of incomplete and blocked field sections buffered on all streams.
    buffered: usize,
    /// Number of additional requests that the peer may waste; see
    /// [`Config::max_cancelled_requests`].
    waste_left: u32,
    peer_settings: Option<Settings>,
    peer_goaway: Option<u64>,
    peer_max_push_id: Option<u64>,
    /// The lowest request stream ID that has not been accepted yet (server).
    next_request: u64,
    error: Option<ConnectionError>,
    closed: bool,
    /// Set when the owner of the QUIC connection has reported that it is gone.
    transport_is_closed: bool,
}

/// State that only a busy connection needs.
#[derive(Debug, Default)]
struct Busy {
    events: VecDeque<Event>,
    /// Request streams whose field section waits for dynamic table entries.
    blocked: BTreeMap<u64, Blocked>,
    /// Priorities for requests that have not arrived yet.
    early_priorities: BTreeMap<u64, Priority>,
    /// Datagrams for requests that have not arrived yet.
    early_datagrams: VecDeque<(u64, Bytes)>,
    /// Buffer for the fields of a section to send, kept to reuse its memory.
    lines: FieldLines,
    /// Buffer for encoded field sections, kept to reuse its memory.
    section: Vec<u8>,
    /// Shared allocation for short HEADERS frames, DATA frame headers and QPACK instructions.
    scratch: BytesMut,
    /// The authority of the last received request: most requests on a connection have the same one.
    authority: Option<Authority>,
}

impl Unused for Busy {
    fn unused() -> &'static Self {
        static UNUSED: LazyLock<Busy> = LazyLock::new(Busy::default);
        &UNUSED
    }
}

impl Busy {
    fn is_empty(&self) -> bool {
        self.events.is_empty()
            && self.blocked.is_empty()
            && self.early_priorities.is_empty()
            && self.early_datagrams.is_empty()
    }
}

/// The peer's streams of types that may exist only once (RFC 9114 §6.2.1, RFC 9204 §4.2).
#[derive(Debug, Default)]
struct CriticalStreams {
    control: Option<u64>,
    encoder: Option<u64>,
    decoder: Option<u64>,
}

/// One request with its response.
#[derive(Debug)]
struct RequestStream {
    receive: Receive,
    send: SendPart,
    exchange: Exchange,
    /// Whether the request was reported to the application.
    shown: bool,
    /// Whether `Event::Data` was reported and `read_body` has not returned `None` since.
    data_reported: bool,
    informational_responses: u32,
    priority: ExchangePriority,
    /// Whether the peer wasted the request, in which case it does not count as completed.
    is_wasted: bool,
}

/// An error caused by received data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    Connection(ConnectionError),
    Stream(crate::StreamError),
    /// A field section exceeds the advertised limit.
    TooLarge,
}

impl From<ConnectionError> for Fault {
    fn from(error: ConnectionError) -> Self {
        Self::Connection(error)
    }
}

impl From<crate::StreamError> for Fault {
    fn from(error: crate::StreamError) -> Self {
        Self::Stream(error)
    }
}

impl Connection {
    /// Creates a connection. The transport's handshake may still be in progress. `random`
    /// determines the reserved values that are sent if [`Config::grease`] is set. Connections can
    /// share a `config`.
    pub fn new(role: Role, config: impl Into<Arc<Config>>, random: &mut Random) -> Self {
        let config = config.into();
        Self {
            role,
            control: LocalControl::new(role, &config, random),
            unidirectional: UnidirectionalStreams::default(),
            critical: CriticalStreams::default(),
            requests: RequestTable::default(),
            busy: OnDemand::default(),
            decoder: Decoder::new(config.qpack_max_table_capacity),
            encoder: Encoder::default(),
            encoder_stream: (config.qpack_encoder_table_capacity > 0)
                .then(|| LocalStream::new(vec![ENCODER_STREAM])),
            decoder_stream: (config.qpack_max_table_capacity > 0)
                .then(|| LocalStream::new(vec![DECODER_STREAM])),
            buffered: 0,
            waste_left: config.max_cancelled_requests,
            peer_settings: None,
            peer_goaway: None,
            peer_max_push_id: None,
            next_request: 0,
            error: None,
            closed: false,
            transport_is_closed: false,
            config,
        }
    }

    /// Returns the next event; `None` if there are no more until another method is called.
    pub fn next_event(&mut self) -> Option<Event> {
        let event = self.busy.used().and_then(|busy| busy.events.pop_front());
        if let Some(Event::Priority { stream }) = &event
            && let Some(entry) = self.requests.get_mut(stream)
        {
            entry.priority.is_reported = false;
        }
        event
    }

    /// Frees the memory that only a busy connection needs. Call this when the connection has been
    /// idle for some time; the memory is allocated again when needed.
    pub fn compact(&mut self) {
        if self.busy.is_empty() {
            self.busy.release();
        }
        self.requests.compact();
        self.unidirectional.compact();
        self.encoder.compact();
        self.decoder.compact();
        self.control.stream.compact();
        self.encoder_stream.iter_mut().for_each(LocalStream::compact);
        self.decoder_stream.iter_mut().for_each(LocalStream::compact);
    }

    /// Returns the number of bytes of field sections that are buffered because they are incomplete
    /// or wait for entries of the QPACK dynamic table.
    pub fn buffered_bytes(&self) -> usize {
        self.buffered
    }

    /// Returns this endpoint's role: client or server.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Returns the peer's SETTINGS, once they have arrived.
    pub fn peer_settings(&self) -> Option<&Settings> {
        self.peer_settings.as_ref()
    }

    /// Returns whether no request is in progress, in which case a connection that is shutting down
    /// can be closed.
    pub fn is_idle(&self) -> bool {
        self.requests.is_empty()
    }

    /// Returns whether the header section of the request on `stream` has not arrived yet (server).
    pub fn awaits_request(&self, stream: u64) -> bool {
        let request = self.requests.get(&stream);
        request.is_some_and(|request| !request.shown && !request.receive.is_ended())
    }

    /// Returns whether the peer's message on `stream` is still incomplete after its header section.
    /// A tunnel counts as complete at any time.
    pub fn awaits_content(&self, stream: u64) -> bool {
        let request = self.requests.get(&stream);
        request.is_some_and(|request| {
            request.shown && !request.receive.is_ended() && !request.exchange.is_tunnel()
        })
    }

    /// Returns whether the final response on `stream` can be sent and has not begun (server).
    pub fn awaits_response(&self, stream: u64) -> bool {
        let request = self.requests.get(&stream);
        request.is_some_and(|request| request.send.check_leading().is_ok())
    }

    /// Returns the streams of the requests in progress.
    pub fn request_streams(&self) -> impl Iterator<Item = u64> + '_ {
        self.requests.streams()
    }

    /// Returns whether the connection was closed, either by [`Connection::close`] or because of an
    /// error by the peer.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Returns the connection error that closed the connection, if the peer caused one.
    pub fn error(&self) -> Option<ConnectionError> {
        self.error
    }

    /// Reports that the transport can send, or that the peer allows more streams than before. Call
    /// this as soon as the transport is ready, since SETTINGS are sent first (RFC 9114 §7.2.4.2).
    pub fn on_streams_available<T: Transport + ?Sized>(&mut self, transport: &mut T) {
        if !self.closed
            && let Err(error) = self.open_streams(transport)
        {
            self.fail(transport, error);
        }
    }

    /// Reports that the peer has opened streams. Accepts and reads all of them.
    pub fn on_streams_arrived<T: Transport + ?Sized>(&mut self, transport: &mut T) {
        while !self.closed
            && let Some(stream) = transport.accept_unidirectional()
        {
            self.unidirectional.insert(stream, Unidirectional::default());
            self.drive_unidirectional(transport, stream);
        }
        while !self.closed
            && let Some(stream) = transport.accept_bidirectional()
        {
            self.accept_request(transport, stream);
        }
        self.flush_feedback(transport);
    }

    /// Reports that there is something to read on `stream`: data, its end, or a reset.
    pub fn on_readable<T: Transport + ?Sized>(&mut self, transport: &mut T, stream: u64) {
        if self.requests.contains(stream) {
            self.drive_request(transport, stream);
            self.notice_reset(transport, stream);
        } else if self.unidirectional.contains(stream) {
            self.drive_unidirectional(transport, stream);
        }
        self.flush_feedback(transport);
    }

    /// Reports that `stream` is writable again.
    pub fn on_writable<T: Transport + ?Sized>(&mut self, transport: &mut T, stream: u64) {
        if self.closed {
            return;
        }
        if let Some(local) = self.local_stream(stream) {
            if let Err(error) = local.flush(transport) {
                self.fail(transport, error);
            }
        } else {
            self.flush_request(transport, stream);
        }
    }

    /// Reports that the peer sent STOP_SENDING for `stream` (RFC 9000 §3.5).
    pub fn on_stopped<T: Transport + ?Sized>(&mut self, transport: &mut T, stream: u64, code: u64) {
        if self.closed {
            return;
        }
        if self.local_stream(stream).is_some() {
            self.fail(
                transport,
                ConnectionError::new(
                    Code::CLOSED_CRITICAL_STREAM,
                    "the peer sent STOP_SENDING for a control or QPACK stream",
                ),
            );
        } else {
            self.request_stopped(transport, stream, Code::new(code));
        }
    }

    /// Reports that the QUIC connection is gone. Call this before
    /// [`on_readable`](Self::on_readable) for data that arrived together with the end.
    ///
    /// Messages truncated by the end of the connection are not reported as reset, since the owner
    /// learns from the connection itself that it has ended. Data that arrived earlier can still be
    /// read, and messages that arrived completely or were reset earlier are reported.
    pub fn on_transport_closed(&mut self) {
        self.transport_is_closed = true;
    }

    /// Returns whether `stream`, on which reading has failed, ended with the QUIC connection and
    /// was not reset earlier.
    fn is_cut_off<T: Transport + ?Sized>(&self, transport: &mut T, stream: u64) -> bool {
        self.transport_is_closed && transport.read(stream, 0).is_ok()
    }

    /// Closes the connection, usually with [`Code::NO_ERROR`], and abandons all requests.
    pub fn close<T: Transport + ?Sized>(&mut self, transport: &mut T, code: Code, reason: &str) {
        if !self.closed {
            self.release();
            transport.close(code.get(), reason);
        }
    }

    /// Closes the connection because of an error by the peer (RFC 9114 §8).
    fn fail<T: Transport + ?Sized>(&mut self, transport: &mut T, error: ConnectionError) {
        if !self.closed {
            self.release();
            self.error = Some(error);
            self.busy.events.push_back(Event::Closed(error));
            transport.close(error.code.get(), error.reason);
        }
    }

    fn release(&mut self) {
        self.closed = true;
        self.requests.clear();
        self.unidirectional.clear();
        self.busy.blocked.clear();
        self.busy.early_priorities.clear();
        self.busy.early_datagrams.clear();
        self.buffered = 0;
    }
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
