//! The packed form of loss recovery, kept while a connection is idle.

use core::time::Duration;
use std::sync::Arc;

use clearway_congestion::{Controller, ControllerFactory, UnpackController};
use clearway_units::Timestamp;
use clearway_units::packed::{Pack, Packer, Unpacker};

use super::stats::RecoveryTotals;
use super::{PathState, PtoContext, Recovery};
use crate::SpaceId;
use crate::packable::{Packable, Packing};
use clearway_units::memory::OnDemand;

/// Packed recovery state.
#[derive(Debug)]
pub(crate) struct PackedRecovery {
    bytes: Box<[u8]>,
    factory: Arc<dyn ControllerFactory>,
    controller: UnpackController,
    /// The probe timeout without the peer's `max_ack_delay`, on which the timers of an idle
    /// connection are based.
    probe_wait: Duration,
}

impl Packing for Recovery {
    type Packed = PackedRecovery;

    fn pack(&mut self, room: &mut Box<[u8]>) -> Option<PackedRecovery> {
        if !self.is_settled() {
            return None;
        }
        let totals = self.totals();
        let Self {
            config,
            factory,
            random,
            ledger,
            path,
            ecn,
            timer,
            loss_times,
            next_skip,
            acks_in_a_row,
            last_sent_at,
            sent_elsewhere_at,
            max_datagram_size,
            max_ack_delay,
            event,
            batch: _,
        } = self;
        let mut packer = Packer::new();
        let into = &mut packer;
        totals.pack(into);
        let controller = path.pack(into)?;
        config.pack(into);
        random.pack(into);
        ledger.pack(into);
        ecn.pack(into);
        timer.pack(into);
        loss_times.pack(into);
        next_skip.pack(into);
        acks_in_a_row.pack(into);
        last_sent_at.pack(into);
        sent_elsewhere_at.pack(into);
        max_datagram_size.pack(into);
        max_ack_delay.pack(into);
        event.pack(into);
        Some(PackedRecovery {
            bytes: packer.finish_in(core::mem::take(room)),
            factory: factory.clone(),
            controller,
            probe_wait: self.pto(Duration::ZERO),
        })
    }

    fn take_room(packed: &mut PackedRecovery) -> Box<[u8]> {
        core::mem::take(&mut packed.bytes)
    }

    fn unpack(packed: &PackedRecovery) -> Self {
        let from = &mut Unpacker::new(&packed.bytes);
        let _: RecoveryTotals = Pack::unpack(from);
        let path = PathState::unpack(from, packed.controller);
        Self {
            path,
            config: Pack::unpack(from),
            factory: packed.factory.clone(),
            random: Pack::unpack(from),
            ledger: Pack::unpack(from),
            ecn: Pack::unpack(from),
            timer: Pack::unpack(from),
            loss_times: Pack::unpack(from),
            next_skip: Pack::unpack(from),
            acks_in_a_row: Pack::unpack(from),
            last_sent_at: Pack::unpack(from),
            sent_elsewhere_at: Pack::unpack(from),
            max_datagram_size: Pack::unpack(from),
            max_ack_delay: Pack::unpack(from),
            event: Pack::unpack(from),
            batch: OnDemand::default(),
        }
    }
}

impl Recovery {
    /// Returns whether no timer is set, no results are pending, and the ledger can be compacted.
    fn is_settled(&self) -> bool {
        !self.batch.is_used()
            && self.pacer_deadline().is_none()
            && self.loss_times.iter().all(|(_, time)| time.is_none())
            && SpaceId::ALL.into_iter().all(|space| {
                self.is_nothing_outstanding(space) && self.ledger.space(space).has_only_acks()
            })
    }
}

impl PathState {
    /// Packs the state. Returns `None`, before anything is written, if the controller cannot be
    /// packed.
    fn pack(&self, into: &mut Packer) -> Option<UnpackController> {
        let Self {
            controller,
            pacer,
            sampler,
            rtt,
            reordering,
            rounds,
            limitation,
            persistent,
            black_hole,
            is_black_hole,
            largest_acknowledged,
            last_rate_sample,
            episode_began,
            still_lost,
        } = self;
        let unpack = controller.pack(into)?;
        pacer.pack(into);
        sampler.pack(into);
        rtt.pack(into);
        reordering.pack(into);
        rounds.pack(into);
        limitation.pack(into);
        persistent.pack(into);
        black_hole.pack(into);
        is_black_hole.pack(into);
        largest_acknowledged.pack(into);
        last_rate_sample.pack(into);
        episode_began.pack(into);
        still_lost.pack(into);
        Some(unpack)
    }

    fn unpack(from: &mut Unpacker<'_>, controller: UnpackController) -> Self {
        let controller: Box<dyn Controller> = controller(from);
        Self {
            controller,
            pacer: Pack::unpack(from),
            sampler: Pack::unpack(from),
            rtt: Pack::unpack(from),
            reordering: Pack::unpack(from),
            rounds: Pack::unpack(from),
            limitation: Pack::unpack(from),
            persistent: Pack::unpack(from),
            black_hole: Pack::unpack(from),
            is_black_hole: Pack::unpack(from),
            largest_acknowledged: Pack::unpack(from),
            last_rate_sample: Pack::unpack(from),
            episode_began: Pack::unpack(from),
            still_lost: Pack::unpack(from),
        }
    }
}

/// Queries for timers and for sums over all connections, answered without unpacking. Packed state
/// has no timers set.
impl Packable<Recovery> {
    /// See [`Recovery::totals`]. The totals are packed first.
    pub(crate) fn totals(&self) -> RecoveryTotals {
        match self {
            Self::Unpacked(_) => self.get().totals(),
            Self::Packed(packed) => Pack::unpack(&mut Unpacker::new(&packed.bytes)),
        }
    }

    /// See [`Recovery::pto`].
    pub(crate) fn pto(&self, max_ack_delay: Duration) -> Duration {
        match self {
            Self::Unpacked(_) => self.get().pto(max_ack_delay),
            Self::Packed(packed) => packed.probe_wait.saturating_add(max_ack_delay),
        }
    }

    /// See [`Recovery::is_nothing_outstanding`].
    pub(crate) fn is_nothing_outstanding(&self, space: SpaceId) -> bool {
        self.unpacked().is_none_or(|recovery| recovery.is_nothing_outstanding(space))
    }

    /// See [`Recovery::probe_deadline`].
    pub(crate) fn probe_deadline(&self, context: &PtoContext) -> Option<Timestamp> {
        self.unpacked()?.probe_deadline(context)
    }

    /// See [`Recovery::loss_deadline`].
    pub(crate) fn loss_deadline(&self, context: &PtoContext) -> Option<Timestamp> {
        self.unpacked()?.loss_deadline(context)
    }

    /// See [`Recovery::pacer_deadline`].
    pub(crate) fn pacer_deadline(&self) -> Option<Timestamp> {
        self.unpacked()?.pacer_deadline()
    }
}
