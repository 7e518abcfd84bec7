//! HTTP/3 inside the shard, on behalf of tasks.

use core::net::SocketAddr;
use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use clearway_http3::{Config, Connection as Http3, EarlySettings, QuicStreams, Role};
use clearway_io::Application;
use clearway_transport::{Connection, Statistics, TransportConfig};
use clearway_units::{Random, Timestamp};

use super::batch::Batch;
use super::early;
use super::exchanges::{Effects, Failure, Shared, Totals};
use super::feed::{Feed, Undelivered, feed};
use super::progress::Watch;
use super::{Error, ResponseFailure};
use crate::ServerConfig;

/// The application protocol (ALPN) of HTTP/3 (RFC 9114 §3.1).
pub const PROTOCOL: &[u8] = b"h3";

/// `config`, without datagrams if the transport does not accept them: a peer may refuse to be told otherwise.
pub(super) fn supported(config: Config, transport: &TransportConfig) -> Config {
    let datagrams = config.datagrams && transport.max_datagram_frame_size().is_some();
    Config { datagrams, ..config }
}

/// The configuration of a server that speaks HTTP/3 with these settings, and binds them to its
/// sessions.
pub(super) fn speaking(config: ServerConfig, http3: &Config) -> ServerConfig {
    let settings = Arc::new(EarlySettings::new(http3));
    config.application_protocols([PROTOCOL]).early_data_context(settings)
}

/// How long a server that shuts down waits for the first request of a client that has just connected: after GOAWAY the
/// client would make none, and have connected in vain. An idle connection rests by then, so that the driver runs again.
pub(super) const FIRST_REQUEST: Duration = Duration::from_secs(1);

/// What a request in progress counts beside its content, in bytes: the states of its exchange in both protocols, its header fields,
/// and the task that answers it. With those of `clearway serve` it is 4 KB.
pub(super) const EXCHANGE: u64 = 4 << 10;

/// Is notified of a connection's requests and of its end.
pub(super) trait Listener: Send {
    /// Whether requests are answered while their connection is processed, so that it has to be processed again.
    fn answers_here(&self) -> bool;

    /// Requests wait in `shared`.
    fn on_requests(&mut self, shared: &Arc<Shared>);

    /// A response has failed because of this end.
    fn on_failure(&self, failure: &ResponseFailure);

    /// The connection is gone.
    fn on_gone(&mut self);
}

/// One connection's application in the shard: it moves messages between the protocol and the tasks' queues.
pub(super) struct Driver {
    http3: Http3,
    undelivered: Undelivered,
    shared: Arc<Shared>,
    /// What waits between the protocol and the tasks.
    totals: Totals,
    /// The exchanges that the protocol or a task still needs.
    exchanges: u64,
    listener: Option<Box<dyn Listener>>,
    has_said_goaway: bool,
    /// When the handshake was complete, until the first request.
    unasked_since: Option<Timestamp>,
    watch: Watch,
    /// Kept to reuse its memory.
    effects: Effects,
    /// Kept to reuse its memory.
    changed: Vec<usize>,
    /// Left set by a panic.
    is_processing: bool,
}

impl Driver {
    pub(super) fn client(shared: Arc<Shared>, config: Arc<Config>, random: &mut Random) -> Self {
        Self::new(Role::Client, shared, None, config, random)
    }

    pub(super) fn server(
        shared: Arc<Shared>,
        listener: Box<dyn Listener>,
        config: Arc<Config>,
        random: &mut Random,
    ) -> Self {
        Self::new(Role::Server, shared, Some(listener), config, random)
    }

    fn new(
        role: Role,
        shared: Arc<Shared>,
        listener: Option<Box<dyn Listener>>,
        config: Arc<Config>,
        random: &mut Random,
    ) -> Self {
        let totals = shared.lock().face.totals.clone();
        Self {
            http3: Http3::new(role, config, random),
            totals,
            exchanges: 0,
            undelivered: Undelivered::default(),
            shared,
            listener,
            has_said_goaway: false,
            unasked_since: None,
            watch: Watch::default(),
            effects: Effects::default(),
            changed: Vec::new(),
            is_processing: false,
        }
    }
}

impl Driver {
    /// The connection rests: gives back the memory that only a busy connection needs.
    fn rest(&mut self) {
        self.http3.rest();
        self.effects = Effects::default();
        self.changed = Vec::new();
        let mut state = self.shared.lock();
        state.rest();
        if self.listener.is_some() {
            // No task of a server asks for them.
            state.statistics = None;
        }
    }
}

