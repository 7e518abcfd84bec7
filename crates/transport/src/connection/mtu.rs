//! The datagram size: path MTU probes, and applying a changed size to the connection's other parts
//! (RFC 9000 §14, RFC 8899).

use clearway_units::Timestamp;
use clearway_wire::{Frame, Writer};

use super::packet::Draft;
use super::{Connection, Transmit};
use crate::config::TransportConfig;
use crate::ecn::EcnCodepoint;
use crate::observer::Observation;
use crate::send_failure::SendFailure;
use crate::space_id::SpaceId;
use crate::token::{MtuProbe, Token};

/// A datagram with less free space than this, in bytes, counts as full: a larger one would have
/// been useful.
const FULL_WITHIN: usize = 64;

impl Connection {
    /// Returns the largest UDP payload for the current path, in bytes, not counting MTU probes. It
    /// may change at any time: it grows when the path carries more (RFC 8899 §5.3), and falls to
    /// 1200 bytes when it no longer does (§4.3).
    pub fn datagram_size(&self) -> usize {
        self.max_datagram_size()
    }

    /// Returns the largest payload of an unreliable datagram that can be sent now, in bytes (RFC
    /// 9221); `None` if the peer does not accept any. It changes with the [datagram
    /// size](Self::datagram_size), and is never less than 1156 bytes unless the peer's
    /// `max_datagram_frame_size` limits it.
    pub fn max_datagram_payload(&self) -> Option<usize> {
        self.datagrams.max_payload()
    }

    /// Reports that the kernel refused to send the last batch because its datagrams exceed the
    /// interface's MTU (EMSGSIZE). Call this instead of [`transmitted`](Self::transmitted). A path
    /// MTU probe counts as lost, and larger sizes are not tried. If other datagrams are refused,
    /// the interface's MTU has shrunk: their contents are sent again in smaller datagrams, and the
    /// refusal is not a congestion signal. If they cannot be smaller, this is a
    /// [failure](Self::transmit_failed). A refusal on another path says nothing about the current
    /// one.
    pub fn transmit_refused(&mut self, now: Timestamp) {
        let Some(probe) = self.outgoing.mtu_probe else {
            return self.shrink_datagrams(now);
        };
        if core::mem::take(&mut self.outgoing.awaits_kernel)
            && let Err(error) = self.recovery.get_mut().refused(now)
        {
            self.fail(now, error);
            return;
        }
        self.outgoing.mtu_probe = None;
        self.outgoing.batch_elicits_ack = false;
        self.paths.mtu_mut().on_probe_refused(probe);
        self.dispatch_tokens();
        self.observe_recovery(now);
    }

    fn shrink_datagrams(&mut self, now: Timestamp) {
        if self.outgoing.is_off_path || !self.paths.mtu_mut().on_black_hole() {
            return self.transmit_failed(now, SendFailure::MtuTooSmall);
        }
        if self.abandon_batch(now) {
            self.lifecycle.repeat_close();
        }
    }

    /// Returns the largest UDP payload of the next datagram. When a silent peer is probed, the last
    /// probe is small, because the path may no longer carry large datagrams; the one before has
    /// full size, so that its acknowledgment arrives first if the path still does.
    pub(super) fn size_of_next(&self) -> usize {
        let probes = SpaceId::ALL.into_iter().map(|space| *self.outgoing.probes.get(space)).max();
        match probes {
            Some(1) => usize::from(self.paths.mtu().safe_size()),
            _ => self.max_datagram_size(),
        }
    }

    /// Builds a path MTU probe, if one is due (RFC 8899 §5.3.1, RFC 9000 §14.4).
    pub(super) fn transmit_mtu_probe(
        &mut self,
        now: Timestamp,
        buffer: &mut [u8],
    ) -> Option<Transmit> {
        let path = *self.paths.current();
        let is_probing = *self.outgoing.probes.get(SpaceId::Application) > 0;
        if !self.lifecycle.is_confirmed()
            || !path.is_validated()
            || !self.paths.is_settled()
            || is_probing
        {
            return None;
        }
        let probe = self.paths.mtu_mut().next_probe(now)?;
        let size = usize::from(probe.size);
        let Some(room) = buffer.get_mut(..size) else {
            // The driver's buffer is too small for this size.
            self.paths.mtu_mut().on_probe_refused(probe);
            return None;
        };
        if !self.recovery.get_mut().may_probe_mtu(now, u64::from(probe.size)) {
            return None;
        }
        // A probe that is lost because of its size must not count against ECN.
        self.outgoing.ecn = EcnCodepoint::NotEct;
        self.build_mtu_probe(now, room, probe)?;
        Some(Transmit {
            destination: path.remote(),
            socket: path.socket(),
            source_ip: path.local_ip(),
            size,
            segment_size: None,
            ecn: EcnCodepoint::NotEct,
        })
    }

