//! Where a download goes.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

use tokio::fs::{self, File};
use tokio::io::{AsyncWriteExt, Stdout};

use crate::failure::Failure;

/// Standard output, a file that has its name only once it is complete, or something that is there
/// already and no file, such as a pipe or `/dev/null`.
#[derive(Debug)]
pub(super) enum Sink {
    Standard(Stdout),
    File(Download),
    Special { file: File, name: PathBuf },
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
            Some(target) if is_special(target) => Self::special(target).await,
            Some(target) => {
                // Behind a link is the file that is meant; a link that leads nowhere is replaced.
                let real = std::fs::canonicalize(target).ok().filter(|real| real.is_file());
                Download::create(real.as_deref().unwrap_or(target)).map(Self::File)
            }
        }
    }

    async fn special(name: &Path) -> Result<Self, Failure> {
        // Opening a pipe waits for its reader.
        let file = fs::OpenOptions::new().write(true).open(name).await;
        let file = file.map_err(|error| unwritten(name, &error))?;
        Ok(Self::Special { file, name: name.to_owned() })
    }

    /// Takes more content.
    pub(super) async fn write(&mut self, chunk: &[u8]) -> Result<(), Failure> {
        match self {
            Self::Standard(output) => output.write_all(chunk).await.map_err(not_printed),
            Self::File(download) => {
                let written = download.file.write_all(chunk).await;
                written.map_err(|error| unwritten(&download.target, &error))
            }
            Self::Special { file, name } => {
                file.write_all(chunk).await.map_err(|error| unwritten(name, &error))
            }
        }
    }

    /// The content is complete.
    pub(super) async fn finish(self) -> Result<(), Failure> {
        match self {
            Self::Standard(mut output) => output.flush().await.map_err(not_printed),
            Self::File(download) => download.finish().await,
            Self::Special { mut file, name } => {
                file.flush().await.map_err(|error| unwritten(&name, &error))
            }
        }
    }
}

impl Download {
    fn create(target: &Path) -> Result<Self, Failure> {
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
        // Not in the background: what this task makes, it must be able to remove when it is cancelled.
        let opened = OpenOptions::new().write(true).create_new(true).open(&path);
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
        let temporary = Temporary(Some(path));
        Ok(Self { file: File::from_std(file), temporary, target: target.to_owned() })
    }

    async fn finish(mut self) -> Result<(), Failure> {
        // Only now an error of the last write comes out.
        self.file.flush().await.map_err(|error| unwritten(&self.target, &error))?;
        if let Some(path) = &self.temporary.0 {
            let renamed = fs::rename(path, &self.target).await;
            renamed.map_err(|error| unwritten(&self.target, &error))?;
        }
        // It has another name now.
        self.temporary.0 = None;
        Ok(())
    }
}

/// Whether something is there that takes bytes and is no file.
fn is_special(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

fn unwritten(target: &Path, error: &io::Error) -> Failure {
    let failure = Failure::new(format!("cannot write {}: {error}", target.display()));
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            failure.advise("make room or choose another place with --output")
        }
        _ => failure,
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

        let link = folder.join("link");
        std::os::unix::fs::symlink("file", &link).unwrap();
        let mut sink = Sink::open(Some(&link)).await.unwrap();
        sink.write(b"through a link").await.unwrap();
        sink.finish().await.unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read(&target).unwrap(), b"through a link");

        for (place, expected) in
            [(folder.clone(), "folder"), (folder.join("no/file"), "no such folder")]
        {
            let error = Sink::open(Some(&place)).await.unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[tokio::test]
    async fn what_is_no_file_is_written_to_and_not_replaced() {
        let folder = std::env::temp_dir().join(format!("clearway-special-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let pipe = folder.join("pipe");
        let user = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, user, 0).unwrap();
        let reading = tokio::task::spawn_blocking({
            let pipe = pipe.clone();
            move || std::fs::read(pipe).unwrap()
        });
        let mut sink = Sink::open(Some(&pipe)).await.unwrap();
        sink.write(b"content").await.unwrap();
        sink.finish().await.unwrap();
        assert_eq!(reading.await.unwrap(), b"content");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        assert!(!std::fs::metadata(&pipe).unwrap().is_file());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
