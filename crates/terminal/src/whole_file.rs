//! A file that exists completely or not at all.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::failure::Failure;

/// The longest name of a file in bytes (NAME_MAX of Linux).
const LONGEST_NAME: usize = 255;

/// A file that is written under a temporary name and renamed when it is complete, so that a partial file cannot pass
/// for the whole. Dropping it earlier removes it. A target that is not a regular file (a device, a pipe) is written to
/// directly.
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
    /// If it cannot be created.
    pub fn create(target: &Path) -> io::Result<Self> {
        // A symbolic link stands for the file that it leads to.
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

    /// Gives the complete file its name.
    ///
    /// # Errors
    ///
    /// If the last bytes cannot be written, or the file cannot be renamed.
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
            // Nothing can be done if this fails.
            let _ = fs::remove_file(temporary);
        }
    }
}

/// Where `target` is written until it is complete: a hidden file beside it. A name that would become longer than file
/// systems accept is cut off, and told apart from others with the same beginning by a number.
///
/// # Errors
///
/// If `target` is not the name of a file.
pub fn temporary(target: &Path) -> io::Result<PathBuf> {
    let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?.as_bytes();
    let mut end = format!(".{}.part", std::process::id());
    if 1 + name.len() + end.len() > LONGEST_NAME {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        end = format!(".{}{end}", NUMBER.fetch_add(1, Ordering::Relaxed));
    }
    let room = LONGEST_NAME.saturating_sub(1 + end.len()).min(name.len());
    let kept = name.get(..room).unwrap_or(name);
    Ok(target.with_file_name(OsStr::from_bytes(&[b".", kept, end.as_bytes()].concat())))
}

/// The failure to write `target`, which the user gave with `option`.
pub fn unwritten(target: &Path, error: &io::Error, option: &str) -> Failure {
    let failure = Failure::new(format!("cannot write {}: {error}", target.display()));
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            failure.advise(format!("make room or choose another place with {option}"))
        }
        _ => failure.advise(format!("choose another place with {option}")),
    }
}

#[cfg(test)]
#[path = "whole_file_tests.rs"]
mod tests;
