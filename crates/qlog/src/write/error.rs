use core::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// The reason that a log could not be begun, ended early or has gaps. The connection itself
/// continues.
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
    /// A log cannot be continued, for example because the disk is full.
    Write {
        /// The error of the operating system.
        source: io::Error,
    },
    /// A log reached [`TraceOptions::maximum_bytes`](super::TraceOptions::maximum_bytes).
    Limit {
        /// The limit in bytes.
        maximum_bytes: u64,
    },
    /// The files of a folder have reached their total limit: from now on the oldest finished ones
    /// are removed.
    FilesRemoved {
        /// The limit in bytes.
        maximum_bytes: u64,
    },
    /// The unfinished files of a folder alone have reached the total limit: a log ends early, or is
    /// not begun.
    FolderFull {
        /// The limit in bytes.
        maximum_bytes: u64,
    },
    /// The disk is too slow: records are missing from a log, which states how many, or a connection
    /// has no log.
    TooSlow {
        /// The maximum number of bytes that may be queued for the disk, across all logs.
        maximum_bytes: usize,
    },
    /// More handshakes fail than the limit for logs of failed handshakes allows.
    FailedHandshakes,
}

/// A function that is called with the reason when a log could not be written.
///
/// Called by a connection or by the writing thread, so it must not block.
pub type ErrorHandler = Arc<dyn Fn(&QlogError) + Send + Sync>;

impl fmt::Display for QlogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory { path, source } => {
                write!(f, "cannot write qlog files to {}: {source}", path.display())
            }
            Self::Open { source } => write!(f, "cannot create a qlog file: {source}"),
            Self::Write { source } => write!(f, "a qlog file ends early: {source}"),
            Self::Limit { maximum_bytes } => {
                write!(
                    f,
                    "a qlog file ends early: it has reached its limit of {maximum_bytes} bytes"
                )
            }
            Self::FilesRemoved { maximum_bytes } => write!(
                f,
                "the qlog files have reached their total limit of {maximum_bytes} bytes; the oldest are removed"
            ),
            Self::FolderFull { maximum_bytes } => write!(
                f,
                "qlog files end early or are missing: those of open connections have reached the limit of \
                 {maximum_bytes} bytes in total"
            ),
            Self::TooSlow { maximum_bytes } => write!(
                f,
                "qlog files are incomplete: the disk is too slow ({maximum_bytes} bytes are queued)"
            ),
            Self::FailedHandshakes => f.write_str(
                "too many failed handshakes: only some of them get a qlog file; the rest are only counted",
            ),
        }
    }
}

impl core::error::Error for QlogError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Directory { source, .. } | Self::Open { source } | Self::Write { source } => {
                // This error's message already contains the message of its source.
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
