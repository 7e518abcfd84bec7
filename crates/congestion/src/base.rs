//! State shared by Reno and CUBIC: the window and its bounds, slow start, the recovery episode, and
//! metrics for observers.

use clearway_units::Rate;
use clearway_units::packed::Pack;

use crate::episode::Episode;
use crate::hystart::{HyStart, SlowStartVerdict};
use crate::inspect::{Inspect, StateValue, Visit};
use crate::prr::Prr;
use crate::{
    Acknowledgement, ControllerParameters, Metric, Phase, RttSnapshot, SentPacket, Snapshot,
    Suppressor, Suppressors,
};

#[derive(Clone, Debug, Pack)]
pub(crate) struct Base {
    parameters: ControllerParameters,
    /// The congestion window; during recovery, the window at the end of recovery. `prr`, if
    /// present, limits the bytes in flight until then.
    window: u64,
    slow_start_threshold: Option<u64>,
    episode: Episode,
    /// Proportional rate reduction, during a recovery episode that was started by losses.
    prr: Option<Prr>,
    /// HyStart++, which applies to the first slow start only.
    hystart: Option<HyStart>,
    /// Bytes acknowledged in conservative slow start that do not yet add up to a byte of growth
    /// (law 6).
    carry: u64,
    /// Whether the window is still the initial window, and nothing has been learned about the path.
    is_untouched: bool,
    suppressors: Suppressors,
    congestion_events: u64,
    undone_events: u64,
}

/// The state to restore if the losses that caused a cut were spurious.
#[derive(Clone, Copy, Debug, Pack)]
pub(crate) struct BeforeCut {
    window: u64,
    slow_start_threshold: Option<u64>,
    episode: Episode,
    hystart: Option<HyStart>,
}

impl Base {
    pub(crate) fn new(parameters: &ControllerParameters) -> Self {
        let mut base = Self {
            parameters: *parameters,
            window: 0,
            slow_start_threshold: None,
            episode: Episode::default(),
            prr: None,
            hystart: Some(HyStart::new()),
            carry: 0,
            is_untouched: true,
            suppressors: Suppressors::default(),
            congestion_events: 0,
            undone_events: 0,
        };
        base.set_max_datagram_size(parameters.max_datagram_size);
        base
    }

    /// Returns the window that the algorithm works with; during recovery, the window at the end of
    /// recovery.
    pub(crate) fn window(&self) -> u64 {
        self.window
    }

    /// Returns how many bytes may be in flight now.
    ///
    /// In recovery from losses, PRR decides, but the result is at least two datagrams: RFC 9002
    /// §7.2 does not let the window shrink below that, and RFC 9937 does not require it. So a
    /// sender that loses its entire flight can continue immediately.
    pub(crate) fn permitted_window(&self) -> u64 {
        let window = self.prr.map_or(self.window, |prr| prr.window());
        window.clamp(self.minimum_window(), self.maximum_window())
    }

    pub(crate) fn on_sent(&mut self, packet: &SentPacket) {
        if let Some(prr) = &mut self.prr {
            prr.on_sent(packet.bytes);
        }
    }

    pub(crate) fn max_datagram_size(&self) -> u64 {
        self.parameters.max_datagram_size
    }

    /// Returns the minimum window, two datagrams (RFC 9002 §7.2).
    fn minimum_window(&self) -> u64 {
        self.parameters.minimum_window()
    }

    fn maximum_window(&self) -> u64 {
        self.parameters.maximum_window.max(self.minimum_window())
    }

    fn set_window(&mut self, window: u64) {
        self.window = window.clamp(self.minimum_window(), self.maximum_window());
    }

    /// Increases the window by `bytes`, up to its maximum.
    pub(crate) fn increase_window(&mut self, bytes: u64) {
        self.set_window(self.window.saturating_add(bytes));
    }

    pub(crate) fn is_at_maximum(&self) -> bool {
        self.window >= self.maximum_window()
    }

    pub(crate) fn is_in_slow_start(&self) -> bool {
        self.slow_start_threshold.is_none_or(|threshold| self.window < threshold)
    }

    pub(crate) fn is_in_recovery(&self) -> bool {
        self.episode.is_open()
    }

    /// Returns whether `event` reports congestion that the last cut did not respond to.
    pub(crate) fn is_new_congestion(&self, event: &Acknowledgement<'_>) -> bool {
        self.episode.is_new_congestion(event)
    }

    /// Returns whether the only reason for a cut is a CE mark in congestion avoidance: the queue
    /// that caused the mark is short, so a smaller reduction empties it (RFC 8511 §3). A loss in
    /// the same event requires the full reduction, and so does slow start, in which the window may
    /// be twice the path's capacity.
    pub(crate) fn is_marked_only(&self, event: &Acknowledgement<'_>) -> bool {
        event.newly_ce_marked > 0 && event.lost.is_empty() && !self.is_in_slow_start()
    }

