//! Where a download goes.

use std::io;
use std::path::{Path, PathBuf};

use tokio::fs::{self, File, OpenOptions};
use tokio::io::{AsyncWriteExt, Stdout};

use crate::failure::Failure;

/// Standard output, or a file that has its name only once it is complete.
#[derive(Debug)]
pub(super) enum Sink {
    Standard(Stdout),
    File(Download),
}

/// A file with another name, beside its place. Dropping it removes it.
#[derive(Debug)]
pub(super) struct Download {
    file: File,
    temporary: Temporary,
    target: PathBuf,
}

/// A file that does not stay.
#[derive(Debug)]
struct Temporary(Option<PathBuf>);

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // It is all that can be done.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Sink {
    /// The file `target`, or standard output if there is none.
    pub(super) async fn open(target: Option<&Path>) -> Result<Self, Failure> {
        match target {
            None => Ok(Self::Standard(tokio::io::stdout())),
            Some(target) => Download::create(target).await.map(Self::File),
        }
    }

    /// Takes more content.
    pub(super) async fn write(&mut self, chunk: &[u8]) -> Result<(), Failure> {
        match self {
            Self::Standard(output) => output.write_all(chunk).await.map_err(not_printed),
            Self::File(download) => {
                download.file.write_all(chunk).await.map_err(|error| download.unwritten(&error))
            }
        }
    }

    /// The content is complete.
    pub(super) async fn finish(self) -> Result<(), Failure> {
        match self {
            Self::Standard(mut output) => output.flush().await.map_err(not_printed),
            Self::File(download) => download.finish().await,
        }
    }
}

impl Download {
    async fn create(target: &Path) -> Result<Self, Failure> {
        let unwritable = |why: &dyn std::fmt::Display| {
            Failure::new(format!("cannot write {}: {why}", target.display()))
        };
        if target.is_dir() {
            return Err(unwritable(&"it is a folder").advise("name a file in it"));
        }
        let name = target.file_name().ok_or_else(|| unwritable(&"it names no file"))?;
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.part", std::process::id()));
        let path = target.with_file_name(hidden);
        let opened = OpenOptions::new().write(true).create_new(true).open(&path).await;
        let file = opened.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                unwritable(&"there is no such folder").advise("make it first")
            }
            io::ErrorKind::AlreadyExists => {
                unwritable(&format!("{} is in the way", path.display()))
                    .advise("remove it: another download has left it")
            }
            _ => unwritable(&error).advise("choose another place with --output"),
        })?;
        Ok(Self { file, temporary: Temporary(Some(path)), target: target.to_owned() })
    }

    async fn finish(mut self) -> Result<(), Failure> {
        // Only now an error of the last write comes out.
        self.file.flush().await.map_err(|error| self.unwritten(&error))?;
        if let Some(path) = &self.temporary.0 {
            fs::rename(path, &self.target).await.map_err(|error| self.unwritten(&error))?;
        }
        // It has another name now.
        self.temporary.0 = None;
        Ok(())
    }

    fn unwritten(&self, error: &io::Error) -> Failure {
        let failure = Failure::new(format!("cannot write {}: {error}", self.target.display()));
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                failure.advise("make room or choose another place with --output")
            }
            _ => failure,
        }
    }
}

fn not_printed(error: io::Error) -> Failure {
    Failure::new(format!("cannot write to standard output: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_has_its_name_only_when_it_is_complete() {
        let folder = std::env::temp_dir().join(format!("clearway-sink-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let target = folder.join("file");
        let files = || std::fs::read_dir(&folder).unwrap().count();
        std::fs::write(&target, "old").unwrap();

        let mut sink = Sink::open(Some(&target)).await.unwrap();
        sink.write(b"half").await.unwrap();
        assert_eq!(files(), 2);
        let error = Sink::open(Some(&target)).await.unwrap_err().to_string();
        assert!(error.contains("in the way"), "{error}");
        drop(sink);
        assert_eq!(files(), 1);
        assert_eq!(std::fs::read(&target).unwrap(), b"old");

        let mut sink = Sink::open(Some(&target)).await.unwrap();
        sink.write(b"all ").await.unwrap();
        sink.write(b"of it").await.unwrap();
        sink.finish().await.unwrap();
        assert_eq!(files(), 1);
        assert_eq!(std::fs::read(&target).unwrap(), b"all of it");

        for (place, expected) in
            [(folder.clone(), "folder"), (folder.join("no/file"), "no such folder")]
        {
            let error = Sink::open(Some(&place)).await.unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
