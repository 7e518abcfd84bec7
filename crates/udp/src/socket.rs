//! A UDP socket that moves batches.

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

/// How many batches one call to the kernel takes.
pub const MAX_TOGETHER: usize = system::MAX_TOGETHER;
/// How many buffers one call to the kernel fills; each may hold many datagrams of one sender, which the kernel has merged.
pub const RECEIVE_BUFFERS: usize = 8;
/// What a buffer must hold: the largest UDP payload, or as much of merged ones.
const RECEIVE_BUFFER_SIZE: usize = 1 << 16;
/// The size that is requested for a socket's buffers, in bytes for each direction; the kernel may give less.
pub const SOCKET_BUFFER_SIZE: usize = 4 << 20;
/// A batch is at most this many bytes: the largest UDP payload in IPv4. A kernel takes no more in one call, however many
/// datagrams it is divided into.
pub const MAX_BATCH_BYTES: usize = 65_507;
/// How many entries of the error queue are looked at in one go: anyone can have some put there.
const MAX_ERRORS: usize = 32;

/// Where a datagram came from and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Meta {
    /// The sender.
    pub remote: SocketAddr,
    /// The local address that it was sent to, if the system tells.
    pub local_ip: Option<IpAddr>,
    /// Its ECN field (RFC 3168).
    pub ecn: EcnCodepoint,
}

/// Datagrams for one destination, which leave in one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Batch<'a> {
    /// The destination, as the socket [names](Socket::destination) it.
    pub destination: SocketAddr,
    /// The local address to send from, if it is not left to the system.
    pub source_ip: Option<IpAddr>,
    /// The ECN field of all of them.
    pub ecn: EcnCodepoint,
    /// The bytes of all of them, at most [`MAX_BATCH_BYTES`].
    pub contents: &'a [u8],
    /// The size of each datagram in bytes except the last, which may be smaller, if there is more than one. A kernel takes at
    /// most 64.
    pub segment_size: Option<usize>,
}

/// What became of a batch.
#[derive(Debug)]
pub enum SendOutcome {
    /// The kernel has it all.
    Sent,
    /// Its datagrams are larger than the interface permits (EMSGSIZE). The kernel does not divide them into fragments, and
    /// ICMP messages do not change the limit (IP_PMTUDISC_PROBE, RFC 9000 §14).
    TooLarge,
    /// The socket has no room now. Send it again, with the same progress, when there is some.
    WouldBlock,
    /// The kernel refused it; [`SendFailure::of`](crate::SendFailure::of) says why. The datagrams that it had not taken yet are
    /// lost, as they may be on any network.
    Failed(io::Error),
}

/// Where datagrams are received; sockets that are used in turn share one.
#[derive(Debug)]
pub struct ReceiveBuffer(Box<[u8]>);

impl Default for ReceiveBuffer {
    fn default() -> Self {
        Self::new()
    }
}

impl ReceiveBuffer {
    /// A buffer with room for what one call receives, 512 KiB.
    pub fn new() -> Self {
        Self(vec![0; RECEIVE_BUFFERS * RECEIVE_BUFFER_SIZE].into())
    }

    /// All of it, for what comes from elsewhere.
    #[inline]
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// A non-blocking UDP socket with segmentation offload and ECN where the platform has them.
#[derive(Debug)]
pub struct Socket {
    socket: UdpSocket,
    state: UdpSocketState,
    local_address: SocketAddr,
    /// The last call to the kernel filled all buffers, or failed: there may be more.
    may_have_more: bool,
    has_errors: bool,
    /// The network's driver cannot segment.
    cannot_segment: bool,
    #[cfg(any(test, feature = "faults"))]
    faults: faults::Faults,
}

impl Socket {
    /// A socket at `address`. One at the unspecified IPv6 address also serves IPv4 where the platform supports that.
    ///
    /// # Errors
    /// Errors of the operating system: for example that the address is in use.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        Self::bind_beside(address, None)
    }

    /// As [`bind`](Self::bind). If `other` has the same port at all addresses, this socket takes `address` from it, and
    /// datagrams for that address arrive here. While it is bound, and no longer, both have SO_REUSEADDR: with it, any
    /// socket of this user could take an address away.
    ///
    /// # Errors
    /// Errors of the operating system.
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

