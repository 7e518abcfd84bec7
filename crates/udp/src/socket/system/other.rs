//! Systems without what Linux has: each batch takes a call of its own, a socket has its address alone, and nothing is known of
//! destinations that cannot be reached. What they have of segmentation and ECN, quinn-udp finds.

use core::net::SocketAddr;
use std::io::{self, ErrorKind};
use std::net::UdpSocket;

use super::super::Batch;

/// How many batches a caller offers for one call.
pub(crate) const MAX_TOGETHER: usize = 32;
/// A call to receive that fills this many buffers may have left something: most systems fill one at a time.
pub(crate) const FILLED_WITH_MORE: usize = 1;

pub(crate) fn tune(_: &UdpSocket) {}

/// Lets no others: where there is such an option, it does not distribute what arrives.
pub(crate) fn share_address<S>(_: &S) -> io::Result<()> {
    let why = "only Linux distributes datagrams among the sockets of one address";
    Err(io::Error::new(ErrorKind::Unsupported, why))
}

/// Takes none: there is no such call.
pub(crate) fn send_together<'a>(
    _: &UdpSocket,
    _: impl Iterator<Item = Batch<'a>>,
) -> io::Result<usize> {
    Ok(0)
}

/// There is no error queue.
pub(crate) fn next_error(_: &UdpSocket) -> io::Result<Option<SocketAddr>> {
    Err(ErrorKind::WouldBlock.into())
}
