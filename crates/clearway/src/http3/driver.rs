//! HTTP/3 in the shard: the part that tasks and handlers have in common.

mod app;
mod feed;
mod progress;
mod stall_check;
mod turn;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use clearway_http3::{Code, Config, Connection as Http3, EarlySettings, Event, QuicStreams, Role};
use clearway_io::Application;
use clearway_transport::{Connection, ConnectionError, Statistics, TransportConfig};
use clearway_units::memory::{OnDemand, Unused};
use clearway_units::{Random, Timestamp};
use http::HeaderMap;

use super::{Error, early};
use crate::ServerConfig;
use crate::postponed_close::PostponedClose;
pub(super) use app::{App, AppTurn, Ending};
use feed::{Feed, Undelivered};
pub use progress::Timeouts;
use progress::Watch;
pub(super) use turn::Turn;

/// The application protocol (ALPN) of HTTP/3 (RFC 9114 §3.1).
pub const PROTOCOL: &[u8] = b"h3";

/// Returns `config`, with datagrams disabled if the transport does not accept them: advertising
/// them anyway can make a peer close the connection.
pub(super) fn supported(config: Config, transport: &TransportConfig) -> Config {
    let datagrams = config.datagrams && transport.max_datagram_frame_size().is_some();
    Config { datagrams, ..config }
}

/// Configures a server for HTTP/3, and binds the settings in `http3` to its session tickets.
pub(super) fn speaking(config: ServerConfig, http3: &Config) -> ServerConfig {
    let settings = Arc::new(EarlySettings::new(http3));
    config.application_protocols([PROTOCOL]).early_data_context(settings)
}

/// How long a server that is shutting down waits for the first request of a client that has just
/// connected. After GOAWAY the client would send no request, and the handshake would be wasted.
const FIRST_REQUEST: Duration = Duration::from_secs(1);

/// Memory estimate for a request in progress, in addition to its content, in bytes: the exchange's
/// state in QUIC and HTTP/3, its header fields, and the task that responds to it. The value was
/// measured with `clearway serve`: 4 KB.
pub(super) const EXCHANGE: u64 = 4 << 10;

/// One connection's application in the shard: moves messages between the protocol and an [`App`].
pub(super) struct Driver<F> {
    core: Core,
    app: F,
}

/// The state of the protocol. The application accesses it only through a [`Turn`].
pub(super) struct Core {
    http3: Http3,
    undelivered: Undelivered,
    /// The time at which the handshake completed with HTTP/3 as the application protocol.
    connected_at: Option<Timestamp>,
    has_said_goaway: bool,
    /// Whether [`Busy::refused`] contains any streams.
    has_refused: bool,
    /// The time at which the handshake completed; `None` once a request has arrived after it.
    unasked_since: Option<Timestamp>,
    /// The time of the next check for streams without progress.
    next_stall_check: Option<Timestamp>,
    /// The time at which to begin a shutdown because of the connection's age, or to continue one
    /// that waits for the first request.
    shutdown_at: Option<Timestamp>,
    postponed: PostponedClose,
    busy: OnDemand<Busy>,
}

/// State that only a busy connection needs.
#[derive(Default)]
struct Busy {
    /// Datagrams that arrived before the event that ends their requests. The vector is kept to
    /// reuse its memory.
    datagrams: Vec<(u64, Bytes)>,
    /// Streams to write to once all events have been processed. The vector is kept to reuse its
    /// memory.
    writable: Vec<u64>,
    /// The trailer sections of messages whose stream has not ended yet.
    trailers: BTreeMap<u64, Box<HeaderMap>>,
    /// The streams of refused requests, which were not passed to the application.
    refused: BTreeSet<u64>,
    watch: Watch,
}

impl Unused for Busy {
    fn unused() -> &'static Self {
        static UNUSED: LazyLock<Busy> = LazyLock::new(Busy::default);
        &UNUSED
    }
}

impl Core {
    fn take_trailers(&mut self, stream: u64) -> Option<Box<HeaderMap>> {
        self.busy.used()?.trailers.remove(&stream)
    }

    fn is_refused(&self, stream: u64) -> bool {
        self.has_refused && self.busy.refused.contains(&stream)
    }

    /// Returns whether no message is in progress and the peer has acknowledged all data.
    fn is_idle(&self) -> bool {
        self.http3.is_idle() && self.undelivered.is_empty()
    }

    /// Frees the memory that only a busy connection needs, since the connection is idle.
    fn compact(&mut self) {
        self.http3.compact();
        if self.next_stall_check.is_none() && self.busy.trailers.is_empty() {
            self.has_refused = false;
            self.busy.release();
        }
    }
}

impl<F> Driver<F> {
    pub(super) fn new(
        role: Role,
        app: F,
        config: impl Into<Arc<Config>>,
        random: &mut Random,
    ) -> Self {
        let core = Core {
            http3: Http3::new(role, config, random),
            undelivered: Undelivered::default(),
            connected_at: None,
            has_said_goaway: false,
            has_refused: false,
            unasked_since: None,
            next_stall_check: None,
            shutdown_at: None,
            postponed: PostponedClose::default(),
            busy: OnDemand::default(),
        };
        Self { core, app }
    }
}