    /// Lets [`bind_twin`](Self::bind_twin) bind others at this address. The socket was bound without the option
    /// SO_REUSEPORT, and gets it here: so it has the address alone at first, and the address cannot be that of somebody
    /// else's sockets.
    ///
    /// # Errors
    /// Errors of the operating system. Only Linux distributes datagrams among the sockets of one address; other systems return
    /// [`Unsupported`](io::ErrorKind::Unsupported).
    pub fn permit_twins(&self) -> io::Result<()> {
        system::share_address(&self.socket)
    }

    /// Another socket at the address of this one, among which the kernel distributes what arrives (SO_REUSEPORT). The
    /// sockets of one address are numbered from 0 in the order in which they were bound.
    ///
    /// This one must [permit](Self::permit_twins) it, and so must all that have a part of its addresses.
    ///
    /// # Errors
    /// As for [`permit_twins`](Self::permit_twins).
    pub fn bind_twin(&self) -> io::Result<Self> {
        let socket = unbound(self.local_address)?;
        system::share_address(&socket)?;
        socket.bind(&self.local_address.into())?;
        Self::configure(socket)
    }

    /// A socket that was bound elsewhere: by the process before, or by a service manager.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn bound(socket: UdpSocket) -> io::Result<Self> {
        Self::configure(socket.into())
    }

    fn configure(socket: socket2::Socket) -> io::Result<Self> {
        let socket = UdpSocket::from(socket);
        let state = new_state(&socket)?;
        // Best effort: the kernel cuts these to its limits.
        let _ = state.set_send_buffer_size((&socket).into(), SOCKET_BUFFER_SIZE);
        let _ = state.set_recv_buffer_size((&socket).into(), SOCKET_BUFFER_SIZE);
        // Without it a client notices only by a timeout that there is no server.
        let _ = state.enable_transport_errors((&socket).into());
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

    /// The socket's own address.
    #[inline]
    pub fn local_address(&self) -> SocketAddr {
        self.local_address
    }

    /// How many datagrams of one size the kernel takes in one call; 1 if it cannot segment.
    #[inline]
    pub fn max_gso_segments(&self) -> usize {
        if self.cannot_segment { 1 } else { self.state.max_gso_segments() }
    }

    /// `remote` as this socket names it; `None` if this socket cannot send there. A socket of both families
    /// names IPv4 addresses in the form of IPv6.
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

    /// Receives one bounded batch without waiting. `each` is called with every datagram; those that the kernel had merged
    /// are passed one by one. Returns how many there were.
    ///
    /// # Errors
    /// Errors of the operating system, except that there is nothing to receive (which is `Ok(0)`), and ICMP errors of
    /// earlier datagrams (see [`unreachable`](Self::unreachable)).
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
            Err(error) if is_network_report(&error) => {
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

    /// Whether [`receive`](Self::receive) may find something without waiting.
    #[inline]
    pub fn may_have_more(&self) -> bool {
        self.may_have_more
    }

    /// Sends a batch without waiting, beginning after the `progress` bytes that an earlier call has handed over, and
    /// counts on. A batch of several datagrams goes in one call to the kernel, or one by one where it
    /// turns out that the network's driver cannot.
    pub fn send(&mut self, batch: &Batch<'_>, progress: &mut usize) -> SendOutcome {
        #[cfg(any(test, feature = "faults"))]
        if self.faults.refuses() {
            return SendOutcome::WouldBlock;
        }
        let size = batch.contents.len();
        let segment = batch.segment_size.unwrap_or(size).max(1);
        let mut is_second_attempt = false;
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
                Ok(()) => *progress += part.len(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return SendOutcome::WouldBlock;
                }
                // The driver cannot segment. From now on one datagram per call.
                Err(_) if part.len() > segment && self.state.max_gso_segments() == 1 => {
                    is_refused_together = true;
                    self.cannot_segment = true;
                    self.renew_state();
                }
                Err(error) if Errno::from_io_error(&error) == Some(Errno::MSGSIZE) => {
                    self.cannot_segment &= !is_refused_together;
                    return SendOutcome::TooLarge;
                }
                Err(error) => {
                    self.cannot_segment &= !is_refused_together;
                    let errno = Errno::from_io_error(&error);
                    if matches!(errno, Some(Errno::INVAL | Errno::IO)) {
                        self.renew_state();
                    }
                    let is_report = is_network_report(&error);
                    self.has_errors |= is_report;
                    // A report about an earlier datagram took the place of this one's sending.
                    if !is_report || std::mem::replace(&mut is_second_attempt, true) {
                        return SendOutcome::Failed(error);
                    }
                }
            }
        }
        SendOutcome::Sent
    }

    /// Sends several batches in one call to the kernel, at most [`MAX_TOGETHER`], in their order. Returns how many of them it has
    /// taken. What keeps it from taking the next one is the outcome of [`send`](Self::send).
    pub fn send_together<'a>(&mut self, batches: impl Iterator<Item = Batch<'a>>) -> usize {
        #[cfg(any(test, feature = "faults"))]
        let batches = batches.take_while(|_| self.faults.admits());
        self.call_send_together(batches).unwrap_or_else(|error| {
            self.has_errors |= is_network_report(&error);
            0
        })
    }

    /// recvmmsg(2).
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

    /// sendmsg(2).
    fn call_send(&self, message: &quinn_udp::Transmit<'_>) -> io::Result<()> {
        #[cfg(any(test, feature = "faults"))]
        if let Err(error) = self.faults.on_call(faults::Call::Send) {
            return self.refuse(message, error);
        }
        self.state.try_send((&self.socket).into(), message)
    }

    /// sendmmsg(2).
    fn call_send_together<'a>(
        &self,
        batches: impl Iterator<Item = Batch<'a>>,
    ) -> io::Result<usize> {
        #[cfg(any(test, feature = "faults"))]
        let batches = batches.take(self.faults.on_call(faults::Call::Send)?);
        system::send_together(&self.socket, batches)
    }

    /// Lets a call fail with `error`. quinn-udp concludes from EINVAL and EIO that the driver cannot segment. It does so here too,
    /// because the kernel gets a message that it does refuse: nothing can be sent to port 0.
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

    /// Discards what quinn-udp concludes from EINVAL and EIO: that the kernel has neither segmentation nor ECN, permanently. It has
    /// ECN. If it refuses a datagram that is alone, segmentation is not the cause either. That may be an address: anyone can send
    /// from port 0, to which nothing can be sent.
    fn renew_state(&mut self) {
        if let Ok(state) = new_state(&self.socket) {
            self.state = state;
        }
    }

    /// Calls `each` with destinations that are unreachable according to ICMP messages. Anyone on the path can forge them, so
    /// they should not be believed of peers that have answered.
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

    /// The error queue has something to read, as the result of waiting says (POLLERR).
    #[inline]
    pub fn note_errors(&mut self) {
        self.has_errors = true;
    }

    /// Whether [`unreachable`](Self::unreachable) has anything to report.
    #[inline]
    pub fn has_errors(&self) -> bool {
        self.has_errors
    }
}

