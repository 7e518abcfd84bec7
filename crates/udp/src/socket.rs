//! A UDP socket that sends and receives datagrams in batches.

mod system;

use core::array;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::io::{self, ErrorKind, IoSliceMut};
use std::net::UdpSocket;

use quinn_udp::{RecvMeta, UdpSocketState};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use socket2::{Domain, Protocol, SockRef, Type};

use crate::ecn::EcnCodepoint;

#[cfg(any(test, feature = "faults"))]
pub mod faults;

/// Maximum number of batches per call to the kernel.
pub const MAX_TOGETHER: usize = system::MAX_TOGETHER;
/// Number of buffers that one call to the kernel fills; each may hold many datagrams of one sender,
/// coalesced by the kernel.
pub const RECEIVE_BUFFERS: usize = 8;
/// Size of a buffer in bytes: the largest UDP payload, or the same number of bytes of coalesced
/// payloads.
const RECEIVE_BUFFER_SIZE: usize = 1 << 16;
/// Requested size of a socket's buffers, in bytes per direction; the kernel may grant less.
pub const SOCKET_BUFFER_SIZE: usize = 4 << 20;
/// Maximum size of a batch in bytes: the largest UDP payload in IPv4. Kernels accept no more in one
/// call, regardless of the number of datagrams.
pub const MAX_BATCH_BYTES: usize = 65_507;
/// Maximum number of error queue entries to read in one call: anyone can add entries by sending
/// ICMP messages.
const MAX_ERRORS: usize = 32;
/// Maximum number of times to send a datagram again after an error that may belong to an earlier
/// one. Whoever sends ICMP messages would have to hit the time between two calls this often.
const MAX_REPORTS: u32 = 8;

/// Source and metadata of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Meta {
    /// The sender.
    pub remote: SocketAddr,
    /// The local address that the datagram was sent to, if the system reports it.
    pub local_ip: Option<IpAddr>,
    /// The datagram's ECN field (RFC 3168).
    pub ecn: EcnCodepoint,
}

/// Datagrams for one destination, sent with one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Batch<'a> {
    /// The destination, in the form that [`Socket::destination`] returns.
    pub destination: SocketAddr,
    /// The local address to send from; `None` leaves the choice to the system.
    pub source_ip: Option<IpAddr>,
    /// The ECN field of all datagrams.
    pub ecn: EcnCodepoint,
    /// The contents of all datagrams, at most [`MAX_BATCH_BYTES`].
    pub contents: &'a [u8],
    /// The size in bytes of each datagram except the last, which may be smaller; `None` if there is
    /// only one. Kernels accept at most 64 datagrams.
    pub segment_size: Option<usize>,
}

/// The outcome of sending a batch.
#[derive(Debug)]
pub enum SendOutcome {
    /// The kernel has accepted the entire batch.
    Sent,
    /// The datagrams are larger than the interface's MTU (EMSGSIZE). The kernel does not fragment
    /// them, and ICMP messages do not change the limit (IP_PMTUDISC_PROBE, RFC 9000 §14).
    TooLarge,
    /// The send buffer is full. Send the batch again, with the same progress, when there is room.
    WouldBlock,
    /// The kernel rejected the batch; [`SendFailure::of`](crate::SendFailure::of) returns the
    /// reason. The datagrams that it had not accepted yet are dropped, which may happen on any
    /// network.
    Failed(io::Error),
}

/// Buffer for received datagrams; sockets that are used one after another can share a buffer.
#[derive(Debug)]
pub struct ReceiveBuffer(Box<[u8]>);

impl Default for ReceiveBuffer {
    fn default() -> Self {
        Self::new()
    }
}

impl ReceiveBuffer {
    /// Creates a buffer for the maximum that one call can receive: 512 KiB.
    pub fn new() -> Self {
        Self(vec![0; RECEIVE_BUFFERS * RECEIVE_BUFFER_SIZE].into())
    }

