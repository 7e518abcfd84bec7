//! Functions for Linux, macOS and FreeBSD.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, PipeReader, PipeWriter};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};

use listenfd::ListenFd;
use nix::net::if_::if_nametoindex;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A file from which nothing can be read.
pub(crate) const NULL_DEVICE: &str = "/dev/null";

/// Whether one file can be reached by several names in a directory without hard links.
pub(crate) const HAS_ALIASES: bool = false;

/// The highest descriptor limit that macOS accepts when it reports that there is no limit
/// (OPEN_MAX).
const MAC_DESCRIPTORS: u64 = 10_240;

/// Returns whether `name` can be the name of a file. The caller has checked that it contains no
/// slash.
pub(crate) fn is_name(name: &str) -> bool {
    !name.contains(['\0', '\\'])
}

/// Reads from a position of a file, without moving its cursor.
pub(crate) fn read_at(file: &File, buffer: &mut [u8], start: u64) -> io::Result<usize> {
    file.read_at(buffer, start)
}

/// Returns numbers that identify a file: the device number of its file system, and its inode.
pub(crate) fn identity(metadata: &Metadata) -> [u64; 2] {
    [metadata.dev(), metadata.ino()]
}

/// Returns the modification time in seconds and nanoseconds since 1970.
pub(crate) fn modified(metadata: &Metadata) -> (i64, i64) {
    (metadata.mtime(), metadata.mtime_nsec())
}

/// Returns the time of the last change to the inode, in seconds and nanoseconds since 1970.
pub(crate) fn inode_changed(metadata: &Metadata) -> (i64, i64) {
    (metadata.ctime(), metadata.ctime_nsec())
}

/// Makes files that are created with these options readable for this user only.
pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o600)
}

/// Returns standard output as a file without a buffer.
pub(crate) fn standard_output() -> io::Result<File> {
    Ok(io::stdout().as_fd().try_clone_to_owned()?.into())
}

/// Returns whether an error means that the machine currently lacks descriptors or memory.
pub(crate) fn is_shortage(error: &io::Error) -> bool {
    let shortages = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS, Errno::AGAIN];
    Errno::from_io_error(error).is_some_and(|error| shortages.contains(&error))
}

/// Raises this process's descriptor limit to its maximum (the hard limit of RLIMIT_NOFILE). The
/// default is 1,024 or less, and a server needs more for many clients, open files or readers of its
/// metrics.
pub(crate) fn permit_all_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    // If the limit cannot be raised, operations fail when no descriptor is left, and the failures
    // are counted.
    if raised.is_err() {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(MAC_DESCRIPTORS), ..limit });
    }
}

/// Returns this process's descriptor limit. `None` means that there is no limit.
pub(crate) fn max_descriptors() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Returns the UDP sockets that a service manager has opened for this process (LISTEN_FDS and
/// LISTEN_PID; sd_listen_fds(3)).
pub(crate) fn activated() -> io::Result<Vec<UdpSocket>> {
    let mut given = ListenFd::from_env();
    let count = given.len();
    let take = |at| given.take_udp_socket(at)?.ok_or_else(|| io::ErrorKind::NotFound.into());
    (0..count).map(take).collect()
}

/// Returns the index of the network interface with this name or number.
pub(crate) fn interface(zone: &str) -> io::Result<u32> {
    match (if_nametoindex(zone), zone.parse()) {
        (Ok(index), _) | (Err(_), Ok(index)) if index > 0 => Ok(index),
        (Err(error), _) => Err(error.into()),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

/// Returns a pair of connected ends: when the second one is dropped, poll(2) reports the first one
/// as ready.
pub(crate) fn stop_pair() -> io::Result<(PipeReader, PipeWriter)> {
    io::pipe()
}

/// The end that is dropped in order to stop a thread.
pub(crate) type Stop = PipeWriter;

/// The end that the thread polls.
pub(crate) type Stopped = PipeReader;
