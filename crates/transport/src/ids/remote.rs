//! Connection IDs issued by the peer (RFC 9000 §5.1.2).

use core::ops::Range;

use clearway_units::memory::{OnDemand, Unused};
use clearway_wire::{
    ConnectionId, Frame, PreferredAddress, ResetToken, TransportErrorCode, VarInt, frame,
};

use crate::TransportError;
use crate::address::PathAddress;
use crate::contents::PacketContents;
use crate::token::Token;

/// The limit on unacknowledged RETIRE_CONNECTION_ID frames, as a multiple of the limit on active
/// IDs. A peer that makes this endpoint retire IDs faster than it acknowledges the frames is
/// disconnected.
const MAX_RETIRING_FACTOR: u64 = 4;

/// The maximum number of sequence number ranges that this endpoint retires before the peer requests
/// it. Sequence numbers are consecutive, so only a peer that skips numbers causes more than a few
/// ranges.
const MAX_RETIRED_RANGES: usize = 256;

/// The sequence number of the connection ID in the preferred_address transport parameter (RFC 9000 §5.1.1).
const PREFERRED_ADDRESS_SEQUENCE: u64 = 1;

#[derive(Debug)]
struct Known {
    sequence: u64,
    id: ConnectionId,
    reset_token: Option<ResetToken>,
    /// The path that uses the ID, if that is not the current path. The ID must not be used on any
    /// other path (§9.5).
    elsewhere: Option<Box<PathAddress>>,
}

#[derive(Clone, Copy, Debug)]
struct Retiring {
    sequence: u64,
    owed: bool,
}

/// The peer's connection IDs: the active ones, which this endpoint may send to, and the ones that
/// it is retiring.
#[derive(Debug)]
pub(crate) struct RemoteIds {
    /// The active IDs, of which there is always at least one. The first is used on the current
    /// path; the others are used on other paths or are spare.
    active: Vec<Known>,
    retired: OnDemand<Retired>,
    /// The peer's Source Connection ID in the handshake.
    handshake: ConnectionId,
    retire_prior_to: u64,
    limit: u64,
}

/// Retired IDs. Most connections never change IDs.
#[derive(Debug, Default)]
struct Retired {
    retiring: Vec<Retiring>,
    /// Sequence numbers not below `retire_prior_to` that this endpoint has retired; a late copy of
    /// a NEW_CONNECTION_ID frame must not reactivate them.
    ranges: Vec<Range<u64>>,
}

impl Unused for Retired {
    fn unused() -> &'static Self {
        static UNUSED: Retired = Retired { retiring: Vec::new(), ranges: Vec::new() };
        &UNUSED
    }
}

impl RemoteIds {
    /// Creates the set with the ID `initial`; `limit` is this endpoint's
    /// active_connection_id_limit.
    pub(crate) fn new(initial: ConnectionId, limit: u64) -> Self {
        Self {
            active: vec![Known { sequence: 0, id: initial, reset_token: None, elsewhere: None }],
            retired: OnDemand::default(),
            handshake: initial,
            retire_prior_to: 0,
            limit,
        }
    }

    /// Releases excess capacity.
    pub(crate) fn compact(&mut self) {
        self.active.shrink_to_fit();
        let Some(retired) = self.retired.used() else { return };
        retired.retiring.shrink_to_fit();
        retired.ranges.shrink_to_fit();
        if retired.retiring.is_empty() && retired.ranges.is_empty() {
            self.retired.release();
        }
    }

    /// Returns the Destination Connection ID of the current path.
    pub(crate) fn current(&self) -> ConnectionId {
        self.active.first().map_or(ConnectionId::default(), |known| known.id)
    }

    /// Returns the peer's Source Connection ID in the handshake.
    pub(crate) fn handshake_id(&self) -> ConnectionId {
        self.handshake
    }

    /// Sets the ID that the peer chose during the handshake.
    pub(crate) fn set_from_handshake(&mut self, id: ConnectionId) {
        self.handshake = id;
        if let Some(first) = self.active.first_mut() {
            first.id = id;
        }
    }

    /// Sets the stateless reset token of the handshake's connection ID.
    pub(crate) fn set_reset_token(&mut self, token: ResetToken) {
        if let Some(first) = self.active.iter_mut().find(|known| known.sequence == 0) {
            first.reset_token = Some(token);
        }
    }

    /// Adds the ID of the server's preferred address. The ID may be used, and is retired at the
    /// server's request, whether or not this endpoint ever uses that address (RFC 9000 §5.1.1).
    pub(crate) fn on_preferred_address(&mut self, preferred: &PreferredAddress) {
        self.active.push(Known {
            sequence: PREFERRED_ADDRESS_SEQUENCE,
            id: preferred.connection_id,
            reset_token: Some(preferred.stateless_reset_token),
            elsewhere: None,
        });
    }

