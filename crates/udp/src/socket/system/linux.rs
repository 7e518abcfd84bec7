//! Support for Linux: sendmmsg(2), the error queue, and several sockets at one address.

use core::mem::MaybeUninit;
use core::net::SocketAddr;
use std::io::{self, IoSliceMut};
use std::net::UdpSocket;
use std::os::fd::AsFd;

use clearway_kernel::{Message, sendmmsg};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{ReceiveTimestampns, ReusePort};
use quinn_udp::UdpSocketState;
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, recvmsg};

use super::super::{Batch, RECEIVE_BUFFERS};

/// Maximum number of batches per call.
pub(crate) const MAX_TOGETHER: usize = clearway_kernel::MAX_MESSAGES;
/// A receive call that fills at least this many buffers may have left datagrams in the socket:
/// recvmmsg(2) fills all that it can.
pub(crate) const FILLED_WITH_MORE: usize = RECEIVE_BUFFERS;

/// Sets up a socket, and turns off a feature that quinn-udp enables without having room for its
/// data.
pub(crate) fn new_state(socket: &UdpSocket) -> io::Result<UdpSocketState> {
    let state = UdpSocketState::new(socket.into())?;
    // quinn-udp 0.6.3 requests the arrival time, and provides 96 bytes for it and all other control
    // messages, which does not leave enough for the ECN field of coalesced datagrams. An error only
    // means that the kernel lacks the option, and then there is no timestamp either.
    let _ = setsockopt(socket, ReceiveTimestampns, &false);
    Ok(state)
}

/// Returns whether a receive call returned the error of an earlier send call instead of a datagram.
/// Linux never does: it returns ICMP errors on connected sockets with their own codes.
pub(crate) fn is_reset(_: &io::Error) -> bool {
    false
}

/// Requests reports of unreachable destinations (IP_RECVERR). Without them, a client notices only
/// through a timeout that there is no server.
pub(crate) fn report_errors(socket: &UdpSocket, state: &UdpSocketState) {
    let _ = state.enable_transport_errors(socket.into());
}

/// Returns whether a send call may have failed because the device does not support segmentation
/// offload.
pub(crate) fn may_be_without_offload(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::INVAL | Errno::IO))
}

/// Allows other sockets to bind to the address of this one; the kernel distributes datagrams among
/// them (SO_REUSEPORT).
pub(crate) fn share_address(socket: &impl AsFd) -> io::Result<()> {
    Ok(setsockopt(socket, ReusePort, &true)?)
}

/// Passes batches to the kernel in one call. Returns how many of them the kernel has accepted.
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

/// Removes an entry from the error queue. Returns the destination of the datagram that caused it.
pub(crate) fn next_error(socket: &UdpSocket) -> io::Result<Option<SocketAddr>> {
    let mut payload = [0; 1];
    let mut space = [MaybeUninit::uninit(); 256];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::ERRQUEUE | RecvFlags::DONTWAIT;
    let message = recvmsg(socket, &mut [IoSliceMut::new(&mut payload)], &mut control, flags)?;
    Ok(message.address.and_then(|address| SocketAddr::try_from(address).ok()))
}
