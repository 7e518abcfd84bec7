//! The driver's interface to tasks: moves messages between the protocol and their queues.

mod batch;
mod receiving;
mod sending;

use core::net::SocketAddr;
use std::sync::Arc;

use clearway_http3::{Config, Role};
use clearway_transport::{Connection, Statistics};
use clearway_units::Random;

use self::batch::Batch;
use super::Error;
use super::driver::{App, Driver, EXCHANGE};
use super::exchanges::{Effects, Failure, Shared, Totals};
use super::listener::{Listener, ResponseFailure};

/// The tasks of one connection, as the driver sees them.
pub(super) struct Tasks {
    shared: Arc<Shared>,
    /// The total amount of data that waits between the protocol and the tasks.
    totals: Totals,
    /// Number of exchanges that the protocol or a task still needs.
    exchanges: u64,
    listener: Option<Box<dyn Listener>>,
    /// Kept between batches to reuse its memory.
    effects: Effects,
    /// Kept between batches to reuse its memory.
    changed: Vec<usize>,
    /// Set during processing, and still set afterward if the application has panicked.
    is_processing: bool,
}

impl Driver<Tasks> {
    pub(super) fn client(shared: Arc<Shared>, config: Arc<Config>, random: &mut Random) -> Self {
        Self::new(Role::Client, Tasks::new(shared, None), config, random)
    }

    pub(super) fn server(
        shared: Arc<Shared>,
        listener: Box<dyn Listener>,
        config: Arc<Config>,
        random: &mut Random,
    ) -> Self {
        Self::new(Role::Server, Tasks::new(shared, Some(listener)), config, random)
    }
}

/// Work that a turn defers until the lock is released.
pub(super) struct News {
    has_requests: bool,
    /// Whether the listener responds to the requests, in which case another turn must follow.
    are_answered: bool,
    failures: Vec<Failure>,
}

impl Tasks {
    fn new(shared: Arc<Shared>, listener: Option<Box<dyn Listener>>) -> Self {
        let totals = shared.lock().app.totals.clone();
        Self {
            shared,
            totals,
            exchanges: 0,
            listener,
            effects: Effects::default(),
            changed: Vec::new(),
            is_processing: false,
        }
    }

    /// Logs and reports responses that failed because of this endpoint, since the task that
    /// responded may not wait for the outcome.
    fn report(&self, failures: Vec<Failure>, remote_address: SocketAddr) {
        for Failure { stream, error } in failures {
            tracing::warn!(stream, %error, "response failed; stream reset with H3_INTERNAL_ERROR");
            if let Some(listener) = &self.listener {
                listener.on_failure(&ResponseFailure { error, remote_address, stream });
            }
        }
    }
}

impl App for Tasks {
    type News = News;
    type Open<'a> = Batch<'a>;

    fn open(&mut self) -> Batch<'_> {
        let mut state = self.shared.lock();
        state.is_attended = false;
        Batch {
            state,
            effects: &mut self.effects,
            changed: &mut self.changed,
            exchanges: &mut self.exchanges,
            listener: self.listener.as_deref(),
            has_requests: false,
        }
    }

    /// Returns whether tasks have produced responses, in which case another turn must follow.
    fn after(&mut self, news: News, connection: &Connection) -> bool {
        if let Some(listener) = self.listener.as_mut().filter(|_| news.has_requests) {
            listener.on_requests(&self.shared);
        }
        if !news.failures.is_empty() {
            self.report(news.failures, connection.remote_address());
        }
        // Not determined again: tasks wake the shard only if no turn follows.
        news.are_answered
    }

    fn begin(&mut self) {
        self.is_processing = true;
    }

    fn end(&mut self) {
        self.effects.carry_out(&self.shared);
        self.is_processing = false;
    }

    fn compact(&mut self) {
        self.effects = Effects::default();
        self.changed = Vec::new();
        let mut state = self.shared.lock();
        state.compact();
        if self.listener.is_some() {
            // A server's tasks do not use the statistics.
            state.statistics = None;
        }
    }

    fn held_bytes(&self) -> u64 {
        let content = self.totals.bytes() as u64;
        content.saturating_add(self.exchanges.saturating_mul(EXCHANGE))
    }

    fn closed(&mut self, statistics: &Statistics) {
        self.shared.lock().statistics = Some(Box::new(*statistics));
    }
}

impl Drop for Tasks {
    /// Records that the shard has discarded the connection or could not create it.
    fn drop(&mut self) {
        self.shared
            .on_gone(Error::from_connection(self.shared.dropped_because(self.is_processing)));
        // A panic leaves effects that were not carried out.
        self.effects.carry_out(&self.shared);
        if let Some(listener) = &mut self.listener {
            listener.on_gone();
        }
    }
}

#[cfg(test)]
mod tests {
    use clearway_http3::Connection as Http3;

    use super::*;
    use crate::bridge::Established;

    /// The shard and the tasks used 896 bytes per connection when last measured. The states of the
    /// transport and of HTTP/3 are not included: `limits/tests/idle.rs` counts them. More than 924
    /// bytes fail the test.
    #[test]
    fn an_idle_connection_takes_little_here() {
        let sizes = [size_of::<Driver<Tasks>>(), size_of::<Shared>(), size_of::<Established>()];
        println!("{sizes:?}, of these HTTP/3 {}", size_of::<Http3>());
        let own = sizes.iter().sum::<usize>() - size_of::<Http3>();
        assert!(own <= 924, "{own} bytes");
    }
}
