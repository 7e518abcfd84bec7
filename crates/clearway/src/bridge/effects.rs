//! Actions that are deferred until the lock is released, because waking a task or dropping its
//! waker may run arbitrary code.

use core::net::SocketAddr;
use core::task::{Context, Waker};

use tokio::sync::oneshot;

use super::{AppState, Shared};
use crate::error::MigrateError;

/// The outcome of a migration: the new local address, or an error.
pub(crate) type Migrated = Result<SocketAddr, MigrateError>;
/// Sends the outcome to the task that requested the migration.
pub(crate) type MigrationReply = oneshot::Sender<Migrated>;

/// Conditions that tasks wait for and that do not belong to a single stream or exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Signal {
    /// The connection-wide state has changed.
    Connection,
    /// The peer has opened bidirectional streams.
    Bidirectional,
    /// The peer has opened unidirectional streams.
    Unidirectional,
    /// Unreliable datagrams were received.
    Datagrams,
    /// The send queue for unreliable datagrams has room.
    DatagramRoom,
    /// Outcomes of unreliable datagrams are available.
    DatagramOutcomes,
    /// The path has changed, or a migration has failed.
    Path,
    /// A client can make requests that need not wait.
    Requests,
}

impl Signal {
    pub(super) const COUNT: usize = 8;
    const ALL: [Self; Self::COUNT] = [
        Self::Connection,
        Self::Bidirectional,
        Self::Unidirectional,
        Self::Datagrams,
        Self::DatagramRoom,
        Self::DatagramOutcomes,
        Self::Path,
        Self::Requests,
    ];
}

/// Replies that an [`AppState`] sends to tasks in addition to waking them.
pub(crate) trait Replies: Default {
    /// Sends all replies.
    fn send(&mut self);
}

impl Replies for () {
    fn send(&mut self) {}
}

/// Actions to carry out after the lock is released.
pub(crate) struct Effects<F: AppState> {
    wakes_shard: bool,
    /// Whether `others` contains anything.
    has_others: bool,
    /// Less frequent effects: most calls do not need them. Kept to reuse the memory.
    others: Option<Box<Others<F>>>,
}

/// Effects other than waking the shard.
struct Others<F: AppState> {
    woken: Vec<Waker>,
    dropped: Vec<Waker>,
    signals: [bool; Signal::COUNT],
    migrated: Vec<(MigrationReply, Migrated)>,
    replies: F::Replies,
}

impl<F: AppState> Default for Effects<F> {
    fn default() -> Self {
        Self { wakes_shard: false, has_others: false, others: None }
    }
}

impl<F: AppState> Effects<F> {
    /// Wakes all tasks that wait for `signal`.
    pub(crate) fn signal(&mut self, signal: Signal) {
        self.others().signals[signal as usize] = true;
    }

    pub(super) fn signal_all(&mut self) {
        self.others().signals = [true; Signal::COUNT];
    }

    /// Returns the replies to send to tasks.
    pub(crate) fn replies(&mut self) -> &mut F::Replies {
        &mut self.others().replies
    }

    /// Sends the outcome of a migration to the task that requested it.
    pub(super) fn reply_migrated(&mut self, reply: MigrationReply, migrated: Migrated) {
        self.others().migrated.push((reply, migrated));
    }

    /// Wakes the shard to process a task's changes.
    pub(crate) fn wake_shard(&mut self) {
        self.wakes_shard = true;
    }

    /// Cancels waking the shard, which will process the changes anyway.
    pub(super) fn spare_shard(&mut self) {
        self.wakes_shard = false;
    }

    fn others(&mut self) -> &mut Others<F> {
        self.has_others = true;
        self.others.get_or_insert_with(|| {
            Box::new(Others {
                woken: Vec::new(),
                dropped: Vec::new(),
                signals: [false; Signal::COUNT],
                migrated: Vec::new(),
                replies: F::Replies::default(),
            })
        })
    }

    /// Carries out all effects, and clears them. Must not be called with the lock held.
    pub(crate) fn carry_out(&mut self, shared: &Shared<F>) {
        if core::mem::take(&mut self.wakes_shard) {
            shared.wake_shard();
        }
        if core::mem::take(&mut self.has_others)
            && let Some(others) = &mut self.others
        {
            others.carry_out(shared);
        }
    }
}

impl<F: AppState> Others<F> {
    fn carry_out(&mut self, shared: &Shared<F>) {
        self.woken.drain(..).for_each(Waker::wake);
        self.dropped.clear();
        for (reply, migrated) in self.migrated.drain(..) {
            // The task may have dropped its receiver.
            let _ = reply.send(migrated);
        }
        self.replies.send();
        for signal in Signal::ALL {
            if core::mem::take(&mut self.signals[signal as usize]) {
                shared.notify_waiters(signal);
            }
        }
    }
}

/// Slot for the waker of at most one waiting task.
#[derive(Default)]
pub(crate) struct WakerSlot(Option<Waker>);

impl WakerSlot {
    /// Registers the task of `context`, replacing any other.
    pub(crate) fn register<F: AppState>(
        &mut self,
        context: &Context<'_>,
        effects: &mut Effects<F>,
    ) {
        match &self.0 {
            Some(waker) if waker.will_wake(context.waker()) => {}
            _ => {
                if let Some(waker) = self.0.replace(context.waker().clone()) {
                    effects.others().dropped.push(waker);
                }
            }
        }
    }

    /// Wakes the waiting task, if there is one.
    pub(crate) fn wake<F: AppState>(&mut self, effects: &mut Effects<F>) {
        if let Some(waker) = self.0.take() {
            effects.others().woken.push(waker);
        }
    }

    /// Removes the task without waking it.
    pub(crate) fn clear<F: AppState>(&mut self, effects: &mut Effects<F>) {
        if let Some(waker) = self.0.take() {
            effects.others().dropped.push(waker);
        }
    }

    /// Returns whether a task is waiting.
    pub(crate) fn is_waited_on(&self) -> bool {
        self.0.is_some()
    }
}
