use core::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Why a log could not be begun, ended early or has gaps. The connection that it is about goes on.
#[derive(Debug)]
#[non_exhaustive]
pub enum QlogError {
    /// The folder cannot be made, or no file can be made in it.
    Directory {
        /// The folder.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The file of a connection cannot be made.
    Open {
        /// What the operating system said.
        source: io::Error,
    },
    /// A log cannot be continued, for instance because the disk is full.
    Write {
        /// What the operating system said.
        source: io::Error,
    },
    /// A log reached [`TraceOptions::maximum_bytes`](super::TraceOptions::maximum_bytes).
    Limit {
        /// The limit in bytes.
        maximum_bytes: u64,
    },
    /// The disk does not keep up: records are missing in a log, which says how many, or there is none.
    TooSlow {
        /// What may wait for the disk, over all logs, in bytes.
        maximum_bytes: usize,
    },
    /// More handshakes fail than get a log each.
    FailedHandshakes,
}

/// What is told about a log that could not be written.
///
/// It is called from within a connection, or by the thread that writes: it must not block.
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
