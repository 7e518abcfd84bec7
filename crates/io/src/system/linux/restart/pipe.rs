//! Pipes through which two processes exchange datagrams: a pair of unix sockets for each shard.
//!
//! The new process forwards datagrams with connection IDs of the old process. The old process
//! returns datagrams that begin a connection: the first connection ID, which the client chooses,
//! may look like one of ours, and after a Retry it is one.
//!
//! ```text
//! Flags (8)          1: the sender's address is IPv6, 2: the local address is known, 4: and is IPv6,
//!                    8: there is a balancer, 16: its address is IPv6, 32: the local address that it sends to is known,
//!                    64: and is IPv6
//! ECN (8)
//! Port (16)          the sender's
//! Socket (32)        the number of the listening socket
//! Flow (32)          the sender's flow information and scope, if its address is IPv6
//! Scope (32)
//! Address (128)      the sender's
//! Local (128)        the local address
//! Via Port (16)      the balancer's
//! Via Scope (32)     the balancer's, if its address is IPv6
//! Via Address (128)  the balancer's
//! Via Local (128)    the local address that the balancer sends to
//! Datagram (..)
//! ```

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use clearway_transport::{EcnCodepoint, SocketIndex};
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_send_buffer_size, set_socket_send_buffer_size_force};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType, recv,
    sendmsg, socketpair,
};

use crate::datagrams::Meta;
use crate::via::Via;

const HEADER_LEN: usize = 86;
/// Requested buffer size in bytes; the kernel grants less without CAP_NET_ADMIN.
const BUFFER_SIZE: usize = 4 << 20;

const REMOTE_IS_V6: u8 = 1;
const HAS_LOCAL: u8 = 2;
const LOCAL_IS_V6: u8 = 4;
const HAS_VIA: u8 = 8;
const VIA_IS_V6: u8 = 16;
const VIA_HAS_LOCAL: u8 = 32;
const VIA_LOCAL_IS_V6: u8 = 64;

/// One end of the pair.
#[derive(Debug)]
pub(crate) struct Pipe {
    socket: OwnedFd,
    has_ended: AtomicBool,
}

/// The outcome of sending a datagram to the other process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sent {
    Done,
    /// The buffer is full: the datagram is dropped.
    Full,
    /// The other end was closed.
    Ended,
}

/// A received datagram.
pub(crate) struct Piped<'a> {
    pub(crate) meta: Meta,
    pub(crate) socket: SocketIndex,
    pub(crate) datagram: &'a mut [u8],
}

impl Pipe {
    /// Creates both ends. Datagrams that do not fit are dropped: neither side ever waits for the
    /// other.
    pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let ends = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        for end in [&ends.0, &ends.1] {
            if set_socket_send_buffer_size_force(end, BUFFER_SIZE).is_err() {
                let _ = set_socket_send_buffer_size(end, BUFFER_SIZE);
            }
        }
        Ok(ends)
    }

    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self { socket, has_ended: AtomicBool::new(false) }
    }

    /// Returns this end for data other than datagrams.
    pub(crate) fn into_socket(self) -> OwnedFd {
        self.socket
    }

    /// Returns whether the other end was closed.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// Passes a datagram that arrived at the listening socket `socket` to the other process.
    pub(crate) fn send(&self, socket: SocketIndex, meta: &Meta, datagram: &[u8]) -> Sent {
        if self.has_ended() {
            return Sent::Ended;
        }
        let header = encode(socket, meta);
        let parts = [IoSlice::new(&header), IoSlice::new(datagram)];
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        loop {
            match sendmsg(&self.socket, &parts, &mut SendAncillaryBuffer::default(), flags) {
                Ok(_) => return Sent::Done,
                Err(Errno::INTR) => {}
                Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => {
                    self.has_ended.store(true, Ordering::Relaxed);
                    return Sent::Ended;
                }
                // Sending usually fails for lack of room.
                Err(_) => return Sent::Full,
            }
        }
    }

    /// Receives the next datagram from the other process into `buffer`; `None` if there is none.
    pub(crate) fn receive<'a>(&self, buffer: &'a mut [u8]) -> Option<Piped<'a>> {
        loop {
            match recv(&self.socket, &mut *buffer, RecvFlags::DONTWAIT) {
                Ok((length, _)) if length > 0 => {
                    // Anything that is not one of our messages is ignored.
                    let is_message = length >= HEADER_LEN;
                    if is_message {
                        return decode(buffer.get_mut(..length)?);
                    }
                }
                Ok(_) => {
                    self.has_ended.store(true, Ordering::Relaxed);
                    return None;
                }
                // The other end was closed with unread datagrams; datagrams in this end can still
                // be received.
                Err(Errno::INTR | Errno::CONNRESET) => {}
                Err(_) => return None,
            }
        }
    }
}

