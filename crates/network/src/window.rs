use core::time::Duration;

use clearway_units::Timestamp;

use crate::Way;

/// The period in which a rule applies, from its start (inclusive) to its end (exclusive); a
/// `length` of `None` has no end.
///
/// The time at which a datagram enters the link determines whether the rule applies to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Window {
    /// The rule always applies.
    #[default]
    Always,
    /// The window opens some time after the first datagram that enters the link in either
    /// direction.
    FromFirstDatagram {
        /// The time between the first datagram and the opening of the window.
        after: Duration,
        /// The time for which the window stays open.
        length: Option<Duration>,
    },
    /// The window opens once enough payload has passed, right after the datagram that completes the
    /// amount: that datagram is outside the window, and the next one is inside, even at the same
    /// time.
    AfterBytes {
        /// The direction in which bytes are counted, which may differ from the rule's direction.
        way: Way,
        /// The number of payload bytes that must pass first. Datagrams dropped on entry do not
        /// count; duplicates count once.
        bytes: u64,
        /// The time for which the window stays open.
        length: Option<Duration>,
    },
    /// The window is open between two points in time.
    Absolute {
        /// The start of the window.
        from: Timestamp,
        /// The end of the window.
        until: Timestamp,
    },
}

/// A window, and the time at which it opened, if that depends on the traffic.
#[derive(Debug)]
pub(crate) struct WindowState {
    window: Window,
    opened: Option<Timestamp>,
}

impl WindowState {
    pub(crate) fn new(window: Window) -> Self {
        Self { window, opened: None }
    }

    /// Processes payload that has passed: `total` bytes so far in the direction `way`.
    pub(crate) fn on_passed(&mut self, now: Timestamp, way: Way, total: u64) {
        if let Window::AfterBytes { way: counted, bytes, .. } = self.window
            && self.opened.is_none()
            && counted == way
            && total >= bytes
        {
            self.opened = Some(now);
        }
    }

    /// Returns whether the window is open at `now`; `first` is when the first datagram entered the
    /// link.
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
mod tests {
    use super::*;
    use crate::testing::{at_ms, ms};

    const NANOSECOND: Duration = Duration::from_nanos(1);

    /// Asserts that `window` is open from `from` on and, if there is an `until`, closed from then
    /// on.
    fn assert_open(state: &WindowState, from: Timestamp, until: Option<Timestamp>) {
        let first = at_ms(10);
        assert!(!state.is_open(from.checked_sub(NANOSECOND).unwrap(), first), "too early");
        assert!(state.is_open(from, first), "not at the start");
        match until {
            Some(until) => {
                assert!(state.is_open(until.checked_sub(NANOSECOND).unwrap(), first), "ends early");
                assert!(!state.is_open(until, first), "ends late");
            }
            None => assert!(state.is_open(Timestamp::from_nanos(u64::MAX - 1), first)),
        }
    }

    #[test]
    fn always_is_always() {
        let state = WindowState::new(Window::Always);
        assert!(state.is_open(Timestamp::ORIGIN, Timestamp::ORIGIN));
        assert!(state.is_open(Timestamp::FAR_FUTURE, Timestamp::ORIGIN));
    }

    #[test]
    fn from_the_first_datagram() {
        let window = Window::FromFirstDatagram { after: ms(5), length: Some(ms(20)) };
        assert_open(&WindowState::new(window), at_ms(15), Some(at_ms(35)));
        let window = Window::FromFirstDatagram { after: ms(5), length: None };
        assert_open(&WindowState::new(window), at_ms(15), None);
    }

    #[test]
    fn absolute() {
        let window = Window::Absolute { from: at_ms(3), until: at_ms(4) };
        assert_open(&WindowState::new(window), at_ms(3), Some(at_ms(4)));
    }

    #[test]
    fn after_bytes_of_the_named_way() {
        let window = Window::AfterBytes { way: Way::ToClient, bytes: 1000, length: Some(ms(20)) };
        let mut state = WindowState::new(window);
        state.on_passed(at_ms(11), Way::ToServer, 5000);
        state.on_passed(at_ms(12), Way::ToClient, 999);
        assert!(!state.is_open(at_ms(13), at_ms(10)));
        state.on_passed(at_ms(14), Way::ToClient, 1000);
        // Bytes that pass later do not move the window.
        state.on_passed(at_ms(15), Way::ToClient, 2000);
        assert_open(&state, at_ms(14), Some(at_ms(34)));
    }
}
