//! The tokio runtimes that tasks on shards belong to, and detection of their shutdown.
//!
//! A runtime's timers and sockets panic if they are polled after the runtime has begun to shut
//! down. tokio drops its own tasks before that, and tasks on shards have to end then too. To detect
//! the shutdown, each runtime runs a task. When the runtime drops that task, the drop waits until
//! no shard is polling a task of the runtime, and no poll begins afterward.

use core::task::Waker;
use core::time::Duration;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, Weak};
use std::thread;

use slab::Slab;
use tokio::runtime::{EnterGuard, Handle, Id};
use tokio::sync::Notify;

/// Number of locks. A polling thread takes one of the locks, so that shards do not contend for a
/// single lock.
const GATES: usize = 16;
/// Maximum number of times that the shutdown checks, once per millisecond, whether a poll in
/// progress has finished. A task that does not return in this time blocks its shard, and may itself
/// be waiting for the end of the runtime.
const MAX_LOOKS: usize = 1000;

/// Runtimes that have tasks on shards.
static RUNTIMES: Mutex<Vec<(Id, Weak<Owner>)>> = Mutex::new(Vec::new());

/// A tokio runtime whose shutdown is detected while a clone of this handle exists.
#[derive(Clone)]
pub(crate) struct Runtime(Arc<Owner>);

struct Owner {
    handle: Handle,
    life: Arc<Life>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.life.is_released.notify_one();
    }
}

#[derive(Default)]
struct Life {
    has_ended: AtomicBool,
    gates: [Gate; GATES],
    /// Wakers of the tasks that end with the runtime.
    tasks: Mutex<Slab<Waker>>,
    /// Notified when the last reference to the runtime is dropped.
    is_released: Notify,
}

/// A lock that is held while a thread polls, on its own cache line.
#[derive(Default)]
#[repr(align(128))]
struct Gate(RwLock<()>);

impl Gate {
    fn of_this_thread(gates: &[Self; GATES]) -> &Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static NUMBER: Cell<usize> = Cell::new(NEXT.fetch_add(1, Ordering::Relaxed) % GATES);
        }
        &gates[NUMBER.get()]
    }
}

impl Runtime {
    /// Returns the runtime in which this is called, if any.
    pub(crate) fn current() -> Option<Self> {
        let handle = Handle::try_current().ok()?;
        let id = handle.id();
        let mut runtimes = RUNTIMES.lock().unwrap_or_else(PoisonError::into_inner);
        runtimes.retain(|(_, owner)| owner.strong_count() > 0);
        let known = runtimes.iter().find(|(known, _)| *known == id);
        if let Some(owner) = known.and_then(|(_, owner)| owner.upgrade()) {
            return Some(Self(owner));
        }
        let life = Arc::<Life>::default();
        let owner = Arc::new(Owner { handle: handle.clone(), life: life.clone() });
        runtimes.push((id, Arc::downgrade(&owner)));
        drop(runtimes);
        let ending = Ending(life.clone());
        handle.spawn(async move {
            let _ending = ending;
            life.is_released.notified().await;
        });
        Some(Self(owner))
    }

    /// Enters the runtime to poll a task; `None` if the runtime has ended.
    pub(crate) fn enter(&self) -> Option<Entered<'_>> {
        let Owner { handle, life } = &*self.0;
        let gate = Gate::of_this_thread(&life.gates).0.read();
        let gate = gate.unwrap_or_else(PoisonError::into_inner);
        if life.has_ended.load(Ordering::SeqCst) {
            return None;
        }
        Some(Entered { _context: handle.enter(), _gate: gate })
    }

    /// Registers `waker` to be woken when the runtime ends, until the returned membership is
    /// dropped.
    pub(crate) fn join(&self, waker: &Waker) -> Membership {
        let key = self.0.life.tasks().insert(waker.clone());
        Membership { runtime: self.clone(), key }
    }
}

/// An entered runtime, which cannot end while this exists.
pub(crate) struct Entered<'a> {
    _context: EnterGuard<'a>,
    _gate: RwLockReadGuard<'a, ()>,
}

/// A task that is woken when its runtime ends.
pub(crate) struct Membership {
    runtime: Runtime,
    key: usize,
}

impl Drop for Membership {
    fn drop(&mut self) {
        let waker = self.runtime.0.life.tasks().try_remove(self.key);
        // Dropped after the lock is released.
        drop(waker);
    }
}

impl Life {
    fn tasks(&self) -> MutexGuard<'_, Slab<Waker>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Dropped when the runtime drops its tasks, before its timers and sockets panic.
struct Ending(Arc<Life>);

impl Drop for Ending {
    fn drop(&mut self) {
        let Self(life) = self;
        life.has_ended.store(true, Ordering::SeqCst);
        for gate in &life.gates {
            for _ in 0..MAX_LOOKS {
                if gate.0.try_write().is_ok() {
                    break;
                }
                thread::sleep(Duration::from_millis(1));
            }
        }
        let wakers: Vec<Waker> = life.tasks().iter().map(|(_, waker)| waker.clone()).collect();
        wakers.into_iter().for_each(Waker::wake);
    }
}
