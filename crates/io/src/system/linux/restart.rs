//! Hot restart: a process takes over the port of a running process.
//!
//! Both processes have the same UDP sockets: the new process gets duplicates through a unix socket,
//! so that the SO_REUSEPORT group remains the same, with its order and its steering program. From
//! the handover on, only the new process receives. It forwards datagrams with connection IDs of the
//! old process, and the old process sends through its own duplicates.

pub mod hand_over;
mod keeper;
mod message;
mod pipe;
mod replaceable;

use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use crate::shard_ids::{Generation, Layout};
use crate::system::steering::Steering;

pub(crate) use super::super::hot_restart_error::HotRestartError;
use super::random::seed;
pub(crate) use keeper::{Keeper, end_all};
use keeper::{Kept, SocketPath};
pub(crate) use message::Conversation;
use message::{Message, Offer, Role, Secrets};
pub(crate) use pipe::{Pipe, Piped, Sent};
pub(crate) use replaceable::{HandOver, Replaceable};

/// How long a starting process waits for the running one to respond, and to stop receiving.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Allows a server to replace a running server, and to be replaced later: no connection is
/// interrupted and no client is refused.
///
/// Processes with the same path for their unix socket replace each other. The new process gets the
/// UDP sockets of the running one, and is the only one to receive from them once it has started.
/// The old process keeps its connections: the new process forwards datagrams with their connection
/// IDs to it, which costs one copy and two system calls each. When the old process has ended, the
/// new one responds to packets of the old connections with stateless resets.
///
/// The socket is accessible only to this user, and each process checks that the other one has the
/// same effective user ID.
pub struct HotRestart {
    path: PathBuf,
    role: Role,
    secrets: Secrets,
    predecessor: Option<Predecessor>,
    on_replaced: Option<Box<dyn FnOnce() + Send>>,
}

/// The running process, and the state that it hands over.
struct Predecessor {
    conversation: Conversation,
    /// The socket to which starting processes connect.
    listener: OwnedFd,
    generation: Generation,
    steering: Option<Steering>,
    layout: Layout,
    shards: Vec<InheritedShard>,
}

/// The handover state of one shard.
pub(crate) struct InheritedShard {
    /// The socket on which connections begin, and the sockets at the preferred addresses.
    pub(crate) sockets: Vec<UdpSocket>,
    pub(crate) pipe: OwnedFd,
}

impl HotRestart {
    /// Looks for a running process that listens at `path`, and prepares to replace it if there is
    /// one. The running process continues to serve until the group of shards to which this handle
    /// is [passed](crate::GroupOptions::hot_restart) starts; if that fails, or the handle is
    /// dropped, the process continues unaffected.
    ///
    /// This may block for several seconds.
    ///
    /// # Errors
    /// Returns [`HotRestartError::Draining`] if the running process has replaced another one that
    /// still has connections: try again later. Other errors concern the running process, or the
    /// path.
    pub fn at(path: impl AsRef<Path>) -> Result<Self, HotRestartError> {
        Self::of(Role::Server, path.as_ref())
    }

    /// Like [`at`](Self::at), for a load balancer. A balancer's threads [hand over](hand_over)
    /// their complete state to their successors, so that the replaced process can end immediately.
    /// Datagrams that arrive in the meantime wait in the sockets.
    ///
    /// # Errors
    /// Returns the same errors as [`at`](Self::at).
    pub fn of_balancer_at(path: impl AsRef<Path>) -> Result<Self, HotRestartError> {
        Self::of(Role::Balancer, path.as_ref())
    }

    fn of(role: Role, path: &Path) -> Result<Self, HotRestartError> {
        let (path, on_replaced) = (path.to_owned(), None);
        let unusable = |error: io::Error| HotRestartError::Path { path: path.clone(), error };
        if let Some(conversation) = reach(&path).map_err(unusable)? {
            let (secrets, predecessor) = listen_to(conversation, role, &path)?;
            let predecessor = Some(predecessor);
            return Ok(Self { path, role, secrets, predecessor, on_replaced });
        }
        let secret = || seed().map_err(HotRestartError::NoSeed);
        let secrets = Secrets { reset_key: secret()?, ticket_secret: secret()? };
        Ok(Self { path, role, secrets, predecessor: None, on_replaced })
    }

