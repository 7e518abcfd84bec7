//! The other shards of a group, and the exchange of datagrams between them.
//!
//! The kernel selects the socket that receives a datagram. This socket may be the wrong one if the
//! kernel selects it by the 4-tuple and a client's address has changed, or if the kernel has
//! coalesced datagrams, of which it reads only the first. So this module checks the connection ID
//! of every datagram, and hands over those with an ID of another shard. Shards share nothing except
//! these queues. During a hot restart, datagrams with an ID of the previous process are forwarded
//! to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use clearway_transport::SocketIndex;
use clearway_udp::Socket;
use clearway_wire::header::Invariant;

use crate::datagrams::Meta;
use crate::mailbox::{Command, Mailbox};
use crate::shard_ids::{Generation, IdFormat, Issuer};
use crate::system::restart::{Pipe, Sent};

/// Maximum number of datagrams queued for a shard; additional datagrams are dropped, as with a full
/// socket buffer.
pub(crate) const MAX_WAITING: usize = 1024;
/// Maximum total size of the queued datagrams in bytes: anyone can send datagrams of 64 KiB.
const MAX_WAITING_BYTES: usize = 4 << 20;

/// A datagram that arrived at the socket of another shard.
pub(crate) struct HandedOver {
    pub(super) meta: Meta,
    /// The index of the listening socket at which the datagram should have arrived.
    pub(super) socket: SocketIndex,
    pub(super) datagram: Box<[u8]>,
}

/// All shards at one port.
pub(crate) struct Group {
    format: IdFormat,
    /// The generation of this process.
    generation: Generation,
    members: Box<[Member]>,
}

/// The interface through which other shards pass datagrams to a shard.
struct Member {
    /// A lock-free queue: std's bounded channel is lock-free while its receiver does not block,
    /// which no shard does. The queue is disconnected when the shard ends.
    queue: SyncSender<HandedOver>,
    /// Number of bytes in the queue.
    bytes: AtomicUsize,
    /// Whether the shard has ended and accepts no more datagrams.
    has_ended: AtomicBool,
    mailbox: Arc<Mailbox>,
    /// The pipe to the shard with the same number in the process that this one has replaced.
    predecessor: Option<Arc<Pipe>>,
}

/// The outcome of trying to pass on a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Passed {
    /// The datagram was not passed on: it belongs to this shard, or to no running shard.
    No,
    /// The datagram was passed to the shard that issued its connection ID.
    On,
    /// The queue of that shard is full: the datagram is dropped.
    Dropped,
    /// The datagram was passed to the other process of a hot restart.
    Forwarded,
    /// The queue of the other process is full: the datagram is dropped.
    ForwardDropped,
}

impl From<Sent> for Passed {
    fn from(sent: Sent) -> Self {
        match sent {
            Sent::Done => Self::Forwarded,
            Sent::Full => Self::ForwardDropped,
            // Treated like a shard that has ended.
            Sent::Ended => Self::No,
        }
    }
}

/// The initial state of a group of shards.
pub(crate) struct GroupStart<'a> {
    pub(crate) format: IdFormat,
    pub(crate) generation: Generation,
    pub(crate) mailboxes: &'a [Arc<Mailbox>],
    /// The pipes to the shards of the previous process, if there is one.
    pub(crate) predecessors: &'a [Arc<Pipe>],
}

/// A shard's view of its group.
pub(crate) struct PeerShards {
    group: Arc<Group>,
    own: usize,
    queue: Receiver<HandedOver>,
    /// A datagram that was already taken from the queue.
    next: Option<HandedOver>,
}

