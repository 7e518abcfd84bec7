use std::array;
use std::io::{self, ErrorKind, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};

use clearway_network::Ecn;
use clearway_udp::new_state;
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use rustix::fd::{AsFd, BorrowedFd};

/// Number of buffers that one call to the kernel can fill; each may hold many datagrams of one
/// sender.
const BUFFERS: usize = 16;
/// The size of a buffer: the largest UDP payload, which is also the limit for coalesced datagrams
/// (GRO).
const BUFFER_SIZE: usize = 1 << 16;
/// The requested size of the socket's buffers, in both directions: a relay that reads late should
/// not cause drops. The kernel may grant less.
const SOCKET_BUFFER_SIZE: usize = 4 << 20;

/// The addresses and the ECN field of a received datagram.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    /// The sender.
    pub(super) remote: SocketAddr,
    /// The local address that it was sent to, if the platform reports it.
    pub(super) local: Option<IpAddr>,
    pub(super) ecn: Ecn,
}

/// A non-blocking UDP socket that reads and writes the ECN field.
#[derive(Debug)]
pub(super) struct Socket {
    socket: UdpSocket,
    state: UdpSocketState,
}

impl Socket {
    pub(super) fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind(address)?;
        let state = new_state(&socket)?;
        // Best effort: the kernel caps these at its limits.
        let _ = state.set_send_buffer_size((&socket).into(), SOCKET_BUFFER_SIZE);
        let _ = state.set_recv_buffer_size((&socket).into(), SOCKET_BUFFER_SIZE);
        Ok(Self { socket, state })
    }

    pub(super) fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Sends one datagram, with a separate system call: datagrams must not be coalesced again,
    /// since the receiver could not tell them from a batch sent by the original sender.
    pub(super) fn send(
        &self,
        destination: SocketAddr,
        source: Option<IpAddr>,
        ecn: Ecn,
        contents: &[u8],
    ) -> io::Result<()> {
        let ecn = EcnCodepoint::from_bits(ecn.bits());
        let transmit = Transmit { destination, ecn, contents, segment_size: None, src_ip: source };
        self.state.try_send((&self.socket).into(), &transmit)
    }

    /// Receives one bounded batch without blocking, and calls `each` for every datagram, after
    /// splitting those that the kernel has coalesced.
    pub(super) fn receive(
        &self,
        buffers: &mut Buffers,
        mut each: impl FnMut(Arrival, &[u8]),
    ) -> io::Result<()> {
        let mut metas = [RecvMeta::default(); BUFFERS];
        let mut chunks = buffers.0.chunks_mut(BUFFER_SIZE);
        let mut slices: [IoSliceMut<'_>; BUFFERS] =
            array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
        let filled = match self.state.recv((&self.socket).into(), &mut slices, &mut metas) {
            Ok(filled) => filled,
            Err(error) if is_transient(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        for (slice, meta) in slices.iter().zip(&metas).take(filled) {
            let ecn = Ecn::from_bits(meta.ecn.map_or(0, |ecn| ecn as u8));
            let arrival = Arrival { remote: meta.addr, local: meta.dst_ip, ecn };
            let merged = slice.get(..meta.len).unwrap_or_default();
            if merged.is_empty() {
                // An empty datagram counts as a datagram, too.
                each(arrival, merged);
            }
            for datagram in merged.chunks(meta.stride.max(1)) {
                each(arrival, datagram);
            }
        }
        Ok(())
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Reusable buffers for one batch.
#[derive(Debug)]
pub(super) struct Buffers(Box<[u8]>);

impl Buffers {
    pub(super) fn new() -> Self {
        Self(vec![0; BUFFERS * BUFFER_SIZE].into())
    }
}

/// Returns whether an error leaves the socket usable: there is nothing to read, or the network
/// reports a problem with a datagram that was sent earlier.
fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock
            | ErrorKind::Interrupted
            | ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
    )
}