    /// Fills `room` with a PING or IMMEDIATE_ACK, and PADDING.
    fn build_mtu_probe(&mut self, now: Timestamp, room: &mut [u8], probe: MtuProbe) -> Option<()> {
        let size = room.len();
        let destination = self.remote_ids.current();
        let mut writer = Writer::new(room);
        let is_immediate = self.asks_for_immediate_acks();
        self.outgoing.clear_drafts();
        let draft = self.draft(SpaceId::Application, destination, &mut writer, |_, contents| {
            // There is room for the frame, which takes one byte. If possible, the acknowledgment is
            // not delayed (draft-ietf-quic-ack-frequency §8.3).
            let frame = if is_immediate { Frame::ImmediateAck } else { Frame::Ping };
            let _ = contents.push(&frame, Some(Token::MtuProbe(probe)));
        })?;
        draft.is_mtu_probe = true;
        draft.pad_datagram(&mut writer, size);
        if let Err(error) = self.protect_and_stage(now, writer.filled_mut()) {
            self.fail(now, error);
            return None;
        }
        self.paths.on_datagram_built(size);
        self.paths.mtu_mut().on_probe_sent(probe);
        self.outgoing.mtu_probe = Some(probe);
        Some(())
    }

    /// Handles a filled datagram for the current path with `remaining` bytes left. While probes are
    /// not allowed yet, the datagram is ignored: it does not show how much data will remain once
    /// they are, and requests that are all sent as early data need no probe.
    pub(super) fn on_datagram_filled(&mut self, size: usize, remaining: usize) {
        let is_data = |draft: &Draft| draft.space == SpaceId::Application && draft.is_ack_eliciting;
        let is_full = size >= self.max_datagram_size() && remaining < FULL_WITHIN;
        let may_probe = self.lifecycle.is_confirmed();
        let last = self.outgoing.buffers.drafts.last();
        if may_probe && is_full && last.is_some_and(is_data) {
            self.paths.mtu_mut().want();
        }
    }

    /// Handles the acknowledgment of a probe. Its size is adopted if the window still has room for
    /// several such datagrams: otherwise the window would have to grow with the size (RFC 8899 §3,
    /// item 7).
    pub(super) fn on_mtu_probe_acknowledged(&mut self, probe: MtuProbe) {
        if self.recovery.get().has_window_for(u64::from(probe.size)) {
            self.paths.mtu_mut().on_probe_acknowledged(probe);
        } else {
            self.paths.mtu_mut().on_probe_postponed(probe);
        }
    }

    /// Passes a changed datagram size on to the connection's other parts.
    pub(super) fn follow_path_mtu(&mut self, now: Timestamp) {
        if self.recovery.get_mut().take_black_hole() {
            self.paths.mtu_mut().on_black_hole();
        }
        let (new, is_done) = (self.paths.mtu().size(), self.paths.mtu().is_complete());
        let old = core::mem::replace(&mut self.outgoing.datagram_size, new);
        let was_done = core::mem::replace(&mut self.outgoing.mtu_is_done, is_done);
        if old == new && was_done == is_done {
            return;
        }
        if old != new {
            self.recovery.get_mut().set_max_datagram_size(now, u64::from(new));
            self.datagrams.set_packet_room(TransportConfig::packet_room(usize::from(new)));
        }
        self.observe(now, &Observation::MtuUpdated { old, new, is_done });
        if old != new {
            self.observe_recovery(now);
        }
    }
}

#[cfg(test)]
#[path = "mtu_tests.rs"]
mod tests;
