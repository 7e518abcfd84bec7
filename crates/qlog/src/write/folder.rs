//! Limits the total size of the files in a folder.
//!
//! The peers of a server determine how many connections there are, how long they last and what
//! happens on them. Therefore, the files have a total limit: the oldest finished ones make room for
//! new ones (docs/decisions/0081-qlog-files-have-a-limit-together.md).

use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::{ErrorHandler, QlogError};

/// The maximum number of finished files. The names of all of them take about 10 MB of memory.
const MAX_FILES: usize = 100_000;

/// A folder, and the files that this process has written to it. Other files are neither counted nor
/// touched.
#[derive(Debug)]
pub(super) struct Folder {
    path: Box<Path>,
    maximum_bytes: AtomicU64,
    /// The total size of the files that are being written.
    unfinished: AtomicU64,
    /// The number of files that are being written.
    unfinished_files: AtomicU64,
    finished: Mutex<FinishedFiles>,
    removed: AtomicU64,
}

/// The names and sizes of the finished files, oldest first.
#[derive(Debug, Default)]
struct FinishedFiles {
    files: VecDeque<(Box<str>, u64)>,
    bytes: u64,
}

impl Folder {
    pub(super) fn new(path: &Path, maximum_bytes: u64) -> Self {
        Self {
            path: path.into(),
            maximum_bytes: maximum_bytes.into(),
            unfinished: AtomicU64::new(0),
            unfinished_files: AtomicU64::new(0),
            finished: Mutex::default(),
            removed: AtomicU64::new(0),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn set_maximum_bytes(&self, maximum_bytes: u64) {
        self.maximum_bytes.store(maximum_bytes, Ordering::Relaxed);
    }

    /// Returns how many files were removed to make room.
    pub(super) fn removed(&self) -> u64 {
        self.removed.load(Ordering::Relaxed)
    }

    /// Returns the reason why a log of `size` bytes must end, or `None` if it may continue. Open
    /// connections may use half of the limit. When they have reached it, logs that are longer than
    /// the average end, so that a flood on some connections does not end the logs of others; those
    /// may use the other half.
    pub(super) fn shortage(&self, size: u64) -> Option<QlogError> {
        let maximum_bytes = self.maximum_bytes.load(Ordering::Relaxed);
        let unfinished = self.unfinished.load(Ordering::Relaxed);
        let files = self.unfinished_files.load(Ordering::Relaxed);
        let average = unfinished.checked_div(files).unwrap_or(0);
        let is_over = unfinished >= maximum_bytes
            || unfinished >= maximum_bytes / 2 && size > 0 && size >= average;
        is_over.then_some(QlogError::FolderFull { maximum_bytes })
    }

    /// Removes the oldest finished files until there is room.
    fn make_room(&self, on_error: Option<&ErrorHandler>) {
        let maximum_bytes = self.maximum_bytes.load(Ordering::Relaxed);
        let mut finished = self.finished.lock().unwrap_or_else(PoisonError::into_inner);
        let left = maximum_bytes.saturating_sub(self.unfinished.load(Ordering::Relaxed));
        while finished.bytes > left || finished.files.len() > MAX_FILES {
            let Some((name, size)) = finished.files.pop_front() else { break };
            finished.bytes = finished.bytes.saturating_sub(size);
            // If another process has already removed the file, there is room, too.
            let _ = fs::remove_file(self.path.join(&*name));
            if self.removed.fetch_add(1, Ordering::Relaxed) == 0
                && let Some(on_error) = on_error
            {
                on_error(&QlogError::FilesRemoved { maximum_bytes });
            }
        }
    }
}

/// A file in a folder. It is finished when it is dropped.
pub(super) struct LogFile {
    file: File,
    name: Box<str>,
    size: u64,
    folder: Arc<Folder>,
    on_error: Option<ErrorHandler>,
}

impl LogFile {
    pub(super) fn new(
        file: File,
        name: &str,
        folder: Arc<Folder>,
        on_error: Option<ErrorHandler>,
    ) -> Self {
        folder.unfinished_files.fetch_add(1, Ordering::Relaxed);
        Self { file, name: name.into(), size: 0, folder, on_error }
    }
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.size = self.size.saturating_add(written as u64);
        self.folder.unfinished.fetch_add(written as u64, Ordering::Relaxed);
        self.folder.make_room(self.on_error.as_ref());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for LogFile {
    fn drop(&mut self) {
        self.folder.unfinished.fetch_sub(self.size, Ordering::Relaxed);
        self.folder.unfinished_files.fetch_sub(1, Ordering::Relaxed);
        let mut finished = self.folder.finished.lock().unwrap_or_else(PoisonError::into_inner);
        finished.bytes = finished.bytes.saturating_add(self.size);
        finished.files.push_back((core::mem::take(&mut self.name), self.size));
        drop(finished);
        self.folder.make_room(self.on_error.as_ref());
    }
}
