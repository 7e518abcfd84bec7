//! Opens files below a directory one path component at a time, so that no symbolic link is
//! followed, on systems whose kernel has no system call for this.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::Path;

use cap_fs_ext::{DirExt, FollowSymlinks, OpenOptionsFollowExt, OpenOptionsSyncExt};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, FileType, Metadata, OpenOptions};
use rustix::io::Errno;

use super::Kind;

/// Returns the kind of file at the path `names` below the directory `root`.
///
/// # Errors
///
/// Returns an error if a component of the path is a symbolic link (see [`is_link`]), or does not
/// exist.
pub(crate) fn kind_beneath(root: &Path, names: &Path) -> io::Result<Kind> {
    match folder_of(root, names)? {
        (_, None) => Ok(Kind::Folder),
        (folder, Some(name)) => Ok(look(&folder, name)?.file_type().into()),
    }
}

/// Opens the file at the path `names` below the directory `root` for reading.
///
/// # Errors
///
/// Returns an error if a component of the path is a symbolic link (see [`is_link`]), or the file
/// cannot be opened.
pub(crate) fn open_beneath(root: &Path, names: &Path) -> io::Result<File> {
    let (folder, name) = folder_of(root, names)?;
    let name = name.ok_or(io::ErrorKind::IsADirectory)?;
    look(&folder, name)?;
    let mut options = OpenOptions::new();
    // If the file has been replaced by a pipe, opening it must not block.
    options.read(true).follow(FollowSymlinks::No).nonblock(true);
    Ok(folder.open_with(name, &options)?.into_std())
}

/// Opens the directory that contains the last component of the path `names`. Returns the directory
/// and this component, which is `None` if the path is empty.
fn folder_of<'a>(root: &Path, names: &'a Path) -> io::Result<(Dir, Option<&'a OsStr>)> {
    let mut folder = Dir::open_ambient_dir(root, ambient_authority())?;
    let mut names = names.iter().peekable();
    while let Some(name) = names.next() {
        if names.peek().is_none() {
            return Ok((folder, Some(name)));
        }
        look(&folder, name)?;
        folder = folder.open_dir_nofollow(name)?;
    }
    Ok((folder, None))
}

/// Returns the metadata of a directory's entry, unless the entry is a symbolic link. If it is
/// replaced by a symbolic link later, opening it fails.
fn look(folder: &Dir, name: &OsStr) -> io::Result<Metadata> {
    let metadata = folder.symlink_metadata(name)?;
    match metadata.is_symlink() {
        true => Err(Errno::LOOP.into()),
        false => Ok(metadata),
    }
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

/// Returns whether opening a path failed because of a symbolic link.
#[cfg_attr(target_os = "linux", expect(dead_code, reason = "tests use only the other functions"))]
pub(crate) fn is_link(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::LOOP)
}
