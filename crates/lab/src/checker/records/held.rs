//! Tracks how long congestion control has limited sending.

use core::time::Duration;

use clearway_units::Timestamp;

/// The total time for which the window or the pacer limited sending.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::checker) struct HeldTime {
    /// When data began to wait, if it is waiting now.
    since: Option<Timestamp>,
    /// The total duration of earlier waits since the last call of [`take`](Self::take).
    before: Duration,
    asked_at: Timestamp,
}

/// Whether, and for how long, sending was limited between two events reported to a controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::checker) struct Held {
    /// The time for which data waited for the window or the pacer.
    pub(in crate::checker) time: Duration,
    /// Whether data waited for the entire time.
    pub(in crate::checker) was_throughout: bool,
}

impl HeldTime {
    /// Records that sending stopped. With `is_held`, data is waiting for the window or the pacer.
    pub(in crate::checker) fn on_stopped(&mut self, now: Timestamp, is_held: bool) {
        if is_held {
            self.since.get_or_insert(now);
        } else if let Some(since) = self.since.take() {
            self.before += now.saturating_since(since);
        }
    }

    /// Returns how long sending was limited since the last call.
    pub(in crate::checker) fn take(&mut self, now: Timestamp) -> Held {
        let mut time = core::mem::take(&mut self.before);
        if let Some(since) = &mut self.since {
            time += now.saturating_since(*since);
            *since = now;
        }
        let asked_at = core::mem::replace(&mut self.asked_at, now);
        let was_throughout = self.since.is_some() && time == now.saturating_since(asked_at);
        Held { time, was_throughout }
    }
}
