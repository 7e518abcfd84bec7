use core::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Why a log could not be begun or ended early. The connection that it is about goes on.
#[derive(Debug)]
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
}

/// What is told about a log that could not be written.
///
/// It is called from within a connection: it must not block.
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
        }
    }
}

impl core::error::Error for QlogError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Directory { source, .. } | Self::Open { source } | Self::Write { source } => {
                Some(source)
            }
            Self::Limit { .. } => None,
        }
    }
}
