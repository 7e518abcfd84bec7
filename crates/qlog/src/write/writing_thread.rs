//! Files are written by a thread of their own, so that a disk that is slow holds no connection up.

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread;

use super::{ErrorHandler, QlogError};

/// What waits for the disk at most, over all logs of a thread, in bytes.
const MAX_WAITING_BYTES: usize = 32 << 20;

/// Opens a log's file, on the thread.
type OpenFile = Box<dyn FnOnce() -> io::Result<Box<dyn Write + Send>> + Send>;

/// A thread that opens and writes logs for connections, which never wait for it.
///
/// Up to 32 MiB are queued. When there is no more room, records are dropped, whole, and the log contains their number as
/// soon as there is room again. The thread ends when its last handle and log are dropped.
#[derive(Clone)]
pub struct WritingThread {
    jobs: Sender<Job>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Bytes that wait.
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
    /// Everything that was asked for before is done.
    Reached {
        reply: std::sync::mpsc::SyncSender<()>,
    },
}

/// How a log ends early.
#[derive(Clone)]
struct End {
    has_come: Arc<AtomicBool>,
    on_error: Option<ErrorHandler>,
}

impl End {
    fn come(&self, error: &QlogError) {
        self.has_come.store(true, Ordering::Relaxed);
        self.report(error);
    }

    fn report(&self, error: &QlogError) {
        if let Some(on_error) = &self.on_error {
            on_error(error);
        }
    }
}

/// What a [`WritingThread`] has done.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Finished {
    /// Everything that was to be written was tried.
    pub is_complete: bool,
    /// Bytes that still wait, if not.
    pub waiting_bytes: usize,
    /// Records that are missing in logs, because the disk could not keep up.
    pub records_dropped: u64,
    /// Connections without a log, because the disk could not keep up.
    pub logs_dropped: u64,
}

impl WritingThread {
    /// Starts one.
    ///
    /// # Errors
    /// If the system has no thread to give.
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

    /// Waits until everything is written that was handed over before, but no longer than `patience`.
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

    /// A log that `open` opens on the thread.
    ///
    /// # Errors
    /// [`QlogError::TooSlow`] if there is no room for more.
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
        let end = End { has_come: Arc::default(), on_error };
        // A thread that is gone is noticed with the first records.
        let _ = self.jobs.send(Job::Open { log, open, end: end.clone() });
        Ok(QueuedLog { log, jobs: self.jobs.clone(), shared, end, is_behind: false })
    }
}

impl fmt::Debug for WritingThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WritingThread").field("shared", &self.shared).finish_non_exhaustive()
    }
}

/// A log whose file the thread has.
pub(super) struct QueuedLog {
    log: u64,
    jobs: Sender<Job>,
    shared: Arc<Shared>,
    end: End,
    /// It was reported that records were dropped.
    is_behind: bool,
}

/// What became of records that were handed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Handed {
    Over,
    /// There was no room: none of them was accepted.
    Dropped,
    /// The log has ended, which was reported.
    Ended,
}

impl QueuedLog {
    /// Hands over `count` whole records. Those that `must` be taken are, whatever waits: the first of a log,
    /// and the last, which are few and small.
    pub(super) fn hand_over(&mut self, records: &[u8], count: u64, must: bool) -> Handed {
        if self.end.has_come.load(Ordering::Relaxed) {
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
        // A thread that is gone has closed its files.
        let _ = self.jobs.send(Job::Close { log: self.log });
    }
}

/// A log on the thread.
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
                Err(source) => end.come(&QlogError::Open { source }),
            },
            Job::Write { log, records } => {
                let written = logs.get_mut(&log).map_or(Ok(()), |log| {
                    log.writer.write_all(&records).and_then(|()| log.writer.flush())
                });
                shared.waiting.fetch_sub(records.len(), Ordering::Relaxed);
                if let Err(source) = written
                    && let Some(OpenLog { end, .. }) = logs.remove(&log)
                {
                    end.come(&QlogError::Write { source });
                }
            }
            Job::Close { log } => drop(logs.remove(&log)),
            // Whoever waited may have given up.
            Job::Reached { reply } => drop(reply.send(())),
        }
    }
}

#[cfg(test)]
#[path = "writing_thread_tests.rs"]
mod tests;
