//! Datagrams over loopback in batches, through the library for sockets that `clearway-io` uses.

use std::io::{ErrorKind, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::ReceiveTimestampns;
use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::protection::Protection;
use super::{ReceiveOptions, SendOptions};
use crate::{Outcome, transfer};

/// How many buffers one call to the kernel fills, how large they are, and what is asked for in the kernel: as in
/// `clearway-io`.
const BUFFERS: usize = 8;
const BUFFER_SIZE: usize = 1 << 16;
const SOCKET_BUFFER_SIZE: usize = 4 << 20;
/// How long a receiver waits for the next datagram.
const PATIENCE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

struct Socket {
    socket: UdpSocket,
    state: UdpSocketState,
}

impl Socket {
    fn bind(address: SocketAddr) -> Outcome<Self> {
        let socket = UdpSocket::bind(address)?;
        let state = UdpSocketState::new((&socket).into())?;
        // `clearway-io` needs no time of arrival either.
        let _ = setsockopt(&socket, ReceiveTimestampns, &false);
        // The kernel gives less where its limits are lower.
        let _ = state.set_send_buffer_size((&socket).into(), SOCKET_BUFFER_SIZE);
        let _ = state.set_recv_buffer_size((&socket).into(), SOCKET_BUFFER_SIZE);
        Ok(Self { socket, state })
    }

    fn wait(&self, flags: PollFlags) -> Outcome {
        let mut sockets = [PollFd::new(&self.socket, flags)];
        match poll(&mut sockets, Some(&PATIENCE))? {
            0 => Err("nothing was received or could be sent for 10 seconds".into()),
            _ => Ok(()),
        }
    }
}

/// Sends as fast as the kernel takes it, whether or not it arrives.
pub(super) fn send(options: &SendOptions) -> Outcome<(u64, Duration)> {
    let socket = Socket::bind(transfer::local_address(options.connect))?;
    let size = usize::from(options.options.size);
    let (_, batch_bytes) = options.options.batch();
    let mut batch = vec![0; batch_bytes];
    let mut sender = Protection::sender()?;
    let (mut bytes, began) = (0, Instant::now());
    while began.elapsed() < options.options.duration() {
        if options.protected {
            sender.seal_all(&mut batch, size)?;
        }
        let transmit = Transmit {
            destination: options.connect,
            ecn: None,
            contents: &batch,
            segment_size: Some(size),
            src_ip: None,
        };
        match socket.state.try_send((&socket.socket).into(), &transmit) {
            Ok(()) => bytes += batch.len() as u64,
            Err(error) if error.kind() == ErrorKind::WouldBlock => socket.wait(PollFlags::OUT)?,
            // The receiver has seen enough.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok((bytes, began.elapsed()))
}

/// Receives from the first datagram on. Only bytes that arrive are counted.
pub(super) fn receive(options: &ReceiveOptions) -> Outcome<(u64, Duration)> {
    let socket = Socket::bind(options.listen)?;
    println!("listening {}", socket.socket.local_addr()?);
    let receiver = Protection::receiver()?;
    let mut memory = vec![0; BUFFERS * BUFFER_SIZE];
    socket.wait(PollFlags::IN)?;
    let (mut bytes, began) = (0, Instant::now());
    while began.elapsed() < options.options.duration() {
        let mut metas = [RecvMeta::default(); BUFFERS];
        let mut buffers: Vec<_> = memory.chunks_mut(BUFFER_SIZE).map(IoSliceMut::new).collect();
        let filled = match socket.state.recv((&socket.socket).into(), &mut buffers, &mut metas) {
            Ok(filled) => filled,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                socket.wait(PollFlags::IN)?;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        for (buffer, meta) in buffers.iter_mut().zip(&metas).take(filled) {
            if options.protected {
                receiver.open_all(&mut buffer[..meta.len], meta.stride.max(1))?;
            }
            bytes += meta.len as u64;
        }
    }
    Ok((bytes, began.elapsed()))
}
