//! The connection IDs that this endpoint issues (RFC 9000 §5.1.1).

use std::collections::VecDeque;
use std::sync::Arc;

use clearway_units::Random;
use clearway_units::memory::{OnDemand, Unused};
use clearway_wire::{ConnectionId, Frame, TransportErrorCode, VarInt, frame};

use super::{ConnectionIdGenerator, ResetKey};
use crate::TransportError;
use crate::contents::PacketContents;
use crate::token::Token;

/// The most IDs that are active at a time, even if the peer would store more.
const MAX_ACTIVE: u64 = 8;

/// A change of the connection IDs that are routed to this connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RoutingChange {
    /// This ID now belongs to the connection.
    Added(ConnectionId),
    /// This ID no longer belongs to the connection.
    Removed(ConnectionId),
}

#[derive(Debug)]
struct Issued {
    sequence: u64,
    id: ConnectionId,
    /// NEW_CONNECTION_ID is to be sent, for the first time or again.
    pending: bool,
    /// The frame has been sent, so the peer may know the ID.
    was_sent: bool,
}

/// Changes of which the endpoint does not know yet.
#[derive(Debug, Default)]
struct Changes(VecDeque<RoutingChange>);

impl Unused for Changes {
    fn unused() -> &'static Self {
        static UNUSED: Changes = Changes(VecDeque::new());
        &UNUSED
    }
}

/// The IDs that the peer may use, oldest first.
#[derive(Debug)]
pub(crate) struct LocalIds {
    generator: Arc<dyn ConnectionIdGenerator>,
    reset_key: ResetKey,
    active: Vec<Issued>,
    next_sequence: u64,
    limit: u64,
    changes: OnDemand<Changes>,
}

impl LocalIds {
    /// `first` is the Source Connection ID of the handshake: number 0.
    pub(crate) fn new(
        first: ConnectionId,
        generator: Arc<dyn ConnectionIdGenerator>,
        reset_key: ResetKey,
    ) -> Self {
        let active = vec![Issued { sequence: 0, id: first, pending: false, was_sent: true }];
        // The endpoint registers the first ID itself.
        let changes = OnDemand::default();
        Self { generator, reset_key, active, next_sequence: 1, limit: 1, changes }
    }

    /// The ID in the preferred_address transport parameter has number 1, and needs no frame (RFC 9000 §5.1.1).
    pub(crate) fn add_preferred(&mut self, id: ConnectionId) {
        let sequence = self.next_sequence;
        self.next_sequence = self.next_sequence.saturating_add(1);
        self.changes.0.push_back(RoutingChange::Added(id));
        self.active.push(Issued { sequence, id, pending: false, was_sent: true });
    }

    /// Gives back the memory for more IDs than there are.
    pub(crate) fn rest(&mut self) {
        self.active.shrink_to_fit();
        if self.changes.0.is_empty() {
            self.changes.give_back();
        }
    }

    /// The length of our connection IDs in bytes.
    pub(crate) fn id_len(&self) -> usize {
        self.generator.len()
    }

    /// Sets how many of our IDs the peer stores (its active_connection_id_limit).
    pub(crate) fn set_peer_limit(&mut self, limit: u64, random: &mut Random) {
        self.limit = limit.min(MAX_ACTIVE);
        self.issue(random);
    }

    fn issue(&mut self, random: &mut Random) {
        while (self.active.len() as u64) < self.limit {
            let id = self.generator.generate(random);
            let sequence = self.next_sequence;
            self.next_sequence = self.next_sequence.saturating_add(1);
            self.changes.0.push_back(RoutingChange::Added(id));
            self.active.push(Issued { sequence, id, pending: true, was_sent: false });
        }
    }

    /// Whether a NEW_CONNECTION_ID is to be sent.
    pub(crate) fn has_pending(&self) -> bool {
        self.active.iter().any(|issued| issued.pending)
    }

    /// Writes the pending NEW_CONNECTION_ID frames, as far as there is room.
    pub(crate) fn write_frames(&mut self, contents: &mut PacketContents<'_, '_>) {
        for issued in self.active.iter_mut().filter(|issued| issued.pending) {
            let frame = frame::NewConnectionId {
                sequence: VarInt::saturating(issued.sequence),
                retire_prior_to: VarInt::ZERO,
                id: issued.id,
                reset_token: self.reset_key.token(&issued.id),
            };
            let token = Token::NewConnectionId { sequence: issued.sequence };
            if contents.push(&Frame::NewConnectionId(frame), Some(token)).is_err() {
                return;
            }
            issued.pending = false;
            issued.was_sent = true;
        }
    }

    /// The frame with this sequence number was acknowledged.
    pub(crate) fn on_acked(&mut self, sequence: u64) {
        self.set_pending(sequence, false);
    }

    /// The frame was lost: it is sent again, unless the ID has been retired since.
    pub(crate) fn on_lost(&mut self, sequence: u64) {
        self.set_pending(sequence, true);
    }

    fn set_pending(&mut self, sequence: u64, pending: bool) {
        if let Some(issued) = self.active.iter_mut().find(|issued| issued.sequence == sequence) {
            issued.pending = pending;
        }
    }

    /// The peer retires an ID, and gets another in its place (RFC 9000 §19.16). `destination` is the ID of the packet
    /// with the frame.
    pub(crate) fn on_retire(
        &mut self,
        retired: &frame::RetireConnectionId,
        destination: ConnectionId,
        random: &mut Random,
    ) -> Result<(), TransportError> {
        let code = TransportErrorCode::PROTOCOL_VIOLATION;
        let violation = |violation| Err(TransportError::rule(code, violation, "RFC 9000 §19.16"));
        let sequence = retired.sequence.get();
        if sequence >= self.next_sequence {
            return violation("a connection ID was retired that was never issued");
        }
        let position = self.active.iter().position(|issued| issued.sequence == sequence);
        let Some(issued) = position.and_then(|position| self.active.get(position)) else {
            return Ok(());
        };
        if !issued.was_sent {
            return violation("a connection ID was retired that was never sent");
        }
        if issued.id == destination {
            return violation("a connection ID was retired by a packet that uses it");
        }
        self.changes.0.push_back(RoutingChange::Removed(issued.id));
        self.active.retain(|issued| issued.sequence != sequence);
        self.issue(random);
        Ok(())
    }

    /// The next change that the endpoint has to apply to its routes.
    pub(crate) fn next_routing_change(&mut self) -> Option<RoutingChange> {
        self.changes.used()?.0.pop_front()
    }

    /// All IDs that the peer may use.
    pub(crate) fn active(&self) -> impl Iterator<Item = ConnectionId> + '_ {
        self.active.iter().map(|issued| issued.id)
    }
}

#[cfg(test)]
#[path = "local_tests.rs"]
mod tests;