    /// Returns the entire buffer, so that it can hold data from other sources.
    #[inline]
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// A non-blocking UDP socket with segmentation offload and ECN where the platform supports them.
#[derive(Debug)]
pub struct Socket {
    socket: UdpSocket,
    state: UdpSocketState,
    local_address: SocketAddr,
    /// Set if the last call to the kernel filled all buffers or failed, in which case there may be
    /// more to receive.
    may_have_more: bool,
    has_errors: bool,
    /// Set if the network driver does not support segmentation offload.
    cannot_segment: bool,
    #[cfg(any(test, feature = "faults"))]
    faults: faults::Faults,
}

impl Socket {
    /// Binds a socket to `address`. The unspecified IPv6 address also serves IPv4 where the
    /// platform supports that.
    ///
    /// # Errors
    /// Returns errors of the operating system, for example if the address is in use.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        Self::bind_beside(address, None)
    }

    /// Like [`bind`](Self::bind), but allows an overlap with `other`. If `other` is a wildcard
    /// socket with the same port, datagrams for `address` arrive at the new socket instead. Both
    /// sockets have SO_REUSEADDR only while the new one is being bound, since any socket of the
    /// same user could otherwise take over an address.
    ///
    /// # Errors
    /// Returns errors of the operating system.
    pub fn bind_beside(address: SocketAddr, other: Option<&Self>) -> io::Result<Self> {
        let is_covering =
            |local: SocketAddr| local.ip().is_unspecified() && local.port() == address.port();
        let covering = other.filter(|other| is_covering(other.local_address));
        let socket = unbound(address)?;
        match covering {
            None => socket.bind(&address.into())?,
            Some(other) => {
                let both = [SockRef::from(&socket), SockRef::from(&other.socket)];
                both.iter().try_for_each(|socket| socket.set_reuse_address(true))?;
                let bound = socket.bind(&address.into());
                both.iter().try_for_each(|socket| socket.set_reuse_address(false))?;
                bound?;
            }
        }
        Self::configure(socket)
    }

    /// Allows [`bind_shared`](Self::bind_shared) to bind other sockets to this address, by setting
    /// SO_REUSEPORT. Since the socket was bound without this option, its address cannot belong to
    /// another program's sockets.
    ///
    /// # Errors
    /// Returns errors of the operating system. Only Linux distributes datagrams among sockets with
    /// the same address; other systems return [`Unsupported`](io::ErrorKind::Unsupported).
    pub fn allow_shared_address(&self) -> io::Result<()> {
        system::share_address(&self.socket)
    }

    /// Binds another socket to the same address; the kernel distributes datagrams among the sockets
    /// (SO_REUSEPORT). Sockets with the same address are numbered from 0 in the order in which they
    /// were bound.
    ///
    /// This socket must [allow](Self::allow_shared_address) sharing, and so must all sockets whose
    /// addresses overlap with its own.
    ///
    /// # Errors
    /// Returns the same errors as [`allow_shared_address`](Self::allow_shared_address).
    pub fn bind_shared(&self) -> io::Result<Self> {
        let socket = unbound(self.local_address)?;
        system::share_address(&socket)?;
        socket.bind(&self.local_address.into())?;
        Self::configure(socket)
    }

    /// Wraps a socket that was bound elsewhere, such as by the previous process or a service
    /// manager.
    ///
    /// # Errors
    /// Returns errors of the operating system.
    pub fn bound(socket: UdpSocket) -> io::Result<Self> {
        Self::configure(socket.into())
    }

    fn configure(socket: socket2::Socket) -> io::Result<Self> {
        let socket = UdpSocket::from(socket);
        let state = new_state(&socket)?;
        // Best effort: the kernel clamps the sizes to its limits.
        let _ = state.set_send_buffer_size((&socket).into(), SOCKET_BUFFER_SIZE);
        let _ = state.set_recv_buffer_size((&socket).into(), SOCKET_BUFFER_SIZE);
        // Without error reports, a client notices only through a timeout that there is no server.
        system::report_errors(&socket, &state);
        let local_address = socket.local_addr()?;
        Ok(Self {
            socket,
            state,
            local_address,
            may_have_more: true,
            has_errors: false,
            cannot_segment: false,
            #[cfg(any(test, feature = "faults"))]
            faults: faults::Faults::default(),
        })
    }

