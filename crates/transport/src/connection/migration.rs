//! Migration by the peer: NAT rebinding, path validation, and datagrams to addresses other than the
//! current path's (RFC 9000 §8.2, §9.3).

use clearway_units::Timestamp;
use clearway_wire::{ConnectionId, Frame, TransportErrorCode, Writer, frame};

use super::receive::PacketContext;
use super::{Connection, Transmit};
use crate::TransportError;
use crate::address::PathAddress;
use crate::ecn::EcnCodepoint;
use crate::event::{ConnectionError, Event};
use crate::observer::Observation;
use crate::path::{MINIMUM_INITIAL_SIZE, OffPathProbe, PathChange, ProbeFrame};
use crate::space_id::SpaceId;

impl Connection {
    /// Handles a non-probing packet with the highest number so far (§9.3).
    ///
    /// A NAT may also rebind during the handshake. The client's Handshake packets then show its new
    /// address; if the server did not follow them, it would send to the old one forever.
    pub(super) fn notice_peer_address(&mut self, now: Timestamp, packet: &PacketContext) {
        if self.side.is_client() {
            return;
        }
        let (arrival, local_id) = (packet.arrival, packet.destination);
        let old = *self.paths.current();
        if arrival.address() == old.address() {
            self.paths.current_mut().set_local_id(local_id);
            self.notice_peer_at_current(packet);
            return;
        }
        if arrival.socket != old.socket() {
            return self.on_packet_at_other_socket(now, packet, true);
        }
        let peer_kept_id = local_id == old.local_id();
        if !self.remote_ids.follow(old.address(), arrival.address(), peer_kept_id) {
            // §9.3: nothing can be sent to the new address without an unused connection ID. The
            // next packet may supply one.
            return self.release_unused_connection_ids(now);
        }
        let probe_timeout = self.probe_timeout();
        let is_new_address =
            self.paths.on_peer_moved(now, arrival, local_id, probe_timeout, &mut self.random);
        self.notice_peer_at_current(packet);
        self.on_path_replaced(now, is_new_address);
        self.release_connection_ids();
    }

    fn notice_peer_at_current(&mut self, packet: &PacketContext) {
        if packet.space == SpaceId::Application {
            self.paths.current_mut().set_newest(packet.number);
        }
    }

    /// Retires the connection IDs of abandoned paths once no path is being validated (§5.1.2). A
    /// server never moves on its own, so a client needs only the IDs of paths that it uses itself.
    pub(super) fn release_connection_ids(&mut self) {
        if self.paths.is_settled() {
            let (paths, is_client) = (&self.paths, self.side.is_client());
            let may_move = |address| !is_client && paths.may_be_left_for(address);
            self.remote_ids.release(|address| !paths.holds(address) && !may_move(address));
        }
    }

    /// Retires the IDs of paths that the peer has not moved to, when there is no connection ID for
    /// another path, so that the peer issues new IDs.
    fn release_unused_connection_ids(&mut self, now: Timestamp) {
        if self.paths.is_settled() {
            let paths = &self.paths;
            self.remote_ids
                .release(|address| !paths.holds(address) && paths.has_stayed(address, now));
        }
    }

    fn on_path_replaced(&mut self, now: Timestamp, is_new_address: bool) {
        let path = *self.paths.current();
        if !self.start_path(now, is_new_address) {
            return;
        }
        self.observe(
            now,
            &Observation::PathUpdated {
                socket: path.socket(),
                remote: path.remote(),
                is_validated: path.is_validated(),
                is_new_path: is_new_address,
            },
        );
        self.events.push_back(Event::PeerMigrated(path.remote()));
    }

    /// Resets the path state (RFC 9000 §9.4), or keeps it if only a port has changed. Returns
    /// whether that succeeded.
    pub(super) fn start_path(&mut self, now: Timestamp, is_new_address: bool) -> bool {
        let path = *self.paths.current();
        self.unsent = None;
        if is_new_address {
            self.paths.mtu_mut().restart(path.remote().ip());
        }
        let datagram_size = self.max_datagram_size() as u64;
        if is_new_address {
            if let Err(error) =
                self.recovery.get_mut().on_new_path(path.generation(), now, datagram_size)
            {
                self.fail(now, error);
                return false;
            }
        } else {
            self.recovery.get_mut().on_new_port(now);
            self.probe_new_port(now);
        }
        true
    }

    /// Sends one packet with a PATH_CHALLENGE regardless of the window and the pacer: the packets
    /// in flight were sent to the old port and are lost, but still fill the window, and nothing
    /// would be sent to the new port until the probe timer expires. At most one such packet is sent
    /// per probe timeout, however often the port changes.
    fn probe_new_port(&mut self, now: Timestamp) {
        let not_before = self.flags.new_port_probed_at.map(|last| last + self.probe_timeout());
        if not_before.is_none_or(|time| time <= now) {
            self.flags.new_port_probed_at = Some(now);
            self.probe(SpaceId::Application, 1);
        }
    }

    pub(super) fn receive_path_response(&mut self, now: Timestamp, data: [u8; 8]) {
        let probe_timeout = self.probe_timeout();
        if self.paths.on_response(now, data, probe_timeout, &mut self.random) {
            let path = *self.paths.current();
            let updated = Observation::PathUpdated {
                socket: path.socket(),
                remote: path.remote(),
                is_validated: true,
                is_new_path: false,
            };
            self.observe(now, &updated);
            self.release_connection_ids();
        } else {
            self.receive_candidate_response(now, data);
        }
    }

