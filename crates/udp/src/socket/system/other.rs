//! Support for systems without the Linux features: each batch takes one call, sockets cannot share
//! an address, and unreachable destinations are not reported. quinn-udp detects segmentation and
//! ECN.

use core::net::SocketAddr;
use std::io::{self, ErrorKind};
use std::net::UdpSocket;

use quinn_udp::UdpSocketState;

use super::super::Batch;

/// Maximum number of batches that a caller offers per call.
pub(crate) const MAX_TOGETHER: usize = 32;
/// A receive call that fills at least this many buffers may have left datagrams in the socket: most
/// systems fill one at a time.
pub(crate) const FILLED_WITH_MORE: usize = 1;

/// Does nothing: unreachable destinations are not reported.
pub(crate) fn report_errors(_: &UdpSocket, _: &UdpSocketState) {}

/// Returns whether a send call may have failed because segmentation offload does not work.
pub(crate) fn may_be_without_offload(error: &io::Error) -> bool {
    error.kind() == ErrorKind::InvalidInput
}

/// Always fails: on systems that have the option, it does not distribute datagrams.
pub(crate) fn share_address<S>(_: &S) -> io::Result<()> {
    let why = "only Linux distributes datagrams among the sockets of one address";
    Err(io::Error::new(ErrorKind::Unsupported, why))
}

/// Accepts no batches: there is no such system call.
pub(crate) fn send_together<'a>(
    _: &UdpSocket,
    _: impl Iterator<Item = Batch<'a>>,
) -> io::Result<usize> {
    Ok(0)
}

/// Returns nothing: there is no error queue.
pub(crate) fn next_error(_: &UdpSocket) -> io::Result<Option<SocketAddr>> {
    Err(ErrorKind::WouldBlock.into())
}
