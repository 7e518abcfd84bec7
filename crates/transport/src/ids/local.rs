//! Connection IDs issued by this endpoint (RFC 9000 §5.1.1).

use std::collections::VecDeque;
use std::sync::Arc;

use clearway_units::Random;
use clearway_units::memory::{OnDemand, Unused};
use clearway_wire::{ConnectionId, Frame, TransportErrorCode, VarInt, frame};

use super::{ConnectionIdGenerator, FixedResetKey, ResetKey};
use crate::TransportError;
use crate::contents::PacketContents;
use crate::token::Token;

/// The maximum number of active IDs, even if the peer would store more. There are up to twice as
/// many while they are being replaced.
const MAX_ACTIVE: u64 = 8;

/// A change to the connection IDs that are routed to this connection.
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
    announcement: Announcement,
}

/// The delivery state of an ID's NEW_CONNECTION_ID frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Announcement {
    /// The frame has not been sent, so the peer cannot know the ID.
    Unsent,
    /// The frame was lost and has to be sent again.
    Lost,
    /// The frame is in flight or acknowledged, or the ID needs none.
    Sent,
}

impl Issued {
    /// Returns whether a NEW_CONNECTION_ID frame has to be sent, for the first time or again.
    fn is_pending(&self) -> bool {
        self.announcement != Announcement::Sent
    }
}

/// Changes that the endpoint has not applied yet.
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
    reset_key: FixedResetKey,
    active: Vec<Issued>,
    next_sequence: u64,
    limit: u64,
    /// The configuration of the latest IDs, from `current_from` on. All IDs before have an earlier
    /// configuration.
    rotation: u64,
    current_from: u64,
    /// The advertised Retire Prior To: the peer has to retire all IDs before this one.
    retire_prior_to: u64,
    changes: OnDemand<Changes>,
}

impl LocalIds {
    /// Creates the set with the Source Connection ID of the handshake, which has sequence number 0.
    pub(crate) fn new(
        generator: Arc<dyn ConnectionIdGenerator>,
        reset_key: &ResetKey,
        random: &mut Random,
    ) -> Self {
        let rotation = generator.rotation();
        let mut ids = Self {
            generator,
            reset_key: reset_key.fixed(),
            active: Vec::with_capacity(1),
            next_sequence: 0,
            limit: 1,
            rotation,
            current_from: 0,
            retire_prior_to: 0,
            changes: OnDemand::default(),
        };
        // The endpoint registers the first ID itself.
        ids.add(false, random);
        ids
    }

    /// The Source Connection ID of the handshake, until it is retired.
    pub(crate) fn first(&self) -> ConnectionId {
        self.active.first().map_or(ConnectionId::default(), |first| first.id)
    }

    /// Adds the ID of the preferred_address transport parameter: it has sequence number 1 and needs
    /// no frame (RFC 9000 §5.1.1).
    pub(crate) fn add_preferred(&mut self, random: &mut Random) -> ConnectionId {
        let id = self.add(false, random);
        self.changes.0.push_back(RoutingChange::Added(id));
        id
    }

    /// Adds an ID of the generator's configuration, and queues its frame if `needs_frame`.
    fn add(&mut self, needs_frame: bool, random: &mut Random) -> ConnectionId {
        // Check before generating the ID: if the configuration changes in between, the ID counts as
        // an earlier one and is replaced needlessly. In the other order an earlier ID would stay.
        self.note_rotation();
        let id = self.generator.generate(random);
        let sequence = self.next_sequence;
        self.next_sequence = self.next_sequence.saturating_add(1);
        let announcement = if needs_frame { Announcement::Unsent } else { Announcement::Sent };
        self.active.push(Issued { sequence, id, announcement });
        id
    }

    /// Assigns the IDs issued from here on to the generator's new configuration, if it has switched
    /// to one.
    fn note_rotation(&mut self) {
        let rotation = self.generator.rotation();
        if rotation > self.rotation {
            self.rotation = rotation;
            self.current_from = self.next_sequence;
        }
    }

    /// Releases excess capacity.
    pub(crate) fn compact(&mut self) {
        self.active.shrink_to_fit();
        if self.changes.0.is_empty() {
            self.changes.release();
        }
    }

    /// Returns the length of this endpoint's connection IDs in bytes.
    pub(crate) fn id_len(&self) -> usize {
        self.generator.len()
    }

    /// Sets the number of IDs that the peer stores (its active_connection_id_limit).
    pub(crate) fn set_peer_limit(&mut self, limit: u64, random: &mut Random) {
        self.limit = limit.min(MAX_ACTIVE);
        self.issue(random);
    }

    /// Issues IDs up to the peer's limit, not counting those that the peer has to retire.
    fn issue(&mut self, random: &mut Random) {
        if self.id_len() == 0 {
            return;
        }
        let asked = |issued: &&Issued| issued.sequence >= self.retire_prior_to;
        let kept = self.active.iter().filter(asked).count() as u64;
        for _ in kept..self.limit {
            let id = self.add(true, random);
            self.changes.0.push_back(RoutingChange::Added(id));
        }
    }

