use core::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// The reason that a log could not be started, ended early or has gaps. Its connection continues.
#[derive(Debug)]
#[non_exhaustive]
pub enum QlogError {
    /// The folder cannot be made, or no file can be made in it.
    Directory {
        /// The folder.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The file of a connection cannot be made.
    Open {
        /// The operating system's error.
        source: io::Error,
    },
    /// A log cannot be continued, for instance because the disk is full.
    Write {
        /// The operating system's error.
        source: io::Error,
    },
    /// A log reached [`TraceOptions::maximum_bytes`](super::TraceOptions::maximum_bytes).
    Limit {
        /// The limit in bytes.
        maximum_bytes: u64,
    },
    /// The disk is too slow: records are missing in a log, which contains their number, or there is no log.
    TooSlow {
        /// What may wait for the disk, over all logs, in bytes.
        maximum_bytes: usize,
    },
    /// More handshakes fail than get a log each.
    FailedHandshakes,
}

/// Called when a log could not be written.
///
/// It runs inside a connection, or on the writing thread: it must not block.
pub type ErrorHandler = Arc<dyn Fn(&QlogError) + Send + Sync>;

impl fmt::Display for QlogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory { path, source } => {
                write!(f, "qlog files cannot be written to {}: {source}", path.display())
            }
            Self::Open { source } => write!(f, "a qlog file cannot be made: {source}"),
            Self::Write { source } => write!(f, "a qlog file ends early: {source}"),
            Self::Limit { maximum_bytes } => {
                write!(
                    f,
                    "a qlog file ends early: it has reached its limit of {maximum_bytes} bytes"
                )
            }
            Self::TooSlow { maximum_bytes } => write!(
                f,
                "qlog files are not complete: {maximum_bytes} bytes wait for the disk already"
            ),
            Self::FailedHandshakes => f.write_str(
                "more handshakes fail than get a qlog file each; the rest is only counted",
            ),
        }
    }
}

impl core::error::Error for QlogError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Directory { source, .. } | Self::Open { source } | Self::Write { source } => {
                Some(source)
            }
            Self::Limit { .. } | Self::TooSlow { .. } | Self::FailedHandshakes => None,
        }
    }
}
