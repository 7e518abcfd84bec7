use core::time::Duration;

use clearway_congestion::{Controller, RateSample, RttSnapshot, Snapshot};
use clearway_units::Rate;
use clearway_units::packed::Pack;

use super::{PacketCounts, Recovery};
use crate::ecn::EcnState;
use crate::observer::LossThresholds;

/// The state of loss recovery and congestion control, for observers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RecoveryStats {
    /// Bytes in flight on the current path.
    pub bytes_in_flight: u64,
    /// The congestion window in bytes.
    pub window: u64,
    /// The round-trip time; `None` until there is a sample.
    pub rtt: Option<RttSnapshot>,
    /// Packets and bytes by outcome.
    pub counts: PacketCounts,
    /// The total number of probe timeout (PTO) expirations.
    pub pto_total: u64,
    /// The number of consecutive PTO expirations (the PTO count).
    pub pto_in_a_row: u32,
    /// The congestion controller's state.
    pub congestion: Snapshot,
    /// The rate at which packets are released; `None` until a rate is known.
    pub pacing_rate: Option<Rate>,
    /// The last delivery rate sample.
    pub delivery_rate: Option<RateSample>,
    /// The number of times that persistent congestion was declared on the current path.
    pub persistent_congestion_total: u64,
    /// The number of the current packet-timed round.
    pub round: u64,
    /// The PTO without backoff and without the peer's `max_ack_delay`.
    pub pto: Duration,
    /// The current loss detection thresholds.
    pub loss_thresholds: LossThresholds,
    /// Whether packets are marked with ECN on the current path.
    pub ecn_state: EcnState,
    /// The number of ECN-CE marks passed to congestion control.
    pub ce_marks: u64,
}

/// Loss recovery counts, for sums over many connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pack)]
pub(crate) struct RecoveryTotals {
    pub(crate) packets_sent: u64,
    pub(crate) packets_lost: u64,
    pub(crate) packets_spuriously_lost: u64,
    pub(crate) probe_timeouts: u64,
}

impl Recovery {
    /// Returns the bytes in flight on the current path.
    pub(crate) fn bytes_in_flight(&self) -> u64 {
        self.ledger.bytes_in_flight()
    }

    /// Returns the round-trip time; `None` until there is a sample.
    pub(crate) fn rtt(&self) -> Option<RttSnapshot> {
        self.path.rtt.snapshot(false)
    }

    /// Returns the last delivery rate sample.
    pub(crate) fn delivery_rate(&self) -> Option<RateSample> {
        self.path.last_rate_sample
    }

    /// Returns the current packet threshold.
    pub(crate) fn packet_threshold(&self) -> u64 {
        self.path.reordering.packet_threshold()
    }

    /// Returns the controller of the current path.
    pub(crate) fn controller(&self) -> &dyn Controller {
        &*self.path.controller
    }

    /// Returns the counts so far.
    pub(crate) fn totals(&self) -> RecoveryTotals {
        let PacketCounts { packets_sent, packets_lost, packets_spuriously_lost, .. } =
            self.ledger.counts();
        let probe_timeouts = self.timer.total();
        RecoveryTotals { packets_sent, packets_lost, packets_spuriously_lost, probe_timeouts }
    }

    /// Returns the current state, for observers.
    pub(crate) fn stats(&self) -> RecoveryStats {
        let path = &self.path;
        let rtt = self.rtt();
        RecoveryStats {
            bytes_in_flight: self.ledger.bytes_in_flight(),
            window: path.controller.window(),
            rtt,
            counts: self.ledger.counts(),
            pto_total: self.timer.total(),
            pto_in_a_row: self.timer.count(),
            congestion: path.controller.snapshot(),
            pacing_rate: path.controller.pacing_rate(rtt.as_ref()),
            delivery_rate: self.delivery_rate(),
            persistent_congestion_total: path.persistent.total(),
            round: path.rounds.current(),
            pto: path.rtt.pto_base(Duration::ZERO),
            loss_thresholds: self.loss_thresholds(),
            ecn_state: self.ecn.state(),
            ce_marks: self.ecn.total_marks(),
        }
    }
}
