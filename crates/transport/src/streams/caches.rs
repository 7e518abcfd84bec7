//! Consistency checks of state that covers all streams.

use std::collections::BTreeMap;

use clearway_wire::Direction;

use super::Streams;
use super::table::{Queued, Stream};

impl Streams {
    /// Checks that every sum, count and queue agrees with the streams.
    ///
    /// # Panics
    /// If a value does not agree, which is a bug in this crate.
    pub(crate) fn check_caches(&self) {
        self.table.check_caches();
        let mut kept = BTreeMap::new();
        let (mut unsent, mut unread) = (0_u64, 0_u64);
        for stream in self.table.all() {
            if let Some(send) = stream.send.as_deref() {
                send.check_caches();
                let level: &mut u64 = kept.entry(stream.priority).or_default();
                *level = level.saturating_add(send.buffered());
                unsent = unsent.saturating_add(send.unsent());
            }
            if let Some(receive) = stream.receive.as_deref() {
                receive.check_caches();
                let window = receive.window();
                unread = unread.saturating_add(window.received().saturating_sub(window.consumed()));
            }
        }
        self.queues.kept.check_caches(&kept);
        assert_eq!(self.unsent, unsent, "bytes that were never sent");
        let window = self.flow.receive_window();
        let held = window.received().saturating_sub(window.consumed());
        assert_eq!(held, unread, "bytes that count against the connection's window");
        assert!(self.flow.send.used() <= self.flow.send.limit(), "the connection's limit");
        self.check_queues();
        self.check_counts();
    }

    /// Checks that each queue contains exactly the streams whose state requires it.
    fn check_queues(&self) {
        let with = |is_in: fn(&Queued) -> bool| {
            let keys = self.table.keys();
            keys.filter_map(|key| self.table.get(key).map(|stream| (key, stream)))
                .filter(move |(_, stream)| is_in(&stream.queued))
        };
        let queues = &*self.queues;
        queues.creditless.check_caches(with(|it| it.creditless).map(|(key, it)| it.waiting(key)));
        queues.fresh.check_caches(with(|it| it.fresh).map(|(key, it)| it.waiting(key)));
        queues.writers.check_caches(with(|it| it.writers).map(|(key, it)| (it.priority, key)));
        for (queue, is_in) in [
            (&queues.control, (|it| it.control) as fn(&Queued) -> bool),
            (&queues.credit, |it| it.credit),
        ] {
            let mut queued: Vec<usize> = queue.iter().copied().collect();
            queued.sort_unstable();
            let mut wanted: Vec<usize> = with(is_in).map(|(key, _)| key).collect();
            wanted.sort_unstable();
            assert_eq!(queued, wanted, "a queue of streams");
        }
        let ids = |is_in: fn(&Queued) -> bool| with(is_in).map(|(_, it)| it.id).collect::<Vec<_>>();
        queues.events.check_caches(&ids(|it| it.readable), &ids(|it| it.writable));
    }

    fn check_counts(&self) {
        let count = |counts: fn(&Stream) -> bool| self.table.all().filter(|it| counts(it)).count();
        assert_eq!(self.blocked, count(|it| it.queued.blocked), "streams that are blocked");
        assert_eq!(self.awaited, count(Stream::awaits_peer), "streams that await the peer");
        for stream in self.table.all() {
            let may_send = !self.is_local(stream.id)
                || self.local.get(stream.id.direction()).permits(stream.id.index());
            assert_eq!(stream.queues(may_send), stream.queued, "the queues of {:?}", stream.id);
            assert!(!stream.is_done(), "{:?} has ended", stream.id);
        }
        for direction in [Direction::Bidirectional, Direction::Unidirectional] {
            let is_remote = |it: &&Stream| !self.is_local(it.id) && it.id.direction() == direction;
            let open = self.table.all().filter(is_remote).count() as u64;
            assert_eq!(self.remote.get(direction).open(), open, "streams of the peer");
        }
    }
}
