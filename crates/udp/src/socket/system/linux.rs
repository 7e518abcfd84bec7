//! Support for Linux: sendmmsg(2), the error queue, and several sockets at one address.

use core::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use std::io::{self, IoSliceMut};
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd};

use clearway_kernel::{Message, sendmmsg};
use nix::cmsg_space;
use nix::sys::socket::sockopt::{ReceiveTimestampns, ReusePort};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt};
use quinn_udp::UdpSocketState;
use rustix::io::Errno;

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

/// Returns whether a call may have returned the error of an earlier datagram, as an ICMP message
/// reports it. Linux translates the types and codes of these messages to the errors that have their
/// own [kind](io::ErrorKind), and to these (`icmp_err_convert` and `icmpv6_err_convert`).
pub(crate) fn is_report(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        // In this order: "fragmentation needed" or "packet too big", protocol unreachable, source
        // route failed, host unknown, host isolated, parameter problem.
        Some(
            Errno::MSGSIZE
                | Errno::NOPROTOOPT
                | Errno::OPNOTSUPP
                | Errno::HOSTDOWN
                | Errno::NONET
                | Errno::PROTO
        )
    )
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

/// Removes an entry from the error queue. If it reports that a destination is unreachable, returns
/// the destination.
pub(crate) fn next_error(socket: &UdpSocket) -> io::Result<Option<SocketAddr>> {
    let mut payload = [0; 1];
    let mut space = cmsg_space!([u8; 256]);
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    let (mut buffers, descriptor) = ([IoSliceMut::new(&mut payload)], socket.as_raw_fd());
    let message = recvmsg::<SockaddrStorage>(descriptor, &mut buffers, Some(&mut space), flags)?;
    let mut errors = message.cmsgs()?.filter_map(|control| match control {
        ControlMessageOwned::Ipv4RecvErr(error, _) | ControlMessageOwned::Ipv6RecvErr(error, _) => {
            Some(Errno::from_raw_os_error(error.ee_errno.cast_signed()))
        }
        _ => None,
    });
    let is_unreachable = errors.next().is_some_and(|error| !is_about_contents(error));
    Ok(message.address.as_ref().filter(|_| is_unreachable).and_then(socket_address))
}

/// Returns whether an error is about the size or the headers of a packet: the destination can be
/// reached with other packets.
fn is_about_contents(error: Errno) -> bool {
    matches!(error, Errno::MSGSIZE | Errno::PROTO | Errno::OPNOTSUPP)
}

fn socket_address(address: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = address.as_sockaddr_in().map(|address| SocketAddrV4::from(*address).into());
    v4.or_else(|| address.as_sockaddr_in6().map(|address| SocketAddrV6::from(*address).into()))
}
