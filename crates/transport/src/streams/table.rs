use std::collections::BTreeMap;

use clearway_units::packed::{Pack, Packer, Unpacker};
use clearway_wire::{Direction, StreamId, VarInt};
use slab::Slab;

use super::receiving_part::ReceivingPart;
use super::scheduler::WaitingStream;
use super::sending_part::{SendNeeds, SendingPart};
use clearway_units::memory::release_empty_map;

/// A stream: its parts, and the queues that it is in. Most streams that stay open for a long time
/// have one part.
#[derive(Debug)]
pub(super) struct Stream {
    /// The stream ID.
    pub(super) id: StreamId,
    /// The sending part; `None` for a stream on which only the peer sends.
    pub(super) send: Option<Box<SendingPart>>,
    /// The receiving part; `None` for a stream on which only this endpoint sends.
    pub(super) receive: Option<Box<ReceivingPart>>,
    /// The priority: higher values are sent first.
    pub(super) priority: i32,
    /// Whether the stream takes turns with other streams of its priority.
    pub(super) is_incremental: bool,
    /// Whether the application has opened or accepted the stream.
    pub(super) is_accepted: bool,
    /// Whether one of the stream's frames was received in a 0-RTT packet.
    pub(super) is_early: bool,
    /// Whether the last write was incomplete, in which case `Writable` has to follow.
    pub(super) awaits_room: bool,
    /// The queues that the stream is in.
    pub(super) queued: Queued,
}

/// The queues of the connection that a stream is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Queued {
    /// Streams with control frames to send.
    pub(super) control: bool,
    /// Streams that can send without flow control credit.
    pub(super) creditless: bool,
    /// Streams with new data within their own limit.
    pub(super) fresh: bool,
    /// Streams that are blocked by their own limit; only counted.
    pub(super) blocked: bool,
    /// Streams on which the application is waiting for the peer; only counted.
    pub(super) awaited: bool,
    /// Streams whose application waits for room to write.
    pub(super) writers: bool,
    /// Streams whose application waits for flow control credit.
    pub(super) credit: bool,
    /// Whether a `Readable` event is in the event queue.
    pub(super) readable: bool,
    /// Whether a `Writable` event is in the event queue.
    pub(super) writable: bool,
}

impl Stream {
    /// Creates a stream with these parts.
    pub(super) fn new(
        id: StreamId,
        send: Option<Box<SendingPart>>,
        receive: Option<Box<ReceivingPart>>,
        is_accepted: bool,
    ) -> Self {
        Self {
            id,
            send,
            receive,
            priority: 0,
            is_incremental: true,
            is_accepted,
            is_early: false,
            awaits_room: false,
            queued: Queued::default(),
        }
    }

    /// Creates a stream that only occupies a key until the key becomes vacant.
    fn placeholder() -> Self {
        Self::new(StreamId::from_varint(VarInt::ZERO), None, None, false)
    }

    /// Returns whether the stream has no data, is in no queue, and was neither reset nor stopped.
    fn is_plain(&self) -> bool {
        self.queued == Queued::default()
            && self.send.as_deref().is_none_or(SendingPart::is_plain)
            && self.receive.as_deref().is_none_or(ReceivingPart::is_plain)
    }

    /// Returns whether both parts have ended.
    pub(super) fn is_done(&self) -> bool {
        self.send.as_deref().is_none_or(|send| send.state().is_terminal())
            && self.receive.as_deref().is_none_or(ReceivingPart::is_done)
    }

    /// Returns whether the application is waiting for data from the peer that is known to be due:
    /// later data was received, or the final size is known, or this endpoint has finished its
    /// request. On other streams it is unknown whether the peer has anything to send.
    #[inline]
    pub(super) fn awaits_peer(&self) -> bool {
        let has_asked = self.send.as_deref().is_some_and(SendingPart::has_sent_end);
        self.receive
            .as_deref()
            .is_some_and(|receive| receive.is_waited_for() && (has_asked || receive.misses_data()))
    }

