//! The other shards of a group, and the datagrams that one gives to another.
//!
//! The kernel chooses the socket of a datagram. It may be the wrong one: where it goes by the 4-tuple and a client's address
//! changed, and where it merged datagrams, of which it looks at the first. So the connection ID of every datagram is looked
//! at here, and one that another shard issued is handed over. Nothing is shared but the queues of those. During a hot restart
//! one that the process before issued is forwarded to that.

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

/// How many datagrams wait for a shard at most; further ones are dropped, as a full socket's buffer drops them.
pub(crate) const MAX_WAITING: usize = 1024;
/// How many bytes they have at most: anyone can send datagrams of 64 KiB.
const MAX_WAITING_BYTES: usize = 4 << 20;

/// A datagram that came to the socket of another shard.
pub(crate) struct HandedOver {
    pub(super) meta: Meta,
    /// Which of its listening sockets the shard would have received it from.
    pub(super) socket: SocketIndex,
    pub(super) datagram: Box<[u8]>,
}

/// All shards of one port.
pub(crate) struct Group {
    format: IdFormat,
    /// That of this process.
    generation: Generation,
    members: Box<[Member]>,
}

/// How the others reach a shard.
struct Member {
    /// A queue without locks; std's bounded channel is one while its receiver does not wait in it, which no shard does. It
    /// ends with the shard.
    queue: SyncSender<HandedOver>,
    /// How many bytes wait in it.
    bytes: AtomicUsize,
    /// The shard takes nothing more.
    has_ended: AtomicBool,
    mailbox: Arc<Mailbox>,
    /// Leads to the shard with the same number in the process that this one has replaced.
    predecessor: Option<Arc<Pipe>>,
}

/// What became of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Passed {
    /// It stays here: it is of this shard, or of none that runs.
    No,
    /// The shard has it that issued its connection ID.
    On,
    /// Too many wait for that shard: it is lost.
    Dropped,
    /// The other process of a hot restart has it.
    Forwarded,
    /// Too many wait for the other process: it is lost.
    ForwardDropped,
}

impl From<Sent> for Passed {
    fn from(sent: Sent) -> Self {
        match sent {
            Sent::Done => Self::Forwarded,
            Sent::Full => Self::ForwardDropped,
            // As for a shard that has ended.
            Sent::Ended => Self::No,
        }
    }
}

/// What a group of shards begins with.
pub(crate) struct GroupStart<'a> {
    pub(crate) format: IdFormat,
    pub(crate) generation: Generation,
    pub(crate) mailboxes: &'a [Arc<Mailbox>],
    /// Those to the shards of the process before, if there is one.
    pub(crate) predecessors: &'a [Arc<Pipe>],
}

/// A shard's place in its group.
pub(crate) struct Siblings {
    group: Arc<Group>,
    own: usize,
    queue: Receiver<HandedOver>,
    /// Taken from the queue already.
    next: Option<HandedOver>,
}

impl Siblings {
    /// The places of all shards, each of which has one of the mailboxes.
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

    /// Gives a datagram to the shard whose connection ID it has, if that is another one or one of the process before. `socket`
    /// is the listening socket that it came to.
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
        // The connections of a shard that has ended are not known here either, so a stateless reset is the answer.
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

    /// The next datagram that another shard has given to this one.
    pub(super) fn take(&mut self) -> Option<HandedOver> {
        let taken = self.next.take().or_else(|| self.queue.try_recv().ok())?;
        if let Some(member) = self.group.members.get(self.own) {
            member.bytes.fetch_sub(taken.datagram.len(), Ordering::Relaxed);
        }
        Some(taken)
    }

    /// Whether there is such a datagram.
    pub(super) fn has_waiting(&mut self) -> bool {
        if self.next.is_none() {
            self.next = self.queue.try_recv().ok();
        }
        self.next.is_some()
    }

    /// This shard ends: gives its listening sockets to another one that runs. So the kernel, which numbers the sockets of
    /// a port, numbers none of them anew, and whoever is sent to these gets an answer.
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

impl Drop for Siblings {
    fn drop(&mut self) {
        // What waits is lost, and stays counted.
        if let Some(member) = self.group.members.get(self.own) {
            member.has_ended.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
#[path = "siblings_tests.rs"]
mod tests;
