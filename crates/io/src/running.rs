//! Registry of running shards, so that a program can end them all before it exits.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::mailbox::{Command, Mailbox, ShardHandle};
use crate::system::restart;

struct Running {
    number: u64,
    mailbox: Arc<Mailbox>,
    thread: JoinHandle<()>,
}

/// The running shards.
#[derive(Default)]
struct Registry {
    shards: Vec<Running>,
    /// The number of shards started so far.
    started: u64,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { shards: Vec::new(), started: 0 });

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes a shard from the registry when its thread ends, for any reason: the thread then need not
/// be joined, and the mailbox's descriptor can be closed.
struct Ending(u64);

impl Drop for Ending {
    fn drop(&mut self) {
        let ended = {
            let mut registry = registry();
            let place = registry.shards.iter().position(|shard| shard.number == self.0);
            place.map(|place| registry.shards.swap_remove(place))
        };
        // The thread is detached after the lock is released.
        drop(ended);
    }
}

/// Starts the thread of a shard, and registers it until it ends.
pub(crate) fn start(mailbox: Arc<Mailbox>, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = thread::Builder::new().name("clearway-shard".to_owned());
    let mut registry = registry();
    let number = registry.started;
    // If the thread ends immediately, it waits for the lock, and is then registered.
    let thread = thread.spawn(move || {
        let _ending = Ending(number);
        run();
    })?;
    registry.started += 1;
    registry.shards.push(Running { number, mailbox, thread });
    Ok(())
}

/// Ends all shards of this process and returns when their threads have ended. Each shard processes
/// the commands that it has received, and sends the resulting datagrams, such as a
/// CONNECTION_CLOSE; it does not wait for its peers. Afterwards, no other process can replace this
/// one (see [`HotRestart`](crate::HotRestart)), and the unix socket for hot restarts is removed.
///
/// A program should call this before it exits: the cryptographic library releases its state before
/// the process ends, and a thread in the middle of a handshake would then abort the process. The
/// call waits for a shard whose application blocks, but not for the shard that makes the call.
pub fn halt() {
    restart::end_all();
    let running = std::mem::take(&mut registry().shards);
    end(running);
}

/// Ends these shards, like [`halt`] does for all shards of the process.
pub fn halt_shards(handles: &[ShardHandle]) {
    let is_meant = |shard: &Running| handles.iter().any(|it| it.has_mailbox(&shard.mailbox));
    let running = {
        let shards = &mut registry().shards;
        let (meant, others) = std::mem::take(shards).into_iter().partition(is_meant);
        *shards = others;
        meant
    };
    end(running);
}

fn end(running: Vec<Running>) {
    for shard in &running {
        // A shard that has already ended rejects the command.
        let _ = shard.mailbox.send(Command::Halt);
    }
    for shard in running.into_iter().filter(|it| it.thread.thread().id() != thread::current().id())
    {
        // A panic was already reported when it happened.
        let _ = shard.thread.join();
    }
}
