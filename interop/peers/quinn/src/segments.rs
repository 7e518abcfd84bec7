use std::fmt::Debug;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};

/// Maximum UDP payload over IPv4, which also limits the total size of the datagrams in one GSO
/// send.
const LARGEST_PAYLOAD: usize = 65_507;

/// A socket that limits how many datagrams quinn passes to the kernel in one call. quinn 0.11.12
/// passes up to ten. If the kernel rejects them, which happens for eight or more datagrams of 8952
/// bytes, all of them are lost.
#[derive(Debug)]
pub struct Segments {
    socket: Arc<dyn AsyncUdpSocket>,
    limit: usize,
}

impl Segments {
    /// Creates a socket, where `mtu` is the maximum datagram size in bytes.
    pub fn new(socket: Arc<dyn AsyncUdpSocket>, mtu: u16) -> Self {
        Self { socket, limit: (LARGEST_PAYLOAD / usize::from(mtu)).max(1) }
    }
}

impl AsyncUdpSocket for Segments {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Arc::clone(&self.socket).create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.socket.try_send(transmit)
    }

    fn poll_recv(
        &self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.socket.poll_recv(context, buffers, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.socket.max_transmit_segments().min(self.limit)
    }

    fn max_receive_segments(&self) -> usize {
        self.socket.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.socket.may_fragment()
    }
}