    /// Returns whether there is a process to replace.
    pub fn replaces(&self) -> bool {
        self.predecessor.is_some()
    }

    /// Returns the address at which the process to replace listens; this process takes it over.
    pub fn local_address(&self) -> Option<SocketAddr> {
        let predecessor = self.predecessor.as_ref()?;
        predecessor.shards.first()?.sockets.first()?.local_addr().ok()
    }

    /// Returns the number of shards in the process to replace; this process must have the same
    /// number.
    pub fn shards(&self) -> Option<usize> {
        self.predecessor.as_ref().map(|predecessor| predecessor.shards.len())
    }

    /// Returns the bytes for the [`reset_key`](clearway_transport::EndpointConfig::reset_key),
    /// which both processes share. With this key, the new process can reset connections of the old
    /// process after that has ended.
    pub fn reset_key(&self) -> [u8; 32] {
        self.secrets.reset_key
    }

    /// Returns bytes for the ticket and token keys
    /// ([`TicketKeys`](clearway_transport::TicketKeys)), which both processes share: the new
    /// process accepts a client that got a Retry from the old one. Other ticket keys must also be
    /// the same in both processes.
    pub fn ticket_secret(&self) -> [u8; 32] {
        self.secrets.ticket_secret
    }

    /// Adds a callback for when another process has replaced this one; it is called on any thread.
    /// From then on, this process receives datagrams only for its existing connections. They should
    /// be closed gracefully; the new process cannot be replaced until they have ended.
    pub fn on_replaced(&mut self, replaced: impl FnOnce() + Send + 'static) {
        let before = self.on_replaced.take();
        self.on_replaced = Some(Box::new(move || {
            if let Some(before) = before {
                before();
            }
            replaced();
        }));
    }

    /// Returns the generation of this process.
    pub(crate) fn generation(&self) -> Generation {
        let before = self.predecessor.as_ref().map(|predecessor| predecessor.generation);
        before.map_or_else(Generation::default, Generation::other)
    }

    /// Removes and returns the sockets of the process to replace, and the pipes to its shards;
    /// `None` if there is no such process.
    pub(crate) fn take_inherited(&mut self) -> Option<InheritedGroup> {
        let predecessor = self.predecessor.as_mut()?;
        let shards = core::mem::take(&mut predecessor.shards);
        let Predecessor { steering, layout, .. } = *predecessor;
        Some(InheritedGroup { shards, steering, layout })
    }

    /// Performs all steps of the handover that may fail. If there is no process to replace, the
    /// next process can connect from here on. `sockets` are duplicates of the shards' sockets.
    pub(crate) fn prepare(
        self,
        sockets: Vec<Vec<OwnedFd>>,
        shards: Vec<Arc<dyn Replaceable>>,
        steering: Option<Steering>,
        layout: Layout,
    ) -> io::Result<Prepared> {
        let generation = self.generation();
        let Self { path, role, secrets, predecessor, on_replaced } = self;
        let count = u16::try_from(sockets.len()).map_err(|_| ErrorKind::InvalidInput)?;
        let offer = Offer { secrets, count, generation, steering, layout, role };
        let (path, predecessor) = match predecessor {
            Some(Predecessor { conversation, listener, .. }) => {
                (SocketPath::inherited(path, listener), Some(conversation))
            }
            None => {
                let unusable = |error| HotRestartError::Path { path: path.clone(), error };
                (SocketPath::listen(&path).map_err(unusable)?, None)
            }
        };
        let on_replaced = on_replaced.unwrap_or_else(|| Box::new(|| {}));
        let kept = Kept { path, offer, sockets, shards, predecessor, on_replaced };
        Ok(Prepared { kept, keeper: Keeper::start()? })
    }
}

