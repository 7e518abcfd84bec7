use core::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// The reason that a log could not be begun, ended early or has gaps. The connection itself goes on.
#[derive(Debug)]
#[non_exhaustive]
pub enum QlogError {
    /// The folder, or a file in it, cannot be created.
    Directory {
        /// The folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file of a connection cannot be created.
    Open {
        /// The error of the operating system.
        source: io::Error,
    },
    /// A log cannot be continued, for instance because the disk is full.
    Write {
        /// The error of the operating system.
        source: io::Error,
    },
    /// A log reached [`TraceOptions::maximum_bytes`](super::TraceOptions::maximum_bytes).
    Limit {
        /// The limit in bytes.
        maximum_bytes: u64,
    },
    /// All files of a folder together have reached their limit: the oldest finished ones are removed from now on.
    FilesRemoved {
        /// The limit in bytes.
        maximum_bytes: u64,
    },
    /// The unfinished files of a folder alone have reached the limit of all of them: a log ends early, or is not begun.
    FolderFull {
        /// The limit in bytes.
        maximum_bytes: u64,
    },
    /// The disk does not keep up: records are missing from a log, which says how many, or a connection has no
    /// log.
    TooSlow {
        /// The most bytes that may be queued for the disk, over all logs.
        maximum_bytes: usize,
    },
    /// More handshakes fail than are logged.
    FailedHandshakes,
}

/// A function that is called when a log could not be written.
///
/// It is called from within a connection, or by the writing thread, so it must not block.
pub type ErrorHandler = Arc<dyn Fn(&QlogError) + Send + Sync>;

impl fmt::Display for QlogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory { path, source } => {
                write!(f, "qlog files cannot be written to {}: {source}", path.display())
            }
            Self::Open { source } => write!(f, "a qlog file cannot be created: {source}"),
            Self::Write { source } => write!(f, "a qlog file ends early: {source}"),
            Self::Limit { maximum_bytes } => {
                write!(
                    f,
                    "a qlog file ends early: it has reached its limit of {maximum_bytes} bytes"
                )
            }
            Self::FilesRemoved { maximum_bytes } => write!(
                f,
                "the qlog files have reached their limit of {maximum_bytes} bytes together; the oldest are removed"
            ),
            Self::FolderFull { maximum_bytes } => write!(
                f,
                "qlog files end early or are missing: those of open connections have reached the limit of \
                 {maximum_bytes} bytes together"
            ),
            Self::TooSlow { maximum_bytes } => write!(
                f,
                "qlog files are incomplete: the disk is too slow ({maximum_bytes} bytes are queued)"
            ),
            Self::FailedHandshakes => f.write_str(
                "too many handshakes fail: only some of them get a qlog file, the rest are only counted",
            ),
        }
    }
}

impl core::error::Error for QlogError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Directory { source, .. } | Self::Open { source } | Self::Write { source } => {
                // Their text contains that of the error.
                source.source()
            }
            Self::Limit { .. }
            | Self::FilesRemoved { .. }
            | Self::FolderFull { .. }
            | Self::TooSlow { .. }
            | Self::FailedHandshakes => None,
        }
    }
}
