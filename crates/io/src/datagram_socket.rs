//! Sockets that do not belong to the operating system.

use core::net::SocketAddr;
use core::task::{Context, Poll};
use std::io;

use clearway_udp::{Batch, Meta, SendOutcome};

/// A source and destination of datagrams that takes the place of a UDP socket, for example a tunnel
/// through a proxy.
///
/// A shard calls it on its own thread, so no call may block. Like a UDP socket, it may drop,
/// duplicate and reorder datagrams; it must not change them. If a call panics, the shard ends.
pub trait DatagramSocket: Send {
    /// Returns the local address, which is reported to users and not otherwise interpreted.
    fn local_address(&self) -> SocketAddr;

    /// Returns the maximum number of datagrams that [`send`](Self::send) accepts in one call. The
    /// default is 1; a socket that can send several at a lower cost should return up to 64.
    fn max_segments(&self) -> usize {
        1
    }

    /// Sends the datagrams of `batch`, of which there are at most
    /// [`max_segments`](Self::max_segments). With `segment_size`, the contents are datagrams of that
    /// length, except that the last may be shorter; otherwise, they are one datagram.
    ///
    /// Return [`SendOutcome::TooLarge`] if the datagram is larger than this socket supports: path
    /// MTU discovery then uses smaller datagrams (RFC 9000 §14.3). QUIC requires at least 1200
    /// bytes. If [`SendOutcome::WouldBlock`] is returned, `context`'s waker must be woken when there
    /// is room; the shard then sends the same batch again. A socket that has a queue of its own
    /// should rather drop the oldest datagram than block.
    fn send(&mut self, batch: &Batch<'_>, context: &mut Context<'_>) -> SendOutcome;

    /// Receives one datagram into `buffer`, which has 65,536 bytes. Returns its length and metadata.
    /// When it returns `Pending`, `context`'s waker must be woken when there is a datagram.
    ///
    /// # Errors
    /// An error ends the shard, and with it all of its connections, if it is
    /// [`NotConnected`](io::ErrorKind::NotConnected): the socket will receive nothing more. After
    /// other errors the shard calls again later.
    fn poll_receive(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<(usize, Meta)>>;
}
