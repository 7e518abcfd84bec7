//! The packed form of streams, kept while a connection is idle.

use clearway_units::memory::OnDemand;
use clearway_units::packed::{Pack, Packer, Unpacker};

use super::{FlowControlBlock, StreamEvent, Streams};
use crate::packable::{Packable, Packing};

impl Packing for Streams {
    type Packed = Box<[u8]>;

    fn pack(&mut self, room: &mut Box<[u8]>) -> Option<Box<[u8]>> {
        if !self.is_settled() {
            return None;
        }
        let Self {
            side,
            windows,
            max_send_buffer,
            table,
            local,
            remote,
            peer,
            flow,
            queues: _,
            send_buffer,
            unsent: _,
            blocked: _,
            awaited: _,
            is_receiving_early,
            statistics,
        } = self;
        let mut packer = Packer::new();
        let into = &mut packer;
        side.pack(into);
        windows.pack(into);
        max_send_buffer.pack(into);
        table.pack(into);
        local.pack(into);
        remote.pack(into);
        peer.pack(into);
        flow.pack(into);
        send_buffer.pack(into);
        is_receiving_early.pack(into);
        statistics.pack(into);
        Some(packer.finish_in(core::mem::take(room)))
    }

    fn take_room(packed: &mut Box<[u8]>) -> Box<[u8]> {
        core::mem::take(packed)
    }

    fn unpack(packed: &Box<[u8]>) -> Self {
        let from = &mut Unpacker::new(packed);
        Self {
            side: Pack::unpack(from),
            windows: Pack::unpack(from),
            max_send_buffer: Pack::unpack(from),
            table: super::Table::unpack(from),
            local: Pack::unpack(from),
            remote: Pack::unpack(from),
            peer: Pack::unpack(from),
            flow: Pack::unpack(from),
            queues: OnDemand::default(),
            send_buffer: Pack::unpack(from),
            unsent: 0,
            blocked: 0,
            awaited: 0,
            is_receiving_early: Pack::unpack(from),
            statistics: Pack::unpack(from),
        }
    }
}

impl Streams {
    /// Returns whether nothing is pending: there are no frames to send, no events to report, and no
    /// data on any stream.
    fn is_settled(&self) -> bool {
        !self.queues.is_used()
            && self.blocked == 0
            && self.awaited == 0
            && !self.has_control_pending()
            && self.table.is_plain()
    }
}

/// Queries by timers and `transmit`, answered without unpacking; in packed streams nothing is
/// pending.
impl Packable<Streams> {
    /// See [`Streams::has_control_pending`].
    pub(crate) fn has_control_pending(&self) -> bool {
        self.unpacked().is_some_and(Streams::has_control_pending)
    }

    /// See [`Streams::has_data_pending`].
    pub(crate) fn has_data_pending(&self) -> bool {
        self.unpacked().is_some_and(Streams::has_data_pending)
    }

    /// See [`Streams::blocked_by`].
    pub(crate) fn blocked_by(&self) -> Option<FlowControlBlock> {
        self.unpacked()?.blocked_by()
    }

    /// See [`Streams::awaits_peer`].
    pub(crate) fn awaits_peer(&self) -> bool {
        self.unpacked().is_some_and(Streams::awaits_peer)
    }

    /// See [`Streams::has_events`].
    pub(crate) fn has_events(&self) -> bool {
        self.unpacked().is_some_and(Streams::has_events)
    }

    /// See [`Streams::next_event`].
    pub(crate) fn next_event(&mut self) -> Option<StreamEvent> {
        self.unpacked_mut()?.next_event()
    }
}
