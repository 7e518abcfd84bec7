//! UDP sockets that move batches (GSO, GRO), through the library that `clearway-udp` uses, and with the same buffers.

use std::io::{ErrorKind, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::ReceiveTimestampns;
use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::Outcome;

/// How many buffers one call to the kernel fills, how large they are, and what is asked for in the kernel: as in
/// `clearway-udp`.
const BUFFERS: usize = 8;
const BUFFER_SIZE: usize = 1 << 16;
const SOCKET_BUFFER_SIZE: usize = 4 << 20;
/// The bytes of a batch: what the kernel takes in one call.
pub(crate) const BATCH_BYTES: usize = 65_507;
/// How many datagrams the kernel divides a batch into at most (UDP_MAX_SEGMENTS of Linux before 6.9).
pub(crate) const MAX_SEGMENTS: usize = 64;
/// How long an end waits for the other.
const PATIENCE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

pub(crate) struct Socket {
    pub(crate) socket: UdpSocket,
    state: UdpSocketState,
}

impl Socket {
    pub(crate) fn bind(address: SocketAddr) -> Outcome<Self> {
        let socket = UdpSocket::bind(address)?;
        let state = UdpSocketState::new((&socket).into())?;
        // `clearway-udp` needs no time of arrival either.
        let _ = setsockopt(&socket, ReceiveTimestampns, &false);
        // The kernel gives less where its limits are lower.
        let _ = state.set_send_buffer_size((&socket).into(), SOCKET_BUFFER_SIZE);
        let _ = state.set_recv_buffer_size((&socket).into(), SOCKET_BUFFER_SIZE);
        Ok(Self { socket, state })
    }

    /// Whether the socket became ready.
    pub(crate) fn wait(&self, flags: PollFlags, timeout: &Timespec) -> Outcome<bool> {
        let mut sockets = [PollFd::new(&self.socket, flags)];
        Ok(poll(&mut sockets, Some(timeout))? > 0)
    }

    /// As [`wait`](Self::wait), where the other end must be alive.
    pub(crate) fn wait_patiently(&self, flags: PollFlags) -> Outcome {
        match self.wait(flags, &PATIENCE)? {
            true => Ok(()),
            false => Err("nothing was received or could be sent for 10 seconds".into()),
        }
    }

    /// Sends datagrams of `size` bytes, in one call to the kernel. It waits while the socket has no room.
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

    /// Receives what is there, in one call to the kernel; `false` if there is nothing.
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

/// Where datagrams are received.
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

    /// What the last call has received: the sender, the bytes of one or more datagrams, and the size of each but the last,
    /// which may be smaller.
    pub(crate) fn batches(&mut self) -> impl Iterator<Item = (SocketAddr, &mut [u8], usize)> {
        let buffers = self.memory.chunks_mut(BUFFER_SIZE);
        let filled = buffers.zip(&self.metas).take(self.filled);
        filled.map(|(buffer, meta)| (meta.addr, &mut buffer[..meta.len], meta.stride.max(1)))
    }
}