    /// Returns the socket's own address.
    #[inline]
    pub fn local_address(&self) -> SocketAddr {
        self.local_address
    }

    /// Returns how many datagrams of one size the kernel accepts in one call; 1 without
    /// segmentation offload.
    #[inline]
    pub fn max_gso_segments(&self) -> usize {
        if self.cannot_segment { 1 } else { self.state.max_gso_segments() }
    }

    /// Returns `remote` in this socket's form; `None` if the socket cannot send there. Dual-stack
    /// sockets use IPv4-mapped IPv6 addresses.
    pub fn destination(&self, remote: SocketAddr) -> Option<SocketAddr> {
        if remote.port() == 0 || remote.ip().is_unspecified() {
            return None;
        }
        match (self.local_address.ip(), remote) {
            (IpAddr::V4(_), SocketAddr::V4(_)) | (IpAddr::V6(_), SocketAddr::V6(_)) => Some(remote),
            (IpAddr::V4(_), SocketAddr::V6(remote)) => {
                let ip = remote.ip().to_ipv4_mapped()?;
                Some(SocketAddr::new(ip.into(), remote.port()))
            }
            (IpAddr::V6(local), SocketAddr::V4(remote)) => {
                let is_dual = local == Ipv6Addr::UNSPECIFIED;
                is_dual.then(|| SocketAddr::new(mapped(*remote.ip()).into(), remote.port()))
            }
        }
    }

    /// Receives one bounded batch without blocking, and calls `each` with every datagram, after
    /// splitting datagrams that the kernel has coalesced. Returns the number of datagrams.
    ///
    /// # Errors
    /// Returns errors of the operating system. An empty receive queue is `Ok(0)`, and ICMP errors
    /// about earlier datagrams are not returned (see [`unreachable`](Self::unreachable)).
    pub fn receive(
        &mut self,
        buffer: &mut ReceiveBuffer,
        mut each: impl FnMut(Meta, &mut [u8]),
    ) -> io::Result<usize> {
        let mut metas = [RecvMeta::default(); RECEIVE_BUFFERS];
        let mut chunks = buffer.0.chunks_mut(RECEIVE_BUFFER_SIZE);
        let mut buffers: [IoSliceMut<'_>; RECEIVE_BUFFERS] =
            array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
        let filled = match self.call_receive(&mut buffers, &mut metas) {
            Ok(filled) => filled,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.may_have_more = false;
                return Ok(0);
            }
            Err(error) if is_report(&error) => {
                self.has_errors = true;
                self.may_have_more = true;
                return Ok(0);
            }
            Err(error) => return Err(error),
        };
        self.may_have_more = filled >= system::FILLED_WITH_MORE;
        let mut count = 0;
        for (buffer, meta) in buffers.iter_mut().zip(&metas).take(filled) {
            let ecn = EcnCodepoint::from_bits(meta.ecn.map_or(0, |ecn| ecn as u8));
            let description = Meta { remote: meta.addr, local_ip: meta.dst_ip, ecn };
            let len = meta.len.min(buffer.len());
            if len == 0 {
                each(description, &mut []);
                count += 1;
            }
            for datagram in buffer[..len].chunks_mut(meta.stride.max(1)) {
                each(description, datagram);
                count += 1;
            }
        }
        Ok(count)
    }

    /// Returns whether [`receive`](Self::receive) may return datagrams without waiting.
    #[inline]
    pub fn may_have_more(&self) -> bool {
        self.may_have_more
    }

