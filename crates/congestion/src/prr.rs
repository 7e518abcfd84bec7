//! Proportional Rate Reduction (RFC 9937): limits sending while the losses that caused a window
//! reduction are repaired.
//!
//! A reduction that applied immediately would silence the sender until half of the flight has been
//! acknowledged, and would allow a burst if an entire flight was lost. PRR spreads the reduction
//! over the following round trip: the amount sent is a fixed proportion of the amount delivered,
//! and when the episode is over, about the slow start threshold is in flight.
//!
//! The episode corresponds to QUIC's recovery period, if losses started it. A CE mark alone reduces
//! the window immediately: see `Base::cut`. The episode ends with the first acknowledgment of a
//! packet sent in it (RFC 9002 §7.3.2), after one round trip. Persistent congestion and an undo
//! also end the episode, and discard its state.

use crate::inspect::{Inspect, StateValue, Visit};
use crate::{Acknowledgement, Metric, Quantity};
use clearway_units::packed::Pack;

/// One recovery episode. All numbers are in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pack)]
pub(crate) struct Prr {
    /// RecoverFS: the bytes in flight when the episode began, including those that its first event
    /// acknowledged and declared lost. Never zero.
    recover_fs: u64,
    /// prr_delivered: the bytes acknowledged in the episode. A packet that arrives although it was
    /// declared lost is not counted, which errs on the side of sending less.
    prr_delivered: u64,
    /// prr_out: the bytes sent in the episode.
    prr_out: u64,
    /// cwnd: the bytes in flight after the last event, plus SndCnt.
    window: u64,
}

impl Prr {
    /// Begins an episode in which `event` required a window reduction to `threshold` (§6.1).
    pub(crate) fn begin(event: &Acknowledgement<'_>, threshold: u64, datagram: u64) -> Self {
        let recover_fs = event.prior_in_flight.max(1);
        let mut prr = Self { recover_fs, prr_delivered: 0, prr_out: 0, window: 0 };
        prr.on_acknowledgement(event, threshold, datagram);
        prr
    }

    /// Returns the number of bytes that may be in flight. The caller applies the minimum window of
    /// RFC 9002 §7.2.
    pub(crate) const fn window(&self) -> u64 {
        self.window
    }

    /// Reports the variables of §6.1.
    pub(crate) fn metrics(&self, tell: &mut dyn FnMut(Metric)) {
        for (name, bytes) in [
            ("recover_fs", self.recover_fs),
            ("prr_delivered", self.prr_delivered),
            ("prr_out", self.prr_out),
        ] {
            tell(Metric { name, quantity: Quantity::Bytes(bytes) });
        }
    }

    /// Records that an in-flight packet of `bytes` bytes was sent (§6.3), including probes.
    pub(crate) fn on_sent(&mut self, bytes: u64) {
        self.prr_out = self.prr_out.saturating_add(bytes);
    }

    /// Processes an acknowledgment or a loss timeout during the episode (§6.2).
    ///
    /// The RFC leaves everything unchanged if nothing was delivered. Here, however, the window is
    /// derived from SndCnt: lost bytes have left the flight, and an unchanged window would allow
    /// sending the same number immediately. So SndCnt is recomputed in this case too; credit earned
    /// earlier and not yet used still counts.
    pub(crate) fn on_acknowledgement(
        &mut self,
        event: &Acknowledgement<'_>,
        threshold: u64,
        datagram: u64,
    ) {
        let delivered = event.acked.iter().fold(0_u64, |sum, p| sum.saturating_add(p.bytes));
        self.prr_delivered = self.prr_delivered.saturating_add(delivered);
        let in_flight = event.bytes_in_flight;
        let send_count = match threshold.checked_sub(in_flight) {
            None => self.proportion(threshold),
            Some(room) => self.reduction_bound(delivered, is_safe(event), datagram).min(room),
        };
        // The retransmission that starts the repair is always sent. The RFC requires it if SndCnt
        // is zero; a SndCnt of less than a datagram would not allow it either.
        let send_count = if self.prr_out == 0 { send_count.max(datagram) } else { send_count };
        self.window = in_flight.saturating_add(send_count);
    }

    /// Returns the bytes that may still be sent so that the ratio of bytes sent to bytes delivered
    /// equals that of the threshold to RecoverFS.
    fn proportion(&self, threshold: u64) -> u64 {
        let product = u128::from(self.prr_delivered).saturating_mul(u128::from(threshold));
        let out = product.div_ceil(u128::from(self.recover_fs));
        u64::try_from(out).unwrap_or(u64::MAX).saturating_sub(self.prr_out)
    }

    /// Returns the allowance for bytes in flight below the threshold after heavy loss: the
    /// delivered bytes (PRR-CRB), plus one datagram if that is safe (PRR-SSRB).
    fn reduction_bound(&self, delivered: u64, is_safe: bool, datagram: u64) -> u64 {
        let count = self.prr_delivered.saturating_sub(self.prr_out).max(delivered);
        if is_safe { count.saturating_add(datagram) } else { count }
    }
}

/// SafeACK (§6.2): the repair makes progress, and nothing indicates that the path is still
/// overloaded.
///
/// The RFC requires SND.UNA to advance. QUIC has no equivalent: lost data is not awaited under its
/// old packet number, and the packet that repairs it ends the episode. The closest equivalent is an
/// acknowledgment of a packet later than any acknowledged before. This lets a sender grow back to
/// the threshold one datagram at a time where RFC 9002 §7.3.2 allows an immediate return.
fn is_safe(event: &Acknowledgement<'_>) -> bool {
    let leads_on = event.acked.last().is_some_and(|p| Some(p.index) == event.largest_acked);
    leads_on && event.lost.is_empty() && event.newly_ce_marked == 0
}

impl Inspect for Prr {
    fn inspect(&self, visit: &mut Visit<'_>) {
        let Self { recover_fs, prr_delivered, prr_out, window } = *self;
        visit("recover_fs", StateValue::Bytes(recover_fs));
        visit("prr_delivered", StateValue::Bytes(prr_delivered));
        visit("prr_out", StateValue::Bytes(prr_out));
        visit("prr_window", StateValue::Bytes(window));
    }
}

#[cfg(test)]
#[path = "prr_tests.rs"]
mod tests;
