//! Which shards run, so that a program can end them all before it ends.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use crate::mailbox::{Command, Mailbox};

struct Running {
    mailbox: Arc<Mailbox>,
    thread: JoinHandle<()>,
}

static RUNNING: Mutex<Vec<Running>> = Mutex::new(Vec::new());

/// Registers a shard that was started, and removes those that have ended.
pub(crate) fn register(mailbox: Arc<Mailbox>, thread: JoinHandle<()>) {
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    running.retain(|shard| !shard.thread.is_finished());
    running.push(Running { mailbox, thread });
}

/// Ends all shards of this process and returns when their threads have ended. Each processes the commands that it has
/// received, and sends the resulting datagrams, such as a CONNECTION_CLOSE; it does not wait for its peers.
///
/// For a program that is about to exit: the cryptographic library releases its state before the process ends, and a
/// thread in the middle of a handshake would then abort the process. This waits for a shard whose application blocks,
/// but not for the shard that calls it.
pub fn halt() {
    let running = std::mem::take(&mut *RUNNING.lock().unwrap_or_else(PoisonError::into_inner));
    for shard in &running {
        // One that has ended already takes nothing more.
        let _ = shard.mailbox.send(Command::Halt);
    }
    for shard in running.into_iter().filter(|it| it.thread.thread().id() != thread::current().id())
    {
        // A panic of an application was reported when it came.
        let _ = shard.thread.join();
    }
}
