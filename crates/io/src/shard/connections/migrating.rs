//! Client connections that migrate to other local addresses (RFC 9000 §9.2), and their sockets.

use core::net::SocketAddr;
use core::time::Duration;

use clearway_transport::{Connection, ConnectionHandle, MigrationError, SocketIndex};
use clearway_units::Timestamp;

use super::{Connections, REPLY};
use crate::failures::MigrateFailure;
use crate::guarded::guarded;
use crate::mailbox::MigrateRequest;
use crate::mailbox::Migration;
use crate::shard::sockets::Sockets;

/// How long a migration waits for the peer to issue a connection ID for the new path. Path
/// validation has the same limit: three probe timeouts for a path with an unknown round-trip time
/// (RFC 9000 §8.2.4).
const TIMEOUT: Duration = Duration::from_secs(3);

/// A requested migration that cannot begin yet.
pub(super) struct WaitingMigration {
    request: MigrateRequest,
    /// The time at which the migration is rejected, if it waits for a connection ID. While it waits
    /// for the handshake to be confirmed, there is no time limit.
    not_after: Option<Timestamp>,
}

impl WaitingMigration {
    /// Rejects the migration because the connection has ended.
    pub(super) fn end(self) {
        refuse(self.request, MigrationError::Closed);
    }

    /// Returns the latest time at which to act on the migration.
    pub(super) fn not_after(&self) -> Option<Timestamp> {
        self.not_after
    }

    fn must_wait(&mut self, now: Timestamp, connection: &Connection) -> bool {
        match connection.may_migrate() {
            Err(MigrationError::HandshakeNotConfirmed) => true,
            Err(MigrationError::NoSpareConnectionId) => {
                now < *self.not_after.get_or_insert(now + TIMEOUT)
            }
            _ => false,
        }
    }
}

impl Connections {
    /// Begins to migrate a connection, or keeps the request until the handshake is confirmed and
    /// there is a connection ID for the new path.
    pub(in crate::shard) fn migrate(
        &mut self,
        now: Timestamp,
        request: MigrateRequest,
        sockets: &mut Sockets,
    ) {
        let slot = self.slots.get_mut(request.target.index).and_then(Option::as_mut);
        let slot = slot.filter(|slot| slot.target.generation == request.target.generation);
        let Some(slot) = slot else { return refuse(request, MigrationError::Closed) };
        let handle = slot.handle;
        if self.endpoint.connection(handle).is_none() {
            return refuse(request, MigrationError::Closed);
        }
        if slot.migration.is_some() {
            return refuse(request, MigrationError::InProgress);
        }
        slot.migration = Some(WaitingMigration { request, not_after: None });
        self.retry_migration(now, handle, sockets);
        self.mark_dirty(handle);
    }

    /// Begins the waiting migration if possible. Returns whether it has begun.
    pub(super) fn retry_migration(
        &mut self,
        now: Timestamp,
        handle: ConnectionHandle,
        sockets: &mut Sockets,
    ) -> bool {
        let Some(Some(slot)) = self.slots.get_mut(handle.index()) else { return false };
        let Some(connection) = self.endpoint.connection_mut(handle) else { return false };
        let due = slot.migration.take_if(|waiting| !waiting.must_wait(now, connection));
        let Some(WaitingMigration { request, .. }) = due else { return false };
        let started = begin(now, connection, &request, sockets, &mut slot.sockets);
        let has_begun = started.is_ok();
        // If this panics, the application still learns the outcome from its events.
        let _ = guarded(REPLY, || (request.on_start)(started));
        has_begun
    }

    /// Closes the sockets that a connection no longer uses.
    pub(super) fn release_sockets(&mut self, handle: ConnectionHandle, sockets: &mut Sockets) {
        let Some(Some(slot)) = self.slots.get_mut(handle.index()) else { return };
        let Some(connection) = self.endpoint.connection(handle) else { return };
        slot.sockets.retain(|socket| {
            let is_used = connection.uses_socket(*socket);
            if !is_used {
                sockets.release(*socket);
            }
            is_used
        });
    }
}

fn refuse(request: MigrateRequest, error: MigrationError) {
    let _ = guarded(REPLY, || (request.on_start)(Err(MigrateFailure::Refused(error))));
}

/// Opens a socket, and starts to validate the path from its address. `used` are the sockets that
/// the connection already uses.
fn begin(
    now: Timestamp,
    connection: &mut Connection,
    request: &MigrateRequest,
    sockets: &mut Sockets,
    used: &mut Vec<SocketIndex>,
) -> Result<Migration, MigrateFailure> {
    connection.may_migrate().map_err(MigrateFailure::Refused)?;
    let (socket, local_ip) = sockets.acquire(request.local, connection.remote_address())?;
    let begun = connection.migrate(now, socket, local_ip);
    if begun.is_err() || used.contains(&socket) {
        // The connection already uses this socket for another path.
        sockets.release(socket);
    } else {
        used.push(socket);
    }
    begun.map_err(MigrateFailure::Refused)?;
    let bound = sockets.get(socket).map_or(request.local, |socket| socket.local_address());
    let local = match local_ip {
        Some(ip) => SocketAddr::new(ip, bound.port()),
        None => bound,
    };
    Ok(Migration { local, socket })
}
