//! UDP sockets that send and receive in batches (GSO, GRO), with the same library and the same
//! buffer sizes as `clearway-udp`.

use std::io::{ErrorKind, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::ReceiveTimestampns;
use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::Outcome;

/// Number and size of the buffers that one system call fills, and the requested socket buffer size.
/// All are the same as in `clearway-udp`.
const BUFFERS: usize = 8;
const BUFFER_SIZE: usize = 1 << 16;
const SOCKET_BUFFER_SIZE: usize = 4 << 20;
/// Maximum size in bytes of a batch that the kernel accepts in one call.
pub(crate) const BATCH_BYTES: usize = 65_507;
/// Maximum number of datagrams into which the kernel splits a batch (UDP_MAX_SEGMENTS in Linux
/// before 6.9).
pub(crate) const MAX_SEGMENTS: usize = 64;
/// Time after which a silent peer is considered dead.
const TIMEOUT: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

pub(crate) struct Socket {
    pub(crate) socket: UdpSocket,
    state: UdpSocketState,
}

impl Socket {
    pub(crate) fn bind(address: SocketAddr) -> Outcome<Self> {
        let socket = UdpSocket::bind(address)?;
        let state = UdpSocketState::new((&socket).into())?;
        // `clearway-udp` does not use receive timestamps either.
        let _ = setsockopt(&socket, ReceiveTimestampns, &false);
        // The kernel grants a smaller buffer if its limit is lower.
        let _ = state.set_send_buffer_size((&socket).into(), SOCKET_BUFFER_SIZE);
        let _ = state.set_recv_buffer_size((&socket).into(), SOCKET_BUFFER_SIZE);
        Ok(Self { socket, state })
    }

    /// Waits until the socket is ready. Returns whether it became ready before the timeout.
    pub(crate) fn wait(&self, flags: PollFlags, timeout: &Timespec) -> Outcome<bool> {
        let mut sockets = [PollFd::new(&self.socket, flags)];
        Ok(poll(&mut sockets, Some(timeout))? > 0)
    }

    /// Like [`wait`](Self::wait), but returns an error if the peer seems to be dead.
    pub(crate) fn wait_patiently(&self, flags: PollFlags) -> Outcome {
        match self.wait(flags, &TIMEOUT)? {
            true => Ok(()),
            false => Err("no datagram was sent or received for 10 seconds".into()),
        }
    }

    /// Sends datagrams of `size` bytes in one system call, waiting while the socket buffer is full.
    pub(crate) fn send(&self, destination: SocketAddr, datagrams: &[u8], size: usize) -> Outcome {
        let transmit = Transmit {
            destination,
            ecn: None,
            contents: datagrams,
            segment_size: Some(size),
            src_ip: None,
        };
        loop {
            match self.state.try_send((&self.socket).into(), &transmit) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.wait_patiently(PollFlags::OUT)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Receives the available datagrams with one system call; returns `false` if there are none.
    pub(crate) fn receive(&self, received: &mut Received) -> Outcome<bool> {
        let Received { memory, metas, filled } = received;
        let mut buffers: Vec<_> = memory.chunks_mut(BUFFER_SIZE).map(IoSliceMut::new).collect();
        match self.state.recv((&self.socket).into(), &mut buffers, metas) {
            Ok(count) => {
                *filled = count;
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Buffers for received datagrams.
pub(crate) struct Received {
    memory: Vec<u8>,
    metas: [RecvMeta; BUFFERS],
    filled: usize,
}

impl Received {
    pub(crate) fn new() -> Self {
        let memory = vec![0; BUFFERS * BUFFER_SIZE];
        Self { memory, metas: [RecvMeta::default(); BUFFERS], filled: 0 }
    }

    /// Returns the datagrams of the last call. Each batch has the sender's address, the bytes of
    /// one or more datagrams, and the size of each datagram except the last, which may be smaller.
    pub(crate) fn batches(&mut self) -> impl Iterator<Item = (SocketAddr, &mut [u8], usize)> {
        let buffers = self.memory.chunks_mut(BUFFER_SIZE);
        let filled = buffers.zip(&self.metas).take(self.filled);
        filled.map(|(buffer, meta)| (meta.addr, &mut buffer[..meta.len], meta.stride.max(1)))
    }
}
