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
/// How long an end waits for the other.
const PATIENCE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };
/// How many batches may be under way. The receiver says each time when half of them have arrived. So nothing is lost, and
/// what waits in the kernel is as little as behind a congestion controller; more would be slower, since it leaves the caches.
const WINDOW: usize = 6;
/// After this a sender no longer waits for what was lost after all.
const LOSS: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

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

    /// Whether the socket became ready.
    fn wait(&self, flags: PollFlags, timeout: &Timespec) -> Outcome<bool> {
        let mut sockets = [PollFd::new(&self.socket, flags)];
        Ok(poll(&mut sockets, Some(timeout))? > 0)
    }

    /// As [`wait`](Self::wait), where the other end must be alive.
    fn wait_patiently(&self, flags: PollFlags) -> Outcome {
        match self.wait(flags, &PATIENCE)? {
            true => Ok(()),
            false => Err("nothing was received or could be sent for 10 seconds".into()),
        }
    }
}

/// What a sender knows of its datagrams, in bytes.
#[derive(Default)]
struct Flight {
    sent: u64,
    arrived: u64,
    lost: u64,
}

impl Flight {
    fn is_below(&self, window: usize) -> bool {
        self.sent - self.arrived - self.lost < window as u64
    }

    /// Reads how much has arrived, and waits if the window is full.
    fn make_room(&mut self, socket: &Socket, window: usize) -> Outcome {
        while !self.is_below(window) {
            let mut number = [0; size_of::<u64>()];
            match socket.socket.recv(&mut number) {
                Ok(_) => {
                    // Reports may overtake each other, and some of what was given up may arrive.
                    let most = self.sent - self.lost;
                    self.arrived = u64::from_be_bytes(number).clamp(self.arrived, most);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if !socket.wait(PollFlags::IN, &LOSS)? {
                        self.lost = self.sent - self.arrived;
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Sends as fast as it arrives.
pub(super) fn send(options: &SendOptions) -> Outcome<(u64, Duration)> {
    let socket = Socket::bind(transfer::local_address(options.connect))?;
    let size = usize::from(options.options.size);
    let (_, batch_bytes) = options.options.batch();
    let mut batch = vec![0; batch_bytes];
    let mut sender = Protection::sender()?;
    let (mut flight, began) = (Flight::default(), Instant::now());
    while began.elapsed() < options.options.duration() {
        if options.protected {
            sender.seal_all(&mut batch, size)?;
        }
        flight.make_room(&socket, WINDOW * batch_bytes)?;
        let transmit = Transmit {
            destination: options.connect,
            ecn: None,
            contents: &batch,
            segment_size: Some(size),
            src_ip: None,
        };
        match socket.state.try_send((&socket.socket).into(), &transmit) {
            Ok(()) => flight.sent += batch.len() as u64,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                socket.wait_patiently(PollFlags::OUT)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok((flight.arrived, began.elapsed()))
}

/// Receives from the first datagram on. Only bytes that arrive are counted.
pub(super) fn receive(options: &ReceiveOptions) -> Outcome<(u64, Duration)> {
    let socket = Socket::bind(options.listen)?;
    println!("listening {}", socket.socket.local_addr()?);
    let receiver = Protection::receiver()?;
    let report_after = (WINDOW / 2 * options.options.batch().1) as u64;
    let mut memory = vec![0; BUFFERS * BUFFER_SIZE];
    socket.wait_patiently(PollFlags::IN)?;
    let (mut bytes, mut reported, began) = (0, 0, Instant::now());
    while began.elapsed() < options.options.duration() {
        let mut metas = [RecvMeta::default(); BUFFERS];
        let mut buffers: Vec<_> = memory.chunks_mut(BUFFER_SIZE).map(IoSliceMut::new).collect();
        let filled = match socket.state.recv((&socket.socket).into(), &mut buffers, &mut metas) {
            Ok(filled) => filled,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                socket.wait_patiently(PollFlags::IN)?;
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
        if bytes - reported >= report_after {
            reported = bytes;
            socket.socket.send_to(&bytes.to_be_bytes(), metas[0].addr)?;
        }
    }
    Ok((bytes, began.elapsed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_open_again_when_half_of_it_has_arrived() {
        let [sender, receiver] =
            [(), ()].map(|()| Socket::bind(([127, 0, 0, 1], 0).into()).unwrap());
        let mut flight = Flight { sent: 600, ..Flight::default() };
        assert!(!flight.is_below(600));
        let address = sender.socket.local_addr().unwrap();
        receiver.socket.send_to(&300_u64.to_be_bytes(), address).unwrap();
        flight.make_room(&sender, 600).unwrap();
        assert_eq!((flight.arrived, flight.lost), (300, 0));
        // What is lost does not close it for ever.
        flight.sent = 900;
        flight.make_room(&sender, 600).unwrap();
        assert_eq!((flight.arrived, flight.lost), (300, 600));
    }
}
