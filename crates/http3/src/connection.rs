//! An HTTP/3 connection: its streams, and the errors that end it.

mod control;
mod peer_control;
mod receive;
mod requests;
mod send;
mod sending;
mod unidirectional;

use std::collections::{BTreeMap, VecDeque};

use bytes::BytesMut;
use clearway_units::Random;

use crate::message::Exchange;
use crate::qpack::Decoder;
use crate::{Code, Config, ConnectionError, Event, Settings, Transport};
use control::LocalControl;
use receive::Receive;
use send::SendPart;
use unidirectional::Unidirectional;

/// Which side of the connection this endpoint is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Sends requests.
    Client,
    /// Answers them.
    Server,
}

/// One side of an HTTP/3 connection (RFC 9114).
///
/// After each of the `on_*` verbs, ask [`Connection::next_event`] until it has nothing more.
#[derive(Debug)]
pub struct Connection {
    role: Role,
    config: Config,
    control: LocalControl,
    unidirectional: BTreeMap<u64, Unidirectional>,
    critical: CriticalStreams,
    requests: BTreeMap<u64, RequestStream>,
    events: VecDeque<Event>,
    decoder: Decoder,
    /// Where the headers of our DATA frames are cut from.
    scratch: BytesMut,
    /// Bytes of incomplete field sections on all streams.
    buffered: usize,
    /// How many more requests the peer may spoil.
    spoilable: u32,
    peer_settings: Option<Settings>,
    peer_goaway: Option<u64>,
    peer_max_push_id: Option<u64>,
    /// The lowest request stream that was not accepted (server).
    next_request: u64,
    error: Option<ConnectionError>,
    closed: bool,
    /// The owner has reported that the QUIC connection has ended.
    transport_is_closed: bool,
}

/// The peer's streams of which there can only be one (RFC 9114 §6.2.1, RFC 9204 §4.2).
#[derive(Debug, Default)]
struct CriticalStreams {
    control: Option<u64>,
    encoder: Option<u64>,
    decoder: Option<u64>,
}

/// One request and its response.
#[derive(Debug)]
struct RequestStream {
    receive: Receive,
    send: SendPart,
    exchange: Exchange,
    /// Whether the application knows of it.
    shown: bool,
    /// Whether `Event::Data` was returned and `read_body` has not returned `None` since.
    data_told: bool,
    informational_responses: u32,
    /// Whether the peer spoiled it, so that it does not count as completed.
    spoiled: bool,
}

/// What was wrong with something received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    Connection(ConnectionError),
    Stream(crate::StreamError),
    /// A field section is larger than we accept.
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
    /// A connection whose transport may still be shaking hands. `random` decides the reserved
    /// values that are sent if [`Config::grease`] is set.
    pub fn new(role: Role, config: Config, random: &mut Random) -> Self {
        Self {
            role,
            control: LocalControl::new(&config, random),
            unidirectional: BTreeMap::new(),
            critical: CriticalStreams::default(),
            requests: BTreeMap::new(),
            events: VecDeque::new(),
            decoder: Decoder::default(),
            scratch: BytesMut::new(),
            buffered: 0,
            spoilable: config.max_cancelled_requests,
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

    /// What happened next. `None`: nothing until the next call of another verb.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Which side this is.
    pub fn role(&self) -> Role {
        self.role
    }

    /// The peer's SETTINGS, once they have arrived.
    pub fn peer_settings(&self) -> Option<&Settings> {
        self.peer_settings.as_ref()
    }

    /// Whether no request is in progress, so that a connection that is shutting down can be closed.
    pub fn is_idle(&self) -> bool {
        self.requests.is_empty()
    }

    /// Whether the header section of the request on `stream` has not come yet (server).
    pub fn awaits_request(&self, stream: u64) -> bool {
        let request = self.requests.get(&stream);
        request.is_some_and(|request| !request.shown && !request.receive.is_ended())
    }

    /// The streams of the requests in progress.
    pub fn request_streams(&self) -> impl Iterator<Item = u64> + '_ {
        self.requests.keys().copied()
    }

    /// Whether the connection was closed, by [`Connection::close`] or because of the peer.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Why the connection was closed, if the peer was at fault.
    pub fn error(&self) -> Option<ConnectionError> {
        self.error
    }

    /// The transport can send, or the peer allows more streams than before. To be called as soon as
    /// the transport is ready, since SETTINGS go out first (RFC 9114 §7.2.4.2).
    pub fn on_streams_available<T: Transport + ?Sized>(&mut self, transport: &mut T) {
        if !self.closed
            && let Err(error) = self.control.start(transport)
        {
            self.fail(transport, error);
        }
    }

    /// The peer opened streams: accepts and reads all of them.
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
    }

    /// There is something to read on `stream`: data, its end, or its reset.
    pub fn on_readable<T: Transport + ?Sized>(&mut self, transport: &mut T, stream: u64) {
        if self.requests.contains_key(&stream) {
            self.drive_request(transport, stream);
            self.notice_reset(transport, stream);
        } else if self.unidirectional.contains_key(&stream) {
            self.drive_unidirectional(transport, stream);
        }
    }

    /// `stream` takes data again.
    pub fn on_writable<T: Transport + ?Sized>(&mut self, transport: &mut T, stream: u64) {
        if self.closed {
            return;
        }
        if self.control.owns(stream) {
            if let Err(error) = self.control.flush(transport) {
                self.fail(transport, error);
            }
        } else {
            self.flush_request(transport, stream);
        }
    }

    /// The peer asked us to stop sending on `stream` (RFC 9000 §3.5).
    pub fn on_stopped<T: Transport + ?Sized>(&mut self, transport: &mut T, stream: u64, code: u64) {
        if self.closed {
            return;
        }
        if self.control.owns(stream) {
            self.fail(
                transport,
                ConnectionError::new(
                    Code::CLOSED_CRITICAL_STREAM,
                    "the peer does not read our control stream",
                ),
            );
        } else {
            self.request_stopped(transport, stream, Code::new(code));
        }
    }

    /// The QUIC connection is gone, as its owner knows better than any stream: a message that this cut off
    /// is not reported as reset. What came before can still be read, and messages that came whole are.
    pub fn on_transport_closed(&mut self) {
        self.transport_is_closed = true;
    }

    /// Closes the connection, which abandons all requests. Usually with [`Code::NO_ERROR`].
    pub fn close<T: Transport + ?Sized>(&mut self, transport: &mut T, code: Code, reason: &str) {
        if !self.closed {
            self.release();
            transport.close(code.get(), reason);
        }
    }

    /// Closes the connection because of the peer (RFC 9114 §8).
    fn fail<T: Transport + ?Sized>(&mut self, transport: &mut T, error: ConnectionError) {
        if !self.closed {
            self.release();
            self.error = Some(error);
            self.events.push_back(Event::Closed(error));
            transport.close(error.code.get(), error.reason);
        }
    }

    fn release(&mut self) {
        self.closed = true;
        self.requests.clear();
        self.unidirectional.clear();
        self.buffered = 0;
    }
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