    /// Returns the queues that the stream belongs to; `may_send` states whether it may send data.
    #[inline]
    pub(super) fn queues(&self, may_send: bool) -> Queued {
        let needs = match self.send.as_deref().filter(|_| may_send) {
            Some(send) => send.needs(),
            None => SendNeeds::default(),
        };
        let receives = self.receive.as_deref().is_some_and(ReceivingPart::has_pending_control);
        Queued {
            control: needs.control || may_send && receives,
            creditless: needs.creditless,
            fresh: needs.fresh,
            blocked: needs.blocked,
            awaited: self.awaits_peer(),
            ..self.queued
        }
    }

    /// Returns the stream's entry in a scheduler.
    pub(super) fn waiting(&self, key: usize) -> WaitingStream {
        let (id, priority, is_incremental) = (self.id, self.priority, self.is_incremental);
        WaitingStream { key, id, priority, is_incremental }
    }
}

/// The open streams. A stream keeps its key while it is open.
#[derive(Debug, Default)]
pub(super) struct Table {
    streams: Slab<Stream>,
    keys: BTreeMap<StreamId, usize>,
    /// The last stream that was looked up, cached because consecutive frames often belong to one
    /// stream.
    last: Option<(StreamId, usize)>,
}

/// Packs a stream that [is plain](Stream::is_plain); no other can be packed.
impl Pack for Stream {
    fn pack(&self, into: &mut Packer) {
        self.id.get().pack(into);
        self.send.pack(into);
        self.receive.pack(into);
        self.priority.pack(into);
        self.is_incremental.pack(into);
        self.is_accepted.pack(into);
        self.is_early.pack(into);
        self.awaits_room.pack(into);
    }

    fn unpack(from: &mut Unpacker<'_>) -> Self {
        Self {
            id: StreamId::from_varint(VarInt::saturating(Pack::unpack(from))),
            send: Pack::unpack(from),
            receive: Pack::unpack(from),
            priority: Pack::unpack(from),
            is_incremental: Pack::unpack(from),
            is_accepted: Pack::unpack(from),
            is_early: Pack::unpack(from),
            awaits_room: Pack::unpack(from),
            queued: Queued::default(),
        }
    }
}

/// Packing: streams keep their keys, and new streams get the keys that they would have had without
/// packing.
impl Table {
    /// Returns whether all streams can be packed.
    pub(super) fn is_plain(&self) -> bool {
        self.streams.iter().all(|(_, stream)| stream.is_plain())
    }

    pub(super) fn pack(&mut self, into: &mut Packer) {
        self.last = None;
        let vacant = self.vacant_keys();
        into.number(self.streams.len() as u64);
        for (key, stream) in &self.streams {
            key.pack(into);
            stream.pack(into);
        }
        vacant.pack(into);
    }

    pub(super) fn unpack(from: &mut Unpacker<'_>) -> Self {
        let mut streams: Vec<(usize, Stream)> = Pack::unpack(from);
        let vacant: Vec<usize> = Pack::unpack(from);
        let keys = streams.iter().map(|(key, stream)| (stream.id, *key)).collect();
        streams.extend(vacant.iter().map(|key| (*key, Stream::placeholder())));
        let mut streams: Slab<Stream> = streams.into_iter().collect();
        // The key that becomes vacant last is assigned first.
        for key in vacant.into_iter().rev() {
            streams.try_remove(key);
        }
        Self { streams, keys, last: None }
    }

    /// Returns the keys that the next streams get, in order, before any key greater than all
    /// existing ones.
    fn vacant_keys(&mut self) -> Vec<usize> {
        let mut end = self.streams.iter().next_back().map_or(0, |(key, _)| key.saturating_add(1));
        let mut vacant = Vec::new();
        while self.streams.len() < end || self.streams.vacant_key() != end {
            let key = self.streams.insert(Stream::placeholder());
            end = end.max(key.saturating_add(1));
            vacant.push(key);
        }
        for key in vacant.iter().rev() {
            self.streams.try_remove(*key);
        }
        vacant
    }
}

impl Table {
    /// Frees unused capacity.
    pub(super) fn compact(&mut self) {
        self.streams.shrink_to_fit();
        for (_, stream) in &mut self.streams {
            stream.send.as_deref_mut().map(SendingPart::compact);
            stream.receive.as_deref_mut().map(ReceivingPart::compact);
        }
        release_empty_map(&mut self.keys);
    }

