//! What Reno and CUBIC share: the window and its bounds, slow start, the recovery episode, and what
//! observers are told.

use clearway_units::Rate;

use crate::episode::Episode;
use crate::hystart::{HyStart, Verdict};
use crate::{
    Acknowledgement, ControllerParameters, Phase, RttSnapshot, Snapshot, Suppressor, Suppressors,
};

#[derive(Debug)]
pub(crate) struct Base {
    pub(crate) max_datagram_size: u64,
    pub(crate) window: u64,
    pub(crate) slow_start_threshold: Option<u64>,
    pub(crate) episode: Episode,
    /// Only the first slow start is watched by HyStart++.
    hystart: Option<HyStart>,
    maximum_window: u64,
    suppressors: Suppressors,
    pub(crate) congestion_events: u64,
    pub(crate) undone_events: u64,
}

/// What is left of an acknowledgement for congestion avoidance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Growth {
    /// Slow start took it, or nothing may grow.
    Done,
    /// So many acknowledged bytes make the window grow in congestion avoidance.
    Avoidance(u64),
    /// HyStart++ ended slow start at this event.
    LeftSlowStart,
}

impl Base {
    pub(crate) fn new(parameters: &ControllerParameters) -> Self {
        Self {
            max_datagram_size: parameters.max_datagram_size,
            window: parameters.initial_window(),
            slow_start_threshold: None,
            episode: Episode::default(),
            hystart: Some(HyStart::new()),
            maximum_window: parameters.maximum_window,
            suppressors: Suppressors::default(),
            congestion_events: 0,
            undone_events: 0,
        }
    }

    /// Two datagrams (RFC 9002 §7.2).
    pub(crate) fn minimum_window(&self) -> u64 {
        self.max_datagram_size.saturating_mul(2)
    }

    pub(crate) fn set_window(&mut self, window: u64) {
        let maximum = self.maximum_window.max(self.minimum_window());
        self.window = window.clamp(self.minimum_window(), maximum);
    }

    pub(crate) fn is_in_slow_start(&self) -> bool {
        self.slow_start_threshold.is_none_or(|threshold| self.window < threshold)
    }

    /// A cut to `window`, which is the slow start threshold from here on.
    pub(crate) fn cut(&mut self, window: u64, event: &Acknowledgement<'_>) {
        self.set_window(window);
        self.slow_start_threshold = Some(self.window);
        self.episode.begin(event.next_index);
        self.hystart = None;
        self.congestion_events = self.congestion_events.saturating_add(1);
    }

    /// Persistent congestion (RFC 9002 §7.6.2): the least window, from which slow start begins again
    /// up to `threshold`, and no recovery to wait for.
    pub(crate) fn collapse(&mut self, threshold: u64, event: &Acknowledgement<'_>) {
        let threshold = threshold.max(self.minimum_window());
        self.cut(self.minimum_window(), event);
        self.slow_start_threshold = Some(threshold);
        self.episode.close();
    }

    /// Slow start, and what of the acknowledgement is left for congestion avoidance.
    pub(crate) fn grow(&mut self, event: &Acknowledgement<'_>) -> Growth {
        let was_open = self.episode.is_open();
        self.episode.on_acked(event);
        let growing = self.episode.growing_bytes(event);
        let may_grow = event.was_limited && growing > 0;
        self.note_suppressors(event, was_open);
        if !self.is_in_slow_start() {
            return if may_grow { Growth::Avoidance(growing) } else { Growth::Done };
        }
        let verdict = match &mut self.hystart {
            Some(hystart) => hystart.on_acknowledgement(event),
            None => Verdict::Grow(1),
        };
        let Verdict::Grow(divisor) = verdict else {
            self.slow_start_threshold = Some(self.window);
            self.hystart = None;
            return Growth::LeftSlowStart;
        };
        if !may_grow {
            return Growth::Done;
        }
        // What would carry the window past the threshold belongs to congestion avoidance (row 30).
        let increase = growing.checked_div(divisor).unwrap_or(0);
        let room = self.slow_start_threshold.map_or(u64::MAX, |t| t.saturating_sub(self.window));
        self.set_window(self.window.saturating_add(increase.min(room)));
        match increase.saturating_sub(room) {
            0 => Growth::Done,
            rest => Growth::Avoidance(rest),
        }
    }

    fn note_suppressors(&mut self, event: &Acknowledgement<'_>, was_open: bool) {
        let round = event.round;
        let is_conservative =
            self.is_in_slow_start() && self.hystart.as_ref().is_some_and(HyStart::is_conservative);
        let in_recovery = was_open && self.episode.is_open();
        let at_maximum = self.window >= self.maximum_window;
        for (suppressor, holds) in [
            (Suppressor::Recovery, in_recovery),
            (Suppressor::NotLimited, !event.was_limited),
            (Suppressor::ConservativeSlowStart, is_conservative),
            (Suppressor::MaximumWindow, at_maximum),
        ] {
            self.suppressors.set(suppressor, holds, round);
        }
    }

    pub(crate) fn set_max_datagram_size(&mut self, max_datagram_size: u64) {
        self.max_datagram_size = max_datagram_size;
        self.set_window(self.window);
    }

    /// RFC 9002 §7.7: somewhat more than the window per round trip, so that the window, and not the
    /// pacer, is what limits; twice in slow start, where the window doubles in that time.
    pub(crate) fn pacing_rate(&self, rtt: Option<&RttSnapshot>) -> Option<Rate> {
        let rate = Rate::from_transfer(self.window, rtt?.smoothed)?;
        let (numerator, denominator) = if self.is_in_slow_start() { (2, 1) } else { (5, 4) };
        Some(rate.scaled(numerator, denominator).max(Rate::from_bytes_per_second(1)))
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let phase = if self.episode.is_open() {
            Phase::Recovery
        } else if !self.is_in_slow_start() {
            Phase::CongestionAvoidance
        } else if self.hystart.as_ref().is_some_and(HyStart::is_conservative) {
            Phase::ConservativeSlowStart
        } else {
            Phase::SlowStart
        };
        Snapshot {
            window: self.window,
            slow_start_threshold: self.slow_start_threshold,
            minimum_window: self.minimum_window(),
            phase,
            suppressors: self.suppressors,
            congestion_events: self.congestion_events,
            undone_events: self.undone_events,
        }
    }
}
