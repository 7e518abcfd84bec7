//! There is no hot restart on these systems: its types cannot be constructed, so their methods can
//! never be called.
#![expect(dead_code, reason = "the fields and variants are never used on this system")]

use core::convert::Infallible;
use core::fmt;
use core::net::SocketAddr;
use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use clearway_transport::SocketIndex;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

pub(crate) use super::super::hot_restart_error::HotRestartError;
use super::super::steering::Steering;
use crate::datagrams::Meta;
use crate::shard_ids::{Generation, Layout};

/// Allows a server to replace a running server. This requires Linux: on other systems, no value of
/// this type exists.
pub struct HotRestart(Infallible);

impl HotRestart {
    /// Always fails on this system.
    ///
    /// # Errors
    /// Returns [`HotRestartError::Path`], whose cause has the kind
    /// [`Unsupported`](ErrorKind::Unsupported).
    pub fn at(path: impl AsRef<Path>) -> Result<Self, HotRestartError> {
        let error = io::Error::new(ErrorKind::Unsupported, "hot restart requires Linux");
        Err(HotRestartError::Path { path: path.as_ref().to_owned(), error })
    }

    /// Always fails on this system.
    ///
    /// # Errors
    /// Returns the same errors as [`at`](Self::at).
    pub fn of_balancer_at(path: impl AsRef<Path>) -> Result<Self, HotRestartError> {
        Self::at(path)
    }

    /// Returns whether there is a process to replace.
    pub fn replaces(&self) -> bool {
        match self.0 {}
    }

    /// Returns the address at which the process to replace listens.
    pub fn local_address(&self) -> Option<SocketAddr> {
        match self.0 {}
    }

    /// Returns the number of shards of the process to replace.
    pub fn shards(&self) -> Option<usize> {
        match self.0 {}
    }

    /// Returns the bytes for the [`reset_key`](clearway_transport::EndpointConfig::reset_key),
    /// which both processes share.
    pub fn reset_key(&self) -> [u8; 32] {
        match self.0 {}
    }

    /// Returns bytes for the ticket and token keys
    /// ([`TicketKeys`](clearway_transport::TicketKeys)), which both processes share.
    pub fn ticket_secret(&self) -> [u8; 32] {
        match self.0 {}
    }

    /// Adds a callback for when another process has replaced this one.
    pub fn on_replaced(&mut self, replaced: impl FnOnce() + Send + 'static) {
        let _ = replaced;
        match self.0 {}
    }

    pub(crate) fn generation(&self) -> Generation {
        match self.0 {}
    }

    pub(crate) fn take_inherited(&mut self) -> Option<InheritedGroup> {
        match self.0 {}
    }

    pub(crate) fn prepare(
        self,
        _: Vec<Vec<OwnedFd>>,
        _: Vec<Arc<dyn Replaceable>>,
        _: Option<Steering>,
        _: Layout,
    ) -> io::Result<Prepared> {
        match self.0 {}
    }
}

impl fmt::Debug for HotRestart {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {}
    }
}

pub(crate) struct InheritedGroup {
    pub(crate) shards: Vec<InheritedShard>,
    pub(crate) steering: Option<Steering>,
    pub(crate) layout: Layout,
}

pub(crate) struct InheritedShard {
    pub(crate) sockets: Vec<UdpSocket>,
    pub(crate) pipe: Infallible,
}

pub(crate) struct Prepared(Infallible);

impl Prepared {
    pub(crate) fn take_over(self) -> io::Result<Keeper> {
        match self.0 {}
    }
}

#[derive(Debug)]
pub(crate) struct Keeper(Infallible);

pub(crate) trait Replaceable: Send + Sync {
    fn hand_over(&self, hand_over: HandOver);

    fn listen(&self);
}

pub(crate) struct HandOver {
    pub(crate) pipe: Pipe,
    pub(crate) stopped: Sender<()>,
    pub(crate) lasting: Arc<Conversation>,
}

pub(crate) struct Conversation(Infallible);

/// The outcome of sending a datagram to the other process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sent {
    Done,
    Full,
    Ended,
}

/// A received datagram.
pub(crate) struct Piped<'a> {
    pub(crate) meta: Meta,
    pub(crate) socket: SocketIndex,
    pub(crate) datagram: &'a mut [u8],
}

#[derive(Debug)]
pub(crate) struct Pipe(Infallible);

impl Pipe {
    pub(crate) fn new(pipe: Infallible) -> Self {
        Self(pipe)
    }

    pub(crate) fn has_ended(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn send(&self, _: SocketIndex, _: &Meta, _: &[u8]) -> Sent {
        match self.0 {}
    }

    pub(crate) fn receive<'a>(&self, _: &'a mut [u8]) -> Option<Piped<'a>> {
        match self.0 {}
    }
}

impl AsFd for Pipe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self.0 {}
    }
}

pub(crate) fn end_all() {}

pub(crate) fn is_same(_: SocketAddr, _: SocketAddr) -> bool {
    false
}

/// Hot restart of threads that are not shards. It requires Linux, so this module is empty on this
/// system.
pub mod hand_over {}
