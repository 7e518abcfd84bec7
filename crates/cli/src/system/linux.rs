//! Linux: paths are resolved by the kernel, and several sockets can share a port.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::path::Path;

use clearway::MemoryBudget;
use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat, openat2};
use rustix::io::Errno;

use super::Kind;
#[cfg(test)]
use super::beneath;

/// Returns the kind of file at the path `names` below the directory `root`. Nothing is read or
/// opened, not even a device or pipe.
///
/// # Errors
///
/// Returns an error if a component of the path is a symbolic link (see [`is_link`]), or does not
/// exist.
pub(crate) fn kind_beneath(root: &Path, names: &Path) -> io::Result<Kind> {
    Ok(open_as(root, names, OFlags::PATH)?.metadata()?.file_type().into())
}

/// Opens the file at the path `names` below the directory `root` for reading.
///
/// # Errors
///
/// Returns an error if a component of the path is a symbolic link (see [`is_link`]), or the file
/// cannot be opened.
pub(crate) fn open_beneath(root: &Path, names: &Path) -> io::Result<File> {
    // If the file has been replaced by a pipe, opening it must not block.
    open_as(root, names, OFlags::RDONLY | OFlags::NONBLOCK)
}

fn open_as(root: &Path, names: &Path, flags: OFlags) -> io::Result<File> {
    let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = open(root, folder, Mode::empty())?;
    let flags = flags | OFlags::CLOEXEC;
    let path = if names.as_os_str().is_empty() { Path::new(".") } else { names };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let opened = match openat2(&root, path, flags, Mode::empty(), resolve) {
        // The kernel is older than 5.6, or a sandbox does not allow the call.
        Err(Errno::NOSYS | Errno::PERM) => step_by_step(root, path, flags),
        opened => opened,
    };
    Ok(opened?.into())
}

/// All implementations of opening a file below a directory, including the one for other systems.
#[cfg(test)]
pub(crate) const OPENERS: [fn(&Path, &Path) -> io::Result<File>; 3] =
    [open_beneath, open_step_by_step, beneath::open_beneath];

#[cfg(test)]
fn open_step_by_step(root: &Path, names: &Path) -> io::Result<File> {
    let root = open(root, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
    Ok(step_by_step(root, names, OFlags::RDONLY | OFlags::NONBLOCK)?.into())
}

/// Opens `path` below `folder` one component at a time, so that no symbolic link is followed.
fn step_by_step(mut folder: OwnedFd, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let mut names = path.components().peekable();
    while let Some(name) = names.next() {
        let is_last = names.peek().is_none();
        let flags = if is_last { flags } else { OFlags::PATH | OFlags::CLOEXEC };
        folder = openat(&folder, name.as_os_str(), flags | OFlags::NOFOLLOW, Mode::empty())?;
        let kind = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&folder)?.st_mode);
        // With O_PATH, openat opens the symbolic link itself.
        if kind == rustix::fs::FileType::Symlink {
            return Err(Errno::LOOP);
        }
    }
    Ok(folder)
}

/// Returns whether opening a path failed because of a symbolic link.
pub(crate) fn is_link(error: &io::Error) -> bool {
    let is = |errno| Errno::from_io_error(error) == Some(errno);
    is(Errno::LOOP) || is(Errno::XDEV)
}

/// Makes the timers of this thread precise. By default, the kernel may wake a thread 50 us late to
/// save energy.
pub(crate) fn be_punctual() {
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZero::new(1));
}

/// Turns off transparent huge pages: while the kernel zeroes a huge page on first use, all
/// connections of a shard wait (bench/PROFILE.md, "Overload").
pub(crate) fn avoid_huge_pages() {
    if std::env::var_os("MIMALLOC_ALLOW_THP").is_none() {
        let _ = rustix::thread::disable_transparent_huge_pages(true);
    }
}

/// Returns the default memory budget of a server's connections.
pub(crate) fn memory_budget() -> Option<MemoryBudget> {
    MemoryBudget::of_process()
}

/// Returns how many of `count` shards can share one port.
pub(crate) fn shards_at_port(count: NonZeroUsize) -> NonZeroUsize {
    count
}

#[cfg(test)]
#[path = "linux_tests.rs"]
mod tests;