    /// Sends a batch without blocking, beginning after the first `progress` bytes, which earlier
    /// calls have handed over. Advances `progress`. A batch of several datagrams takes one call to
    /// the kernel, or one call per datagram if the network driver turns out not to support
    /// segmentation offload.
    pub fn send(&mut self, batch: &Batch<'_>, progress: &mut usize) -> SendOutcome {
        #[cfg(any(test, feature = "faults"))]
        if self.faults.refuses() {
            return SendOutcome::WouldBlock;
        }
        let size = batch.contents.len();
        let segment = batch.segment_size.unwrap_or(size).max(1);
        let mut reports = 0;
        let mut is_refused_together = false;
        while *progress < size {
            let rest = &batch.contents[*progress..];
            let together = if self.max_gso_segments() > 1 { rest.len() } else { segment };
            let part = &rest[..together.min(rest.len())];
            let message = quinn_udp::Transmit {
                destination: batch.destination,
                ecn: quinn_udp::EcnCodepoint::from_bits(batch.ecn.bits()),
                contents: part,
                segment_size: (part.len() > segment).then_some(segment),
                src_ip: batch.source_ip,
            };
            match self.call_send(&message) {
                Ok(()) => {
                    *progress += part.len();
                    reports = 0;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return SendOutcome::WouldBlock;
                }
                // The driver does not support segmentation offload. From now on, send one datagram
                // per call.
                Err(_) if part.len() > segment && self.state.max_gso_segments() == 1 => {
                    is_refused_together = true;
                    self.cannot_segment = true;
                    self.renew_state();
                }
                Err(error) => {
                    self.cannot_segment &= !is_refused_together;
                    if system::may_be_without_offload(&error) {
                        self.renew_state();
                    }
                    // The call may have returned an error of an earlier datagram instead of sending
                    // this one.
                    let may_be_earlier = is_report(&error);
                    self.has_errors |= may_be_earlier;
                    if may_be_earlier && reports < MAX_REPORTS {
                        reports += 1;
                        continue;
                    }
                    return match Errno::from_io_error(&error) {
                        Some(Errno::MSGSIZE) => SendOutcome::TooLarge,
                        _ => SendOutcome::Failed(error),
                    };
                }
            }
        }
        SendOutcome::Sent
    }

