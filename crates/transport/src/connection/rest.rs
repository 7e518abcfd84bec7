//! Rest: when nothing has happened on a connection for a while, it gives back the memory that it borrowed while it was
//! busy. What it needs again, it allocates again when something happens.

use core::time::Duration;

use clearway_units::Timestamp;

use super::Connection;
use crate::space_id::SpaceId;
use crate::streams::Streams;

/// How long nothing is received or sent before a connection rests. A connection that is used more often than that
/// allocates nothing anew.
const REST_AFTER: Duration = Duration::from_millis(50);

/// A connection that has rested for as long as this will probably do so again, so that it is awake for no longer than it
/// must be: the memory of one that was awake for a short time is still in caches when it is given back.
const LONG_REST: Duration = Duration::from_secs(1);

/// Since when nothing has happened on the connection, and whether it rests.
#[derive(Debug)]
pub(super) struct RestTimer {
    since: Timestamp,
    is_resting: bool,
    /// When the last rest ended, if it was long.
    woken: Option<Timestamp>,
}

impl RestTimer {
    pub(super) fn new(now: Timestamp) -> Self {
        Self { since: now, is_resting: false, woken: None }
    }

    /// A datagram was received, whether it was authentic or not, or one was built.
    pub(super) fn on_activity(&mut self, now: Timestamp) {
        if core::mem::take(&mut self.is_resting) {
            let was_long = now.saturating_since(self.since) >= LONG_REST;
            self.woken = was_long.then_some(now);
        }
        self.since = now;
    }

    /// Whether a long rest has ended lately.
    fn is_short_use(&self) -> bool {
        self.woken.is_some_and(|woken| self.since.saturating_since(woken) < LONG_REST)
    }
}

impl Connection {
    /// Whether nothing has happened on the connection for a while, so that it has given back what it can. An application
    /// may do the same with what it keeps for the connection.
    pub fn is_resting(&self) -> bool {
        self.rest.is_resting
    }

    /// When the connection begins to rest. What is outstanding or unfinished has other timers, which come first.
    pub(super) fn rest_deadline(&self) -> Option<Timestamp> {
        let may_rest = !self.rest.is_resting
            && self.lifecycle.is_confirmed()
            && !self.outgoing.awaits_kernel
            && self.recovery.is_nothing_outstanding(SpaceId::Application);
        let is_over = may_rest && self.is_short_use_over() && self.ack_deadline().is_none();
        let wait = if is_over { Duration::ZERO } else { REST_AFTER };
        may_rest.then_some(self.rest.since + wait)
    }

    /// Whether what ended a long rest is over, except for acknowledgments: neither end has a request without its response, and
    /// this one has nothing to send. What is to be acknowledged is acknowledged at once, so that neither end has to wait for
    /// that (RFC 9000 §13.2.1 permits it at any time).
    pub(super) fn is_short_use_over(&self) -> bool {
        self.rest.is_short_use()
            && !self.streams.awake().is_some_and(Streams::has_bidirectional)
            && !self.has_something()
    }

    /// Whether what was received is acknowledged before its time, because nothing else is left to do.
    pub(super) fn acknowledges_early(&self, space: SpaceId) -> bool {
        self.received.get(space).deadline().is_some() && self.is_short_use_over()
    }

    /// Packs the largest parts of a connection that rests and has nothing to send. Whatever changes one of them unpacks it.
    pub(super) fn pack_if_resting(&mut self) {
        if self.rest.is_resting && !self.lifecycle.is_closed() {
            self.recovery.pack();
            self.streams.pack();
        }
    }

    /// The connection has been quiet for long enough. Lost packets cannot be packed: while any are remembered, it rests later.
    pub(super) fn begin_rest(&mut self, now: Timestamp) {
        if let Some(at) = self.recovery.get().forgets_at().filter(|at| *at > now) {
            self.rest.since = at;
            return;
        }
        self.rest.is_resting = true;
        self.handshake.rest();
        let protection = self.handshake.protection();
        let is_open = |space| protection.can_seal(space);
        if is_open(SpaceId::Initial) || is_open(SpaceId::Handshake) {
            self.received.get_mut(SpaceId::Initial).rest();
            self.received.get_mut(SpaceId::Handshake).rest();
        } else {
            self.received.give_up_handshake();
        }
        self.received.get_mut(SpaceId::Application).rest();
        self.outgoing.rest();
        self.recovery.get_mut().rest(now);
        self.paths.rest();
        self.streams.get_mut().rest();
        self.datagrams.rest();
        self.local_ids.rest();
        self.remote_ids.rest();
        if self.held.is_empty() {
            self.held.give_back();
        }
        self.identity.rest();
        self.events.shrink_to_fit();
        self.watch.lost.shrink_to_fit();
        self.random.rest();
        self.marks.random().rest();
    }
}
