//! Linux: sendmmsg(2), the error queue, and several sockets at one address.

use core::mem::MaybeUninit;
use core::net::SocketAddr;
use std::io::{self, IoSliceMut};
use std::net::UdpSocket;
use std::os::fd::AsFd;

use clearway_kernel::{Message, sendmmsg};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{ReceiveTimestampns, ReusePort};
use rustix::net::{RecvAncillaryBuffer, RecvFlags, recvmsg};

use super::super::{Batch, RECEIVE_BUFFERS};

/// How many batches one call takes.
pub(crate) const MAX_TOGETHER: usize = clearway_kernel::MAX_MESSAGES;
/// A call to receive that fills this many buffers may have left something: recvmmsg(2) fills all that it can.
pub(crate) const FILLED_WITH_MORE: usize = RECEIVE_BUFFERS;

/// Turns off what quinn-udp asks the kernel for and has no room for.
pub(crate) fn tune(socket: &UdpSocket) {
    // quinn-udp 0.6.3 asks the kernel for the time of arrival, and gives it 96 bytes for this and everything else: too
    // few for the ECN field of datagrams that were merged. Where there is no such option, there is no time either.
    let _ = setsockopt(socket, ReceiveTimestampns, &false);
}

/// Lets other sockets bind the address of this one, among which the kernel distributes what arrives (SO_REUSEPORT).
pub(crate) fn share_address(socket: &impl AsFd) -> io::Result<()> {
    Ok(setsockopt(socket, ReusePort, &true)?)
}

/// Passes batches to the kernel in one call. Returns how many of them it has taken.
pub(crate) fn send_together<'a>(
    socket: &UdpSocket,
    batches: impl Iterator<Item = Batch<'a>>,
) -> io::Result<usize> {
    let messages = batches.map(|batch| Message {
        destination: batch.destination,
        source_ip: batch.source_ip,
        traffic_class: batch.ecn.bits(),
        contents: batch.contents,
        segment_size: batch.segment_size,
    });
    sendmmsg(socket.as_fd(), messages)
}

/// Takes an entry from the error queue: the destination of the datagram that it is about.
pub(crate) fn next_error(socket: &UdpSocket) -> io::Result<Option<SocketAddr>> {
    let mut payload = [0; 1];
    let mut space = [MaybeUninit::uninit(); 256];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::ERRQUEUE | RecvFlags::DONTWAIT;
    let message = recvmsg(socket, &mut [IoSliceMut::new(&mut payload)], &mut control, flags)?;
    Ok(message.address.and_then(|address| SocketAddr::try_from(address).ok()))
}
