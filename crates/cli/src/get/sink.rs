//! The destination of a download.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

use tokio::fs::{self, File};
use tokio::io::AsyncWriteExt;

use crate::failure::Failure;
use crate::system;
use crate::whole_file;

/// Maximum number of consecutive symbolic links to follow, as on Linux.
const MAX_LINKS: usize = 40;

/// Standard output, a file that gets its name only when it is complete, or an existing path that is
/// not a regular file, such as a pipe or `/dev/null`.
#[derive(Debug)]
pub(super) enum Sink {
    Standard(File),
    File(Download),
    Special { file: File, name: PathBuf },
}

/// A temporary file in the directory of its target. Dropping it removes the file.
#[derive(Debug)]
pub(super) struct Download {
    file: File,
    temporary: Temporary,
    target: PathBuf,
}

/// The path of a file that is removed on drop.
#[derive(Debug)]
struct Temporary(Option<PathBuf>);

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // If this fails, nothing can be done.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Sink {
    /// Opens the file `target`, or standard output if there is none.
    pub(super) async fn open(target: Option<&Path>) -> Result<Self, Failure> {
        match target {
            None => standard_output().map(Self::Standard).map_err(not_printed),
            Some(target) if is_special(target) => Self::special(target).await,
            Some(target) => Download::create(&behind_links(target)?).map(Self::File),
        }
    }

    async fn special(name: &Path) -> Result<Self, Failure> {
        // Opening a pipe waits until it has a reader.
        let file = fs::OpenOptions::new().write(true).open(name).await;
        let file = file.map_err(|error| unwritten(name, &error))?;
        Ok(Self::Special { file, name: name.to_owned() })
    }

    /// Writes a part of the content.
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

    /// Completes the sink when all content has been written.
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
            return Err(unwritable(&"it is a folder").advise("specify a file in this folder"));
        }
        let replaced = std::fs::metadata(target).ok().map(|metadata| metadata.permissions());
        if let Some(permissions) = &replaced {
            // Replacing a file needs no permission to write to it, but a user who write-protects it
            // does not expect that.
            let opened = match permissions.readonly() {
                true => Err(io::ErrorKind::PermissionDenied.into()),
                false => OpenOptions::new().write(true).open(target).map(drop),
            };
            opened.map_err(|error| {
                unwritable(&error).advise("make the file writable, or choose another one")
            })?;
        }
        let path =
            whole_file::temporary(target).map_err(|_| unwritable(&"the path has no file name"))?;
        // The file is not created in the background: if this task is canceled, it must be able to
        // remove the file.
        let opened = OpenOptions::new().write(true).create_new(true).open(&path);
        let file = opened.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                unwritable(&"the folder does not exist").advise("create the folder first")
            }
            io::ErrorKind::AlreadyExists => {
                unwritable(&format!("the temporary file {} already exists", path.display()))
                    .advise("remove that file, which an earlier download left behind")
            }
            _ => unwritable(&error).advise("choose another path with --output"),
        })?;
        let temporary = Temporary(Some(path));
        if let Some(permissions) = replaced {
            file.set_permissions(permissions).map_err(|error| unwritable(&error))?;
        }
        Ok(Self { file: File::from_std(file), temporary, target: target.to_owned() })
    }

    async fn finish(mut self) -> Result<(), Failure> {
        // An error in the last write is reported only here.
        self.file.flush().await.map_err(|error| unwritten(&self.target, &error))?;
        if let Some(path) = &self.temporary.0 {
            let renamed = fs::rename(path, &self.target).await;
            renamed.map_err(|error| unwritten(&self.target, &error))?;
        }
        // The temporary name no longer exists.
        self.temporary.0 = None;
        Ok(())
    }
}

