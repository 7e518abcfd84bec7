//! For how long congestion control has held data back.

use core::time::Duration;

use clearway_units::Timestamp;

/// Adds up the time in which the window or the pacer held data back.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::checker) struct HeldTime {
    /// Since when data waits, without a break.
    since: Option<Timestamp>,
    /// Time before that, since this was last asked.
    before: Duration,
    asked_at: Timestamp,
}

/// The reasons for which data was held back between two events that are reported to a controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::checker) struct Held {
    /// For how long data waited for the window or the pacer.
    pub(in crate::checker) time: Duration,
    /// It waited all the time.
    pub(in crate::checker) was_throughout: bool,
}

impl HeldTime {
    /// Sending stopped. `is_held`: data waits for the window or the pacer.
    pub(in crate::checker) fn on_stopped(&mut self, now: Timestamp, is_held: bool) {
        if is_held {
            self.since.get_or_insert(now);
        } else if let Some(since) = self.since.take() {
            self.before += now.saturating_since(since);
        }
    }

    /// What was held back since this was last asked.
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
