//! Tasks that run on a shard's thread, between the batches of its connections.

use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::sync::Arc;
use std::task::Wake;

use futures_util::stream::{FuturesUnordered, Stream};

use crate::guarded::{Panicked, guarded};
use crate::mailbox::{Mailbox, Task};

pub(crate) const TASK: &str = "task on a shard's thread panicked; the task has ended";

/// Maximum number of tasks that complete per turn, so that they do not delay datagrams.
const MAX_COMPLETED: usize = 1024;

/// The tasks of one shard.
pub(crate) struct Tasks {
    running: FuturesUnordered<Task>,
    waker: Waker,
    mailbox: Arc<Mailbox>,
}

/// Wakes the shard when one of its tasks is ready to run.
struct Rouse(Arc<Mailbox>);

impl Wake for Rouse {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.note_ready_task();
    }
}

impl Tasks {
    pub(crate) fn new(mailbox: Arc<Mailbox>) -> Self {
        Self {
            running: FuturesUnordered::new(),
            waker: Arc::new(Rouse(mailbox.clone())).into(),
            mailbox,
        }
    }

    /// Adds a task, which first runs in the next call of [`run`](Self::run).
    pub(crate) fn add(&mut self, task: Task) {
        self.running.push(task);
        self.mailbox.note_ready_task();
    }

    /// Runs the tasks that are ready, each until it waits for something. Returns whether any tasks
    /// may have been ready, in which case another call is needed; after the last task has run, that
    /// call finds none.
    pub(crate) fn run(&mut self) -> bool {
        if !self.mailbox.take_ready_tasks() {
            return false;
        }
        let mut context = Context::from_waker(&self.waker);
        for _ in 0..MAX_COMPLETED {
            let running = Pin::new(&mut self.running);
            match guarded(TASK, || running.poll_next(&mut context)) {
                Ok(Poll::Ready(Some(()))) => {}
                // Tasks that are ready again have already woken the waker.
                Ok(Poll::Ready(None) | Poll::Pending) => return true,
                Err(Panicked) => {}
            }
        }
        self.mailbox.note_ready_task();
        true
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        // A panic in a task's destructor must not prevent the orderly end of the rest of the shard.
        let running = core::mem::take(&mut self.running);
        for task in running {
            let _ = guarded(TASK, || drop(task));
        }
    }
}

#[cfg(test)]
#[path = "tasks_tests.rs"]
mod tests;