impl<F: App> Application for Driver<F> {
    fn process(&mut self, now: Timestamp, connection: &mut Connection) {
        self.app.begin();
        if connection.is_compacted() {
            self.core.compact();
            self.app.compact();
        }
        let Core { http3, busy, .. } = &mut self.core;
        let mut streams = QuicStreams::new(now, connection);
        if early::is_in_progress(streams.connection()) {
            // SETTINGS are sent first, even before early requests.
            http3.on_streams_available(&mut streams);
        }
        // Datagrams may have arrived before the event that ends their requests.
        while let Some(datagram) = http3.next_datagram_before_streams(&mut streams) {
            busy.datagrams.push(datagram);
        }
        let mut fed = self.core.feed(&mut streams);
        while self.turn(now, connection, core::mem::take(&mut fed)) {}
        self.app.end();
    }

    fn deadline(&self) -> Option<Timestamp> {
        let Core { next_stall_check, shutdown_at, postponed, .. } = &self.core;
        next_stall_check.iter().chain(shutdown_at).copied().chain(postponed.deadline()).min()
    }

    fn held_bytes(&self) -> u64 {
        self.app.held_bytes().saturating_add(self.core.http3.buffered_bytes() as u64)
    }

    fn closed(&mut self, statistics: &Statistics) {
        self.app.closed(statistics);
    }
}

impl<F: App> Driver<F> {
    /// Moves messages in both directions. Returns whether responses were produced afterward, in
    /// which case another turn must follow.
    fn turn(&mut self, now: Timestamp, connection: &mut Connection, fed: Feed) -> bool {
        let turn = Turn::new(&mut self.core, QuicStreams::new(now, connection));
        let running = Running { turn, app: self.app.open(), now, has_requests: false };
        let news = running.run(fed);
        self.app.after(news, connection)
    }
}

/// State of a driver during one turn.
struct Running<'a, O> {
    turn: Turn<'a>,
    app: O,
    now: Timestamp,
    /// Whether a request was passed to the application.
    has_requests: bool,
}

