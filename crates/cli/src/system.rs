//! Differences between operating systems. No other file of this crate checks the target system,
//! except for `lib.rs`, which leaves out the commands that only Linux has.

#[cfg(any(not(target_os = "linux"), test))]
mod beneath;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::fs::FileType;

#[cfg(target_os = "linux")]
pub(crate) use linux::*;
#[cfg(not(target_os = "linux"))]
pub(crate) use other::*;
#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;

/// The kind of file that a path leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Folder,
    /// Something else, such as a pipe or a device.
    Other,
}

impl From<FileType> for Kind {
    fn from(kind: FileType) -> Self {
        match kind {
            _ if kind.is_file() => Self::File,
            _ if kind.is_dir() => Self::Folder,
            _ => Self::Other,
        }
    }
}
