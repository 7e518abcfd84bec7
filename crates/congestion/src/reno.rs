use clearway_units::Rate;
use clearway_units::packed::{Pack, Packer};

use crate::base::{Base, BeforeCut, scale};
use crate::inspect::{Inspect, StateValue, Visit};
use crate::{
    Acknowledgement, CongestionResponse, Controller, ControllerParameters, Metric, RttSnapshot,
    SentPacket, Snapshot, SpuriousLoss, UnpackController,
};

/// beta_ecn for Reno (RFC 8511 §3.1).
const ECN_NUMERATOR: u64 = 4;
const ECN_DENOMINATOR: u64 = 5;

/// NewReno (RFC 9002 §7), with Alternative Backoff with ECN (RFC 8511), HyStart++ (RFC 9406) in the
/// first slow start and PRR (RFC 9937) in recovery.
#[derive(Clone, Debug, Pack)]
pub struct Reno {
    base: Base,
    /// Accumulated growth of less than a byte, in bytes times the window (law 6).
    carry: u64,
    before_cut: Option<Box<BeforeCut>>,
}

impl Reno {
    /// Creates a controller in slow start with the initial window.
    pub fn new(parameters: &ControllerParameters) -> Self {
        Self { base: Base::new(parameters), carry: 0, before_cut: None }
    }

    /// Returns half the window (RFC 9002 §7.3.2: kLossReductionFactor).
    fn reduced(&self) -> u64 {
        self.base.window() / 2
    }

    /// Returns the window after a cut for `event`: after a CE mark 0.8 of the window (RFC 8511
    /// §3.1), which RFC 9002 §8.3 allows instead of half.
    fn cut_window(&self, event: &Acknowledgement<'_>) -> u64 {
        match self.base.is_marked_only(event) {
            true => scale(self.base.window(), ECN_NUMERATOR, ECN_DENOMINATOR),
            false => self.reduced(),
        }
    }

    /// Grows by one datagram per window of acknowledged bytes, byte by byte (RFC 9002 §7.3.3,
    /// appendix B.5): if growth waited for an entire window, one small packet could add a full
    /// datagram (S6).
    fn avoid_congestion(&mut self, acked: u64) {
        let credit = acked.saturating_mul(self.base.max_datagram_size()).saturating_add(self.carry);
        let window = self.base.window();
        self.carry = credit % window;
        self.base.increase_window(credit / window);
    }
}

impl Controller for Reno {
    fn name(&self) -> &'static str {
        "reno"
    }

    fn on_sent(&mut self, packet: &SentPacket, _bytes_in_flight: u64) {
        self.base.on_sent(packet);
    }

    fn on_acknowledgement(&mut self, event: &Acknowledgement<'_>) -> CongestionResponse {
        if event.newly_ce_marked > 0 {
            // The network itself signaled congestion: the cut cannot be undone.
            self.before_cut = None;
        }
        if self.base.is_new_persistent_congestion(event) {
            self.carry = 0;
            self.before_cut = None;
            self.base.collapse(self.reduced(), event);
            CongestionResponse::Reduced
        } else if self.base.is_new_congestion(event) {
            self.carry = 0;
            self.before_cut =
                (event.newly_ce_marked == 0).then(|| Box::new(self.base.before_cut()));
            self.base.cut(self.cut_window(event), event);
            CongestionResponse::Reduced
        } else {
            let acked = self.base.grow(event);
            self.avoid_congestion(acked);
            self.base.note_suppressors(event);
            CongestionResponse::None
        }
    }

    fn on_spurious_loss(&mut self, event: &SpuriousLoss) {
        if event.still_lost == 0
            && let Some(before) = self.before_cut.take()
        {
            self.base.undo(&before);
        }
    }

    fn on_max_datagram_size(&mut self, max_datagram_size: u64) {
        self.base.set_max_datagram_size(max_datagram_size);
    }

    fn window(&self) -> u64 {
        self.base.permitted_window()
    }

    fn pacing_rate(&self, rtt: Option<&RttSnapshot>) -> Option<Rate> {
        self.base.pacing_rate(rtt)
    }

    fn snapshot(&self) -> Snapshot {
        self.base.snapshot()
    }

    fn metrics(&self, tell: &mut dyn FnMut(Metric)) {
        self.base.metrics(tell);
    }

    fn pack(&self, into: &mut Packer) -> Option<UnpackController> {
        Pack::pack(self, into);
        Some(|from| Box::new(Self::unpack(from)))
    }
}

impl Inspect for Reno {
    fn inspect(&self, visit: &mut Visit<'_>) {
        let Self { base, carry, before_cut: _ } = self;
        base.inspect(visit);
        visit("carry", StateValue::Bytes(*carry));
    }
}

#[cfg(test)]
#[path = "reno_tests.rs"]
mod tests;
