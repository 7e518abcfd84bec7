use clearway_units::Rate;

use crate::base::{Base, Growth};
use crate::episode::Episode;
use crate::{
    Acknowledgement, Controller, ControllerParameters, RttSnapshot, SentPacket, Snapshot,
    SpuriousLoss,
};

/// NewReno as RFC 9002 §7 describes it, with HyStart++ (RFC 9406) in the first slow start.
#[derive(Debug)]
pub struct Reno {
    base: Base,
    /// Acknowledged bytes that have not made the window grow yet (law 6).
    carry: u64,
    before_cut: Option<BeforeCut>,
}

/// What a cut is taken back to if its losses were none.
#[derive(Clone, Copy, Debug)]
struct BeforeCut {
    window: u64,
    slow_start_threshold: Option<u64>,
    episode: Episode,
}

impl Reno {
    /// In slow start at the initial window.
    pub fn new(parameters: &ControllerParameters) -> Self {
        Self { base: Base::new(parameters), carry: 0, before_cut: None }
    }

    /// Half the window (RFC 9002 §7.3.2: kLossReductionFactor).
    fn reduced(&self) -> u64 {
        self.base.window / 2
    }

    fn on_congestion(&mut self, event: &Acknowledgement<'_>) {
        self.carry = 0;
        if event.persistent_congestion {
            self.before_cut = None;
            let threshold = match self.base.episode.is_new_congestion(event) {
                true => self.reduced(),
                // The cut for these losses has been made; the threshold keeps what it said.
                false => self.base.slow_start_threshold.unwrap_or(self.base.window),
            };
            self.base.collapse(threshold, event);
        } else if self.base.episode.is_new_congestion(event) {
            self.before_cut = Some(BeforeCut {
                window: self.base.window,
                slow_start_threshold: self.base.slow_start_threshold,
                episode: self.base.episode,
            });
            self.base.cut(self.reduced(), event);
        }
    }

    /// One datagram for each window of acknowledged bytes, exactly (RFC 9002 §7.3.3).
    fn avoid_congestion(&mut self, acked: u64) {
        self.carry = self.carry.saturating_add(acked);
        while self.carry >= self.base.window {
            self.carry -= self.base.window;
            let before = self.base.window;
            self.base.set_window(before.saturating_add(self.base.max_datagram_size));
            if self.base.window == before {
                self.carry = 0;
            }
        }
    }
}

impl Controller for Reno {
    fn name(&self) -> &'static str {
        "reno"
    }

    fn on_sent(&mut self, _packet: &SentPacket, _bytes_in_flight: u64) {}

    fn on_acknowledgement(&mut self, event: &Acknowledgement<'_>) {
        if event.persistent_congestion || self.base.episode.is_new_congestion(event) {
            self.on_congestion(event);
            return;
        }
        if let Growth::Avoidance(acked) = self.base.grow(event) {
            self.avoid_congestion(acked);
        }
    }

    fn on_spurious_loss(&mut self, event: &SpuriousLoss) {
        if event.still_lost > 0 {
            return;
        }
        if let Some(before) = self.before_cut.take()
            && self.base.window < before.window
        {
            self.base.set_window(before.window);
            self.base.slow_start_threshold = before.slow_start_threshold;
            self.base.episode = before.episode;
            self.base.episode.close();
            self.base.undone_events = self.base.undone_events.saturating_add(1);
        }
    }

    fn on_max_datagram_size(&mut self, max_datagram_size: u64) {
        self.base.set_max_datagram_size(max_datagram_size);
    }

    fn window(&self) -> u64 {
        self.base.window
    }

    fn pacing_rate(&self, rtt: Option<&RttSnapshot>) -> Option<Rate> {
        self.base.pacing_rate(rtt)
    }

    fn snapshot(&self) -> Snapshot {
        self.base.snapshot()
    }
}

#[cfg(test)]
mod tests;
