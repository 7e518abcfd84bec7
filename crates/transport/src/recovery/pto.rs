use core::time::Duration;

use clearway_units::Timestamp;
use clearway_units::packed::Pack;

use super::rtt::Rtt;
use crate::SpaceId;
use crate::space_id::PerSpace;

/// The maximum number of times that the backoff doubles. From 1 ms that is over a minute; the idle
/// timeout ends most connections earlier.
const MAX_BACKOFF_EXPONENT: u32 = 16;

/// The state that decides whether, when and in which space the probe timer runs (RFC 9002 §6.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PtoContext {
    /// Whether the handshake is confirmed (RFC 9001 §4.1.2).
    pub(crate) handshake_confirmed: bool,
    /// Whether the peer is known to have validated this endpoint's address; always true on a server
    /// (RFC 9002 §6.2.2.1).
    pub(crate) peer_completed_address_validation: bool,
    /// Whether a server must not send before it receives more (RFC 9000 §8.1).
    pub(crate) at_amplification_limit: bool,
    /// Whether Handshake packets can be sent.
    pub(crate) has_handshake_keys: bool,
    /// The time by which the peer may delay the acknowledgment of 1-RTT packets.
    pub(crate) max_ack_delay: Duration,
    /// Whether this endpoint is the client.
    pub(crate) is_client: bool,
}

impl PtoContext {
    /// Returns whether this client must keep sending because the server may not have validated its
    /// address: the server may be waiting for more bytes before it can answer.
    fn must_unblock_server(&self) -> bool {
        self.is_client && !self.peer_completed_address_validation && !self.handshake_confirmed
    }

    fn max_ack_delay_in(&self, space: SpaceId) -> Duration {
        if space == SpaceId::Application { self.max_ack_delay } else { Duration::ZERO }
    }
}

/// The probe timer (RFC 9002 §6.2): one for all spaces, with one backoff.
#[derive(Debug, Pack)]
pub(super) struct ProbeTimer {
    /// The number of consecutive expirations.
    count: u32,
    /// The total number of expirations.
    total: u64,
    /// The start of each space's timeout: the space's last ack-eliciting packet or expiration.
    since: PerSpace<Timestamp>,
    /// The start of the timeout that runs while no packet is outstanding.
    idle_since: Timestamp,
    /// Whether the Application space ignores the backoff once.
    skips_backoff: bool,
}

impl ProbeTimer {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            count: 0,
            total: 0,
            since: PerSpace::new(|_| now),
            idle_since: now,
            skips_backoff: false,
        }
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Records that a packet that arms the timer was sent.
    pub(super) fn on_sent(&mut self, space: SpaceId, now: Timestamp) {
        *self.since.get_mut(space) = now;
        self.idle_since = now;
        self.skips_backoff = false;
    }

    /// Records that a packet that ends the backoff was received from the peer.
    pub(super) fn on_progress(&mut self, now: Timestamp) {
        self.idle_since = now;
    }

    /// Adjusts the timeout when no ack-eliciting packet is left in `space`. Packets that are in
    /// flight only because of padding use the timeout that runs while no packet is outstanding.
    pub(super) fn leave_padding(&mut self, space: SpaceId) {
        *self.since.get_mut(space) = self.idle_since;
    }

    /// Ends the backoff.
    pub(super) fn reset(&mut self, now: Timestamp) {
        self.count = 0;
        self.idle_since = now;
        self.skips_backoff = false;
    }

    /// Handles an expiration for `space`.
    pub(super) fn on_expired(&mut self, space: SpaceId, now: Timestamp) {
        // If the backoff was skipped, its doubling is already included in the count.
        if !self.skips_backoff {
            self.count = self.count.saturating_add(1);
        }
        self.total = self.total.saturating_add(1);
        // Probes that cannot be sent immediately must not make the timer expire again immediately.
        self.on_sent(space, now);
    }

    /// Makes the timer of the Application space due now, if a full timeout without backoff has
    /// passed since its last packet or expiration. The backoff stays the same.
    pub(super) fn expire_early(&mut self, now: Timestamp, rtt: &Rtt, context: &PtoContext) {
        let timeout = rtt.pto_base(context.max_ack_delay);
        self.skips_backoff =
            self.count > 0 && *self.since.get(SpaceId::Application) + timeout <= now;
    }

    /// Returns when the timer expires next, and for which space. `is_armed` returns whether a space
    /// has outstanding packets that the peer has to acknowledge.
    pub(super) fn next(
        &self,
        rtt: &Rtt,
        context: &PtoContext,
        is_armed: impl Fn(SpaceId) -> bool,
    ) -> Option<(Timestamp, SpaceId)> {
        if context.at_amplification_limit {
            return None;
        }
        let earliest = SpaceId::ALL
            .into_iter()
            .filter(|space| *space != SpaceId::Application || context.handshake_confirmed)
            .filter(|space| is_armed(*space))
            .map(|space| {
                let max_ack_delay = context.max_ack_delay_in(space);
                let timeout = if self.skips_backoff && space == SpaceId::Application {
                    rtt.pto_base(max_ack_delay)
                } else {
                    self.timeout(rtt, max_ack_delay)
                };
                (*self.since.get(space) + timeout, space)
            })
            .min();
        if earliest.is_some() {
            return earliest;
        }
        // Before the handshake is confirmed, 1-RTT packets do not arm the timer (RFC 9002 §6.2.1),
        // so if only those are outstanding, the handshake is probed.
        let must_probe = context.must_unblock_server() || SpaceId::ALL.into_iter().any(&is_armed);
        let space = if context.has_handshake_keys { SpaceId::Handshake } else { SpaceId::Initial };
        must_probe.then(|| (self.idle_since + self.timeout(rtt, Duration::ZERO), space))
    }

    /// Returns the timeout with its backoff.
    fn timeout(&self, rtt: &Rtt, max_ack_delay: Duration) -> Duration {
        let doubled = 1_u32.checked_shl(self.count.min(MAX_BACKOFF_EXPONENT)).unwrap_or(u32::MAX);
        rtt.pto_base(max_ack_delay).saturating_mul(doubled)
    }
}

#[cfg(test)]
#[path = "pto_tests.rs"]
mod tests;