    pub(super) fn on_path_deadline(&mut self, now: Timestamp) {
        self.retry_sending(now);
        self.on_candidate_deadline(now);
        let failed = *self.paths.current();
        match self.paths.on_deadline(now, &mut self.random) {
            None => {}
            Some(PathChange::Reverted) => {
                let path = *self.paths.current();
                let peer_kept_id = failed.local_id() == path.local_id();
                self.remote_ids.follow(failed.address(), path.address(), peer_kept_id);
                // No connection ID is retired: the peer may still be at the address that could not
                // be validated.
                self.on_path_replaced(now, true);
            }
            Some(PathChange::Failed) => {
                let code = TransportErrorCode::NO_VIABLE_PATH;
                let error = TransportError::rule(
                    code,
                    "the peer's address could not be validated",
                    "RFC 9000 §8.2.4",
                );
                self.abandon(now, ConnectionError::TransportError(error));
            }
        }
    }

    /// Builds a datagram for an address other than the current path's. The current path's window
    /// does not apply: the peer may be about to leave that path because it is dead (§8.2.2). All
    /// other paths share a separate window, which limits the responses to a peer that sends
    /// challenges from ever more addresses and acknowledges none of them. A challenge that cannot
    /// be answered now is not answered later either: the peer sends another (§8.2.1).
    pub(super) fn transmit_path_probe(
        &mut self,
        now: Timestamp,
        buffer: &mut [u8],
    ) -> Option<Transmit> {
        if let Some(transmit) = self.transmit_candidate_probe(now, buffer) {
            return Some(transmit);
        }
        while !self.lifecycle.is_closed()
            && self.handshake.protection().can_seal(SpaceId::Application)
            && let Some(probe) = self.paths.next_off_path()
        {
            if !self.recovery.get().may_send_elsewhere(now, MINIMUM_INITIAL_SIZE as u64) {
                continue;
            }
            let Some(destination) = self.id_elsewhere(now, &probe) else { continue };
            let Some(size) = self.build_path_probe(now, buffer, &probe, destination) else {
                continue;
            };
            self.paths.on_sent_off_path(probe.address.remote, size as u64);
            return Some(off_path(&probe, size));
        }
        None
    }

    /// Builds a challenge for the path that this endpoint validates on its own initiative. The
    /// current path's window does not apply: that path may be dead. There are at most four in one
    /// validation, at increasing intervals (§8.2.1).
    fn transmit_candidate_probe(&mut self, now: Timestamp, buffer: &mut [u8]) -> Option<Transmit> {
        if self.lifecycle.is_closed() {
            return None;
        }
        let probe = self.paths.next_candidate_probe(now)?;
        let destination = self.reserve_id(now, probe.address)?;
        let size = self.build_path_probe(now, buffer, &probe, destination)?;
        self.paths.on_candidate_sent(size);
        self.paths.on_sent_off_path(probe.address.remote, size as u64);
        Some(off_path(&probe, size))
    }

    /// Returns the connection ID for another address: one that is used for that address only,
    /// unless packets from there show that the peer did not change its address on purpose (§9.5).
    /// `None` if no unused one is left: no response can be sent until the peer issues another.
    fn id_elsewhere(&mut self, now: Timestamp, probe: &OffPathProbe) -> Option<ConnectionId> {
        if probe.peer_kept_id && self.side.is_server() {
            return Some(self.remote_ids.current());
        }
        self.reserve_id(now, probe.address)
    }

    /// Returns the connection ID for the path at `address`, which no other path uses (§9.5); `None`
    /// if there is no spare one.
    pub(super) fn reserve_id(
        &mut self,
        now: Timestamp,
        address: PathAddress,
    ) -> Option<ConnectionId> {
        let paths = &self.paths;
        self.remote_ids.release(|address| !paths.remembers(address));
        let id = self.remote_ids.id_elsewhere(address);
        if id.is_none() {
            self.release_unused_connection_ids(now);
        }
        id
    }

    fn build_path_probe(
        &mut self,
        now: Timestamp,
        buffer: &mut [u8],
        probe: &OffPathProbe,
        destination: ConnectionId,
    ) -> Option<usize> {
        let credit = usize::try_from(probe.credit).unwrap_or(usize::MAX);
        let room = buffer.get_mut(..MINIMUM_INITIAL_SIZE.min(credit))?;
        let mut writer = Writer::new(room);
        self.outgoing.clear_drafts();
        self.outgoing.ecn = EcnCodepoint::NotEct;
        let draft = self.draft(SpaceId::Application, destination, &mut writer, |_, contents| {
            let frame = match probe.frame {
                ProbeFrame::Challenge(data) => Frame::PathChallenge(frame::PathChallenge { data }),
                ProbeFrame::Response(data) => Frame::PathResponse(frame::PathResponse { data }),
            };
            // It fits, since a datagram with such a frame was received.
            let _ = contents.push(&frame, None);
        })?;
        draft.is_path_probe = true;
        draft.pad_datagram(&mut writer, MINIMUM_INITIAL_SIZE);
        let size = writer.written();
        match self.protect_and_stage(now, writer.filled_mut()) {
            Ok(()) => Some(size),
            Err(error) => {
                self.fail(now, error);
                None
            }
        }
    }
}

/// Returns the transmit instruction for a probe of `size` bytes.
fn off_path(probe: &OffPathProbe, size: usize) -> Transmit {
    Transmit {
        destination: probe.address.remote,
        socket: probe.address.socket,
        source_ip: probe.local_ip,
        size,
        segment_size: None,
        ecn: EcnCodepoint::NotEct,
    }
}

#[cfg(test)]
#[path = "migration_tests.rs"]
mod tests;
