//! Opens files below a directory such that no symbolic link leads out of the directory, even if
//! files are replaced in the meantime.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::system::{self, Kind};

/// A file or directory below a root directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Place {
    /// The root, with all symbolic links resolved. Stays the same even if a symbolic link to the
    /// root is switched.
    root: PathBuf,
    /// The path below the root. No component is a symbolic link or `..`.
    names: PathBuf,
}

impl Place {
    /// Returns the place at `path`, which is relative to `root`; `None` if a symbolic link leads
    /// out of the root.
    ///
    /// # Errors
    ///
    /// Returns an error if the root or the path does not exist or cannot be read.
    pub(super) fn find(root: &Path, path: &Path) -> io::Result<Option<Self>> {
        let root = root.canonicalize()?;
        let place = Self { root, names: path.to_owned() };
        if system::HAS_ALIASES {
            return place.resolved();
        }
        match place.kind() {
            // The path contains a symbolic link, or a component that is not a directory.
            Err(error) if system::is_link(&error) => place.resolved(),
            found => found.map(|_| Some(place)),
        }
    }

    /// Returns the same place, with all symbolic links resolved.
    fn resolved(&self) -> io::Result<Option<Self>> {
        let real = self.root.join(&self.names).canonicalize()?;
        let names = real.strip_prefix(&self.root).ok();
        Ok(names.map(|names| Self { root: self.root.clone(), names: names.to_owned() }))
    }

    /// Returns the path below the root.
    pub(super) fn names(&self) -> &Path {
        &self.names
    }

    /// Returns the kind of the entry at the place. Fails if a component of the path has become a
    /// symbolic link.
    pub(super) fn kind(&self) -> io::Result<Kind> {
        system::kind_beneath(&self.root, &self.names)
    }

    /// Opens the file for reading. Fails if a component of the path has become a symbolic link.
    pub(super) fn open(&self) -> io::Result<File> {
        system::open_beneath(&self.root, &self.names)
    }
}

/// Returns whether opening a place failed because a component of its path has become a symbolic
/// link, or no longer exists, since the lookup.
pub(super) fn has_changed(error: &io::Error) -> bool {
    system::is_link(error) || error.kind() == ErrorKind::NotFound
}

#[cfg(test)]
#[path = "place_tests.rs"]
mod tests;
