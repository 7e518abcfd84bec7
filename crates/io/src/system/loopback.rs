//! Wake-ups through a pair of UDP sockets on the loopback interface, which every system can poll.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};

use rustix::fd::{AsFd, BorrowedFd};

/// Maximum number of wake-ups to clear in one call. Additional wake-ups wake the thread again.
const CLEARED: usize = 64;

/// The receiving end of wake-ups.
pub(crate) struct WakeReceiver(UdpSocket);

/// Wakes the thread; usable from any other thread.
pub(crate) struct Waker(UdpSocket);

/// Creates both ends of a wake-up channel. Only they can send to each other.
pub(crate) fn wake_pair() -> io::Result<(WakeReceiver, Waker)> {
    let (receiver, sender) = (bind()?, bind()?);
    sender.connect(receiver.local_addr()?)?;
    receiver.connect(sender.local_addr()?)?;
    Ok((WakeReceiver(receiver), Waker(sender)))
}

fn bind() -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

impl Waker {
    pub(crate) fn wake(&self) {
        // If the buffer is full, the thread is already being woken.
        let _ = self.0.send(&[0]);
    }
}

impl WakeReceiver {
    /// Discards the wake-ups that have arrived.
    pub(crate) fn clear(&self) {
        let _ = (0..CLEARED).find(|_| self.0.recv(&mut [0]).is_err());
    }
}

impl AsFd for WakeReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
