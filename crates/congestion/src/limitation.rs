//! The reason why sending stopped, and how long congestion control delayed data (law 4).

use core::time::Duration;

use crate::inspect::{Inspect, StateValue, Visit};
use clearway_units::packed::Pack;
use clearway_units::{ReleaseTime, Timestamp};

/// The reason why sending stopped, recorded at the end of every attempt to send (law 4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendLimit {
    /// There was nothing to send.
    Application,
    /// The congestion window was full while data was waiting.
    Window,
    /// The pacer delays waiting data until this time.
    Pacer(ReleaseTime),
    /// The anti-amplification limit: three times the bytes received from an unvalidated peer have
    /// been sent (RFC 9000 §8.1).
    Amplification,
    /// The peer's flow control does not allow the waiting data yet.
    FlowControl,
    /// There are no keys yet for the waiting data.
    Keys,
    /// This host currently cannot send on the path.
    Path,
    /// The caller's batch was full; the caller continues immediately.
    Batch,
}

impl SendLimit {
    /// Returns whether congestion control stopped the sender.
    pub const fn is_congestion_control(self) -> bool {
        matches!(self, Self::Window | Self::Pacer(_))
    }
}

/// How long, and in which rounds, congestion control delayed waiting data.
///
/// This is the only place that decides whether the sender was limited: controllers receive the
/// result and never have to infer it (law 4).
#[derive(Clone, Debug, Default, Pack)]
pub struct Limitation {
    /// Start of the current uninterrupted period in which data has waited for the window or the
    /// pacer.
    held_since: Option<Timestamp>,
    /// Delay before `held_since` that has not yet been reported to a controller.
    held: Duration,
    /// The last round in which data was delayed.
    limited_round: Option<u64>,
    /// Whether the data waits for the window, not for the pacer.
    held_by_window: bool,
    /// The last round in which the window delayed data.
    window_limited_round: Option<u64>,
    /// When the pacer releases the waiting data.
    pub pacer_deadline: Option<Timestamp>,
    /// Whether the last attempt stopped for lack of data although the window and the pacer allowed
    /// more.
    pub is_application_limited: bool,
    /// When the pacer allows more, if the last attempt stopped for lack of data before that time.
    application_limited_from: Option<Timestamp>,
}

/// Whether, and for how long, congestion control delayed data before an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    /// Whether the window or the pacer delayed data in this round or the previous one.
    pub was_limited: bool,
    /// Whether the window delayed data in this round or the previous one.
    pub was_window_limited: bool,
    /// How long the window or the pacer has delayed data since the previous event.
    pub limited_time: Duration,
}

impl Limitation {
    /// Records that sending stopped in `round` because of `limit`. `permitted` is whether the
    /// window and the pacer would have allowed another full datagram.
    pub fn on_stopped(&mut self, now: Timestamp, limit: SendLimit, round: u64, permitted: bool) {
        self.pacer_deadline = match limit {
            SendLimit::Pacer(release) => Some(release.deadline()),
            _ => None,
        };
        if limit.is_congestion_control() {
            let since = *self.held_since.get_or_insert(now);
            if now > since {
                // Data that was delayed until now was delayed in this round.
                self.note_round(round);
            }
            self.held_by_window = limit == SendLimit::Window;
            self.note_round(round);
        } else if let Some(since) = self.held_since.take() {
            if now > since {
                self.note_round(round);
            }
            self.held = self.held.saturating_add(now.saturating_since(since));
        }
        self.application_limited_from = None;
        self.is_application_limited =
            permitted && !limit.is_congestion_control() && limit != SendLimit::Batch;
    }

    /// Records that there was nothing to send although the window allowed more, and that the pacer
    /// allows another datagram only from `release` on. From then on, the sender is
    /// application-limited, although it makes no attempt to send.
    pub fn on_waiting_for_data(&mut self, release: ReleaseTime) {
        self.application_limited_from = Some(release.deadline());
    }

    /// Returns whether the packet sent at `now` could have been sent earlier if there had been
    /// data, which makes its delivery rate the application's.
    pub fn take_application_limited(&mut self, now: Timestamp) -> bool {
        let from = self.application_limited_from.take();
        core::mem::take(&mut self.is_application_limited) || from.is_some_and(|from| from < now)
    }

    /// Records that data is delayed in `round`.
    fn note_round(&mut self, round: u64) {
        self.limited_round = Some(round);
        if self.held_by_window {
            self.window_limited_round = Some(round);
        }
    }

    /// Returns whether data is delayed now, or was in `round` or the previous one, and for how long
    /// since the last call. `previous_round` is the round that lasted until `now`.
    pub fn take(&mut self, now: Timestamp, previous_round: u64, round: u64) -> Held {
        let mut limited_time = core::mem::take(&mut self.held);
        if let Some(since) = &mut self.held_since {
            limited_time = limited_time.saturating_add(now.saturating_since(*since));
            *since = now.max(*since);
            self.note_round(previous_round);
        }
        let is_recent = |limited: u64| limited.saturating_add(1) >= round;
        Held {
            was_limited: self.limited_round.is_some_and(is_recent),
            was_window_limited: self.window_limited_round.is_some_and(is_recent),
            limited_time,
        }
    }
}

impl Inspect for Limitation {
    fn inspect(&self, visit: &mut Visit<'_>) {
        let Self {
            held_since,
            held,
            limited_round,
            held_by_window,
            window_limited_round,
            pacer_deadline,
            is_application_limited,
            application_limited_from,
        } = *self;
        visit("held_since", StateValue::optional(held_since, StateValue::Time));
        visit("held", StateValue::Duration(held));
        visit("limited_round", StateValue::optional(limited_round, StateValue::Round));
        visit("held_by_window", StateValue::Flag(held_by_window));
        let round = StateValue::optional(window_limited_round, StateValue::Round);
        visit("window_limited_round", round);
        visit("pacer_deadline", StateValue::optional(pacer_deadline, StateValue::Time));
        visit("is_application_limited", StateValue::Flag(is_application_limited));
        let from = StateValue::optional(application_limited_from, StateValue::Time);
        visit("application_limited_from", from);
    }
}

#[cfg(test)]
#[path = "limitation_tests.rs"]
mod tests;