impl PeerShards {
    /// Returns the views of all shards, one per mailbox.
    pub(crate) fn all(start: GroupStart<'_>) -> Vec<Self> {
        let GroupStart { format, generation, mailboxes, predecessors } = start;
        let (members, queues): (Vec<_>, Vec<_>) = mailboxes
            .iter()
            .enumerate()
            .map(|(shard, mailbox)| {
                let (queue, receiver) = sync_channel(MAX_WAITING);
                let (bytes, has_ended) = (AtomicUsize::new(0), AtomicBool::new(false));
                let mailbox = mailbox.clone();
                let predecessor = predecessors.get(shard).cloned();
                (Member { queue, bytes, has_ended, mailbox, predecessor }, receiver)
            })
            .unzip();
        let group = Arc::new(Group { format, generation, members: members.into() });
        let place = |(own, queue)| Self { group: group.clone(), own, queue, next: None };
        queues.into_iter().enumerate().map(place).collect()
    }

    /// Passes a datagram to the shard that issued its connection ID, if that is another shard or a
    /// shard of the previous process. `socket` is the listening socket at which it arrived.
    pub(super) fn pass_on(&self, socket: SocketIndex, meta: &Meta, datagram: &[u8]) -> Passed {
        let id_len = self.group.format.layout().id_len();
        let Ok(invariant) = Invariant::decode(datagram, id_len) else { return Passed::No };
        let issuer = self.group.format.issuer(invariant.destination_connection_id());
        let Some(Issuer { shard, generation }) = issuer else { return Passed::No };
        let member = self.group.members.get(shard);
        if generation != self.group.generation {
            let pipe = member.and_then(|member| member.predecessor.as_ref());
            return pipe.map_or(Passed::No, |pipe| pipe.send(socket, meta, datagram).into());
        }
        if shard == self.own {
            return Passed::No;
        }
        let member = member.filter(|member| !member.has_ended.load(Ordering::Relaxed));
        // The connections of an ended shard are unknown here too, so the response is a stateless
        // reset.
        let Some(member) = member else { return Passed::No };
        let length = datagram.len();
        if member.bytes.fetch_add(length, Ordering::Relaxed) + length > MAX_WAITING_BYTES {
            member.bytes.fetch_sub(length, Ordering::Relaxed);
            return Passed::Dropped;
        }
        let handed_over = HandedOver { meta: *meta, socket, datagram: datagram.into() };
        let sent = member.queue.try_send(handed_over);
        if sent.is_err() {
            member.bytes.fetch_sub(length, Ordering::Relaxed);
        }
        match sent {
            Ok(()) => {
                member.mailbox.rouse();
                Passed::On
            }
            Err(TrySendError::Full(_)) => Passed::Dropped,
            Err(TrySendError::Disconnected(_)) => Passed::No,
        }
    }

    /// Removes and returns the next datagram that another shard has passed on.
    pub(super) fn take(&mut self) -> Option<HandedOver> {
        let taken = self.next.take().or_else(|| self.queue.try_recv().ok())?;
        if let Some(member) = self.group.members.get(self.own) {
            member.bytes.fetch_sub(taken.datagram.len(), Ordering::Relaxed);
        }
        Some(taken)
    }

    /// Returns whether another shard has passed on a datagram that is still in the queue.
    pub(super) fn has_waiting(&mut self) -> bool {
        if self.next.is_none() {
            self.next = self.queue.try_recv().ok();
        }
        self.next.is_some()
    }

    /// Gives the listening sockets of this shard, which is ending, to another running shard. The
    /// kernel numbers the sockets of a port, and would renumber them if some were closed; datagrams
    /// to these sockets also still get a response.
    pub(super) fn give_away_sockets(&self, sockets: Vec<(SocketIndex, Socket)>) {
        let count = self.group.members.len();
        let mut command = Command::Adopt(sockets);
        for member in self.group.members.iter().cycle().skip(self.own + 1).take(count - 1) {
            match member.mailbox.send(command) {
                Ok(()) => return,
                Err(returned) => command = returned,
            }
        }
    }
}

impl Drop for PeerShards {
    fn drop(&mut self) {
        // The queued datagrams are dropped, and their bytes remain counted.
        if let Some(member) = self.group.members.get(self.own) {
            member.has_ended.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
#[path = "peer_shards_tests.rs"]
mod tests;
