//! Files that are written completely or not at all.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::failure::Failure;
use crate::system;

/// Maximum length of a file name: bytes on Unix (NAME_MAX), UTF-16 code units on Windows.
const LONGEST_NAME: usize = 255;

/// A file that is written under a temporary name and renamed when it is complete, so that a partial
/// file cannot be mistaken for a complete one. If this is dropped earlier, the file is removed. If
/// the target is not a regular file (a device, a pipe), the target is written directly.
#[derive(Debug)]
pub struct WholeFile {
    file: BufWriter<File>,
    target: PathBuf,
    /// The temporary path.
    temporary: Option<PathBuf>,
}

impl WholeFile {
    /// Creates a file that will become `target`.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be created.
    pub fn create(target: &Path) -> io::Result<Self> {
        // If the target is a symbolic link, the file that it points to is written.
        let target = fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
        if target.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let (file, temporary) = if target.exists() && !target.is_file() {
            (OpenOptions::new().write(true).open(&target)?, None)
        } else {
            let temporary = temporary(&target)?;
            (OpenOptions::new().write(true).create_new(true).open(&temporary)?, Some(temporary))
        };
        Ok(Self { file: BufWriter::new(file), target, temporary })
    }

    /// Renames the complete file to its target.
    ///
    /// # Errors
    ///
    /// Returns an error if the last bytes cannot be written, or the file cannot be renamed.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.flush()?;
        if let Some(temporary) = &self.temporary {
            fs::rename(temporary, &self.target)?;
        }
        self.temporary = None;
        Ok(())
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // If this fails, nothing can be done.
            let _ = fs::remove_file(temporary);
        }
    }
}

/// Returns the path at which `target` is written until it is complete: a hidden file beside it. A
/// name that would exceed the file system's limit is truncated, and a number distinguishes it from
/// other names with the same beginning.
///
/// # Errors
///
/// Returns an error if `target` has no file name.
pub fn temporary(target: &Path) -> io::Result<PathBuf> {
    let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut end = format!(".{}.part", std::process::id());
    if 1 + system::name_length(name) + end.len() > LONGEST_NAME {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        end = format!(".{}{end}", NUMBER.fetch_add(1, Ordering::Relaxed));
    }
    let room = LONGEST_NAME.saturating_sub(1 + end.len());
    let mut temporary = OsString::from(".");
    temporary.push(system::shortened(name, room));
    temporary.push(end);
    Ok(target.with_file_name(temporary))
}

/// Creates the failure to write `target`, which the user passed with `option`.
pub fn unwritten(target: &Path, error: &io::Error, option: &str) -> Failure {
    let failure = Failure::new(format!("cannot write {}: {error}", target.display()));
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            failure.advise(format!("free some disk space, or choose another path with {option}"))
        }
        _ => failure.advise(format!("choose another path with {option}")),
    }
}

#[cfg(test)]
#[path = "whole_file_tests.rs"]
mod tests;