#[cfg(any(test, feature = "faults"))]
impl Socket {
    /// Has calls of this socket fail as planned.
    pub fn inject(&mut self, faults: faults::Faults) {
        self.faults = faults;
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The options with which datagrams are received and sent in batches.
fn new_state(socket: &UdpSocket) -> io::Result<UdpSocketState> {
    // Datagrams are sent with the Don't Fragment bit set.
    let state = UdpSocketState::new(socket.into())?;
    system::tune(socket);
    Ok(state)
}

/// A socket for `address` that is not bound yet.
fn unbound(address: SocketAddr) -> io::Result<socket2::Socket> {
    let socket =
        socket2::Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        // Where that cannot be, IPv6 alone is served. An IPv4 address in the form of IPv6 is of IPv4 alone.
        let serves_v4 = address.ip().is_unspecified() || address.ip().to_canonical().is_ipv4();
        let _ = socket.set_only_v6(!serves_v4);
    }
    Ok(socket)
}

fn mapped(address: Ipv4Addr) -> Ipv6Addr {
    address.to_ipv6_mapped()
}

/// Whether an error comes from an ICMP message about an earlier datagram.
fn is_network_report(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionRefused
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::PermissionDenied
    )
}

#[cfg(test)]
#[path = "socket_tests.rs"]
mod tests;
