//! Batches of full datagrams that contain only new stream data, while there is nothing else to
//! send. Such batches make up most of a bulk transfer. Conditions that [`Connection::transmit`]
//! checks for each datagram are checked here once per batch.

use clearway_units::Timestamp;
use clearway_wire::Writer;

use super::Connection;
use super::packet::{Draft, HeaderPlan};
use crate::TransportError;
use crate::ecn::EcnState;
use crate::space_id::SpaceId;

const SPACE: SpaceId = SpaceId::Application;

impl Connection {
    /// Fills the beginning of `room` with at most `most` datagrams of `segment` bytes that contain
    /// only new stream data. Returns their number, which is 0 if anything else has to be sent. The
    /// result is the same as when datagrams are built one by one.
    pub(super) fn build_bulk(
        &mut self,
        now: Timestamp,
        room: &mut [u8],
        segment: usize,
        most: usize,
    ) -> Result<usize, TransportError> {
        if !self.streams.get().has_more_than(segment)
            || segment != self.max_datagram_size()
            || !self.has_nothing_else()
        {
            return Ok(0);
        }
        let permitted = self.recovery.get_mut().permitted_datagrams(now, most);
        if permitted == 0 {
            return Ok(0);
        }
        let destination = self.remote_ids.current();
        let mut plan = HeaderPlan {
            space: SPACE,
            version: self.handshake.version(),
            number: self.recovery.get_mut().next_packet_number(SPACE)?,
            number_room: self.recovery.get().number_room(SPACE),
            source: self.identity.local,
            destination,
            token: &[],
            spin: self.spin_bit(destination),
            key_phase: self.handshake.protection().key_phase(),
            is_early: false,
        };
        let mut built = 0_usize;
        for datagram in room.chunks_exact_mut(segment).take(permitted) {
            plan.number = self.recovery.get_mut().next_packet_number(SPACE)?;
            let Self { streams, outgoing, .. } = self;
            let streams = streams.get_mut();
            let tokens = outgoing.buffers.tokens.get_mut(SPACE);
            let draft = Draft::write(&mut Writer::new(datagram), &plan, tokens, |contents| {
                streams.write_full_frame(contents);
            });
            let Some(draft) = draft else { break };
            self.protect(now, &draft, datagram)?;
            self.stage(&draft)?;
            built = built.saturating_add(1);
        }
        if built > 0 {
            self.paths.mtu_mut().want();
            self.paths.on_datagram_built(built.saturating_mul(segment));
        }
        Ok(built)
    }

    /// Returns whether there is only stream data to send, the handshake is confirmed, and the path
    /// is validated.
    fn has_nothing_else(&self) -> bool {
        let is_settled = self.lifecycle.is_confirmed()
            && self.paths.current().is_validated()
            && self.recovery.get().ecn_state() != EcnState::Testing
            && !self.can_send(SpaceId::Initial)
            && !self.can_send(SpaceId::Handshake)
            && self.can_send(SPACE)
            && !self.sends_early();
        is_settled
            && !self.wants_data_acknowledged_at_once()
            && *self.outgoing.probes.get(SPACE) == 0
            && !self.received.get(SPACE).has_unacknowledged()
            && !self.handshake.has_pending(SPACE)
            && !self.has_control_pending()
            && !self.streams.has_control_pending()
            && !self.datagrams.has_pending()
    }
}
