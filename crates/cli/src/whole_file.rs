//! A file that is there whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Takes what is to be in a file. It gets its name when all is written: half of it would pass for the whole. Dropping it
/// before removes it. What is no file (a device, a pipe) is written to at once.
#[derive(Debug)]
pub(crate) struct WholeFile {
    file: BufWriter<File>,
    target: PathBuf,
    /// What it is called meanwhile.
    temporary: Option<PathBuf>,
}

impl WholeFile {
    /// A file that will be `target`.
    ///
    /// # Errors
    ///
    /// If it cannot be made.
    pub(crate) fn create(target: &Path) -> io::Result<Self> {
        // Behind a link stands what is meant.
        let target = fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
        if target.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let (file, temporary) = if target.exists() && !target.is_file() {
            (OpenOptions::new().write(true).open(&target)?, None)
        } else {
            let mut hidden = OsString::from(".");
            hidden.push(target.file_name().ok_or(io::ErrorKind::InvalidInput)?);
            hidden.push(format!(".{}.part", std::process::id()));
            let temporary = target.with_file_name(hidden);
            (OpenOptions::new().write(true).create_new(true).open(&temporary)?, Some(temporary))
        };
        Ok(Self { file: BufWriter::new(file), target, temporary })
    }

    /// All is written: the file gets its name.
    ///
    /// # Errors
    ///
    /// If it does not, or if what was written last could not be.
    pub(crate) fn finish(mut self) -> io::Result<()> {
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
            // It is all that can be done.
            let _ = fs::remove_file(temporary);
        }
    }
}

/// What to say if `target`, which `option` names, cannot be written.
pub(crate) fn unwritten(target: &Path, error: &io::Error, option: &str) -> Failure {
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