impl Application for Driver {
    fn process(&mut self, now: Timestamp, connection: &mut Connection) {
        self.is_processing = true;
        if connection.is_resting() {
            self.rest();
            self.unasked_since = None;
        }
        let mut streams = QuicStreams::new(now, connection);
        if early::is_in_progress(streams.connection()) {
            // SETTINGS come first, also of what is sent early.
            self.http3.on_streams_available(&mut streams);
        }
        // They may have come before what ends their requests.
        let datagrams: Vec<_> =
            core::iter::from_fn(|| self.http3.next_datagram_before_streams(&mut streams)).collect();
        let mut datagrams = datagrams.into_iter();
        let mut fed = feed(&mut self.http3, &mut streams, |stream| self.undelivered.remove(stream));
        while self.exchange(now, connection, core::mem::take(&mut fed), &mut datagrams) {}
        self.effects.carry_out(&self.shared);
        self.is_processing = false;
    }

    fn held_bytes(&self) -> u64 {
        let content = self.totals.bytes().saturating_add(self.http3.buffered_bytes()) as u64;
        content.saturating_add(self.exchanges.saturating_mul(EXCHANGE))
    }

    fn closed(&mut self, statistics: &Statistics) {
        self.shared.lock().statistics = Some(Box::new(*statistics));
    }
}

impl Driver {
    /// Moves messages in both directions. Returns whether tasks have then answered requests, so that there is more to move.
    fn exchange(
        &mut self,
        now: Timestamp,
        connection: &mut Connection,
        fed: Feed,
        datagrams: impl Iterator<Item = (u64, Bytes)>,
    ) -> bool {
        let mut state = self.shared.lock();
        state.is_attended = false;
        let mut batch = Batch {
            http3: &mut self.http3,
            undelivered: &mut self.undelivered,
            streams: QuicStreams::new(now, connection),
            state: &mut state,
            effects: &mut self.effects,
            has_said_goaway: &mut self.has_said_goaway,
            has_requests: false,
            unasked_since: &mut self.unasked_since,
            is_draining: false,
        };
        if fed.connected {
            *batch.unasked_since = Some(now);
            batch.on_connected();
        }
        batch.note_early_data();
        for event in fed.others {
            batch.state.on_path_event(event, batch.effects);
        }
        batch.deliver(datagrams);
        batch.events();
        match fed.closed {
            Some(error) => batch.on_closed(error),
            None => {
                batch.permit(&fed.writable);
                batch.changes(&mut self.changed);
                batch.share_returned_credit();
                batch.open_waiting();
                batch.events();
                batch.look(now, &mut self.watch);
                batch.end_if_due(now);
            }
        }
        batch.report_statistics();
        let listener = self.listener.as_mut().filter(|_| batch.has_requests);
        let failures = core::mem::take(&mut batch.state.face.failures);
        let are_answered = listener.as_ref().is_some_and(|listener| listener.answers_here());
        state.is_attended = are_answered;
        #[cfg(any(test, debug_assertions))]
        state.face.check_caches();
        self.exchanges = state.face.all.len() as u64;
        drop(state);
        if let Some(listener) = listener {
            listener.on_requests(&self.shared);
        }
        if !failures.is_empty() {
            self.report(failures, connection.remote_address());
        }
        are_answered
    }

    /// Says which responses have failed because of this end: the task that has answered may not wait for that.
    fn report(&self, failures: Vec<Failure>, remote_address: SocketAddr) {
        for Failure { stream, error } in failures {
            tracing::warn!(stream, %error, "a response failed, and was reset with H3_INTERNAL_ERROR");
            if let Some(listener) = &self.listener {
                listener.on_failure(&ResponseFailure { error, remote_address, stream });
            }
        }
    }
}

impl Drop for Driver {
    /// The shard has discarded the connection, or could not create it.
    fn drop(&mut self) {
        self.shared
            .on_gone(Error::from_connection(self.shared.dropped_because(self.is_processing)));
        // Some are left if something has panicked.
        self.effects.carry_out(&self.shared);
        if let Some(listener) = &mut self.listener {
            listener.on_gone();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bridge::Established;

    /// What the shard and the tasks keep of each connection besides the states of the transport and of HTTP/3, which
    /// `limits/tests/idle.rs` counts: 1,088 bytes when it was measured last. A twentieth more fails.
    #[test]
    fn an_idle_connection_takes_little_here() {
        let sizes = [size_of::<Driver>(), size_of::<Shared>(), size_of::<Established>()];
        println!("{sizes:?}, of these HTTP/3 {}", size_of::<Http3>());
        let own = sizes.iter().sum::<usize>() - size_of::<Http3>();
        assert!(own <= 1_142, "{own} bytes");
    }
}