    /// Returns the key of the stream with `id`, if it is open.
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

    /// Returns the stream with `key`.
    pub(super) fn get(&self, key: usize) -> Option<&Stream> {
        self.streams.get(key)
    }

    /// Returns the stream with `key`.
    pub(super) fn get_mut(&mut self, key: usize) -> Option<&mut Stream> {
        self.streams.get_mut(key)
    }

    /// Returns the stream with `id`.
    pub(super) fn find_mut(&mut self, id: StreamId) -> Option<(usize, &mut Stream)> {
        let key = self.key(id)?;
        Some((key, self.streams.get_mut(key)?))
    }

    /// Returns the keys of all streams, in order of stream ID.
    pub(super) fn keys(&self) -> impl Iterator<Item = usize> {
        self.keys.values().copied()
    }

    /// Returns all streams.
    pub(super) fn all(&self) -> impl Iterator<Item = &Stream> {
        self.streams.iter().map(|(_, stream)| stream)
    }

    /// Returns whether a bidirectional stream is open.
    pub(super) fn has_bidirectional(&self) -> bool {
        self.keys.keys().any(|id| id.direction() == Direction::Bidirectional)
    }

    /// Returns the number of open streams.
    pub(super) fn len(&self) -> usize {
        self.streams.len()
    }

    /// Checks that each stream is found by its ID, and that there are no other entries.
    ///
    /// # Panics
    /// If a check fails, which is a bug in this crate.
    #[cfg(any(test, debug_assertions))]
    pub(super) fn check_caches(&self) {
        assert_eq!(self.keys.len(), self.streams.len(), "one key for each stream");
        for (key, stream) in &self.streams {
            assert_eq!(self.keys.get(&stream.id), Some(&key), "{:?}", stream.id);
        }
        let last = self.last.filter(|(id, key)| self.keys.get(id) != Some(key));
        assert_eq!(last, None, "the last stream that was looked up");
    }

    /// Adds a stream whose ID is not in use.
    pub(super) fn insert(&mut self, stream: Stream) -> usize {
        let id = stream.id;
        let key = self.streams.insert(stream);
        self.keys.insert(id, key);
        self.last = Some((id, key));
        key
    }

    /// Removes a stream.
    pub(super) fn remove(&mut self, key: usize) -> Option<Stream> {
        let stream = self.streams.try_remove(key)?;
        self.keys.remove(&stream.id);
        self.last = self.last.filter(|(_, last)| *last != key);
        Some(stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(number: u32) -> Stream {
        Stream::new(StreamId::from_varint(VarInt::from_u32(number)), None, None, true)
    }

    /// Keys order writers of the same priority, so the next streams must get the keys that they
    /// would have had without packing.
    #[test]
    fn a_packed_table_gives_the_same_keys_to_its_streams_and_to_later_ones() {
        for removed in [&[][..], &[5, 0, 3], &[4, 5], &[5, 4], &[0, 1, 2, 3, 4, 5], &[2, 0, 1, 5]] {
            let mut table = Table::default();
            (0..6).for_each(|number| assert_eq!(table.insert(stream(number)), number as usize));
            for key in removed {
                assert!(table.remove(*key).is_some());
            }
            let mut packer = Packer::new();
            table.pack(&mut packer);
            let bytes = packer.finish();
            let mut unpacker = Unpacker::new(&bytes);
            let mut unpacked = Table::unpack(&mut unpacker);
            assert!(unpacker.is_at_end());
            let ids = |table: &Table| table.keys.clone().into_iter().collect::<Vec<_>>();
            assert_eq!(ids(&unpacked), ids(&table), "{removed:?}");
            let next =
                |table: &mut Table| [6, 7, 8, 9, 10, 11, 12].map(|id| table.insert(stream(id)));
            assert_eq!(next(&mut unpacked), next(&mut table), "{removed:?}");
            assert_eq!(format!("{unpacked:#?}"), format!("{table:#?}"));
        }
    }
}