impl AsFd for Pipe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn encode(SocketIndex(socket): SocketIndex, meta: &Meta) -> [u8; HEADER_LEN] {
    let Meta { remote, local_ip, ecn, via } = *meta;
    let (flow, scope) = match remote {
        SocketAddr::V4(_) => (0, 0),
        SocketAddr::V6(remote) => (remote.flowinfo(), remote.scope_id()),
    };
    let mut flags = if remote.is_ipv6() { REMOTE_IS_V6 } else { 0 };
    if let Some(local) = local_ip {
        flags |= HAS_LOCAL | if local.is_ipv6() { LOCAL_IS_V6 } else { 0 };
    }
    let mut header = [0; HEADER_LEN];
    header[0] = flags;
    header[1] = ecn.bits();
    header[2..4].copy_from_slice(&remote.port().to_be_bytes());
    header[4..8].copy_from_slice(&socket.to_be_bytes());
    header[8..12].copy_from_slice(&flow.to_be_bytes());
    header[12..16].copy_from_slice(&scope.to_be_bytes());
    header[16..32].copy_from_slice(&octets(remote.ip()));
    header[32..48].copy_from_slice(&local_ip.map(octets).unwrap_or_default());
    if let Some(via) = via {
        encode_via(&via, &mut header);
    }
    header
}

fn encode_via(via: &Via, header: &mut [u8; HEADER_LEN]) {
    let Via { balancer, local_ip } = *via;
    header[0] |= HAS_VIA;
    header[48..50].copy_from_slice(&balancer.port().to_be_bytes());
    if let SocketAddr::V6(balancer) = balancer {
        header[0] |= VIA_IS_V6;
        header[50..54].copy_from_slice(&balancer.scope_id().to_be_bytes());
    }
    header[54..70].copy_from_slice(&octets(balancer.ip()));
    if let Some(local) = local_ip {
        header[0] |= VIA_HAS_LOCAL | if local.is_ipv6() { VIA_LOCAL_IS_V6 } else { 0 };
        header[70..86].copy_from_slice(&octets(local));
    }
}

fn decode(message: &mut [u8]) -> Option<Piped<'_>> {
    let (header, datagram) = message.split_first_chunk_mut::<HEADER_LEN>()?;
    let word = |at: usize| {
        header.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |it| u32::from_be_bytes(*it))
    };
    let address = |at: usize, is_v6| {
        let octets: [u8; 16] = *header.get(at..)?.first_chunk()?;
        let [a, b, c, d, ..] = octets;
        Some(if is_v6 { Ipv6Addr::from(octets).into() } else { Ipv4Addr::new(a, b, c, d).into() })
    };
    let socket_address = |at: usize, is_v6, port: [u8; 2], flow, scope| {
        let port = u16::from_be_bytes(port);
        Some(match address(at, is_v6)? {
            IpAddr::V4(ip) => SocketAddr::from((ip, port)),
            IpAddr::V6(ip) => SocketAddrV6::new(ip, port, flow, scope).into(),
        })
    };
    let [flags, ecn, port @ ..] = *header.first_chunk::<4>()?;
    let has = |flag: u8| flags & flag != 0;
    let remote = socket_address(16, has(REMOTE_IS_V6), port, word(8), word(12))?;
    let local_ip = has(HAS_LOCAL).then(|| address(32, has(LOCAL_IS_V6))).flatten();
    let via_port = *header.get(48..)?.first_chunk()?;
    let balancer = || socket_address(54, has(VIA_IS_V6), via_port, 0, word(50));
    let via_local = has(VIA_HAS_LOCAL).then(|| address(70, has(VIA_LOCAL_IS_V6))).flatten();
    let via = has(HAS_VIA).then(balancer).flatten();
    let via = via.map(|balancer| Via { balancer, local_ip: via_local });
    let meta = Meta { remote, local_ip, ecn: EcnCodepoint::from_bits(ecn & 3), via };
    Some(Piped { meta, socket: SocketIndex(word(4)), datagram })
}

/// Returns the octets of an address; an IPv4 address takes the first four octets.
fn octets(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        }
        IpAddr::V6(ip) => ip.octets(),
    }
}

#[cfg(test)]
#[path = "pipe_tests.rs"]
mod tests;