    /// Returns the stateless reset token of the current ID, if it has one.
    pub(crate) fn reset_token(&self) -> Option<ResetToken> {
        self.active.first().and_then(|current| current.reset_token)
    }

    /// Returns whether `token` proves that the peer has lost this connection's state. Only the
    /// token of the current ID counts, not those of spare or retired IDs (RFC 9000 §10.3.1).
    pub(crate) fn is_reset_token(&self, token: &ResetToken) -> bool {
        self.active.first().is_some_and(|current| current.reset_token == Some(*token))
    }

    /// Processes a NEW_CONNECTION_ID frame (RFC 9000 §19.15).
    pub(crate) fn on_new_connection_id(
        &mut self,
        new: &frame::NewConnectionId,
    ) -> Result<(), TransportError> {
        if self.current().is_empty() {
            return Err(TransportError::rule(
                TransportErrorCode::PROTOCOL_VIOLATION,
                "NEW_CONNECTION_ID from a peer with zero-length connection IDs",
                "RFC 9000 §19.15",
            ));
        }
        let sequence = new.sequence.get();
        self.check_agreement(new)?;
        let is_known = self.active.iter().any(|known| known.sequence == sequence);
        let is_retired = self.retired.ranges.iter().any(|range| range.contains(&sequence));
        if sequence < self.retire_prior_to {
            // The frame arrived late, and the ID is retired before it is used (§19.15).
            self.retire(sequence);
        } else if !is_known && !is_retired {
            let reset_token = Some(new.reset_token);
            self.active.push(Known { sequence, id: new.id, reset_token, elsewhere: None });
        }
        self.retire_before(new.retire_prior_to.get())?;
        if self.active.len() as u64 > self.limit {
            return Err(TransportError::rule(
                TransportErrorCode::CONNECTION_ID_LIMIT_ERROR,
                "active_connection_id_limit exceeded",
                "RFC 9000 §5.1.1",
            ));
        }
        if self.retired.retiring.len() as u64 > self.limit.saturating_mul(MAX_RETIRING_FACTOR) {
            return Err(TransportError::rule(
                TransportErrorCode::CONNECTION_ID_LIMIT_ERROR,
                "too many unacknowledged RETIRE_CONNECTION_ID frames",
                "RFC 9000 §5.1.2",
            ));
        }
        Ok(())
    }

    /// Checks that a repeated sequence number has the same ID and token, and that an ID has only
    /// one sequence number.
    fn check_agreement(&self, new: &frame::NewConnectionId) -> Result<(), TransportError> {
        let sequence = new.sequence.get();
        let disagrees = self.active.iter().any(|known| {
            let same_sequence = known.sequence == sequence;
            let same_id = known.id == new.id;
            let same_token =
                known.reset_token.is_none_or(|token| sequence == 0 || token == new.reset_token);
            same_sequence != same_id || (same_sequence && !same_token)
        });
        if disagrees {
            return Err(TransportError::rule(
                TransportErrorCode::PROTOCOL_VIOLATION,
                "NEW_CONNECTION_ID frames contradict each other",
                "RFC 9000 §19.15",
            ));
        }
        Ok(())
    }

    fn was_retired(&self, sequence: u64) -> bool {
        self.retired.retiring.iter().any(|retiring| retiring.sequence == sequence)
    }

    fn retire(&mut self, sequence: u64) {
        if !self.was_retired(sequence) {
            self.retired.retiring.push(Retiring { sequence, owed: true });
        }
    }

    fn retire_before(&mut self, retire_prior_to: u64) -> Result<(), TransportError> {
        if retire_prior_to <= self.retire_prior_to {
            return Ok(());
        }
        self.retire_prior_to = retire_prior_to;
        let goes = |known: &Known| known.sequence < retire_prior_to;
        for index in 0..self.active.len() {
            if let Some(sequence) =
                self.active.get(index).filter(|known| goes(known)).map(|known| known.sequence)
            {
                self.retire(sequence);
            }
        }
        self.active.retain(|known| !goes(known));
        if let Some(retired) = self.retired.used() {
            retired.ranges.retain(|range| range.end > retire_prior_to);
        }
        self.replace_current();
        if self.active.is_empty() {
            // Unreachable: a decoded frame has an ID that is not below its own Retire Prior To. A
            // peer must never empty the list.
            return Err(TransportError::rule(
                TransportErrorCode::PROTOCOL_VIOLATION,
                "all connection IDs were retired",
                "RFC 9000 §19.15",
            ));
        }
        Ok(())
    }

    /// Replaces the current path's ID with a spare one, if the peer has retired it. The frame that
    /// retired it has also issued a spare ID.
    fn replace_current(&mut self) {
        if let Some(spare) = self.active.iter().position(|known| known.elsewhere.is_none()) {
            self.active.swap(0, spare);
        } else if let Some(current) = self.active.first_mut() {
            current.elsewhere = None;
        }
    }