    /// Returns whether `event` reports persistent congestion that the last collapse did not respond
    /// to.
    pub(crate) fn is_new_persistent_congestion(&self, event: &Acknowledgement<'_>) -> bool {
        self.episode.is_new_persistent_congestion(event)
    }

    pub(crate) fn before_cut(&self) -> BeforeCut {
        BeforeCut {
            window: self.window,
            slow_start_threshold: self.slow_start_threshold,
            episode: self.episode,
            hystart: self.hystart,
        }
    }

    /// Cuts the window to `window`, which becomes the slow start threshold. After losses, PRR
    /// applies the cut gradually.
    ///
    /// After a CE mark alone the cut applies immediately (RFC 9002 §7.3.2 allows either). Nothing
    /// has to be retransmitted, and packets sent before the reduction is complete would reach the
    /// queue that caused the mark, would be marked as well, and would cause a second cut one round
    /// trip after the first.
    pub(crate) fn cut(&mut self, window: u64, event: &Acknowledgement<'_>) {
        self.set_window(window);
        self.slow_start_threshold = Some(self.window);
        self.episode.begin(event.next_index);
        let is_gradual = !event.lost.is_empty();
        self.prr =
            is_gradual.then(|| Prr::begin(event, self.window, self.parameters.max_datagram_size));
        self.note_cut(event);
    }

    /// Responds to persistent congestion (RFC 9002 §7.6.2): sets the minimum window, from which
    /// slow start begins again, without a recovery period. `reduced` is the window that a cut would
    /// leave: it becomes the threshold, unless the cut for these losses has already been made (rows
    /// 21 and 23).
    pub(crate) fn collapse(&mut self, reduced: u64, event: &Acknowledgement<'_>) {
        let threshold = match self.slow_start_threshold {
            Some(threshold) if !self.episode.is_new_congestion(event) => threshold,
            _ => reduced,
        };
        self.slow_start_threshold = Some(threshold.max(self.minimum_window()));
        self.set_window(0);
        self.episode.collapse(event.next_index);
        self.prr = None;
        self.note_cut(event);
    }

    fn note_cut(&mut self, event: &Acknowledgement<'_>) {
        self.hystart = None;
        self.carry = 0;
        self.is_untouched = false;
        self.congestion_events = self.congestion_events.saturating_add(1);
        // The suppression begins with this episode, even if it was already active in the previous
        // one.
        self.suppressors.set(Suppressor::Recovery, false, event.round);
        self.note_suppressors(event);
    }

    /// Undoes a cut whose losses were spurious, unless the window has since outgrown its earlier
    /// value (RFC 9438 §4.9.2, S14). Returns whether the cut was undone.
    pub(crate) fn undo(&mut self, before: &BeforeCut) -> bool {
        if self.window >= before.window {
            return false;
        }
        self.set_window(before.window);
        self.slow_start_threshold = before.slow_start_threshold;
        self.hystart = before.hystart;
        self.episode = before.episode;
        self.episode.close();
        self.prr = None;
        self.suppressors.set(Suppressor::Recovery, false, 0);
        self.undone_events = self.undone_events.saturating_add(1);
        true
    }

    /// Ends recovery if it is over, and grows the window in slow start. Returns the acknowledged
    /// bytes that remain for congestion avoidance.
    pub(crate) fn grow(&mut self, event: &Acknowledgement<'_>) -> u64 {
        self.is_untouched = false;
        self.episode.on_acked(event);
        self.reduce(event);
        let growing = if event.was_limited { self.episode.growing_bytes(event) } else { 0 };
        if self.is_in_slow_start() { self.slow_start(event, growing) } else { growing }
    }

    /// Continues the proportional rate reduction while the recovery episode is open; after that,
    /// only the window limits sending.
    fn reduce(&mut self, event: &Acknowledgement<'_>) {
        let (window, datagram) = (self.window, self.max_datagram_size());
        match &mut self.prr {
            Some(prr) if self.episode.is_open() => prr.on_acknowledgement(event, window, datagram),
            prr => *prr = None,
        }
    }

    fn slow_start(&mut self, event: &Acknowledgement<'_>, growing: u64) -> u64 {
        let verdict = match &mut self.hystart {
            Some(hystart) => hystart.on_acknowledgement(event),
            None => SlowStartVerdict::Grow(1),
        };
        let SlowStartVerdict::Grow(divisor) = verdict else {
            self.slow_start_threshold = Some(self.window);
            self.hystart = None;
            return growing;
        };
        // Carried bytes are worth only a fraction of a byte of growth, so they no longer count once
        // the divisor is 1 again.
        let carry = if divisor == 1 { 0 } else { self.carry };
        let credit = carry.saturating_add(growing);
        let increase = credit / divisor;
        self.carry = credit % divisor;
        // Growth past the threshold belongs to congestion avoidance (row 30).
        let room = self.slow_start_threshold.map_or(u64::MAX, |t| t.saturating_sub(self.window));
        self.increase_window(increase.min(room));
        increase.saturating_sub(room)
    }

