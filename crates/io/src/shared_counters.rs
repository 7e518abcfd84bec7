//! Counters that one thread publishes and other threads read.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Most attempts to read the counters between two publications. Only a reader that keeps the
/// publishing thread from running, for example because of its priority, needs so many.
const ATTEMPTS: usize = 1000;

/// `N` counters that one thread publishes and other threads read. The publishing thread never waits.
///
/// What is read was published together, so that counters can be compared with each other.
#[derive(Debug)]
pub struct SharedCounters<const N: usize> {
    /// Odd during a publication, and then increased.
    version: AtomicU64,
    counters: [AtomicU64; N],
}

impl<const N: usize> Default for SharedCounters<N> {
    fn default() -> Self {
        Self { version: AtomicU64::new(0), counters: core::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

impl<const N: usize> SharedCounters<N> {
    /// Replaces all counters. Only one thread may publish.
    pub fn publish<'a>(&self, values: impl Iterator<Item = &'a u64>) {
        let version = self.version.load(Ordering::Relaxed).wrapping_add(1);
        self.version.store(version, Ordering::Relaxed);
        // A reader that sees one of the values below also sees that a publication has begun.
        fence(Ordering::Release);
        let mut counters = self.counters.iter();
        // Compiles to less code than `zip` for chained iterators.
        values.for_each(|value| {
            if let Some(counter) = counters.next() {
                counter.store(*value, Ordering::Relaxed);
            }
        });
        self.version.store(version.wrapping_add(1), Ordering::Release);
    }

    /// Returns the counters of the last publication.
    ///
    /// If the publishing thread cannot run meanwhile, the counters may be of two publications.
    pub fn read(&self) -> [u64; N] {
        for _ in 0..ATTEMPTS {
            let before = self.version.load(Ordering::Acquire);
            let counters = self.load();
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == before {
                return counters;
            }
            std::thread::yield_now();
        }
        self.load()
    }

    fn load(&self) -> [u64; N] {
        core::array::from_fn(|index| self.counters[index].load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn counters_that_are_read_together_were_published_together() {
        let shared = SharedCounters::<64>::default();
        let is_over = AtomicBool::new(false);
        let mut read = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for value in (1..).take_while(|_| !is_over.load(Ordering::Relaxed)) {
                    shared.publish([value; 64].iter());
                    // Counters that are published without a pause cannot be read together.
                    (0..20).for_each(|_| std::thread::yield_now());
                }
            });
            while read.len() < 5_000 {
                read.push(shared.read());
            }
            is_over.store(true, Ordering::Relaxed);
        });
        for pair in read.windows(2) {
            assert_eq!(pair[0], [pair[0][0]; 64]);
            assert!(pair[0][0] <= pair[1][0]);
        }
    }
}
