//! Functions for Windows.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::windows::fs::{FileExt, MetadataExt};
use std::os::windows::io::AsHandle;

use rustix::fd::{AsFd, BorrowedFd};

/// A file from which nothing can be read.
pub(crate) const NULL_DEVICE: &str = "NUL";

/// Whether one file can be reached by several names in a directory without hard links: names are
/// case-insensitive, and a short (8.3) name omits characters such as the leading dot of a hidden
/// file.
pub(crate) const HAS_ALIASES: bool = true;

/// Intervals of 100 ns from 1601, the origin of file times, to 1970.
const EPOCH: i64 = 116_444_736_000_000_000;

/// System errors (winerror.h) that mean a lack of handles or memory: ERROR_TOO_MANY_OPEN_FILES,
/// ERROR_NOT_ENOUGH_MEMORY, ERROR_OUTOFMEMORY, ERROR_NO_SYSTEM_RESOURCES, ERROR_COMMITMENT_LIMIT.
const SHORTAGES: [i32; 5] = [4, 8, 14, 1450, 1455];

/// Returns whether `name` can be the name of a file. A colon would select a drive or a stream.
pub(crate) fn is_name(name: &str) -> bool {
    !name.contains(|it: char| it.is_ascii_control() || r#"\/:*?"<>|"#.contains(it))
}

/// Reads from a position of a file. This moves its cursor, which nothing else uses.
pub(crate) fn read_at(file: &File, buffer: &mut [u8], start: u64) -> io::Result<usize> {
    file.seek_read(buffer, start)
}

/// Returns numbers that identify a file: its creation time. The standard library cannot read the
/// file's ID.
pub(crate) fn identity(metadata: &Metadata) -> [u64; 2] {
    [0, metadata.creation_time()]
}

/// Returns the modification time in seconds and nanoseconds since 1970.
pub(crate) fn modified(metadata: &Metadata) -> (i64, i64) {
    let intervals = i64::try_from(metadata.last_write_time()).unwrap_or(i64::MAX) - EPOCH;
    (intervals.div_euclid(10_000_000), intervals.rem_euclid(10_000_000) * 100)
}

/// Returns zeros: the standard library cannot read the time of the last metadata change.
pub(crate) fn inode_changed(_: &Metadata) -> (i64, i64) {
    (0, 0)
}

/// Changes nothing: a file inherits the permissions of its folder.
pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Returns standard output as a file without a buffer.
pub(crate) fn standard_output() -> io::Result<File> {
    Ok(io::stdout().as_handle().try_clone_to_owned()?.into())
}

/// Returns whether an error means that the machine currently lacks handles or memory.
pub(crate) fn is_shortage(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| SHORTAGES.contains(&code))
}

/// Does nothing: the number of handles of a process is not limited.
pub(crate) fn permit_all_descriptors() {}

/// Returns `None`: there is no limit on descriptors.
pub(crate) fn max_descriptors() -> Option<u64> {
    None
}

/// Returns no sockets: there is no service manager that passes them.
pub(crate) fn activated() -> io::Result<Vec<UdpSocket>> {
    Ok(Vec::new())
}

/// Returns the index of the network interface with this number. Zones have no names in addresses
/// on Windows.
pub(crate) fn interface(zone: &str) -> io::Result<u32> {
    let index = zone.parse().ok().filter(|index| *index > 0);
    let why = "expected the interface number, as in fe80::1%12";
    index.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, why))
}

/// Returns a pair of connected ends: when the second one is dropped, poll reports the first one as
/// ready. Pipes cannot be polled, so these are UDP sockets that can send only to each other.
pub(crate) fn stop_pair() -> io::Result<(Stopped, Stop)> {
    let bind = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
    let (stopped, stop) = (bind()?, bind()?);
    stop.connect(stopped.local_addr()?)?;
    stopped.connect(stop.local_addr()?)?;
    Ok((Stopped(stopped), Stop(stop)))
}

/// The end that is dropped in order to stop a thread.
#[derive(Debug)]
pub(crate) struct Stop(UdpSocket);

impl Drop for Stop {
    fn drop(&mut self) {
        // If this fails, the process is about to end anyway.
        let _ = self.0.send(&[0]);
    }
}

/// The end that the thread polls.
#[derive(Debug)]
pub(crate) struct Stopped(UdpSocket);

impl AsFd for Stopped {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
