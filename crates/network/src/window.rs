use core::time::Duration;

use clearway_units::Timestamp;

use crate::Way;

/// When a rule holds. From its start, included, to its end, excluded; a `length` of `None` has no end.
///
/// What counts is the time at which a datagram enters the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Window {
    /// All the time.
    #[default]
    Always,
    /// From some time after the first datagram that enters the link, in either direction.
    FromFirstDatagram {
        /// The time between that datagram and the start.
        after: Duration,
        /// How long the window stays open.
        length: Option<Duration>,
    },
    /// From the moment in which enough payload has passed. It opens right behind the datagram that
    /// completes the amount: that one is not in it, the next one is, even at the same time.
    AfterBytes {
        /// The direction in which bytes are counted. It need not be the one that the rule is for.
        way: Way,
        /// How many bytes of payload pass first. What is dropped on entry does not count; duplicates
        /// count once.
        bytes: u64,
        /// How long the window stays open.
        length: Option<Duration>,
    },
    /// Between two points in time.
    Absolute {
        /// The start.
        from: Timestamp,
        /// The end.
        until: Timestamp,
    },
}

/// A window, and since when it has been open where that depends on the traffic.
#[derive(Debug)]
pub(crate) struct WindowState {
    window: Window,
    opened: Option<Timestamp>,
}

impl WindowState {
    pub(crate) fn new(window: Window) -> Self {
        Self { window, opened: None }
    }

    /// Payload has passed: `total` bytes so far in the direction `way`.
    pub(crate) fn on_passed(&mut self, now: Timestamp, way: Way, total: u64) {
        if let Window::AfterBytes { way: counted, bytes, .. } = self.window
            && self.opened.is_none()
            && counted == way
            && total >= bytes
        {
            self.opened = Some(now);
        }
    }

    /// Whether the window is open at `now`; `first` is when the first datagram entered the link.
    pub(crate) fn is_open(&self, now: Timestamp, first: Timestamp) -> bool {
        let (start, length) = match self.window {
            Window::Always => return true,
            Window::Absolute { from, until } => return from <= now && now < until,
            Window::FromFirstDatagram { after, length } => (first + after, length),
            Window::AfterBytes { length, .. } => match self.opened {
                Some(opened) => (opened, length),
                None => return false,
            },
        };
        start <= now && length.is_none_or(|length| now < start + length)
    }
}

#[cfg(test)]
mod tests;
