use core::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clearway_transport::{Observer, Side};
use clearway_wire::ConnectionId;

use super::{ErrorHandler, QlogError, QlogObserver, TraceOptions, names};

/// The file suffix of JSON text sequences (main schema §11.2).
const SUFFIX: &str = "sqlog";
/// Logs of the same connection ID and side that are kept beside each other.
const MAX_NAMESAKES: u32 = 100;

/// The name of the log of the connection with this original destination connection ID, as `side`
/// sees it: `<ODCID>_client.sqlog` or `<ODCID>_server.sqlog` (quic-events §1.1).
pub fn file_name(original_destination_id: &ConnectionId, side: Side) -> String {
    format!("{}.{SUFFIX}", stem(original_destination_id, side))
}

fn stem(original_destination_id: &ConnectionId, side: Side) -> String {
    format!("{original_destination_id}_{}", names::side(side))
}

/// A folder of logs, one file for each connection.
///
/// An existing file is never written to: a later connection with the same name gets `_2`, `_3` and so
/// on before the suffix.
#[derive(Clone)]
pub struct QlogDirectory {
    path: Arc<Path>,
    options: Arc<TraceOptions>,
    on_error: Option<ErrorHandler>,
}

impl QlogDirectory {
    /// Logs in the folder `path`, which is made if it is not there.
    ///
    /// # Errors
    /// [`QlogError::Directory`] if the folder cannot be made or no file can be made in it.
    pub fn new(path: impl Into<PathBuf>, options: TraceOptions) -> Result<Self, QlogError> {
        let path = path.into();
        if let Err(source) = fs::create_dir_all(&path).and_then(|()| probe(&path)) {
            return Err(QlogError::Directory { path, source });
        }
        Ok(Self { path: path.into(), options: Arc::new(options), on_error: None })
    }

    /// Tells `on_error` when a log could not be begun or ended early: once, however many connections
    /// there are, because a full disk ends all of them.
    pub fn with_error_handler(mut self, on_error: ErrorHandler) -> Self {
        let was_reported = AtomicBool::new(false);
        self.on_error = Some(Arc::new(move |error| {
            if !was_reported.swap(true, Ordering::Relaxed) {
                on_error(error);
            }
        }));
        self
    }

    /// An observer for one connection. Its file is made when the connection begins.
    pub fn observer(&self) -> Box<dyn Observer> {
        let path = Arc::clone(&self.path);
        let open = Box::new(move |side, original_destination_id: &ConnectionId| {
            let file = create(&path, original_destination_id, side)?;
            Ok(Box::new(file) as Box<dyn Write + Send>)
        });
        let observer = QlogObserver::opening(open, Arc::clone(&self.options));
        Box::new(match &self.on_error {
            Some(on_error) => observer.with_error_handler(Arc::clone(on_error)),
            None => observer,
        })
    }
}

/// Whether a file can be made in `path`.
fn probe(path: &Path) -> io::Result<()> {
    let file = path.join(format!(".clearway-qlog-{}", std::process::id()));
    File::create(&file)?;
    fs::remove_file(&file)
}

fn create(path: &Path, original_destination_id: &ConnectionId, side: Side) -> io::Result<File> {
    let open = |name: &str| OpenOptions::new().write(true).create_new(true).open(path.join(name));
    let mut result = open(&file_name(original_destination_id, side));
    for number in 2..=MAX_NAMESAKES {
        match &result {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let stem = stem(original_destination_id, side);
                result = open(&format!("{stem}_{number}.{SUFFIX}"));
            }
            _ => break,
        }
    }
    result
}

impl fmt::Debug for QlogDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QlogDirectory")
            .field("path", &self.path)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
