//! Files below a directory, opened so that no link leads out of it, however the files change
//! meanwhile.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat, openat2};
use rustix::io::Errno;

/// A file or directory below a root directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Place {
    /// The root, with all links resolved: its current name, even if a link to it is switched.
    root: PathBuf,
    /// The names below the root, none of which is a link or `..`.
    names: PathBuf,
}

impl Place {
    /// Returns the place that `path`, relative to `root`, leads to; `None` if a link leads out of
    /// the root.
    ///
    /// # Errors
    ///
    /// If the root or the path does not exist or cannot be read.
    pub(super) fn find(root: &Path, path: &Path) -> io::Result<Option<Self>> {
        let root = root.canonicalize()?;
        let place = Self { root, names: path.to_owned() };
        match place.node() {
            // The path contains a link, or something that is not a directory.
            Err(error) if is_link(&error) => place.resolved(),
            found => found.map(|_| Some(place)),
        }
    }

    /// Returns the same place, with all links resolved.
    fn resolved(&self) -> io::Result<Option<Self>> {
        let real = self.root.join(&self.names).canonicalize()?;
        let names = real.strip_prefix(&self.root).ok();
        Ok(names.map(|names| Self { root: self.root.clone(), names: names.to_owned() }))
    }

    /// Returns the names below the root.
    pub(super) fn names(&self) -> &Path {
        &self.names
    }

    /// Opens the place as a path only: nothing is read, and a device or pipe is not touched.
    pub(super) fn node(&self) -> io::Result<File> {
        self.open_as(OFlags::PATH)
    }

    /// Opens the file for reading.
    pub(super) fn open(&self) -> io::Result<File> {
        // If the path has become a pipe meanwhile, opening it must not block.
        self.open_as(OFlags::RDONLY | OFlags::NONBLOCK)
    }

    /// Opens the place, and fails if one of the names has become a link.
    fn open_as(&self, flags: OFlags) -> io::Result<File> {
        let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = open(&self.root, folder, Mode::empty())?;
        let flags = flags | OFlags::CLOEXEC;
        let path = if self.names.as_os_str().is_empty() { Path::new(".") } else { &self.names };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let opened = match openat2(&root, path, flags, Mode::empty(), resolve) {
            // A kernel before 5.6, or a sandbox that does not support the call.
            Err(Errno::NOSYS | Errno::PERM) => step_by_step(root, path, flags),
            opened => opened,
        };
        Ok(opened?.into())
    }
}

/// Opens `path` below `folder` name by name, so that no link is followed.
fn step_by_step(mut folder: OwnedFd, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let mut names = path.components().peekable();
    while let Some(name) = names.next() {
        let is_last = names.peek().is_none();
        let flags = if is_last { flags } else { OFlags::PATH | OFlags::CLOEXEC };
        folder = openat(&folder, name.as_os_str(), flags | OFlags::NOFOLLOW, Mode::empty())?;
        let kind = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&folder)?.st_mode);
        // With O_PATH, a link itself would be opened.
        if kind == rustix::fs::FileType::Symlink {
            return Err(Errno::LOOP);
        }
    }
    Ok(folder)
}

/// Returns whether opening a place failed because of a link.
fn is_link(error: &io::Error) -> bool {
    let is = |errno| Errno::from_io_error(error) == Some(errno);
    is(Errno::LOOP) || is(Errno::XDEV)
}

/// Returns whether opening a place failed because a name has become a link since the lookup.
pub(super) fn has_changed(error: &io::Error) -> bool {
    is_link(error) || error.kind() == ErrorKind::NotFound
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn name_by_name_no_link_is_followed() {
        let folder = std::env::temp_dir().join(format!("clearway-step-{}", std::process::id()));
        fs::create_dir_all(folder.join("a/b")).unwrap();
        fs::write(folder.join("a/b/file"), "1").unwrap();
        std::os::unix::fs::symlink("a", folder.join("link")).unwrap();
        std::os::unix::fs::symlink("file", folder.join("a/b/link")).unwrap();
        let step = |path: &str| {
            let root = open(&folder, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
            let opened = step_by_step(root, Path::new(path), OFlags::PATH);
            opened.map(|file| File::from(file).metadata().unwrap().is_file())
        };
        assert_eq!(step("a/b/file"), Ok(true));
        assert_eq!(step("a/b"), Ok(false));
        assert_eq!(step("."), Ok(false));
        for link in ["link", "link/b/file", "a/b/link"] {
            assert!(matches!(step(link), Err(Errno::LOOP | Errno::NOTDIR)), "{link}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    /// The kind of a directory entry, before or after it is exchanged.
    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Kind {
        File,
        Folder,
        LinkInside,
        LinkToHidden,
        LinkOutside,
        /// A link to a link that leads outside.
        Chain,
        Pipe,
        Nothing,
    }

    const KINDS: [Kind; 8] = [
        Kind::File,
        Kind::Folder,
        Kind::LinkInside,
        Kind::LinkToHidden,
        Kind::LinkOutside,
        Kind::Chain,
        Kind::Pipe,
        Kind::Nothing,
    ];

    fn make(kind: Kind, path: &Path) {
        let _ = fs::remove_file(path).or_else(|_| fs::remove_dir_all(path));
        let link = |to| std::os::unix::fs::symlink(to, path).unwrap();
        match kind {
            Kind::File => fs::write(path, "file").unwrap(),
            Kind::Folder => {
                fs::create_dir(path).unwrap();
                fs::write(path.join("leaf"), "leaf").unwrap();
            }
            Kind::LinkInside => link("inside"),
            Kind::LinkToHidden => link(".hidden"),
            Kind::LinkOutside => link("../outside"),
            Kind::Chain => link("second"),
            Kind::Pipe => {
                let (pipe, user) = (rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR);
                rustix::fs::mknodat(rustix::fs::CWD, path, pipe, user, 0).unwrap();
            }
            Kind::Nothing => {}
        }
    }

    /// A name that is exchanged after the lookup leads to its current target, or nowhere, whether
    /// the kernel or this program resolves the path.
    #[test]
    fn a_name_that_is_exchanged_leads_nowhere_else() {
        let base = std::env::temp_dir().join(format!("clearway-exchange-{}", std::process::id()));
        let _ = fs::remove_dir_all(&base);
        for folder in ["root/inside", "root/.hidden", "outside"] {
            fs::create_dir_all(base.join(folder)).unwrap();
            fs::write(base.join(folder).join("leaf"), folder).unwrap();
        }
        let root = base.join("root").canonicalize().unwrap();
        std::os::unix::fs::symlink("../outside", root.join("second")).unwrap();
        let name = root.join("x");
        let mut opened = 0;
        for (before, after) in KINDS.iter().flat_map(|it| KINDS.iter().map(move |to| (*it, *to))) {
            for path in ["x", "x/leaf"] {
                make(before, &name);
                let Ok(Some(place)) = Place::find(&root, Path::new(path)) else { continue };
                let case = format!("{path}: {before:?}, then {after:?}: {:?}", place.names());
                assert!(!matches!(before, Kind::LinkOutside | Kind::Chain), "{case}");
                make(after, &name);
                let by_steps = || {
                    let root = open(&root, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
                    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
                    step_by_step(root, place.names(), flags).map(File::from)
                };
                for file in [place.open(), by_steps().map_err(io::Error::from)] {
                    let Ok(file) = file else { continue };
                    let at = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
                    assert_eq!(fs::read_link(at).unwrap(), root.join(place.names()), "{case}");
                    opened += 1;
                }
            }
        }
        assert!(opened > 20, "{opened}");
        fs::remove_dir_all(&base).unwrap();
    }
}
