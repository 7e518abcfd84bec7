//! The state that an endpoint keeps for each connection, and its lifetime.

use core::net::SocketAddr;
use core::time::Duration;

use clearway_units::Timestamp;
use clearway_wire::{ConnectionId, ResetToken};

use super::routes::InitialKey;
use super::{ConnectionHandle, Endpoint, MAX_REPLIES};
use crate::connection::{Connection, Deadlines, Ended};
use crate::drops::DropReason;
use crate::ids::RoutingChange;

/// A slot in the connection table.
pub(super) enum ConnectionSlot {
    Kept(Box<KeptConnection>),
    Released(Box<Released>),
}

/// A connection, and the key that routes its client's first packets.
pub(super) struct KeptConnection {
    connection: Connection,
    initial: Option<InitialKey>,
    /// The peer's address and stateless reset token, as registered in the routes.
    reset: Option<(SocketAddr, ResetToken)>,
    /// The server's address, as registered in the routes while this client's handshake is
    /// incomplete.
    attempt: Option<Box<SocketAddr>>,
}

/// The remains of a connection that was released while closing or draining: late packets from the
/// peer are attributed to it and do not trigger a stateless reset (RFC 9000 §10.2).
pub(super) struct Released {
    ended: Ended,
    ids: Box<[ConnectionId]>,
    initial: Option<InitialKey>,
    reset: Option<(SocketAddr, ResetToken)>,
    is_over: bool,
}

impl KeptConnection {
    pub(super) fn receive_reset(&mut self, now: Timestamp) {
        self.connection.receive_reset(now);
    }
}

impl Released {
    /// Handles a stateless reset: the peer has discarded the connection's state, so
    /// CONNECTION_CLOSE is not repeated (RFC 9000 §10.3.1).
    pub(super) fn receive_reset(&mut self) {
        self.ended.drain();
    }
}

impl ConnectionSlot {
    fn connection(&self) -> Option<&Connection> {
        match self {
            Self::Kept(entry) => Some(&entry.connection),
            Self::Released(_) => None,
        }
    }

    pub(super) fn connection_mut(&mut self) -> Option<&mut Connection> {
        match self {
            Self::Kept(entry) => Some(&mut entry.connection),
            Self::Released(_) => None,
        }
    }

    pub(super) fn deadlines(&self, delay: Duration) -> Deadlines {
        match self {
            Self::Kept(entry) => entry.connection.delayed_deadlines(delay),
            Self::Released(it) => {
                Deadlines { own: (!it.is_over).then_some(it.ended.until), silence: None }
            }
        }
    }

    /// Notes whether the closing or draining period of a released connection is over at `now`.
    pub(super) fn note_end(&mut self, now: Timestamp) {
        if let Self::Released(released) = self {
            released.is_over |= released.ended.until <= now;
        }
    }
}

impl Endpoint {
    /// Returns a connection; `None` if it was [released](Self::release).
    pub fn connection(&self, handle: ConnectionHandle) -> Option<&Connection> {
        self.connections.get(handle.0)?.connection()
    }

    /// Returns a connection; `None` if it was [released](Self::release).
    pub fn connection_mut(&mut self, handle: ConnectionHandle) -> Option<&mut Connection> {
        self.connections.get_mut(handle.0)?.connection_mut()
    }

    pub(super) fn insert(
        &mut self,
        connection: Connection,
        local_id: ConnectionId,
        initial: Option<InitialKey>,
    ) -> ConnectionHandle {
        let entry = Box::new(KeptConnection { connection, initial, reset: None, attempt: None });
        let handle = ConnectionHandle(self.connections.insert(ConnectionSlot::Kept(entry)));
        self.routes.add(local_id, handle.0);
        handle
    }

    /// Registers a client's handshake with the server at `remote`.
    pub(super) fn note_attempt(&mut self, handle: ConnectionHandle, remote: SocketAddr) {
        if let Some(ConnectionSlot::Kept(entry)) = self.connections.get_mut(handle.0) {
            entry.attempt = Some(Box::new(remote));
            self.routes.add_attempt(remote, handle.0);
        }
    }

    /// Counts a datagram of `size` bytes that belongs to no connection. If the sender is a server
    /// with handshakes in progress, the datagram may explain why they fail.
    pub(super) fn note_stray(
        &mut self,
        now: Timestamp,
        remote: SocketAddr,
        size: usize,
        reason: DropReason,
    ) {
        for index in self.routes.attempts(remote) {
            if let Some(connection) =
                self.connections.get_mut(index).and_then(ConnectionSlot::connection_mut)
            {
                connection.receive_stray(now, size, reason);
            }
        }
    }