    /// Replaces the IDs of earlier configurations, if there are any (RFC 9000 §5.1.2). The new IDs
    /// exceed the peer's limit until the peer has processed one of the frames, each of which has a
    /// Retire Prior To that covers the excess (§5.1.1).
    ///
    /// Does nothing while the peer has IDs left that it already has to retire: another replacement
    /// waits until then, as §5.1.2 recommends, so a peer that never retires IDs gets at most one
    /// set of replacements.
    pub(crate) fn replace(&mut self, random: &mut Random) {
        self.note_rotation();
        let has_earlier = self.active.iter().any(|issued| issued.sequence < self.current_from);
        if !has_earlier || self.awaits_retirement() {
            return;
        }
        self.withdraw_unsent();
        self.retire_prior_to = self.current_from;
        self.issue(random);
    }

    /// Returns whether the peer still uses IDs that it has to retire.
    fn awaits_retirement(&self) -> bool {
        self.active.iter().any(|issued| issued.sequence < self.retire_prior_to)
    }

    /// Withdraws the latest IDs that the peer cannot know yet, because it would not retire them.
    /// Their sequence numbers are reused, since sequence numbers increase by one (§5.1.1).
    fn withdraw_unsent(&mut self) {
        // Frames are sent in the order of their sequence numbers.
        while let Some(last) = self.active.pop_if(|last| last.announcement == Announcement::Unsent)
        {
            self.changes.0.push_back(RoutingChange::Removed(last.id));
            self.next_sequence = last.sequence;
        }
        self.current_from = self.current_from.min(self.next_sequence);
    }

    /// Returns whether a NEW_CONNECTION_ID frame has to be sent.
    pub(crate) fn has_pending(&self) -> bool {
        self.active.iter().any(Issued::is_pending)
    }

    /// Writes the pending NEW_CONNECTION_ID frames that fit.
    pub(crate) fn write_frames(&mut self, contents: &mut PacketContents<'_, '_>) {
        for issued in self.active.iter_mut().filter(|issued| issued.is_pending()) {
            let frame = frame::NewConnectionId {
                sequence: VarInt::saturating(issued.sequence),
                // This must not exceed the sequence number (§19.15), as it would when the frame of
                // an ID that must itself be retired is retransmitted.
                retire_prior_to: VarInt::saturating(self.retire_prior_to.min(issued.sequence)),
                id: issued.id,
                reset_token: self.reset_key.token(&issued.id),
            };
            let token = Token::NewConnectionId { sequence: issued.sequence };
            if contents.push(&Frame::NewConnectionId(frame), Some(token)).is_err() {
                return;
            }
            issued.announcement = Announcement::Sent;
        }
    }

    /// Handles the acknowledgment of the frame with this sequence number.
    pub(crate) fn on_acked(&mut self, sequence: u64) {
        self.note_announcement(sequence, Announcement::Sent);
    }

    /// Handles the loss of the frame, which is retransmitted unless the ID has been retired since.
    pub(crate) fn on_lost(&mut self, sequence: u64) {
        self.note_announcement(sequence, Announcement::Lost);
    }

    fn note_announcement(&mut self, sequence: u64, announcement: Announcement) {
        if let Some(issued) = self.active.iter_mut().find(|issued| issued.sequence == sequence) {
            issued.announcement = announcement;
        }
    }

    /// Retires an ID for the peer and issues another in its place (RFC 9000 §19.16). `destination`
    /// is the Destination Connection ID of the packet that carried the frame.
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
            return violation("a retired connection ID was never issued");
        }
        let position = self.active.iter().position(|issued| issued.sequence == sequence);
        let Some(issued) = position.and_then(|position| self.active.get(position)) else {
            return Ok(());
        };
        if issued.announcement == Announcement::Unsent {
            return violation("a retired connection ID was never sent");
        }
        if issued.id == destination {
            return violation("a connection ID was retired in a packet that was sent to it");
        }
        self.changes.0.push_back(RoutingChange::Removed(issued.id));
        self.active.retain(|issued| issued.sequence != sequence);
        self.issue(random);
        if sequence < self.retire_prior_to {
            // The last ID to be retired is gone, and the configuration may have changed again
            // since.
            self.replace(random);
        }
        Ok(())
    }

    /// Returns the next change for the endpoint's routes.
    pub(crate) fn next_routing_change(&mut self) -> Option<RoutingChange> {
        self.changes.used()?.0.pop_front()
    }

    /// Returns all IDs that the peer may use.
    pub(crate) fn active(&self) -> impl Iterator<Item = ConnectionId> + '_ {
        self.active.iter().map(|issued| issued.id)
    }
}

#[cfg(test)]
#[path = "local_tests.rs"]
mod tests;
