//! Counters and logging for each connection.

use core::net::SocketAddr;

use clearway_transport::{Connection, Totals};
use tracing::Span;

use super::half_open::HalfOpen;
use crate::statistics::ShardStatistics;

/// A shard's connection counters, which include connections that have ended.
#[derive(Debug)]
pub(super) struct ConnectionCounts {
    pub(super) half_open: HalfOpen,
    pub(super) accepted: u64,
    /// Number of Retry packets sent.
    pub(super) retries: u64,
    pub(super) refused: u64,
    handshakes_completed: u64,
    handshakes_failed: u64,
    migrations: u64,
    totals: Totals,
}

impl ConnectionCounts {
    /// Creates zeroed counters; `retry_above` comes from the configuration.
    pub(super) fn new(retry_above: usize) -> Self {
        Self {
            half_open: HalfOpen::new(retry_above),
            accepted: 0,
            retries: 0,
            refused: 0,
            handshakes_completed: 0,
            handshakes_failed: 0,
            migrations: 0,
            totals: Totals::default(),
        }
    }

    pub(super) fn report(&self, statistics: &mut ShardStatistics) {
        statistics.connections_accepted = self.accepted;
        statistics.connections_half_open = self.half_open.count() as u64;
        statistics.retries_sent = self.retries;
        statistics.incoming_refused = self.refused;
        statistics.handshakes_completed = self.handshakes_completed;
        statistics.handshakes_failed = self.handshakes_failed;
        statistics.migrations = self.migrations;
        statistics.packets_sent = self.totals.packets_sent;
        statistics.packets_received = self.totals.packets_received;
        statistics.packets_dropped = self.totals.packets_dropped;
        statistics.packets_lost = self.totals.packets_lost;
        statistics.packets_spuriously_lost = self.totals.packets_spuriously_lost;
        statistics.probe_timeouts = self.totals.probe_timeouts;
    }

    /// Adds the difference between two snapshots of a connection's counters.
    fn add(&mut self, before: &Totals, now: &Totals) {
        let add = |sum: &mut u64, before: u64, now: u64| *sum += now.saturating_sub(before);
        let sums = &mut self.totals;
        add(&mut sums.packets_sent, before.packets_sent, now.packets_sent);
        add(&mut sums.packets_received, before.packets_received, now.packets_received);
        add(&mut sums.packets_dropped, before.packets_dropped, now.packets_dropped);
        add(&mut sums.packets_lost, before.packets_lost, now.packets_lost);
        let (spuriously, now_spuriously) =
            (before.packets_spuriously_lost, now.packets_spuriously_lost);
        add(&mut sums.packets_spuriously_lost, spuriously, now_spuriously);
        add(&mut sums.probe_timeouts, before.probe_timeouts, now.probe_timeouts);
    }
}

/// A connection's tracing span, and the part of its counters that the shard's counters already
/// include.
#[derive(Debug)]
pub(super) struct ConnectionRecord {
    /// The tracing span for everything that the connection's application does. Disabled, without
    /// any cost, unless the program has a subscriber.
    pub(super) span: Span,
    totals: Totals,
    /// The peer's address.
    remote: Option<SocketAddr>,
    /// Whether the connection counts as half open.
    is_half_open: bool,
    is_established: bool,
    is_closed: bool,
}

impl ConnectionRecord {
    pub(super) fn begin(connection: Option<&Connection>) -> Self {
        let span = connection.map_or_else(Span::none, |connection| {
            tracing::info_span!(
                "connection",
                id = %connection.original_destination_id(),
                remote = %connection.remote_address(),
            )
        });
        tracing::debug!(parent: &span, "began");
        Self {
            span,
            totals: Totals::default(),
            remote: connection.map(Connection::remote_address),
            is_half_open: false,
            is_established: false,
            is_closed: false,
        }
    }

    /// Records that this is the connection of an accepted client, which has counted as half open
    /// since it arrived.
    pub(super) fn accepted(&mut self, counts: &mut ConnectionCounts) {
        counts.accepted += 1;
        self.is_half_open = true;
    }

    /// Records that the connection is gone.
    pub(super) fn end(&mut self, connection: &Connection, counts: &mut ConnectionCounts) {
        self.update(connection, counts);
        self.no_longer_half_open(counts);
    }

    fn no_longer_half_open(&mut self, counts: &mut ConnectionCounts) {
        if core::mem::take(&mut self.is_half_open) {
            counts.half_open.end();
        }
    }

    /// Adds the changes since the last call to the counters, and logs the stages that the
    /// connection has reached. Must be called after each batch.
    pub(super) fn update(&mut self, connection: &Connection, counts: &mut ConnectionCounts) {
        let totals = connection.totals();
        counts.add(&self.totals, &totals);
        self.totals = totals;
        let remote = connection.remote_address();
        if self.remote.is_some_and(|before| before != remote) {
            counts.migrations += 1;
            tracing::info!(parent: &self.span, now = %remote, "the peer has migrated to another address");
        }
        self.remote = Some(remote);
        if !self.is_established && !connection.is_handshaking() {
            self.is_established = true;
            counts.handshakes_completed += 1;
            self.no_longer_half_open(counts);
            let version = connection.version();
            tracing::debug!(parent: &self.span, %version, "handshake complete");
        }
        if !self.is_closed && connection.is_closed() {
            self.is_closed = true;
            counts.handshakes_failed += u64::from(!self.is_established);
            if let Some(reason) = connection.close_reason() {
                tracing::info!(parent: &self.span, %reason, "closed");
            }
        }
    }
}
