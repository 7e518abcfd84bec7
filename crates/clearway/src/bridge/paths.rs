//! Path state that tasks and the shard share: a migration in progress, and path events.

use core::net::SocketAddr;
use std::collections::VecDeque;
use std::sync::Arc;

use clearway_io::{MigrateFailure, Migration};
use clearway_transport::{Event, MigrationError, SocketIndex};
use tokio::sync::oneshot;

use super::effects::{Migrated, MigrationReply};
use super::{AppState, Effects, Shared, Signal, State};
use crate::error::MigrateError;
use crate::path::PathEvent;

/// Maximum number of path events to queue for tasks; when it is exceeded, the oldest event is
/// dropped.
const MAX_PATH_EVENTS: usize = 16;

/// The path state of a connection, as its tasks see it.
#[derive(Default)]
pub(crate) struct PathState {
    moving: Option<Moving>,
    events: VecDeque<PathEvent>,
}

/// A migration that a task has requested and that is in progress.
struct Moving {
    socket: SocketIndex,
    local: SocketAddr,
    reply: MigrationReply,
}

impl<F> Shared<F>
where
    F: AppState + Send + 'static,
    F::Key: Send,
    F::Error: Send,
    F::Replies: Send,
{
    /// Migrates the connection to a local address, and waits until the migration is complete.
    pub(crate) async fn migrate(self: Arc<Self>, local: SocketAddr) -> Migrated {
        let (reply, migrated) = oneshot::channel();
        // A connection gets its waker before it is established.
        let waker = self.waker.get().filter(|_| self.lock().error.is_none()).cloned();
        let waker = waker.ok_or(MigrateError::ConnectionEnded)?;
        waker.migrate(local, Box::new(move |started| self.on_migration_started(started, reply)));
        migrated.await.unwrap_or(Err(MigrateError::ConnectionEnded))
    }

    fn on_migration_started(
        &self,
        started: Result<Migration, MigrateFailure>,
        reply: MigrationReply,
    ) {
        self.act(|state, effects| match started {
            Ok(Migration { socket, local, .. }) if state.error.is_none() => {
                let moving = Moving { socket, local, reply };
                state.paths.get_or_insert_default().moving = Some(moving);
            }
            Ok(_) | Err(MigrateFailure::Refused(MigrationError::Closed)) => {
                effects.reply_migrated(reply, Err(MigrateError::ConnectionEnded));
            }
            Err(failure) => {
                effects.reply_migrated(reply, Err(MigrateError::NotStarted(failure)));
            }
        });
    }
}

impl<F: AppState> State<F> {
    /// Records a path event of the transport; other events are ignored.
    pub(crate) fn on_path_event(&mut self, event: Event, effects: &mut Effects<F>) {
        let event = match event {
            Event::PeerMigrated(remote) => {
                self.remote_address = Some(remote);
                PathEvent::PeerMigrated { remote }
            }
            Event::Migrated { socket, remote } => {
                self.remote_address = Some(remote);
                if let Some(Moving { local, reply, .. }) = self.take_moving(socket) {
                    effects.reply_migrated(reply, Ok(local));
                }
                PathEvent::Migrated { remote }
            }
            Event::MigrationFailed { socket, remote, reason } => {
                if let Some(Moving { reply, .. }) = self.take_moving(socket) {
                    effects.reply_migrated(reply, Err(MigrateError::Failed(reason)));
                }
                PathEvent::MigrationFailed { remote, reason }
            }
            Event::LocalAddressLost(local) => PathEvent::LocalAddressLost { local },
            Event::LocalAddressChanged { from, to } => PathEvent::LocalAddressChanged { from, to },
            Event::PreferredAddressIgnored(reason) => PathEvent::PreferredAddressIgnored(reason),
            _ => return,
        };
        let events = &mut self.paths.get_or_insert_default().events;
        if events.len() >= MAX_PATH_EVENTS {
            events.pop_front();
        }
        events.push_back(event);
        effects.signal(Signal::Path);
    }

    /// Removes and returns the oldest queued event.
    pub(crate) fn next_path_event(&mut self) -> Option<PathEvent> {
        self.paths.as_mut()?.events.pop_front()
    }

    /// Fails a migration in progress, since the connection has ended.
    pub(super) fn fail_migration(&mut self, effects: &mut Effects<F>) {
        let moving = self.paths.as_mut().and_then(|paths| paths.moving.take());
        if let Some(Moving { reply, .. }) = moving {
            effects.reply_migrated(reply, Err(MigrateError::ConnectionEnded));
        }
    }

    /// Removes and returns the migration to `socket`, since it has ended.
    fn take_moving(&mut self, socket: SocketIndex) -> Option<Moving> {
        self.paths.as_mut()?.moving.take_if(|moving| moving.socket == socket)
    }
}

#[cfg(test)]
mod tests {
    use clearway_transport::IgnoredAddress;

    use super::*;
    use crate::bridge::tests::Bare;

    /// A peer whose address changes constantly must not exhaust memory.
    #[test]
    fn the_newest_events_are_kept() {
        let shared = Shared::<Bare>::new(None);
        let remote = |port: u16| SocketAddr::from(([192, 0, 2, 1], port));
        shared.act(|state, effects| {
            for port in 1..=1000 {
                state.on_path_event(Event::PeerMigrated(remote(port)), effects);
            }
            let ignored = Event::PreferredAddressIgnored(IgnoredAddress::NoPort);
            state.on_path_event(ignored, effects);
        });
        let mut state = shared.lock();
        let events: Vec<_> = core::iter::from_fn(|| state.next_path_event()).collect();
        assert_eq!(events.len(), MAX_PATH_EVENTS);
        assert_eq!(events[0], PathEvent::PeerMigrated { remote: remote(986) });
        let last = PathEvent::PreferredAddressIgnored(IgnoredAddress::NoPort);
        assert_eq!(events.last(), Some(&last));
        assert_eq!(state.remote_address, Some(remote(1000)));
    }
}
