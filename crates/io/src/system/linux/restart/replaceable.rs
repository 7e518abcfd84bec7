//! A thread whose sockets another process takes over, and how it hands over its state.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::Sender;

use rustix::fs::{MemfdFlags, memfd_create};

use super::TIMEOUT;
use super::message::{Conversation, MAX_DESCRIPTORS, Message};
use super::pipe::Pipe;

/// A thread whose sockets another process takes over.
pub trait Replaceable: Send + Sync {
    /// Makes the thread stop receiving and hand over its state. A no-op if it has already exited.
    fn hand_over(&self, hand_over: HandOver);

    /// Makes the thread start or resume receiving.
    fn listen(&self);
}

/// Handle with which a thread hands over its state when another process replaces this one.
pub struct HandOver {
    /// The pipe to the same thread of the other process. A shard receives datagrams for its
    /// connections from this pipe.
    pub(crate) pipe: Pipe,
    /// Dropped when the thread has stopped receiving from its listening sockets.
    pub(crate) stopped: Sender<()>,
    /// Kept until the thread ends, so that the other process detects when all threads have ended.
    pub(crate) lasting: Arc<Conversation>,
}

impl HandOver {
    /// Hands over sockets and serialized state, whose parts are concatenated. Also signals to the
    /// other process that this thread no longer receives, whether or not the handover succeeded.
    /// Keep the returned value until the thread ends, or [listens](Replaceable::listen) again.
    ///
    /// This may block for several seconds.
    pub fn give(self, sockets: &[BorrowedFd<'_>], state: &[&[u8]]) -> (Lasting, io::Result<()>) {
        let Self { pipe, stopped, lasting } = self;
        let given = give(pipe.into_socket(), sockets, state);
        drop(stopped);
        (Lasting { _conversation: lasting }, given)
    }
}

/// Signals to the process that replaces this one that a thread has not ended.
#[derive(Debug)]
#[must_use]
pub struct Lasting {
    _conversation: Arc<Conversation>,
}

pub(super) fn give(pipe: OwnedFd, sockets: &[BorrowedFd<'_>], state: &[&[u8]]) -> io::Result<()> {
    let conversation = conversation(pipe)?;
    let mut memory = File::from(memfd_create("clearway-hand-over", MemfdFlags::CLOEXEC)?);
    state.iter().try_for_each(|part| memory.write_all(part))?;
    let count = u32::try_from(sockets.len()).map_err(|_| ErrorKind::InvalidInput)?;
    conversation.send(Message::State(count), &[memory.as_fd()])?;
    sockets.chunks(MAX_DESCRIPTORS).try_for_each(|some| conversation.send(Message::Ports, some))
}

/// Servers' pipes are non-blocking; here both ends block.
pub(super) fn conversation(pipe: OwnedFd) -> io::Result<Conversation> {
    rustix::io::ioctl_fionbio(&pipe, false)?;
    Conversation::new(pipe, TIMEOUT)
}