/// The state that a process gets from the process that it replaces.
pub(crate) struct InheritedGroup {
    pub(crate) shards: Vec<InheritedShard>,
    pub(crate) steering: Option<Steering>,
    /// The layout of the process's connection IDs.
    pub(crate) layout: Layout,
}

/// A process whose shards have started. If it replaces another process, its shards do not receive
/// yet.
pub struct Prepared {
    kept: Kept,
    keeper: Keeper,
}

impl Prepared {
    /// Replaces the running process, if there is one. From here on, this process can be replaced
    /// while the returned value is kept.
    ///
    /// # Errors
    /// Fails with a [`HotRestartError`] as the cause. The running process then continues.
    pub fn take_over(self) -> io::Result<Keeper> {
        let Self { mut kept, mut keeper } = self;
        if let Some(predecessor) = &kept.predecessor {
            take_over(predecessor)?;
            kept.path.own();
            kept.shards.iter().for_each(|shard| shard.listen());
        }
        keeper.begin(kept);
        Ok(keeper)
    }
}

/// Reports that this process is ready, and waits until the other one has stopped receiving.
fn take_over(predecessor: &Conversation) -> Result<(), HotRestartError> {
    let said = predecessor.send(Message::Ready, &[]);
    match said.and_then(|()| predecessor.receive()) {
        Ok((Message::Go, _)) => Ok(()),
        Ok(_) => Err(HotRestartError::Busy),
        Err(error) => Err(silent(&error)),
    }
}

impl fmt::Debug for HotRestart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HotRestart")
            .field("path", &self.path)
            .field("replaces", &self.replaces())
            .finish_non_exhaustive()
    }
}

/// Returns the error for a handover in which the other process stops responding.
fn silent(error: &io::Error) -> HotRestartError {
    match error.kind() {
        ErrorKind::WouldBlock => HotRestartError::Busy,
        ErrorKind::InvalidData => HotRestartError::Foreign,
        _ => HotRestartError::Ended,
    }
}

/// Returns whether the process to replace listens at this address; port 0 means any port.
pub(crate) fn is_same(running: SocketAddr, asked: SocketAddr) -> bool {
    running.ip() == asked.ip() && (asked.port() == 0 || running.port() == asked.port())
}

/// Connects to the process that listens at `path`; `None` if there is none.
fn reach(path: &Path) -> io::Result<Option<Conversation>> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    let conversation = Conversation::new(socket, TIMEOUT)?;
    match connect(&conversation, &address) {
        Ok(()) => Ok(Some(conversation)),
        Err(Errno::NOENT | Errno::CONNREFUSED) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Receives the handover from the running process.
fn listen_to(
    conversation: Conversation,
    role: Role,
    path: &Path,
) -> Result<(Secrets, Predecessor), HotRestartError> {
    let user = conversation
        .user()
        .map_err(|error| HotRestartError::Path { path: path.to_owned(), error })?;
    if user != rustix::process::geteuid().as_raw() {
        return Err(HotRestartError::OtherUser { user });
    }
    conversation.send(Message::HELLO, &[]).map_err(|error| silent(&error))?;
    let next = || conversation.receive().map_err(|error| silent(&error));
    let (offer, listener) = match next()? {
        (Message::Offer(offer), descriptors) if offer.role == role => {
            (offer, descriptors.into_iter().next())
        }
        (Message::Draining, _) => return Err(HotRestartError::Draining),
        _ => return Err(HotRestartError::Foreign),
    };
    let Offer { secrets, count, generation, steering, layout, .. } = offer;
    let listener = listener.ok_or(HotRestartError::Foreign)?;
    let mut shards = Vec::new();
    for _ in 0..count {
        let (Message::Shard, mut descriptors) = next()? else {
            return Err(HotRestartError::Foreign);
        };
        let pipe = descriptors.pop().ok_or(HotRestartError::Foreign)?;
        let sockets: Vec<_> = descriptors.into_iter().map(UdpSocket::from).collect();
        shards.push(InheritedShard { sockets, pipe });
    }
    let predecessor = Predecessor { conversation, listener, generation, steering, layout, shards };
    Ok((secrets, predecessor))
}
