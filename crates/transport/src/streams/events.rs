use std::collections::VecDeque;

use clearway_units::packed::Pack;
use clearway_wire::Direction;
#[cfg(any(test, debug_assertions))]
use clearway_wire::StreamId;

use super::StreamEvent;

/// Events that the application has not received yet. There is at most one of each kind per stream,
/// and at most one of each kind that does not belong to a stream. The queue is therefore bounded by
/// the number of open streams and of streams that the application itself has ended.
#[derive(Debug, Default)]
pub(super) struct Events {
    queue: VecDeque<StreamEvent>,
    opened: PerDirection<bool>,
    available: PerDirection<bool>,
}

impl Events {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Frees unused capacity.
    pub(super) fn compact(&mut self) {
        self.queue.shrink_to_fit();
    }

    /// Adds an event of one stream. The caller ensures that the event is not already in the queue.
    pub(super) fn push(&mut self, event: StreamEvent) {
        self.queue.push_back(event);
    }

    /// Adds the event that the peer opened a stream.
    pub(super) fn push_opened(&mut self, direction: Direction) {
        if !core::mem::replace(self.opened.get_mut(direction), true) {
            self.queue.push_back(StreamEvent::Opened(direction));
        }
    }

    /// Adds the event that the peer allows another stream, after the application was unable to open
    /// one.
    pub(super) fn push_available(&mut self, direction: Direction) {
        if !core::mem::replace(self.available.get_mut(direction), true) {
            self.queue.push_back(StreamEvent::StreamsAvailable(direction));
        }
    }

    /// Checks that the queue contains each event once, and exactly those that match the state of
    /// the streams and directions.
    ///
    /// # Panics
    /// If a check fails, which is a bug in this crate.
    #[cfg(any(test, debug_assertions))]
    pub(super) fn check_caches(&self, readable: &[StreamId], writable: &[StreamId]) {
        let count = |event| self.queue.iter().filter(|queued| **queued == event).count();
        for direction in [Direction::Bidirectional, Direction::Unidirectional] {
            let opened = usize::from(*self.opened.get(direction));
            assert_eq!(count(StreamEvent::Opened(direction)), opened, "{direction:?}");
            let available = usize::from(*self.available.get(direction));
            assert_eq!(count(StreamEvent::StreamsAvailable(direction)), available);
        }
        for id in readable {
            assert_eq!(count(StreamEvent::Readable(*id)), 1, "{id:?}");
        }
        for id in writable {
            assert_eq!(count(StreamEvent::Writable(*id)), 1, "{id:?}");
        }
    }

    /// Removes and returns the oldest event.
    pub(super) fn pop(&mut self) -> Option<StreamEvent> {
        let event = self.queue.pop_front()?;
        match event {
            StreamEvent::Opened(direction) => *self.opened.get_mut(direction) = false,
            StreamEvent::StreamsAvailable(direction) => *self.available.get_mut(direction) = false,
            _ => {}
        }
        Some(event)
    }
}

/// One `T` for each direction of streams.
#[derive(Clone, Copy, Debug, Default, Pack)]
pub(super) struct PerDirection<T> {
    pub(super) bidirectional: T,
    pub(super) unidirectional: T,
}

impl<T> PerDirection<T> {
    /// Creates a pair of values.
    pub(super) const fn new(bidirectional: T, unidirectional: T) -> Self {
        Self { bidirectional, unidirectional }
    }

    /// Returns the value of `direction`.
    pub(super) const fn get(&self, direction: Direction) -> &T {
        match direction {
            Direction::Bidirectional => &self.bidirectional,
            Direction::Unidirectional => &self.unidirectional,
        }
    }

    /// Returns the value of `direction`.
    pub(super) const fn get_mut(&mut self, direction: Direction) -> &mut T {
        match direction {
            Direction::Bidirectional => &mut self.bidirectional,
            Direction::Unidirectional => &mut self.unidirectional,
        }
    }
}
