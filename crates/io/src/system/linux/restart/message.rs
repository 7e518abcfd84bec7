//! The messages between a running process and the one that replaces it.
//!
//! ```text
//! new                             running
//!  Hello                     ->
//!                            <-   Offer, with the socket at which this conversation began
//!                            <-   Shard, with its UDP sockets and an end of its pipe; once for each
//!  Ready                     ->
//!                            <-   Go: from now on the new one receives
//! ```
//!
//! Between Ready and Go, each thread of a balancer hands over its state through its pipe: State,
//! and then Ports.
//!
//! Draining or Version may be sent instead of Offer, and Stay instead of Go. The connection is kept
//! open until the running process has ended, so that the new process detects the end.

use core::mem::MaybeUninit;
use core::time::Duration;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::shard_ids::{Generation, Layout};
use crate::system::steering::Steering;

/// The version of this protocol and of the messages in the pipes.
const VERSION: u8 = 2;
const MAGIC: &[u8] = b"clearway hot restart";
const MAX_LEN: usize = 128;
/// Maximum number of descriptors per message. A shard listens at no more than three addresses and
/// has one pipe, but a balancer has many ports.
pub(super) const MAX_DESCRIPTORS: usize = 64;

/// Secrets that both processes share, and that no other process may obtain.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Secrets {
    pub(crate) reset_key: [u8; 32],
    pub(crate) ticket_secret: [u8; 32],
}

/// State that the running process hands over in addition to its sockets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) secrets: Secrets,
    pub(crate) count: u16,
    /// The generation of the running process.
    pub(crate) generation: Generation,
    pub(crate) steering: Option<Steering>,
    /// The layout of the process's connection IDs.
    pub(crate) layout: Layout,
    pub(crate) role: Role,
}

/// The kind of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// An endpoint with connections.
    Server,
    /// A load balancer, which forwards datagrams.
    Balancer,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Message {
    /// A process with this protocol version requests to replace the running one.
    Hello(u8),
    /// The predecessor of the running process still has connections.
    Draining,
    /// The running process uses this other version of the protocol.
    Version(u8),
    Offer(Offer),
    /// A message that carries the sockets of the next shard.
    Shard,
    Ready,
    Go,
    /// The running process cannot stop receiving, and continues.
    Stay,
    /// The number of ports of a balancer thread. The message carries the thread's state.
    State(u32),
    /// A message that carries the sockets of some of the thread's ports.
    Ports,
}

impl Message {
    pub(crate) const HELLO: Self = Self::Hello(VERSION);
    pub(crate) const OTHER_VERSION: Self = Self::Version(VERSION);

    fn encode(self) -> Vec<u8> {
        match self {
            Self::Hello(version) => [&[0, version], MAGIC].concat(),
            Self::Draining => vec![1],
            Self::Version(version) => vec![2, version],
            Self::Offer(offer) => {
                let Offer { secrets, count, generation, steering, layout, role } = offer;
                let [high, low] = count.to_be_bytes();
                let kind = match role {
                    Role::Server => 3,
                    Role::Balancer => 10,
                };
                let head = [kind, high, low, generation.number(), number(steering)];
                // Only QUIC-LB adds an octet: a process that does not support QUIC-LB rejects this
                // message as invalid.
                let id_len = layout.quic_lb_len();
                [&head[..], &secrets.reset_key, &secrets.ticket_secret, id_len.as_slice()].concat()
            }
            Self::Shard => vec![4],
            Self::Ready => vec![5],
            Self::Go => vec![6],
            Self::Stay => vec![7],
            Self::State(ports) => [&[8], &ports.to_be_bytes()[..]].concat(),
            Self::Ports => vec![9],
        }
    }

    fn decode(message: &[u8]) -> Option<Self> {
        Some(match *message {
            [0, version, ref magic @ ..] if magic == MAGIC => Self::Hello(version),
            [1] => Self::Draining,
            [2, version] => Self::Version(version),
            [kind @ (3 | 10), high, low, generation, steering, ref secrets @ ..] => {
                let role = if kind == 10 { Role::Balancer } else { Role::Server };
                let (reset_key, rest) = secrets.split_first_chunk()?;
                let (ticket_secret, id_len) = rest.split_first_chunk()?;
                let secrets = Secrets { reset_key: *reset_key, ticket_secret: *ticket_secret };
                let layout = match *id_len {
                    [] => Layout::OWN,
                    [id_len] => Layout::quic_lb(id_len),
                    _ => return None,
                };
                let count = u16::from_be_bytes([high, low]);
                let generation = Generation::from_number(generation);
                let steering = steered(steering);
                Self::Offer(Offer { secrets, count, generation, steering, layout, role })
            }
            [4] => Self::Shard,
            [5] => Self::Ready,
            [6] => Self::Go,
            [7] => Self::Stay,
            [8, ref ports @ ..] => Self::State(u32::from_be_bytes(ports.try_into().ok()?)),
            [9] => Self::Ports,
            _ => return None,
        })
    }
}

