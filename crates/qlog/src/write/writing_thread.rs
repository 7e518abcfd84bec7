//! Writes the files on a separate thread, so that a slow disk does not delay connections.

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread;

use super::{ErrorHandler, QlogError};

/// The maximum number of bytes that may be queued for the disk, across all logs of a thread.
const MAX_WAITING_BYTES: usize = 32 << 20;

/// Opens a log's file, on the writing thread.
type OpenFile = Box<dyn FnOnce() -> io::Result<Box<dyn Write + Send>> + Send>;

/// A thread that opens and writes logs for connections, which never wait for it.
///
/// Up to 32 MiB are queued. When the queue is full, complete records are dropped, and the log
/// states how many and where as soon as there is room again. The thread exits when the last of its
/// handles and logs is dropped.
#[derive(Clone)]
pub struct WritingThread {
    jobs: Sender<Job>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Bytes in the queue.
    waiting: AtomicUsize,
    maximum: usize,
    next_log: AtomicU64,
    dropped: AtomicU64,
    unopened: AtomicU64,
}

enum Job {
    Open {
        log: u64,
        open: OpenFile,
        end: End,
    },
    Write {
        log: u64,
        records: Vec<u8>,
    },
    Close {
        log: u64,
    },
    /// Send a reply, which shows that all earlier jobs are done.
    Reached {
        reply: std::sync::mpsc::SyncSender<()>,
    },
}

/// Whether a log has ended early, shared by the connection and the thread.
#[derive(Clone)]
struct End {
    has_failed: Arc<AtomicBool>,
    on_error: Option<ErrorHandler>,
}

impl End {
    fn fail(&self, error: &QlogError) {
        self.has_failed.store(true, Ordering::Relaxed);
        self.report(error);
    }

    fn report(&self, error: &QlogError) {
        if let Some(on_error) = &self.on_error {
            on_error(error);
        }
    }
}

/// The state of a [`WritingThread`]'s work when [`WritingThread::finish`] returned.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Finished {
    /// Whether all writes were attempted, and therefore nothing is queued.
    pub is_complete: bool,
    /// Number of bytes that are still queued.
    pub waiting_bytes: usize,
    /// Number of records that are missing from logs because the disk could not keep up.
    pub records_dropped: u64,
    /// Number of connections that have no log because the disk could not keep up.
    pub logs_dropped: u64,
}

impl WritingThread {
    /// Starts a thread.
    ///
    /// # Errors
    /// Returns an error if the operating system cannot create a thread.
    pub fn start() -> io::Result<Self> {
        Self::with_room(MAX_WAITING_BYTES)
    }

    fn with_room(maximum: usize) -> io::Result<Self> {
        let (jobs, received) = channel();
        let shared = Arc::new(Shared {
            waiting: AtomicUsize::new(0),
            maximum,
            next_log: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            unopened: AtomicU64::new(0),
        });
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new().name("clearway-qlog".to_owned());
        thread.spawn(move || work(&received, &of_thread))?;
        Ok(Self { jobs, shared })
    }

    /// Waits until everything that was queued before this call is written, but no longer than
    /// `patience`.
    pub fn finish(&self, patience: Duration) -> Finished {
        let (reply, reached) = sync_channel(1);
        let is_complete = self.jobs.send(Job::Reached { reply }).is_ok()
            && reached.recv_timeout(patience).is_ok();
        Finished {
            is_complete,
            waiting_bytes: self.shared.waiting.load(Ordering::Relaxed),
            records_dropped: self.shared.dropped.load(Ordering::Relaxed),
            logs_dropped: self.shared.unopened.load(Ordering::Relaxed),
        }
    }

    /// Begins a log that `open` opens on the thread.
    ///
    /// # Errors
    /// Returns [`QlogError::TooSlow`] if the queue is full.
    pub(super) fn open(
        &self,
        open: OpenFile,
        on_error: Option<ErrorHandler>,
    ) -> Result<QueuedLog, QlogError> {
        let shared = Arc::clone(&self.shared);
        if shared.waiting.load(Ordering::Relaxed) >= shared.maximum {
            shared.unopened.fetch_add(1, Ordering::Relaxed);
            return Err(QlogError::TooSlow { maximum_bytes: shared.maximum });
        }
        let log = shared.next_log.fetch_add(1, Ordering::Relaxed);
        let end = End { has_failed: Arc::default(), on_error };
        // If the thread has exited, passing on the first records reveals it.
        let _ = self.jobs.send(Job::Open { log, open, end: end.clone() });
        Ok(QueuedLog { log, jobs: self.jobs.clone(), shared, end, is_behind: false })
    }
}

impl fmt::Debug for WritingThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WritingThread").field("shared", &self.shared).finish_non_exhaustive()
    }
}

/// The connection's side of a log that the thread writes.
pub(super) struct QueuedLog {
    log: u64,
    jobs: Sender<Job>,
    shared: Arc<Shared>,
    end: End,
    /// Whether dropped records were already reported.
    is_behind: bool,
}

/// The outcome of passing on records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Handed {
    Over,
    /// The queue had no room, so no records were accepted.
    Dropped,
    /// The log has ended, and the reason has been reported.
    Ended,
}

impl QueuedLog {
    /// Passes on `count` complete records. With `must`, they are accepted even if the queue is
    /// full; this is for the first and the last records of a log, which are few and small.
    pub(super) fn hand_over(&mut self, records: &[u8], count: u64, must: bool) -> Handed {
        if self.end.has_failed.load(Ordering::Relaxed) {
            return Handed::Ended;
        }
        let (length, maximum) = (records.len(), self.shared.maximum);
        let add = |all: usize| all.checked_add(length).filter(|sum| must || *sum <= maximum);
        if self.shared.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_err() {
            self.shared.dropped.fetch_add(count, Ordering::Relaxed);
            if !core::mem::replace(&mut self.is_behind, true) {
                self.end.report(&QlogError::TooSlow { maximum_bytes: maximum });
            }
            return Handed::Dropped;
        }
        match self.jobs.send(Job::Write { log: self.log, records: records.to_vec() }) {
            Ok(()) => Handed::Over,
            Err(_) => Handed::Ended,
        }
    }
}

impl Drop for QueuedLog {
    fn drop(&mut self) {
        // If the thread has exited, its files are closed.
        let _ = self.jobs.send(Job::Close { log: self.log });
    }
}

/// The thread's side of a log.
struct OpenLog {
    writer: Box<dyn Write + Send>,
    end: End,
}

fn work(jobs: &Receiver<Job>, shared: &Shared) {
    let mut logs: BTreeMap<u64, OpenLog> = BTreeMap::new();
    for job in jobs {
        match job {
            Job::Open { log, open, end } => match open() {
                Ok(writer) => drop(logs.insert(log, OpenLog { writer, end })),
                Err(source) => end.fail(&QlogError::Open { source }),
            },
            Job::Write { log, records } => {
                let written = logs.get_mut(&log).map_or(Ok(()), |log| {
                    log.writer.write_all(&records).and_then(|()| log.writer.flush())
                });
                shared.waiting.fetch_sub(records.len(), Ordering::Relaxed);
                if let Err(source) = written
                    && let Some(OpenLog { end, .. }) = logs.remove(&log)
                {
                    end.fail(&QlogError::Write { source });
                }
            }
            Job::Close { log } => drop(logs.remove(&log)),
            // The caller may have stopped waiting.
            Job::Reached { reply } => drop(reply.send(())),
        }
    }
}

#[cfg(test)]
#[path = "writing_thread_tests.rs"]
mod tests;
