use core::fmt;
use core::hash::{BuildHasher, Hasher};
use core::mem::{Discriminant, discriminant};
use core::time::Duration;
use std::fs::{self, File};
use std::hash::RandomState;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use clearway_transport::{Observer, Side};
use clearway_wire::ConnectionId;

use super::folder::{Folder, LogFile};
use super::{
    Admission, ErrorHandler, Finished, QlogError, QlogObserver, TraceOptions, WritingThread,
    create_private, names,
};

/// The file suffix of JSON text sequences (main schema §11.2).
const SUFFIX: &str = "sqlog";
/// The default limit on the total size of the files in a folder.
const MAXIMUM_BYTES: u64 = 4 << 30;
/// The maximum number of logs with the same connection ID and side in one folder.
const MAX_NAMESAKES: u32 = 100;

/// Returns the file name of a log that `side` writes, for the connection with this original
/// destination connection ID: `<ODCID>_client.sqlog` or `<ODCID>_server.sqlog` (quic-events §1.1).
pub fn file_name(original_destination_id: &ConnectionId, side: Side) -> String {
    format!("{}.{SUFFIX}", stem(original_destination_id, side))
}

fn stem(original_destination_id: &ConnectionId, side: Side) -> String {
    format!("{original_destination_id}_{}", names::side(side))
}

/// A folder of logs, one file for each connection. Only the current user may read the files.
///
/// An existing file is never written to: a later connection with the same name gets `_2`, `_3` and so
/// on before the suffix. A [`WritingThread`] creates and writes the files, so that no connection waits for the
/// disk; [`Admission`] decides which connections of a server get one.
///
/// All files that this `QlogDirectory` has written take at most 4 GiB together
/// ([`with_maximum_bytes`](Self::with_maximum_bytes)), and each at most
/// [`TraceOptions::maximum_bytes`].
#[derive(Clone)]
pub struct QlogDirectory {
    folder: Arc<Folder>,
    options: Arc<TraceOptions>,
    on_error: Option<ErrorHandler>,
    admission: Arc<Admission>,
    thread: WritingThread,
}

/// The data that is missing from the files of a [`QlogDirectory`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct QlogSummary {
    /// The data that is missing because the disk was too slow.
    pub disk: Finished,
    /// Failed handshakes that have no file because the limit for logs of failed handshakes was reached.
    pub failed_handshakes: u64,
    /// Connections that have no file because none of their first packets could be decrypted.
    pub unopened: u64,
    /// Finished files that were removed because the files had reached their total limit.
    pub removed: u64,
}

impl QlogDirectory {
    /// Writes logs to the folder `path`, which is created if it does not exist.
    ///
    /// # Errors
    /// Returns [`QlogError::Directory`] if the folder, a file in it or a thread cannot be created.
    pub fn new(path: impl Into<PathBuf>, options: TraceOptions) -> Result<Self, QlogError> {
        let path = path.into();
        let made = fs::create_dir_all(&path).and_then(|()| probe(&path));
        match made.and_then(|()| WritingThread::start()) {
            Ok(thread) => Ok(Self {
                folder: Arc::new(Folder::new(&path, MAXIMUM_BYTES)),
                options: Arc::new(options),
                on_error: None,
                admission: Arc::default(),
                thread,
            }),
            Err(source) => Err(QlogError::Directory { path, source }),
        }
    }

    /// Sets the limit on the total size in bytes of all files that this `QlogDirectory` and its
    /// clones write; 4 GiB by default. Records queued for the disk are not included.
    ///
    /// When the limit is reached, the oldest files of finished connections are removed, as journald
    /// does: the newest ones remain available, no matter how long the program has been running. If
    /// the files of open connections alone reach half of the limit, those that are longer than the
    /// average end with a `loglevel:warning` event that says so. If they reach the whole limit, all
    /// of them end, and no file is begun until there is room. The connections continue. At most
    /// 100,000 finished files are kept.
    pub fn with_maximum_bytes(self, maximum_bytes: u64) -> Self {
        self.folder.set_maximum_bytes(maximum_bytes);
        self
    }

    /// Calls `on_error` when a log cannot be started, ends early or has gaps. Each kind of
    /// [`QlogError`] is reported only once, regardless of the number of connections, because a full
    /// disk ends all logs at once.
    pub fn with_error_handler(mut self, on_error: ErrorHandler) -> Self {
        let reported: Mutex<Vec<Discriminant<QlogError>>> = Mutex::default();
        self.on_error = Some(Arc::new(move |error| {
            let kind = discriminant(error);
            let mut reported = reported.lock().unwrap_or_else(PoisonError::into_inner);
            if !reported.contains(&kind) {
                reported.push(kind);
                drop(reported);
                on_error(error);
            }
        }));
        self
    }

    /// Returns an observer for one connection. Its file is created when the connection begins; at a server, when
    /// the connection is admitted.
    pub fn observer(&self) -> Box<dyn Observer> {
        let (folder, on_error) = (Arc::clone(&self.folder), self.on_error.clone());
        let open = Box::new(move |side, original_destination_id: &ConnectionId| {
            let (file, name) = create(folder.path(), original_destination_id, side)?;
            let file = LogFile::new(file, &name, folder, on_error);
            Ok(Box::new(file) as Box<dyn Write + Send>)
        });
        let observer = QlogObserver::opening(open, Arc::clone(&self.options))
            .admitted_by(Arc::clone(&self.admission))
            .within(Arc::clone(&self.folder))
            .on_thread(self.thread.clone());
        Box::new(match &self.on_error {
            Some(on_error) => observer.with_error_handler(Arc::clone(on_error)),
            None => observer,
        })
    }

    /// Waits until everything that was passed to the thread is written, but no longer than
    /// `patience`, and returns which data is missing. A log has been passed on completely once its
    /// observer is dropped.
    pub fn finish(&self, patience: Duration) -> QlogSummary {
        QlogSummary {
            disk: self.thread.finish(patience),
            failed_handshakes: self.admission.failed(),
            unopened: self.admission.unopened(),
            removed: self.folder.removed(),
        }
    }
}

/// Checks that a file can be created in `path`. Uses an unpredictable name, and fails if the file exists already.
fn probe(path: &Path) -> io::Result<()> {
    let name = RandomState::new().build_hasher().finish();
    let file = path.join(format!(".clearway-qlog-{name:016x}"));
    create_private(&file)?;
    fs::remove_file(&file)
}

/// Creates the file of a connection, and returns it with its name.
fn create(
    path: &Path,
    original_destination_id: &ConnectionId,
    side: Side,
) -> io::Result<(File, String)> {
    let open = |name: String| create_private(&path.join(&name)).map(|file| (file, name));
    let mut result = open(file_name(original_destination_id, side));
    for number in 2..=MAX_NAMESAKES {
        match &result {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let stem = stem(original_destination_id, side);
                result = open(format!("{stem}_{number}.{SUFFIX}"));
            }
            _ => break,
        }
    }
    result
}

impl fmt::Debug for QlogDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QlogDirectory")
            .field("path", &self.folder.path())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "directory_tests.rs"]
mod tests;