    /// Updates the tables of connection IDs, stateless reset tokens and handshakes in progress.
    pub fn settle(&mut self, handle: ConnectionHandle) {
        let Some(ConnectionSlot::Kept(entry)) = self.connections.get_mut(handle.0) else { return };
        while let Some(change) = entry.connection.next_routing_change() {
            match change {
                RoutingChange::Added(id) => self.routes.add(id, handle.0),
                RoutingChange::Removed(id) => self.routes.remove(&id, handle.0),
            }
        }
        if let Some(remote) = entry.attempt.take_if(|_| !entry.connection.is_attempt()) {
            self.routes.remove_attempt(*remote, handle.0);
        }
        let token = entry.connection.reset_token();
        let reset = token.map(|token| (entry.connection.remote_address(), token));
        let old = core::mem::replace(&mut entry.reset, reset);
        if old != reset {
            self.replace_reset(old, reset, handle);
        }
        #[cfg(any(test, debug_assertions))]
        self.check_caches(handle);
    }

    /// Checks that the routes match the connection, unless there are many routes.
    #[cfg(any(test, debug_assertions))]
    fn check_caches(&self, handle: ConnectionHandle) {
        const MOST_ROUTES: usize = 64;
        let Some(ConnectionSlot::Kept(entry)) = self.connections.get(handle.0) else { return };
        if self.routes.len() <= MOST_ROUTES {
            let ids: Vec<ConnectionId> = entry.connection.local_ids().collect();
            let attempt = entry.connection.is_attempt().then(|| entry.connection.remote_address());
            self.routes.check_caches(handle.0, &ids, attempt.filter(|_| entry.attempt.is_some()));
        }
    }

    fn replace_reset(
        &mut self,
        old: Option<(SocketAddr, ResetToken)>,
        new: Option<(SocketAddr, ResetToken)>,
        handle: ConnectionHandle,
    ) {
        let key = &self.config.reset_key;
        let sign = |(remote, token): (SocketAddr, ResetToken)| (remote, key.conceal(&token));
        self.routes.replace_reset(old.map(sign), new.map(sign), handle.0);
    }

    /// Removes and returns a connection on which nothing more can be sent (RFC 9000 §10.2), so that
    /// its final statistics can be read: its peer has closed it, it has ended, or CONNECTION_CLOSE
    /// was sent. Returns `None` if there is more to do. No event follows.
    ///
    /// Until late packets from the peer have had time to arrive, its connection IDs stay
    /// registered, CONNECTION_CLOSE is repeated, and `handle` remains in use: the driver continues
    /// to call [`on_deadline`](Self::on_deadline) when it is [due](Self::deadlines), followed by
    /// [`remove_released`](Self::remove_released).
    pub fn release(&mut self, handle: ConnectionHandle, now: Timestamp) -> Option<Connection> {
        let ended = self.connection(handle)?.ended(now)?;
        self.settle(handle);
        let place = self.connections.get_mut(handle.0)?;
        let ConnectionSlot::Kept(entry) = place else { return None };
        let (ids, initial) = (entry.connection.local_ids().collect(), entry.initial);
        let (reset, is_over) = (entry.reset, ended.until <= now);
        let released = Released { ended, ids, initial, reset, is_over };
        let kept = core::mem::replace(place, ConnectionSlot::Released(Box::new(released)));
        let ConnectionSlot::Kept(mut entry) = kept else { return None };
        entry.connection.discard(now);
        Some(entry.connection)
    }

    /// Handles a datagram of a released connection: the CONNECTION_CLOSE may have to be repeated.
    pub(super) fn answer_late(&mut self, index: usize) {
        if let Some(ConnectionSlot::Released(released)) = self.connections.get_mut(index)
            && let Some(answer) = released.ended.answer()
            && self.replies.len() < MAX_REPLIES
        {
            self.replies.push_back(answer);
        }
    }

    /// Frees the slot of a connection that was [released](Self::release), if its closing or
    /// draining period is over. Returns whether `handle` is free.
    pub fn remove_released(&mut self, handle: ConnectionHandle) -> bool {
        match self.connections.get(handle.0) {
            Some(ConnectionSlot::Released(released)) if released.is_over => {}
            place => return place.is_none(),
        }
        if let Some(ConnectionSlot::Released(released)) = self.connections.try_remove(handle.0) {
            self.replace_reset(released.reset, None, handle);
            released.ids.iter().for_each(|id| self.routes.remove(id, handle.0));
            if let Some(key) = released.initial {
                self.routes.remove_initial(&key, handle.0);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    /// A larger connection would take 5 KiB from an allocator with size classes.
    #[test]
    #[cfg(target_pointer_width = "64")]
    fn a_connection_fits_into_four_kibibytes() {
        assert!(
            size_of::<super::KeptConnection>() <= 4096,
            "{} bytes",
            size_of::<super::KeptConnection>()
        );
    }
}