const fn number(steering: Option<Steering>) -> u8 {
    match steering {
        None => 0,
        Some(Steering::Hash) => 1,
        Some(Steering::ClassicBpf) => 2,
        Some(Steering::Ebpf) => 3,
    }
}

const fn steered(number: u8) -> Option<Steering> {
    match number {
        1 => Some(Steering::Hash),
        2 => Some(Steering::ClassicBpf),
        3 => Some(Steering::Ebpf),
        _ => None,
    }
}

/// A connection between two processes: one end of a unix socket.
#[derive(Debug)]
pub(crate) struct Conversation(OwnedFd);

impl Conversation {
    /// Creates a connection that waits for each message for at most `patience`.
    pub(crate) fn new(socket: OwnedFd, patience: Duration) -> io::Result<Self> {
        for direction in [Timeout::Recv, Timeout::Send] {
            set_socket_timeout(&socket, direction, Some(patience))?;
        }
        Ok(Self(socket))
    }

    /// Returns the effective user ID of the process at the other end.
    pub(crate) fn user(&self) -> io::Result<u32> {
        Ok(socket_peercred(&self.0)?.uid.as_raw())
    }

    pub(crate) fn send(&self, message: Message, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(ErrorKind::InvalidInput.into());
        }
        let message = message.encode();
        let parts = [IoSlice::new(&message)];
        loop {
            match sendmsg(&self.0, &parts, &mut control, SendFlags::NOSIGNAL) {
                Err(Errno::INTR) => {}
                sent => return Ok(sent.map(drop)?),
            }
        }
    }

    /// Receives the next message, with the accompanying descriptors.
    ///
    /// # Errors
    /// Returns [`UnexpectedEof`](ErrorKind::UnexpectedEof) if the other end was closed,
    /// [`WouldBlock`](ErrorKind::WouldBlock) if nothing arrived in time,
    /// [`InvalidData`](ErrorKind::InvalidData) if the message is invalid.
    pub(crate) fn receive(&self) -> io::Result<(Message, Vec<OwnedFd>)> {
        let mut buffer = [0; MAX_LEN];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let mut parts = [IoSliceMut::new(&mut buffer)];
            match recvmsg(&self.0, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::INTR) => {}
                received => break received?,
            }
        };
        let mut descriptors = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        if received.bytes == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let is_cut = received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC);
        let message = buffer.get(..received.bytes).and_then(Message::decode);
        match message.filter(|_| !is_cut) {
            Some(message) => Ok((message, descriptors)),
            None => Err(ErrorKind::InvalidData.into()),
        }
    }
}

impl AsFd for Conversation {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    fn pair() -> (Conversation, Conversation) {
        let flags = SocketFlags::CLOEXEC;
        let (one, other) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        let patience = Duration::from_secs(10);
        (Conversation::new(one, patience).unwrap(), Conversation::new(other, patience).unwrap())
    }

    #[test]
    fn messages_arrive_with_what_belongs_to_them() {
        let (one, other) = pair();
        let secrets = Secrets { reset_key: [1; 32], ticket_secret: [2; 32] };
        let steerings =
            [None, Some(Steering::Hash), Some(Steering::ClassicBpf), Some(Steering::Ebpf)];
        let offer = |steering| {
            let (generation, layout) = (Generation::Odd, Layout::OWN);
            let role = Role::Balancer;
            Message::Offer(Offer { secrets, count: 128, generation, steering, layout, role })
        };
        let (generation, layout) = (Generation::Even, Layout::quic_lb(17));
        let role = Role::Server;
        let quic_lb = Offer { secrets, count: 2, generation, steering: None, layout, role };
        let mut messages = vec![Message::HELLO, Message::Draining, Message::OTHER_VERSION];
        messages.extend(steerings.map(offer));
        messages.push(Message::Offer(quic_lb));
        messages.extend([Message::Shard, Message::Ready, Message::Go, Message::Stay]);
        messages.extend([Message::State(300), Message::Ports]);
        for message in messages {
            let file = std::fs::File::open("/dev/null").unwrap();
            one.send(message, &[file.as_fd(); MAX_DESCRIPTORS]).unwrap();
            let (received, descriptors) = other.receive().unwrap();
            assert!(received == message);
            assert_eq!(descriptors.len(), MAX_DESCRIPTORS);
        }
        assert_eq!(other.user().unwrap(), rustix::process::geteuid().as_raw());
        drop(one);
        assert_eq!(other.receive().err().map(|it| it.kind()), Some(ErrorKind::UnexpectedEof));
    }

    #[test]
    fn what_is_no_message_is_none() {
        let (one, other) = pair();
        for wrong in [&[0, 1][..], &[1, 1], &[3, 0, 1, 0, 0, 9], &[99], &[4; MAX_LEN + 1]] {
            rustix::net::send(&one, wrong, SendFlags::empty()).unwrap();
            assert_eq!(other.receive().err().map(|it| it.kind()), Some(ErrorKind::InvalidData));
        }
    }
}
