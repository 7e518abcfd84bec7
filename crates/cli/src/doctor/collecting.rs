//! Takes snapshots one after another, on a separate thread because reading the kernel's files
//! blocks.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use clearway_doctor::{Collector, Driver, Missing, Reading, Snapshot};
use clearway_kernel::{DriverStatistics, DropReasons};
use tokio::sync::Notify;

use crate::failure::Failure;

/// Interval at which [`Collecting::progress`] returns.
const TOLD: Duration = Duration::from_secs(1);
/// Minimum interval between snapshots.
const LEAST: Duration = Duration::from_millis(5);

/// Creates a collector for everything that this program can read.
pub(super) fn collector() -> Collector {
    let reasons = DropReasons::open().map_err(|error| missing(&error));
    with_drivers(Collector::new()).with_drop_reasons(move || match &reasons {
        Ok(reasons) => {
            reasons.read().map_or_else(|error| Reading::Missing(missing(&error)), Reading::Seen)
        }
        Err(missing) => Reading::Missing(missing.clone()),
    })
}

/// Makes a collector query drivers for their statistics, in the network namespace of this thread.
pub(super) fn with_drivers(collector: Collector) -> Collector {
    let mut drivers = DriverStatistics::open().map_err(|error| of_driver(&error));
    collector.with_driver_statistics(move |device| match &mut drivers {
        Ok(drivers) => match drivers.read(device) {
            Ok(statistics) => Reading::Seen(Driver { statistics }),
            Err(error) => Reading::Missing(of_driver(&error)),
        },
        Err(missing) => Reading::Missing(missing.clone()),
    })
}

/// Returns the reason that a driver's statistics are missing.
fn of_driver(error: &std::io::Error) -> Missing {
    use std::io::ErrorKind::{PermissionDenied, Unsupported};
    match error.kind() {
        // The driver has no statistics.
        Unsupported => Missing::Kernel,
        PermissionDenied => {
            Missing::Right("CAP_NET_ADMIN, to query drivers (SIOCETHTOOL)".to_owned())
        }
        _ => Missing::Failed(format!("driver statistics: {error}")),
    }
}

/// Returns the reason that drop counts by reason are missing.
fn missing(error: &std::io::Error) -> Missing {
    use std::io::ErrorKind::{NotFound, PermissionDenied, Unsupported};
    match error.kind() {
        PermissionDenied => {
            let right = "CAP_BPF and CAP_PERFMON, to see the kernel's drop reasons";
            Missing::Right(right.to_owned())
        }
        NotFound | Unsupported => Missing::Kernel,
        _ => Missing::Failed(format!("the eBPF program that counts drops: {error}")),
    }
}

/// Default interval between snapshots.
const INTERVAL: Duration = Duration::from_millis(100);

/// How often snapshots are taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    interval: Duration,
    /// Whether to keep the interval even if it is expensive.
    is_asked: bool,
}

impl Pace {
    /// Returns the requested interval, or else the shortest one that is cheap enough.
    pub(super) fn new(asked: Option<Duration>) -> Self {
        Self { interval: asked.unwrap_or(INTERVAL), is_asked: asked.is_some() }
    }

    /// Limits the rate to one snapshot per `interval`.
    pub(super) fn at_least(self, interval: Duration) -> Self {
        Self { interval: self.interval.max(interval), ..self }
    }

    fn after(self, collector: &Collector) -> Duration {
        match self.is_asked {
            true => self.interval,
            false => self.interval.max(collector.least_interval()),
        }
    }
}

/// A running series of snapshots.
pub(super) struct Collecting {
    shared: Arc<Shared>,
    begun: Instant,
    thread: Option<JoinHandle<()>>,
}

/// The snapshots that were taken.
pub(super) struct Gathered {
    pub(super) snapshots: Vec<Snapshot>,
}

struct Shared {
    snapshots: Mutex<VecDeque<Snapshot>>,
    is_ended: AtomicBool,
    progress: Notify,
}

impl Collecting {
    /// Takes snapshots for `time`, including one at its beginning and one at its end.
    pub(super) fn start(pace: Pace, time: Duration) -> Result<Self, Failure> {
        Self::spawn(pace, Some(time), usize::MAX)
    }

    /// Takes snapshots indefinitely, and keeps those from the last `window`.
    pub(super) fn without_end(pace: Pace, window: Duration) -> Result<Self, Failure> {
        let count = window.as_nanos() / pace.interval.as_nanos().max(1);
        Self::spawn(pace, None, usize::try_from(count).unwrap_or(usize::MAX).max(2))
    }

    fn spawn(pace: Pace, time: Option<Duration>, most: usize) -> Result<Self, Failure> {
        let shared = Arc::new(Shared {
            snapshots: Mutex::default(),
            is_ended: AtomicBool::new(false),
            progress: Notify::new(),
        });
        let (begun, of_thread) = (Instant::now(), shared.clone());
        let thread = thread::Builder::new()
            .name("clearway-doctor".to_owned())
            .spawn(move || of_thread.collect(pace, time.map(|time| begun + time), most))
            .map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
        Ok(Self { shared, begun, thread: Some(thread) })
    }

    /// Waits until a second has passed or all snapshots were taken. Returns whether all were taken.
    pub(super) async fn progress(&mut self) -> bool {
        self.shared.progress.notified().await;
        self.shared.is_ended.load(Ordering::Acquire)
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Returns the snapshots taken so far.
    pub(super) fn snapshots(&self) -> Vec<Snapshot> {
        self.shared.lock().iter().cloned().collect()
    }

    /// Stops taking snapshots, and returns them.
    pub(super) async fn finish(mut self) -> Gathered {
        self.shared.is_ended.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread panics only because of a bug in this program.
            let _ = tokio::task::spawn_blocking(|| thread.join()).await;
        }
        let snapshots = std::mem::take(&mut *self.shared.lock());
        Gathered { snapshots: snapshots.into() }
    }
}

impl Drop for Collecting {
    fn drop(&mut self) {
        self.shared.is_ended.store(true, Ordering::Release);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Snapshot>> {
        // No code that panics runs while the lock is held.
        self.snapshots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn collect(&self, pace: Pace, deadline: Option<Instant>, most: usize) {
        let mut collector = collector();
        let mut count = 0_u64;
        let mut told = Instant::now();
        let mut next = told;
        loop {
            let snapshot = collector.collect();
            {
                let mut snapshots = self.lock();
                snapshots.push_back(snapshot);
                if snapshots.len() > most {
                    snapshots.pop_front();
                }
            }
            count += 1;
            let now = Instant::now();
            // No matter how long the first snapshot took, a second one is taken for comparison.
            let is_over = count > 1 && deadline.is_some_and(|it| it <= now);
            if self.is_ended.load(Ordering::Acquire) || is_over {
                break;
            }
            if now.duration_since(told) >= TOLD {
                told = now;
                self.progress.notify_one();
            }
            // If a snapshot took longer than the interval, missed ones are skipped.
            next = (next + pace.after(&collector)).max(now);
            let until = deadline.map_or(next, |deadline| next.min(deadline.max(now + LEAST)));
            self.pause(until);
        }
        self.is_ended.store(true, Ordering::Release);
        self.progress.notify_one();
    }

    fn pause(&self, until: Instant) {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.is_ended.load(Ordering::Acquire) {
                return;
            }
            thread::park_timeout(left);
        }
    }
}