    /// Records what restricts window growth after `event` (law 5).
    pub(crate) fn note_suppressors(&mut self, event: &Acknowledgement<'_>) {
        for (suppressor, holds) in [
            (Suppressor::Recovery, self.is_in_recovery()),
            (Suppressor::NotLimited, !event.was_limited),
            (Suppressor::ConservativeSlowStart, self.is_conservative()),
            (Suppressor::MaximumWindow, self.is_at_maximum()),
        ] {
            self.suppressors.set(suppressor, holds, event.round);
        }
    }

    fn is_conservative(&self) -> bool {
        self.is_in_slow_start() && self.hystart.is_some_and(|hystart| hystart.is_conservative())
    }

    /// Changes the datagram size. The window keeps its size, within its new bounds; the initial
    /// window is recomputed (RFC 9002 §7.2).
    pub(crate) fn set_max_datagram_size(&mut self, max_datagram_size: u64) {
        self.parameters.max_datagram_size = max_datagram_size.max(1);
        let initial = self.parameters.initial_window();
        self.set_window(if self.is_untouched { initial } else { self.window });
        if self.prr.is_some() {
            // In recovery the threshold is the window at the end of recovery.
            self.slow_start_threshold = Some(self.window);
        }
        // RFC 9002 §7.2: the minimum is two datagrams of the new size.
        let least = self.parameters.minimum_window();
        self.slow_start_threshold = self.slow_start_threshold.map(|bytes| bytes.max(least));
    }

    /// Returns the pacing rate. RFC 9002 §7.7: somewhat more than the window per round trip, so
    /// that the window, not the pacer, is the limit; twice the window in slow start, where it
    /// doubles in that time. In recovery, the rate is based on the window at the end of recovery:
    /// PRR itself is clocked by acknowledgments.
    pub(crate) fn pacing_rate(&self, rtt: Option<&RttSnapshot>) -> Option<Rate> {
        let smoothed = rtt?.smoothed;
        let (numerator, denominator) = if self.is_in_slow_start() { (2, 1) } else { (5, 4) };
        let bytes = self.window.saturating_mul(numerator) / denominator;
        Some(Rate::from_transfer(bytes, smoothed)?.max(Rate::from_bytes_per_second(1)))
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let phase = if self.is_in_recovery() {
            Phase::Recovery
        } else if !self.is_in_slow_start() {
            Phase::CongestionAvoidance
        } else if self.is_conservative() {
            Phase::ConservativeSlowStart
        } else {
            Phase::SlowStart
        };
        Snapshot {
            window: self.permitted_window(),
            slow_start_threshold: self.slow_start_threshold,
            minimum_window: self.minimum_window(),
            phase,
            suppressors: self.suppressors,
            congestion_events: self.congestion_events,
            undone_events: self.undone_events,
        }
    }

    /// Reports the variables that govern slow start and recovery, while these phases last.
    pub(crate) fn metrics(&self, tell: &mut dyn FnMut(Metric)) {
        if let Some(hystart) = self.hystart.as_ref().filter(|_| self.is_in_slow_start()) {
            hystart.metrics(tell);
        }
        if let Some(prr) = &self.prr {
            prr.metrics(tell);
        }
    }
}

/// Returns `value` × `numerator` / `denominator`, rounded down.
pub(crate) fn scale(value: u64, numerator: u64, denominator: u64) -> u64 {
    let product = u128::from(value).saturating_mul(u128::from(numerator));
    u64::try_from(product / u128::from(denominator)).unwrap_or(u64::MAX)
}

impl Inspect for Base {
    fn inspect(&self, visit: &mut Visit<'_>) {
        let Self {
            parameters: _,
            window,
            slow_start_threshold,
            episode,
            prr,
            hystart,
            carry,
            is_untouched,
            suppressors: _,
            congestion_events: _,
            undone_events: _,
        } = self;
        visit("window", StateValue::Bytes(*window));
        let threshold = StateValue::optional(*slow_start_threshold, StateValue::Bytes);
        visit("slow_start_threshold", threshold);
        episode.inspect(visit);
        visit("has_prr", StateValue::Flag(prr.is_some()));
        if let Some(prr) = prr {
            prr.inspect(visit);
        }
        visit("has_hystart", StateValue::Flag(hystart.is_some()));
        if let Some(hystart) = hystart {
            hystart.inspect(visit);
        }
        visit("carry", StateValue::Bytes(*carry));
        visit("is_untouched", StateValue::Flag(*is_untouched));
    }
}

#[cfg(test)]
#[path = "base_tests.rs"]
mod tests;
