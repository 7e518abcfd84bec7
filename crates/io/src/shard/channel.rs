//! The channel through which a shard sends and receives datagrams: a socket of the operating
//! system, or one that the program provides.

use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker};
use std::io;
use std::sync::Arc;
use std::task::Wake;

use clearway_udp::{Batch, Meta, ReceiveBuffer, SendOutcome, Socket};

use crate::datagram_socket::DatagramSocket;
use crate::mailbox::Mailbox;

/// Maximum number of datagrams that one call receives from a provided socket.
const MAX_RECEIVED: usize = 64;
/// Size of the buffer for one datagram, in bytes.
const ROOM: usize = 1 << 16;

pub(crate) enum Channel {
    System(Socket),
    Provided(Provided),
}

/// A socket that the program provides.
pub(crate) struct Provided {
    socket: Box<dyn DatagramSocket>,
    local_address: SocketAddr,
    signal: Arc<Signal>,
    waker: Waker,
}

/// The waker that is passed to a provided socket.
struct Signal {
    /// Whether the socket may be able to receive.
    is_ready: AtomicBool,
    mailbox: Arc<Mailbox>,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_ready.store(true, Ordering::SeqCst);
        // Even if it was ready before: a shard sleeps while receiving is paused after an error, but
        // there may be room to send again.
        self.mailbox.note_ready_task();
    }
}

impl From<Socket> for Channel {
    fn from(socket: Socket) -> Self {
        Self::System(socket)
    }
}

impl Channel {
    /// Returns a channel whose socket wakes the shard of `mailbox`.
    pub(crate) fn provided(socket: Box<dyn DatagramSocket>, mailbox: &Arc<Mailbox>) -> Self {
        let signal = Arc::new(Signal { is_ready: AtomicBool::new(true), mailbox: mailbox.clone() });
        let local_address = socket.local_address();
        Self::Provided(Provided { socket, local_address, waker: signal.clone().into(), signal })
    }

    /// Returns the socket of the operating system, unless the program provides the socket.
    #[inline]
    pub(crate) fn system(&self) -> Option<&Socket> {
        match self {
            Self::System(socket) => Some(socket),
            Self::Provided(_) => None,
        }
    }

    /// Returns the operating system's socket, consuming the channel.
    #[inline]
    pub(crate) fn into_system(self) -> Option<Socket> {
        match self {
            Self::System(socket) => Some(socket),
            Self::Provided(_) => None,
        }
    }

    #[inline]
    pub(crate) fn local_address(&self) -> SocketAddr {
        match self {
            Self::System(socket) => socket.local_address(),
            Self::Provided(provided) => provided.local_address,
        }
    }

    #[inline]
    pub(crate) fn max_gso_segments(&self) -> usize {
        match self {
            Self::System(socket) => socket.max_gso_segments(),
            Self::Provided(provided) => provided.socket.max_segments(),
        }
    }

    /// Returns `remote` in the form that this socket uses; `None` if it cannot send there.
    #[inline]
    pub(crate) fn destination(&self, remote: SocketAddr) -> Option<SocketAddr> {
        match self {
            Self::System(socket) => socket.destination(remote),
            Self::Provided(_) => Some(remote),
        }
    }

    /// Receives one bounded batch, and calls `each` with every datagram. Returns their number.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        buffer: &mut ReceiveBuffer,
        each: impl FnMut(Meta, &mut [u8]),
    ) -> io::Result<usize> {
        match self {
            Self::System(socket) => socket.receive(buffer, each),
            Self::Provided(provided) => provided.receive(buffer.bytes(), each),
        }
    }

    #[inline]
    pub(crate) fn may_have_more(&self) -> bool {
        match self {
            Self::System(socket) => socket.may_have_more(),
            Self::Provided(provided) => provided.signal.is_ready.load(Ordering::SeqCst),
        }
    }

    #[inline]
    pub(crate) fn send(&mut self, batch: &Batch<'_>, progress: &mut usize) -> SendOutcome {
        match self {
            Self::System(socket) => socket.send(batch, progress),
            Self::Provided(provided) => provided.send(batch, progress),
        }
    }

    /// Sends several batches in one call. Returns how many were accepted.
    #[inline]
    pub(crate) fn send_together<'a>(&mut self, batches: impl Iterator<Item = Batch<'a>>) -> usize {
        match self {
            Self::System(socket) => socket.send_together(batches),
            // One call for each batch is all there is.
            Self::Provided(_) => 0,
        }
    }

    /// Calls `each` with destinations that are reported as unreachable.
    #[inline]
    pub(crate) fn unreachable(&mut self, each: impl FnMut(SocketAddr)) {
        if let Self::System(socket) = self {
            socket.unreachable(each);
        }
    }

    #[inline]
    pub(crate) fn note_errors(&mut self) {
        if let Self::System(socket) = self {
            socket.note_errors();
        }
    }

    #[inline]
    pub(crate) fn has_errors(&self) -> bool {
        matches!(self, Self::System(socket) if socket.has_errors())
    }
}

impl Provided {
    fn receive(
        &mut self,
        buffer: &mut [u8],
        mut each: impl FnMut(Meta, &mut [u8]),
    ) -> io::Result<usize> {
        let room = buffer.len().min(ROOM);
        // Reset first: a wake-up during the calls is not missed.
        self.signal.is_ready.store(false, Ordering::SeqCst);
        let mut context = Context::from_waker(&self.waker);
        for count in 0..MAX_RECEIVED {
            match self.socket.poll_receive(&mut context, &mut buffer[..room]) {
                Poll::Ready(Ok((length, meta))) => each(meta, &mut buffer[..length.min(room)]),
                Poll::Ready(Err(error)) => {
                    self.signal.is_ready.store(true, Ordering::SeqCst);
                    return Err(error);
                }
                Poll::Pending => return Ok(count),
            }
        }
        self.signal.is_ready.store(true, Ordering::SeqCst);
        Ok(MAX_RECEIVED)
    }

    fn send(&mut self, batch: &Batch<'_>, progress: &mut usize) -> SendOutcome {
        let size = batch.contents.len();
        let segment = batch.segment_size.unwrap_or(size).max(1);
        let most = segment.saturating_mul(self.socket.max_segments().max(1));
        while *progress < size {
            let rest = &batch.contents[*progress..];
            let contents = &rest[..most.min(rest.len())];
            let segment_size = Some(segment).filter(|segment| contents.len() > *segment);
            let part = Batch { contents, segment_size, ..*batch };
            match self.socket.send(&part, &mut Context::from_waker(&self.waker)) {
                SendOutcome::Sent => *progress += contents.len(),
                other => return other,
            }
        }
        SendOutcome::Sent
    }
}
