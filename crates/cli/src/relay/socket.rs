use std::array;
use std::io::{self, ErrorKind, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use clearway_network::Ecn;
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};

/// How many buffers one call to the kernel fills; each may hold many datagrams of one sender.
const BUFFERS: usize = 16;
/// What each of them must hold: the largest UDP payload, or as much of merged ones.
const BUFFER_SIZE: usize = 1 << 16;
/// Asked for in both directions: a relay that reads late must not add losses of its own. The kernel
/// may give less.
const SOCKET_BUFFER_SIZE: usize = 4 << 20;

/// Where a datagram came from and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    /// The sender.
    pub(super) remote: SocketAddr,
    /// The local address that it was sent to, where the platform says.
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
        let state = UdpSocketState::new((&socket).into())?;
        // Best effort: the kernel cuts these to its limits.
        let _ = state.set_send_buffer_size((&socket).into(), SOCKET_BUFFER_SIZE);
        let _ = state.set_recv_buffer_size((&socket).into(), SOCKET_BUFFER_SIZE);
        Ok(Self { socket, state })
    }

    pub(super) fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Sends one datagram. Each one is a call of its own: what leaves the relay must not be merged
    /// again with others, which the receiver could not tell from a batch of the sender.
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

    /// Receives one bounded batch without waiting; `each` gets every datagram, those that the kernel
    /// had merged one by one.
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
            Err(error) if is_passing(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        for (slice, meta) in slices.iter().zip(&metas).take(filled) {
            let ecn = Ecn::from_bits(meta.ecn.map_or(0, |ecn| ecn as u8));
            let arrival = Arrival { remote: meta.addr, local: meta.dst_ip, ecn };
            let merged = slice.get(..meta.len).unwrap_or_default();
            if merged.is_empty() {
                // An empty datagram is one, too.
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

/// Memory for one batch, used again and again.
#[derive(Debug)]
pub(super) struct Buffers(Box<[u8]>);

impl Buffers {
    pub(super) fn new() -> Self {
        Self(vec![0; BUFFERS * BUFFER_SIZE].into())
    }
}

/// Whether this says nothing about the socket itself: there is nothing to read, or the network has
/// something to say about a datagram that was sent earlier.
fn is_passing(error: &io::Error) -> bool {
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
