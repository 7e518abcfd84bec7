use std::collections::VecDeque;

use clearway_wire::Direction;

use super::StreamEvent;

/// Events that the application has not taken yet. Each kind is held at most once for each stream, and
/// those of no single stream at most once: the queue grows with the streams that are open, and with
/// those that the application itself brought to their end.
#[derive(Debug, Default)]
pub(super) struct Events {
    queue: VecDeque<StreamEvent>,
    opened: PerDirection<bool>,
    available: PerDirection<bool>,
}

impl Events {
    /// Adds an event of one stream. That it is not held already is the caller's part.
    pub(super) fn push(&mut self, event: StreamEvent) {
        self.queue.push_back(event);
    }

    /// The peer opened a stream.
    pub(super) fn push_opened(&mut self, direction: Direction) {
        if !core::mem::replace(self.opened.get_mut(direction), true) {
            self.queue.push_back(StreamEvent::Opened(direction));
        }
    }

    /// The peer permits a stream that was refused before.
    pub(super) fn push_available(&mut self, direction: Direction) {
        if !core::mem::replace(self.available.get_mut(direction), true) {
            self.queue.push_back(StreamEvent::StreamsAvailable(direction));
        }
    }

    /// Takes the oldest event.
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
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PerDirection<T> {
    bidirectional: T,
    unidirectional: T,
}

impl<T> PerDirection<T> {
    /// These two.
    pub(super) const fn new(bidirectional: T, unidirectional: T) -> Self {
        Self { bidirectional, unidirectional }
    }

    /// The one of `direction`.
    pub(super) const fn get(&self, direction: Direction) -> &T {
        match direction {
            Direction::Bidirectional => &self.bidirectional,
            Direction::Unidirectional => &self.unidirectional,
        }
    }

    /// The one of `direction`.
    pub(super) const fn get_mut(&mut self, direction: Direction) -> &mut T {
        match direction {
            Direction::Bidirectional => &mut self.bidirectional,
            Direction::Unidirectional => &mut self.unidirectional,
        }
    }
}
