//! A peer that moves: NAT rebinding, path validation, and datagrams off the current path
//! (RFC 9000 §8.2, §9.3).

use clearway_units::Timestamp;
use clearway_wire::{Frame, TransportErrorCode, Writer, frame};

use super::packet::{Draft, HeaderPlan};
use super::transmit::MINIMUM_INITIAL_SIZE;
use super::{Arrival, Connection, Transmit};
use crate::TransportError;
use crate::event::{ConnectionError, Event};
use crate::observer::Observation;
use crate::path::{OffPathProbe, PathChange, ProbeFrame};
use crate::space_id::SpaceId;

impl Connection {
    /// A non-probing packet with the highest number so far came from `arrival` (§9.3).
    ///
    /// A NAT may forget its mapping during the handshake as well. What the client then sends in
    /// Handshake packets shows where it is; without that the server would go on to answer nobody.
    pub(super) fn notice_peer_address(&mut self, now: Timestamp, arrival: Arrival) {
        if arrival.remote == self.paths.current().remote() || self.side.is_client() {
            return;
        }
        let probe_timeout = self.probe_timeout();
        let is_new_address =
            self.paths.on_peer_moved(now, arrival, probe_timeout, &mut self.random);
        self.on_path_replaced(now, is_new_address);
        // §9.5: a fresh connection ID keeps observers from linking the two paths, if there is one.
        self.remote_ids.rotate();
    }

    fn on_path_replaced(&mut self, now: Timestamp, is_new_address: bool) {
        let path = *self.paths.current();
        // §9.4: where only the port changed it is most likely the same path behind a NAT, and what is
        // known of it stays.
        if is_new_address
            && let Err(error) = self.recovery.on_new_path(
                path.generation(),
                now,
                u64::from(self.config.max_datagram_size),
            )
        {
            self.fail(now, error);
            return;
        }
        self.observe(
            now,
            &Observation::PathUpdated {
                remote: path.remote(),
                is_validated: path.is_validated(),
                is_new_path: is_new_address,
            },
        );
        self.events.push_back(Event::PeerMoved(path.remote()));
    }

    pub(super) fn receive_path_response(&mut self, now: Timestamp, data: [u8; 8]) {
        if self.paths.on_response(data) {
            let remote = self.paths.current().remote();
            let updated =
                Observation::PathUpdated { remote, is_validated: true, is_new_path: false };
            self.observe(now, &updated);
        }
    }

    pub(super) fn on_path_deadline(&mut self, now: Timestamp) {
        if self.paths.deadline().is_none_or(|deadline| deadline > now) {
            return;
        }
        match self.paths.on_deadline(now, &mut self.random) {
            None => {}
            Some(PathChange::Reverted) => self.on_path_replaced(now, true),
            Some(PathChange::Failed) => {
                let code = TransportErrorCode::NO_VIABLE_PATH;
                let error = TransportError::new(code, "the peer's address could not be validated");
                self.abandon(now, ConnectionError::TransportError(error));
            }
        }
    }

    /// A datagram for an address that is not the current path's.
    pub(super) fn transmit_path_probe(
        &mut self,
        now: Timestamp,
        buffer: &mut [u8],
    ) -> Option<Transmit> {
        if !self.handshake.protection().can_seal(SpaceId::Application) {
            return None;
        }
        let probe = self.paths.next_off_path()?;
        let size = self.build_path_probe(now, buffer, &probe)?;
        self.paths.on_sent_off_path(probe.remote, size as u64);
        Some(Transmit {
            destination: probe.remote,
            source_ip: probe.local_ip,
            size,
            segment_size: None,
        })
    }

    fn build_path_probe(
        &mut self,
        now: Timestamp,
        buffer: &mut [u8],
        probe: &OffPathProbe,
    ) -> Option<usize> {
        let credit = usize::try_from(probe.credit).unwrap_or(usize::MAX);
        let room = buffer.get_mut(..MINIMUM_INITIAL_SIZE.min(credit))?;
        let mut writer = Writer::new(room);
        let space = SpaceId::Application;
        let plan = HeaderPlan {
            space,
            number: self.recovery.next_packet_number(space).ok()?,
            largest_acknowledged: self.recovery.largest_acknowledged(space),
            source: self.identity.local,
            destination: self.remote_ids.current(),
            token: &[],
            key_phase: self.handshake.protection().key_phase(),
        };
        let mut tokens = core::mem::take(self.outgoing.tokens.get_mut(space));
        let draft = Draft::write(&mut writer, &plan, &mut tokens, |contents| {
            let frame = match probe.frame {
                ProbeFrame::Challenge(data) => Frame::PathChallenge(frame::PathChallenge { data }),
                ProbeFrame::Response(data) => Frame::PathResponse(frame::PathResponse { data }),
            };
            // The room is at least that of an answer to a datagram that held such a frame.
            let _ = contents.push(&frame, None);
        });
        *self.outgoing.tokens.get_mut(space) = tokens;
        let mut draft = draft?;
        draft.is_path_probe = true;
        draft.pad_datagram(&mut writer, MINIMUM_INITIAL_SIZE);
        let size = writer.written();
        self.outgoing.drafts.clear();
        self.outgoing.drafts.push(draft);
        match self.protect_and_stage(now, writer.filled_mut()) {
            Ok(()) => Some(size),
            Err(error) => {
                self.fail(now, error);
                None
            }
        }
    }
}
