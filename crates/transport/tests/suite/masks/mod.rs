//! Exhaustive loss masks over short operations.
//!
//! A mask says which of the first ten datagrams after the beginning of an operation are lost, in both directions together
//! and in the order in which they are sent. Each operation runs once for each mask, and ends in the state that its section
//! requires, in a bounded time. What needs two or three losses in one certain order is found here, and not by random
//! losses.

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

/// How many datagrams a mask covers.
const DATAGRAMS: u32 = 10;

/// How many datagrams the masks of the quick tests cover completely.
const QUICK_DATAGRAMS: u32 = 5;

/// How many connection IDs of its peer an end keeps.
const REMOTE_IDS: usize = 4;

/// The failures of an operation that are printed.
const PRINTED: usize = 5;

/// All masks.
fn every_mask() -> Vec<u32> {
    (0..1 << DATAGRAMS).collect()
}

/// Every subset of the first five datagrams, and every two of the ten.
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

/// The datagrams of an operation that were sent so far.
#[derive(Clone, Default)]
struct Sent {
    /// Their number, in both directions together.
    all: Rc<Cell<u32>>,
    /// How many reached the server.
    to_server: Rc<Cell<u32>>,
}

/// Loses the datagrams of `mask` from now on.
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

/// The most time that an operation takes with these losses: some round trips, and for each loss a probe timeout that is twice as
/// long as the one before (RFC 9002 §6.2.1). On a path with a round trip of 20 ms the first is less than 80 ms.
fn bound(mask: u32) -> Duration {
    Duration::from_millis(200) + Duration::from_millis(80) * (1 << mask.count_ones())
}
