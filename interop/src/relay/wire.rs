//! The interfaces at which the relay reads and writes packets.

use std::io::{self, ErrorKind};

use rustix::event::{PollFd, PollFlags};
use tappers::Tun;

use super::loopback::{ClientSide, ServerSide};

/// The interface on one of the relay's two sides.
pub(crate) enum Wire {
    /// A TUN device in a network namespace.
    Device(Tun),
    /// Sockets at loopback addresses on the client's side.
    Client(ClientSide),
    Server(ServerSide),
}

impl Wire {
    /// Receives the next packet, if there is one.
    pub(super) fn receive<'a>(&mut self, buffer: &'a mut [u8]) -> io::Result<Option<&'a [u8]>> {
        let received = match self {
            Self::Device(device) => device.recv(buffer),
            Self::Client(side) => side.receive(buffer),
            Self::Server(side) => side.receive(buffer),
        };
        match received {
            Ok(length) => Ok(buffer.get(..length)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends a packet. If it cannot be sent, it is dropped, as on any network.
    pub(super) fn send(&mut self, packet: &[u8]) {
        let _ = match self {
            Self::Device(device) => device.send(packet).map(drop),
            Self::Client(side) => side.send(packet),
            Self::Server(side) => side.send(packet),
        };
    }

    /// Returns the file descriptors to poll.
    pub(super) fn poll(&self) -> Box<dyn Iterator<Item = PollFd<'_>> + '_> {
        match self {
            Self::Device(device) => Box::new(std::iter::once(PollFd::new(device, PollFlags::IN))),
            Self::Client(side) => {
                Box::new(std::iter::once(PollFd::new(side.socket(), PollFlags::IN)))
            }
            Self::Server(side) => {
                Box::new(side.sockets().map(|socket| PollFd::new(socket, PollFlags::IN)))
            }
        }
    }
}
