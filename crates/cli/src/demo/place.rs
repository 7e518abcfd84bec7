//! Location of a demo's qlog files.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use clearway_qlog::create_private;

/// Maximum number of demos that write to one directory at the same time.
const MAX_PLACES: u32 = 64;

/// A set of file names in a directory, reserved for this demo by a lock on a file while it runs.
/// Files that an earlier demo left under these names are replaced.
#[derive(Debug)]
pub(super) struct Place {
    folder: PathBuf,
    /// The number of this set of names, counted from 1.
    number: u32,
    /// The lock file, which is locked until it is closed.
    _lock: File,
}

/// Returns the default directory for qlog files: in the user's cache, regardless of the current
/// directory.
pub(super) fn default_folder() -> PathBuf {
    let given = |variable| std::env::var_os(variable).map(PathBuf::from);
    cache(given("XDG_CACHE_HOME"), given("HOME")).join("clearway/demo")
}

/// Returns the user's cache directory (XDG Base Directory Specification), or the system's temporary
/// directory if there is none.
fn cache(cache: Option<PathBuf>, home: Option<PathBuf>) -> PathBuf {
    // The specification requires relative paths to be ignored.
    let cache = cache.filter(|path| path.is_absolute());
    let home = home.filter(|path| path.is_absolute()).map(|home| home.join(".cache"));
    cache.or(home).unwrap_or_else(std::env::temp_dir)
}

impl Place {
    /// Reserves the first free set of names in `folder`.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory cannot be created, no file can be created or locked in it,
    /// or no set of names is free.
    pub(super) fn take(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        for number in 1..=MAX_PLACES {
            let path = folder.join(format!(".demo{}.lock", suffix(number)));
            let lock = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
            match lock.try_lock() {
                Ok(()) => return Ok(Self { folder: folder.to_owned(), number, _lock: lock }),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Err(io::Error::other(format!("{MAX_PLACES} other demos are writing to this folder")))
    }

    /// Returns the path of a run's qlog file.
    pub(super) fn path(&self, run: &str) -> PathBuf {
        self.folder.join(format!("{run}{}.sqlog", suffix(self.number)))
    }

    /// Returns the suffix of all file names; `None` for the set of names without a number.
    pub(super) fn ending(&self) -> Option<String> {
        (self.number > 1).then(|| format!("{}.sqlog", suffix(self.number)))
    }
}

fn suffix(number: u32) -> String {
    match number {
        1 => String::new(),
        _ => format!("_{number}"),
    }
}

/// Creates the file at `path`, after removing an existing one. A program that has the removed file
/// open can still read it.
///
/// # Errors
///
/// Returns an error if the old file cannot be removed or the new one cannot be created.
pub(super) fn replace(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => create_private(path),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn without_a_folder_it_is_the_users_cache() {
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(cache(path("/c"), path("/home/a")), path("/c").unwrap());
        assert_eq!(cache(path("c"), path("/home/a")), path("/home/a/.cache").unwrap());
        assert_eq!(cache(None, None), std::env::temp_dir());
    }

    #[test]
    fn no_two_demos_have_the_same_place_at_the_same_time() {
        let folder = std::env::temp_dir().join(format!("clearway-places-{}", std::process::id()));
        let first = Place::take(&folder).unwrap();
        let second = Place::take(&folder).unwrap();
        assert_eq!(first.path("bbr-1"), folder.join("bbr-1.sqlog"));
        assert_eq!(second.path("bbr-1"), folder.join("bbr-1_2.sqlog"));
        assert_eq!(second.ending().as_deref(), Some("_2.sqlog"));
        let mut open = replace(&first.path("bbr-1")).unwrap();
        open.write_all(b"whole").unwrap();
        drop(first);
        let third = Place::take(&folder).unwrap();
        assert_eq!((third.number, third.ending()), (1, None));
        drop(replace(&third.path("bbr-1")).unwrap());
        assert_eq!(fs::read(third.path("bbr-1")).unwrap(), b"");
        fs::remove_dir_all(&folder).unwrap();
    }
}