    /// Handles a change of the peer's address from `old` to `new`. With `peer_kept_id`, the peer
    /// still sends to the same connection ID: a NAT changed its address, so this endpoint also
    /// keeps its Destination Connection ID, as RFC 9000 §9.5 allows. Otherwise `new` gets a
    /// separate ID. No ID is retired: until `new` is validated, the peer may still be at `old`.
    ///
    /// Returns `false`, and changes nothing, if there is no spare ID. Nothing can then be sent to
    /// `new` until the peer issues one (§9.3).
    pub(crate) fn follow(
        &mut self,
        old: PathAddress,
        new: PathAddress,
        peer_kept_id: bool,
    ) -> bool {
        if self.current().is_empty() {
            return true;
        }
        if peer_kept_id {
            self.release(|address| address == new);
            return true;
        }
        let Some(position) = self.position_for(new) else { return false };
        self.active.swap(0, position);
        if let Some(before) = self.active.get_mut(position) {
            before.elsewhere = Some(Box::new(old));
        }
        if let Some(current) = self.active.first_mut() {
            current.elsewhere = None;
        }
        true
    }

    /// Returns the Destination Connection ID for `remote`, a path other than the current one;
    /// `None` if there is no spare ID.
    pub(crate) fn id_elsewhere(&mut self, remote: PathAddress) -> Option<ConnectionId> {
        if self.current().is_empty() {
            return Some(self.current());
        }
        let position = self.position_for(remote)?;
        let known = self.active.get_mut(position)?;
        known.elsewhere = Some(Box::new(remote));
        Some(known.id)
    }

    /// Returns whether there is an ID that no path uses.
    pub(crate) fn has_spare(&self) -> bool {
        self.active.iter().skip(1).any(|known| known.elsewhere.is_none())
    }

    /// Returns the position of the ID for the path `remote`, or of a spare one.
    fn position_for(&self, remote: PathAddress) -> Option<usize> {
        let find = |wanted: Option<PathAddress>| {
            let mut others = self.active.iter().enumerate().skip(1);
            others
                .find(|(_, known)| known.elsewhere.as_deref().copied() == wanted)
                .map(|(position, _)| position)
        };
        find(Some(remote)).or_else(|| find(None))
    }

    /// Retires the IDs of paths for which `is_over` returns true.
    pub(crate) fn release(&mut self, is_over: impl Fn(PathAddress) -> bool) {
        let goes = |known: &Known| known.elsewhere.as_deref().copied().is_some_and(&is_over);
        while let Some(position) = self.active.iter().position(goes) {
            if self.retired.ranges.len() >= MAX_RETIRED_RANGES {
                return;
            }
            let known = self.active.remove(position);
            self.record_retired(known.sequence);
            self.retire(known.sequence);
        }
    }

    fn record_retired(&mut self, sequence: u64) {
        let end = sequence.saturating_add(1);
        let ranges = &mut self.retired.ranges;
        match ranges.iter_mut().find(|range| range.end == sequence) {
            Some(range) => range.end = end,
            None => ranges.push(sequence..end),
        }
    }

    /// Returns whether a RETIRE_CONNECTION_ID frame has to be sent.
    pub(crate) fn has_pending(&self) -> bool {
        self.retired.retiring.iter().any(|retiring| retiring.owed)
    }

    /// Writes the pending RETIRE_CONNECTION_ID frames that fit.
    pub(crate) fn write_frames(&mut self, contents: &mut PacketContents<'_, '_>) {
        let Some(retired) = self.retired.used() else { return };
        for retiring in retired.retiring.iter_mut().filter(|retiring| retiring.owed) {
            let sequence = VarInt::saturating(retiring.sequence);
            let frame = Frame::RetireConnectionId(frame::RetireConnectionId { sequence });
            let token = Token::RetireConnectionId { sequence: retiring.sequence };
            if contents.push(&frame, Some(token)).is_err() {
                return;
            }
            retiring.owed = false;
        }
    }

    /// Handles the acknowledgment of the frame that retires this sequence number.
    pub(crate) fn on_acked(&mut self, sequence: u64) {
        if let Some(retired) = self.retired.used() {
            retired.retiring.retain(|retiring| retiring.sequence != sequence);
        }
    }

    /// Handles the loss of the frame, which is retransmitted.
    pub(crate) fn on_lost(&mut self, sequence: u64) {
        let Some(retired) = self.retired.used() else { return };
        if let Some(retiring) = retired.retiring.iter_mut().find(|r| r.sequence == sequence) {
            retiring.owed = true;
        }
    }
}

#[cfg(test)]
#[path = "remote_tests.rs"]
mod tests;