impl<O: AppTurn> Running<'_, O> {
    fn run(mut self, fed: Feed) -> O::News {
        if fed.connected {
            self.connected();
        }
        self.app.begin(&mut self.turn);
        for event in fed.others {
            self.app.path_event(&mut self.turn, event);
        }
        self.deliver_datagrams();
        self.events();
        match fed.closed {
            Some(error) => self.transport_closed(error),
            None => {
                self.app.permitted(&mut self.turn, &fed.writable);
                self.app.changes(&mut self.turn);
                self.events();
                self.check_stalls();
                self.end_if_due();
            }
        }
        self.app.close(&mut self.turn)
    }

    fn connected(&mut self) {
        let Self { turn, app, .. } = self;
        turn.core.unasked_since = Some(self.now);
        if turn.connection().session().application_protocol() == Some(PROTOCOL) {
            turn.core.connected_at = Some(self.now);
            return app.connected(turn);
        }
        self.close(Code::NO_ERROR, "this endpoint requires HTTP/3");
        self.app.ended(Error::WrongProtocol);
    }

    fn close(&mut self, code: Code, reason: &str) {
        let Turn { core, streams, .. } = &mut self.turn;
        core.http3.close(streams, code, reason);
    }

    /// Passes the datagrams that arrived before the streams were read to the application.
    fn deliver_datagrams(&mut self) {
        let Some(busy) = self.turn.core.busy.used() else { return };
        let mut datagrams = core::mem::take(&mut busy.datagrams);
        for (stream, payload) in datagrams.drain(..) {
            self.app.datagram(&mut self.turn, stream, payload);
        }
        self.turn.core.busy.datagrams = datagrams;
    }

    /// Passes the protocol's events to the application.
    fn events(&mut self) {
        // Writing is postponed, since an event that makes a stream writable may be followed by one
        // that ends it.
        let mut writable = match self.turn.core.busy.used() {
            Some(busy) => core::mem::take(&mut busy.writable),
            None => Vec::new(),
        };
        while let Some(event) = self.turn.core.http3.next_event() {
            if !(self.turn.core.has_refused && self.is_of_refused(&event)) {
                self.event(event, &mut writable);
            }
        }
        for stream in writable.drain(..) {
            self.app.writable(&mut self.turn, stream);
        }
        if writable.capacity() > 0 {
            self.turn.core.busy.writable = writable;
        }
        // This covers datagrams for requests that have just arrived, and datagrams that have
        // arrived since.
        let Self { turn, app, .. } = self;
        while let Some((stream, payload)) = turn.core.http3.next_datagram(&mut turn.streams) {
            app.datagram(turn, stream, payload);
        }
    }

    /// Returns whether an event belongs to a request that was not passed to the application.
    fn is_of_refused(&self, event: &Event) -> bool {
        match event {
            Event::Data { stream }
            | Event::Trailers { stream, .. }
            | Event::Finished { stream }
            | Event::Writable { stream }
            | Event::Reset { stream, .. }
            | Event::Stopped { stream, .. }
            | Event::Failed { stream, .. }
            | Event::Priority { stream } => self.turn.core.is_refused(*stream),
            _ => false,
        }
    }

    /// Passes an event to the application. If it makes a stream writable, the stream is added to
    /// `writable`.
    fn event(&mut self, event: Event, writable: &mut Vec<u64>) {
        let Self { turn, app, .. } = self;
        match event {
            Event::Request { stream, mut request } => {
                if turn.is_too_early(stream, &mut request) {
                    turn.core.has_refused = true;
                    turn.core.busy.refused.insert(stream);
                    return;
                }
                self.has_requests = true;
                app.request(turn, stream, request);
            }
            Event::Informational { stream, response } => app.informational(stream, response),
            Event::Response { stream, response } => app.response(stream, response),
            Event::Data { stream } => app.readable(turn, stream),
            Event::Trailers { stream, fields } => {
                turn.core.busy.trailers.insert(stream, Box::new(fields));
            }
            Event::Finished { stream } => {
                let trailers = turn.core.take_trailers(stream);
                app.finished(turn, stream, trailers);
            }
            Event::Writable { stream } => writable.push(stream),
            Event::Reset { stream, code } => {
                turn.core.take_trailers(stream);
                app.reset(turn, stream, code);
            }
            Event::Stopped { stream, code } => app.stopped(turn, stream, code),
            Event::Failed { stream, error } => {
                turn.core.take_trailers(stream);
                app.failed(turn, stream, error);
            }
            Event::Priority { stream } => app.priority(stream, turn.priority(stream)),
            Event::GoAway { .. } => app.going_away(),
            Event::Closed(error) => app.ended(Error::Protocol(error)),
            _ => {}
        }
    }

    /// Passes all data that the transport has received to the application, since the connection has
    /// ended.
    fn transport_closed(&mut self, error: ConnectionError) {
        let Self { turn, app, .. } = self;
        turn.is_draining = true;
        let open: Vec<u64> = turn.core.http3.request_streams().collect();
        for stream in open {
            turn.core.http3.on_readable(&mut turn.streams, stream);
            app.readable(turn, stream);
        }
        self.events();
        self.app.ended(Error::from_connection(error));
        self.turn.core.next_stall_check = None;
        self.turn.core.shutdown_at = None;
    }

    /// Closes the connection if the application has requested it, or if the connection is finishing
    /// and all messages are complete.
    fn end_if_due(&mut self) {
        let Core { unasked_since, shutdown_at, .. } = &mut *self.turn.core;
        let is_patient =
            |since: &Timestamp| !self.has_requests && self.now < *since + FIRST_REQUEST;
        *unasked_since = unasked_since.filter(is_patient);
        *shutdown_at = None;
        let Turn { core, streams, .. } = &mut self.turn;
        let requested = self.app.take_close();
        if let Some((code, reason)) = core.postponed.next(self.now, streams.connection(), requested)
        {
            let reason = core::str::from_utf8(&reason).unwrap_or_default();
            self.close(Code::new(code.get()), reason);
        }
        self.drain_if_old();
        match self.app.ending() {
            Ending::No => return,
            Ending::WhenIdle => {}
            Ending::Shutdown => {
                self.app.give_up_unwanted(&mut self.turn);
                if !self.has_shut_down() {
                    return;
                }
            }
        }
        if self.turn.core.is_idle() && self.app.is_idle() {
            self.close(Code::NO_ERROR, "");
            self.app.ended(Error::Closed);
        }
    }

    /// Begins a graceful shutdown if the connection has reached its maximum age.
    fn drain_if_old(&mut self) {
        let Core { connected_at, shutdown_at, .. } = &mut *self.turn.core;
        let due = connected_at.zip(self.app.max_age()).map(|(since, age)| since + age);
        match due {
            Some(due) if self.now >= due => self.app.drain(),
            due => *shutdown_at = due,
        }
    }

    /// Announces to the peer that the connection is shutting down; a server does so in two steps
    /// (RFC 9114 §5.2). Returns whether all requests that will be accepted have arrived.
    fn has_shut_down(&mut self) -> bool {
        let Turn { core, streams, .. } = &mut self.turn;
        if core.http3.role() == Role::Server {
            core.shutdown_at = core.unasked_since.map(|since| since + FIRST_REQUEST);
            if core.connected_at.is_none() || core.unasked_since.is_some() {
                // The client may already have completed the handshake and sent a request.
                return false;
            }
        }
        if !core::mem::replace(&mut core.has_said_goaway, true) {
            // Before the handshake is complete, no message from the server can be in transit.
            match core.connected_at {
                Some(_) => core.http3.shutdown(streams),
                None => core.http3.goaway(streams),
            }
        }
        core.http3.continue_shutdown(streams)
    }
}