/// Resolves the symbolic links of `target`; the resulting path need not exist.
fn behind_links(target: &Path) -> Result<PathBuf, Failure> {
    let mut real = target.to_owned();
    for _ in 0..MAX_LINKS {
        match std::fs::read_link(&real) {
            // A relative symbolic link is relative to the directory that contains it.
            Ok(next) => {
                real = real.parent().map_or_else(|| next.clone(), |folder| folder.join(&next))
            }
            Err(_) => return Ok(real),
        }
    }
    Err(Failure::new(format!("cannot write {}: its symbolic links form a loop", target.display())))
}

/// Returns whether the path exists and is neither a regular file nor a directory.
fn is_special(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

fn unwritten(target: &Path, error: &io::Error) -> Failure {
    let failure = Failure::new(format!("cannot write {}: {error}", target.display()));
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            failure.advise("free some disk space, or choose another path with --output")
        }
        _ => failure,
    }
}

/// Opens standard output without the buffer that the program flushes when it exits: if nothing
/// reads the output, the flush would block the exit.
fn standard_output() -> io::Result<File> {
    system::standard_output().map(File::from_std)
}

fn not_printed(error: io::Error) -> Failure {
    Failure::new(format!("cannot write to standard output: {error}"))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[tokio::test]
    async fn a_file_gets_its_name_only_when_it_is_complete() {
        let folder = std::env::temp_dir().join(format!("clearway-sink-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let target = folder.join("file");
        let files = || std::fs::read_dir(&folder).unwrap().count();
        std::fs::write(&target, "old").unwrap();

        let mut sink = Sink::open(Some(&target)).await.unwrap();
        sink.write(b"half").await.unwrap();
        assert_eq!(files(), 2);
        let error = Sink::open(Some(&target)).await.unwrap_err().to_string();
        assert!(error.contains("already exists"), "{error}");
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

        // A dangling symbolic link is preserved, too.
        let (new, dangling) = (folder.join("new"), folder.join("dangling"));
        std::os::unix::fs::symlink(&new, folder.join("second")).unwrap();
        std::os::unix::fs::symlink("second", &dangling).unwrap();
        let mut sink = Sink::open(Some(&dangling)).await.unwrap();
        sink.write(b"at its end").await.unwrap();
        sink.finish().await.unwrap();
        assert!(dangling.is_symlink() && !new.is_symlink());
        assert_eq!(std::fs::read(&new).unwrap(), b"at its end");
        std::os::unix::fs::symlink("circle", folder.join("circle")).unwrap();
        let error = Sink::open(Some(&folder.join("circle"))).await.unwrap_err().to_string();
        assert!(error.contains("circle"), "{error}");

        for (place, expected) in
            [(folder.clone(), "folder"), (folder.join("no/file"), "the folder does not exist")]
        {
            let error = Sink::open(Some(&place)).await.unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[tokio::test]
    async fn a_write_protected_file_is_not_replaced_and_permissions_are_kept() {
        let folder = std::env::temp_dir().join(format!("clearway-protect-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let target = folder.join("file");
        std::fs::write(&target, "old").unwrap();
        let permissions = |mode| Permissions::from_mode(mode);
        std::fs::set_permissions(&target, permissions(0o400)).unwrap();
        let error = Sink::open(Some(&target)).await.unwrap_err().to_string();
        assert!(error.contains("permission denied"), "{error}");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        std::fs::set_permissions(&target, permissions(0o600)).unwrap();
        let mut sink = Sink::open(Some(&target)).await.unwrap();
        sink.write(b"new").await.unwrap();
        sink.finish().await.unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"new");
        assert_eq!(std::fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn who_has_no_room_left_is_told_so() {
        use rustix::io::Errno;
        let errors = [(Errno::NOSPC, true), (Errno::DQUOT, true), (Errno::FBIG, false)];
        for (errno, is_told) in errors {
            let error = unwritten(Path::new("file"), &errno.into()).to_string();
            assert_eq!(error.contains("free some disk space"), is_told, "{error}");
        }
    }

    #[tokio::test]
    async fn a_pipe_is_written_to_and_not_replaced() {
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
