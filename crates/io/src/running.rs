//! Which shards run, so that a program can end them all before it ends.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use crate::mailbox::{Command, Mailbox};

struct Running {
    mailbox: Arc<Mailbox>,
    thread: JoinHandle<()>,
}

static RUNNING: Mutex<Vec<Running>> = Mutex::new(Vec::new());

/// A shard was started. Those that have ended since the last one began are forgotten.
pub(crate) fn register(mailbox: Arc<Mailbox>, thread: JoinHandle<()>) {
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    running.retain(|shard| !shard.thread.is_finished());
    running.push(Running { mailbox, thread });
}

/// Ends all shards of this process and returns when their threads are gone. Each does what it was asked to do
/// before and sends what comes of it, such as the closing of a connection; it does not wait for its peers.
///
/// For a program that is about to end: the cryptographic library's state is gone before the process is, and
/// a thread that is in the middle of a handshake then aborts the process. A shard whose application blocks
/// is waited for; the one that calls this is not.
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
