use std::collections::BTreeMap;

use clearway_wire::StreamId;
use slab::Slab;

use super::receive_half::ReceiveHalf;
use super::scheduler::Waiting;
use super::send_half::SendHalf;

/// One stream: its parts, and where the connection's queues know it from.
#[derive(Debug)]
pub(super) struct Stream {
    /// Its ID.
    pub(super) id: StreamId,
    /// The sending part; a stream that only the peer sends on has none.
    pub(super) send: Option<SendHalf>,
    /// The receiving part; a stream that only this end sends on has none.
    pub(super) receive: Option<ReceiveHalf>,
    /// Higher goes first.
    pub(super) priority: i32,
    /// Whether it shares turns with others of its priority.
    pub(super) is_incremental: bool,
    /// Whether the application knows of it.
    pub(super) is_accepted: bool,
    /// The last write was cut short, and the application is to be told when there is room.
    pub(super) awaits_room: bool,
    /// Which queues hold it.
    pub(super) queued: Queued,
}

/// Which of the connection's queues hold a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Queued {
    /// Streams that owe control frames.
    pub(super) control: bool,
    /// Streams that can send without credit.
    pub(super) creditless: bool,
    /// Streams with data that was never sent, within their own limit.
    pub(super) fresh: bool,
    /// Streams that their own limit blocks; only counted.
    pub(super) blocked: bool,
    /// Streams on which the application waits for the peer; only counted.
    pub(super) awaited: bool,
    /// Streams whose application waits for room.
    pub(super) writers: bool,
    /// An event says that it can be read.
    pub(super) readable: bool,
    /// An event says that it can be written.
    pub(super) writable: bool,
}

impl Stream {
    /// A stream with these parts.
    pub(super) fn new(
        id: StreamId,
        send: Option<SendHalf>,
        receive: Option<ReceiveHalf>,
        is_accepted: bool,
    ) -> Self {
        Self {
            id,
            send,
            receive,
            priority: 0,
            is_incremental: true,
            is_accepted,
            awaits_room: false,
            queued: Queued::default(),
        }
    }

    /// Whether both parts have come to their end.
    pub(super) fn is_done(&self) -> bool {
        self.send.as_ref().is_none_or(|send| send.state().is_terminal())
            && self.receive.as_ref().is_none_or(ReceiveHalf::is_done)
    }

    /// Whether a control frame is to be sent for it.
    pub(super) fn owes_control(&self) -> bool {
        let send = |send: &SendHalf| send.reset_owed().is_some() || send.owes_blocked_report();
        let receive = |part: &ReceiveHalf| part.stop_owed().is_some() || part.owes_limit();
        self.send.as_ref().is_some_and(send) || self.receive.as_ref().is_some_and(receive)
    }

    /// Whether the application waits for data that the peer owes: something came that was sent later, or
    /// the end is known, or this end has asked and said that it has no more to say. On other streams
    /// nobody knows whether the peer has anything to send.
    pub(super) fn awaits_peer(&self) -> bool {
        let has_asked = self.send.as_ref().is_some_and(SendHalf::has_sent_end);
        self.receive
            .as_ref()
            .is_some_and(|receive| receive.is_waited_for() && (has_asked || receive.misses_data()))
    }

    /// How it waits in a scheduler.
    pub(super) fn waiting(&self, key: usize) -> Waiting {
        let (id, priority, is_incremental) = (self.id, self.priority, self.is_incremental);
        Waiting { key, id, priority, is_incremental }
    }
}

/// The streams that are open. A stream's key stays the same as long as it is here.
#[derive(Debug, Default)]
pub(super) struct Table {
    streams: Slab<Stream>,
    keys: BTreeMap<StreamId, usize>,
    /// What was looked up last: frames of one stream come in runs.
    last: Option<(StreamId, usize)>,
}

impl Table {
    /// The key of the stream with `id`, if it is open.
    pub(super) fn key(&mut self, id: StreamId) -> Option<usize> {
        match self.last {
            Some((last, key)) if last == id => Some(key),
            _ => {
                let key = *self.keys.get(&id)?;
                self.last = Some((id, key));
                Some(key)
            }
        }
    }

    /// The stream with `key`.
    pub(super) fn get(&self, key: usize) -> Option<&Stream> {
        self.streams.get(key)
    }

    /// The stream with `key`.
    pub(super) fn get_mut(&mut self, key: usize) -> Option<&mut Stream> {
        self.streams.get_mut(key)
    }

    /// The stream with `id`.
    pub(super) fn find_mut(&mut self, id: StreamId) -> Option<(usize, &mut Stream)> {
        let key = self.key(id)?;
        Some((key, self.streams.get_mut(key)?))
    }

    /// The keys of all streams, by ID.
    pub(super) fn keys(&self) -> impl Iterator<Item = usize> {
        self.keys.values().copied()
    }

    /// How many streams are open.
    pub(super) fn len(&self) -> usize {
        self.streams.len()
    }

    /// Adds a stream whose ID is not in use.
    pub(super) fn insert(&mut self, stream: Stream) -> usize {
        let id = stream.id;
        let key = self.streams.insert(stream);
        self.keys.insert(id, key);
        key
    }

    /// Takes a stream out.
    pub(super) fn remove(&mut self, key: usize) -> Option<Stream> {
        let stream = self.streams.try_remove(key)?;
        self.keys.remove(&stream.id);
        self.last = self.last.filter(|(_, last)| *last != key);
        Some(stream)
    }
}
