use core::time::Duration;

use clearway_units::Timestamp;
use clearway_units::packed::Pack;

use super::rtt::Rtt;
use crate::SpaceId;
use crate::space_id::PerSpace;

/// The backoff doubles at most this many times. From 1 ms that is over a minute; the idle timeout ends most connections
/// earlier.
const MAX_BACKOFF_EXPONENT: u32 = 16;

/// What decides whether, when and where the probe timer runs (RFC 9002 §6.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PtoContext {
    /// The handshake is confirmed (RFC 9001 §4.1.2).
    pub(crate) handshake_confirmed: bool,
    /// The peer is known to have validated this side's address; always so on a server
    /// (RFC 9002 §6.2.2.1).
    pub(crate) peer_completed_address_validation: bool,
    /// A server may send nothing before it receives more (RFC 9000 §8.1).
    pub(crate) at_amplification_limit: bool,
    /// Handshake packets can be sent.
    pub(crate) has_handshake_keys: bool,
    /// How long the peer may wait before it acknowledges 1-RTT packets.
    pub(crate) max_ack_delay: Duration,
    /// This is the client.
    pub(crate) is_client: bool,
}

impl PtoContext {
    /// A client that is not sure of this must not fall silent: the server may be waiting for more
    /// bytes before it may answer.
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
    /// Expiries in a row.
    count: u32,
    /// Expiries ever.
    total: u64,
    /// From when each space's timeout runs: its last ack-eliciting packet or expiry.
    since: PerSpace<Timestamp>,
    /// From when the timeout runs that no outstanding packet asks for.
    idle_since: Timestamp,
    /// The Application space does not wait for the backoff this once.
    is_hastened: bool,
}

impl ProbeTimer {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            count: 0,
            total: 0,
            since: PerSpace::new(|_| now),
            idle_since: now,
            is_hastened: false,
        }
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// A packet that arms the timer was sent.
    pub(super) fn on_sent(&mut self, space: SpaceId, now: Timestamp) {
        *self.since.get_mut(space) = now;
        self.idle_since = now;
        self.is_hastened = false;
    }

    /// A packet of the peer was received that ends the backoff.
    pub(super) fn on_progress(&mut self, now: Timestamp) {
        self.idle_since = now;
    }

    /// Nothing is left in `space` that is ack-eliciting. What is in flight because of padding waits as long as the timeout
    /// that no outstanding packet asks for.
    pub(super) fn leave_padding(&mut self, space: SpaceId) {
        *self.since.get_mut(space) = self.idle_since;
    }

    /// The backoff ends.
    pub(super) fn reset(&mut self, now: Timestamp) {
        self.count = 0;
        self.idle_since = now;
        self.is_hastened = false;
    }

    /// The timer expired for `space`.
    pub(super) fn on_expired(&mut self, space: SpaceId, now: Timestamp) {
        // Of a backoff that was not waited for, the doubling is in the count already.
        if !self.is_hastened {
            self.count = self.count.saturating_add(1);
        }
        self.total = self.total.saturating_add(1);
        // Probes that cannot leave at once must not make the timer expire again at once.
        self.on_sent(space, now);
    }

    /// Makes the timer of the Application space due now, if a whole timeout without backoff has passed since its last packet
    /// or expiry. The backoff stays the same.
    pub(super) fn hasten(&mut self, now: Timestamp, rtt: &Rtt, context: &PtoContext) {
        let timeout = rtt.pto_base(context.max_ack_delay);
        self.is_hastened = self.count > 0 && *self.since.get(SpaceId::Application) + timeout <= now;
    }

    /// When the timer expires next, and for which space. `is_armed` returns whether a space has outstanding packets that
    /// the peer has to acknowledge.
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
                let timeout = if self.is_hastened && space == SpaceId::Application {
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
        // Before the handshake is confirmed 1-RTT packets arm nothing (RFC 9002 §6.2.1), so with them
        // alone outstanding, the handshake is probed.
        let must_probe = context.must_unblock_server() || SpaceId::ALL.into_iter().any(&is_armed);
        let space = if context.has_handshake_keys { SpaceId::Handshake } else { SpaceId::Initial };
        must_probe.then(|| (self.idle_since + self.timeout(rtt, Duration::ZERO), space))
    }

    /// The timeout with its backoff.
    fn timeout(&self, rtt: &Rtt, max_ack_delay: Duration) -> Duration {
        let doubled = 1_u32.checked_shl(self.count.min(MAX_BACKOFF_EXPONENT)).unwrap_or(u32::MAX);
        rtt.pto_base(max_ack_delay).saturating_mul(doubled)
    }
}

#[cfg(test)]
#[path = "pto_tests.rs"]
mod tests;
