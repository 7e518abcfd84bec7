//! Exhaustive loss masks over short operations.
//!
//! A mask specifies which of the first ten datagrams of an operation are lost, counting both
//! directions together in send order. Each operation runs once per mask, and must end in the state
//! that its section requires, in a bounded time. This finds failures that need two or three losses
//! in a specific order, which random losses rarely produce.

mod connection;
mod handshake;
mod streams;

use std::cell::Cell;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::support::Pair;
use clearway_network::Way;

/// The number of datagrams that a mask covers.
const DATAGRAMS: u32 = 10;

/// The number of datagrams that the quick tests' masks cover completely.
const QUICK_DATAGRAMS: u32 = 5;

/// The number of its peer's connection IDs that an endpoint keeps.
const REMOTE_IDS: usize = 4;

/// The maximum number of failures that are printed for each operation.
const PRINTED: usize = 5;

/// Returns all masks.
fn every_mask() -> Vec<u32> {
    (0..1 << DATAGRAMS).collect()
}

/// Returns every subset of the first five datagrams, and every pair of the first ten.
fn quick_masks() -> Vec<u32> {
    let is_quick = |mask: &u32| *mask < 1 << QUICK_DATAGRAMS || mask.count_ones() <= 2;
    every_mask().into_iter().filter(is_quick).collect()
}

/// Runs `run` with each mask, on all processors, and reports the masks with which it panics.
fn with_masks(name: &str, masks: &[u32], run: impl Fn(u32) + Sync) {
    let next = AtomicU32::new(0);
    let failures = Mutex::new(Vec::new());
    let work = || {
        while let Some(mask) = masks.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
            if catch_unwind(AssertUnwindSafe(|| run(*mask))).is_err() {
                failures.lock().unwrap_or_else(PoisonError::into_inner).push(*mask);
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let mut failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    failures.sort_by_key(|mask| (mask.count_ones(), *mask));
    let first: Vec<_> = failures.iter().take(PRINTED).map(|mask| format!("{mask:#012b}")).collect();
    assert!(failures.is_empty(), "{name}: {} masks fail, such as {first:?}", failures.len());
}

/// The datagrams that an operation has sent so far.
#[derive(Clone, Default)]
struct Sent {
    /// The number of datagrams in total, in both directions.
    all: Rc<Cell<u32>>,
    /// The number of datagrams that reached the server.
    to_server: Rc<Cell<u32>>,
}

/// Drops the datagrams in `mask` from this point on.
fn lose(pair: &mut Pair, mask: u32) -> Sent {
    let sent = Sent::default();
    let counts = sent.clone();
    pair.filter = Some(Box::new(move |_, way, _| {
        let number = counts.all.get();
        counts.all.set(number + 1);
        let arrives = mask.checked_shr(number).unwrap_or(0) & 1 == 0;
        if arrives && way == Way::ToServer {
            counts.to_server.set(counts.to_server.get() + 1);
        }
        arrives
    }));
    sent
}

/// Returns the maximum duration of an operation with these losses: some round trips, and for each
/// loss a probe timeout that doubles each time (RFC 9002 §6.2.1). On a path with an RTT of 20 ms,
/// the first probe timeout is less than 80 ms.
fn bound(mask: u32) -> Duration {
    Duration::from_millis(200) + Duration::from_millis(80) * (1 << mask.count_ones())
}
