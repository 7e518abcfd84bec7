//! Rest: when nothing has happened on a connection for a while, it gives back the memory that it borrowed while it was
//! busy. What it needs again, it allocates again when something happens.

use core::time::Duration;

use clearway_units::Timestamp;

use super::Connection;
use crate::space_id::SpaceId;

/// How long nothing is received or sent before a connection rests. A connection that is used more often than that
/// allocates nothing anew.
const REST_AFTER: Duration = Duration::from_millis(50);

/// When the connection is to rest if nothing happens until then, and whether it rests.
#[derive(Debug)]
pub(super) struct RestTimer {
    at: Timestamp,
    is_resting: bool,
}

impl RestTimer {
    pub(super) fn new(now: Timestamp) -> Self {
        Self { at: now + REST_AFTER, is_resting: false }
    }

    /// A datagram was received, whether it was authentic or not, or one was built.
    pub(super) fn on_activity(&mut self, now: Timestamp) {
        *self = Self::new(now);
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
        may_rest.then_some(self.rest.at)
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
            self.rest.at = at;
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
