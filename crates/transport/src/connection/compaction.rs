//! Compaction of idle connections: when nothing has happened on a connection for a while, it
//! releases the memory that only a busy connection needs, and allocates it again when there is
//! activity.

use core::time::Duration;

use clearway_units::Timestamp;

use super::Connection;
use crate::space_id::SpaceId;
use crate::streams::Streams;

/// The idle time after which a connection is compacted. A connection in more frequent use never
/// reallocates.
const COMPACT_AFTER: Duration = Duration::from_millis(50);

/// A connection that was compacted for at least this long will probably become idle again, so it is
/// compacted as early as possible: memory that was used only briefly is still in the CPU caches
/// when it is released.
const LONG_IDLE: Duration = Duration::from_secs(1);

/// The time of the last activity, and whether the connection is compacted.
#[derive(Debug)]
pub(super) struct CompactionTimer {
    since: Timestamp,
    is_compacted: bool,
    /// The time of the last wakeup, if the connection had been compacted for a long time.
    woken: Option<Timestamp>,
}

impl CompactionTimer {
    pub(super) fn new(now: Timestamp) -> Self {
        Self { since: now, is_compacted: false, woken: None }
    }

    /// Handles the receipt of a datagram, whether or not it is authenticated, or the building of
    /// one.
    pub(super) fn on_activity(&mut self, now: Timestamp) {
        if core::mem::take(&mut self.is_compacted) {
            let was_long = now.saturating_since(self.since) >= LONG_IDLE;
            self.woken = was_long.then_some(now);
        }
        self.since = now;
    }

    /// Returns whether a long idle period has ended recently.
    fn is_short_use(&self) -> bool {
        self.woken.is_some_and(|woken| self.since.saturating_since(woken) < LONG_IDLE)
    }
}

impl Connection {
    /// Returns whether the connection has been idle for a while and has released the memory it can.
    /// Applications may release per-connection memory at the same time.
    pub fn is_compacted(&self) -> bool {
        self.compaction.is_compacted
    }

    /// Returns when the connection becomes idle. Outstanding or unfinished work has other timers,
    /// which expire first.
    pub(super) fn compaction_deadline(&self) -> Option<Timestamp> {
        let may_compact = !self.compaction.is_compacted
            && self.lifecycle.is_confirmed()
            && !self.outgoing.awaits_kernel
            && self.recovery.is_nothing_outstanding(SpaceId::Application);
        let is_over = may_compact && self.is_short_use_over() && self.ack_deadline().is_none();
        let wait = if is_over { Duration::ZERO } else { COMPACT_AFTER };
        may_compact.then_some(self.compaction.since + wait)
    }

    /// Returns whether the activity that ended a long idle period is over, except for
    /// acknowledgments: neither endpoint has an unanswered request, and this endpoint has nothing
    /// to send. Pending acknowledgments are then sent immediately, so that neither endpoint has to
    /// wait for them (RFC 9000 §13.2.1 allows this at any time).
    pub(super) fn is_short_use_over(&self) -> bool {
        self.compaction.is_short_use()
            && !self.streams.unpacked().is_some_and(Streams::has_bidirectional)
            && !self.has_something()
    }

    /// Returns whether received packets are acknowledged early because no other work is left.
    pub(super) fn acknowledges_early(&self, space: SpaceId) -> bool {
        self.received.get(space).deadline().is_some() && self.is_short_use_over()
    }

    /// Packs the largest parts of an idle connection that has nothing to send. Any change to a part
    /// unpacks it.
    pub(super) fn pack_if_compacted(&mut self) {
        if self.compaction.is_compacted && !self.lifecycle.is_closed() {
            self.recovery.pack();
            self.streams.pack();
        }
    }

    /// Compacts the connection after it has been idle long enough. Lost packets cannot be packed:
    /// while any are remembered, compaction is postponed.
    pub(super) fn compact(&mut self, now: Timestamp) {
        if let Some(at) = self.recovery.get().forgets_at().filter(|at| *at > now) {
            self.compaction.since = at;
            return;
        }
        self.compaction.is_compacted = true;
        self.handshake.compact();
        let protection = self.handshake.protection();
        let is_open = |space| protection.can_seal(space);
        if is_open(SpaceId::Initial) || is_open(SpaceId::Handshake) {
            self.received.get_mut(SpaceId::Initial).compact();
            self.received.get_mut(SpaceId::Handshake).compact();
        } else {
            self.received.give_up_handshake();
        }
        self.received.get_mut(SpaceId::Application).compact();
        self.outgoing.compact();
        self.recovery.get_mut().compact(now);
        self.paths.compact();
        self.streams.get_mut().compact();
        self.datagrams.compact();
        self.local_ids.compact();
        self.remote_ids.compact();
        if self.held.is_empty() {
            self.held.release();
        }
        self.identity.compact();
        self.events.shrink_to_fit();
        self.watch.lost.shrink_to_fit();
        self.random.compact();
        self.marks.random().compact();
    }
}