    /// Sends up to [`MAX_TOGETHER`] batches, in order, in one call to the kernel. Returns how many
    /// batches the kernel has accepted. To find out why it has not accepted the next batch, pass
    /// that batch to [`send`](Self::send).
    pub fn send_together<'a>(&mut self, batches: impl Iterator<Item = Batch<'a>>) -> usize {
        #[cfg(any(test, feature = "faults"))]
        let batches = batches.take_while(|_| self.faults.admits());
        self.call_send_together(batches).unwrap_or_else(|error| {
            self.has_errors |= is_report(&error);
            0
        })
    }

    /// Calls recvmmsg(2).
    fn call_receive(
        &self,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> io::Result<usize> {
        #[cfg(any(test, feature = "faults"))]
        let buffers = {
            let most = self.faults.on_call(faults::Call::Receive)?.min(buffers.len());
            &mut buffers[..most]
        };
        self.state.recv((&self.socket).into(), buffers, metas)
    }

    /// Calls sendmsg(2).
    fn call_send(&self, message: &quinn_udp::Transmit<'_>) -> io::Result<()> {
        #[cfg(any(test, feature = "faults"))]
        if let Err(error) = self.faults.on_call(faults::Call::Send) {
            return self.refuse(message, error);
        }
        self.state.try_send((&self.socket).into(), message)
    }

    /// Calls sendmmsg(2).
    fn call_send_together<'a>(
        &self,
        batches: impl Iterator<Item = Batch<'a>>,
    ) -> io::Result<usize> {
        #[cfg(any(test, feature = "faults"))]
        let batches = batches.take(self.faults.on_call(faults::Call::Send)?);
        system::send_together(&self.socket, batches)
    }

    /// Makes a call fail with `error`. quinn-udp concludes from EINVAL and EIO that the driver does
    /// not support segmentation offload. It does so here too, because the kernel gets a message
    /// that it really rejects: no datagram can be sent to port 0.
    #[cfg(any(test, feature = "faults"))]
    fn refuse(&self, message: &quinn_udp::Transmit<'_>, error: io::Error) -> io::Result<()> {
        if matches!(Errno::from_io_error(&error), Some(Errno::INVAL | Errno::IO)) {
            let destination = SocketAddr::new(message.destination.ip(), 0);
            let message = quinn_udp::Transmit {
                destination,
                ecn: message.ecn,
                contents: message.contents,
                segment_size: message.segment_size,
                src_ip: message.src_ip,
            };
            let refused = self.state.try_send((&self.socket).into(), &message);
            assert!(refused.is_err(), "a datagram was sent to port 0");
        }
        Err(error)
    }

    /// Discards the conclusion that quinn-udp draws from EINVAL and EIO: that the kernel
    /// permanently lacks both segmentation offload and ECN. The kernel does support ECN. If it
    /// rejects a single datagram, segmentation is not the cause either; the cause may be an
    /// address: anyone can send from port 0, to which no datagram can be sent.
    fn renew_state(&mut self) {
        if let Ok(state) = new_state(&self.socket) {
            self.state = state;
        }
    }

    /// Calls `each` with destinations that ICMP messages report as unreachable. Anyone on the path
    /// can forge these messages, so ignore them for peers that have responded.
    pub fn unreachable(&mut self, mut each: impl FnMut(SocketAddr)) {
        if !std::mem::take(&mut self.has_errors) {
            return;
        }
        for _ in 0..MAX_ERRORS {
            match system::next_error(&self.socket) {
                Ok(Some(destination)) => each(destination),
                Ok(None) => {}
                Err(_) => return,
            }
        }
        self.has_errors = true;
    }

    /// Records that the error queue has entries, as poll(2) reports it (POLLERR).
    #[inline]
    pub fn note_errors(&mut self) {
        self.has_errors = true;
    }

    /// Returns whether [`unreachable`](Self::unreachable) has anything to report.
    #[inline]
    pub fn has_errors(&self) -> bool {
        self.has_errors
    }
}

#[cfg(any(test, feature = "faults"))]
impl Socket {
    /// Makes calls on this socket fail according to `faults`.
    pub fn inject(&mut self, faults: faults::Faults) {
        self.faults = faults;
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Sets up a socket for quinn-udp, in the same way as a [`Socket`] does for itself. Datagrams are
/// sent with the Don't Fragment bit set.
///
/// # Errors
/// Returns errors of the operating system.
pub fn new_state(socket: &UdpSocket) -> io::Result<UdpSocketState> {
    system::new_state(socket)
}

/// Creates an unbound socket for the family of `address`.
fn unbound(address: SocketAddr) -> io::Result<socket2::Socket> {
    let socket =
        socket2::Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        // Where dual-stack sockets are unavailable, only IPv6 is served. An IPv4-mapped address
        // serves IPv4 only.
        let serves_v4 = address.ip().is_unspecified() || address.ip().to_canonical().is_ipv4();
        let _ = socket.set_only_v6(!serves_v4);
    }
    Ok(socket)
}

fn mapped(address: Ipv4Addr) -> Ipv6Addr {
    address.to_ipv6_mapped()
}

/// Returns whether an error may come from an ICMP message about an earlier datagram. Anyone can
/// forge such messages, so they must neither end a socket nor count against the next datagram.
pub fn is_report(error: &io::Error) -> bool {
    let is_common = matches!(
        error.kind(),
        ErrorKind::ConnectionRefused
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::PermissionDenied
    );
    is_common || system::is_report(error)
}

#[cfg(test)]
#[path = "socket_tests.rs"]
mod tests;

#[cfg(all(test, target_os = "linux"))]
mod forged_tests;
