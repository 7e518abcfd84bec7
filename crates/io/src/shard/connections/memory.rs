//! Memory accounting for connections, and closing of the largest connections when memory is low.

use clearway_transport::{Connection, ConnectionHandle};
use clearway_units::Timestamp;
use tracing::Span;

use super::Connections;
use crate::mailbox::ConnectionWaker;
use crate::memory_budget::{Holding, MemoryBudget};

/// Reason phrase in the CONNECTION_CLOSE frame.
const REASON: &str = "memory is low, and this connection uses the most";

/// Closes a connection because memory is low.
pub(super) fn close(
    now: Timestamp,
    connection: &mut Connection,
    budget: Option<&MemoryBudget>,
    span: &Span,
) {
    if let Some(budget) = budget.filter(|_| !connection.is_closed()) {
        budget.on_closed();
        let (remote, held) = (connection.remote_address(), connection.held_bytes());
        tracing::warn!(parent: span, %remote, held, "closed: memory is low, and this connection uses the most");
        connection.close_with_internal_error(now, REASON);
    }
}

impl Connections {
    /// Sets the memory budget of all connections.
    pub(in crate::shard) fn keep_within(&mut self, budget: MemoryBudget) {
        self.budget = Some(budget);
    }

    /// Returns whether a client at this address must be refused because memory is low.
    pub(super) fn is_refused_for_memory(&self, client: core::net::SocketAddr) -> bool {
        self.budget.as_ref().is_some_and(|budget| budget.refuses(client))
    }

    /// Reports a connection's memory use, if it has changed substantially. Called when a turn has
    /// finished with the connection.
    pub(super) fn report_memory(&mut self, handle: ConnectionHandle) {
        let Self { budget: Some(budget), slots, endpoint, mailbox, .. } = self else { return };
        let Some(Some(slot)) = slots.get_mut(handle.index()) else { return };
        let Some(account) = &mut slot.account else { return };
        let Some(connection) = endpoint.connection_mut(handle) else { return };
        if connection.is_closed() || connection.is_compacted() && budget.is_minimal(account) {
            return;
        }
        let holding = Holding {
            bytes: connection.held_bytes().saturating_add(slot.application.held_bytes()),
            is_handshaking: connection.is_handshaking(),
            is_compacted: connection.is_compacted(),
        };
        if !budget.is_due(account, holding) {
            return;
        }
        let waker = ConnectionWaker::new(mailbox.clone(), slot.target.clone());
        if let Some(is_limited) = budget.report(account, &waker, holding) {
            connection.limit_receive_window(is_limited);
        }
    }

    /// Closes the account of the connection with this index, which has ended.
    pub(super) fn close_account(&mut self, index: usize) {
        let Self { budget: Some(budget), slots, mailbox, .. } = self else { return };
        let Some(Some(slot)) = slots.get_mut(index) else { return };
        if let Some(mut account) = slot.account.take() {
            budget.close(&mut account, &ConnectionWaker::new(mailbox.clone(), slot.target.clone()));
        }
    }
}

impl Drop for Connections {
    /// Closes the accounts of all connections, since the shard is ending.
    fn drop(&mut self) {
        (0..self.slots.len()).for_each(|index| self.close_account(index));
    }
}
