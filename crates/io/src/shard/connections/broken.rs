//! Connections that end because application code panicked: in the application itself, or in a
//! congestion controller, a TLS session or an ID generator from the configuration, which the
//! transport calls.
//!
//! A panic inside the transport may leave the state of its connection inconsistent, but not the
//! state of other connections. So from then on, the connection only sends CONNECTION_CLOSE with
//! INTERNAL_ERROR; if even that panics, it ends without sending.

use core::net::SocketAddr;

use clearway_transport::{Connection, ConnectionHandle, Endpoint};
use clearway_units::Timestamp;

use super::Connections;
use crate::guarded::{Panicked, guarded};

/// Log message for a panic inside the transport.
pub(super) const CLOSED: &str =
    "code called by the transport panicked; its connection is closed with INTERNAL_ERROR";

const ENDED: &str = "panic while closing a connection; it ends without CONNECTION_CLOSE";

/// Reason phrase in the CONNECTION_CLOSE frame.
const REASON: &str = "the application failed";

impl Connections {
    /// Closes a connection whose application panicked (RFC 9000 §20.1).
    pub(super) fn on_panic(&mut self, now: Timestamp, handle: ConnectionHandle, _: Panicked) {
        let close = |connection: &mut Connection| connection.close_after_panic(now, REASON);
        self.guard(now, handle, close);
    }

    /// Calls `act` with a connection. If the call panics, the connection ends. Returns `None` in
    /// that case, or if there is no such connection.
    pub(in crate::shard) fn guard<T>(
        &mut self,
        now: Timestamp,
        handle: ConnectionHandle,
        act: impl FnOnce(&mut Connection) -> T,
    ) -> Option<T> {
        self.guard_endpoint(now, handle, |endpoint| endpoint.connection_mut(handle).map(act))?
    }

    /// Calls the endpoint on behalf of a connection. If the call panics, the connection ends.
    pub(in crate::shard) fn guard_endpoint<T>(
        &mut self,
        now: Timestamp,
        handle: ConnectionHandle,
        act: impl FnOnce(&mut Endpoint) -> T,
    ) -> Option<T> {
        match guarded(CLOSED, || act(&mut self.endpoint)) {
            Ok(outcome) => Some(outcome),
            Err(Panicked) => {
                self.on_broken(now, handle);
                None
            }
        }
    }

    /// Handles a datagram from `remote` that caused a panic in the connection that it belongs to,
    /// if any.
    pub(super) fn on_broken_by(&mut self, now: Timestamp, remote: SocketAddr, datagram: &[u8]) {
        const LOST: &str = "connection ID generator panicked; a datagram is dropped";
        let handle = guarded(LOST, || self.endpoint.connection_for(remote, datagram));
        if let Ok(Some(handle)) = handle {
            self.on_broken(now, handle);
        }
    }

    /// Ends a connection that panicked in the middle of an operation.
    pub(super) fn on_broken(&mut self, now: Timestamp, handle: ConnectionHandle) {
        let Some(Some(slot)) = self.slots.get_mut(handle.index()) else { return };
        let was_broken = core::mem::replace(&mut slot.is_broken, true);
        if let Some(connection) = self.endpoint.connection_mut(handle)
            && (was_broken || guarded(ENDED, || connection.close_after_panic(now, REASON)).is_err())
        {
            connection.abandon_after_panic(now, REASON);
        }
        self.mark_dirty(handle);
    }
}
